"""How advantages over peers are spread in each area: the median, and the range without the extremes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from report.figures import LOSS, Figures, Row, comparisons, in_order

AREAS = {
    "kernels": "Single kernels", "models": "Whole models", "networks": "Networks of ONNX files",
    "quantized": "Quantized products", "llm": "Language models", "python-kernels": "Kernels in Python",
    "pauses": "Calls after pauses",
}  # fmt: skip
"""Benchmark → its title in the picture, in the order of pictures and tables."""
FEWEST = 3
"""Comparisons below which a peer is left out."""


@dataclass(frozen=True)
class Spread:
    """Advantages over one peer on one machine: median, and the values that a tenth is below and a tenth above."""

    low: float
    """Value that a tenth of the advantages is below."""
    median: float
    high: float
    """Value that a tenth of the advantages is above."""
    count: int
    """Number of comparisons."""
    lost: int
    """Number of comparisons that the peer won: our advantage is below LOSS, a little less than 1."""

    @staticmethod
    def of(advantages: Sequence[float]) -> Spread:
        """Return the spread of the advantages over a peer, of which there is at least one."""
        values, last = sorted(advantages), len(advantages) - 1
        low, median, high = (values[round(last * share)] for share in (0.1, 0.5, 0.9))
        return Spread(low, median, high, len(values), sum(value < LOSS for value in values))


def spreads(figures: Mapping[str, Mapping[str, Figures]]) -> Iterator[tuple[str, str, dict[str, Spread]]]:
    """Yield (title of an area, peer, the spread on each machine), in the order of `AREAS`."""
    for benchmark, title in AREAS.items():
        by_peer: dict[str, dict[str, list[float]]] = {}
        for machine, measured in figures.get(benchmark, {}).items():
            for comparison in comparisons(row for row in measured.rows if _is_speed_of_calls(row)):
                of_peer = by_peer.setdefault(comparison.row.contender, {})
                of_peer.setdefault(machine, []).append(comparison.advantage)
        for peer in in_order(by_peer):
            # A machine with fewer than FEWEST comparisons has no meaningful spread.
            by_machine = {machine: Spread.of(a) for machine, a in by_peer[peer].items() if len(a) >= FEWEST}
            if by_machine:
                yield title, peer, by_machine


def _is_speed_of_calls(row: Row) -> bool:
    """Return whether a row is a time or a rate of calls, not of compiling."""
    return (row.unit == "s" or row.unit.endswith("/s")) and not row.name.startswith("compile")
