"""What is chosen, kept and reported, with made-up times."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import Bench, FakeTunable

from pydispatch.tuning.database import Measurement


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_search_goes_on_from_what_is_faster() -> None:
    tunable, bench = FakeTunable("f", {"0": 100, "1": 90, "-1": 120, "2": 80, "3": 85}), Bench()
    found = bench.search.run([tunable], 10)
    assert found == {tunable: Measurement("2", 80, "0", 100, True)}
    assert tunable.chosen == ["2"]
    assert bench.lines == ["100.0 %  f: 100.0 -> 80.0 us (-20.0 %): 2, 4 tried"]


def test_less_than_the_margin_is_no_gain() -> None:
    tunable, bench = FakeTunable("f", {"0": 100, "1": 98}), Bench()
    assert bench.search.run([tunable], 10) == {tunable: Measurement("0", 100, "0", 100, True)}
    assert tunable.chosen == []
    assert bench.lines == ["100.0 %  f: 100.0 us; the default stays, 2 tried"]


@pytest.mark.parametrize("lucky", [{1}, {1, 2, 3, 4, 5, 6}, set(range(1, 11))])
def test_a_way_that_is_fast_by_chance_is_not_taken(lucky: set[int]) -> None:
    """At first sight (once), in some turns with the best, or in all nine, but not when it is measured again."""
    bench = Bench(drift=lambda config, count: 0.5 if config == "1" and count in lucky else 1.0)
    tunable = FakeTunable("f", {"0": 100, "1": 100})
    assert bench.search.run([tunable], 10) == {tunable: Measurement("0", 100, "0", 100, True)}


def test_a_machine_that_is_slow_now_and_then_changes_nothing() -> None:
    """Two of three measurements take twice as long, whatever is measured."""
    bench = Bench(drift=lambda config, count: 1.0 if count % 3 == 1 else 2.0)
    tunable = FakeTunable("f", {"0": 100, "1": 90})
    assert bench.search.run([tunable], 10) == {tunable: Measurement("1", 90, "0", 100, True)}


def test_what_does_not_compile_is_refused() -> None:
    tunable, bench = FakeTunable("f", {"0": 100, "1": 90}), Bench()
    assert bench.search.run([tunable], 10)[tunable].chosen == "1"
    assert ("f", "-1") in bench.builder.wanted and ("f", "2") in bench.builder.wanted


def test_a_site_that_cannot_run_alone_is_left_out() -> None:
    tunable, other, bench = FakeTunable("f", {"1": 1}), FakeTunable("g", {"0": 10}), Bench()
    assert list(bench.search.run([tunable, other], 10)) == [other]
    assert bench.lines[0] == "f: cannot be measured here: it does not load, or what it imports is missing"


def test_what_takes_most_of_the_time_is_first() -> None:
    """Calls count; 3 is built last although it is written first."""
    tunables = [
        FakeTunable(name, {"0": us}, calls=calls) for name, us, calls in (("c", 30, 1), ("b", 20, 2), ("a", 90, 1))
    ]
    bench = Bench()
    found = bench.search.run(tunables, 10)
    assert [line.split()[2] for line in bench.lines] == ["a:", "b:", "c:"]
    assert list(found) == tunables


def test_a_later_run_takes_what_is_known() -> None:
    times = {"0": 100.0, "1": 90.0}
    first = Bench()
    found = first.search.run([FakeTunable("f", times)], 10)
    for seconds in (0, 10):
        tunable, again = FakeTunable("f", times), Bench()
        assert list(again.search.run([tunable], seconds).values()) == list(found.values())
        assert tunable.chosen == ["1"] and again.builder.wanted == [] and again.lines == []


def test_another_machine_and_another_text_know_nothing() -> None:
    times = {"0": 100.0, "1": 90.0}
    Bench().search.run([FakeTunable("f", times)], 10)
    tunable, other = FakeTunable("f", times), FakeTunable("g", times)
    assert Bench(machine="another").search.run([tunable], 0) == {}
    assert Bench().search.run([other], 0) == {}
    assert tunable.chosen == other.chosen == []


def test_what_is_known_of_another_default_or_of_an_illegal_way_is_not_used() -> None:
    times = {"0": 100.0, "1": 90.0}
    Bench().search.run([FakeTunable("f", times)], 10)
    assert Bench().search.run([FakeTunable("f", times, default="1")], 0) == {}
    assert Bench().search.run([FakeTunable("f", {"0": 100.0})], 0) == {}


def test_the_time_is_over_and_goes_on_later() -> None:
    times = {str(n): 1000.0 * 0.9 ** abs(n) for n in range(-20, 21)}
    tunable, bench = FakeTunable("f", times), Bench(building=0.3)
    begin = bench.clock.now
    first = bench.search.run([tunable], 5)[tunable]
    # The default is built before the time counts; the last batch may have begun just before the end.
    assert 5 <= bench.clock.now - begin <= 5 + 0.3 + 2 * 0.3 + 0.2
    assert not first.complete and 0 < abs(int(first.chosen)) < 20
    second = Bench().search.run([tunable], 100)[tunable]
    assert second.complete and abs(int(second.chosen)) == 20
    assert second.default_us == 1000


def test_the_heaviest_site_is_measured_however_late_it_is() -> None:
    """A machine that was busy with something else leaves no time between the begin and the first tunable."""
    bench = Bench()

    def late() -> float:
        bench.clock.now += 1
        return bench.clock.now

    bench.search.clock = late
    heavy, light = (FakeTunable(name, {"0": us, "1": us / 2}) for name, us in (("heavy", 90), ("light", 30)))
    found = bench.search.run([light, heavy], 0.001)
    assert list(found) == [heavy]
    assert found[heavy].chosen == "0" and not found[heavy].complete


def test_each_site_has_its_share_of_the_time() -> None:
    """A long search of the first does not take the time of the second."""
    times = {str(n): 1000.0 * 0.9 ** abs(n) for n in range(-40, 41)}
    tunables, bench = [FakeTunable("f", times), FakeTunable("g", times)], Bench(building=0.1)
    found = bench.search.run(tunables, 6)
    steps = [abs(int(entry.chosen)) for entry in found.values()]
    assert min(steps) >= 3 and max(steps) - min(steps) <= 3


def test_without_time_nothing_is_built() -> None:
    tunable, bench = FakeTunable("f", {"0": 100, "1": 90}), Bench()
    assert bench.search.run([tunable], 0) == {} and bench.builder.wanted == []


def test_a_damaged_entry_is_ignored_with_a_note(own_cache: Path) -> None:
    times = {"0": 100.0, "1": 90.0}
    Bench().search.run([FakeTunable("f", times)], 10)
    (file,) = [path for path in (own_cache / "tuning").rglob("*") if path.is_file()]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    bench = Bench()
    assert bench.search.run([FakeTunable("f", times)], 0) == {}
    assert bench.lines == [f"{file}: a damaged entry is ignored"]
    assert Bench().search.run([FakeTunable("f", times)], 10)  # is measured again, and whole
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"version": 99}', "expected version 1, got 99"),
        (b"[]", "expected an object"),
        (b"{}", "'version'"),
        (b'{"version": 1, "us": "1", "default_us": 1, "chosen": "1", "default": "0", "complete": true}', "microsec"),
        (b'{"version": 1, "us": 1, "default_us": 1, "chosen": 1, "default": "0", "complete": true}', "expected text"),
        (b"\xff", "decode"),
    ],
)
def test_an_entry_of_another_form_is_ignored_with_a_note(
    content: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    monkeypatch.setattr("pydispatch.formats.storage.cache.load", lambda *parts: content)
    assert bench.database.load("text") is None
    assert why in bench.lines[0]
