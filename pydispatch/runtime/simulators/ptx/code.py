"""PTX function as the interpreter runs it: basic blocks of closures, and the arrays of its registers. A frame has the
registers of threads that run together. A store is the array of a register in a frame, with an element for each thread.
A slot is the index of an operand in `Frame.regs`, the list that closures get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Instruction, PtxFunction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step

End = Callable[[Any, Any, Any], int]
"""Ends a block of code for (batch, group, frame): returns the index of the block that the group runs next, or -1 if the
group waits, has split or has ended."""


class RegisterPool:
    """Pool of the arrays of one function's registers, which are reused between launches.

    A store is the array of a register, [threads], or of a `.param` variable, [threads, bytes].

    Args:
        store_kinds: (dtype, bytes of a `.param` variable or 0) of each store.
        zeroed: Indices of the stores that begin as zeros, because code may read them before it writes them.
    """

    def __init__(self, store_kinds: list[tuple[Any, int]], zeroed: list[int]) -> None:
        """Create an empty pool. For the parameters, see the class."""
        self._store_kinds, self._zeroed = store_kinds, zeroed
        self._free: list[tuple[int, list[Any]]] = []  # (number of threads, the stores) of frames that have ended

    def make(self, store: int, n: int) -> Any:
        """Create the array of a store, given by its index, for n threads.

        Its shape is [n] for a register, and [n, bytes] for a `.param` variable.
        """
        dtype, count = self._store_kinds[store]
        return np.zeros((n, count) if count else n, dtype)

    def take(self, n: int) -> list[Any] | None:
        """Return the stores of an ended frame of n threads, zeroed where code could observe old content.

        Return None if there is none of n threads.
        """
        for index, (size, stores) in enumerate(self._free):
            if size == n:
                del self._free[index]
                for store in self._zeroed:
                    stores[store].fill(0)
                return stores
        return None

    def give(self, n: int, stores: list[Any]) -> None:
        """Add the stores of a frame of n threads that has ended; drop all but the two newest entries."""
        self._free.append((n, stores))
        del self._free[:-2]  # enough for full batches of thread blocks, and a launch's last, smaller batch


class SlotAccess(NamedTuple):
    """Slots that an instruction reads and writes, and whether a guard (`@p`) decides which threads run it."""

    reads: set[int]
    writes: set[int]
    is_guarded: bool


class LaneSync(NamedTuple):
    """Wait for other lanes of the warp, before an instruction such as shfl.sync.

    Attributes:
        mask_slot: Slot of the operand with the lanes that are waited for, one bit each; None for the whole warp.
        instruction: The instruction, for messages.
    """

    mask_slot: int | None
    instruction: Instruction


@dataclass(eq=False)
class CodeBlock:
    """Basic block: closures that run in sequence.

    `Translator` creates the blocks of a function and fills them. Closures find their operands by slots, which are
    indices in `Frame.regs`. A store is the array with the values of a register, one for each thread; several slots may
    be views of one store, as different types.

    Attributes:
        index: Index of the block in the function.
        steps: The closures of its instructions, without the branch, barrier, call or return at its end.
        end: Closure of the instruction that ends the block: it returns the index of the next block, or -1 (see `End`).
            None where control falls through.
        line: Line of the first instruction in the text, from 1, for messages.
        sync: Lanes that the first instruction, such as shfl.sync, waits for; None if it does not wait.
        count: Number of instructions.
        slots: Slots that the block accesses.
        accesses: Slots that each instruction accesses; empty after translation.
        live_stores: Indices of the stores of registers that other blocks access too, or whose value may be older than
            this run of the block.
        block_local_stores: Indices of the stores whose values this block writes and only it reads.
        writes: Stores in `live_stores` that the block writes.
    """

    index: int
    steps: list[Step] = field(default_factory=list)
    end: End | None = None
    line: int = 0
    sync: LaneSync | None = None
    count: int = 0
    slots: list[int] = field(default_factory=list)
    accesses: list[SlotAccess] = field(default_factory=list)
    live_stores: list[int] = field(default_factory=list)
    block_local_stores: list[int] = field(default_factory=list)
    writes: set[int] = field(default_factory=set)


@dataclass(eq=False)
class FunctionCode:
    """PTX function that has been translated to basic blocks of closures, ready to run.

    `Translator.run` creates it once, and all calls of the function share it. The registers of a call are in a `Frame`,
    whose list `regs` closures index by slots.

    For `add.u32 %r1, %r2, 5` there are three slots. `slots` describes them: a view of %r1 as u32, a view of %r2 as u32,
    and the constant 5. The entries of `template` are None, None and 5. The first two are in `bound_slots`, because each
    frame sets them to arrays of its own.

    Attributes:
        name: Its name.
        function: The function as parsed.
        builder: Builder that assigned the slots; it has the names of registers, and the text for messages.
        blocks: Its basic blocks, as closures.
        slots: Description of each slot: a `RegisterView`, `Special` or `Unused`, or a constant; None for slot 0, which
            holds the frame, and for temporary values.
        template: Initial `Frame.regs` of a frame: the constants, and None for all other slots.
        bound_slots: Slots that a frame sets: views of stores, unused results and special values.
        store_of: Index of the store (array over the threads) of each register and `.param` variable; -1 for one that is
            never accessed. Registers that live only inside one block may share a store.
        store_kinds: (dtype, bytes of a `.param` variable or 0) of each store.
        pool: Stores of frames that have ended, for new frames.
        local_size: Bytes of local memory of a thread.
    """

    name: str
    function: PtxFunction
    builder: FunctionBuilder
    blocks: list[CodeBlock]
    slots: list[Any]
    template: list[Any]
    bound_slots: list[int]
    store_of: list[int]
    store_kinds: list[tuple[Any, int]]
    pool: RegisterPool
    local_size: int
