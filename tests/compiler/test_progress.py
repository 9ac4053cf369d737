"""Progress of compilations: nothing of short ones, names and an estimate of long ones."""

from __future__ import annotations

import io

import pytest

import pydispatch as pd
from pydispatch.cli import progress as shown
from pydispatch.compiler.driver import progress
from pydispatch.compiler.driver.progress import Progress, Tracker
from pydispatch.formats.storage import cache

TWO = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @g(%x: tensor<5xf32>) -> tensor<5xf32> {
  %y = arith.mulf %x, %x : tensor<5xf32>
  return %y : tensor<5xf32>
}
"""


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is reported of a program that is kept."""
    monkeypatch.setenv(cache.SIZE, "0")


def test_an_estimate() -> None:
    now, told = 100.0, list[Progress]()
    tracker = Tracker(told.append, lambda: now)
    tracker.phase("dispatches")
    now += progress.MIN_ELAPSED_SECONDS - 0.5
    tracker.begin_code(4)
    assert told == []
    now += 1
    tracker.count_compiled("f")
    now += progress.MIN_INTERVAL_SECONDS / 2
    tracker.count_compiled("g")
    assert told == [Progress("code", "f", 1, 4, progress.MIN_ELAPSED_SECONDS + 0.5, 3.0)]
    now += 1 - progress.MIN_INTERVAL_SECONDS / 2
    tracker.count_compiled("h")
    assert told[1:] == [Progress("code", "h", 3, 4, progress.MIN_ELAPSED_SECONDS + 1.5, pytest.approx(2 / 3))]


def test_of_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MIN_ELAPSED_SECONDS", 0.0)
    monkeypatch.setattr(progress, "MIN_INTERVAL_SECONDS", 0.0)
    told: list[Progress] = []
    pd.compile(TWO, progress=told.append)
    code = [p for p in told if p.phase == "code"]
    assert [p.phase for p in told[:3]] == ["input", "preprocessing", "global-optimization"]
    assert [(p.done, p.total) for p in code] == [(0, 2), (1, 2), (2, 2)]
    assert {p.name for p in code} == {"", "f_dispatch_0_addf_4xf32", "g_dispatch_0_mulf_5xf32"}
    assert code[0].left is None and code[2].left == 0


def test_nothing_of_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MIN_ELAPSED_SECONDS", 3600.0)
    told: list[Progress] = []
    pd.compile(TWO, progress=told.append)
    assert told == []


def test_an_error_of_the_function_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MIN_ELAPSED_SECONDS", 0.0)
    monkeypatch.setattr(progress, "MIN_INTERVAL_SECONDS", 0.0)

    def stop(report: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pd.compile(TWO, progress=stop)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines() -> None:
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        with shown.shown(stream) as show:
            for seconds in (3, 12, 15, 23):
                show(Progress("code", "f_dispatch_0", seconds, 30, seconds, 30.0 - seconds))
    assert log.getvalue().splitlines() == [
        "12 s: code 12 of 30, about 18 s left: f_dispatch_0", "23 s: code 23 of 30, about 7 s left: f_dispatch_0",
    ]  # fmt: skip
    lines = terminal.getvalue().split("\r")
    assert lines[1].rstrip() == "3 s: code 3 of 30, about 27 s left: f_dispatch_0" and lines[-2].strip() == ""
    assert shown.text(Progress("dispatches", "", 0, 0, 4.2, None)) == "4 s: dispatches"
