"""Code that is no kernel is refused where it is written, with a remedy; its twin without the fault compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from bad_kernel_works import Case, cases, check_refused, executed, whole

import pydispatch as pd

CASES = cases("bad_kernels.txt")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.remedy])
def test_is_refused_where_it_stands(case: Case) -> None:
    check_refused(case, whole(case.code))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if not case.remedy])
def test_arguments_of_the_decorator_are_refused(case: Case) -> None:
    with pytest.raises(pd.InvalidArgumentError) as caught:
        executed(case.code).mlir()
    assert case.message in str(caught.value)


def _in_a_program(kernel: Any) -> Any:
    def program(x: Annotated[np.ndarray, pd.i64["n"]]) -> Any:
        result = x.copy()
        kernel(result)
        return result

    return pd.program(program)


NARROW_ATOMICS = Case(
    "an atomic operation that a target lacks",
    'def k(x: pd.i64["n"]):\n    ⟦pd.atomic_add(x, pd.global_id(0), 1)⟧\n',
    "atomic 'addi' on i64 cannot be compiled into a kernel for this target",
    "atomic operations here are on 1 or 2 or 4 bytes",
)
SOURCES: dict[str, Callable[[Any], Any]] = {
    "a kernel": lambda k: k,
    "its text": lambda k: k.mlir(),
    "a program that calls it": _in_a_program,
    "both": lambda k: [k, _in_a_program(k)],
}


@pytest.mark.parametrize("source", SOURCES)
def test_code_generation_refuses_the_line_of_python(source: str) -> None:
    def compiled(kernel: Any) -> object:
        return pd.compile(SOURCES[source](kernel), targets="webgpu")

    check_refused(NARROW_ATOMICS, whole(NARROW_ATOMICS.code), compiled)


def test_edited_text_is_refused_where_it_stands() -> None:
    text = executed(whole(NARROW_ATOMICS.code.replace("⟦", "").replace("⟧", ""))).mlir() + "\n"
    with pytest.raises(pd.CompileError, match="atomic 'addi' on i64") as caught:
        pd.compile(text, targets="webgpu")
    location = caught.value.location
    assert location is not None and location.file == "<text>"
    assert location.text == text.splitlines()[location.line - 1] and "memref.atomic_rmw addi" in location.text


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
