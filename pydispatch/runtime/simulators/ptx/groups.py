"""Activations (calls of a PTX function by some threads), and groups of their threads at one program counter. A frame
has the registers of threads as arrays; a block of code is a straight sequence of instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.runtime.simulators.ptx.frame import Frame

CopyResults = Callable[[Frame, Any, Frame, Any], None]
"""Copies the results of returned threads to their caller: (callee's frame, positions in it, caller's frame, positions
in that)."""


class Activation:
    """A call of a function by some threads, or the kernel itself, which no function calls.

    `Batch.start` creates that of the kernel, `Batch.activate` that of each call. Its threads run in groups, and each
    thread ends by a return or an exit. When no thread is unfinished, `Batch` copies the results of the returned threads
    to the caller (`copy_results`), where they continue at `return_block`. If all unfinished threads are blocked, the
    returned ones continue earlier.

    Attributes:
        frame: The registers of all threads of the call.
        caller: The activation that called; None for the kernel.
        caller_positions: Positions of the threads in the caller's frame, int64 [n]; None for the kernel.
        return_block: The caller's block of code where the threads continue.
        copy_results: Copies the results to the caller; None for the kernel.
        unfinished_count: Number of threads that have neither returned nor exited.
        returned: Threads that have returned and not yet continued in the caller: for each group that has returned, an
            array of positions in `frame`, int64.
        depth: Number of calls that enclose this one; 0 for the kernel.
        priority: Sort key of groups, the least of which runs first: that of the deepest call, so that threads return
            before their caller goes on.
    """

    def __init__(
        self, frame: Frame, caller: Activation | None, caller_positions: Any, return_block: int,
        copy_results: CopyResults | None, serial: int,
    ) -> None:  # fmt: skip
        """Begin a call. Arguments are the attributes of the same name.

        serial: number of calls that began before in the batch; of calls of one depth, the oldest runs first.
        """
        self.frame, self.caller, self.caller_positions = frame, caller, caller_positions
        self.return_block, self.copy_results = return_block, copy_results
        self.unfinished_count = frame.n
        self.returned: list[Any] = []
        self.depth: int = caller.depth + 1 if caller else 0
        self.priority: tuple[int, int] = (-self.depth, serial)  # the least first: the deepest, then the oldest


class ThreadGroup:
    """Threads of an activation at the start of the same block of code, which run together.

    Attributes:
        activation: Their function call.
        block: Index of the block of code that they run next.
        index: Their positions in the activation's frame, int64 [size], ascending; None: all of its threads.
        size: Number of threads.
        frame: Their registers: the activation's frame if they are all of its threads, else copies of them while the
            group runs, and None while it does not.
        last_run: The launch's count of instructions when the group last ran; round-robin scheduling picks the least.
    """

    __slots__ = ("activation", "block", "frame", "index", "last_run", "size")

    def __init__(self, activation: Activation, block: int, index: Any) -> None:
        """Group threads of an activation at a block of code.

        index: positions of the threads in the activation's frame, int64, ascending; None for all of them.
        """
        self.activation, self.block = activation, block
        if index is not None and index.size == activation.frame.n:  # all threads need no copies of registers
            index = None
        self.index = index
        self.size = activation.frame.n if index is None else index.size
        self.frame: Frame | None = activation.frame if index is None else None  # of some threads: created when they run
        self.last_run = 0  # round-robin scheduling begins with groups that have not run

    @property
    def has_all_threads(self) -> bool:
        """Whether the group has all threads of its activation."""
        return self.index is None

    def positions(self) -> Any:
        """Return the positions of the threads in the activation's frame, int64 [size]."""
        return np.arange(self.size) if self.has_all_threads else self.index

    def acquire_frame(self) -> Frame:
        """Return the frame of the group's threads.

        For some threads of the activation it is created when they begin to run, and has copies of their registers.
        """
        if self.frame is None:
            full = self.activation.frame
            threads = full.threads[self.index]
            self.frame = Frame(full.batch, full.code, threads, full.local_offset, full, positions_in_full=self.index)
        return self.frame

    def release_frame(self) -> None:
        """Write the registers back to the activation's frame, before the group waits, splits or ends.

        The next acquire_frame() then copies them again.
        """
        if self.frame is not None and not self.has_all_threads:  # a group of all threads uses that frame itself
            self.frame.flush()
            self.frame = None
