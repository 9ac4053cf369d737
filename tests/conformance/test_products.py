"""Matrix products and convolutions on every backend, against NumPy.

Integers are exact. Floats get small whole numbers where every sum is exact too, so that any wrong element shows, and in
one test random ones with a tolerance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backends import Backend
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from products import KINDS, Array, convolution, generic, matmul, product, whole

import pydispatch as pd


@functools.lru_cache(maxsize=64)
def program(backend: Backend, text: str) -> Any:
    targets = "sm_80" if backend.name == "cuda" else backend.targets  # the first with every matrix unit that is used
    return backend.open().load(pd.compile(text, targets=targets))


def same(backend: Backend, text: str, expected: Array, *arguments: Array) -> None:
    got = np.asarray(program(backend, text).f(*arguments))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("element,sums", [("f32", "f32"), ("f64", "f64"), ("f16", "f32"), ("f16", "f16"), ("i8", "i32"),
                                          ("i8", "i8"), ("i16", "i16"), ("i32", "i32"), ("i64", "i64")])  # fmt: skip
@pytest.mark.parametrize("m,n,k", [(64, 64, 32), (33, 50, 21), (1, 64, 40), (64, 512, 32), (40, 10, 100), (9, 129, 1)])
def test_types(element: str, sums: str, m: int, n: int, k: int, backend: Backend) -> None:
    a, b = whole(1, (m, k), element), whole(2, (k, n), element)
    same(backend, matmul(m, n, k, element, sums), product(a, b, sums), a, b)


@pytest.mark.parametrize("element,sums,tolerance", [("f32", "f32", 3e-6), ("f64", "f64", 1e-14), ("f16", "f32", 3e-6),
                                                    ("f16", "f16", 1e-3)])  # fmt: skip
def test_random_floats(element: str, sums: str, tolerance: float, backend: Backend) -> None:
    """Tolerance: of the sum of the absolute products."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(KINDS[element]) for shape in ((40, 96), (96, 72)))
    got = np.asarray(program(backend, matmul(40, 72, 96, element, sums)).f(a, b)).astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    room = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(np.abs(got - exact) <= tolerance * room)


DYNAMIC = [(-1, 40, 24), (40, -1, 24), (40, 36, -1), (-1, -1, -1)]


