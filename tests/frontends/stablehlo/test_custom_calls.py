"""Custom calls whose targets have a meaning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pydispatch as pd


def test_calls_that_stand_for_operations(run: Any) -> None:
    """As portable artifacts carry what only CHLO has."""
    text = """func.func @main(%x: tensor<2x5xf32>)
        -> (tensor<2x5xf32>, tensor<2x2xf32>, tensor<2x2xi32>, tensor<2x2xf32>) {
      %0 = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64}
        : (tensor<2x5xf32>) -> tensor<2x5xf32>
      %1:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}}
        : (tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
      %2:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = false}}
        : (tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
      return %0, %1#0, %1#1, %2#0 : tensor<2x5xf32>, tensor<2x2xf32>, tensor<2x2xi32>, tensor<2x2xf32>
    }"""
    x = np.array([[0.5, -2, 1, 0.25, 3], [-1, 0, 2, -0.5, 1]], np.float32)
    erf, values, places, least = run(text, x)
    np.testing.assert_allclose(erf, np.vectorize(math.erf)(x), 1e-6)
    np.testing.assert_array_equal(places, np.argsort(-x)[:, :2])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))
    np.testing.assert_array_equal(least, np.sort(x)[:, :2])


APPROXIMATE_TOP_K = """
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {{
  %c = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %c : tensor<i1>
}}
func.func @main(%x: tensor<7x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {{
  %i = stablehlo.iota dim = 0 : tensor<7x3xi32>
  %none = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %nowhere = stablehlo.constant dense<-1> : tensor<i32>
  %r:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %none, %nowhere) {{called_computations = [@{function}],
      mhlo.backend_config = {{recall_target = 0.95 : f32, reduction_dim = {axis} : i64, top_k = 2 : i64}}}}
      : (tensor<7x3xf32>, tensor<7x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return %r#0, %r#1 : tensor<2x3xf32>, tensor<2x3xi32>
}}"""


def test_an_approximate_top_k_is_the_exact_one(run: Any) -> None:
    x = np.random.default_rng(1).permutation(21).reshape(7, 3).astype(np.float32)
    values, positions = run(APPROXIMATE_TOP_K.format(function="greater", axis=0), x)
    np.testing.assert_array_equal(positions, np.argsort(-x, 0)[:2])
    np.testing.assert_array_equal(values, -np.sort(-x, 0)[:2])


@pytest.mark.parametrize(("function", "axis", "message"), [
    ("missing", 0, "'ApproxTopK' takes tensors and their first values, and names a function and reduction_dim"),
    ("greater", 2, "reduction_dim"),
])  # fmt: skip
def test_an_approximate_top_k_that_is_wrong(function: str, axis: int, message: str) -> None:
    with pytest.raises(pd.CompileError, match=message):
        pd.compile(APPROXIMATE_TOP_K.format(function=function, axis=axis))


@pytest.mark.parametrize("letter", ["L", "U"])
def test_a_cholesky_factor_of_lapack_leaves_the_other_triangle(run: Any, letter: str) -> None:
    x = np.random.default_rng(2).normal(size=(4, 4)).astype(np.float32)
    x = x @ x.T + 4 * np.eye(4, dtype=np.float32)
    x[np.triu_indices(4, 1) if letter == "L" else np.tril_indices(4, -1)] = 7
    factor, failed = run(f"""func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>) {{
      %r:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {{mhlo.backend_config = {{uplo = {ord(letter)} : ui8}}}}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
      return %r#0, %r#1 : tensor<4x4xf32>, tensor<i32>
    }}""", x)  # fmt: skip
    half = np.tril if letter == "L" else np.triu
    symmetric = half(x) + half(x, -1 if letter == "L" else 1).T
    lower = np.linalg.cholesky(symmetric.astype(np.float64))
    np.testing.assert_allclose(half(factor), lower if letter == "L" else lower.T, atol=1e-5)
    np.testing.assert_array_equal(factor - half(factor), x - half(x))
    assert failed == 0


def test_operands_that_state_sizes_of_results_are_not_used(run: Any) -> None:
    """JAX passes the shapes of dynamic results of LAPACK's calls as further operands."""
    text = """func.func @main(%a: tensor<?x?xf32>, %y: tensor<?x2xf32>, %shape: tensor<2xi32>) -> tensor<?x2xf32> {
      %x = stablehlo.custom_call @lapack_strsm_ffi(%a, %y, %shape) {
          indices_of_shape_operands = dense<2> : tensor<1xi64>,
          mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}}
        : (tensor<?x?xf32>, tensor<?x2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
      return %x : tensor<?x2xf32>
    }"""
    a = np.tril(np.random.default_rng(3).uniform(1, 2, (3, 3))).astype(np.float32)
    y = np.arange(6, dtype=np.float32).reshape(3, 2)
    (x,) = run(text, a, y, np.array([3, 2], np.int32))
    np.testing.assert_allclose(a @ x, y, atol=1e-5)
    with pytest.raises(pd.InvalidArgumentError, match=r"a triangular system .*: 4 equations, and the order is 3"):
        run(text, a, np.ones((4, 2), np.float32), np.array([4, 2], np.int32))
