"""Commands of one straight-line function and the storages that they access, before memory is assigned.

A `Storage` is a range of memory that holds tensor values; several values share one where an operation is in place or is
a view. Commands that access a common storage, one of them writing, are ordered; others may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydispatch.formats.program.commands import Custom
from pydispatch.formats.program.opcodes import Access
from pydispatch.formats.program.program import NONE, BindingRange, BufferKind, ProgramFunction


@dataclass(eq=False)
class Storage:
    """Memory of one or more tensors of a host function, before it is known in which buffer it is.

    Attributes:
        kind: Whether it is an argument, a result, a constant or a transient.
        size: Register that has its size in bytes; NONE for arguments and constants.
        index: Index of the argument, of the result, or of the constant in the program; 0 for a transient.
        buffer: Index of its buffer in the function; NONE until it is assigned.
        copied_from: Argument whose content is copied into it first; None if it begins undefined.
        tile_bytes: Bytes of one tile, for a transient that only one tile-fused dispatch sequence uses; else 0. Such a
            sequence runs tile by tile (`chains.py`), and the transient has memory for a few tiles instead of all.
    """

    kind: BufferKind
    size: int = NONE
    index: int = 0
    buffer: int = NONE
    copied_from: Storage | None = None
    tile_bytes: int = 0


@dataclass(frozen=True)
class HostTensor:
    """Tensor of a function: a range of a storage, with a shape and an element type.

    Attributes:
        storage: The memory that contains it.
        dims: Registers that have its sizes, outermost dimension first.
        dtype: Word that encodes its element type (`dtype_word`).
        offset: Register that has its byte offset in the storage; NONE for a tensor that is the whole storage.
        length: Register that has its size in bytes; NONE for a tensor that is the whole storage.
    """

    storage: Storage
    dims: tuple[int, ...]
    dtype: int
    offset: int = NONE
    length: int = NONE

    @property
    def is_part(self) -> bool:
        """Whether it is a range of its storage; else it is the whole storage."""
        return self.offset != NONE


@dataclass(frozen=True)
class Range:
    """Bytes of a storage that a command accesses.

    Attributes:
        storage: The memory.
        first: Offset of the first byte; None if the range is not known, and may be the whole storage.
        count: Number of bytes if `first` is known.
    """

    storage: Storage
    first: int | None = None
    count: int = 0

    def meets(self, other: Range) -> bool:
        """Return whether this range and `other` may share a byte."""
        if self.storage is not other.storage:
            return False
        if self.first is None or other.first is None:  # at an unknown position
            return True
        return self.first < other.first + other.count and other.first < self.first + self.count


@dataclass
class Tiles:
    """Memory access pattern of a dispatch, for tile-fused dispatch sequences (host/chains.py).

    Attributes:
        slice_bytes: Storage → bytes of the slice that each workgroup accesses, where workgroup i accesses slice i; 0 if
            a workgroup may access other slices.
        groups: Workgroups in a tile if the dispatch is in such a sequence, else 0. Set by `form_chains`.
        follows: Whether it continues the sequence of the command before it. Set by `form_chains`.
    """

    slice_bytes: dict[Storage, int]
    groups: int = 0
    follows: bool = False


class Binding(NamedTuple):
    """Binding of a dispatch.

    Attributes:
        tensor: The tensor.
        is_written: Whether the dispatch writes it.
    """

    tensor: HostTensor
    is_written: bool


@dataclass
class ScheduledCommand:
    """Command of a function that is emitted when all buffers have indices.

    Attributes:
        reads: Ranges that it reads.
        writes: Ranges that it writes.
        emit: Function that emits it into the function that it is passed.
        is_ordered: Whether the host runs it, after all earlier commands with this flag.
        region: Index of its region: commands of one region may run concurrently. Set by `assign_regions`.
        tiles: Access pattern of a dispatch that may be part of a tile-fused dispatch sequence; None for others.
    """

    reads: list[Range]
    writes: list[Range]
    emit: Callable[[ProgramFunction], None]
    is_ordered: bool = False
    region: int = 0
    tiles: Tiles | None = None


@dataclass
class CommandList:
    """Commands (dispatches, copies, fills, host commands) of one straight-line function while it is lowered.

    The lowering adds commands by `dispatch`, `copy`, `fill` and so on. At the end it calls `assign_regions`, gives
    buffers to the storages, and calls `emit`. Commands are in program order, and after `assign_regions` in the order of
    their regions. A region is a set of commands without dependences between them, which may run at the same time.
    """

    function: ProgramFunction
    commands: list[ScheduledCommand] = field(default_factory=list)

    def range_of(self, tensor: HostTensor) -> Range:
        """Return the byte range of a tensor: an unknown range of its storage if offset or length is a runtime value."""
        if not tensor.is_part:
            return Range(tensor.storage)
        first, count = (self.function.constant_value(r) for r in (tensor.offset, tensor.length))
        if first is None or count is None:
            return Range(tensor.storage)
        return Range(tensor.storage, first, count)

    def dispatch(
        self, export: int, grid: Sequence[int], constants: Sequence[int], bindings: Sequence[Binding],
        slice_bytes: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Add a dispatch.

        Args:
            export: Register of the export's index.
            grid: Registers of the number of workgroups in x, y and z.
            constants: Registers of the push constants, of 32 bits each.
            bindings: The tensors that it binds.
            slice_bytes: For each binding the size n of a workgroup's slice, in bytes: workgroup i accesses no bytes
                but n * i to n * (i + 1) - 1. 0 for a binding of which a workgroup may access any byte; empty if
                unknown for all.
        """
        tiles = Tiles(_slice_bytes_of_storages(bindings, slice_bytes)) if slice_bytes else None

        def emit(function: ProgramFunction) -> None:
            """Emit the dispatch of `export` with its `grid`, `constants` and `bindings` into `function`.

            Called once the storages have buffers, and `form_chains` has set the fields of `tiles`: `groups`, the
            number of workgroups in a tile, and `follows`, whether the dispatch runs tile by tile with the one before.
            """
            ranges = [BindingRange(t.storage.buffer, t.offset, t.length) for t, _ in bindings]
            if tiles is None:
                function.dispatch(export, grid, constants, ranges)
            else:
                function.dispatch(export, grid, constants, ranges, tile_groups=tiles.groups, follows=tiles.follows)

        reads = [binding.tensor for binding in bindings if not binding.is_written]
        writes = [binding.tensor for binding in bindings if binding.is_written]
        self.add(reads, writes, emit)
        self.commands[-1].tiles = tiles  # of the command that was just added

    def copy(self, source: HostTensor, target: HostTensor, length: int) -> None:
        """Add a copy. length: register of the size in bytes."""
        self.copy_runs([(source, target)], length)

    def copy_runs(self, runs: Sequence[tuple[HostTensor, HostTensor]], length: int) -> None:
        """Add copies of equal length as one command. They may run concurrently: their targets are disjoint.

        Args:
            runs: (source, target) of each copy.
            length: Register of the number of bytes of each copy.
        """

        def emit(function: ProgramFunction) -> None:
            """Add the copies of `runs` to `function`. Called once the storages have buffers."""
            for source, target in runs:
                function.copy(source.storage.buffer, source.offset, target.storage.buffer, target.offset, length)

        self.add([source for source, _ in runs], [target for _, target in runs], emit)

    def fill(self, target: HostTensor, pattern: int, pattern_bytes: int) -> None:
        """Add a fill of a tensor with copies of one element.

        Args:
            target: The tensor.
            pattern: Register of the element. Elements of 2 or 4 bits are packed: the register then has a byte of 4 or 2
                copies of the element.
            pattern_bytes: Size of the pattern in bytes.
        """
        self.add(
            [], [target],
            lambda f: f.fill(BindingRange(target.storage.buffer, target.offset, target.length), pattern, pattern_bytes),
        )  # fmt: skip

    def host_command(
        self, command: int, sizes: Sequence[int], constants: Sequence[int], tensors: Sequence[tuple[HostTensor, Access]]
    ) -> None:
        """Add a host command. Host commands keep their order, since they may have further effects.

        Args:
            command: Its index in the program.
            sizes: Registers of the dynamic sizes of the tensors.
            constants: Registers of the scalar operands, a register for each 32-bit word. HIGH_WORD added to a register
                selects its upper 32 bits.
            tensors: (tensor, how the command accesses it) of each tensor operand.
        """

        def emit(function: ProgramFunction) -> None:
            """Add the host command with its `sizes`, `constants` and `tensors` to `function`.

            Called once the storages of the tensors have buffers.
            """
            ranges = [BindingRange(t.storage.buffer, t.offset, t.length) for t, _ in tensors]
            function.command(Custom(command, sizes, constants, ranges))

        reads = [t for t, access in tensors if access is Access.READ]
        writes = [t for t, access in tensors if access is not Access.READ]  # also those that it reads first
        self.add(reads, writes, emit, is_ordered=True)

    def add(
        self, reads: Iterable[HostTensor], writes: Iterable[HostTensor], emit: Callable[[ProgramFunction], None],
        is_ordered: bool = False,
    ) -> None:  # fmt: skip
        """Add a command.

        Args:
            reads, writes: Tensors that it reads, and tensors that it writes.
            emit: Function that emits it, called when all storages have buffers.
            is_ordered: Whether it must run after all earlier ordered commands.
        """
        read_ranges, written_ranges = [self.range_of(t) for t in reads], [self.range_of(t) for t in writes]
        self.commands.append(ScheduledCommand(read_ranges, written_ranges, emit, is_ordered))

    def assign_regions(self) -> None:
        """Assign each command the earliest region after those of its dependencies, and sort the commands by region.

        A region is a set of commands that may run at the same time; regions run one after another. A command depends on
        earlier writes of what it accesses, and on earlier reads of what it writes. An ordered command, which the host
        runs, also depends on the ordered command before it.

        Example: dispatches that compute a = f(x), b = g(y) and c = h(a, b) get the regions 0, 0 and 1.
        """
        written: dict[Storage, list[tuple[Range, int]]] = {}  # storage → (range, region) of writes so far
        read: dict[Storage, list[tuple[Range, int]]] = {}  # storage → (range, region) of reads so far
        ordered = -1  # the region of the last ordered command; -1 for none
        for command in self.commands:
            after = [ordered if command.is_ordered else -1]  # the regions of its dependencies
            for touched in (*command.reads, *command.writes):
                after += _regions_of(written, touched)
            for touched in command.writes:
                after += _regions_of(read, touched)
            command.region = max(after) + 1
            # Record its accesses for later commands.
            if command.is_ordered:
                ordered = command.region
            for touched in command.reads:
                _record_access(read, touched, command.region)
            for touched in command.writes:
                is_whole_storage = touched.first is None
                if is_whole_storage:  # it runs after all earlier accesses of the storage: later commands need only it
                    written[touched.storage] = []
                    read.pop(touched.storage, None)
                _record_access(written, touched, command.region)
        # Host commands come first: the calling thread runs them, so that Python commands receive signals.
        self.commands.sort(key=lambda c: (c.region, not c.is_ordered))

    def may_share(self, source: Storage, target: Storage) -> bool:
        """Return whether `target`, which begins as a copy of `source`, may use the same memory.

        It may if no command reads `source` while or after `target` is written, not counting the initial copy, which is
        the first command that writes `target`. Regions, which run one after the other, must be assigned.
        """
        copy, *others = [c for c in self.commands if any(w.storage is target for w in c.writes)]
        # The regions of the other commands that write `target` or read `source`: all readers must run before.
        writers = [c.region for c in others]
        readers = [c.region for c in self.commands if c is not copy and any(r.storage is source for r in c.reads)]
        return not readers or not writers or max(readers) < min(writers)

    def storages(self) -> list[Storage]:
        """Return every storage that a command touches, in the order of first use."""
        return list(dict.fromkeys(r.storage for c in self.commands for r in (*c.reads, *c.writes)))

    def emit(self, function: ProgramFunction) -> None:
        """Write the commands into `function`; all storages must have buffers.

        Commands of one region may run concurrently; regions run one after another, or, in a tile-fused sequence, tile
        by tile.
        """
        for command in self.commands:
            while function.region < command.region:
                function.next_region()
            command.emit(function)


