"""Report of dispatch formation: the operations of each dispatch, and the reasons why neighbours were not fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.fusion.groups import Edge
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.outline.boundaries import jumps_of, origins, separation
from pydispatch.compiler.outline.names import is_quiet
from pydispatch.formats.artifact.dispatches import Boundary, DispatchEntry, Listing
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.values import constant_index

_COPY = "a copy"
"""Text of a dispatch without operations that are listed."""


@dataclass
class FusionReport:
    """Report for the user: which dispatches the operations of one host function became, and why others were not fused.

    Dispatch formation calls `begin` for each block, then `outlined` for each of its groups, and `finish` at the end.

    Attributes:
        function: Name of the host function.
        dispatches: Its dispatches in program order.
    """

    function: str
    dispatches: list[DispatchEntry] = field(default_factory=list)
    _formed: list[flow.DispatchOp] = field(default_factory=list)
    """The operation of each of `dispatches`, by index, until `_insert_handwritten` inserts those of hand-written
    kernels."""
    _pending: list[tuple[str, ...]] = field(default_factory=list)
    """The operations of each group that is not outlined yet, as text."""
    _refused: dict[tuple[int, int], list[Boundary]] = field(default_factory=dict)
    """(index of a dispatch, index of another) → why formation did not fuse operations of the two."""

    def begin(self, groups: Sequence[Sequence[Operation]], edges: Sequence[Edge]) -> None:
        """Record the groups of a block, before they are outlined, and why operations were not fused.

        Args:
            groups: The operations of each future dispatch, in the order in which `outlined` is called for them.
            edges: Producers and consumers that are in different groups, with the reason.
        """
        # The operations of each group as text, each once, without those that reports omit (fills and views).
        self._pending = [
            tuple(dict.fromkeys(describe_location(op) for op in group if not is_quiet(op))) for group in groups
        ]
        # operation → index that its dispatch will have in `dispatches`
        dispatch_of = {op: n for n, group in enumerate(groups, len(self.dispatches)) for op in group}
        for edge in edges:
            if edge.producer in dispatch_of and edge.consumer in dispatch_of:
                dispatches = dispatch_of[edge.producer], dispatch_of[edge.consumer]
                boundary = Boundary(describe_location(edge.producer), describe_location(edge.consumer), edge.reason)
                self._refused.setdefault(dispatches, []).append(boundary)

    def outlined(self, dispatch: flow.DispatchOp) -> None:
        """Record that the first of the pending groups of operations has become `dispatch`."""
        self.dispatches.append(DispatchEntry(*_names_of(dispatch), self._pending.pop(0)))
        self._formed.append(dispatch)

    def finish(self, function: Operation) -> None:
        """Record for each dispatch why the dispatches that read its results were not fused with it.

        The reason is the one that `begin` was passed for the two, if formation compared them. Otherwise it names the
        loop, branch or host code between them (`separation`). Example: of `%a = dispatch @d0; %b = host_op %a;
        dispatch @d1(%b)`, the entry of @d0 gets the boundary (last operation of @d0, first operation of @d1, "the host
        runs host_op between them; ...").

        Args:
            function: The host function after formation.
        """
        numbers = {op: n for n, op in enumerate(self._formed)}  # indices of formed dispatches; others have none
        apart: dict[int, dict[Boundary, None]] = {}  # index of a dispatch → why its readers were not fused with it
        jumps = jumps_of(function)  # block -> the branches to it, which pass results to their readers
        for consumer in walk(function):
            if not isinstance(consumer, flow.DispatchOp):
                continue
            for producer, between in origins(consumer, jumps).items():  # between: host code on the way, or None
                # Only formed dispatches are listed with their readers. A dispatch in a loop may read its own results.
                if producer not in numbers or producer is consumer:
                    continue
                writer, reader = numbers[producer], numbers.get(consumer)  # None: a hand-written kernel reads
                boundaries = None if reader is None else self._refused.get((writer, reader))
                if boundaries is None:  # formation has not compared the two: control flow or host code is between
                    reason = separation(producer, consumer, between, formed=reader is not None)
                    # A hand-written kernel has no operations.
                    first_read = describe_location(consumer) if reader is None else self._first_operation(reader)
                    boundaries = [Boundary(self._last_operation(writer), first_read, reason)]
                apart.setdefault(writer, {}).update(dict.fromkeys(boundaries))
        self.dispatches = [replace(d, apart=tuple(apart.get(n, ()))) for n, d in enumerate(self.dispatches)]
        self._insert_handwritten(function, numbers)

    def _insert_handwritten(self, function: Operation, numbers: Mapping[flow.DispatchOp, int]) -> None:
        """Insert the dispatches of hand-written kernels between the formed ones, in program order.

        numbers: formed dispatch → its index in `dispatches`; hand-written ones have none.
        """
        entries: list[DispatchEntry] = []
        listed: set[int] = set()
        for op in walk(function):
            if not isinstance(op, flow.DispatchOp):
                continue
            ordinal = numbers.get(op)
            if ordinal is None:
                entries.append(DispatchEntry(*_names_of(op), (f"a kernel of the program, {describe_location(op)}",)))
            else:
                entries.append(self.dispatches[ordinal])
                listed.add(ordinal)
        # A formed dispatch that was removed later has no place in program order: the list then stays as it was.
        if len(listed) == len(self.dispatches):
            self.dispatches = entries

    def _first_operation(self, ordinal: int) -> str:
        """Return the text of the first operation of a dispatch; "a copy" if it has no operations."""
        return (self.dispatches[ordinal].ops or (_COPY,))[0]

    def _last_operation(self, ordinal: int) -> str:
        """Return the text of the last operation of a dispatch; "a copy" if it has no operations."""
        return (self.dispatches[ordinal].ops or (_COPY,))[-1]


def _names_of(dispatch: flow.DispatchOp) -> tuple[str, str]:
    """Return the executable and the export of a dispatch; if several may run, of the first one."""
    entry = dispatch.entry_points.data[0]
    return entry.root_reference.data, entry.nested_references.data[-1].data


def listing(reports: Sequence[FusionReport], module: ModuleOp | None = None) -> Listing:
    """Return the part of the reports that an artifact stores: the dispatches of each function.

    module: the program after its executables were expanded, from which the grids are read; None for no grids.
    """
    grids = grids_of(module) if module is not None else {}
    return [
        (r.function, [replace(d, grids=grids.get((d.executable, d.export), ())) for d in r.dispatches])
        for r in reports
        if r.dispatches
    ]


def grids_of(module: ModuleOp) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return for each (executable, export) the distinct grids of its variants, as texts such as `4x1x1`."""
    grids_by_export: dict[tuple[str, str], dict[str, None]] = {}
    for executable in module.body.block.ops:
        if isinstance(executable, hal.ExecutableOp):
            for export in walk(executable):
                if isinstance(export, hal.ExecutableExportOp) and export.count.blocks:
                    names = executable.sym_name.data, export.sym_name.data
                    grids_by_export.setdefault(names, {})[_grid(export)] = None
    return {names: tuple(grids) for names, grids in grids_by_export.items()}


def _grid(export: hal.ExecutableExportOp) -> str:
    """Return a grid as text, such as `4x1x1`, with `?` for a number that depends on sizes."""
    end = export.count.block.last_op
    assert end is not None
    counts = [constant_index(v) for v in end.operands]
    return "x".join("?" if n is None else str(n) for n in counts)
