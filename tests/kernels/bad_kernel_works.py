"""Code that is no kernel, and what is said about it: files of cases, and the check of one."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pydispatch as pd

PRELUDE = """\
import math
import numpy as np
import pydispatch as pd
from collections import namedtuple
T, D, N, P = (1, 2), {0: 1.0}, np.zeros(4), namedtuple("P", "x y")
"""
ARGUMENTS = """\
def k(x: pd.f32["n"], y: pd.f32["n"], z: pd.i32["n"], w: pd.f32["n", "m"], a: pd.f32, c: pd.i32):
"""
HEAD = f"{ARGUMENTS}    i = pd.global_id(0)\n"
numbers = count()


class Case(NamedTuple):
    """remedy: "" of arguments of the decorator, whose errors have no place in the function."""

    name: str
    code: str
    message: str
    remedy: str


def cases(file: str) -> list[Case]:
    """Those of a file, see bad_kernels.txt."""
    lines = (Path(__file__).parent / file).read_text("utf-8").splitlines()
    found = []
    for text in "\n".join(line for line in lines if not line.startswith("#")).split("\n== ")[1:]:
        code, message, *remedy = text.strip().split("\n-- ")
        name, _, code = code.partition("\n")
        found.append(Case(name, code, message, remedy[0].removeprefix("note: ") if remedy else ""))
    return found


def executed(code: str) -> Any:
    """The name `k` that code defines, whose source can be read."""
    file = f"<bad kernel {next(numbers)}>"
    text = PRELUDE + code
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "somewhere"}
    exec(compile(text, file, "exec"), names)
    return names["k"]


def whole(code: str, head: str = HEAD, decorator: str = "@pd.kernel") -> str:
    """Code that defines k, or the body of a kernel."""
    if code.startswith(("def", "⟦def")) and " k(" in code:
        return f"{decorator}\n{code}"
    return f"{decorator}\n{head}{textwrap.indent(code, '    ')}"


def check_refused(case: Case, marked: str, compiled: Callable[[Any], object] = lambda k: k.mlir()) -> None:
    """Asserts what is said, and where the caret is: between brackets ⟦ ⟧ in the code.

    compiled: compiles what the code defines.
    """
    before, _, rest = marked.partition("⟦")
    inside = rest.partition("⟧")[0]
    with pytest.raises(pd.CompileError) as caught:
        compiled(executed(marked.replace("⟦", "").replace("⟧", "")))
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
    assert inside in error.location.text
    assert str(error).startswith(f"{error.location}: error: ")
