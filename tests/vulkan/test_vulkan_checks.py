"""The check files of the CPU, on Vulkan. What does not work is listed here alone; a row that works fails."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pydispatch as pd

TOP = Path(__file__).resolve().parents[2]
ROOTS = (TOP / "tests" / "checks", TOP / "examples" / "checks")

UNSUPPORTED: dict[tuple[str, str], str] = {}
"""(file, function, or "" when the file does not compile) → why."""

FILES = sorted(str(path.relative_to(TOP)) for root in ROOTS for path in root.rglob("*.mlir"))


@cache
def device() -> Any:
    return pd.device("vulkan:0")


@pytest.mark.parametrize("name", FILES)
def test_check_file(name: str) -> None:
    if (name, "") in UNSUPPORTED:
        with pytest.raises(pd.CompileError, match=UNSUPPORTED[name, ""]):
            pd.compile(TOP / name, targets="vulkan")
        return
    program = device().load(pd.compile(TOP / name, targets="vulkan"))
    ran = 0
    wrong = {}
    for function, call in program.functions.items():
        if call.arguments:
            continue
        ran += 1
        try:
            call()
        except pd.Error as error:
            wrong[function] = str(error)
    expected = {function for file, function in UNSUPPORTED if file == name}
    assert wrong.keys() == expected, wrong
    assert ran


def test_the_list_names_what_is_there() -> None:
    assert len(FILES) > 10
    assert {file for file, _ in UNSUPPORTED} <= set(FILES)
    assert len(UNSUPPORTED) <= 8
