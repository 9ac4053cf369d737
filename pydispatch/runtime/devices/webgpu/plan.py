"""Plans as WebGPU needs them: where transients lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch._core.commands import Custom
from pydispatch.runtime.accelerators.plan import ARENA_ALIGNMENT, Record

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData

CORE_ALIGNMENT = 64
"""Bytes: the alignment of transients in plans of the C core."""


class Plan(Record):
    """Plan whose transients are in an arena, at multiples of `alignment` bytes, except those in
    `transient_sizes`. ARENA_ALIGNMENT is a multiple of the alignment of every device.

    transient_sizes: (index of its buffer, bytes) of each transient with memory of its own: operands of host commands,
    which cannot copy within one buffer.
    """

    __slots__ = ("alignment", "transient_sizes")

    def __init__(self, data: PlanData, alignment: int) -> None:
        self.alignment = alignment
        super().__init__(data)

    def _move_transients_to_arena(self) -> None:
        """Give operands of host commands buffers of their own, which such commands bind whole, and the others offsets
        in the arena."""
        operands = {slot.buffer for c in self.commands if isinstance(c, Custom) for slot in c.slots}
        self.transient_sizes = [(index, self.sizes[index]) for index, _ in self.transients if index in operands]
        self.transients = [(index, offset) for index, offset in self.transients if index not in operands]
        if self.alignment > CORE_ALIGNMENT:
            self._align_transients()
        super()._move_transients_to_arena()

    def _align_transients(self) -> None:
        """Move transients apart so that each starts at a multiple of ARENA_ALIGNMENT in the arena.

        No two starts get closer, so that transients that share no byte share none afterwards.
        """
        new_offset_of: dict[int, int] = {}
        last_offset = last_new_offset = 0
        for offset in sorted({offset for _, offset in self.transients}):
            distance = offset - last_offset
            new_offset = -(-(last_new_offset + distance) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            new_offset_of[offset] = new_offset
            last_offset, last_new_offset = offset, new_offset
        self.arena_bytes += last_new_offset - last_offset
        self.transients = [(index, new_offset_of[offset]) for index, offset in self.transients]
