"""Registers of simulated threads that run together: arrays with an element for each thread. The full frame of a
function call has the registers of all threads of the call. A partial frame, of some of these threads, has copies: they
are loaded for each block of code when it first runs, and written back by `flush`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx import specials
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, RegisterView, Special, Unused
from pydispatch.runtime.simulators.ptx.code import CodeBlock, FunctionCode
from pydispatch.runtime.simulators.ptx.threads import WARP_LANES, ThreadBatch


class Frame:
    """Registers of n simulated threads that run one function together, in one call of it or as a part of its threads.

    A store is the array of a register, with one element for each thread. A slot is an operand of the closures: a view
    of a store, a constant, or a special value.

    The frame of a call has all its threads, and its stores come from a pool and return to it. A frame of some of these
    threads (`full` is not None) has copies: `load_registers` copies what the next block of code uses, and `flush`
    writes changed registers back.

    Attributes:
        batch: The batch of the threads.
        code: The function that they run.
        n: Number of threads.
        threads: Indices of the threads in the batch, int64 [n].
        regs: The operands of closures, by slot: arrays [n], or scalars that hold for all threads.
        stores: The arrays of the registers, [n] each, and of `.param` variables, [n, bytes]; None: not loaded yet in a
            frame of some threads.
        full: The frame of all threads of the call if this frame is partial, else None.
        positions_in_full: Positions of the threads in the full frame, int64 [n]; None for a full frame.
        local_offset: Where the function's local memory begins in the local memory of a thread, in bytes.
    """

    __slots__ = (
        "_lanes",
        "_loaded_blocks",
        "_shared",
        "_written_stores",
        "batch",
        "code",
        "full",
        "local_offset",
        "n",
        "positions_in_full",
        "regs",
        "stores",
        "threads",
    )  # fmt: skip

    def __init__(
        self,
        batch: ThreadBatch,
        code: FunctionCode,
        threads: Any,
        local_offset: int,
        full: Frame | None = None,
        positions_in_full: Any = None,
    ) -> None:
        """Create a full frame, with the arrays of all registers, or a partial frame, without them.

        `full` is None for a full frame. `load_registers` adds the arrays of a partial frame, block of code by block.
        For the other parameters, see the class.
        """
        self.batch, self.code, self.threads, self.local_offset = batch, code, threads, local_offset
        self.n = threads.size
        self.full, self.positions_in_full = full, positions_in_full
        self._lanes: Any = None  # warp * 32 + lane in the batch → position of its thread in the frame, -1 for others
        self._shared: Any = None  # the result of shared_bases(), computed on first use
        self._loaded_blocks: set[int] = set()  # indices of the blocks of code whose registers are loaded
        self._written_stores: set[int] = set()  # indices of the stores that `flush` writes back
        self.regs: list[Any] = code.template.copy()  # the constants, and None for other operands
        self.regs[FRAME_SLOT] = self
        if full is None:
            stores = code.pool.take(self.n)  # register arrays of an earlier call of as many threads, or None
            if stores is None:
                stores = [code.pool.make(store, self.n) for store in range(len(code.store_kinds))]
            self.stores = stores
            for slot in code.bound_slots:
                self._bind(slot)
        else:
            self.stores = [None] * len(code.store_kinds)

    def _bind(self, slot: int) -> None:
        """Set `regs[slot]` for a slot that is not a constant: a register, an unused result or a special value.

        A partial frame, which has only some threads of a call, takes their special values from the full frame.
        """
        operand = self.code.slots[slot]
        if isinstance(operand, RegisterView):  # of register number `storage`, whose array is `stores[store]`
            store = self.code.store_of[operand.storage]
            self.regs[slot] = operand.of(self.stores[store])
        elif isinstance(operand, Unused):  # a result that the instruction does not store
            self.regs[slot] = np.empty(self.n, operand.dtype)
        elif isinstance(operand, Special):
            if self.full is not None:  # the full frame has computed it for all threads
                value = self.full.regs[slot]
                self.regs[slot] = value[self.positions_in_full] if isinstance(value, np.ndarray) else value
            else:
                self.regs[slot] = specials.value(
                    self.batch, self.code.builder.module, self.threads, self.local_offset, operand
                )

    @property
    def is_partial(self) -> bool:
        """Whether the frame has only some of the threads of a call, and copies of their registers from `full`."""
        return self.full is not None

    def load_registers(self, block: CodeBlock) -> None:
        """Load the stores that a block of code uses, before its first run, and set the slots that are views of them.

        A store is the array of a register, with an element per thread; a slot is the index of an operand in `regs`.

        Only for a frame of some threads of a call, whose stores are copies from the full frame. If the frame has the
        threads at positions [3, 4, 7] of a call and the block uses %r1, the store of %r1 becomes elements 3, 4 and 7 of
        the one in the full frame. A block-local store is written before it is read, so it gets an array without a copy.
        """
        if block.index in self._loaded_blocks:
            return
        self._loaded_blocks.add(block.index)
        stores, full = self.stores, self.full
        assert full is not None
        for store in block.live_stores:
            if stores[store] is None:
                stores[store] = full.stores[store][self.positions_in_full]
        for store in block.block_local_stores:
            if stores[store] is None:
                stores[store] = self.code.pool.make(store, self.n)
        regs = self.regs
        for slot in block.slots:
            if regs[slot] is None:
                self._bind(slot)
        self._written_stores |= block.writes

    def flush(self) -> None:
        """Write the changed registers of a partial frame back to the full frame. A full frame has nothing to write."""
        if self.full is not None:
            for store in self._written_stores:
                if self.stores[store] is not None:
                    self.full.stores[store][self.positions_in_full] = self.stores[store]

    def return_stores_to_pool(self) -> None:
        """Return the arrays of the registers to the function's pool, for later calls. Only for a full frame."""
        self.code.pool.give(self.n, self.stores)

    def subset(self, positions: Any) -> Frame:
        """Return a frame of only the threads at `positions`, int64, for the address lookup of one closure.

        It has no registers: only its threads, the addresses of their shared and local memory, and faults are valid.
        """
        part = Frame.__new__(Frame)
        part.batch, part.code, part.local_offset = self.batch, self.code, self.local_offset
        part.threads = self.threads[positions]
        part.n = positions.size
        part.full, part.positions_in_full, part._lanes = self, positions, None
        part._shared = None
        part._loaded_blocks, part._written_stores = set(), set()
        part.stores = []
        part.regs = []
        return part

    def shared_bases(self) -> Any:
        """Return the offset in `batch.shared` at which the shared memory of each thread's block begins, int64 [n]."""
        if self._shared is None:
            batch = self.batch
            stride = batch.launch.shared_stride
            bases = batch.per_thread("shared", lambda: batch.block_indices() * stride)
            self._shared = bases if self.n == batch.n else bases[self.threads]
        return self._shared

    def lanes(self) -> Any:
        """Return the position in this frame of each lane of each warp of the batch, int64 [warps * 32].

        It is -1 for a lane whose thread is not in the frame.
        """
        if self._lanes is None:
            batch = self.batch
            self._lanes = np.full(batch.warps * WARP_LANES, -1, np.int64)
            self._lanes[batch.lane_numbers()[self.threads]] = np.arange(self.n)
        return self._lanes

    def fault(self, instruction: Instruction, position: int, why: str) -> NoReturn:
        """Raise KernelError about an instruction and the thread at a position of the frame."""
        self.batch.fault(self.code, instruction, int(self.threads[position]), why)
