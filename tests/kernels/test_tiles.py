"""Kernels whose values are tiles, compared with NumPy on every device."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_works import check

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Matrix = Annotated[pd.View, pd.f32["m", "n"]]
Cube = Annotated[pd.View, pd.f32["k", "m", "n"]]
F32, I32 = Annotated[float, pd.f32], Annotated[int, pd.i32]
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


def close(a: Any, b: Any, err_msg: str = "") -> None:
    np.testing.assert_allclose(a, b, err_msg=err_msg, **CLOSE)


@pd.kernel(grid=lambda a, x, y: pd.cdiv(x.shape[0], 128))
def saxpy(a: F32, x: Vector, y: Vector) -> None:
    i = pd.group_id(0) * 128
    y[i : i + 128] = a * x[i : i + 128] + y[i : i + 128]


@pd.kernel(grid=lambda x, y: pd.cdiv(x.shape[0], 4))
def softmax(x: Matrix, y: Matrix) -> None:
    i = pd.group_id(0) * 4
    rows = pd.load(x[i : i + 4, 0:128], -math.inf)
    powers = pd.exp(rows - pd.max(rows, axis=1, keepdims=True))
    y[i : i + 4, 0:128] = powers / pd.sum(powers, axis=1)[:, None]


def softmax_of(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def random(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pd.kernel(grid=lambda x, y: pd.cdiv(x.shape[0], 8))
def double(x: Vector, y: Vector) -> None:
    i = pd.group_id(0) * 8
    y[i : i + 8] = pd.load(x[i : i + 8]) + pd.load(part=x[i : i + 8], other=1.0)


def test_load_has_zero_outside_by_default() -> None:
    x = random(21)
    check(double, (x, np.zeros_like(x)), x + x, close)


def test_saxpy_on_devices() -> None:
    x, y = random(2, 300)
    check(saxpy, (2.0, x, y), 2 * x + y, close)


def test_softmax_on_devices() -> None:
    x = random(7, 100)
    check(softmax, (x, np.zeros_like(x)), softmax_of(x), close)


@given(st.integers(0, 500), st.floats(-4, 4, width=32), st.integers(0, 2**32 - 1))
def test_saxpy(n: int, a: float, seed: int) -> None:
    x, y = random(2, n, seed=seed)
    expected = np.float32(a) * x + y
    saxpy(a, x, y)
    close(y, expected)


@given(st.integers(1, 20), st.integers(1, 128), st.integers(0, 2**32 - 1))
def test_softmax(rows: int, columns: int, seed: int) -> None:
    x = random(rows, columns, seed=seed) * 8
    y = np.full_like(x, np.nan)
    softmax(x, y)
    close(y, softmax_of(x))


@pd.kernel(grid=lambda x, y: x.shape[0])
def online_softmax(x: Matrix, y: Matrix) -> None:
    """Rows of any length, in tiles of 32: variables that a loop changes."""
    i = pd.group_id(0)
    top, total = pd.full(32, -math.inf, pd.f32), pd.zeros(32, pd.f32)
    for j in range(0, x.shape[1], 32):
        part = pd.load(x[i, j : j + 32], -math.inf)
        before = top
        top = pd.maximum(top, part)
        is_known = top > -math.inf
        total = pd.where(is_known, total * pd.exp(before - top) + pd.exp(part - top), 0.0)
    most = pd.max(top)
    whole = pd.sum(pd.where(total > 0, total * pd.exp(top - most), 0.0))
    for j in range(0, x.shape[1], 32):
        y[i, j : j + 32] = pd.exp(x[i, j : j + 32] - most) / whole


def test_variables_of_loops() -> None:
    x = random(3, 75) * 4
    check(online_softmax, (x, np.zeros_like(x)), softmax_of(x), close)


@pd.kernel(grid=1)
def shapes(x: Annotated[pd.View, pd.f32[4, 6]], y: Annotated[pd.View, pd.f32[6, 6]], flag: I32) -> None:
    t = x[:, :]
    both = t.T - pd.sum(t, axis=0)[:, None]
    if flag > 0:
        both = both * 2
        t = t + 1
    else:
        both = -both
    low = pd.min(t, axis=-1)
    y[:, 0:4] = pd.where(pd.arange(6)[:, None] < 3, both, low)
    y[:, 4] = 7.0
    y[0:6, 5:6] = pd.f32(pd.arange(6)[:, None]) + pd.max(t)


@pytest.mark.parametrize("flag", [0, 1])
def test_axes_conditions_and_broadcasting(flag: int) -> None:
    x = random(4, 6)
    both = x.T - x.sum(0)[:, None]
    t = x + flag
    both = both * 2 if flag else -both
    expected = np.empty((6, 6), np.float32)
    expected[:, :4] = np.where(np.arange(6)[:, None] < 3, both, t.min(-1))
    expected[:, 4] = 7
    expected[:, 5] = np.arange(6) + t.max()
    check(shapes, (x, np.zeros((6, 6), np.float32), flag), expected, close)


@pd.kernel(grid=1)
def neighbours(x: Vector, y: Vector) -> None:
    """In place, where elements are read at other places, and from before the first one on."""
    y[0:64] = y[0:64] + y[1:65]
    i = pd.group_id(0) - 1
    y[0:64] += pd.load(x[i : i + 64], 100.0)


def test_slices_that_overlap() -> None:
    x, y = np.arange(10, dtype=np.float32), np.arange(10, dtype=np.float32)
    expected = y + np.append(y[1:], 0) + np.append(100, x[:-1])
    check(neighbours, (x, y), expected)


@pd.kernel(grid=1)
def planes(x: Cube) -> None:
    """Slices that begin at one element, along other dimensions."""
    i = pd.group_id(0)
    x[i : i + 4, i : i + 4, i] = x[i, i : i + 4, i : i + 4]


def test_slices_of_other_dimensions_that_overlap() -> None:
    x = random(4, 4, 4)
    expected = x.copy()
    expected[:, :, 0] = x[0]
    check(planes, (x,), expected)


def halved(t: Any) -> Any:
    t = t * 0.5
    return t + 0


@pd.kernel(grid=1)
def calls(x: Vector, y: Vector, n: I32) -> None:
    t, other, i = x[0:8], pd.zeros(8, pd.f32), 0
    while i < n:
        half = halved(t)
        t, other = half + other + 1, t
        i += 1
    y[0:8] = t


def test_functions_and_while() -> None:
    x = random(8)
    expected, other = x, np.zeros_like(x)
    for _ in range(3):
        expected, other = expected * 0.5 + other + 1, expected
    check(calls, (x, np.zeros_like(x), 3), expected, close)


@pd.kernel
def doubled(x: Annotated[pd.View, pd.f32["m", "n", "k"]], y: Annotated[pd.View, pd.f32["m", "n", "k"]]) -> None:
    """The grid covers what is written: axis 0 along the last dimension."""
    k, j, i = pd.group_id(0) * 16, pd.group_id(1) * 4, pd.group_id(2)
    y[i, j : j + 4, k : k + 16] = 2 * x[i, j : j + 4, k : k + 16]


def test_the_grid_of_what_is_written() -> None:
    x = random(3, 9, 50)
    check(doubled, (x, np.zeros_like(x)), 2 * x)


def part_of(x: Any, i: int) -> Any:
    return x[i : i + 8], 1.0


@pd.kernel(grid=1)
def in_order(x: Vector, y: Vector) -> None:
    """Values are those at the time of their statement, whatever is stored later."""
    before = y[0:8]
    y[3] += 100.0
    y[0:8] = shifted = y[1:9] * 2
    total = pd.sum(part_of(x, 0)[0])
    while pd.sum(shifted) > total:
        shifted = shifted * 0.5
    y[8:16] = before + shifted


def test_stores_in_order() -> None:
    y = np.arange(16, dtype=np.float32)
    x = np.where(y < 8, y, 0)
    shifted = np.array([1, 2, 103, 4, 5, 6, 7, 8], np.float32) * 2
    expected = np.concatenate([shifted, np.zeros(8)]).astype(np.float32)
    while shifted.sum() > x.sum():
        shifted = shifted * 0.5
    expected[8:] = np.arange(8) + shifted
    check(in_order, (x, y), expected)


def copied(x: Any, y: Any) -> None:
    y[0:8] = x[8:16]


copied.__module__ = "pydispatch_of_users"  # a package whose name only begins as that of a library


@pd.kernel(grid=1)
def in_functions(x: Vector, y: Vector) -> None:
    copied(x, y)


def test_tiles_of_functions_alone() -> None:
    x = random(20)
    check(in_functions, (x, np.zeros(20, np.float32)), np.concatenate([x[8:16], np.zeros(12, np.float32)]))
