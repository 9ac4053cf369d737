"""The commands of one host function and the memory that they share, before either is laid out.

A `Storage` is a run of memory that a tensor value lives in; several values share one when an operation works in
place. Commands that touch a common storage, one of them writing, run in order; the others may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pydispatch.formats.program import NONE, BindingRange, BufferKind, Function


@dataclass(eq=False)
class Storage:
    """Memory of one tensor. size: register of its bytes; buffer: its number once it has been placed."""

    kind: BufferKind
    size: int
    index: int = 0
    buffer: int = NONE


@dataclass(frozen=True)
class Tensor:
    """A tensor value: where it lives, the registers of its sizes, and its dtype word."""

    storage: Storage
    dims: tuple[int, ...]
    dtype: int


@dataclass
class Command:
    """One command: what it reads and writes, and how to emit it once buffers have numbers."""

    reads: list[Storage]
    writes: list[Storage]
    emit: Callable[[Function], None]
    region: int = 0


@dataclass
class CommandList:
    commands: list[Command] = field(default_factory=list)

    def dispatch(
        self, export: int, grid: Sequence[int], constants: Sequence[int], bindings: Sequence[tuple[Storage, bool]]
    ) -> None:
        """bindings: storage and whether the dispatch writes it."""

        def emit(function: Function) -> None:
            function.dispatch(export, grid, constants, [BindingRange(s.buffer) for s, _ in bindings])

        self.add([s for s, write in bindings if not write], [s for s, write in bindings if write], emit)

    def copy(self, source: Storage, target: Storage, length: int) -> None:
        """length: register of the bytes."""
        self.add([source], [target], lambda f: f.copy(source.buffer, NONE, target.buffer, NONE, length))

    def add(self, reads: Iterable[Storage], writes: Iterable[Storage], emit: Callable[[Function], None]) -> None:
        self.commands.append(Command(list(reads), list(writes), emit))

    def assign_regions(self) -> None:
        """Every command gets the earliest region in which nothing that it depends on still runs."""
        written: dict[Storage, int] = {}
        read: dict[Storage, int] = {}
        for command in self.commands:
            after = [written[s] for s in (*command.reads, *command.writes) if s in written]
            after += [read[s] for s in command.writes if s in read]
            command.region = max(after, default=-1) + 1
            for storage in command.reads:
                read[storage] = max(read.get(storage, 0), command.region)
            for storage in command.writes:
                written[storage] = command.region
        self.commands.sort(key=lambda c: c.region)

    def storages(self) -> list[Storage]:
        """Every storage that a command touches, in the order of first use."""
        return list(dict.fromkeys(s for c in self.commands for s in (*c.reads, *c.writes)))

    def emit(self, function: Function) -> None:
        """Writes the commands into `function`; all storages must have buffers."""
        for command in self.commands:
            while function.region < command.region:
                function.next_region()
            command.emit(function)