@settings(max_examples=14, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(DYNAMIC), st.integers(1, 70), st.integers(1, 70), st.integers(0, 50),
    st.sampled_from([("f32", "f32"), ("f16", "f32"), ("i8", "i32")]),
)  # fmt: skip
def test_sizes_of_the_call(
    backend: Backend, sizes: tuple[int, int, int], m: int, n: int, k: int, types: tuple[str, str]
) -> None:
    m, n, k = (given if size < 0 else size for size, given in zip(sizes, (m, n, k), strict=True))
    a, b = whole(1, (m, k), types[0]), whole(2, (k, n), types[0])
    same(backend, matmul(*sizes, *types), product(a, b, types[1]), a, b)


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(8, 75), st.integers(8, 75), st.integers(4, 40),
    st.sampled_from([("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("i16", "i16")]),
)  # fmt: skip
def test_sizes_of_the_program(backend: Backend, m: int, n: int, k: int, types: tuple[str, str]) -> None:
    a, b = whole(4, (m, k), types[0], 3), whole(5, (k, n), types[0], 3)
    same(backend, matmul(m, n, k, *types), product(a, b, types[1]), a, b)


@pytest.mark.parametrize("rows", [1, 16, 17, 40])
@pytest.mark.parametrize("element,sums", [("f32", "f32"), ("f16", "f32")])
def test_few_rows_and_many(rows: int, element: str, sums: str, backend: Backend) -> None:
    a, b = whole(1, (rows, 48), element), whole(2, (48, 300), element)
    same(backend, matmul(-1, 300, 48, element, sums), product(a, b, sums), a, b)


@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize("left", ["(m, k)", "(k, m)"])
@pytest.mark.parametrize("right", ["(k, n)", "(n, k)"])
@pytest.mark.parametrize("out", ["(m, n)", "(n, m)"])
def test_transposed(left: str, right: str, out: str, element: str, backend: Backend) -> None:
    m, n, k = 48, 40, 24
    sizes = {"m": m, "n": n, "k": k}
    maps = (left, right, out)
    shapes = tuple(tuple(sizes[d] for d in each.strip("()").split(", ")) for each in maps)
    a, b, c = (whole(i, shape, element) for i, shape in enumerate(shapes))
    expected = (a if left == "(m, k)" else a.T).astype(np.float64) @ (b if right == "(k, n)" else b.T)
    total = (c + (expected if out == "(m, n)" else expected.T)).astype(c.dtype)
    same(backend, generic(maps, shapes, element), total, a, b, c)


def test_batches(backend: Backend) -> None:
    a, b, c = whole(1, (3, 40, 24), "f32"), whole(2, (3, 24, 36), "f32"), whole(3, (3, 40, 36), "f32")
    text = generic(("(b, m, k)", "(b, k, n)", "(b, m, n)"), (a.shape, b.shape, c.shape))
    same(backend, text, c + a @ b, a, b, c)
    open_ = generic(("(b, m, k)", "(b, k, n)", "(b, m, n)"), ((-1, -1, -1),) * 3)
    same(backend, open_, c + a @ b, a, b, c)


def test_batches_of_one_side_are_rows(backend: Backend) -> None:
    a, b, c = whole(1, (3, 10, 24), "f32"), whole(2, (24, 36), "f32"), whole(3, (3, 10, 36), "f32")
    same(backend, generic(("(b, m, k)", "(k, n)", "(b, m, n)"), (a.shape, b.shape, c.shape)), c + a @ b, a, b, c)


TAIL = """%v = arith.constant dense<2.0> : tensor<36xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%c, %v : tensor<40x36xf32>, tensor<36xf32>) outs(%e : tensor<40x36xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %t = arith.addf %x, %y : f32
    %u = arith.maximumf %t, %zero : f32
    linalg.yield %u : f32
  } -> tensor<40x36xf32>"""


def test_what_follows_is_computed_from_registers(backend: Backend) -> None:
    a, b = whole(1, (40, 24), "f32"), whole(2, (24, 36), "f32")
    text = matmul(40, 36, 24, tail=TAIL)
    same(backend, text, np.maximum(a @ b + 2, 0), a, b)


def windows(x: Array, w: Array, stride: int) -> Array:
    """NHWC by HWCF."""
    height, width = (x.shape[d] - w.shape[d - 1] + 1 for d in (1, 2))
    total = np.zeros((x.shape[0], height, width, w.shape[3]), np.float32)
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            total += np.einsum("bhwc,cf->bhwf", x[:, i : i + height, j : j + width], w[i, j])
    return total[:, ::stride, ::stride]


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("stride,pad", [(1, 0), (2, 0), (1, 1)])
def test_convolutions(channels: int, stride: int, pad: int, backend: Backend) -> None:
    x, w = whole(1, (2, 9, 8, channels), "f32"), whole(2, (3, 3, channels, 16), "f32")
    expected = windows(np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))), w, stride)
    text = convolution("conv_2d_nhwc_hwcf", x.shape, w.shape, expected.shape, stride, pad)
    same(backend, text, expected, x, w)
    turned = expected.transpose(0, 3, 1, 2)
    text = convolution(
        "conv_2d_nchw_fchw", x.transpose(0, 3, 1, 2).shape, (16, channels, 3, 3), turned.shape, stride, pad
    )
    same(backend, text, turned.copy(), x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy())


@pytest.mark.parametrize("make", [lambda: matmul(40, 72, 33), lambda: matmul(-1, -1, -1, "f16")])
def test_bits_are_the_same_again(make: Callable[[], str], backend: Backend) -> None:
    text = make()
    rng = np.random.default_rng(7)
    element = np.float16 if "f16" in text else np.float32
    a, b = rng.standard_normal((40, 33)).astype(element), rng.standard_normal((33, 72)).astype(element)
    first, second = (np.asarray(program(backend, text).f(a, b)).tobytes() for _ in range(2))
    assert first == second


def test_zeros_keep_their_sign(backend: Backend) -> None:
    """Steps that are only there to fill a tile add nothing, not even to -0."""
    a, b = np.zeros((16, 5), np.float32), np.full((5, 32), -1, np.float32)
    c = np.full((16, 32), -0.0, np.float32)
    got = np.asarray(program(backend, generic(("(m, k)", "(k, n)", "(m, n)"), (a.shape, b.shape, c.shape))).f(a, b, c))
    assert np.all(np.signbit(got)) and not got.any()
