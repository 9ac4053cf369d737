"""Ctrl-C: within a dispatch, at the gate of a procedure, in prepared calls, and from C.

A workgroup counts itself, so that "early" means a count of workgroups and not of seconds.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import hooked
import numpy as np
import pytest
from test_runtime_reentry import HERE, load

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact

N = 100_000  # a workgroup sleeps a millisecond: without an interrupt a run takes 50 seconds or more


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return hooked.build()


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """The handler that a program of Python begins with, and a guard against hanging."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["cpu?workers=2", "local-sync"])
def program(request: pytest.FixtureRequest, artifact: Artifact) -> Any:
    return load(artifact, request.param, lambda x: None)[1]


def ran(counts: np.ndarray[Any, Any]) -> int:
    return int(counts.sum())


def test_a_dispatch(program: Any) -> None:
    counts = np.zeros(N, np.float32)
    with pytest.raises(KeyboardInterrupt):
        program.signal(N, out=counts)
    assert hooked.SIGNAL_AT < ran(counts) < N // 10
    assert ran(program.signal(3)) == 3  # everything works as before
    with pytest.raises(KeyboardInterrupt):  # and is heard again, now that the cost of a workgroup is known
        program.signal(N)


def test_a_prepared_call(program: Any) -> None:
    counts = np.zeros(N, np.float32)
    call = program.signal.prepare(N, out=counts)
    for _ in range(2):
        counts[:] = 0
        with pytest.raises(KeyboardInterrupt):
            call()
        assert hooked.SIGNAL_AT < ran(counts) < N // 10


def test_a_procedure_keeps_its_globals(program: Any) -> None:
    program.ask_state(5)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            program.signal_state(N)
        assert program.total() == 5
    program.ask_state(5)
    assert program.total() == 10


def test_what_a_handler_raises_comes_out(program: Any) -> None:
    def handler(number: int, frame: object) -> None:
        raise LookupError("from the handler")

    signal.signal(signal.SIGINT, handler)
    with pytest.raises(LookupError, match="from the handler"):
        program.signal(N)


def test_a_handler_that_raises_nothing_ends_nothing(program: Any) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    assert ran(program.signal(300)) == 300
    assert heard == [signal.SIGINT]


def test_other_threads_are_not_interrupted(program: Any) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(ran(program.signal(300))))
    thread.start()
    thread.join()
    assert counts == [300] and heard == [signal.SIGINT]


def test_the_gate_of_a_procedure(artifact: Artifact) -> None:
    entered, release = threading.Event(), threading.Event()

    def body(x: int) -> None:
        entered.set()
        assert release.wait(300)

    _, program = load(artifact, "cpu?workers=2", body)
    holder = threading.Thread(target=lambda: program.ask_state(1))
    holder.start()
    entered.wait()

    def interrupt() -> None:
        time.sleep(0.3)  # when it is at the gate; before that the test is as right, and easier
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    guard = threading.Timer(200, release.set)
    guard.start()
    with pytest.raises(KeyboardInterrupt):
        helper.start()
        program.ask_state(1)
    assert holder.is_alive()  # the gate was shut the whole time
    helper.join()
    release.set()
    holder.join()
    guard.cancel()
    assert program.total() == 1
    program.ask_state(1)
    assert program.total() == 2


INITIALISER = """
import sys, time; sys.path.insert(0, {here!r})
import hooked, signal, os
import pydispatch as pd
from test_runtime_reentry import load
device, program = load(hooked.build(), "cpu?workers=2", lambda x: None)
try:
    program.signal({n})
except KeyboardInterrupt:
    print("heard")
"""


def test_a_process_of_its_own() -> None:
    text = INITIALISER.format(here=str(HERE), n=N)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout, done.stderr) == ("heard\n", "")


def test_closing_afterwards(artifact: Artifact) -> None:
    device, program = load(artifact, "cpu?workers=2", lambda x: None)
    with pytest.raises(KeyboardInterrupt):
        program.signal(N)
    device.close()
    assert ran(program.ask(10)) == 10
    assert isinstance(device, type(pd.device("cpu")))


def test_the_condition_of_a_future_is_released() -> None:
    """A handler raises when the lock of the condition has been acquired, and the `with` block has not begun."""
    lock = threading.RLock()
    lock.acquire()
    raise_signal = getattr(ctypes.CDLL(None), "raise")  # runs no handler, unlike that of `signal`
    enter = functools.partial(raise_signal, signal.SIGINT.value)
    wrapped: Any = SimpleNamespace(acquire=None, release=None, __enter__=enter, __exit__=lock.__exit__)
    condition = type(pd.Future()._condition)(wrapped)
    with pytest.raises(KeyboardInterrupt), condition:
        pass
    assert not lock._is_owned()  # type: ignore[attr-defined]
