"""Code that is no kernel is refused where it is written, with a remedy; its twin without the fault compiles."""

from __future__ import annotations

import linecache
import textwrap
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pydispatch as pd

PRELUDE = """\
import math
import numpy as np
import pydispatch as pd
T, D, N = (1, 2), {0: 1.0}, np.zeros(4)
"""
HEAD = """\
def k(x: pd.f32["n"], y: pd.f32["n"], z: pd.i32["n"], w: pd.f32["n", "m"], a: pd.f32, c: pd.i32):
    i = pd.global_id(0)
"""
numbers = count()


class Case(NamedTuple):
    """remedy: "" of arguments of the decorator, whose errors have no place in the function."""

    name: str
    code: str
    message: str
    remedy: str


def cases() -> list[Case]:
    """Those of bad_kernels.txt."""
    lines = (Path(__file__).parent / "bad_kernels.txt").read_text("utf-8").splitlines()
    found = []
    for text in "\n".join(line for line in lines if not line.startswith("#")).split("\n== ")[1:]:
        code, message, *remedy = text.strip().split("\n-- ")
        name, _, code = code.partition("\n")
        found.append(Case(name, code, message, remedy[0].removeprefix("note: ") if remedy else ""))
    return found


CASES = cases()


def executed(code: str) -> Any:
    """The name `k` that code defines, whose source can be read."""
    file = f"<bad kernel {next(numbers)}>"
    text = PRELUDE + code
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "somewhere"}
    exec(compile(text, file, "exec"), names)
    return names["k"]


def whole(code: str) -> str:
    return f"@pd.kernel\n{code}" if code.startswith(("def", "⟦def")) and " k(" in code else (
        "@pd.kernel\n" + HEAD + textwrap.indent(code, "    ")
    )  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.remedy])
def test_is_refused_where_it_stands(case: Case) -> None:
    marked = whole(case.code)
    before, _, rest = marked.partition("⟦")
    inside = rest.partition("⟧")[0]
    with pytest.raises(pd.CompileError) as caught:
        executed(marked.replace("⟦", "").replace("⟧", "")).mlir()
    error = caught.value
    assert error.location is not None
    assert case.message in error.message
    assert case.remedy in (error.note or "")
    first = PRELUDE + before
    line = first.count("\n") + 1
    column = len(first) - (first.rfind("\n") + 1) + 1
    assert (error.location.line, error.location.column) == (line, column), str(error)
    caret = error.location.caret().splitlines()[1]
    assert caret.strip() == "^" * len(inside), str(error)
    assert str(error).startswith(f"{error.location}: error: ")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if not case.remedy])
def test_arguments_of_the_decorator_are_refused(case: Case) -> None:
    with pytest.raises(pd.InvalidArgumentError) as caught:
        executed(case.code).mlir()
    assert case.message in str(caught.value)


def test_there_are_enough_cases() -> None:
    assert len(CASES) == len({case.name for case in CASES}) >= 200


GOOD = {
    "exits of loops": "for j in range(4):\n    if x[j] > a:\n        break\n    y[j] = 1.0",
    "a condition is no number": "y[i] = pd.f32(c > 0) + 1.0",
    "an index is converted": "z[i] = pd.i32(i)",
    "a name on every way": "if c > 0:\n    t = 1.0\nelse:\n    t = 2.0\ny[i] = t",
    "an endless loop is left": "while True:\n    y[i] += 1.0\n    if y[i] > 10.0:\n        return",
    "an assert of a number": "assert 1.0\ny[i] = 1.0",
    "a sum of conditions": "t = pd.group_sum(pd.i32(c > 0))\nz[i] = t",
    "a scalar parameter changes": "a = a + 1.0\ny[i] = a",
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD.keys())
def test_twins_without_the_fault_compile(body: str) -> None:
    pd.compile(executed(whole(body)), targets="cpu")
