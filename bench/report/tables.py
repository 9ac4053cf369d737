"""Figures → tables, for Markdown and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from report.figures import (
    CONSTANT,
    OURS,
    ROOF,
    Comparison,
    Figures,
    Row,
    comparisons,
    in_order,
    number,
    text,
    unit_of,
)
from report.reasons import reason

ALONE = "one thread"
"""The contender of the benchmark of schedulers that runs a loop on the calling thread only."""
MARK = "▼"
"""Sign beside the figure of a peer that is faster."""

Machines = Mapping[str, Figures]
"""Figures of one benchmark, by machine."""
Column = Callable[[tuple[str, str]], "Cell"]
"""Function that returns a column's cell for a line, whose key is (name, size) as in `Row`."""


@dataclass(frozen=True)
class Cell:
    """Text of a table. is_loss: whether it is an advantage with which a peer is faster."""

    text: str
    is_loss: bool = False

    def __str__(self) -> str:
        return f"{self.text} {MARK}" if self.is_loss else self.text


@dataclass(frozen=True)
class Table:
    """Heads of columns, and lines of as many cells."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """Return the table as Markdown: heads, the line between, and the rows."""
        lines = [list(self.heads), ["---"] * len(self.heads), *([str(cell) for cell in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def grid(machines: Machines) -> Table:
    """Build a table with a line for each size.

    Columns are our times and the advantage over each peer, for each machine and number of workers.
    """
    keys = _keys(machines)
    with_names = len({name for name, _ in keys}) > 1  # then labels of lines have the name, too
    heads, columns = [_corner(machines)], list[Column]()
    for prefix, rows in _by_workers(machines):
        new_columns = _columns(rows)
        for index, (head, _) in enumerate(new_columns):
            names_prefix = prefix and index == 0  # only the first head of a machine and number of workers names them
            heads.append(f"{prefix}: {head}" if names_prefix else head)
        columns += [column for _, column in new_columns]
    lines = [[Cell(_label(*key, with_name=with_names)), *(column(key) for column in columns)] for key in keys]
    return Table(heads, lines)


def across(machines: Machines) -> Table:
    """Build a table with a line for each size, and for each machine columns of each quantity (name) and contender."""
    keys = _keys(machines)
    heads, columns = [_corner(machines)], list[Callable[[str], Cell]]()
    for machine, figures in machines.items():
        for name in dict.fromkeys(name for name, _ in keys):
            for head, column in _columns([row for row in figures.rows if row.name == name]):
                parts = (machine, name, head) if len(machines) > 1 else (name, head)
                heads.append(", ".join(parts))
                columns.append(lambda size, name=name, column=column: column((name, size)))
    return Table(heads, [[Cell(size), *(c(size) for c in columns)] for size in dict.fromkeys(size for _, size in keys)])


def fastest(machines: Machines) -> Table:
    """Build a table with a line for each size.

    Columns are our times in µs, the advantage over one thread and that over the fastest peer, for each machine and
    number of workers.
    """
    keys = _keys(machines)
    with_names = len({name for name, _ in keys}) > 1  # then labels of lines have the name, too
    heads, columns = [_corner(machines)], list[dict[tuple[str, str], list[Cell]]]()
    for prefix, rows in _by_workers(machines):
        heads += [f"{prefix or OURS}: µs", ALONE, "fastest peer"]
        columns.append(_beside_the_fastest(rows))
    none = [Cell("–")] * 3
    lines = [
        [Cell(_label(*key, with_name=with_names)), *(c for column in columns for c in column.get(key, none))]
        for key in keys
    ]
    return Table(heads, lines)


def _beside_the_fastest(rows: Sequence[Row]) -> dict[tuple[str, str], list[Cell]]:
    """Return, by name and size, the three cells of `fastest`; rows are of one machine and number of workers."""
    beside = {}
    for row in rows:
        if row.contender == OURS:
            key = row.name, row.size
            against = {c.row.contender: c for c in comparisons(rows) if (c.row.name, c.row.size) == key}
            alone = against.pop(ALONE, None)  # one thread is no peer
            best = min(against.values(), key=lambda c: c.advantage, default=None)
            cells = [Cell(number(row.value * 1e6)), Cell("–") if alone is None else ratio(alone)]
            peer = Cell("–") if best is None else Cell(f"{best.row.contender} {best.advantage:.2f}", best.is_loss)
            beside[key] = [*cells, peer]
    return beside


def _keys(machines: Machines) -> list[tuple[str, str]]:
    """Return the keys of lines, (name, size), without duplicates, in the order of the rows."""
    return list(dict.fromkeys((row.name, row.size) for figures in machines.values() for row in figures.rows))


def _corner(machines: Machines) -> str:
    """Return the head of the first column: the machine's name if there is only one, otherwise ""."""
    return next(iter(machines)) if len(machines) == 1 else ""


