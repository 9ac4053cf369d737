"""Tables of documents: which figures they show, and writing them.

A document says `<!-- figures: NAME -->` and later `<!-- end -->`; what is between is replaced by the table NAME of
`TABLES`. A block of which nothing was measured stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from report.figures import ROOT, Figures, Row
from report.spreads import AREAS, spreads
from report.tables import Cell, Machines, Table, across, cells, fastest, grid, listed, losses, summary

DOCUMENTS = (
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "benchmarks").glob("*.md")),
    "docs/benchmarking.md",
    "docs/llm.md",
)
"""Documents with tables, relative to the project's folder."""
BLOCK = re.compile(r"(<!-- figures: ([\w/-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
"""Pattern of a table in a document: head, name of the table, old text, end."""
WIDEST = 10
"""Number of columns that a page shows side by side: a table with more is divided into one for each machine."""


@dataclass(frozen=True)
class Block:
    """A table of a document.

    Attributes:
        file: Name of the benchmark.
        build: Function that builds the table from the figures of one or several machines.
        names: Names of the rows in the table, all if empty.
        sizes: Sizes of the rows in the table, all if empty.
    """

    file: str
    build: Callable[[Machines], Table] = grid
    names: Sequence[str] = ()
    sizes: Sequence[str] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Benchmarks whose figures are in the table."""
        return (self.file,)

    def tables(self, figures: Mapping[str, Machines]) -> list[Table]:
        """Return the table, or one for each machine if it is wider than `WIDEST`; none when nothing was measured."""
        machines = _with_rows(figures.get(self.file, {}), self._has)
        if not machines:
            return []
        table = self.build(machines)
        if len(table.heads) <= WIDEST:
            return [table]
        return [self.build({machine: measured}) for machine, measured in machines.items()]

    def _has(self, row: Row) -> bool:
        """Return whether `row` belongs in the table."""
        return (not self.names or row.name in self.names) and (not self.sizes or row.size in self.sizes)


def _with_rows(machines: Machines, is_shown: Callable[[Row], bool]) -> dict[str, Figures]:
    """Return the figures of machines with the rows for which `is_shown` is true; machines without any are left out."""
    chosen = {
        machine: replace(measured, rows=[row for row in measured.rows if is_shown(row)])
        for machine, measured in machines.items()
    }
    return {machine: measured for machine, measured in chosen.items() if measured.rows}


class Overview:
    """The table of all areas: for each peer and machine the median advantage, and how many works the peer wins."""

    files = tuple(AREAS)

    def tables(self, figures: Mapping[str, Machines]) -> list[Table]:
        """Return the table; none when nothing was measured."""
        lines = list(spreads(figures))
        machines = sorted({machine for _, _, spread_of in lines for machine in spread_of})
        rows = []
        for title, peer, spread_of in lines:
            of_machines = (spread_of.get(machine) for machine in machines)
            spread_cells = [Cell(f"{s.median:.2f} ({s.lost} of {s.count})" if s else "–") for s in of_machines]
            rows.append([Cell(title), Cell(peer), *spread_cells])
        return [Table(["", "peer", *machines], rows)] if rows else []


TABLES: dict[str, Block | Overview] = {
    "overview": Overview(),
    "calls": Block("calls", listed),
    "workgroups": Block("workgroups", listed),
    "load": Block("load", listed),
    "compile-example": Block("compile-example", listed),
    "compile": Block("compile", across),
    "stream": Block("stream", listed),
    "memory": Block("memory", listed),
    "modes": Block("modes", listed),
    "dispatch-modes": Block("dispatch-modes"),
    "tensors": Block("tensors"),
    "contract": Block("contract"),
    "quantized": Block("quantized"),
    "constants": Block("constants"),
    "pauses": Block(
        "pauses", sizes=("pause 0 ms", "pause 50 ms", "pause 50 ms, 4 callers", "pause 50 ms, busy neighbour")
    ),
    "pauses-losses": Block("pauses", losses),
    "throughput": Block("throughput"),
    "batched": Block("batched"),
    "generate": Block("generate"),
    "llm": Block("llm", names=("decode", "prefill")),
    "llm-shares": Block("llm", names=("memory rate", "FMA rate")),
    "llm-compile": Block("llm", across, names=("compile", "artifact")),
    "llm-memory": Block("llm", across, names=("peak memory",)),
    "llm-billion": Block("llm-billion", names=("decode", "prefill")),
    "llm-billion-shares": Block("llm-billion", names=("memory rate", "FMA rate")),
    "llm-billion-memory": Block("llm-billion", across, names=("compile", "artifact", "peak memory")),
    "sched": Block("sched", fastest),
    "core": Block("core"),
    "embedding": Block("embedding"),
    "host-commands": Block("host-commands"),
    "ptx-interpreter": Block("ptx-interpreter"),
    "python-kernels": Block("python-kernels", names=("a call",)),
    "python-kernels-losses": Block("python-kernels", partial(losses, most=None), names=("a call",)),
    "python-kernels-compile": Block("python-kernels", across, names=("compile", "compile again")),
    "kernels": Block("kernels", cells),
    "kernels-summary": Block("kernels", summary),
    "kernels-losses": Block("kernels", losses),
    "drawn-kernels-summary": Block("drawn-kernels", summary),
    "drawn-kernels-losses": Block("drawn-kernels", losses),
    "models": Block("models", names=("a call",)),
    "networks": Block("networks"),
    "models-losses": Block("models", losses, names=("a call",)),
    "models-compile": Block("models", across, names=("compile, cold", "compile, warm", "peak memory of compiling")),
    "models-size": Block("models", across, names=("dispatches", "weights", "difference")),
}
"""Tables by the names that documents use for them."""


def filled(document: str, figures: Mapping[str, Machines]) -> str:
    """Return the text of a document with its blocks replaced by tables of figures.

    Raises:
        KeyError: A block's name is not in `TABLES`.
    """

    def block(match: re.Match[str]) -> str:
        """Return the replacement of a match of BLOCK: the table, or the old text if nothing was measured."""
        tables = TABLES[match[2]].tables(figures)
        text = "\n".join(table.markdown() for table in tables)
        return f"{match[1]}\n{text}\n{match[4]}" if tables else match[0]

    return BLOCK.sub(block, document)


def fill(figures: Mapping[str, Machines], root: Path = ROOT) -> None:
    """Write the tables of all documents in the project's folder `root`."""
    for name in DOCUMENTS:
        path = root / name
        path.write_text(filled(path.read_text(), figures))
