"""Translated function: basic blocks of closures with their terminators, and the arrays of its registers."""

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

    store_kinds: (dtype, bytes of a `.param` variable or 0) of each array.
    """

    def __init__(self, store_kinds: list[tuple[Any, int]], zeroed: list[int]) -> None:
        self._store_kinds, self._zeroed = store_kinds, zeroed
        self._free: list[tuple[int, list[Any]]] = []

    def make(self, store: int, n: int) -> Any:
        dtype, count = self._store_kinds[store]
        return np.zeros((n, count) if count else n, dtype)

    def take(self, n: int) -> list[Any] | None:
        """Return reused arrays for n threads, zeroed where a program could observe old content; None without any."""
        for at, (size, stores) in enumerate(self._free):
            if size == n:
                del self._free[at]
                for store in self._zeroed:
                    stores[store].fill(0)
                return stores
        return None

    def give(self, n: int, stores: list[Any]) -> None:
        self._free.append((n, stores))
        del self._free[:-2]


class SlotAccess(NamedTuple):
    """Slots that an instruction reads and writes, and whether a guard decides which threads run it."""

    reads: set[int]
    writes: set[int]
    is_guarded: bool


class LaneSync(NamedTuple):
    """Wait for other lanes of the warp, before an instruction.

    Attributes:
        mask_slot: Slot of the mask of the lanes that are waited for; None for the whole warp.
        instruction: The instruction, for messages.
    """

    mask_slot: int | None
    instruction: Instruction


@dataclass(eq=False)
class CodeBlock:
    """Closures that run in sequence.

    A store is the array that has a register of all threads, a slot an operand of closures, such as a view of a store.

    Attributes:
        index: Index of the block in the function.
        steps: The closures.
        end: Ends the block, and returns the next one; None where control falls through.
        line: Line of the first instruction, for messages.
        sync: What the first instruction waits for; None if it does not wait.
        count: Number of instructions.
        slots: Slots that the block accesses.
        accesses: Slots that each instruction accesses; empty after translation.
        live_stores: Stores that it accesses and that live beyond it.
        block_local_stores: Stores that live in it alone.
        writes: Those of `live_stores` that it writes.
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
    """Function, ready to run.

    Attributes:
        blocks: Its basic blocks, as closures.
        slots: What each slot of a frame holds: a register, a constant, or a special register.
        template: Initial values of the slots.
        bound_slots: Slots that are views of stores.
        store_of: The store of each register; several that live only inside a block share one.
        store_kinds: Type and number of elements of each store.
        pool: Stores of frames that have ended.
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
