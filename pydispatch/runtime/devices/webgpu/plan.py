"""Plans with the transients (tensors that live within one call) placed as WebGPU needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch._core.commands import Custom
from pydispatch.runtime.accelerators.plan import ARENA_ALIGNMENT, DevicePlan

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData

CORE_ALIGNMENT = 64
"""Alignment in bytes that the C core gives transients in an arena; devices that require more need them moved apart."""


class Plan(DevicePlan):
    """Plan whose transients start at offsets of one buffer, the arena, that the device can bind.

    A transient is a buffer for intermediate results of one run. The C core has assigned each an offset in the arena, at
    which transients that are not live at the same time may overlap.

    Attributes:
        alignment: Alignment in bytes that the device requires of bound offsets; it divides ARENA_ALIGNMENT.
        transient_sizes: (index of its buffer, bytes) of each transient with memory of its own: operands of host
            commands. WebGPU cannot copy within one buffer, so such commands could not use the arena.
    """

    __slots__ = ("alignment", "transient_sizes")

    def __init__(self, data: PlanData, alignment: int) -> None:
        """Create the plan of `data`. `alignment` is set first, because the base class moves the transients."""
        self.alignment = alignment
        super().__init__(data)

    def _move_transients_to_arena(self) -> None:
        """Move transients to the arena, except operands of host commands, which get buffers of their own.

        WebGPU cannot copy within one buffer, so host commands could not use operands in the arena.
        """
        operands = {slot.buffer for c in self.commands if isinstance(c, Custom) for slot in c.slots}
        self.transient_sizes = [(index, self.sizes[index]) for index, _ in self.transients if index in operands]
        self.transients = [(index, offset) for index, offset in self.transients if index not in operands]
        if self.alignment > CORE_ALIGNMENT:  # the C core has aligned the offsets to CORE_ALIGNMENT only
            self._align_transients()
        super()._move_transients_to_arena()

    def _align_transients(self) -> None:
        """Move transients apart so that each starts at a multiple of ARENA_ALIGNMENT in the arena.

        The offsets 0, 64 and 320 become 0, 256 and 512, and the arena grows by 512 - 320 = 192 bytes.

        The offsets stay in order, and the distance of any two does not shrink. So transients that shared no byte share
        none afterwards. Transients with equal offsets still have equal ones.
        """
        new_offset_of: dict[int, int] = {}
        last_offset = last_new_offset = 0
        for offset in sorted({offset for _, offset in self.transients}):
            distance = offset - last_offset
            # The old distance from the previous new offset, rounded up.
            new_offset = -(-(last_new_offset + distance) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            new_offset_of[offset] = new_offset
            last_offset, last_new_offset = offset, new_offset
        self.arena_bytes += last_new_offset - last_offset
        self.transients = [(index, new_offset_of[offset]) for index, offset in self.transients]
