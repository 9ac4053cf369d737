"""Measured contenders → a table, and data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.bench.measure import Samples, ratio

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def time_text(seconds: float, digits: int = 3) -> str:
    """In the unit that leaves one to three digits before the point."""
    scale, unit = next(((s, u) for s, u in UNITS if seconds >= s), UNITS[-1])
    return f"{seconds / scale:.{digits}g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"


def rows(found: Sequence[Samples], nbytes: int, items: float) -> list[dict[str, Any]]:
    """The first is what the others are compared with. nbytes, items: of one call."""
    table = []
    for samples in found:
        low, high = samples.middle
        row: dict[str, Any] = {
            "name": samples.name, "median_s": samples.median, "least_s": samples.least, "middle_s": [low, high],
            "rounds": len(samples.seconds), "calls_per_round": samples.calls,
            "items_per_s": items / samples.median, "bytes_per_s": nbytes / samples.median,
        }  # fmt: skip
        if samples is not found[0]:
            against = ratio(samples, found[0])
            row["times_the_first"] = against.median
            row["times_the_first_middle"] = list(against.middle)
        table.append(row)
    return table


def text(table: Sequence[dict[str, Any]], items_name: str) -> str:
    """The rows as columns; what is between 10 and 90 % of the rounds stands in brackets."""
    with_bytes = any(row["bytes_per_s"] for row in table)
    lines = [["", "median", "(10 to 90 %)", f"{items_name}/s", *(["GB/s"] if with_bytes else []), "times the first"]]
    for row in table:
        low, high = row["middle_s"]
        rate = row["items_per_s"]
        line = [row["name"], time_text(row["median_s"]), f"({time_text(low)} to {time_text(high)})"]
        line.append(f"{rate:,.4g}" if rate < 1000 else f"{rate:,.0f}")
        line += [f"{row['bytes_per_s'] / 1e9:.3g}"] if with_bytes else []
        if "times_the_first" in row:
            low, high = row["times_the_first_middle"]
            line.append(f"{row['times_the_first']:.2f} ({low:.2f} to {high:.2f})")
        lines.append(line)
    return columns(lines)


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Left-aligned names, right-aligned figures."""
    count = max(map(len, lines))
    padded = [[*line, *[""] * (count - len(line))] for line in lines]
    widths = [max(len(line[i]) for line in padded) for i in range(count)]

    def line_text(line: Sequence[str]) -> str:
        figures = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        return "  ".join([line[0].ljust(widths[0]), *figures]).rstrip()

    return "\n".join(map(line_text, padded))
