"""Figures → one HTML page that needs nothing else: plots, losses, tables, machines and methods."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from report import dots
from report.figures import FOLDER, LOSS, OURS, Row, comparisons, in_order, machine_of, text
from report.tables import MARK, Cell, Machines, Table, grid, listed, losses, summary

from pydispatch.bench.plot import HEIGHT, LEGEND_LINE, WIDTH, Panel, axes, legend

MOST_DOTS = 24
"""Number of sizes up to which each is drawn as a line; of more, the distribution of advantages is drawn."""

STYLE = Path(__file__).with_name("page.css")
SIZE = re.compile(r"([\d,.]+)(?: (ns|us|ms|s))?$")
"""A size that is a number or a time, and so can be drawn on an axis."""
SCALES = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
"""Seconds of each unit of a size; a size without unit is a number."""


def page(figures: Mapping[str, Machines], runs: Mapping[str, Any]) -> str:
    """Return the HTML document.

    Args:
        figures: By benchmark, then by machine.
        runs: By machine the contents of its `run.json`: what was missing or failed in the last run.
    """
    sections = "\n".join(section(name, machines) for name, machines in figures.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>pydispatch: benchmarks</title>
<style>{STYLE.read_text()}</style>
</head>
<body>
<header>
<h1>pydispatch: benchmarks</h1>
<p>Each figure was measured beside its peers on the same machine, contenders in alternation. An <em>advantage</em> is
how many times as good pydispatch is as a peer: the peer's time over ours, or our rate over the peer's. Above 1
pydispatch is faster. <b class="loss">{MARK}</b> marks every figure in which a peer is faster by more than
{100 * (1 - LOSS):.0f} %.</p>
</header>
<main>
{overview(figures)}
{machines_of(figures)}
{absent(figures, runs)}
{sections}
</main>
</body>
</html>
"""


def overview(figures: Mapping[str, Machines]) -> str:
    """Return a section with a line for each benchmark and machine, and a link to the benchmark's section."""
    heads = ["benchmark", "peer faster", "of", "median advantage", "worst", "machine"]
    rows = []
    for name, machines in figures.items():
        for machine, measured in machines.items():
            compared = sorted(comparisons(measured.rows), key=lambda c: c.advantage)
            link = f'<a href="#{escape(name)}">{escape(measured.title)}</a>'
            if compared:
                lost, worst = sum(c.is_loss for c in compared), compared[0]
                middle = f"{median(c.advantage for c in compared):.2f}"
                row = [f"{lost} {MARK}" if lost else "0", str(len(compared)), middle,
                       f"{worst.advantage:.2f} {escape(worst.row.contender)}"]  # fmt: skip
            else:
                row = ["–"] * 4
            rows.append([link, *row, escape(machine)])
    return f'<section id="overview"><h2>Overview</h2>{_table(heads, rows)}</section>'


def machines_of(figures: Mapping[str, Machines]) -> str:
    """Return a section that describes each machine and its software, as its newest file of figures does."""
    newest: dict[str, dict[str, Any]] = {}
    for machines in figures.values():
        for machine, measured in machines.items():
            if measured.context["date"] >= newest.get(machine, {"date": ""})["date"]:
                newest[machine] = measured.context
    lines = []
    for machine, context in newest.items():
        packages = ", ".join(f"{name} {version}" for name, version in context["versions"].items())
        parts = (f"{context['cores']} cores of {context['cpu']}", context["system"], f"Python {context['python']}",
                 packages, f"newest figures of {context['date']}")  # fmt: skip
        lines.append(f"<dt>{escape(machine)}</dt><dd>{escape('; '.join(parts))}</dd>")
    return f'<section id="machines"><h2>Machines</h2><dl>{"".join(lines)}</dl></section>'


def absent(figures: Mapping[str, Machines], runs: Mapping[str, Any]) -> str:
    """Return a section of the benchmarks and contenders that were not measured or failed, and why."""
    lines = []
    for machine, run in runs.items():
        for kind, sign in (("failed", "failed"), ("missing", "not measured")):
            for name, why in run.get(kind, {}).items():
                lines.append(f"<li>{escape(machine)}: <b>{escape(name)}</b> {sign}: <code>{escape(why)}</code></li>")
    for name, machines in figures.items():
        for machine, measured in machines.items():
            for contender in measured.missing:
                lines.append(f"<li>{escape(machine)}: <b>{escape(name)}</b> without {escape(contender)}</li>")
    inside = f"<ul>{''.join(lines)}</ul>" if lines else "<p>Nothing is missing.</p>"
    return f'<section id="missing"><h2>What is missing</h2>{inside}</section>'


