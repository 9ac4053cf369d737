"""Barriers (bar, barrier) of the PTX interpreter: the threads that wait at the sixteen barriers of each thread block,
and their release. A batch is the thread blocks that are simulated together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.groups import Activation, ThreadGroup
from pydispatch.runtime.simulators.ptx.threads import LANE_BITS, WARP_LANES, ThreadBatch

_BARRIERS = 16
"""Barriers of a thread block."""
_REDUCTIONS: dict[str, np.ufunc] = {"popc": np.add, "and": np.minimum, "or": np.maximum}
"""Functions of bar.red, on predicates as 0 and 1."""


class Reduction(NamedTuple):
    """Reduction of bar.red over the threads that meet at a barrier.

    Attributes:
        function: "popc", "and" or "or".
        values: The predicate of each thread, bool [threads].
        store: Index in `Frame.stores` of the result register's array.
    """

    function: str
    values: Any
    store: int


@dataclass(eq=False)
class Waiting:
    """Threads of a function call that wait at barriers, after one barrier instruction that they ran together.

    The closure of the instruction (`terminators._waiting`) creates it. `Barriers.arrive` sets `thread_blocks` and
    `barrier_numbers`, and adds it to `Barriers.waiting`. `Barriers.release` removes the threads whose barrier opens: a
    `subset` if the threads belong to several thread blocks or wait at several barriers.

    Attributes:
        activation: The function call.
        return_block: Index of the block of code where they continue.
        positions: Their positions in the frame of the call, int64 [threads].
        thread_blocks: Index in the batch of the thread block of each, int64 [threads].
        barrier_numbers: The barrier that each waits at, 0 to 15, int64 [threads].
        instruction: The barrier instruction.
        reduction: The reduction of bar.red; None for other barriers.
    """

    activation: Activation
    return_block: int
    positions: Any
    thread_blocks: Any
    barrier_numbers: Any
    instruction: Instruction
    reduction: Reduction | None = None

    def threads(self) -> Any:
        """Return the numbers of the waiting threads in the batch, int64 [threads]."""
        return self.activation.frame.threads[self.positions]

    def subset(self, selected: Any) -> Waiting:
        """Return the threads where the boolean array `selected` holds."""
        reduction = self.reduction and self.reduction._replace(values=self.reduction.values[selected])
        return replace(
            self,
            positions=self.positions[selected],
            thread_blocks=self.thread_blocks[selected],
            barrier_numbers=self.barrier_numbers[selected],
            reduction=reduction,
        )


class Barriers:
    """Barriers of a batch of thread blocks, sixteen for each block.

    A barrier opens when as many threads have arrived as the instruction states, or all living threads of the block.
    `arrive` is called for each barrier instruction; the scheduler calls `release` when no group of threads is ready.

    Attributes:
        waiting: Threads that wait, as of bar.sync; those of bar.arrive only arrive.
        is_unused: Whether no thread waits or has arrived at any barrier.
    """

    def __init__(self, batch: ThreadBatch, make_ready: Callable[[ThreadGroup], None]) -> None:
        """Create barriers at which no thread has arrived. make_ready: schedules a group of released threads."""
        self._batch, self._make_ready = batch, make_ready
        self.waiting: list[Waiting] = []
        self._arrived = np.zeros((batch.count, _BARRIERS), np.int64)  # number of threads that have arrived
        self._counts = np.zeros((batch.count, _BARRIERS), np.int64)  # threads that a barrier waits for; 0: all living
        self.is_unused = True

    def arrive(
        self,
        frame: Frame,
        instruction: Instruction,
        barrier_number: Any,
        count: Any,
        wait: Waiting | None,
    ) -> None:
        """Let the threads of a group arrive at barriers; they wait there until it opens if `wait` is not None.

        Args:
            frame: Frame of the group's threads.
            instruction: The barrier instruction, for messages.
            barrier_number: Barrier of each thread, or of all of them.
            count: Number of threads that the barrier waits for, of each thread or of all; None: all living threads.
            wait: The threads to add to `waiting`, whose `thread_blocks` and `barrier_numbers` are set here. None for
                bar.arrive, whose threads go on.
        """
        self.is_unused = False
        thread_blocks = self._batch.block_indices()[frame.threads]
        barrier_numbers = np.broadcast_to(np.asarray(barrier_number, np.int64), thread_blocks.shape)
        _require_existing(frame, instruction, barrier_numbers)
        np.add.at(self._arrived, (thread_blocks, barrier_numbers), 1)
        if count is not None:
            counts = np.broadcast_to(np.asarray(count, np.int64), thread_blocks.shape)
            _require_whole_warp_counts(frame, instruction, counts)
            self._counts[thread_blocks, barrier_numbers] = counts
        if wait is not None:
            wait.thread_blocks, wait.barrier_numbers = thread_blocks, barrier_numbers
            self._require_whole_warps(wait)
            self.waiting.append(wait)
        # Without a count all living threads must arrive; the scheduler calls `release` when no thread is ready.
        if count is not None:
            self.release()

    def _require_whole_warps(self, wait: Waiting) -> None:
        """Report a fault if other threads of the same warps wait at another instruction: end the kernel with an error.

        A warp that executes `bar.sync` at two program counters has undefined behaviour. barrier.sync without .aligned
        allows it.
        """
        if wait.instruction.opcode == "barrier" and "aligned" not in wait.instruction.modifiers:
            return
        lanes = self._batch.lane_numbers()  # warp * 32 + lane of each thread of the batch
        for other in self.waiting:
            # Threads at the same instruction have come together; `barrier` is the opcode that lets a warp come divided.
            if other.instruction is wait.instruction or other.instruction.opcode == "barrier":
                continue
            shares_warp = np.isin(lanes[wait.threads()] >> LANE_BITS, lanes[other.threads()] >> LANE_BITS)
            if shares_warp.any():
                wait.activation.frame.fault(
                    wait.instruction,
                    int(wait.positions[np.argmax(shares_warp)]),
                    f"threads of the same warp wait at the barrier of line {other.instruction.line}: a warp has to "
                    "come to a barrier together (use barrier.sync, or move it out of the branch)",
                )

    def release(self) -> bool:
        """Open the barriers where all threads have arrived. Return whether any thread continues.

        A barrier with a thread count opens when as many threads have arrived, any other barrier when all living threads
        of its block have. The arrays are [thread blocks of the batch, 16 barriers]. If two blocks have 64 living
        threads each and `_arrived[:, 0]` is [64, 32], barrier 0 of the first block opens, and its 64 threads are made
        ready.
        """
        if not self.waiting and not self._arrived.any():
            return False
        batch = self._batch
        living = np.bincount(batch.block_indices()[batch.alive], minlength=batch.count)  # threads of each block
        # A thread count is a multiple of 32, so it may exceed the threads of a block whose last warp is incomplete.
        needed = np.where(self._counts > 0, np.minimum(self._counts, batch.threads_per_block), living[:, None])
        is_complete = (self._arrived >= needed) & (self._arrived > 0)  # a block without living threads needs 0
        if not is_complete.any():
            return False
        opened = self._remove_waiting(is_complete)
        self._arrived[is_complete] = 0
        self._counts[is_complete] = 0
        batch.epochs += is_complete.any(axis=1)  # race detection takes accesses of different epochs as ordered
        self.is_unused = not self.waiting and not self._arrived.any()
        self._reduce([wait for wait in opened if wait.reduction])
        for wait in opened:
            self._make_ready(ThreadGroup(wait.activation, wait.return_block, wait.positions))
        return bool(opened)  # False if only threads of bar.arrive, which do not wait, have arrived

    def _remove_waiting(self, is_complete: Any) -> list[Waiting]:
        """Remove the threads from `waiting` that wait at complete barriers, and return them.

        is_complete: whether all threads have arrived, bool [thread blocks, barriers].
        """
        opened, still_waiting = [], []
        for wait in self.waiting:
            released = is_complete[wait.thread_blocks, wait.barrier_numbers]
            if released.all():
                opened.append(wait)
            elif released.any():
                opened.append(wait.subset(released))
                still_waiting.append(wait.subset(~released))
            else:
                still_waiting.append(wait)
        self.waiting = still_waiting
        return opened

    def _reduce(self, opened: list[Waiting]) -> None:
        """Compute the reductions of bar.red over the threads of each opened barrier, and store the results.

        `Waiting.reduction` has the predicates of some threads, and the register of the result. All threads that meet at
        a barrier use the same function; barriers that open together may use different ones.
        """
        if not opened:
            return
        # Begin with the neutral element of each barrier's function: 0 for popc and or, 1 for and.
        result = np.zeros((self._batch.count, _BARRIERS), np.int64)  # by thread block and barrier
        for wait in opened:
            assert wait.reduction is not None
            if wait.reduction.function == "and":
                result[wait.thread_blocks, wait.barrier_numbers] = 1  # the neutral element
        for wait in opened:
            assert wait.reduction is not None
            # `ufunc.at` applies the predicate of every thread, also where several threads have one element of `result`.
            values = wait.reduction.values.astype(np.int64)
            _REDUCTIONS[wait.reduction.function].at(result, (wait.thread_blocks, wait.barrier_numbers), values)
        for wait in opened:
            assert wait.reduction is not None
            # Each thread gets the result of its barrier in its own register.
            store = wait.activation.frame.stores[wait.reduction.store]
            store[wait.positions] = result[wait.thread_blocks, wait.barrier_numbers].astype(store.dtype)


def _require_existing(frame: Frame, instruction: Instruction, barrier_numbers: Any) -> None:
    """Report a fault if a thread names a barrier that blocks do not have. barrier_numbers: int64 [threads]."""
    invalid = barrier_numbers >= _BARRIERS
    if invalid.any():
        position = int(np.argmax(invalid))
        frame.fault(
            instruction,
            position,
            f"names barrier {int(barrier_numbers[position])}; {_BARRIERS - 1} is the last",
        )


def _require_whole_warp_counts(frame: Frame, instruction: Instruction, counts: Any) -> None:
    """Report a fault if a barrier waits for a part of a warp. counts: threads it waits for, int64 [threads]."""
    invalid = (counts % WARP_LANES != 0) | (counts == 0)
    if invalid.any():
        position = int(np.argmax(invalid))
        frame.fault(
            instruction,
            position,
            f"waits for {int(counts[position])} threads; the number is a multiple of {WARP_LANES}",
        )
