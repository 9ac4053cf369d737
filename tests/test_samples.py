"""What a run of the tests has of a large table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import samples


def table(*counts: int) -> list[Any]:
    """The cases of a table of parameters with so many values each."""
    cases: list[dict[str, int]] = [{}]
    for number, count in enumerate(counts):
        cases = [{**case, f"p{number}": value} for case in cases for value in range(count)]
    return [_Case(str(case), SimpleNamespace(params=case)) for case in cases]


class _Case:
    def __init__(self, name: str, callspec: Any) -> None:
        self.name, self.callspec = name, callspec


def kept(cases: list[Any], one_in: int, seed: int) -> set[str]:
    return {case.name for case in cases} - {case.name for case in samples.left_out(one_in, cases, seed)}


def test_each_value_stays_and_each_day_has_other_cases() -> None:
    cases = table(2, 5, 6)
    days = [kept(cases, 3, seed) for seed in range(3)]
    for day in days:
        assert 20 <= len(day) <= 22
        for parameter, count in enumerate((2, 5, 6)):
            found = {case.callspec.params[f"p{parameter}"] for case in cases if case.name in day}
            assert found == set(range(count))
    assert set().union(*days) == {case.name for case in cases}
    assert kept(cases, 3, 4) == days[1]


@pytest.mark.parametrize("days", sorted({*samples.DAYS.values(), samples.OTHER_DAYS}))
def test_every_case_returns_within_two_weeks(days: int) -> None:
    assert 2 <= days <= 14  # a dense device has its cases in half the days
    for shape in ((4, 9), (3,), (2, 2, 2, 2, 2), (7, 7, 3)):
        cases = table(*shape)
        for first in (0, 739948):
            runs = [kept(cases, days, first + day) for day in range(days)]
            assert set().union(*runs) == {case.name for case in cases}
            assert max(map(len, runs)) <= 2 * -(-len(cases) // days)


def test_a_parameter_with_a_value_for_each_case_is_sampled() -> None:
    assert len(kept(table(30), 3, 1)) == 10


def item(name: str, **params: object) -> Any:
    """A test as pytest has it, in a file of this folder."""
    file, _, function = name.partition("::")
    return _Item(samples.HERE / file, function, params)


class _Item:
    def __init__(self, path: Any, function: str, params: dict[str, object]) -> None:
        self.path, self.originalname, self.name = path, function, f"{path.stem}::{function}{params}"
        self.callspec = SimpleNamespace(params=params)


def test_each_case_of_an_expensive_test_has_one_day() -> None:
    for count in (1, 3, 4, 11):
        cases = table(count)
        days = [samples.of_today(4, cases, seed, "a name") for seed in range(40, 44)]
        assert sorted(case.name for day in days for case in day) == sorted(case.name for case in cases)
        assert samples.of_today(4, cases, 44, "a name") == days[0]
    turns = {next(day for day in range(4) if samples.of_today(4, table(1), day, name)) for name in map(str, range(20))}
    assert turns == {0, 1, 2, 3}  # the days of different tests differ


def test_every_case_runs_in_two_weeks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases of emulated machines, which every second run has, are not those of every second share."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    tests = ("compiler/test_contract.py::test_types", "ops/test_affine.py::test_any", "e2e/test_cross.py::test_it")
    kinds = ({"device": "cpu"}, {"device": "vulkan"}, {"machine": "aarch64"}, {"machine": "x86_64"})
    items = [item(test, number=number, **kind) for test in tests for kind in kinds for number in range(9)]
    seen: set[str] = set()
    for seed in range(samples.SEED, samples.SEED + 14):
        monkeypatch.setattr(samples, "SEED", seed)
        today = set(items) - samples.not_today(items)
        assert len(today) < len(items)
        seen |= {test.name for test in today}
    assert seen == {test.name for test in items}


def test_emulated_machines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    machines = (*samples.EMULATED, "x86_64")
    runs = []
    for seed in (40, 41):
        monkeypatch.setattr(samples, "SEED", seed)
        tests = ((machine, item("e2e/test_cross.py::test_it", machine=machine)) for machine in machines)
        runs.append({machine for machine, test in tests if not samples._is_of_another_run(test)})
    assert runs == [{samples.EMULATED[0], "x86_64"}, {samples.EMULATED[1], "x86_64"}]


def test_every_expensive_test_exists() -> None:
    for file, separator, function in (test.partition("::") for test in samples.DAYS):
        text = (samples.HERE / file).read_text()
        assert not separator or f"def {function}(" in text, f"{file} has no {function}"


def test_the_emulated_machine_that_this_one_is_always_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    for seed in (40, 41):
        monkeypatch.setattr(samples, "SEED", seed)
        assert not samples._is_of_another_run(item("e2e/test_cross.py::test_it", machine="riscv64"))


def test_examples_follow_the_kind_of_run() -> None:
    from hypothesis import given, settings
    from hypothesis import strategies as st

    @settings(max_examples=50)
    @given(st.integers())
    def many(x: int) -> None: ...

    @settings(max_examples=5)
    @given(st.integers())
    def few(x: int) -> None: ...

    @settings(max_examples=50, derandomize=True)
    @given(st.integers())
    def fixed(x: int) -> None: ...

    tests = ((many, 10, 500), (fixed, 20, 500), (few, 5, 50))
    for test, sampled, thorough in tests:
        samples.scale(test)
        assert test._hypothesis_internal_use_settings.max_examples == (thorough if samples.IS_THOROUGH else sampled)
