"""Lines over logarithmic axes → SVG. Series differ by marker and dashes, so that it reads without colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 380, 230
"""Size of a panel, in units of the drawing."""
BOTTOM_MARGIN = 6
"""Space below the legend, in units of the drawing."""
PIXELS_PER_UNIT = 1.4
"""Pixels on the screen for each unit of the drawing."""
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 26, 38
"""Space between the edges of a panel and its axes, for labels, in units of the drawing."""
LEGEND_LINE = 17
"""Height of a line of the legend, in units of the drawing."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")
"""SVG dash patterns of the lines, in the order of the series; "" is a solid line."""
MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "M-3.2-3.2h6.4v6.4h-6.4z", "M0-4L4 3.4H-4z", "M0 4L4-3.4H-4z",
    "M0-4.4L4.4 0L0 4.4L-4.4 0z", "M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5", "M0-4.4V4.4M-4.4 0H4.4",
    "M-1.6-4h3.2v8h-3.2z", "M-4-1.6h8v3.2h-8z",
)  # fmt: skip
"""SVG paths of the markers around the origin, in the order of the series."""
SHADES = 6
"""Number of colours of series: the CSS classes s0 to s5."""
STYLE = (
    ".plot{color:#111;font:11px system-ui,sans-serif}.plot text{fill:currentColor}.plot .grid{stroke:#8884;fill:none}"
    ".plot .axis{stroke:currentColor;fill:none}.plot .line{fill:none;stroke-width:1.5}.plot .one{stroke:currentColor;"
    "stroke-width:1.5;stroke-dasharray:1 2}.plot .title{font-weight:600}"
    + "".join(
        f".plot .s{index}{{stroke:{light};fill:{light}}}"
        for index, light in enumerate(("#111", "#0b5394", "#a64d00", "#2d6b1c", "#7a0f4b", "#666"))
    )
)
"""Colours and fonts; a page may have others for the same classes."""


@dataclass(frozen=True)
class Panel:
    """Pair of axes of a plot, with the series drawn on them. The y axis is always logarithmic.

    Attributes:
        title: Text above the axes.
        x: Label of the x axis.
        y: Label of the y axis.
        series: Points (x, y) of each series by its name in the legend, in any order. Coordinates on a logarithmic axis
            are positive.
        x_logarithmic: Whether the x axis is logarithmic, too.
        x_text: Function that formats a tick label of the x axis; None for `short_number`.
        y_text: Function that formats a tick label of the y axis; None for `short_number`.
        level: Value on the y axis at which a horizontal line is drawn; None for no line.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    x_logarithmic: bool = True
    x_text: Callable[[float], str] | None = None
    y_text: Callable[[float], str] | None = None
    level: float | None = None


def svg(panels: Sequence[Panel]) -> str:
    """Return an SVG document with the panels side by side and one legend below."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    width, columns = max(1, len(panels)) * WIDTH, max(1, 2 * len(panels))
    height = HEIGHT + LEGEND_LINE * math.ceil(len(names) / columns) + BOTTOM_MARGIN
    parts = [f'<g transform="translate({WIDTH * i} 0)">{axes(p, names)}</g>' for i, p in enumerate(panels)]
    parts.append(f'<g transform="translate(0 {HEIGHT})">{legend(names, columns)}</g>')
    size = f'viewBox="0 0 {width} {height}" width="{width * PIXELS_PER_UNIT:.0f}"'
    inside = f"<style>{STYLE}</style>{''.join(parts)}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" {size}>{inside}</svg>\n'


