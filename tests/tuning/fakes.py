"""Tunables, programs and a clock that are made up, so that tests of choices know what is the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydispatch.tuning.bench import Call
from pydispatch.tuning.database import Database
from pydispatch.tuning.search import Search
from pydispatch.tuning.tunable import Trial, TrialBuilder, Tunable


class FakeTunable(Tunable):
    """Ways are numbers in a row: near one are the next lower and higher."""

    def __init__(self, subject: str, times: Mapping[str, float], default: str = "0", calls: int = 1) -> None:
        self.subject, self.times, self.default, self.calls = subject, times, default, calls
        self.key = f"text of {subject}"
        self.chosen: list[str] = []

    def neighbours(self, config: str) -> Sequence[str]:
        return [str(int(config) - 1), str(int(config) + 1)]

    def is_legal(self, config: str) -> bool:
        return config in self.times

    def apply(self, config: str) -> None:
        self.chosen.append(config)


class Clock:
    """Seconds that pass as builds and measurements say."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeTrialBuilder(TrialBuilder):
    """Builds what a tunable has a time for; each takes `seconds`."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.wanted: list[tuple[str, str]] = []

    def build(self, wanted: Sequence[tuple[Tunable, str]]) -> Sequence[Trial | None]:
        self.clock.now += self.seconds * len(wanted)
        self.wanted += [(tunable.subject, config) for tunable, config in wanted]
        return [Trial(tunable, "f", config) if tunable.is_legal(config) else None for tunable, config in wanted]  # type: ignore[arg-type]


class FakeTimer:
    """Gives the time of a configuration, times what `drift` says of how often it was measured."""

    def __init__(self, clock: Clock, drift: Callable[[str, int], float] = lambda config, count: 1.0) -> None:
        self.clock, self.drift = clock, drift
        self.counts: dict[str, int] = {}

    def load(self, built: Trial) -> Call | None:
        tunable = built.artifact
        assert isinstance(tunable, FakeTunable)
        return lambda: (built.config, tunable.times[built.config])

    def microseconds(self, call: Call, seconds: float) -> float:
        self.clock.now += seconds
        config, time = call()  # type: ignore[misc]
        count = self.counts[config] = self.counts.get(config, 0) + 1
        return float(time * self.drift(config, count))


class Bench:
    """A search over fakes. lines: what it reported."""

    def __init__(
        self,
        machine: str = "machine",
        building: float = 0.0,
        drift: Callable[[str, int], float] = lambda config, n: 1.0,
    ) -> None:
        self.lines: list[str] = []
        self.clock = Clock()
        self.builder = FakeTrialBuilder(self.clock, building)
        self.timer = FakeTimer(self.clock, drift)
        self.database = Database(machine, self.lines.append)
        self.search = Search(self.builder, self.timer, self.database, self.lines.append, self.clock)
