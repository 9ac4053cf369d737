"""Draws dot plots of figures as SVG: a line for each size or contender, with marks along a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from report.figures import OURS, Row, comparisons, in_order, text

from pydispatch.bench.plot import LEGEND_LINE, WIDTH, Axis, legend, marker

LINE = 30
"""Height of a line, in units of the SVG: its label, and the marks below."""


def drawn(rows: Sequence[Row]) -> tuple[str, float]:
    """Return (elements of an SVG, their height): a line for each size, with marks at our advantages over the peers.

    Without peers, or with a single size, there is a line for each contender instead, with a mark at its value.
    """
    compared = list(comparisons(rows))
    if len({row.size for row in rows}) == 1 or not compared:
        return _values(rows)
    peers = in_order(comparison.row.contender for comparison in compared)
    own = {comparison.row.size: comparison.own for comparison in compared}
    lines = []
    for size, row in own.items():
        marks = [(c.advantage, peers.index(c.row.contender)) for c in compared if c.row.size == size]
        lines.append((f"{size}  ({text(row.value, row.unit)})", marks))
    title = f"advantage of {OURS} (its value in brackets)"
    return _chart(lines, peers, title, level=1.0, unit="1")  # a line at 1: equally fast; ratios have no unit


def _values(rows: Sequence[Row]) -> tuple[str, float]:
    """Return (elements of an SVG, their height): a line with one mark for each row, ours in another colour."""
    has_sizes = len({row.size for row in rows}) > 1
    lines = []
    for row in rows:
        label = f"{f'{row.size}: ' if has_sizes else ''}{row.contender}  {text(row.value, row.unit)}"
        lines.append((label, [(row.value, 0 if row.contender.startswith(OURS) else 1)]))
    rate = rows[0].unit.endswith("/s")
    return _chart(
        lines, [OURS, "others"], "higher is better" if rate else "less is better", level=None, unit=rows[0].unit
    )


def _chart(
    lines: Sequence[tuple[str, Sequence[tuple[float, int]]]], names: Sequence[str], title: str, level: float | None,
    unit: str,
) -> tuple[str, float]:  # fmt: skip
    """Return (elements of an SVG, their height). Coordinates are in units of the SVG, whose y grows downward.

    Args:
        lines: (label, marks) of each line; a mark is (value, index in `names`).
        names: Names of the series, for the legend.
        title: Title of the axis, which is below all lines.
        level: Value at which a vertical line is drawn, None for no line.
        unit: Unit of the values, such as "s"; "1" for ratios.
    """
    values = [value for _, marks in lines for value, _ in marks]
    values += [] if level is None else [level]
    axis = Axis.of(values, begin=12, end=WIDTH - 12, is_logarithmic=True, text=lambda value: text(value, unit))
    bottom = 8 + LINE * len(lines)
    parts = []
    for value, label in axis.ticks():
        parts.append(f'<path class="grid" d="M{axis(value):.1f} 4V{bottom}"/>')
        parts.append(f'<text x="{axis(value):.1f}" y="{bottom + 13}" text-anchor="middle">{escape(label)}</text>')
    if level is not None:
        parts.append(f'<path class="one" d="M{axis(level):.1f} 4V{bottom}"/>')
    for index, (label, marks) in enumerate(lines):
        top = 8 + LINE * index
        parts.append(f'<text x="4" y="{top + 8}">{escape(label)}</text>')
        parts.append(f'<path class="grid" d="M12 {top + 19}H{WIDTH - 12}"/>')
        parts += [marker(axis(value), top + 19, series) for value, series in marks]
    parts.append(f'<text x="{WIDTH - 12}" y="{bottom + 28}" text-anchor="end">{escape(title)}</text>')
    parts.append(f'<g transform="translate(0 {bottom + 36})">{legend(names)}</g>')
    return "".join(parts), bottom + 40 + LEGEND_LINE * math.ceil(len(names) / 2)
