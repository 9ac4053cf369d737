"""Calls that take turns → seconds of each.

Rounds alternate between the contenders, so that a change of clock, or other load on the machine, meets all of them;
ratios are medians of the ratios of single rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Call = Callable[[], object]
"""A contender: a function without arguments, one call of which is measured; its result is ignored."""

ROUND = 5e-3
"""Seconds of calls between two readings of the clock, so that the readings cost nothing; one call may take longer."""

FEWEST_ROUNDS = 7
"""Minimum number of rounds of a measurement; they run even if they exceed its time, so that some remain after the
slowest and fastest 10 % are cut off."""


@dataclass(frozen=True)
class Samples:
    """Measured times of one contender of a benchmark, and what the report derives from them.

    Attributes:
        seconds: Duration of a call in each round: the mean of `calls` calls.
        calls: Number of calls per round.
    """

    name: str
    seconds: tuple[float, ...]
    calls: int

    @property
    def median(self) -> float:
        """Median of the rounds, in seconds."""
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        """Fastest round, in seconds of a call."""
        return min(self.seconds)

    @property
    def middle(self) -> tuple[float, float]:
        """The 10th and the 90th percentile of the rounds, in seconds."""
        return _percentiles_10_and_90(self.seconds)


@dataclass(frozen=True)
class Ratio:
    """Duration of a call relative to that of another contender.

    Attributes:
        median: Median of the ratios of single rounds.
        middle: 10th and 90th percentile of these ratios.
    """

    median: float
    middle: tuple[float, float]


def ratio(samples: Samples, base: Samples) -> Ratio:
    """Return the ratio of the durations of `samples` to those of `base`, computed per round."""
    ratios = [one / other for one, other in zip(samples.seconds, base.seconds, strict=True)]
    return Ratio(statistics.median(ratios), _percentiles_10_and_90(ratios))


def _percentiles_10_and_90(values: Sequence[float]) -> tuple[float, float]:
    """Return the 10th and the 90th percentile."""
    ordered = sorted(values)  # at least FEWEST_ROUNDS, so that some remain between the ends
    cut = round(len(ordered) / 10)
    return ordered[cut], ordered[-1 - cut]


def measure(
    contenders: Mapping[str, Call],
    seconds: float = 1.0,
    warm_up: float = 0.1,
    pause: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Samples]:
    """Measure contenders in turn, in alternating order, and return the samples of each.

    Args:
        contenders: Calls by name.
        seconds: Approximate measuring time per contender.
        warm_up: Seconds for which each contender is called before; at least two calls.
        pause: Seconds of sleep between contenders, for contenders whose threads spin after a call.
        clock: Clock that measures the durations, in seconds; another one than the default is for tests.
    """
    now = time.perf_counter
    # Call each contender for a while, which also tells how many of its calls make a round long enough to be timed.
    counts = {name: _warm(call, warm_up) for name, call in contenders.items()}
    durations: dict[str, list[float]] = {name: [] for name in contenders}
    end = now() + seconds * len(contenders)
    rounds = 0
    # In each round every contender is timed once. Odd rounds run in reverse order, so that no contender always follows
    # the same one, whose effects on caches and clock rates it would inherit.
    while rounds < FEWEST_ROUNDS or now() < end:
        order = list(contenders.items())
        for name, call in order if rounds % 2 == 0 else reversed(order):
            if pause:
                time.sleep(pause)
                call()  # the first call after a sleep is slower
            count = range(counts[name])
            start = clock()
            for _ in count:
                call()
            durations[name].append((clock() - start) / counts[name])
        rounds += 1
    return [Samples(name, tuple(times), counts[name]) for name, times in durations.items()]


def _warm(call: Call, seconds: float) -> int:
    """Call a contender for at least `seconds`; return the number of calls for a round of ROUND seconds, at least 1.

    The number assumes that each call takes as long as the fastest one so far.
    """
    clock = time.perf_counter
    call()
    begin = clock()
    least = float("inf")
    while True:
        start = clock()
        call()
        now = clock()
        least = min(least, now - start)
        if now - begin >= seconds:
            return max(1, int(ROUND / max(least, 1e-8)))  # 10 ns for a call shorter than a tick of the clock
