"""Views, fills and runs of tensors in host code, against NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd


def load(text: str) -> Any:
    return pd.device("local-sync").load(pd.compile(text))


@cache
def loaded(text: str) -> Any:
    """Compile and load a program when its first test runs, not while tests are collected."""
    return load(text)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


SLICES = """
func.func @take(%a: tensor<?x?xf32>, %i: index, %n: index) -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c1 : tensor<?x?xf32>
  %s = tensor.extract_slice %a[%i, 0] [%n, %m] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
func.func @take_and_add(%a: tensor<?x?xf32>, %i: index, %n: index) -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c1 : tensor<?x?xf32>
  %s = tensor.extract_slice %a[%i, 0] [%n, %m] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  %b = util.optimization_barrier %s : tensor<?x?xf32>
  %r = arith.addf %b, %b : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @put(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %i: index) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %b, %c0 : tensor<?x?xf32>
  %m = tensor.dim %a, %c1 : tensor<?x?xf32>
  %r = tensor.insert_slice %b into %a[%i, 0] [%n, %m] [1, 1] : tensor<?x?xf32> into tensor<?x?xf32>
  return %r, %a : tensor<?x?xf32>, tensor<?x?xf32>
}
"""

SIZES = st.integers(0, 7)


@settings(deadline=None, max_examples=40)
@given(rows=SIZES, columns=SIZES, first=SIZES, count=SIZES)
def test_rows_of_a_matrix(rows: int, columns: int, first: int, count: int) -> None:
    a = numbers(rows, columns)
    if first + count > rows:
        with pytest.raises(pd.Error, match="outside"):
            loaded(SLICES).take(a, first, count)
        return
    np.testing.assert_array_equal(loaded(SLICES).take(a, first, count), a[first : first + count])
    np.testing.assert_array_equal(loaded(SLICES).take_and_add(a, first, count), 2 * a[first : first + count])
    b = numbers(count, columns, seed=1)
    expected = a.copy()
    expected[first : first + count] = b
    given_back = a.copy()
    put, same = loaded(SLICES).put(given_back, b, first)
    np.testing.assert_array_equal(put, expected)
    np.testing.assert_array_equal(same, a)
    np.testing.assert_array_equal(given_back, a)


RESHAPES = """
func.func @collapse(%a: tensor<?x3x?xf32>) -> tensor<?x?xf32> {
  %r = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x3x?xf32> into tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @expand(%a: tensor<?x4xf32>, %n: index) -> tensor<?x3x2x2xf32> {
  %r = tensor.expand_shape %a [[0, 1], [2, 3]] output_shape [%n, 3, 2, 2] : tensor<?x4xf32> into tensor<?x3x2x2xf32>
  return %r : tensor<?x3x2x2xf32>
}
func.func @flow(%a: tensor<?x?xf32>, %n: index, %m: index, %k: index) -> tensor<?xf32> {
  %r = flow.tensor.reshape %a : tensor<?x?xf32>{%n, %m} -> tensor<?xf32>{%k}
  return %r : tensor<?xf32>
}
func.func @bits(%a: tensor<?xf32>) -> tensor<?xi32> {
  %r = tensor.bitcast %a : tensor<?xf32> to tensor<?xi32>
  return %r : tensor<?xi32>
}
func.func @cast(%a: tensor<?x?xf32>) -> tensor<2x?xf32> {
  %r = tensor.cast %a : tensor<?x?xf32> to tensor<2x?xf32>
  return %r : tensor<2x?xf32>
}
"""


@settings(deadline=None, max_examples=30)
@given(n=SIZES, m=SIZES)
def test_reshapes(n: int, m: int) -> None:
    a = numbers(n, 3, m)
    np.testing.assert_array_equal(loaded(RESHAPES).collapse(a), a.reshape(3 * n, m))
    b = numbers(3 * n, 4)
    np.testing.assert_array_equal(loaded(RESHAPES).expand(b, n), b.reshape(n, 3, 2, 2))
    c = numbers(n, m)
    np.testing.assert_array_equal(loaded(RESHAPES).flow(c, n, m, n * m), c.reshape(-1))
    np.testing.assert_array_equal(loaded(RESHAPES).bits(c.reshape(-1)), c.reshape(-1).view(np.int32))
    if n == 2:
        np.testing.assert_array_equal(loaded(RESHAPES).cast(c), c)
    else:
        with pytest.raises(pd.Error, match="axis 0 of a cast"):
            loaded(RESHAPES).cast(c)


def test_reshapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(pd.Error, match=r"bytes of 'flow.tensor.reshape'"):
        loaded(RESHAPES).flow(numbers(2, 3), 2, 3, 5)
    with pytest.raises(pd.Error, match=r"axis 0 of the operand of 'tensor.expand_shape'"):
        loaded(RESHAPES).expand(numbers(4, 4), 1)


FILLS = [
    ("i1", "true", np.bool_, True), ("i8", "-3 : i8", np.int8, -3), ("i16", "300 : i16", np.int16, 300),
    ("i32", "-70000 : i32", np.int32, -70000), ("i64", "9000000000 : i64", np.int64, 9000000000),
    ("f16", "1.5 : f16", np.float16, 1.5), ("f32", "-2.25 : f32", np.float32, -2.25),
    ("f64", "0.1 : f64", np.float64, 0.1),
]  # fmt: skip


@pytest.mark.parametrize(("type", "value", "dtype", "number"), FILLS, ids=[f[0] for f in FILLS])
@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_splats(type: str, value: str, dtype: Any, number: Any, size: int) -> None:
    program = load(f"""
func.func @given(%n: index) -> tensor<?x3x{type}> {{
  %v = arith.constant {value}
  %r = tensor.splat %v[%n] : tensor<?x3x{type}>
  return %r : tensor<?x3x{type}>
}}
func.func @passed(%v: {type}, %n: index) -> tensor<?x{type}> {{
  %r = tensor.splat %v[%n] : tensor<?x{type}>
  return %r : tensor<?x{type}>
}}""")
    np.testing.assert_array_equal(program.given(size), np.full((size, 3), number, dtype))
    np.testing.assert_array_equal(program.passed(number, size), np.full(size, number, dtype))


@pytest.mark.parametrize("size", [1, 8, 5000])
def test_constants_of_one_value_large_and_small(size: int) -> None:
    program = load(f"""
func.func @f() -> (tensor<{size}xf32>, tensor<{size}xi1>) {{
  %a = arith.constant dense<1.5> : tensor<{size}xf32>
  %b = arith.constant dense<true> : tensor<{size}xi1>
  return %a, %b : tensor<{size}xf32>, tensor<{size}xi1>
}}""")
    a, b = program.f()
    np.testing.assert_array_equal(a, np.full(size, 1.5, np.float32))
    np.testing.assert_array_equal(b, np.ones(size, np.bool_))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%r = tensor.extract_slice %a[0, 1] [2, 2] [1, 1] : tensor<4x4xf32> to tensor<2x2xf32>\n"
         "%b = util.optimization_barrier %r : tensor<2x2xf32>", None),
        ("%r = memref.alloc() : memref<4xf32>", "'memref.alloc' is not supported in host code"),
    ],
)  # fmt: skip
def test_what_host_code_cannot_do_names_the_place(body: str, message: str | None) -> None:
    text = f"func.func @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {{\n{body}\nreturn %a : tensor<4x4xf32>\n}}"
    if message is None:  # A slice that is no run of memory becomes a dispatch.
        load(text)
        return
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(text)
    assert message in str(caught.value) and caught.value.location is not None
