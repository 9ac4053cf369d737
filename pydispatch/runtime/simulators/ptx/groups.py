"""Calls of functions, and groups of threads at one program counter."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.runtime.simulators.ptx.frame import Frame


class Activation:
    """A call of a function by some threads, or the kernel itself.

    Attributes:
        frame: The registers of the threads.
        caller: The call that made this one; None for the kernel.
        index: Positions of the threads in the caller's full frame.
        back: The caller's block of code where they continue.
        results: Copies the results to the caller.
        remaining: Number of threads that have neither returned nor exited.
        returned: Positions of the threads that have returned.
        order: Sort key: deeper calls run first.
    """

    def __init__(
        self, frame: Frame, caller: Activation | None, index: Any, back: int, results: Any, serial: int
    ) -> None:
        self.frame, self.caller, self.index, self.back, self.results = frame, caller, index, back, results
        self.remaining = frame.n
        self.returned: list[Any] = []
        self.depth: int = caller.depth + 1 if caller else 0
        self.order: tuple[int, int] = (-self.depth, serial)


class ThreadGroup:
    """Threads at the start of a block of code. index: positions in the activation's frame, ascending; None: all."""

    __slots__ = ("activation", "block", "frame", "index", "last_run", "size")

    def __init__(self, activation: Activation, block: int, index: Any) -> None:
        self.activation, self.block = activation, block
        if index is not None and index.size == activation.frame.n:
            index = None
        self.index = index
        self.size = activation.frame.n if index is None else index.size
        self.frame: Frame | None = activation.frame if index is None else None
        self.last_run = 0  # launch.steps when it last ran; round-robin scheduling picks the least

    def positions(self) -> Any:
        return np.arange(self.size) if self.index is None else self.index

    def ready_frame(self) -> Frame:
        """Return the frame of the group's threads, created on first use."""
        if self.frame is None:
            full = self.activation.frame
            self.frame = Frame(full.batch, full.code, full.threads[self.index], full.local, full, self.index)
        return self.frame

    def leave_frame(self) -> None:
        if self.frame is not None and self.index is not None:
            self.frame.flush()
            self.frame = None
