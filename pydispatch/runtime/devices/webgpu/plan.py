"""Plans as WebGPU needs them: where transients lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch._core.commands import Custom
from pydispatch.runtime.accelerators.plan import ARENA_ALIGNMENT, Record

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData


class Plan(Record):
    """apart: (buffer, bytes) of transients that have memory of their own: operands of host commands, which cannot copy
    within one buffer. The others are in the arena, at multiples of `alignment` bytes."""

    __slots__ = ("alignment", "apart")

    def __init__(self, data: PlanData, alignment: int) -> None:
        self.alignment = alignment
        super().__init__(data)

    def _commands_with_arena(self) -> None:
        operands = {slot.buffer for c in self.commands if isinstance(c, Custom) for slot in c.slots}
        self.apart = [(index, self.sizes[index]) for index, _ in self.transients if index in operands]
        self.transients = [transient for transient in self.transients if transient[0] not in operands]
        if self.alignment > 64:  # which plans give
            self._stretch()
        super()._commands_with_arena()

    def _stretch(self) -> None:
        """Move transients apart; those that share no byte share none afterwards."""
        starts = sorted({offset for _, offset in self.transients})
        places: dict[int, int] = {}
        last = at = 0
        for start in starts:
            at += start - last
            last, at = start, -(-at // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            places[start] = at
        self.arena_bytes += at - last
        self.transients = [(index, places[offset]) for index, offset in self.transients]
