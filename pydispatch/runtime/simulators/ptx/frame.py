"""Registers of threads that run together. A full frame has those of all threads of an activation, in place; a part
has copies for some of them, loaded block by block when needed and written back by `flush`."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx import specials
from pydispatch.runtime.simulators.ptx.builder import RegisterView, Special, Unused
from pydispatch.runtime.simulators.ptx.code import CodeBlock, FunctionCode
from pydispatch.runtime.simulators.ptx.threads import WARP_LANES, ThreadBatch


class Frame:
    """Registers of n threads that run one function together.

    Attributes:
        threads: Indices of the threads in the batch, int64 [n].
        regs: The operands of closures, by slot.
        full: The frame of all threads of the call if these are a part of them, else None.
        index: Positions of the threads in the full frame, int64 [n]; None without one.
        local: Offset of the function's local memory, in bytes.
    """

    __slots__ = (
        "_dirty", "_lanes", "_prepared", "_shared", "batch", "code", "full", "index", "local", "n", "regs", "stores",
        "threads",
    )  # fmt: skip

    def __init__(
        self, batch: ThreadBatch, code: FunctionCode, threads: Any, local: int, full: Frame | None, index: Any
    ) -> None:
        self.batch, self.code, self.threads, self.local = batch, code, threads, local
        self.n = threads.size
        self.full, self.index = full, index
        self._lanes: Any = None  # number of a lane in its batch → position of its thread in the frame, -1 for others
        self._shared: Any = None  # address of each thread's shared memory
        self._prepared: set[int] = set()  # blocks of code whose registers were taken over from the frame of all threads
        self._dirty: set[int] = set()
        self.regs: list[Any] = code.template.copy()
        self.regs[0] = self
        if full is None:
            stores = code.pool.take(self.n)
            self.stores = stores if stores is not None else [code.pool.make(i, self.n) for i in range(len(code.kinds))]
            for slot in code.bound:
                self._bind(slot)
        else:
            self.stores = [None] * len(code.kinds)

    def _bind(self, slot: int) -> None:
        """Set the operand of a slot that is not a constant: a register, a temporary or a special value."""
        operand = self.code.slots[slot]
        if isinstance(operand, RegisterView):
            self.regs[slot] = operand.of(self.stores[self.code.placed[operand.storage]])
        elif isinstance(operand, Unused):
            self.regs[slot] = np.empty(self.n, operand.dtype)
        elif isinstance(operand, Special):
            if self.full is not None:
                value = self.full.regs[slot]
                self.regs[slot] = value[self.index] if isinstance(value, np.ndarray) else value
            else:
                self.regs[slot] = specials.value(
                    self.batch, self.code.builder.module, self.threads, self.local, operand
                )

    def enter(self, block: CodeBlock) -> None:
        """Load the registers that a block of code uses. Only parts need it."""
        if block.index in self._prepared:
            return
        self._prepared.add(block.index)
        stores, full = self.stores, self.full
        assert full is not None
        for store in block.outer:
            if stores[store] is None:
                stores[store] = full.stores[store][self.index]
        for store in block.inner:
            if stores[store] is None:
                stores[store] = self.code.pool.make(store, self.n)
        regs = self.regs
        for slot in block.slots:
            if regs[slot] is None:
                self._bind(slot)
        self._dirty |= block.writes

    def flush(self) -> None:
        """Write a part's results to the full frame."""
        if self.full is not None:
            for store in self._dirty:
                if self.stores[store] is not None:
                    self.full.stores[store][self.index] = self.stores[store]

    def some(self, positions: Any) -> Frame:
        """Return a frame of only the threads at `positions`, for one closure.

        Only its fields `threads` and `n`, and its faults, are valid.
        """
        part = Frame.__new__(Frame)
        part.batch, part.code, part.local = self.batch, self.code, self.local
        part.threads = self.threads[positions]
        part.n = positions.size
        part.full, part.index, part._lanes = self, positions, None
        part._shared = None
        part._prepared, part._dirty = set(), set()
        part.stores = []
        part.regs = []
        return part

    def shared_bases(self) -> Any:
        """Return the offset at which the shared memory of each thread's block begins, int64 [n]."""
        if self._shared is None:
            batch = self.batch
            stride = batch.launch.shared_stride
            bases = batch.number("shared", lambda: batch.block_slots() * stride)
            self._shared = bases if self.n == batch.n else bases[self.threads]
        return self._shared

    def lanes(self) -> Any:
        """Return the position of each lane of each warp of the batch in this frame, int64 [warps * 32]; -1
        when absent.
        """
        if self._lanes is None:
            batch = self.batch
            self._lanes = np.full(batch.warps * WARP_LANES, -1, np.int64)
            self._lanes[batch.lane_numbers()[self.threads]] = np.arange(self.n)
        return self._lanes

    def fault(self, instruction: Instruction, position: int, why: str) -> NoReturn:
        """KernelError about one thread of the frame."""
        self.batch.fault(self.code, instruction, int(self.threads[position]), why)
