"""The check files of the CPU, on the interpreter. What does not work is listed here alone; a row that works fails."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import pytest
from check_worker import outcomes

ROOT = Path(__file__).resolve().parents[1] / "checks"

UNSUPPORTED: dict[tuple[str, str], str] = {}
"""(file, function, or "" when the file does not compile) → what it says."""

WITHOUT_RACES = {
    "linalg_idioms.mlir": "an argmax of 131,072 elements by one thread takes 12 s when each access is noted"
}
"""Files that run without looking for data races, and why."""

FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.mlir"))

Outcomes = tuple[int, dict[str, str], float]


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcomes]]]:
    """All files that the run asks for, side by side, longest first."""
    names = [item.callspec.params["name"] for item in request.session.items if item.fspath == request.fspath
             and hasattr(item, "callspec")]  # fmt: skip
    names.sort(key=lambda name: -(ROOT / name).stat().st_size)
    workers = min(len(names), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield {
            name: pool.submit(outcomes, ROOT / name, f"ptx-interpreter?races={int(name not in WITHOUT_RACES)}")
            for name in names
        }


@pytest.mark.parametrize("name", FILES)
def test_check_file(name: str, running: dict[str, Future[Outcomes]]) -> None:
    ran, wrong, _ = running[name].result()
    expected = {function: said for (file, function), said in UNSUPPORTED.items() if file == name}
    assert wrong.keys() == expected.keys(), wrong
    assert all(said in wrong[function] for function, said in expected.items()), wrong
    assert ran or "" in expected


def test_the_list_names_what_is_there() -> None:
    assert len(FILES) > 10
    assert {file for file, _ in UNSUPPORTED} <= set(FILES)
    assert len(UNSUPPORTED) <= 8
