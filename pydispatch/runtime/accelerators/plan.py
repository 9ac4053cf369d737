"""Plans as an accelerator caches them: the commands of a function for fixed sizes, which refer to buffers by index.

An operand of a command is a `Slot`: index of a buffer, offset and size in bytes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydispatch._core.commands import BufferKind, Command, Copy, Custom, Dispatch, Fill, Slot

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData

ARENA_ALIGNMENT = 256
"""Alignment in bytes of the transients that are added to an arena: a multiple of what executables require (up to 64),
and of what WebGPU devices require of bound offsets."""

Blocks = list[Any]
"""The block of each buffer of a plan; None for one that no command uses."""


class DevicePlan:
    """Plan of a call, the commands of a function for certain sizes, as the executor of an accelerator caches it.

    Transients are ranges of one additional buffer, the arena, which is the last one. An operand that is less aligned
    than its executable requires is copied to an aligned transient, and back if it is written.

    Attributes:
        data: The plan of the C core.
        commands: Commands as in `data`, with these changes.
        arguments, results: (index of the buffer, index of the argument or result, bytes) of each.
        constants: (index of the buffer, index of the constant in the program) of each.
        command_indices: Index of each command in the plan of the C core, which also counts empty commands.
        fill_patterns: Fill pattern of each command; 0 for other commands.
        count: Number of buffers, with the arena if there are transients.
        has_deferred: Whether constants and fill patterns depend on the scalars of a call.
        origins: For each command, index of the command of `data` that it is or whose operand it copies; None if the
            commands are those of `data`.
        transients: (index of the buffer, offset in the arena in bytes) of each.
        arena_bytes: Size of the arena.
        sizes: Bytes of each buffer, without the arena.
        state: Data that the device caches for this plan; None before its first run.
        segments: Device plans and host commands that the plan is split into (commands.py); None before they are
            computed, [] for a plan that is not split.
        in_place_variants: Plans for calls with results in the memory of arguments. The key has the pair (argument's
            buffer, result's buffer) of each such result.
    """

    __slots__ = (
        "arena_bytes", "arguments", "command_indices", "commands", "constants", "count", "data", "fill_patterns",
        "has_deferred", "in_place_variants", "origins", "results", "segments", "sizes", "state", "transients",
    )  # fmt: skip

    def __init__(self, data: PlanData, alignments: Mapping[int, int] | None = None) -> None:
        """Convert a plan of the C core to the form in which this device runs it.

        Args:
            data: The plan of the C core.
            alignments: Index of an executable → alignment in bytes that it requires of its bindings; 1 for one that is
                missing. {0: 16}: the kernels of executable 0 may load 16 bytes at once.
        """
        self.data = data
        self.commands, self.has_deferred = data.commands, data.has_deferred
        # Index of each command in the C core's plan, which counts commands that are empty for these sizes: [0, 2] if
        # command 1 is empty.
        self.command_indices = data.numbers
        self.origins: list[int] | None = None  # None until `commands` differs from the commands of `data`
        # The buffers of the plan by kind: n is the index of a buffer, `b.index` that of the argument, result or
        # constant that the buffer contains.
        buffers = list(enumerate(data.buffers))
        self.arguments = [(n, b.index, b.size) for n, b in buffers if b.kind == BufferKind.ARGUMENT]
        self.results = [(n, b.index, b.size) for n, b in buffers if b.kind == BufferKind.RESULT]
        self.transients = [(n, b.offset) for n, b in buffers if b.kind == BufferKind.TRANSIENT]
        self.constants = [(n, b.index) for n, b in buffers if b.kind == BufferKind.CONSTANT]
        self.sizes = [b.size for b in data.buffers]
        self.arena_bytes = data.arena_bytes
        # Caches, empty until the first use.
        self.state: Any = None
        self.in_place_variants: dict[tuple[tuple[int, int], ...], DevicePlan] = {}
        self.segments: list[tuple[int, Any]] | None = None
        # The changes for this device: aligned copies of operands, and transients as ranges of one buffer, the arena.
        if alignments and any(_unaligned_slots(command, alignments) for command in data.commands):
            self._insert_alignment_copies(alignments)
        self.fill_patterns = [c.pattern if isinstance(c, Fill) else 0 for c in self.commands]
        self.count = len(self.sizes)
        self._move_transients_to_arena()

    @property
    def arena_index(self) -> int:
        """Index of the arena among the buffers of a plan with transients: the last one."""
        return self.count - 1

    def fill_patterns_of(self, fill_patterns: list[int]) -> list[int]:
        """Return one fill pattern per command of this plan, from one per command of `data`, the plan of the C core."""
        return fill_patterns if self.origins is None else [fill_patterns[i] for i in self.origins]

    def in_place_variant(self, memories: Sequence[Any]) -> DevicePlan:
        """Return the plan for a call in which results may have the memory of arguments.

        A plan that updates a tensor first copies the argument to the result, and then writes ranges of the result. If
        both are the same memory, the copy is left out. Such a plan is cached; a call without shared memory gets `self`.

        Example:
            For argument buffer 0 and result buffer 1, the memories [m, n] return `self`, and [m, m] return the plan
            without the copy of buffer 0 to buffer 1.

        Args:
            memories: Memory of each buffer that is an argument or result, by index of the buffer; None for others. Two
                buffers share memory if they have the same object.
        """
        if len(self.results) == 0 or len(self.arguments) == 0:
            return self
        # Find the results that share memory: (buffer of the argument, buffer of the result) of each.
        argument_buffers = [buffer for buffer, *_ in self.arguments if memories[buffer] is not None]
        argument_in = {id(memories[buffer]): buffer for buffer in argument_buffers}  # memory → argument's buffer
        result_buffers = [buffer for buffer, *_ in self.results]
        updated_results = tuple(
            (argument_in[id(memories[buffer])], buffer)
            for buffer in result_buffers
            if id(memories[buffer]) in argument_in
        )
        if not updated_results:
            return self
        device_plan = self.in_place_variants.get(updated_results)
        if device_plan is None:
            device_plan = self.in_place_variants[updated_results] = self._without_copies(dict(updated_results))
        return device_plan

    def _without_copies(self, result_in_memory_of: dict[int, int]) -> DevicePlan:
        """Return this plan without the copies of arguments to results that copy a range of memory to itself.

        A copy to another offset of the shared memory moves bytes, and stays.

        result_in_memory_of: index of an argument's buffer → index of the buffer of the result that shares its memory.
        """

        def has_effect(command: Command) -> bool:
            """Return False for a copy whose source and target are the same memory (by `result_in_memory_of`)."""
            if not isinstance(command, Copy):
                return True
            is_same_buffer = result_in_memory_of.get(command.source.buffer) == command.target.buffer
            is_same_offset = command.source.offset == command.target.offset
            return not (is_same_buffer and is_same_offset)

        remaining = [i for i, command in enumerate(self.commands) if has_effect(command)]
        device_plan = copy.copy(self)
        device_plan.commands = [self.commands[i] for i in remaining]
        device_plan.command_indices = [self.command_indices[i] for i in remaining]
        # `origins` has for each command the index of the command of `data` from which it comes; None: the same index.
        device_plan.origins = remaining if self.origins is None else [self.origins[i] for i in remaining]
        device_plan.fill_patterns = [self.fill_patterns[i] for i in remaining]
        device_plan.state = device_plan.segments = None  # caches for the commands of `self`
        return device_plan

    def _insert_alignment_copies(self, alignments: Mapping[int, int]) -> None:
        """Let dispatches use aligned copies of their unaligned operands, and insert the commands that copy these.

        An operand is unaligned if its offset is no multiple of the alignment that the executable requires. The commands
        of a region do not depend on each other; the next region begins when they are done. Region r becomes three: 3r
        copies operands to aligned transients, 3r + 1 has the commands of r, and 3r + 2 copies back the operands that
        may have been written.

        Example:
            Buffer 1 is a result, buffer 2 a new transient, and the executable requires an alignment of 16 bytes:

                before  region 0: dispatch on bytes 8 to 72 of buffer 1
                after   region 0: copy bytes 8 to 72 of buffer 1 to bytes 0 to 64 of buffer 2
                        region 1: dispatch on bytes 0 to 64 of buffer 2
                        region 2: copy bytes 0 to 64 of buffer 2 to bytes 8 to 72 of buffer 1

        Args:
            alignments: Index of an executable → alignment in bytes that it requires of its bindings.
        """
        commands: list[Command] = []
        origins: list[int] = []  # for each of `commands`, the index of the command of `data` that it comes from
        for index, command in enumerate(self.data.commands):
            copies_in: list[Command] = []
            copies_out: list[Command] = []
            first_region = 3 * command.region
            staged: dict[Slot, Slot] = {}  # unaligned operand → its aligned copy; equal operands share a copy
            for slot in _unaligned_slots(command, alignments):
                if slot not in staged:
                    aligned = staged[slot] = Slot(self._new_transient(slot.size), 0, slot.size)
                    copies_in.append(Copy(first_region, (slot, aligned)))
                    # A command does not state which operands it writes. Arguments and constants are read only.
                    if self.data.buffers[slot.buffer].kind in (BufferKind.RESULT, BufferKind.TRANSIENT):
                        copies_out.append(Copy(first_region + 2, (aligned, slot)))
            slots = tuple(staged.get(slot, slot) for slot in command.slots)
            commands += [*copies_in, replace(command, region=first_region + 1, slots=slots), *copies_out]
            origins += [index] * (len(copies_in) + 1 + len(copies_out))
        # Sort by region, so that the copies of all commands of a region are adjacent. The sort is stable.
        order = sorted(range(len(commands)), key=lambda i: commands[i].region)
        self.commands, self.origins = [commands[i] for i in order], [origins[i] for i in order]
        indices_in_core = self.data.numbers
        self.command_indices = [indices_in_core[i] for i in self.origins]

    def _new_transient(self, size: int) -> int:
        """Append a transient of `size` bytes to the arena and return its buffer index."""
        offset = -(-self.arena_bytes // ARENA_ALIGNMENT) * ARENA_ALIGNMENT  # rounded up: 300 → 512
        self.arena_bytes = offset + size
        self.transients.append((len(self.sizes), offset))
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _move_transients_to_arena(self) -> None:
        """Add a buffer, the arena, and rewrite the commands so that each transient is a range of the arena."""
        if not self.transients:
            return
        self.count += 1
        # `start_of`: index of a transient's buffer → its first byte in the arena.
        start_of, arena = dict(self.transients), self.arena_index

        def in_arena(slot: Slot) -> Slot:
            """Return an operand as a range of the arena if it is in a transient (in `start_of`), else unchanged."""
            start = start_of.get(slot.buffer)
            return slot if start is None else Slot(arena, start + slot.offset, slot.size)

        self.commands = [replace(c, slots=tuple(map(in_arena, c.slots))) for c in self.commands]


def _unaligned_slots(command: Command, alignments: Mapping[int, int]) -> list[Slot]:
    """Return the operands of a dispatch that are less aligned than its executable requires; none of other commands.

    alignments: index of an executable → alignment in bytes of its bindings. Operands without bytes are not accessed.
    """
    if not isinstance(command, Dispatch):
        return []
    alignment = alignments.get(command.executable, 1)
    return [slot for slot in command.slots if slot.size and slot.offset % alignment]


def label(command: Command, kernel: str) -> str:
    """Return a description of a command, such as "@kernels::@matmul 8x4x1" or "copy 64 bytes".

    kernel: name of the kernel that a dispatch runs; unused for other commands.
    """
    if isinstance(command, Dispatch):
        return f"{kernel} {'x'.join(map(str, command.grid))}"
    if isinstance(command, Custom):
        return f"host command {command.command}"
    action = "fill" if isinstance(command, Fill) else "copy"
    return f"{action} {command.slots[0].size} bytes"
