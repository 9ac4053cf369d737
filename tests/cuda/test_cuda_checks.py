"""The check files of the CPU, on the interpreter. What does not work is listed here alone; a row that works fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[1] / "checks"

UNSUPPORTED: dict[tuple[str, str], str] = {}
"""(file, function, or "" when the file does not compile) → what it says."""

WITHOUT_RACES = {
    "linalg_idioms.mlir": "an argmax of 131,072 elements by one thread takes 12 s when each access is noted"
}
"""Files that run without looking for data races, and why."""

FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.mlir"))


def outcomes(name: str) -> tuple[int, dict[str, str]]:
    """(functions that ran, name → what went wrong)."""
    try:
        artifact = pd.compile(ROOT / name, targets="cuda")
        program: Any = pd.device(f"ptx-interpreter?races={int(name not in WITHOUT_RACES)}").load(artifact)
    except pd.Error as error:
        return 0, {"": f"{type(error).__name__}: {error}"}
    ran, wrong = 0, {}
    for function, call in program.functions.items():
        if call.arguments:
            continue
        ran += 1
        try:
            call()
        except pd.Error as error:
            wrong[function] = f"{type(error).__name__}: {error}"
    return ran, wrong


@pytest.mark.parametrize("name", FILES)
def test_check_file(name: str) -> None:
    ran, wrong = outcomes(name)
    expected = {function: said for (file, function), said in UNSUPPORTED.items() if file == name}
    assert wrong.keys() == expected.keys(), wrong
    assert all(said in wrong[function] for function, said in expected.items()), wrong
    assert ran or "" in expected


def test_the_list_names_what_is_there() -> None:
    assert len(FILES) > 20
    assert {file for file, _ in UNSUPPORTED} | WITHOUT_RACES.keys() <= set(FILES)
    assert len(UNSUPPORTED) <= 8
