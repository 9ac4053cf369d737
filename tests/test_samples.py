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
    days = [kept(cases, 3, seed) for seed in range(40)]
    for day in days:
        assert len(day) == 20
        for parameter, count in enumerate((2, 5, 6)):
            found = {case.callspec.params[f"p{parameter}"] for case in cases if case.name in day}
            assert found == set(range(count))
    assert len(set(map(frozenset, days))) > 30 and set().union(*days) == {case.name for case in cases}
    assert kept(cases, 3, 7) == days[7]


@pytest.mark.parametrize("one_in", sorted({*samples.TABLES.values(), samples.ONE_IN}))
def test_every_case_returns_within_a_few_weeks(one_in: int) -> None:
    cases = table(4, 9)
    days = [kept(cases, one_in, 739948 + day) for day in range(35)]
    assert set().union(*days) == {case.name for case in cases}


def test_a_parameter_with_a_value_for_each_case_is_sampled() -> None:
    assert len(kept(table(30), 3, 1)) == 10


def item(name: str, **params: object) -> Any:
    """A test as pytest has it, in a file of this folder."""
    file, _, function = name.partition("::")
    return SimpleNamespace(path=samples.HERE / file, originalname=function, callspec=SimpleNamespace(params=params))


def test_expensive_tests_and_emulated_machines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    items = [item(name) for name in samples.ROTATION]
    items += [item("e2e/test_cross.py::test_it", machine=machine) for machine in (*samples.EMULATED, "x86_64")]
    runs = []
    for seed in (40, 41):
        monkeypatch.setattr(samples, "SEED", seed)
        runs.append([number for number, test in enumerate(items) if not samples._is_of_another_run(test)])
    always = len(items) - 1
    assert set(runs[0]) & set(runs[1]) == {always} and {*runs[0], *runs[1]} == set(range(len(items)))
    assert abs(len(runs[0]) - len(runs[1])) <= 1


def test_every_test_that_takes_turns_exists() -> None:
    for file, _, function in (test.partition("::") for test in samples.ROTATION):
        assert f"def {function}(" in (samples.HERE / file).read_text(), f"{file} has no {function}"
    assert len(set(samples.ROTATION)) == len(samples.ROTATION)


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
