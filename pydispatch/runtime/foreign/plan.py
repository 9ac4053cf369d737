"""A plan as a device keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydispatch._core.device import PlanData

DISPATCH, FILL, COPY = 0, 1, 2
"""Kinds of commands: entry 0 of a command of `PlanData.commands`."""
ARGUMENT, RESULT, TRANSIENT, CONSTANT = 0, 1, 2, 3
"""Kinds of buffers."""

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

    commands: as in PlanData, with transients as ranges of one more buffer, the last: the arena. arguments, results:
    (buffer, index, bytes); constants: (buffer, index); numbers, patterns: one per command. count: buffers. late:
    whether constants and patterns follow the scalars of each call. state: whatever the device wants.
    """

    __slots__ = (
        "arena_bytes", "arguments", "commands", "constants", "count", "data", "late", "patterns", "results", "state",
        "transients",
    )  # fmt: skip

    def __init__(self, data: PlanData) -> None:
        self.data = data
        self.commands, self.late = data.commands, data.late
        self.arguments = [(n, index, size) for n, (kind, index, size, _) in enumerate(data.buffers) if kind == ARGUMENT]
        self.results = [(n, index, size) for n, (kind, index, size, _) in enumerate(data.buffers) if kind == RESULT]
        self.transients = [(n, offset) for n, (kind, _, _, offset) in enumerate(data.buffers) if kind == TRANSIENT]
        self.constants = [(n, index) for n, (kind, index, _, _) in enumerate(data.buffers) if kind == CONSTANT]
        self.patterns = [command[10] for command in data.commands]
        self.count = len(data.buffers)
        self.arena_bytes = data.arena_bytes
        self.state: Any = None
        self._commands_with_arena()

    def _commands_with_arena(self) -> None:
        if not self.transients:
            return
        moved, arena = dict(self.transients), self.count
        self.count += 1

        def place(slot: Slot) -> Slot:
            buffer, offset, length = slot
            return (arena, offset + moved[buffer], length) if buffer in moved else slot

        self.commands = [(*c[:9], [place(slot) for slot in c[9]], *c[10:]) for c in self.commands]


def label(command: Command, kernel: str) -> str:
    """A command in words; kernel: the name of what a dispatch runs."""
    if command[0] == DISPATCH:
        return f"{kernel} {'x'.join(map(str, command[6]))}"
    return f"{'fill' if command[0] == FILL else 'copy'} {command[9][0][2]} bytes"
