"""Sites, programs and a clock that are made up, so that tests of choices know what is the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydispatch.tuning.bench import Call
from pydispatch.tuning.database import Database
from pydispatch.tuning.search import Search
from pydispatch.tuning.site import Builder, Built, Site


class FakeSite(Site):
    """Ways are numbers in a row: near one are the next lower and higher."""

    def __init__(self, subject: str, times: Mapping[str, float], default: str = "0", calls: int = 1) -> None:
        self.subject, self.times, self.default, self.calls = subject, times, default, calls
        self.key = f"text of {subject}"
        self.chosen: list[str] = []

    def near(self, name: str) -> Sequence[str]:
        return [str(int(name) - 1), str(int(name) + 1)]

    def is_legal(self, name: str) -> bool:
        return name in self.times

    def choose(self, name: str) -> None:
        self.chosen.append(name)


class Clock:
    """Seconds that pass as builds and measurements say."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeBuilder(Builder):
    """Builds what a site has a time for; each takes `seconds`."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.wanted: list[tuple[str, str]] = []

    def build(self, wanted: Sequence[tuple[Site, str]]) -> Sequence[Built | None]:
        self.clock.now += self.seconds * len(wanted)
        self.wanted += [(site.subject, way) for site, way in wanted]
        return [Built(site, "f", way) if site.is_legal(way) else None for site, way in wanted]  # type: ignore[arg-type]


class FakeTimer:
    """Gives the time of a way, times what `drift` says of how often it was measured."""

    def __init__(self, clock: Clock, drift: Callable[[str, int], float] = lambda way, count: 1.0) -> None:
        self.clock, self.drift = clock, drift
        self.counts: dict[str, int] = {}

    def load(self, built: Built) -> Call | None:
        site = built.artifact
        assert isinstance(site, FakeSite)
        return lambda: (built.way, site.times[built.way])

    def microseconds(self, call: Call, seconds: float) -> float:
        self.clock.now += seconds
        way, time = call()  # type: ignore[misc]
        count = self.counts[way] = self.counts.get(way, 0) + 1
        return float(time * self.drift(way, count))


class Bench:
    """A search over fakes. lines: what it reported."""

    def __init__(
        self, machine: str = "machine", building: float = 0.0, drift: Callable[[str, int], float] = lambda way, n: 1.0
    ) -> None:
        self.lines: list[str] = []
        self.clock = Clock()
        self.builder = FakeBuilder(self.clock, building)
        self.timer = FakeTimer(self.clock, drift)
        self.database = Database(machine, self.lines.append)
        self.search = Search(self.builder, self.timer, self.database, self.lines.append, self.clock)
