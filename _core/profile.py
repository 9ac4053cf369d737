"""How long each command of a call takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from pydispatch._core.commands import Command, Dispatch


@dataclass(frozen=True)
class Timing:
    """One command of a call. command: in words; seconds: as the device counts; nbytes: of the ranges of memory that it
    uses; workgroups: of a dispatch."""

    command: str
    seconds: float
    nbytes: int = 0
    workgroups: int = 0

    @property
    def gigabytes_per_second(self) -> float:
        """0 where no time was measured."""
        return self.nbytes / self.seconds / 1e9 if self.seconds > 0 else 0.0


    def followed_by(self, other: Timing) -> Timing:
        """Both as one, where they run together."""
        name = f"{self.command}, then {other.command}"
        return Timing(
            name, self.seconds + other.seconds, self.nbytes + other.nbytes, self.workgroups + other.workgroups
        )


def timing_of(text: str, seconds: float, command: Command) -> Timing:
    """text: the command in words."""
    grid = command.grid if isinstance(command, Dispatch) else (0, 0, 0)
    nbytes = sum(slot.size for slot in command.slots)
    return Timing(text, seconds, nbytes, grid[0] * grid[1] * grid[2])


def timings_of(
    commands: Iterable[tuple[int, Command]], lines: Sequence[str], runs: Sequence[Sequence[tuple[int, int]]]
) -> list[Timing]:
    """Of medians. commands: those that do something, with their numbers in the plan; lines: all of them in words; runs:
    for each run and command when it began and ended, in nanoseconds. Commands of a chain, which begin and end together,
    have one Timing."""
    made: list[Timing] = []
    last = None
    for number, command in commands:
        seconds = median(end - begin for begin, end in (run[number] for run in runs)) * 1e-9
        if runs[-1][number] == last:
            made.append(made.pop().followed_by(timing_of(lines[number], 0.0, command)))
        else:
            made.append(timing_of(lines[number], seconds, command))
        last = runs[-1][number]
    return made


class Profile(list[Timing]):
    """The commands of a call, in order; printed as a table, the longest first.

    call: seconds of an ordinary call, in which independent commands overlap; None where it was not measured.
    """

    def __init__(self, timings: Iterable[Timing], call: float | None = None) -> None:
        super().__init__(timings)
        self.call = call

    @property
    def seconds(self) -> float:
        """Of all commands together."""
        return sum(timing.seconds for timing in self)

    @property
    def longest(self) -> list[Timing]:
        """The commands, the longest first."""
        return sorted(self, key=lambda timing: -timing.seconds)

    def __str__(self) -> str:
        whole = self.seconds or 1.0
        lines = [
            f"{timing.seconds * 1e6:12,.2f} us {100 * timing.seconds / whole:5.1f} % "
            f"{timing.gigabytes_per_second:8.2f} GB/s  {timing.command}"
            for timing in self.longest
        ]
        last = f"{self.seconds * 1e6:12,.2f} us for {len(self)} commands"
        if self.call is not None:
            last += f"; an ordinary call takes {self.call * 1e6:,.2f} us"
        return "\n".join([*lines, last])
