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
            commands. A host command may copy from one operand to another with WebGPU's copy command, which does not
            copy within one buffer. So its operands must not be ranges of the arena.
    """

    __slots__ = ("alignment", "transient_sizes")

    def __init__(self, data: PlanData, alignment: int) -> None:
        """Create the plan of `data`. `alignment` is set first, because the base class moves the transients."""
        self.alignment = alignment
        super().__init__(data)

    def _move_transients_to_arena(self) -> None:
        """Move transients to the arena, except operands of host commands, which get buffers of their own.

        WebGPU's copy command does not copy within one buffer. A host command could not use it between two operands in
        the arena.
        """
        operands = {slot.buffer for c in self.commands if isinstance(c, Custom) for slot in c.slots}
        self.transient_sizes = [(index, self.sizes[index]) for index, _ in self.transients if index in operands]
        self.transients = [(index, offset) for index, offset in self.transients if index not in operands]
        if self.alignment > CORE_ALIGNMENT:  # the C core has aligned the offsets in the arena to CORE_ALIGNMENT only
            self._align_transients()
        super()._move_transients_to_arena()

    def _align_transients(self) -> None:
        """Move transients apart so that each starts at a multiple of ARENA_ALIGNMENT in the arena.

        The offsets 0, 64 and 320 become 0, 256 and 512, and the arena grows by 512 - 320 = 192 bytes.

        The offsets stay in order, and the distance of any two does not shrink. So transients that shared no byte share
        none afterwards. Transients with equal offsets still have equal ones.
        """
        new_offset_of: dict[int, int] = {}
        previous_offset = previous_new_offset = 0
        for offset in sorted({offset for _, offset in self.transients}):
            # Keep the distance from the previous offset, and round up: 0 + 64 → 256, then 256 + (320 - 64) = 512.
            least_offset = previous_new_offset + (offset - previous_offset)
            new_offset = -(-least_offset // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            new_offset_of[offset] = new_offset
            previous_offset, previous_new_offset = offset, new_offset
        self.arena_bytes += previous_new_offset - previous_offset
        self.transients = [(index, new_offset_of[offset]) for index, offset in self.transients]