def _by_workers(machines: Machines) -> Iterator[tuple[str, list[Row]]]:
    """Yield (prefix of heads, rows) for each machine and number of workers, such as ("EPYC, 2 workers", rows).

    The prefix has no machine if there is only one, and no workers if there is only one number of them.
    """
    for machine, figures in machines.items():
        counts = sorted({row.workers for row in figures.rows})
        for workers in counts:
            parts = [machine] if len(machines) > 1 else []
            if len(counts) > 1:
                parts.append(_workers(workers))
            yield ", ".join(parts), [row for row in figures.rows if row.workers == workers]


def _label(name: str, size: str, with_name: bool) -> str:
    """Return the label of a line; without a size it is always the name."""
    return (f"{name}: {size}" if size else name) if with_name else size or name


def _workers(count: int) -> str:
    """Return a number of workers as text, such as "1 worker"."""
    return f"{count} worker{'' if count == 1 else 's'}"


def _columns(rows: Sequence[Row]) -> list[tuple[str, Column]]:
    """Return (head, column) for each contender: our advantages over it if all its rows have one, else its values.

    A unit common to all rows is in the heads; otherwise each cell has its own, which a scale of 0 stands for.
    """
    by_contender = {(row.name, row.size, row.contender): row for row in rows}
    compared = {(c.row.name, c.row.size, c.row.contender): c for c in comparisons(rows)}
    contenders = in_order(row.contender for row in rows if row.contender != ROOF)
    units = {row.unit for row in rows}
    columns = []
    for contender in contenders:
        own = [row for row in rows if row.contender == contender]
        shows_advantages = all((row.name, row.size, contender) in compared for row in own)
        scale, unit = unit_of([row.value for row in own], next(iter(units))) if len(units) == 1 else (0.0, "")
        short = "" if contender == OURS else contender.removeprefix(f"{OURS}, ")

        def cell(key: tuple[str, str], contender: str = contender, scale: float = scale) -> Cell:
            """Return the cell of a line. The defaults bind the values of this contender's iteration."""
            row, comparison = by_contender.get((*key, contender)), compared.get((*key, contender))
            if row is None:
                return Cell("–")
            if comparison is not None:
                return ratio(comparison)
            return Cell(number(row.value / scale) if scale else text(row.value, row.unit))

        head = short if shows_advantages else ", ".join(part for part in (short, unit) if part)
        columns.append((head or OURS, cell))
    return columns


def ratio(comparison: Comparison) -> Cell:
    """Return the cell of an advantage, marked if the peer is faster."""
    return Cell(f"{comparison.advantage:.2f}", comparison.is_loss)


def listed(machines: Machines) -> Table:
    """Build a table with a line for each contender: for each machine its value, and our advantage over peers."""
    chosen = {machine: figures.rows for machine, figures in machines.items()}
    keys = list(dict.fromkeys((r.name, r.size, r.contender, r.workers) for rows in chosen.values() for r in rows))
    with_sizes = len({key[:2] for key in keys}) > 1  # then labels have name and size, too
    with_workers = len({key[3] for key in keys}) > 1
    heads = ["", *(head for machine in chosen for head in (machine, f"advantage of {OURS}"))]
    lines = []
    for name, size, contender, workers in keys:
        label = f"{_label(name, size, with_name=True)}: {contender}" if with_sizes else contender
        line = [Cell(f"{label}, {_workers(workers)}" if with_workers else label)]
        for rows in chosen.values():
            key = (name, size, contender, workers)
            row = next((row for row in rows if (row.name, row.size, row.contender, row.workers) == key), None)
            advantages = [ratio(comparison) for comparison in comparisons(rows) if comparison.row is row]
            value = Cell("–" if row is None else text(row.value, row.unit))
            line += [value, advantages[0] if advantages else Cell("")]
        lines.append(line)
    return Table(heads, lines)


