"""Lines over a logarithmic axis → SVG, which reads well in black and white. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydispatch.errors import InvalidArgumentError

STYLES = ("-", "--", ":", "-.")
MARKERS = "osv^D*PXd<>"
SHADES = ("#000000", "#0b5394", "#a64d00", "#38761d", "#7a0f4b", "#666666")


@dataclass(frozen=True)
class Panel:
    """One set of axes. series: by name the points (x, y), both positive."""

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]


def svg(panels: Sequence[Panel]) -> str:
    """The panels side by side with one legend below. Raises InvalidArgumentError without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise InvalidArgumentError("plots need matplotlib: pip install matplotlib") from None
    matplotlib.use("svg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pydispatch", "font.size": 10}):
        figure, axes = pyplot.subplots(1, len(panels), figsize=(5.4 * len(panels), 4.4), squeeze=False)
        names = list(dict.fromkeys(name for panel in panels for name in panel.series))
        for panel, each in zip(panels, axes[0], strict=True):
            for number, name in enumerate(names):
                points = panel.series.get(name)
                if not points:
                    continue
                each.plot(
                    *zip(*points, strict=True), label=name, color=SHADES[number % len(SHADES)], markersize=5,
                    linestyle=STYLES[number % len(STYLES)], marker=MARKERS[number % len(MARKERS)], linewidth=1.2,
                )  # fmt: skip
            each.set(xscale="log", yscale="log", xlabel=panel.x, ylabel=panel.y, title=panel.title)
            each.grid(True, which="major", color="#dddddd", linewidth=0.6)
            each.spines[["top", "right"]].set_visible(False)
        handles, labels = axes[0][0].get_legend_handles_labels()
        columns = min(4, len(labels)) or 1
        rows = -(-len(labels) // columns)
        figure.subplots_adjust(bottom=0.16 + 0.055 * rows, wspace=0.28)
        figure.legend(handles, labels, loc="lower center", ncols=columns, frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
    return buffer.getvalue()
