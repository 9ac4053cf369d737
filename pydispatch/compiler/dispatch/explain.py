"""What became of the tensor operations of a program: which ones a dispatch holds, and why neighbours are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Operation

from pydispatch.compiler.dispatch.fusion import Edge
from pydispatch.compiler.dispatch.names import QUIET, word_of
from pydispatch.errors import Location
from pydispatch.ir import flow
from pydispatch.ir.location import location_of


@dataclass
class Dispatch:
    """executable, export: its names. ops: what it holds, "file:line:column word" each. sizes: its workload's length."""

    executable: str
    export: str
    ops: list[str]
    arguments: int
    results: int
    apart: list[tuple[str, str]] = field(default_factory=list)
    """(consumer, why it is in another dispatch)."""


@dataclass
class Report:
    """One host function."""

    function: str
    dispatches: list[Dispatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._edges: list[tuple[Operation, str, str]] = []
        self._apart: dict[Operation, list[tuple[str, str]]] = {}

    def begin(self, groups: Sequence[Sequence[Operation]], edges: Sequence[Edge]) -> None:
        """Takes the groups of a block and the edges between them, before they are outlined."""
        self._apart = {}
        for edge in edges:
            self._apart.setdefault(edge.producer, []).append((place_of(edge.consumer), edge.reason))

    def outlined(self, group: Sequence[Operation], executable: flow.ExecutableOp, dispatch: flow.DispatchOp) -> None:
        """Takes a group that has become a dispatch."""
        entry = dispatch.entry_points.data[0]
        assert isinstance(entry, SymbolRefAttr)
        apart = [pair for op in group for pair in self._apart.get(op, ())]
        ops = [place_of(op) for op in group if op.name not in QUIET]
        self.dispatches.append(
            Dispatch(
                entry.root_reference.data, entry.nested_references.data[-1].data, list(dict.fromkeys(ops)),
                len(dispatch.arguments), len(dispatch.results), list(dict.fromkeys(apart)),
            )
        )  # fmt: skip

    def to_json(self) -> dict[str, object]:
        """For the manifest: only what is not empty."""
        return {
            "function": self.function,
            "dispatches": [
                {"executable": d.executable, "export": d.export, "ops": d.ops}
                | ({"apart": [list(pair) for pair in d.apart]} if d.apart else {})
                for d in self.dispatches
            ],
        }


def place_of(op: Operation) -> str:
    """`12:5 matmul` (line and column of the source), or just the word."""
    place: Location | None = location_of(op)
    word = word_of(op)
    return f"{place.line}:{place.column} {word}" if place is not None else word


def render(reports: Sequence[dict[str, object]]) -> str:
    """The reports of an artifact, as `Report.to_json` made them, for people."""
    lines: list[str] = []
    for report in reports:
        dispatches = report.get("dispatches")
        assert isinstance(dispatches, list)
        count = len(dispatches)
        lines.append(f"@{report['function']}: {count} dispatch{'' if count == 1 else 'es'}")
        for dispatch in dispatches:
            lines.append(f"  @{dispatch['export']}")
            lines.append(f"    {', '.join(dispatch['ops']) or 'a copy'}")
            for consumer, reason in dispatch.get("apart", ()):
                lines.append(f"    not with {consumer}: {reason}")
    return "\n".join(lines) or "no dispatches"
