"""A line for each size, or contender, with marks along a logarithmic axis → SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from report.figures import OURS, Row, comparisons, in_order, text

from pydispatch.bench.plot import LEGEND_LINE, WIDTH, Axis, legend, marker

LINE = 30
"""Height of a line, in units of the SVG: its label, and the marks below."""


def drawn(rows: Sequence[Row]) -> tuple[str, float]:
    """Return (elements of an SVG, their height): advantages over peers by size.

    Where there are no peers, or a single size, they show the values of all contenders instead.
    """
    compared = list(comparisons(rows))
    if len({row.size for row in rows}) == 1 or not compared:
        return _values(rows)
    peers = in_order(comparison.row.contender for comparison in compared)
    own = {comparison.row.size: comparison.own for comparison in compared}
    lines = [
        (f"{size}  ({text(row.value, row.unit)})", [(c.advantage, peers.index(c.row.contender)) for c in compared
                                                    if c.row.size == size])
        for size, row in own.items()
    ]  # fmt: skip
    return _chart(lines, peers, f"advantage of {OURS} (its value in brackets)", level=1.0, unit="1")


def _values(rows: Sequence[Row]) -> tuple[str, float]:
    """Return (elements of an SVG, their height): a line with one mark for each row, ours in another colour."""
    with_size = len({row.size for row in rows}) > 1
    lines = []
    for row in rows:
        label = f"{f'{row.size}: ' * with_size}{row.contender}  {text(row.value, row.unit)}"
        lines.append((label, [(row.value, 0 if row.contender.startswith(OURS) else 1)]))
    rate = rows[0].unit.endswith("/s")
    return _chart(
        lines, [OURS, "others"], "higher is better" if rate else "less is better", level=None, unit=rows[0].unit
    )


def _chart(
    lines: Sequence[tuple[str, Sequence[tuple[float, int]]]], names: Sequence[str], title: str, level: float | None,
    unit: str,
) -> tuple[str, float]:  # fmt: skip
    """Return (elements of an SVG, their height).

    Args:
        lines: (label, marks) of each line; a mark is (value, index in `names`).
        names: Of the series, for the legend.
        title: Of the axis.
        level: Value at which a vertical line is drawn, None for no line.
        unit: Of the values, as in `Row`.
    """
    values = [value for _, marks in lines for value, _ in marks]
    axis = Axis.of([*values, *([level] if level else [])], 12, WIDTH - 12, True, lambda v: text(v, unit))
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