def section(name: str, machines: Machines) -> str:
    """Return the section of a benchmark: method, plots, losses, all figures."""
    first = next(iter(machines.values()))  # titles are equal on all machines
    methods = {measured.method: None for measured in machines.values()}
    measured_on = "; ".join(
        f"{machine}, {measured.context['date']}, commit {measured.context['commit']}"
        for machine, measured in machines.items()
    )
    parts = [f'<section id="{escape(name)}"><h2>{escape(first.title)}</h2>']
    parts += [f"<p>{escape(method)}</p>" for method in methods]
    parts.append(f'<p class="where">{escape(measured_on)}</p>')
    drawn = (plots(measured.rows, machine if len(machines) > 1 else "") for machine, measured in machines.items())
    parts.append(f'<div class="plots">{"".join(chain.from_iterable(drawn))}</div>')
    lost, tables = losses(machines, most=None), list[str]()
    if lost.rows:
        tables.append(f"<div><h3>{MARK} A peer is faster in {len(lost.rows)}</h3>{html(lost)}</div>")
    if any(list(comparisons(measured.rows)) for measured in machines.values()):
        tables.append(f"<div><h3>Advantages</h3>{html(summary(machines))}</div>")
    parts.append(f'<div class="tables">{"".join(tables)}</div>')
    all_figures = listed(machines) if is_list(machines) else grid(machines)
    parts.append(f"<details><summary>All figures</summary>{html(all_figures)}</details></section>")
    return "".join(parts)


def is_list(machines: Machines) -> bool:
    """Return whether rows of each machine differ only in contender and workers: a list reads better than a grid."""
    return all(len({(r.name, r.size) for r in measured.rows}) == 1 for measured in machines.values())


def html(table: Table) -> str:
    """Return a table as HTML, in which losses are marked."""
    return _table([escape(head) for head in table.heads], [[_cell(cell) for cell in row] for row in table.rows])


def _cell(cell: Cell) -> str:
    """Return the HTML of a table cell; a loss is bold, and has a class of CSS."""
    return f'<b class="loss">{escape(str(cell))}</b>' if cell.is_loss else escape(cell.text)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; heads and cells are HTML, so their text has to be escaped already."""
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def plots(rows: Sequence[Row], machine: str) -> list[str]:
    """Return a figure for each quantity and number of workers. machine: for titles, "" to leave it out."""
    figures = []
    for name in dict.fromkeys(row.name for row in rows):
        for workers in sorted({row.workers for row in rows if row.name == name}):
            here = [row for row in rows if row.name == name and row.workers == workers and row.value > 0]
            if here:
                parts = (name, machine, f"{workers} worker{'' if workers == 1 else 's'}")
                figures.append(_figure(here, ", ".join(part for part in parts if part)))
    return figures


def _figure(rows: Sequence[Row], title: str) -> str:
    """Draw rows of one quantity: over sizes if these are numbers, as a distribution if they are many, else as dots."""
    sizes = list(dict.fromkeys(row.size for row in rows))
    if len(sizes) > 2 and all(SIZE.match(size) for size in sizes):
        return _panel(_over_sizes(rows, sizes), title)
    if len(sizes) > MOST_DOTS:
        return _panel(_distribution(rows), title)
    return _svg(*dots.drawn(rows), title)


def _over_sizes(rows: Sequence[Row], sizes: Sequence[str]) -> Panel:
    """Return a panel of values over sizes, all of which match `SIZE`."""
    matches = [SIZE.match(size) for size in sizes]  # groups: a number, and a unit of time or None
    x_of_size = {m.string: float(m[1].replace(",", "")) * SCALES[m[2] or ""] for m in matches if m}
    unit, is_time = rows[0].unit, any(m and m[2] for m in matches)
    series = {
        name: [(x_of_size[row.size], row.value) for row in rows if row.contender == name]
        for name in in_order(row.contender for row in rows)
    }
    return Panel("", "work" if is_time else "size", "", series, x_text=(lambda v: text(v, "s")) if is_time else None,
                 y_text=lambda v: text(v, unit))  # fmt: skip


def _distribution(rows: Sequence[Row]) -> Panel:
    """Return a panel of the sorted advantages over each peer: x is the share of cases in %, y the advantage."""
    advantages: dict[str, list[float]] = {}
    for comparison in comparisons(rows):
        advantages.setdefault(comparison.row.contender, []).append(comparison.advantage)
    series = {}
    for peer in in_order(advantages):
        ordered = sorted(advantages[peer])
        last = max(1, len(ordered) - 1)  # not 0 for a single case, which is at 0 %
        series[peer] = [(100 * i / last, value) for i, value in enumerate(ordered)]
    return Panel("", "% of the cases, sorted", f"advantage of {OURS}", series, x_logarithmic=False, level=1.0)


def _panel(panel: Panel, title: str) -> str:
    """Draw a panel and, below it, its legend, which has two names in a line."""
    names = list(panel.series)
    height = HEIGHT + LEGEND_LINE * math.ceil(len(names) / 2) + 4
    return _svg(f'{axes(panel, names)}<g transform="translate(0 {HEIGHT})">{legend(names)}</g>', height, title)


def _svg(inside: str, height: float, title: str) -> str:
    """Return an HTML figure. inside: elements of the SVG, whose units `height` and `WIDTH` have."""
    named = f'class="plot" role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height:.0f}"'
    return f"<figure><figcaption>{escape(title)}</figcaption><svg {named}>{inside}</svg></figure>"


def runs_of(folder: Path = FOLDER) -> dict[str, Any]:
    """Return, by machine, the contents of its run.json: what was missing or failed, and how long benchmarks took."""
    return {machine_of(path): json.loads(path.read_text()) for path in sorted(folder.glob("*/run.json"))}
