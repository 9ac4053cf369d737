"""What became of the tensor operations of a program: which ones a dispatch holds, and why neighbours are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from pydispatch.compiler.dispatch.fusion import Edge
from pydispatch.compiler.dispatch.names import QUIET, word_of
from pydispatch.errors import Location
from pydispatch.formats.dispatches import DispatchEntry, Listing
from pydispatch.ir import flow
from pydispatch.ir.location import location_of


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
                tuple(dict.fromkeys(place_of(op) for op in group if op.name not in QUIET)),
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
    return f"{place.line}:{place.column} {word}" if place is not None else word


def listing(reports: Sequence[Report]) -> Listing:
    """What an artifact keeps of the reports."""
    return [(r.function, r.dispatches) for r in reports if r.dispatches]