def cells(machines: Machines) -> Table:
    """Build a table with a line for each kernel, and a column for each machine and number of workers.

    A cell has our time, that with constant weights in brackets, the roof (the least time that the machine allows) as a
    share of our time, and the advantages over the peers.
    """
    keys = list(dict.fromkeys(row.size for figures in machines.values() for row in figures.rows))
    order = _peers(machines)
    heads, columns = [_corner(machines)], list[dict[str, Cell]]()
    for prefix, rows in _by_workers(machines):
        heads.append(", ".join(part for part in (prefix, f"µs, roof: {', '.join(order)}") if part))
        columns.append(compact(rows, order))
    return Table(heads, [[Cell(key), *(column.get(key, Cell("–")) for column in columns)] for key in keys])


def compact(rows: Sequence[Row], order: Sequence[str]) -> dict[str, Cell]:
    """Return the cells of `cells` by size. order: the peers; one that was not measured has a dash."""
    own = {row.size: row.value for row in rows if row.contender == OURS}
    constant = {row.size: row.value for row in rows if row.contender == CONSTANT}
    roof = {row.size: row.value for row in rows if row.contender == ROOF}
    against = {(c.row.size, c.row.contender): ratio(c) for c in comparisons(rows)}
    by_size = {}
    for size, value in own.items():
        share = f", {100 * roof[size] / value:.0f} %" if size in roof else ""
        peers = " ".join(str(against.get((size, peer), "–")).replace(f" {MARK}", MARK) for peer in order)
        other = f" ({number(constant[size] * 1e6)})" if size in constant else ""
        by_size[size] = Cell(f"{number(value * 1e6)}{other}{share}: {peers}")
    return by_size


def _peers(machines: Machines) -> list[str]:
    """Return the peers that were compared on any machine, in the order of `in_order`."""
    return in_order(
        comparison.row.contender for figures in machines.values() for comparison in comparisons(figures.rows)
    )


def summary(machines: Machines) -> Table:
    """Build a table with a line for each peer and number of workers: how the advantages are distributed."""
    lines = []
    for machine, figures in machines.items():
        by_peer: dict[tuple[int, str], list[Comparison]] = {}
        for compared in comparisons(figures.rows):
            by_peer.setdefault((compared.row.workers, compared.row.contender), []).append(compared)
        order = in_order(peer for _, peer in by_peer)
        for (workers, peer), compared in sorted(
            by_peer.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
        ):
            values = [c.advantage for c in compared]
            worst = min(compared, key=lambda c: c.advantage)
            name = f"{peer}, {_workers(workers)}"
            if len(machines) > 1:
                name = f"{machine}, {name}"
            count, lost = str(len(values)), str(sum(c.is_loss for c in compared))
            middle, mean = f"{median(values):.2f}", f"{geometric_mean(values):.2f}"
            worst_cell = Cell(f"{worst.row.size or worst.row.name} {worst.advantage:.2f}", worst.is_loss)
            lines.append([*map(Cell, (name, count, middle, mean, lost)), worst_cell])
    return Table([_corner(machines), "compared", "median", "geometric mean", "peer faster", "worst"], lines)


def losses(machines: Machines, most: int | None = 10) -> Table:
    """Build a table of the comparisons that peers win, with reasons: at most `most` of a machine, the worst first.

    most: None for all of them. Columns that are empty in all lines are left out.
    """
    lines, with_names = [], len({row.name for figures in machines.values() for row in figures.rows}) > 1
    for machine, figures in machines.items():
        roofs = {(row.size, row.workers, row.against): row.value for row in figures.rows if row.contender == ROOF}
        lost = sorted((c for c in comparisons(figures.rows) if c.is_loss), key=lambda c: c.advantage)
        for loss in lost[:most]:
            row, own = loss.row, loss.own
            name = _label(row.name, row.size, with_names)
            # Of the contender that was compared, for instance with constant weights, or else of ours in general.
            roof_of_ours = roofs.get((row.size, row.workers, OURS))
            roof = roofs.get((row.size, row.workers, own.contender), roof_of_ours)
            share = f"{100 * roof / own.value:.0f} %" if roof else ""
            lines.append([Cell(f"{machine}: {name}" if len(machines) > 1 else name), ratio(loss), Cell(row.contender),
                          Cell(str(row.workers)), Cell(text(own.value, row.unit)), Cell(text(row.value, row.unit)),
                          Cell(share), Cell(reason(machine, row)),
                          ])  # fmt: skip
    heads = [_corner(machines), "advantage", "peer", "workers", OURS, "peer's", "of the roof", "why"]
    used = [column for column, head in enumerate(heads) if not head or any(line[column].text for line in lines)]
    return Table([heads[column] for column in used], [[line[column] for column in used] for line in lines])
