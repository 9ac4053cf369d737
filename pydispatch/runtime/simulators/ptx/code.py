"""PTX function as the interpreter runs it: basic blocks of closures, and the arrays of its registers."""

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
        for at, (size, stores) in enumerate(self._free):
            if size == n:
                del self._free[at]
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

    A store is the array that has a register of all threads, a slot an operand of closures, such as a view of a store.

    Attributes:
        index: Index of the block in the function.
        steps: The closures of its instructions.
        end: Ends the block, and returns the index of the next one; None where control falls through.
        line: Line of the first instruction in the text, from 1, for messages.
        sync: Event that the first instruction waits for; None if it does not wait.
        count: Number of instructions.
        slots: Slots that the block accesses.
        accesses: Slots that each instruction accesses; empty after translation.
        live_stores: Indices of the stores that it accesses and whose values live beyond it.
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

    Attributes:
        name: Its name.
        function: The function as parsed.
        builder: Builder that assigned the slots; it has the names of registers, and the text for messages.
        blocks: Its basic blocks, as closures.
        slots: Content of each slot of a frame: a register, a constant, or a special register.
        template: Initial values of the slots: constants, and None for slots that a frame sets.
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
