"""The picture of the benchmark pages: how advantages over peers are spread → docs/images/advantages.svg."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from report.figures import ROOT, Figures, text
from report.spreads import spreads

from pydispatch.bench.plot import LEGEND_LINE, STYLE, Axis, legend, marker

TARGET = ROOT / "docs" / "images" / "advantages.svg"
"""The picture that is written."""
LABEL, WIDTH, MARK, GAP = 210, 760, 11, 7
"""Widths of the labels and of the picture; heights of a machine's mark and of the gap between peers, in pixels."""


def picture(figures: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the SVG: a line for each peer of an area; on it the median of each machine, and a bar from low to high."""
    lines = list(spreads(figures))
    machines = sorted({machine for _, _, spread_of in lines for machine in spread_of})
    ends = [value for _, _, spread_of in lines for spread in spread_of.values() for value in (spread.low, spread.high)]
    axis = Axis.of([*ends, 1.0], LABEL, WIDTH - 12, text=lambda value: text(value, "1"))
    parts, top, area = list[str](), 20, ""
    for title, peer, spread_of in lines:
        if title != area:
            parts.append(f'<text class="title" x="0" y="{top + 12}">{escape(title)}</text>')
            area, top = title, top + 20
        parts.append(f'<text x="12" y="{top + 9}">{escape(peer)}</text>')
        for machine, spread in spread_of.items():
            index, y = machines.index(machine), top + MARK / 2
            facts = f"{machine}: {spread.median:.2f} in the median of {spread.count}, {spread.lost} lost"
            bar = f'<path class="s{index} line" d="M{axis(spread.low):.1f} {y}H{axis(spread.high):.1f}"/>'
            parts.append(f"<g><title>{escape(facts)}</title>{bar}{marker(axis(spread.median), y, index)}</g>")
            top += MARK
        top += GAP
    for value, label in axis.ticks():
        parts.insert(0, f'<path class="grid" d="M{axis(value):.1f} 14V{top}"/>')
        parts.append(f'<text x="{axis(value):.1f}" y="{top + 13}" text-anchor="middle">{escape(label)}</text>')
    parts.insert(0, f'<path class="one" d="M{axis(1.0):.1f} 14V{top}"/>')
    parts.append(f'<text x="{axis(1.0) + 6:.1f}" y="11">pydispatch is faster →</text>')
    parts.append(f'<g transform="translate({LABEL} {top + 26})">{legend(machines)}</g>')
    height = top + 30 + LEGEND_LINE * ((len(machines) + 1) // 2)
    name = "Advantages over peers: medians, and bars from the lowest tenth to the highest"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {WIDTH} {height}" role="img"'
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'  # pages may be dark
    return f"{head}><title>{name}</title><style>{STYLE}</style>{paper}{''.join(parts)}</svg>\n"
