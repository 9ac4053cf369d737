"""Formation of chains: dispatches that depend on each other tile by tile, so that each tile may pass through all of
them before the next one (docs/program.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import lcm

from pydispatch.compiler.host.commands import ScheduledCommand, Storage
from pydispatch.formats.program.program import BufferKind

MOST_GROUPS = 1 << 16
"""Maximum number of workgroups that one dispatch has in a tile; a dispatch that would exceed it does not join the
chain."""
ALIGNMENT = 64
"""Alignment in bytes of each tile's slice of a transient. A transient whose slices have other sizes is stored whole,
instead of a few tiles at a time."""


def form_chains(commands: Sequence[ScheduledCommand]) -> None:
    """Form the chains (tile-fused dispatch sequences) of a function, in place.

    The dispatches of a chain run tile by tile: a few workgroups of each dispatch, one dispatch after the other, then
    the next tile. Set `tiles.groups`, the workgroups of a dispatch in each tile, and `tiles.follows`, whether a
    dispatch continues the chain of the one before it. Set `tile_bytes` of the transients that only one chain uses: they
    need memory for a few tiles only.

    commands: all commands of the function, sorted by region.
    """
    for chain in _chains(commands):
        for position, command in enumerate(chain.commands):
            assert command.tiles is not None
            command.tiles.groups = chain.groups[position]
            command.tiles.follows = position > 0
        # Memory that is used outside of the chain needs all of its bytes.
        outside = {r.storage for c in commands if c not in chain.commands for r in (*c.reads, *c.writes)}
        for storage in _touched(chain.commands) - outside:
            bytes_per_tile = chain.bytes_of(storage)
            # The tiles in memory follow each other: each begins at an aligned offset only if sizes are aligned.
            if storage.kind is BufferKind.TRANSIENT and bytes_per_tile % ALIGNMENT == 0:
                storage.tile_bytes = bytes_per_tile


def _chains(commands: Sequence[ScheduledCommand]) -> Iterator[_Chain]:
    """Yield the maximal chains of at least two dispatches, each alone in its region, in consecutive regions.

    commands: all commands of the function, sorted by region.
    """
    chain: _Chain | None = None
    for _, group in groupby(commands, lambda c: c.region):
        region = list(group)
        # `tiles` is None for copies, fills and dispatches whose access pattern is unknown.
        command = region[0] if len(region) == 1 and region[0].tiles is not None else None
        if command is not None and chain is not None and chain.join(command):
            continue
        if chain is not None and len(chain.commands) > 1:
            yield chain
        chain = _Chain(command) if command is not None else None
    if chain is not None and len(chain.commands) > 1:
        yield chain


class _Chain:
    """Chain of dispatches that run tile by tile: a tile passes through all of them before the next tile begins.

    Attributes:
        commands: The dispatches, in the order in which a tile passes through them.
        groups: Number of workgroups that each dispatch has in a tile.
    """

    def __init__(self, first: ScheduledCommand) -> None:
        """Begin a chain with the dispatch `first`, of which a tile has one workgroup."""
        self.commands, self.groups = [first], [1]

    def bytes_of(self, storage: Storage) -> int:
        """Return the size of a tile's slice of a storage in bytes: bytes per workgroup times workgroups per tile.

        Return 0 if this size is unknown, or differs between the commands that access the storage: a command would
        access more than the slice of another one.
        """
        sizes = {
            _bytes_per_workgroup(command, storage) * groups
            for command, groups in zip(self.commands, self.groups, strict=True)
            if storage in _touched([command])
        }
        return sizes.pop() if len(sizes) == 1 else 0

    def join(self, command: ScheduledCommand) -> bool:
        """Append the dispatch `command` if it can run tile by tile with the chain; return whether it was appended."""
        common = self._common_tile(command)
        if common is None:
            return False
        # The new tile: `tiles_joined` tiles of the chain so far, and `command_groups` workgroups of `command`.
        tiles_joined, command_groups = common
        groups = [*(g * tiles_joined for g in self.groups), command_groups]
        if max(groups) > MOST_GROUPS:
            return False
        self.commands.append(command)
        self.groups = groups
        return True

    def _common_tile(self, command: ScheduledCommand) -> tuple[int, int] | None:
        """Return the common tile of a chain and a dispatch: (consecutive tiles of the chain, workgroups of `command`).

        That many tiles and that many workgroups access the same bytes of every storage that the chain and the dispatch
        share and one of them writes. So the workgroups depend on no other tile of the chain. With tiles of 64 bytes of
        a storage and workgroups of 96, the common tile has 192 bytes: the result is (3, 2).

        Return None if no two numbers fit all of these storages, if the bytes of one are unknown, or if there is no such
        storage.
        """
        # Pairs of a storage of the chain and a storage of the dispatch that may be the same memory. They may be, though
        # the storages differ, if one begins as a copy of the other, an argument (`_memory`).
        written = {id(_memory(range_.storage)) for c in (*self.commands, command) for range_ in c.writes}
        shared = [
            (of_chain, of_command)
            for of_chain in _touched(self.commands)
            for of_command in _touched([command])
            if _memory(of_chain) is _memory(of_command) and id(_memory(of_chain)) in written
        ]
        # The numbers are chosen so that tile_bytes * tiles_joined = group_bytes * command_groups for all pairs.
        tiles_joined, command_groups = 1, 0  # 0: not chosen yet
        for of_chain, of_command in shared:
            tile_bytes, group_bytes = self.bytes_of(of_chain), _bytes_per_workgroup(command, of_command)
            if not tile_bytes or not group_bytes:
                return None
            if not command_groups:  # the first shared storage decides both numbers
                joined_bytes = lcm(tile_bytes, group_bytes)
                tiles_joined, command_groups = joined_bytes // tile_bytes, joined_bytes // group_bytes
            if tile_bytes * tiles_joined != group_bytes * command_groups:
                return None
        return (tiles_joined, command_groups) if command_groups else None


def _touched(commands: Sequence[ScheduledCommand]) -> set[Storage]:
    """Return the storages that commands access."""
    return {r.storage for c in commands for r in (*c.reads, *c.writes)}


def _bytes_per_workgroup(command: ScheduledCommand, storage: Storage) -> int:
    """Return the size of a workgroup's slice of a storage, in bytes; 0 if unknown."""
    return command.tiles.slice_bytes.get(storage, 0) if command.tiles is not None else 0


def _memory(storage: Storage) -> Storage:
    """Return the argument that is first copied into a storage, if any, else the storage itself.

    The storage and the argument may be the same memory.
    """
    return storage.copied_from or storage
