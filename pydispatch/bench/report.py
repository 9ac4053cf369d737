"""Measured contenders → a table, and data for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydispatch._core.profile import Profile
from pydispatch.bench.measure import Samples, ratio

# Units of a duration by their seconds, the largest first.
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def time_text(seconds: float) -> str:
    """Format a duration with three digits, in the unit that leaves one to three of them before the decimal point."""
    rounded = float(f"{seconds:.3g}")  # its unit may be the next larger one: 999.9 us is 1 ms
    scale, unit = next(((s, u) for s, u in UNITS if rounded >= s), UNITS[-1])
    return f"{rounded / scale:.3g} {unit}" if rounded < 1000 else f"{seconds:.0f} s"


def rows(contenders: Sequence[Samples], nbytes: int, items: float) -> list[dict[str, Any]]:
    """Return a dict of figures for each contender, with ratios to the first.

    - "median_s", "least_s", "middle_s": seconds of a call: median, least, [10th, 90th percentile] of the rounds
    - "items_per_s", "bytes_per_s": rates at the median
    - "times_the_first", "times_the_first_middle": duration of a call divided by that of the first contender in the same
      round, 2.0 if it takes twice as long: median, [10th, 90th percentile] of the rounds; missing for the first

    Args:
        contenders: Measured times, with equal numbers of rounds.
        nbytes: Bytes that one call accesses; 0 if unknown.
        items: Items that one call computes.
    """
    table = []
    for samples in contenders:
        percentile_10, percentile_90 = samples.middle
        row: dict[str, Any] = {
            "name": samples.name, "median_s": samples.median, "least_s": samples.least,
            "middle_s": [percentile_10, percentile_90],
            "rounds": len(samples.seconds), "calls_per_round": samples.calls,
            "items_per_s": items / samples.median, "bytes_per_s": nbytes / samples.median,
        }  # fmt: skip
        if samples is not contenders[0]:
            against = ratio(samples, contenders[0])
            row["times_the_first"] = against.median
            row["times_the_first_middle"] = list(against.middle)
        table.append(row)
    return table


def text(table: Sequence[dict[str, Any]], items_name: str) -> str:
    """Return the dicts of figures that `rows` returns as a text table, with the column `items_name`/s.

    Ranges in parentheses are the 10th and 90th percentile of the rounds.
    """
    with_bytes = any(row["bytes_per_s"] for row in table)
    lines = [["", "median", "(10 to 90 %)", f"{items_name}/s", *(["GB/s"] if with_bytes else []), "times the first"]]
    for row in table:
        low, high = row["middle_s"]
        rate, gigabytes = row["items_per_s"], row["bytes_per_s"] / 1e9
        line = [row["name"], time_text(row["median_s"]), f"({time_text(low)} to {time_text(high)})"]
        line.append(f"{rate:,.4g}" if rate < 1000 else f"{rate:,.0f}")
        line += [f"{gigabytes:.3g}" if gigabytes < 999.5 else f"{gigabytes:,.0f}"] if with_bytes else []
        if "times_the_first" in row:
            low, high = row["times_the_first_middle"]
            line.append(f"{row['times_the_first']:.2f} ({low:.2f} to {high:.2f})")
        lines.append(line)
    return columns(lines)


def profiles(by_contender: Mapping[str, Profile], most: int = 10) -> str:
    """Return a table of the time that each command takes in each contender, and of its part of the contender's time.

    A command is a step of the host program, such as a dispatch. The commands whose times differ most from those of the
    first contender come first, or with one contender those that take longest.

    Args:
        by_contender: Profile of each contender by its title.
        most: Maximum number of commands with a line of their own; the last line counts the others.

    Example:
        commands    a.pdx        b.pdx
        matmul  1.2 ms 80 %  900 us 75 %
        add     300 us 20 %  300 us 25 %
        and 3 more
    """
    first = next(iter(by_contender.values()))
    times = {name: _by_command(profile) for name, profile in by_contender.items()}
    base = _by_command(first)
    names = dict.fromkeys(command for row in times.values() for command in row)

    def sort_key(command: str) -> float:
        """Return the sort key of a command: its largest difference from the first contender, in seconds; its seconds if
        there is one contender."""
        own = base.get(command, 0.0)
        if len(times) == 1:
            return own
        return max(abs(row.get(command, 0.0) - own) for row in times.values())

    def cell(command: str, seconds: Mapping[str, float]) -> str:
        """Return the time of a command in a contender, and its part of the contender's `seconds` by command."""
        if command not in seconds:
            return "-"
        total = sum(seconds.values()) or 1
        return f"{time_text(seconds[command])} {100 * seconds[command] / total:.0f} %"

    ordered = sorted(names, key=sort_key, reverse=True)
    lines = [["commands", *times]]
    for command in ordered[:most]:
        lines.append([command, *(cell(command, seconds) for seconds in times.values())])
    others = f"\nand {len(ordered) - most} more" if len(ordered) > most else ""
    return columns(lines) + others


def _by_command(profile: Profile) -> dict[str, float]:
    """Return the seconds per command, with equal commands of all regions added up: "region 3: f" is the command f."""
    seconds: dict[str, float] = {}
    for timing in profile:
        name = timing.command.partition(": ")[2] if timing.command.startswith("region ") else timing.command
        seconds[name] = seconds.get(name, 0.0) + timing.seconds
    return seconds


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as text in columns: the first is aligned left, the others right. Rows may be shorter."""
    count = max(map(len, lines))
    padded = [[*line, *[""] * (count - len(line))] for line in lines]
    widths = [max(len(line[i]) for line in padded) for i in range(count)]

    def line_text(line: Sequence[str]) -> str:
        """Return a line of cells, padded to `widths`: the first is aligned to the left, the others to the right."""
        figures = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        return "  ".join([line[0].ljust(widths[0]), *figures]).rstrip()

    return "\n".join(map(line_text, padded))
