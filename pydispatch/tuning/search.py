"""Search for the fastest configuration of each tunable: expensive tunables first, within a time limit.

The neighbours of the best configuration so far are measured briefly. The fastest of them are then measured in turns
with the best, and one that is faster by a margin becomes the best. In the end, the best must again be faster than the
default.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydispatch.tuning.bench import Call
from pydispatch.tuning.database import Database, Measurement
from pydispatch.tuning.tunable import Trial, TrialBuilder, Tunable

MARGIN = 0.03
"""Share of the best time by which another configuration must be faster to replace it."""

BRIEF = 0.003
"""Seconds of the first measurement of a configuration.

It selects candidates, which are then measured alternately with the best configuration.
"""

ROUNDS, SLICE = 9, 0.002
"""Number of measurements of two configurations in turns, and the seconds of each measurement."""

FINALISTS = 3
"""Maximum number of candidates that are measured alternately with the best configuration.

They are the fastest ones in the first, brief measurement. Each takes about 2 * ROUNDS * SLICE seconds.
"""

BATCH = 4
"""Configurations that are compiled at once, in parallel on several CPUs; the time limit is checked after each batch."""


class Timer(Protocol):
    """Interface of measurements; implemented by `bench.Bench`."""

    def load(self, built: Trial) -> Call | None:
        """Load a trial and return a call of it; None if it cannot be run."""
        ...

    def microseconds(self, call: Call, seconds: float) -> float:
        """Return the time of a call, measured for about `seconds`."""
        ...


@dataclass
class SearchState:
    """State of the search for the fastest configuration of one tunable.

    Attributes:
        tunable: The tunable.
        chosen: Name of its best configuration so far.
        chosen_us: Microseconds of a call of that configuration.
        default_us: Microseconds of a call of the default configuration.
        chosen_call: The call that measures `chosen`.
        default_call: The call that measures the default.
        tried: Names of measured configurations.
        complete: Whether all neighbours of `chosen` have been tried, so that a later search has nothing to do.
    """

    tunable: Tunable
    chosen: str
    chosen_us: float
    default_us: float
    chosen_call: Call
    default_call: Call
    tried: set[str] = field(default_factory=set)
    complete: bool = False


@dataclass
class Search:
    """Search for the fastest configurations of tunables. A tuner creates one, and calls `run` once.

    Attributes:
        builder: Builds programs of tunables in a configuration.
        timer: Measures these programs.
        database: Results of earlier searches; receives those of this one.
        say: Receives one line of text about each tunable.
        clock: Returns the time in seconds.
        spent: Seconds of the last run after the defaults were measured.
    """

    builder: TrialBuilder
    timer: Timer
    database: Database
    say: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    spent: float = 0.0

    def run(self, tunables: Sequence[Tunable], seconds: float) -> dict[Tunable, Measurement]:
        """Measure tunables, apply the best configurations, and return the measurements, including stored ones.

        A tunable is a computation with several configurations, such as sizes of tiles. Its weight is the time that it
        takes by default: microseconds of a call times `calls`. The tunable with the largest weight is searched first,
        and in any case. Each gets a share of the time limit by its weight: of 10 s, tunables that take 300 and 100 us
        get 7.5 and 2.5 s. Time that one leaves over is shared by the others.

        Tunables whose stored measurement is complete are not measured again.

        Args:
            tunables: The tunables.
            seconds: Time limit, without the compilation and measurement of the defaults; 0 uses stored measurements
                only.

        Returns:
            The measurements of the tunables that have one.
        """
        # Load stored measurements, and measure the defaults of the tunables without a complete one.
        entries = {tunable: entry for tunable in tunables if (entry := self._stored_measurement(tunable)) is not None}
        states: list[SearchState] = []
        if seconds:
            incomplete = [tunable for tunable in tunables if tunable not in entries or not entries[tunable].complete]
            states = self._measure_defaults(incomplete, stored=entries)
        # Search the tunables, those with the largest weights first.
        begin = self.clock()
        end = begin + seconds
        weights = [state.default_us * state.tunable.calls for state in states]
        weight_left = total = sum(weights)  # weight_left: of the tunables that have not been searched
        heaviest_first = sorted(zip(weights, states, strict=True), key=lambda pair: -pair[0])
        for rank, (weight, state) in enumerate(heaviest_first):
            now = self.clock()
            if now >= end and rank > 0:  # the heaviest one is measured in any case
                break
            # The time that is left is shared in proportion to the weights of the tunables that are left.
            end_of_share = now + (end - now) * weight / weight_left if weight_left else end
            self._improve(state, end_of_share)
            weight_left -= weight
            # Compares the best configuration with the default once more; the default remains unless the other one is
            # faster.
            self._confirm(state)
            entry = Measurement(
                state.chosen, round(state.chosen_us, 2), state.tunable.default, round(state.default_us, 2),
                state.complete,
            )  # fmt: skip
            entries[state.tunable] = entry
            self.database.store(state.tunable.key, entry)
            self.say(_report_line(state, weight / total if total else 0))
        self.spent = self.clock() - begin
        # Apply the best configurations, including those of stored measurements.
        for tunable, entry in entries.items():
            if entry.chosen != tunable.default:
                tunable.apply(entry.chosen)
        return {tunable: entries[tunable] for tunable in tunables if tunable in entries}

    def _stored_measurement(self, tunable: Tunable) -> Measurement | None:
        """Return the stored measurement of a tunable; None if the compiler has changed its configurations since."""
        entry = self.database.load(tunable.key)
        if entry is not None and (entry.default != tunable.default or not tunable.is_legal(entry.chosen)):
            return None  # the compiler has changed its configurations since
        return entry

    def _measure_defaults(self, tunables: Sequence[Tunable], stored: dict[Tunable, Measurement]) -> list[SearchState]:
        """Measure the defaults of tunables, and return the states of those that can be measured.

        A tunable with a measurement in `stored` continues from its best configuration. `chosen` of a state is
        the best configuration so far, and `tried` has the names of those that were measured.
        """
        states = []
        for tunable, built in zip(
            tunables, self.builder.build([(tunable, tunable.default) for tunable in tunables]), strict=True
        ):
            call = None if built is None else self.timer.load(built)
            if call is None:
                self.say(f"{tunable.subject}: cannot be measured here: it does not load, or what it imports is missing")
                continue
            us = self.timer.microseconds(call, BRIEF)
            state = SearchState(
                tunable, chosen=tunable.default, chosen_us=us, default_us=us, chosen_call=call, default_call=call,
                tried={tunable.default},
            )  # fmt: skip
            states.append(state)
        for state in states:
            entry = stored.get(state.tunable)
            if entry is not None and entry.chosen != state.tunable.default:
                self._resume(state, entry)
        return states

    def _resume(self, state: SearchState, entry: Measurement) -> None:
        """Make the best configuration of an earlier search, which ran out of time, the best one of `state`.

        Leave `state` as it is if the configuration cannot be compiled or loaded any more.

        state: the search for the tunable, whose best configuration is the default so far. entry: the stored result.
        """
        (built,) = self.builder.build([(state.tunable, entry.chosen)])
        call = None if built is None else self.timer.load(built)
        if call is not None:
            state.chosen, state.chosen_us, state.chosen_call = (
                entry.chosen, self.timer.microseconds(call, BRIEF), call,
            )  # fmt: skip
            state.tried.add(entry.chosen)

    def _improve(self, state: SearchState, end: float) -> None:
        """Search the neighbours of the best configuration, which are similar ones, until none is
        faster or `end`, a time of `clock`, is reached.

        This is hill climbing. In each round the untried neighbours of the best configuration are measured, `BATCH` at
        once. If one of them is faster, it becomes the best, and the next round tries its neighbours. Else the search
        is complete.

        The search also ends if the next batch would exceed the limit, supposing that it takes as long as the last one.
        Faster configurations that were found until then are still compared with the best.

        Args:
            state: The search for one tunable, which is updated.
            end: Time limit, as `clock` counts time.
        """
        while True:
            names = [n for n in dict.fromkeys(state.tunable.neighbours(state.chosen)) if n not in state.tried]
            fast: list[tuple[float, str, Call]] = []  # (microseconds, name, its call) of those that look faster
            for at in range(0, len(names), BATCH):
                begin = self.clock()
                if begin >= end:
                    return
                fast += self._try(state, names[at : at + BATCH])
                spent = self.clock() - begin
                # After the last batch of the round, the comparison below takes place whatever time is left.
                if self.clock() + spent > end and at + BATCH < len(names):
                    self._compare(state, fast)
                    return
            # Measure the fastest candidates and the best in turns: a faster one becomes the best.
            if not self._compare(state, fast):
                state.complete = True
                return

    def _try(self, state: SearchState, names: Sequence[str]) -> list[tuple[float, str, Call]]:
        """Measure configurations briefly; return (microseconds, name, call) of those that look faster than the best."""
        fast = []
        for name, built in zip(names, self.builder.build([(state.tunable, n) for n in names]), strict=True):
            call = None if built is None else self.timer.load(built)
            state.tried.add(name)
            if call is not None and (us := self.timer.microseconds(call, BRIEF)) < state.chosen_us:
                fast.append((us, name, call))
        return fast

    def _compare(self, state: SearchState, fast: Sequence[tuple[float, str, Call]]) -> bool:
        """Compare the fastest candidates with the best configuration in turns; the first faster one becomes the best.

        Args:
            state: The search for a tunable, which has the best configuration so far.
            fast: Candidates as (microseconds, name, call), from a brief measurement.

        Returns:
            Whether a candidate was faster.
        """
        for _, name, call in sorted(fast, key=lambda timed: timed[0])[:FINALISTS]:
            chosen_us, candidate_us, is_faster = self._in_turns(state.chosen_call, call)
            state.chosen_us = min(state.chosen_us, chosen_us)
            if is_faster:
                state.chosen, state.chosen_us, state.chosen_call = name, candidate_us, call
                return True
        return False

    def _confirm(self, state: SearchState) -> None:
        """Measure the best configuration and the default in turns; make the default the best unless the other is
        faster.
        """
        default = state.tunable.default
        if state.chosen != default:
            state.default_us, state.chosen_us, is_faster = self._in_turns(state.default_call, state.chosen_call)
            if not is_faster:
                state.chosen, state.chosen_us, state.chosen_call = default, state.default_us, state.default_call
        else:
            state.default_us = state.chosen_us

    def _in_turns(self, first: Call, second: Call) -> tuple[float, float, bool]:
        """Measure two calls alternately, so that disturbances affect both.

        Returns:
            Minimum microseconds of each call, and whether the second is faster: by `MARGIN`, and in at least 3/4 of the
                turns.
        """
        turns = [[self.timer.microseconds(call, SLICE) for call in (first, second)] for _ in range(ROUNDS)]
        before, after = (min(times) for times in zip(*turns, strict=True))
        wins_most_turns = sum(first_us > second_us for first_us, second_us in turns) * 4 >= ROUNDS * 3
        return before, after, wins_most_turns and after <= before * (1 - MARGIN)


def _report_line(state: SearchState, share: float) -> str:
    """Return a report line, such as `41.2 %  dispatch_3_matmul: 1004.1 -> 812.3 us (-19.1 %): 8x48, ..., 14 tried`.

    share: part of the time of all searched tunables that this one takes by default, from 0 to 1.
    """
    line, tried = (
        f"{share * 100:4.1f} %  {state.tunable.subject}: {state.default_us:.1f}",
        f"{len(state.tried) - 1} tried",  # besides the default
    )
    if state.chosen == state.tunable.default:
        return f"{line} us; the default stays, {tried}"
    gain = (1 - state.chosen_us / state.default_us) * 100
    return f"{line} -> {state.chosen_us:.1f} us (-{gain:.1f} %): {state.chosen}, {tried}"
