"""A plan as a device keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydispatch._core.device import PlanData

DISPATCH, FILL, COPY = 0, 1, 2
"""Kinds of commands: entry 0 of a command of `PlanData.commands`."""
ARGUMENT, RESULT, TRANSIENT, CONSTANT = 0, 1, 2, 3
"""Kinds of buffers."""

ARENA_ALIGNMENT = 256
"""Bytes: of what is added to an arena."""

Slot = tuple[int, int, int]
"""(buffer, byte offset, byte length) of a binding."""
Command = tuple[Any, ...]
"""An entry of `PlanData.commands`."""
Blocks = list[Any]
"""The block of each buffer of a plan; None for one that no command uses."""


@dataclass(frozen=True)
class Timing:
    """How long one command of a call took on the device. command: in words; seconds: as the device counts."""

    command: str
    seconds: float


class Record:
    """A plan, and what its device keeps with it.

    commands: as in PlanData, with transients as ranges of one more buffer, the last: the arena; a binding that lies
    less aligned than its executable needs (alignments: bytes by executable) is copied to one that is aligned, and back.
    arguments, results: (buffer, index, bytes); constants: (buffer, index). numbers: of the commands in the plan;
    patterns: one per command. count: buffers. late: whether constants and patterns follow the scalars of each call.
    state: whatever the device wants.
    """

    __slots__ = (
        "arena_bytes", "arguments", "commands", "constants", "count", "data", "late", "numbers", "origins", "patterns",
        "results", "sizes", "state", "transients",
    )  # fmt: skip

    def __init__(self, data: PlanData, alignments: Mapping[int, int] | None = None) -> None:
        self.data = data
        self.commands, self.late, self.numbers = data.commands, data.late, data.numbers
        self.origins: list[int] | None = (
            None  # where commands are more than those of the data: which each is, or is for
        )
        self.arguments = [(n, index, size) for n, (kind, index, size, _) in enumerate(data.buffers) if kind == ARGUMENT]
        self.results = [(n, index, size) for n, (kind, index, size, _) in enumerate(data.buffers) if kind == RESULT]
        self.transients = [(n, offset) for n, (kind, _, _, offset) in enumerate(data.buffers) if kind == TRANSIENT]
        self.constants = [(n, index) for n, (kind, index, _, _) in enumerate(data.buffers) if kind == CONSTANT]
        self.sizes = [size for _, _, size, _ in data.buffers]
        self.arena_bytes = data.arena_bytes
        self.state: Any = None
        if alignments and any(_is_odd(command, alignments) for command in data.commands):
            self._stage(alignments)
        self.patterns = [command[10] for command in self.commands]
        self.count = len(self.sizes)
        self._commands_with_arena()

    def patterns_of(self, patterns: list[int]) -> list[int]:
        """One pattern per command, out of one per command of the data."""
        return patterns if self.origins is None else [patterns[i] for i in self.origins]

    def _stage(self, alignments: Mapping[int, int]) -> None:
        """Puts copies around the dispatches with bindings that are not aligned. Regions become three each."""
        made: list[Command] = []
        origins: list[int] = []
        for number, command in enumerate(self.data.commands):
            before, after, slots = [], [], list(command[9])
            staged: dict[Slot, int] = {}
            for i, slot in enumerate(slots if _is_odd(command, alignments) else ()):
                buffer, offset, length = slot
                if not length or offset % alignments[command[2]] == 0:
                    continue
                if slot not in staged:
                    own = staged[slot] = self._new_transient(length)
                    before.append(_copy(3 * command[1], slot, (own, 0, length)))
                    if self.data.buffers[buffer][0] in (RESULT, TRANSIENT):  # nothing else is ever written
                        after.append(_copy(3 * command[1] + 2, (own, 0, length), slot))
                slots[i] = (staged[slot], 0, length)
            made += [*before, (command[0], 3 * command[1] + 1, *command[2:9], slots, *command[10:]), *after]
            origins += [number] * (len(before) + 1 + len(after))
        order = sorted(range(len(made)), key=lambda i: made[i][1])
        self.commands, self.origins = [made[i] for i in order], [origins[i] for i in order]
        self.numbers = [self.data.numbers[i] for i in self.origins]

    def _new_transient(self, size: int) -> int:
        offset = -(-self.arena_bytes // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        self.arena_bytes = offset + size
        self.transients.append((len(self.sizes), offset))
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _commands_with_arena(self) -> None:
        if not self.transients:
            return
        moved, arena = dict(self.transients), self.count
        self.count += 1

        def place(slot: Slot) -> Slot:
            buffer, offset, length = slot
            return (arena, offset + moved[buffer], length) if buffer in moved else slot

        self.commands = [(*c[:9], [place(slot) for slot in c[9]], *c[10:]) for c in self.commands]


def _is_odd(command: Command, alignments: Mapping[int, int]) -> bool:
    """Whether a dispatch has a binding that its executable does not take where it lies."""
    if command[0] != DISPATCH:
        return False
    alignment = alignments.get(command[2], 1)
    return alignment > 1 and any(offset % alignment for _, offset, length in command[9] if length)


def _copy(region: int, source: Slot, target: Slot) -> Command:
    return COPY, region, 0, 0, 0, "", (0, 0, 0), 0, 0, [source, target], 0, 0


def label(command: Command, kernel: str) -> str:
    """A command in words; kernel: the name of what a dispatch runs."""
    if command[0] == DISPATCH:
        return f"{kernel} {'x'.join(map(str, command[6]))}"
    return f"{'fill' if command[0] == FILL else 'copy'} {command[9][0][2]} bytes"
