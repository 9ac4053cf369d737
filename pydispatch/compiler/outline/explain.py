"""What became of the tensor operations of a program: which ones a dispatch holds, and why neighbours are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.fusion.groups import Edge
from pydispatch.compiler.outline.names import is_quiet, word_of
from pydispatch.errors import Location
from pydispatch.formats.artifact.dispatches import DispatchEntry, Listing
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.values import constant_index


@dataclass
class Report:
    """One host function."""

    function: str
    dispatches: list[DispatchEntry] = field(default_factory=list)
    _pending: list[tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = field(default_factory=list)

    def begin(self, groups: Sequence[Sequence[Operation]], edges: Sequence[Edge]) -> None:
        """Takes the groups of a block and the edges between them, before they are outlined."""
        apart: dict[Operation, list[tuple[str, str]]] = {}
        for edge in edges:
            apart.setdefault(edge.producer, []).append((place_of(edge.consumer), edge.reason))
        self._pending = [
            (
                tuple(dict.fromkeys(place_of(op) for op in group if not is_quiet(op))),
                tuple(dict.fromkeys(pair for op in group for pair in apart.get(op, ()))),
            )
            for group in groups
        ]

    def outlined(self, dispatch: flow.DispatchOp) -> None:
        """Takes what the next group has become."""
        entry = dispatch.entry_points.data[0]
        ops, apart = self._pending.pop(0)
        names = entry.root_reference.data, entry.nested_references.data[-1].data
        self.dispatches.append(DispatchEntry(*names, ops, apart))


def place_of(op: Operation) -> str:
    """`12:5 matmul` (line and column of the source), or just the word."""
    place: Location | None = location_of(op)
    word = word_of(op)
    return f"{place.layer or f'{place.line}:{place.column}'} {word}" if place is not None else word


def listing(reports: Sequence[Report], module: ModuleOp | None = None) -> Listing:
    """The part of the reports stored in an artifact. module: with executables expanded, for the grids."""
    grids = grids_of(module) if module is not None else {}
    return [
        (r.function, [replace(d, grids=grids.get((d.executable, d.export), ())) for d in r.dispatches])
        for r in reports
        if r.dispatches
    ]


def grids_of(module: ModuleOp) -> dict[tuple[str, str], tuple[str, ...]]:
    """(executable, export) -> the grids of its variants, each once."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for executable in module.body.block.ops:
        if isinstance(executable, hal.ExecutableOp):
            for export in executable.walk():
                if isinstance(export, hal.ExecutableExportOp) and export.count.blocks:
                    names = executable.sym_name.data, export.sym_name.data
                    found.setdefault(names, {})[_grid(export)] = None
    return {names: tuple(grids) for names, grids in found.items()}


def _grid(export: hal.ExecutableExportOp) -> str:
    """`4x1x1`, with `?` for what depends on sizes."""
    end = export.count.block.last_op
    assert end is not None
    counts = [constant_index(v) for v in end.operands]
    return "x".join("?" if n is None else str(n) for n in counts)
