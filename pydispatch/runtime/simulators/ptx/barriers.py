"""bar and barrier: the threads waiting at each of a block's sixteen barriers, and their release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.groups import Activation, ThreadGroup
from pydispatch.runtime.simulators.ptx.threads import ThreadBatch


@dataclass(eq=False)
class Waiting:
    """Threads of an activation at a barrier. index: positions; slots: their blocks; idents: the barriers' numbers.

    operands: of bar.red: the value of each thread, and the store of the result.
    """

    activation: Activation
    back: int
    index: Any
    slots: Any
    idents: Any
    instruction: Instruction
    operands: tuple[str, Any, int] | None = None

    def threads(self) -> Any:
        return self.activation.frame.threads[self.index]

    def some(self, chosen: Any) -> Waiting:
        operands = self.operands and (self.operands[0], self.operands[1][chosen], self.operands[2])
        return Waiting(
            self.activation, self.back, self.index[chosen], self.slots[chosen], self.idents[chosen], self.instruction,
            operands,
        )  # fmt: skip


class Barriers:
    """Barriers of a batch of thread blocks. put: makes released groups ready to run."""

    def __init__(self, batch: ThreadBatch, put: Callable[[ThreadGroup], None]) -> None:
        self._batch, self._put = batch, put
        self.waiting: list[Waiting] = []
        self._arrived = np.zeros((batch.count, 16), np.int64)
        self._counts = np.zeros((batch.count, 16), np.int64)
        self.idle = True

    def arrive(
        self, group: ThreadGroup, frame: Frame, instruction: Instruction, ident: Any, count: Any, wait: Waiting | None
    ) -> None:
        """Threads of a group arrive; with `wait` they block until the barrier opens."""
        batch = self._batch
        self.idle = False
        slots = batch.block_slots()[frame.threads]
        idents = np.broadcast_to(np.asarray(ident, np.int64), slots.shape)
        if (idents > 15).any():
            frame.fault(instruction, int(np.argmax(idents > 15)), f"names barrier {int(idents.max())}; 15 is the last")
        np.add.at(self._arrived, (slots, idents), 1)
        if count is not None:
            counts = np.broadcast_to(np.asarray(count, np.int64), slots.shape)
            bad = (counts % 32 != 0) | (counts == 0)
            if bad.any():
                at = int(np.argmax(bad))
                frame.fault(instruction, at, f"waits for {int(counts[at])} threads; the number is a multiple of 32")
            self._counts[slots, idents] = counts
        if wait is not None:
            wait.slots, wait.idents = slots, idents
            self._check_warps(wait)
            self.waiting.append(wait)
        if count is not None:
            self.release()

    def _check_warps(self, wait: Waiting) -> None:
        """`bar.sync` executed by one warp at two program counters is undefined."""
        if wait.instruction.opcode == "barrier" and "aligned" not in wait.instruction.modifiers:
            return
        lanes = self._batch.lane_numbers()
        for other in self.waiting:
            if other.instruction is wait.instruction or other.instruction.opcode == "barrier":
                continue
            both = np.isin(lanes[wait.threads()] >> 5, lanes[other.threads()] >> 5)
            if both.any():
                wait.activation.frame.fault(
                    wait.instruction,
                    int(wait.index[np.argmax(both)]),
                    f"threads of the same warp wait at the barrier of line {other.instruction.line}: a warp has to "
                    "come to a barrier together (use barrier.sync, or move it out of the branch)",
                )

    def release(self) -> bool:
        """Open barriers where all threads have arrived. Whether any thread continues."""
        if not self.waiting and not self._arrived.any():
            return False
        batch = self._batch
        living = np.bincount(batch.block_slots()[batch.alive], minlength=batch.count)
        needed = np.where(self._counts > 0, np.minimum(self._counts, batch.T), living[:, None])
        done = (self._arrived >= needed) & (self._arrived > 0)
        if not done.any():
            return False
        opened, kept = [], []
        for wait in self.waiting:
            chosen = done[wait.slots, wait.idents]
            if chosen.all():
                opened.append(wait)
            elif chosen.any():
                opened.append(wait.some(chosen))
                kept.append(wait.some(~chosen))
            else:
                kept.append(wait)
        self.waiting = kept
        self._arrived[done] = 0
        self._counts[done] = 0
        batch.epochs += done.any(axis=1)
        self.idle = not kept and not self._arrived.any()
        self._reduce([wait for wait in opened if wait.operands])
        for wait in opened:
            self._put(ThreadGroup(wait.activation, wait.back, wait.index))
        return bool(opened)

    def _reduce(self, opened: list[Waiting]) -> None:
        if not opened:
            return
        first = opened[0].operands
        assert first is not None
        start = 1 if first[0] == "and" else 0
        result = np.full((self._batch.count, 16), start, np.int64)
        for wait in opened:
            assert wait.operands is not None
            values = wait.operands[1].astype(np.int64)
            if first[0] == "popc":
                np.add.at(result, (wait.slots, wait.idents), values)
            elif first[0] == "and":
                np.minimum.at(result, (wait.slots, wait.idents), values)
            else:
                np.maximum.at(result, (wait.slots, wait.idents), values)
        for wait in opened:
            assert wait.operands is not None
            store = wait.activation.frame.stores[wait.operands[2]]
            store[wait.index] = result[wait.slots, wait.idents].astype(store.dtype)
