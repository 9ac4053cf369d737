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
"""Text in the column `command` of the row for the time in which no command ran."""
UNKNOWN_TEXT = "unknown"
"""Text of a cell whose value is unknown."""

Peak = Callable[[int | None, str, int], float | None]
"""Function that returns the least seconds in which a device can do a number of operations and move a number of bytes.

Its arguments are the number of operations, None when unknown, their type, and the number of bytes. It returns None when
the peak is unknown."""


@dataclass(frozen=True)
class Timing:
    """Measurement of one command of a profiled call: a line of a `Profile`.

    For a function with control flow, seconds, nbytes, workgroups and flops are sums over all runs of the command.

    Attributes:
        command: Description of the command.
        seconds: Execution time, measured by the device.
        nbytes: Size of the memory ranges that the command reads or writes.
        workgroups: Number of workgroups of a dispatch, 0 for other commands.
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
        """Return the memory throughput in 10^9 bytes per second; 0 if no time was measured."""
        return self.nbytes / self.seconds / 1e9 if self.seconds > 0 else 0.0

    @property
    def gigaflops_per_second(self) -> float | None:
        """Return 10^9 arithmetic operations per second; None if their number is unknown, 0 if no time was measured."""
        if self.flops is None:
            return None
        return self.flops / self.seconds / 1e9 if self.seconds > 0 else 0.0

    def together(self, other: Timing, command: str, runs: int) -> Timing:
        """Return the sum of this timing and `other`. command, runs: description and number of runs of the sum."""
        flops = Flops(self.flops, self.arithmetic) + Flops(other.flops, other.arithmetic)
        return Timing(
            command, self.seconds + other.seconds, self.nbytes + other.nbytes, self.workgroups + other.workgroups,
            flops.count, flops.type, runs,
        )  # fmt: skip


def merged(plans: Iterable[tuple[int, Sequence[Timing]]]) -> list[Timing]:
    """Add up the timings of equal commands and return one timing for each command of each function, in order.

    Args:
        plans: Pairs of the number of a function and the timings of the commands of one of its plans (the function
            specialized for the sizes of a call). Commands of two plans of a function are equal if they have the same
            position in the plan and the same description.
    """
    by_command: dict[tuple[int, int, str], Timing] = {}
    for function, timings in plans:
        for position, timing in enumerate(timings):
            key = function, position, timing.command
            first = by_command.get(key)  # the sum of the timings so far; None if there is none
            by_command[key] = first.together(timing, timing.command, first.runs + timing.runs) if first else timing
    return list(by_command.values())


def timing_of(
    text: str, seconds: float, command: Command, flops: Flops = UNKNOWN, runs: int = 1, moving: float = 1.0
) -> Timing:
    """Return the timing of a command.

    text: description of the command. seconds: of all runs together. flops: operations of one run. runs: how often it
    ran in a call. moving: fraction of the measured runs that moved bytes, 0 to 1; the others had nothing to do
    (`SKIPPED`).
    """
    grid = command.grid if isinstance(command, Dispatch) else (0, 0, 0)  # others have no workgroups
    nbytes = round(sum(slot.size for slot in command.slots) * runs * moving)
    flops = flops * runs
    return Timing(text, seconds, nbytes, math.prod(grid) * runs, flops.count, flops.type, runs)


def check_runs(function: str, runs: object) -> None:
    """Raise InvalidArgumentError if `runs` is not a positive int."""
    if type(runs) is not int or runs < 1:
        raise InvalidArgumentError(f"@{function}: profile: runs: expected a number of 1 or more, got {runs!r}")


def check_cold(function: str, cold: object) -> None:
    """Raise InvalidArgumentError if `cold` is not a bool."""
    if type(cold) is not bool:
        raise InvalidArgumentError(f"@{function}: profile: cold: expected True or False, got {cold!r}")


SKIPPED = 0, 0
"""Begin and end that stand for a command with nothing to do, such as a copy of an argument to the same memory."""

_EVICTING_BYTES = 256 << 20
"""Size of the memory that is written to evict all caches; less may leave operands in large last-level caches."""


def evict_caches() -> None:
    """Replace the contents of all CPU caches by other memory, which is written and freed."""
    import numpy as np

    np.ones(_EVICTING_BYTES, np.uint8)


@dataclass(frozen=True)
class Measured:
    """Times of the commands of one plan, as measured, from which the timings of a profile are computed.

    commands: pairs of the index of a command in the plan and the command, for those that are not empty. lines: a
    description of each command of the plan. constants: the 32-bit constants of the plan, as bytes. spans: for each run,
    for each command of the plan, its begin and end in nanoseconds since the begin of the run.
    """

    commands: Sequence[tuple[int, Command]]
    lines: Sequence[str]
    constants: bytes
    spans: Sequence[Sequence[tuple[int, int]]]

    def timings(
        self, stated: Mapping[int, list[Any]], seconds_of: Callable[[list[float]], float] = median, runs: int = 1
    ) -> list[Timing]:
        """Return a timing for each command.

        Consecutive commands that the device runs as one have equal spans, and share one timing.

        Args:
            stated: Number of an executable -> its list `flops` in the manifest, the operation counts of its exports.
            seconds_of: Reduces the seconds of a command in all measured runs to one number.
            runs: How often the function runs each command in one call.
        """
        result: list[Timing] = []
        span_before = (0, 0)  # of the command before, in the last run
        for index, command in self.commands:
            flops, line, span = flops_of(command, stated, self.constants), self.lines[index], self.spans[-1][index]
            # An equal span was measured for one run of both commands, unless it is empty: then they are separate.
            if span == span_before and span[0] != span[1]:
                # Merge with the timing of the command before, which has the time of the shared span already.
                before, own = result.pop(), timing_of(line, 0.0, command, flops, runs)
                result.append(before.together(own, f"{before.command}, then {own.command}", before.runs))
            else:
                spans = [run[index] for run in self.spans]
                seconds = seconds_of([(end - begin) * 1e-9 for begin, end in spans])
                # The fraction of the measured runs in which the command had something to do.
                moving = sum(span != SKIPPED for span in spans) / len(spans)
                result.append(timing_of(line, seconds, command, flops, runs, moving))
            span_before = self.spans[-1][index]
        return result

    def busy(self, run: int) -> float:
        """Return the total execution time of the commands in measured run number `run`, in seconds.

        Commands that the device runs as one have equal spans, which count once.
        """
        return sum(end - begin for begin, end in {self.spans[run][index] for index, _ in self.commands}) * 1e-9


class Profile(list[Timing]):
    """Timings of the commands of a call, in order; printed as a table, the longest first.

    call: seconds of an ordinary call, in which independent commands overlap; None if not measured. outside: seconds of
    the profiled call in which no command ran, such as checks of arguments, control flow, and reads of elements by the
    host; None if not measured. peak: computes the least time of a command, for `share_of_peak`; None if the device's
    peak is unknown. caches: "cold" if they were evicted before each run, "warm" if runs followed one another; None if
    unknown.
    """

    def __init__(
        self, timings: Iterable[Timing], call: float | None = None, outside: float | None = None,
        peak: Peak | None = None, caches: str | None = None,
    ) -> None:  # fmt: skip
        """Create a profile of some timings. For the other parameters, see the class."""
        super().__init__(timings)
        self.call, self.outside, self._peak, self.caches = call, outside, peak, caches

    @property
    def seconds(self) -> float:
        """Return the sum of the seconds of all commands."""
        return sum(timing.seconds for timing in self)

    @property
    def whole(self) -> float:
        """Return the seconds of the profiled call: the commands and the time outside of them."""
        return self.seconds + (self.outside or 0.0)

    @property
    def longest(self) -> list[Timing]:
        """Return the timings, the longest first."""
        return sorted(self, key=lambda timing: -timing.seconds)

    def share_of_peak(self, timing: Timing) -> float | None:
        """Return how close a command comes to the peak of its device (roofline model): 1 at the peak, less below it.

        The share is the least possible time divided by the measured time. The least possible time is the longer one of
        the time for its operations and the time for moving its bytes. Return None if the peak is unknown. The first
        call in a process measures the peak, which takes up to a second.
        """
        if self._peak is None or timing.seconds <= 0 or not (timing.nbytes or timing.flops):
            return None
        # The peak depends on the bytes of a single run, because these may fit into a cache.
        flops = None if timing.flops is None else timing.flops // timing.runs
        least = self._peak(flops, timing.arithmetic, timing.nbytes // timing.runs)
        return None if least is None else least * timing.runs / timing.seconds

    def as_dict(self) -> dict[str, Any]:
        """Return the seconds of the call and its commands, in order, as values that JSON can represent."""
        return {
            "call_s": self.call, "outside_s": self.outside, "caches": self.caches,
            "commands": [{**vars(timing), "share_of_peak": self.share_of_peak(timing)} for timing in self],
        }  # fmt: skip

    def _rows(self) -> list[list[str]]:
        """Return the cells of the table: the head, then a row for each command and for the time outside of commands,
        the longest first. The column `runs` is there only if a command has several runs.
        """
        repeats = any(timing.runs > 1 for timing in self)
        rates = ["GB/s", "GFLOP/s", "% of peak", "workgroups"]
        head = ["time", "share", *rates, *(["runs"] if repeats else []), "command"]
        # Seconds of each row, and its cells after the columns `time` and `share`.
        rows = [(timing.seconds, self._rates(timing, repeats)) for timing in self]
        if self.outside is not None:
            empty_cells = [""] * (len(head) - 3)  # all columns but `time`, `share` and `command`
            rows.append((self.outside, [*empty_cells, OUTSIDE]))
        rows.sort(key=lambda row: -row[0])
        whole = self.whole or 1.0  # not 0: the shares are divided by it
        times = [[f"{seconds * 1e6:,.2f} us", f"{100 * seconds / whole:.1f} %", *cells] for seconds, cells in rows]
        return [head, *times]

    def _rates(self, timing: Timing, repeats: bool) -> list[str]:
        """Return the cells of a command, from the column `GB/s` to the last. repeats: whether a column is `runs`."""
        flops, share = timing.gigaflops_per_second, self.share_of_peak(timing)
        return [
            f"{timing.gigabytes_per_second:,.2f}" if timing.nbytes else "",
            UNKNOWN_TEXT if flops is None else f"{flops:,.2f}" if timing.flops else "",
            UNKNOWN_TEXT if share is None else f"{100 * share:.0f} %",
            f"{timing.workgroups:,}" if timing.workgroups else "",
            *([f"{timing.runs:,}"] if repeats else []), timing.command,
        ]  # fmt: skip

    def _summary(self) -> str:
        """Return the line below the table: the time of the profiled call, and of an ordinary call if it is known."""
        count = f"{len(self)} commands, one after another" if len(self) != 1 else "1 command"
        last = f"{self.whole * 1e6:,.2f} us for {count}"
        if self.caches is not None:
            last += f", with {self.caches} caches"
        if self.call is not None:
            last += f"; an ordinary call takes {self.call * 1e6:,.2f} us"
        return last

    def __str__(self) -> str:
        """Return the table of the commands, in aligned columns, with the summary as the last line."""
        rows = self._rows()
        # The last column, `command`, is not padded.
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
        lines = ["  ".join([*map(str.rjust, row, widths), row[-1]]) for row in rows]
        return "\n".join([*lines, self._summary()])

    def _repr_html_(self) -> str:
        """Render the table for notebooks."""
        head, *rows = self._rows()
        return table(head, rows, len(head) - 1) + paragraph(self._summary())
