"""The check files of the CPU, on the interpreter. What does not work is listed here alone; a row that works fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import pydispatch as pd

TOP = Path(__file__).resolve().parents[2]
ROOTS = (TOP / "tests" / "checks", TOP / "examples" / "checks")

UNSUPPORTED: dict[tuple[str, str], str] = {}
"""(file, function, or "" when the file does not compile) → what it says."""

WITHOUT_RACES = {
    ("tests/checks/linalg_idioms.mlir", "argmax_only_index_used_large"):
        "an argmax of 131,072 elements by one thread takes 12 s when each access is noted"
}  # fmt: skip
"""Functions that run without looking for data races, and why."""

FILES = sorted(str(path.relative_to(TOP)) for root in ROOTS for path in root.rglob("*.mlir"))


def outcomes(name: str) -> tuple[int, dict[str, str]]:
    """(functions that ran, name → what went wrong)."""
    try:
        artifact = pd.compile(TOP / name, targets="cuda")
        program, plain = (pd.device(f"ptx-interpreter?races={races}").load(artifact) for races in (1, 0))
    except pd.Error as error:
        return 0, {"": f"{type(error).__name__}: {error}"}
    ran, wrong = 0, {}
    for function, call in program.functions.items():
        if call.arguments:
            continue
        ran += 1
        if (name, function) in WITHOUT_RACES:
            call = plain.functions[function]
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
    assert {file for file, _ in UNSUPPORTED.keys() | WITHOUT_RACES.keys()} <= set(FILES)
    assert "examples/checks/softmax.mlir" in FILES
    assert len(UNSUPPORTED) <= 8
