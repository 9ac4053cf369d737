"""Chains: dispatches that depend on each other tile by tile, so that a tile may go through all of them before the next
one (docs/program.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import lcm

from pydispatch.compiler.host.commands import ScheduledCommand, Storage
from pydispatch.formats.program.program import BufferKind

MOST_GROUPS = 1 << 16
"""Workgroups of one dispatch in a tile."""
ALIGNMENT = 64
"""What tiles of a transient are a multiple of, in bytes."""


def form_chains(commands: Sequence[ScheduledCommand]) -> None:
    """Find the chains of a function whose regions are assigned, and the transients that only one chain uses."""
    for chain in _chains(commands):
        for position, command in enumerate(chain.commands):
            assert command.tiles is not None
            command.tiles.groups, command.tiles.follows = chain.groups[position], position > 0
        outside = {r.storage for c in commands if c not in chain.commands for r in (*c.reads, *c.writes)}
        for storage in _touched(chain.commands) - outside:
            size = chain.bytes_of(storage)
            if storage.kind is BufferKind.TRANSIENT and size % ALIGNMENT == 0:
                storage.tile_bytes = size


def _chains(commands: Sequence[ScheduledCommand]) -> Iterator[_Chain]:
    chain: _Chain | None = None
    for _, group in groupby(commands, lambda c: c.region):
        region = list(group)
        command = region[0] if len(region) == 1 and region[0].tiles is not None else None
        if command is not None and chain is not None and chain.join(command):
            continue
        if chain is not None and len(chain.commands) > 1:
            yield chain
        chain = _Chain(command) if command is not None else None
    if chain is not None and len(chain.commands) > 1:
        yield chain


class _Chain:
    """Dispatches of regions that follow each other, and the workgroups that each of them has in a tile."""

    def __init__(self, first: ScheduledCommand) -> None:
        self.commands, self.groups = [first], [1]

    def bytes_of(self, storage: Storage) -> int:
        """Return how many bytes of a storage a tile has, 0 when a command may touch more than that."""
        sizes = {
            _bytes(command, storage) * groups
            for command, groups in zip(self.commands, self.groups, strict=True)
            if storage in _touched([command])
        }
        return sizes.pop() if len(sizes) == 1 else 0

    def join(self, command: ScheduledCommand) -> bool:
        """Add a dispatch if every tile of what it shares with the chain is made and used by the same workgroups."""
        shared = [
            (one, other)
            for one in _touched(self.commands)
            for other in _touched([command])
            if _memory(one) is _memory(other)
            and any(_memory(r.storage) is _memory(one) for c in (*self.commands, command) for r in c.writes)
        ]
        factor, groups = 1, 0
        for one, other in shared:
            tile, own = self.bytes_of(one), _bytes(command, other)
            if not tile or not own:
                return False
            if not groups:
                factor, groups = lcm(tile, own) // tile, lcm(tile, own) // own
            if tile * factor != own * groups:
                return False
        if not groups or max(*(g * factor for g in self.groups), groups) > MOST_GROUPS:
            return False
        self.commands.append(command)
        self.groups = [*(g * factor for g in self.groups), groups]
        return True


def _touched(commands: Sequence[ScheduledCommand]) -> set[Storage]:
    return {r.storage for c in commands for r in (*c.reads, *c.writes)}


def _bytes(command: ScheduledCommand, storage: Storage) -> int:
    return command.tiles.bytes.get(storage, 0) if command.tiles is not None else 0


def _memory(storage: Storage) -> Storage:
    """Return the argument that a storage begins as a copy of, since both may share memory; the storage itself if it is
    no copy.
    """
    return storage.copied_from or storage
