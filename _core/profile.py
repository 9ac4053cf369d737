"""Execution time of each command of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pydispatch._core.commands import Command, Dispatch
from pydispatch._core.flops import UNKNOWN, Flops, flops_of
from pydispatch._core.status import InvalidArgumentError
from pydispatch._core.tables import paragraph, table

OUTSIDE = "outside dispatches"
UNKNOWN_TEXT = "unknown"

Peak = Callable[[int | None, str, int], float | None]
"""The least seconds that a device could take for so many operations (None: it is not known how many) of a type, and so
many bytes; None where nothing is known of it."""


@dataclass(frozen=True)
class Timing:
    """Measurement of one command of a call.

    For a function with control flow, seconds, nbytes, workgroups and flops are sums over all runs of the command.

    Attributes:
        command: Description of the command.
        seconds: Execution time, measured by the device.
        nbytes: Size of the memory ranges that the command uses.
        workgroups: Number of workgroups of a dispatch.
        flops: Number of arithmetic operations, None when unknown.
        arithmetic: Type of these operations, "" for several types.
        runs: Number of times that a function with control flow runs the command.
    """

    command: str
    seconds: float
    nbytes: int = 0
    workgroups: int = 0
    flops: int | None = None
    arithmetic: str = ""
    runs: int = 1

    @property
    def gigabytes_per_second(self) -> float:
        """0 where no time was measured."""
        return self.nbytes / self.seconds / 1e9 if self.seconds > 0 else 0.0

    @property
    def gigaflops_per_second(self) -> float | None:
        """10^9 operations of arithmetic per second; None where they are not known, 0 where no time was measured."""
        if self.flops is None:
            return None
        return self.flops / self.seconds / 1e9 if self.seconds > 0 else 0.0

    def followed_by(self, other: Timing) -> Timing:
        """Return one timing for this command and `other`, which run together."""
        flops = Flops(self.flops, self.arithmetic) + Flops(other.flops, other.arithmetic)
        return Timing(
            f"{self.command}, then {other.command}", self.seconds + other.seconds, self.nbytes + other.nbytes,
            self.workgroups + other.workgroups, flops.count, flops.type, self.runs,
        )  # fmt: skip


def timing_of(text: str, seconds: float, command: Command, flops: Flops = UNKNOWN, runs: int = 1) -> Timing:
    """text: the command in words; seconds: of all runs; flops: of one."""
    grid = command.grid if isinstance(command, Dispatch) else (0, 0, 0)
    nbytes = sum(slot.size for slot in command.slots)
    flops = flops * runs
    return Timing(text, seconds, nbytes * runs, math.prod(grid) * runs, flops.count, flops.type, runs)


def check_runs(function: str, runs: object) -> None:
    """InvalidArgumentError for a number of runs that cannot be measured."""
    if type(runs) is not int or runs < 1:
        raise InvalidArgumentError(f"@{function}: profile: runs: expected a number of 1 or more, got {runs!r}")


@dataclass(frozen=True)
class Measured:
    """A plan and when its commands ran. commands: those that do something, with their numbers in the plan; lines: all
    of them in words; constants: words, as bytes; spans: for each run and command when it began and ended, in
    nanoseconds, on a clock that starts anew with each run."""

    commands: Sequence[tuple[int, Command]]
    lines: Sequence[str]
    constants: bytes
    spans: Sequence[Sequence[tuple[int, int]]]

    def timings(
        self, stated: Mapping[int, list[Any]], seconds_of: Callable[[list[float]], float] = median, runs: int = 1
    ) -> list[Timing]:
        """Return a timing for each command; the commands of a chain, which begin and end together, share one. stated:
        see `flops.flops_of`. seconds_of: reduces the seconds of all runs to one number.
        """
        made: list[Timing] = []
        last = (0, 0)
        for number, command in self.commands:
            flops = flops_of(command, stated, self.constants)
            if self.spans[-1][number] == last and last[0] != last[1]:
                made.append(made.pop().followed_by(timing_of(self.lines[number], 0.0, command, flops, runs)))
            else:
                seconds = seconds_of([(end - begin) * 1e-9 for begin, end in (run[number] for run in self.spans)])
                made.append(timing_of(self.lines[number], seconds, command, flops, runs))
            last = self.spans[-1][number]
        return made

    def busy(self, run: int) -> float:
        """Return the seconds in which commands of a run were running."""
        return sum(end - begin for begin, end in {self.spans[run][number] for number, _ in self.commands}) * 1e-9


class Profile(list[Timing]):
    """The commands of a call, in order; printed as a table, the longest first.

    call: seconds of an ordinary call, in which independent commands overlap; None where it was not measured.
    outside: seconds of the measured call in which no command was running: taking arguments, control flow, elements that
    the host reads; None where it was not measured.
    """

    def __init__(
        self, timings: Iterable[Timing], call: float | None = None, outside: float | None = None,
        peak: Peak | None = None,
    ) -> None:  # fmt: skip
        super().__init__(timings)
        self.call, self.outside, self._peak = call, outside, peak

    @property
    def seconds(self) -> float:
        """Of all commands together."""
        return sum(timing.seconds for timing in self)

    @property
    def whole(self) -> float:
        """Seconds of the measured call: of all commands, and outside of them."""
        return self.seconds + (self.outside or 0.0)

    @property
    def longest(self) -> list[Timing]:
        """The commands, the longest first."""
        return sorted(self, key=lambda timing: -timing.seconds)

    def share_of_peak(self, timing: Timing) -> float | None:
        """Return how close a command of this profile comes to what its device can do: the least time of its operations,
        or of moving its bytes, whichever is longer, as a part of its time. None where that is not known. The first time
        in a process it is measured, which takes up to a second.
        """
        if self._peak is None or timing.seconds <= 0 or not (timing.nbytes or timing.flops):
            return None
        flops = None if timing.flops is None else timing.flops // timing.runs
        least = self._peak(flops, timing.arithmetic, timing.nbytes // timing.runs)
        return None if least is None else least * timing.runs / timing.seconds

    def as_dict(self) -> dict[str, Any]:
        """Return the seconds of the call and its commands, in order, as values that JSON can represent."""
        return {
            "call_s": self.call, "outside_s": self.outside,
            "commands": [{**vars(timing), "share_of_peak": self.share_of_peak(timing)} for timing in self],
        }  # fmt: skip

    def _rows(self) -> list[list[str]]:
        """Return the table: its head, and a row for each command, the longest first."""
        whole, repeats = self.whole or 1.0, any(timing.runs > 1 for timing in self)
        runs = ["runs"] if repeats else []
        rows = [["time", "share", "GB/s", "GFLOP/s", "% of peak", "workgroups", *runs, "command"]]
        parts: list[tuple[float, list[str]]] = []
        for timing in self:
            flops, share = timing.gigaflops_per_second, self.share_of_peak(timing)
            parts.append((timing.seconds, [
                f"{timing.gigabytes_per_second:,.2f}" if timing.nbytes else "",
                UNKNOWN_TEXT if flops is None else f"{flops:,.2f}" if timing.flops else "",
                UNKNOWN_TEXT if share is None else f"{100 * share:.0f} %",
                f"{timing.workgroups:,}" if timing.workgroups else "",
                *([f"{timing.runs:,}"] if repeats else []), timing.command,
            ]))  # fmt: skip
        if self.outside is not None:
            parts.append((self.outside, [*[""] * (len(rows[0]) - 3), OUTSIDE]))
        for seconds, cells in sorted(parts, key=lambda part: -part[0]):
            rows.append([f"{seconds * 1e6:,.2f} us", f"{100 * seconds / whole:.1f} %", *cells])
        return rows

    def _last_line(self) -> str:
        count = f"{len(self)} commands, one after another" if len(self) != 1 else "1 command"
        last = f"{self.whole * 1e6:,.2f} us for {count}"
        if self.call is not None:
            last += f"; an ordinary call takes {self.call * 1e6:,.2f} us"
        return last

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
        lines = ["  ".join([*map(str.rjust, row, widths), row[-1]]) for row in rows]
        return "\n".join([*lines, self._last_line()])

    def _repr_html_(self) -> str:
        """Render the table for notebooks."""
        head, *rows = self._rows()
        return table(head, rows, len(head) - 1) + paragraph(self._last_line())