def axes(panel: Panel, names: Sequence[str]) -> str:
    """Return the SVG of a panel without its legend, WIDTH by HEIGHT.

    `names` are all series in the legend; the index of a series determines its marker and dashes.
    """
    points = [point for series in panel.series.values() for point in series]
    if not points:
        return _text(WIDTH / 2, HEIGHT / 2, "no figures", "middle")
    # An Axis maps a value to its coordinate in the drawing. The range of the y axis includes the marked level.
    across = Axis.of([x for x, _ in points], LEFT, WIDTH - RIGHT, is_logarithmic=panel.x_logarithmic, text=panel.x_text)
    levels = [] if panel.level is None else [panel.level]
    up = Axis.of([*(y for _, y in points), *levels], HEIGHT - BOTTOM, TOP, is_logarithmic=True, text=panel.y_text)
    parts = [_text(LEFT, 14, panel.title, css="title"), _text(WIDTH - RIGHT, HEIGHT - 6, panel.x, "end"),
             _text(WIDTH - RIGHT, 14, panel.y, "end")]  # fmt: skip
    # Grid lines with their labels: vertical ones, then horizontal ones.
    for value, label in across.ticks():
        parts.append(_line(across(value), TOP, across(value), HEIGHT - BOTTOM, "grid"))
        parts.append(_text(across(value), HEIGHT - BOTTOM + 14, label, "middle"))
    for value, label in up.ticks():
        parts.append(_line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid"))
        parts.append(_text(LEFT - 5, up(value) + 4, label, "end"))
    # The horizontal line at the marked level (CSS class "one"), the lines of the axes, and the series.
    parts += [_line(LEFT, up(level), WIDTH - RIGHT, up(level), "one") for level in levels]
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    for index, name in enumerate(names):
        series = sorted(panel.series.get(name, ()))
        if series:
            parts.append(_series([(across(x), up(y)) for x, y in series], index, name))
    return "".join(parts)


def legend(names: Sequence[str], columns: int = 2) -> str:
    """Return the SVG of a legend with a line and a marker for each name, `columns` of them side by side."""
    parts = []
    for index, name in enumerate(names):
        x, y = 8 + index % columns * WIDTH / 2, 8 + index // columns * LEGEND_LINE
        parts.append(_series([(x, y), (x + 13, y), (x + 26, y)], index, name, marked=(1,)) + _text(x + 33, y + 4, name))
    return "".join(parts)


def marker(x: float, y: float, index: int) -> str:
    """Return the SVG of the marker of series number `index`, from 0, centred at a point."""
    shape = MARKERS[index % len(MARKERS)]
    return f'<path class="s{index % SHADES}" transform="translate({x:.1f} {y:.1f})" d="{shape}"/>'


def _series(points: Sequence[tuple[float, float]], index: int, name: str, marked: Sequence[int] | None = None) -> str:
    """Return the SVG of a line with about 12 markers, or with markers at the indices `marked`."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashes = DASHES[index % len(DASHES)]
    shown = range(0, len(points), max(1, len(points) // 12)) if marked is None else marked
    line = f'<path class="s{index % SHADES} line" d="M{path}" stroke-dasharray="{dashes}" style="fill:none"/>'
    return f"<g><title>{escape(name)}</title>{line}{''.join(marker(*points[i], index) for i in shown)}</g>"


def _text(x: float, y: float, text: str, anchor: str = "start", css: str = "") -> str:
    """Return the SVG of a text. anchor: the part of it that is at x: start, middle or end. css: class; "" for none."""
    named = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """Return the SVG path of a line from (x1, y1) to (x2, y2). css: its class."""
    return f'<path class="{css}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


@dataclass(frozen=True)
class Axis:
    """Axis of a panel: maps values between `least` and `most` to coordinates between `begin` and `end`.

    `axes` creates two for a panel by `of`. A call returns the coordinate of a value, `ticks` the labelled values. An
    axis from 1 to 100 that is drawn from 56 to 366 maps 10 to 211 if it is logarithmic.

    Attributes:
        least: Value at `begin`; positive on a logarithmic axis.
        most: Value at `end`; larger than `least`.
        begin: Coordinate of the lower end, in units of the drawing.
        end: Coordinate of the upper end; less than `begin` on a vertical axis, since y grows downwards in SVG.
        is_logarithmic: Whether equal ratios of values have equal distances, instead of equal differences.
        text: Function that returns the label of a value.
    """

    least: float
    most: float
    begin: float
    end: float
    is_logarithmic: bool
    text: Callable[[float], str]

    @staticmethod
    def of(
        values: Sequence[float], begin: float, end: float, is_logarithmic: bool = True,
        text: Callable[[float], str] | None = None,
    ) -> Axis:  # fmt: skip
        """Return an axis whose range contains all values; a logarithmic axis has a margin.

        Args:
            values: One or more values; positive for a logarithmic axis.
            begin: Coordinate of the end for the least value, in units of the drawing.
            end: Coordinate of the end for the largest value.
            is_logarithmic: Whether the axis is logarithmic.
            text: Function that returns the label of a value; None for `short_number`.
        """
        least, most = min(values), max(values)
        if is_logarithmic:
            # Widen the range by a factor on each side: 4 % of its length, and 5 % of the value. The latter gives equal
            # values a range at all.
            room = (most / least) ** 0.04 * 1.05
            return Axis(least / room, most * room, begin, end, is_logarithmic=True, text=text or short_number)
        # Equal values get a range of 1, since a call divides by the range.
        return Axis(
            least, most if most > least else least + 1, begin, end, is_logarithmic=False, text=text or short_number
        )

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        low, high, at = self.least, self.most, value
        if self.is_logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(value)
        return self.begin + (self.end - self.begin) * (at - low) / (high - low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return at most seven pairs (value, label): round numbers on a logarithmic axis, else equal distances."""
        if not self.is_logarithmic:
            values = [self.least + (self.most - self.least) * i / 4 for i in range(5)]
            return [(value, self.text(value)) for value in values]
        decades = math.log10(self.most / self.least)
        # Leading digits of the labelled values: a decade has more labels on an axis of few decades.
        steps: tuple[float, ...] = (1, 2, 5) if decades < 2.2 else (1,)
        if decades < 0.5:
            steps = (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)
        low, high = math.floor(math.log10(self.least)), math.ceil(math.log10(self.most))
        candidates = [digit * 10.0**exponent for exponent in range(low, high + 1) for digit in steps]
        values = [value for value in candidates if self.least <= value <= self.most]
        if len(values) < 2:  # a narrow range, such as 3.14 to 3.57
            values = _round_multiples(self.least, self.most)
        shown = values[:: max(1, math.ceil(len(values) / 7))]  # every n-th, so that at most seven remain
        return [(value, self.text(value)) for value in shown]


def _round_multiples(least: float, most: float) -> list[float]:
    """Return the multiples in a range of the smallest step of 1, 2 or 5 times a power of ten that gives at most seven.

    From 3.14 to 3.57 these are 3.2, 3.3, 3.4 and 3.5. least: positive.
    """
    power = 10.0 ** math.floor(math.log10((most - least) / 7))
    for step in (power, 2 * power, 5 * power, 10 * power):
        first, last = math.ceil(least / step), math.floor(most / step)
        if last - first < 7:
            break
    return [step * i for i in range(first, last + 1)]


def short_number(value: float) -> str:
    """Format a number briefly, with three digits, such as 1.5k, -20M or 0.125."""
    rounded = float(f"{value:.3g}")  # its unit may be the next larger one: 999,900 is 1M
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= scale:
            return f"{rounded / scale:.3g}{unit}"
    return f"{rounded:.3g}"
