"""Search for the fastest way to compute each site: expensive sites first, within a time limit.

The neighbours of the best way so far are measured briefly. The fastest of them are then measured in turns with the best
way, and one that is faster by a margin becomes the best. In the end, the best must again be faster than the default.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydispatch.tuning.bench import Call
from pydispatch.tuning.database import Database, Entry
from pydispatch.tuning.site import Builder, Built, Site

MARGIN = 0.03
"""By how much of the time a way must be faster."""

BRIEF = 0.003
"""Seconds of a first measurement."""

ROUNDS, SLICE = 9, 0.002
"""How often two ways are measured in turns, and the seconds of each."""

FINALISTS = 3
"""Ways that are compared with the best, of those that were tried at once."""

BATCH = 4
"""Ways that are compiled at once, side by side where there are processors; the time is looked at after each batch."""


class Timer(Protocol):
    """Interface of measurements; implemented by `bench.Bench`."""

    def load(self, built: Built) -> Call | None: ...

    def microseconds(self, call: Call, seconds: float) -> float: ...


@dataclass
class Race:
    """The way of a site so far, with programs of it and of the default. tried: names."""

    site: Site
    chosen: str
    us: float
    default_us: float
    call: Call
    default_call: Call
    tried: set[str] = field(default_factory=set)
    complete: bool = False


@dataclass
class Search:
    """say: takes a line for people about each site. clock: seconds. spent: seconds of the last run that count."""

    builder: Builder
    timer: Timer
    database: Database
    say: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    spent: float = 0.0

    def run(self, sites: Sequence[Site], seconds: float) -> dict[Site, Entry]:
        """Measure sites, and return the entries of those that are measured now or were before; `choose` is called on
        each.

        seconds: how long is measured at most, besides compiling what the defaults are; 0 for what the database has.
        However short it is, the site that takes most of the time is measured.
        """
        entries = {site: entry for site in sites if (entry := self._known(site)) is not None}
        races = (
            self._begin([s for s in sites if s not in entries or not entries[s].complete], entries) if seconds else []
        )
        begin = self.clock()
        end = begin + seconds
        weights = [race.default_us * race.site.calls for race in races]
        left = total = sum(weights)
        heaviest_first = sorted(zip(weights, races, strict=True), key=lambda pair: -pair[0])
        for place, (weight, race) in enumerate(heaviest_first):
            now = self.clock()
            if now >= end and place:
                break
            self._race(race, now + (end - now) * weight / left if left else end)
            left -= weight
            self._confirm(race)
            entry = Entry(race.chosen, round(race.us, 2), race.site.default, round(race.default_us, 2), race.complete)
            entries[race.site] = entry
            self.database.store(race.site.key, entry)
            self.say(_line(race, weight / total if total else 0))
        self.spent = self.clock() - begin
        for site, entry in entries.items():
            if entry.chosen != site.default:
                site.choose(entry.chosen)
        return {site: entries[site] for site in sites if site in entries}

    def _known(self, site: Site) -> Entry | None:
        entry = self.database.load(site.key)
        if entry is not None and (entry.default != site.default or not site.is_legal(entry.chosen)):
            return None  # the compiler has other ways by now
        return entry

    def _begin(self, sites: Sequence[Site], entries: dict[Site, Entry]) -> list[Race]:
        """Measure the defaults of sites, and return their races; sites that cannot be measured are left out."""
        races = []
        for site, built in zip(sites, self.builder.build([(site, site.default) for site in sites]), strict=True):
            call = None if built is None else self.timer.load(built)
            if call is None:
                self.say(f"{site.subject}: cannot be measured here: it does not load, or what it imports is missing")
                continue
            us = self.timer.microseconds(call, BRIEF)
            races.append(Race(site, site.default, us, us, call, call, {site.default}))
        for race in races:
            entry = entries.get(race.site)
            if entry is not None and entry.chosen != race.site.default:
                self._resume(race, entry)
        return races

    def _resume(self, race: Race, entry: Entry) -> None:
        """Goes on where the time was over."""
        (built,) = self.builder.build([(race.site, entry.chosen)])
        call = None if built is None else self.timer.load(built)
        if call is not None:
            race.chosen, race.us, race.call = entry.chosen, self.timer.microseconds(call, BRIEF), call
            race.tried.add(entry.chosen)

    def _race(self, race: Race, end: float) -> None:
        while True:
            names = [n for n in dict.fromkeys(race.site.near(race.chosen)) if n not in race.tried]
            fast: list[tuple[float, str, Call]] = []
            for at in range(0, len(names), BATCH):
                begin = self.clock()
                if begin >= end:
                    return
                fast += self._try(race, names[at : at + BATCH])
                spent = self.clock() - begin
                if self.clock() + spent > end and at + BATCH < len(names):
                    self._compare(race, fast)
                    return
            if not self._compare(race, fast):
                race.complete = True
                return

    def _try(self, race: Race, names: Sequence[str]) -> list[tuple[float, str, Call]]:
        """Measure ways briefly; those that look faster than the best."""
        fast = []
        for name, built in zip(names, self.builder.build([(race.site, n) for n in names]), strict=True):
            call = None if built is None else self.timer.load(built)
            race.tried.add(name)
            if call is not None and (us := self.timer.microseconds(call, BRIEF)) < race.us:
                fast.append((us, name, call))
        return fast

    def _compare(self, race: Race, fast: Sequence[tuple[float, str, Call]]) -> bool:
        """Measure the calls that looked faster, and return whether one of them is; it is the best then."""
        for _, name, call in sorted(fast, key=lambda timed: timed[0])[:FINALISTS]:
            best, us, faster = self._in_turns(race.call, call)
            race.us = min(race.us, best)
            if faster:
                race.chosen, race.us, race.call = name, us, call
                return True
        return False

    def _confirm(self, race: Race) -> None:
        """Compare what was chosen with the default once more; what is not faster now was so by chance."""
        if race.chosen != race.site.default:
            race.default_us, race.us, faster = self._in_turns(race.default_call, race.call)
            if not faster:
                race.chosen, race.us, race.call = race.site.default, race.default_us, race.default_call
        else:
            race.default_us = race.us

    def _in_turns(self, first: Call, second: Call) -> tuple[float, float, bool]:
        """Measure two calls in turns, so that what else the machine does affects both. Return the least microseconds of
        each, and whether the second is faster: by the margin, and in most turns.
        """
        turns = [[self.timer.microseconds(call, SLICE) for call in (first, second)] for _ in range(ROUNDS)]
        before, after = (min(times) for times in zip(*turns, strict=True))
        usually = sum(one > other for one, other in turns) * 4 >= ROUNDS * 3
        return before, after, usually and after <= before * (1 - MARGIN)


def _line(race: Race, share: float) -> str:
    """`41.2 %  main_dispatch_3_matmul: 1004.1 -> 812.3 us (-19.1 %): 8x48, ..., 14 tried`."""
    line, tried = f"{share * 100:4.1f} %  {race.site.subject}: {race.default_us:.1f}", f"{len(race.tried) - 1} tried"
    if race.chosen == race.site.default:
        return f"{line} us; the default stays, {tried}"
    return f"{line} -> {race.us:.1f} us (-{(1 - race.us / race.default_us) * 100:.1f} %): {race.chosen}, {tried}"
