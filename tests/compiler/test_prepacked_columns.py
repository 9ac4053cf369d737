"""Columns of products that lie far apart, or backwards: brought into their order once, not for each row of places."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.kernels.matmul.legality import MAX_REPEATED_PACKINGS


def first_channels(rows: int, stride: int) -> str:
    """A strided convolution with channels first, whose filter has its outputs first."""
    x, f, y = f"tensor<1x3x{stride * rows + 1}x81xf32>", "tensor<24x3x3x3xf32>", f"tensor<1x24x{rows}x40xf32>"
    return f"""
func.func @conv(%x: {x}, %f: {f}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.conv_2d_nchw_fchw {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %f : {x}, {f}) outs(%z : {y}) -> {y}
  return %r : {y}
}}
"""


@pytest.mark.parametrize(("rows", "dispatches"), [(MAX_REPEATED_PACKINGS, 1), (MAX_REPEATED_PACKINGS + 1, 2)])
def test_filters_with_outputs_first(rows: int, dispatches: int) -> None:
    function = pd.device("cpu").load(pd.compile(first_channels(rows, 2), targets="cpu", cpu="native")).conv
    rng = np.random.default_rng(rows)
    x, f = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 2 * rows + 1, 81), (24, 3, 3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_allclose(function(x, f), np.einsum("nchwij,ocij->nohw", windows, f), rtol=1e-4, atol=1e-4)
    assert len(function.plan_of(x, f)) == dispatches


def backwards(rows: int) -> str:
    """Rows times a matrix whose rows are read from the last to the first."""
    x, f, y = f"tensor<16x{rows}x16xf32>", "tensor<16x24xf32>", f"tensor<{rows}x16x24xf32>"
    return f"""
func.func @product(%x: {x}, %f: {f}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %n = tensor.empty() : {f}
  %t = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0 * -1 + 15, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}} ins(%f : {f}) outs(%n : {f}) {{
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
  }} -> {f}
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.generic {{indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>,
      affine_map<(b, m, n, k) -> (m, b, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %t : {x}, {f}) outs(%z : {y}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
  }} -> {y}
  return %r : {y}
}}
"""


@pytest.mark.parametrize(("rows", "dispatches"), [(MAX_REPEATED_PACKINGS, 1), (MAX_REPEATED_PACKINGS + 1, 2)])
def test_columns_that_are_copied_on_the_way(rows: int, dispatches: int) -> None:
    function = pd.device("cpu").load(pd.compile(backwards(rows), targets="cpu", cpu="native")).product
    rng = np.random.default_rng(rows)
    x, f = (rng.standard_normal(s).astype(np.float32) for s in ((16, rows, 16), (16, 24)))
    np.testing.assert_allclose(function(x, f), np.einsum("bmk,kn->mbn", x, f[::-1]), rtol=1e-4, atol=1e-5)
    assert len(function.plan_of(x, f)) == dispatches