def _slice_bytes_of_storages(bindings: Sequence[Binding], slice_bytes: Sequence[int]) -> dict[Storage, int]:
    """Return storage → bytes n of it that a workgroup accesses: workgroup i accesses bytes i * n to (i + 1) * n - 1.

    n is 0 if a workgroup may access other bytes, or if bindings of the storage have different n.

    slice_bytes: the bytes n of each binding, from the beginning of its tensor.
    """
    bytes_of_storage: dict[Storage, int] = {}
    for (tensor, _), size in zip(bindings, slice_bytes, strict=False):
        # A tensor that is a part of its storage begins at an offset: its slices are not at multiples of their size.
        size_in_storage = 0 if tensor.is_part else size
        is_equal = bytes_of_storage.get(tensor.storage, size_in_storage) == size_in_storage
        bytes_of_storage[tensor.storage] = size_in_storage if is_equal else 0
    return bytes_of_storage


def _regions_of(accesses: Mapping[Storage, list[tuple[Range, int]]], touched: Range) -> list[int]:
    """Return the regions of the accesses that overlap a range; `accesses` has pairs (range, region)."""
    return [region for other, region in accesses.get(touched.storage, ()) if other.meets(touched)]


def _record_access(table: dict[Storage, list[tuple[Range, int]]], touched: Range, region: int) -> None:
    """Record an access of `touched` by a command in `region` in a table of (range, region) by storage.

    Of accesses to a whole storage only the one in the last region is kept: a command after it is after all of them.
    """
    entries = table.setdefault(touched.storage, [])
    if touched.first is None:
        whole_regions = [other_region for other, other_region in entries if other.first is None]
        entries[:] = [entry for entry in entries if entry[0].first is not None]
        region = max([region, *whole_regions])
    entries.append((touched, region))
