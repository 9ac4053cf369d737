"""A clock that tests set, and a gate that lets a program's calls through one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fake_program import FakeProgram, Function


class Clock:
    """A clock that stands still until a test changes `now`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """Calls of a program wait until the test lets them through."""

    def __init__(self) -> None:
        self._permits = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._is_open = False

    def __call__(self, function: Function) -> None:
        self._arrived.release()
        if not self._is_open:
            self._permits.acquire()

    def wait(self) -> None:
        """Wait until a call has begun."""
        assert self._arrived.acquire(timeout=60)

    def let(self, count: int = 1) -> None:
        """Let calls through, and wait for the next one after each."""
        for _ in range(count):
            self._permits.release()
            self.wait()

    def open(self) -> None:
        """Let all calls through from now on."""
        self._is_open = True
        self._permits.release()


@contextmanager
def gated(program: FakeProgram) -> Iterator[Gate]:
    """Make the calls of a program wait, until the end of the block at the latest."""
    program.gate = gate = Gate()
    try:
        yield gate
    finally:
        gate.open()
