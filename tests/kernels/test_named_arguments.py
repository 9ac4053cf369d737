"""Calls of kernels with arguments by name, and what wrong names give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Number = Annotated[float, pd.f32]


@pd.kernel(workgroup=4)
def scaled(x: Vector, y: Vector, scale: Number, power: pd.static = 1) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * scale * power


@pd.kernel(workgroup=4)
def joined(views: Annotated[tuple[pd.View, ...], pd.f32["n"], 2], y: Vector) -> None:
    i = pd.global_id(0)
    if i < y.shape[0]:
        y[i] = views[0][i] - views[1][i]


@pd.kernel(workgroup=4, configs=[{"power": 2}, {"power": 2, "workgroup": 8}], key=["n"])
def tuned(x: Vector, y: Vector, scale: Number, power: pd.static = 1) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * scale * power


X = np.float32([1, 2, 3])


@pytest.mark.parametrize("call", [scaled, scaled[1], scaled.python, scaled.checked()])
def test_names(call: Callable[..., None]) -> None:
    for _ in range(2):  # the first call compiles
        y = np.zeros_like(X)
        call(X, y, scale=2.0)
        np.testing.assert_array_equal(y, [2, 4, 6])
        call(scale=3.0, y=y, x=X)
        np.testing.assert_array_equal(y, [3, 6, 9])


def test_a_tuple_of_views_is_one_argument() -> None:
    for call in (joined, joined[1], joined.python):
        y = np.zeros_like(X)
        call(y=y, views=(2 * X, X))
        np.testing.assert_array_equal(y, X)


def test_a_kernel_with_configurations() -> None:
    y = np.zeros_like(X)
    tuned(X, scale=2.0, y=y)
    np.testing.assert_array_equal(y, 4 * X)


def test_in_a_program() -> None:
    @pd.program
    def doubled(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        y = np.zeros_like(x)
        scaled(x, scale=2.0, y=y)
        return y

    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(doubled)).doubled(X), 2 * X)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((X, X), {"scal": 2.0}, r"unexpected keyword argument 'scal'; did you mean 'scale'\? the kernel takes \(x, "),
        ((X, X), {}, r"takes 3 arguments \(x, y, scale\), got 2"),
        ((X,), {"y": X}, r"missing argument 'scale'; the kernel takes \(x, y, scale\)"),
        ((), {"y": X}, r"missing arguments 'x', 'scale'; the kernel"),
        ((X, X, 1.0), {"x": X}, r"argument 'x' is given twice, by position and by name; the kernel takes"),
        ((X, X, 1.0, 2), {"scale": 1.0}, r"argument 'scale' is given twice"),
        ((X, X, 1.0), {"power": 2}, r"'power' is a static parameter; write scaled\.specialize\(power=\.\.\.\)"),
    ],
)
def test_wrong_names(args: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    for call in (scaled, scaled[1], scaled.python):
        with pytest.raises(pd.InvalidArgumentError, match=f"^kernel 'scaled'.*{message}"):
            call(*args, **named)
