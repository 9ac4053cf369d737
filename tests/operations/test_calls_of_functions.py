"""Functions that call functions: kernels, programs and ONNX functions, up to the limit of inlined calls."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import inlining

Vector = Annotated[pd.View, pd.f32["n"]]
Array = Annotated[np.ndarray, pd.f32["n"]]
REMEDY = "call it in a loop of the program, or pass on the result of one call"


def added(x: Any) -> Any:
    return x + 1.0


def twice(x: Any) -> Any:
    return added(added(x))


def four_times(x: Any) -> Any:
    return twice(twice(x))


def kernel(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = four_times(x[i])


@pd.program
def plus_one(x: Array) -> Any:
    return x + 1


@pd.program
def plus_two(x: Array) -> Any:
    return plus_one(plus_one(x))


def plus_four(x: Array) -> Any:
    return plus_two(plus_two(x))


@pytest.mark.parametrize(
    ("made", "function", "calls", "most"),
    [(pd.kernel(workgroup=32), kernel, 7, "added"), (pd.program, plus_four, 6, "plus_one")],
    ids=["kernel", "program"],
)
def test_limit(made: Any, function: Any, calls: int, most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MOST_INLINED_CALLS", calls)
    made(function).mlir()
    monkeypatch.setattr(inlining, "MOST_INLINED_CALLS", calls - 1)
    with pytest.raises(pd.CompileError, match=f"more than {calls - 1} calls of functions") as caught:
        made(function).mlir()
    assert f"'{most}' is called 4 times: {REMEDY}" in str(caught.value)
