"""Plans as WebGPU needs them: where transients lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch._core.commands import Custom
from pydispatch.runtime.accelerators.plan import ARENA_ALIGNMENT, Record

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData


class Plan(Record):
    """Plan whose transients are in an arena, at multiples of `alignment` bytes, except those in `separate`.

    separate: (buffer, bytes) of transients with memory of their own: operands of host commands, which cannot copy
    within one buffer.
    """

    __slots__ = ("alignment", "separate")

    def __init__(self, data: PlanData, alignment: int) -> None:
        self.alignment = alignment
        super().__init__(data)

    def _commands_with_arena(self) -> None:
        """Give operands of host commands buffers of their own, which such commands bind whole, and the others offsets
        in the arena."""
        operands = {slot.buffer for c in self.commands if isinstance(c, Custom) for slot in c.slots}
        self.separate = [(index, self.sizes[index]) for index, _ in self.transients if index in operands]
        self.transients = [transient for transient in self.transients if transient[0] not in operands]
        if self.alignment > 64:  # which plans give
            self._stretch()
        super()._commands_with_arena()

    def _stretch(self) -> None:
        """Move transients apart; those that share no byte share none afterwards."""
        starts = sorted({offset for _, offset in self.transients})
        offset_of: dict[int, int] = {}
        last = at = 0
        for start in starts:
            at += start - last
            last, at = start, -(-at // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            offset_of[start] = at
        self.arena_bytes += at - last
        self.transients = [(index, offset_of[offset]) for index, offset in self.transients]
