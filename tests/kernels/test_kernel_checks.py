"""What kernels state, and indices outside of views, are found when they run, with the line of Python."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Matrix = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel
def roots(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        assert x[i] >= 0.0, "a root of a negative number"
        assert x[i] < 100.0
        y[i] = math_sqrt(x[i])


def math_sqrt(a: Any) -> Any:
    assert a != 50.0
    return pd.sqrt(a)


@pd.kernel(grid=2)
def shifted(x: Vector, y: Vector, by: Annotated[int, pd.i32]) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i + by]


@pd.kernel(workgroup=8, grid=1)
def columns(x: Matrix, y: Matrix, column: Annotated[int, pd.i32]) -> None:
    row = pd.local_id(0)
    if row < x.shape[0]:
        y[row, column] += x[row, 0]


def line_of(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (number,) = (n for n, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + number}:{lines[number].index(text) + 1}: "


@pytest.mark.parametrize(
    ("value", "at", "function", "text"),
    [
        (-1.0, 'assert x[i] >= 0.0', roots.__wrapped__, "a root of a negative number"),
        (200.0, "assert x[i] < 100.0", roots.__wrapped__, "x[i] < 100.0"),
        (50.0, "assert a != 50.0", math_sqrt, "a != 50.0"),
    ],
    ids=["with a message", "without", "in a helper"],
)
def test_an_assert_names_its_line(value: float, at: str, function: Any, text: str) -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    roots(x, y)
    assert y.all()
    x[70] = value
    with pytest.raises(pd.KernelError) as caught:
        roots(x, y)
    assert str(caught.value) == f"{line_of(function, at)}{text}, in workgroup (1, 0, 0) of 'roots'"
    assert caught.value.workgroup == (1, 0, 0)
    with pytest.raises(pd.KernelError) as caught:
        roots[2](x, y)
    assert text in str(caught.value)


@pytest.mark.parametrize(("by", "workgroups"), [(1, "1"), (-1, "0"), (1 << 30, "01")], ids=["behind", "before", "far"])
def test_an_index_outside_is_found(by: int, workgroups: str) -> None:
    """workgroups: those that have such an index, of which any is named."""
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    checked = shifted.checked()
    checked(x, y, 0)
    assert y.all()
    with pytest.raises(pd.KernelError) as caught:
        checked(x, y, by)
    begin = line_of(shifted.__wrapped__, "i + by")
    what = f"{begin}the index i + by is outside of dimension 0, in workgroup"
    assert str(caught.value) in [f"{what} ({number}, 0, 0) of 'shifted'" for number in workgroups]


def test_the_dimension_is_named() -> None:
    x, y = np.ones((4, 5), np.float32), np.zeros((4, 5), np.float32)
    checked = columns.checked()
    checked(x, y, 4)
    np.testing.assert_array_equal(y[:, 4], np.ones(4))
    with pytest.raises(pd.KernelError, match="the index column is outside of dimension 1"):
        checked(x, y, 5)


def test_plain_kernels_compare_no_indices() -> None:
    assert "cf.assert" not in columns.mlir().partition("func.func @columns(%a_x")[0]
    assert columns.checked().mlir().count("pyd.code") == 4  # two of y, which is found once, and two of x


def test_a_device_checks() -> None:
    device = pd.device("cpu?checks=1&workers=1")
    assert device.name == "cpu?workers=1&checks=1"
    x, y = device.upload(np.ones(100, np.float32)), device.upload(np.zeros(100, np.float32))
    shifted(x, y, 0)
    assert np.asarray(y).all()
    with pytest.raises(pd.KernelError, match="the index i \\+ by is outside of dimension 0"):
        shifted(x, y, 1)
