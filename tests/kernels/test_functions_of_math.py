"""Functions of Python's math, and the remainder of floats, in kernels on every device and under plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from kernel_works import results

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
HAS_ROOTS = hasattr(math, "cbrt")  # also exp2: since Python 3.11
X = np.array([-7.5, -2, -0.25, 0.5, 3, 8, 1e3, 0.125], np.float32)
Z = np.array([2, -3, 0.5, -0.125, 7, 8, 0.75, -1e3], np.float32)
ENDS = np.array([math.nan, math.inf, -math.inf, 0, -0.0, 1, -3, 1e38], np.float32)


def angle(a: Any, b: Any) -> Any:
    return math.atan2(a, b)


def signed(a: Any, b: Any) -> Any:
    return math.copysign(a, b)


def truncated(a: Any, b: Any) -> Any:
    return math.fmod(a, b)


def remainder(a: Any, b: Any) -> Any:
    return a % b


def roots(a: Any, b: Any) -> Any:
    return math.cbrt(a) + math.exp2(b / 512)


def units(a: Any, b: Any) -> Any:
    return math.degrees(a) + math.radians(b)


def kinds(a: Any, b: Any) -> Any:
    found = 0.0
    if math.isnan(a):
        found += 1.0
    if math.isinf(a):
        found += 2.0
    if math.isfinite(a):
        found += 4.0
    return found


def of_known_numbers(a: Any, b: Any) -> Any:
    known = math.fmod(-7.0, 3) + math.degrees(2.0) + math.atan2(1, 2) + 7.5 % -2 + math.copysign(3, -0.0)
    return a + known if math.isfinite(2.0) and not math.isnan(1.0) else b


FUNCTIONS: list[tuple[Callable[[Any, Any], Any], np.ndarray, np.ndarray]] = [
    (angle, X, Z),
    (signed, ENDS, Z),
    (truncated, X, Z),
    (remainder, X, Z),
    (remainder, np.float32([0, -0.0, 4, -4, 3, -3, 5, -5]), np.float32([-2, 2, -2, 2, *[math.inf, -math.inf] * 2])),
    (units, X, Z),
    (kinds, ENDS, Z),
    (of_known_numbers, X, Z),
    *([(roots, X, Z)] if HAS_ROOTS else []),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x", "z"), FUNCTIONS, ids=lambda each: getattr(each, "__name__", ""))
def test_equals_python(function: Callable[[Any, Any], Any], x: np.ndarray, z: np.ndarray) -> None:
    @pd.kernel
    def kernel(x: Vector, z: Vector, y: Vector) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = function(x[i], z[i])

    expected = np.array([function(float(a), float(b)) for a, b in zip(x, z, strict=True)], np.float32)
    emulated = np.zeros_like(x)
    kernel.python(x, z, emulated)
    for name, found in {**results(kernel, x, z, np.zeros_like(x)), "python": emulated}.items():
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected), err_msg=name)


@pd.kernel(grid=1)
def of_tiles(x: Vector, z: Vector, y: Vector) -> None:
    a, b = x[0:8], z[0:8]
    y[0:8] = pd.where(math.isfinite(a), math.atan2(b, 2.0) + b % 0.75 + math.radians(b), 1.0)


def test_tiles() -> None:
    expected = np.where(np.isfinite(ENDS), np.arctan2(Z, np.float32(2)) + Z % np.float32(0.75) + np.radians(Z), 1)
    for name, found in results(of_tiles, ENDS, Z, np.zeros_like(X)).items():
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


def test_the_remainder_of_halves() -> None:
    @pd.kernel
    def kernel(x: Annotated[pd.View, pd.f16["n"]], y: Annotated[pd.View, pd.f16["n"]]) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = x[i] % -1.5

    x = X.astype(np.float16)
    for name, found in results(kernel, x, np.zeros_like(x)).items():
        np.testing.assert_array_equal(found, x % np.float16(-1.5), err_msg=name)
