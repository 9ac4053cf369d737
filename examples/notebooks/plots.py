"""Line plots for the notebooks, as SVG, which needs no further package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from pydispatch.bench.plot import Panel, svg

Points = Sequence[tuple[float, float]]  # (x, y) of a line, in order


class Plot:
    """A picture that a notebook shows. text: SVG."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_svg_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return "a plot"


def plot(title: str, x: str, y: str, series: Mapping[str, Points]) -> Plot:
    """Draw lines over logarithmic axes, on white, so that dark pages show them too."""
    text = svg([Panel(title, x, y, series)])
    return Plot(text.replace("<style>", '<rect width="100%" height="100%" fill="#fff"/><style>', 1))


def microseconds(call: Callable[..., object], *arguments: object) -> float:
    """Return the microseconds of the fastest call among those of a fifth of a second."""
    best, end = float("inf"), perf_counter() + 0.2
    while perf_counter() < end:
        began = perf_counter()
        call(*arguments)
        best = min(best, perf_counter() - began)
    return best * 1e6
