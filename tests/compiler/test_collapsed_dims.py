"""Convolutions of one place: products over all places of an image, with what follows them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd


def program(n: int, h: int, w: int, c: int, co: int, first: bool) -> str:
    """A convolution of one place with a bias, a clamp and another image added. first: channels before places."""
    x, y = (f"{n}x{k}x{h}x{w}" if first else f"{n}x{h}x{w}x{k}" for k in (c, co))
    f, op = (f"{co}x{c}x1x1", "nchw_fchw") if first else (f"1x1x{c}x{co}", "nhwc_hwcf")
    bias = "(a, b, c, d) -> (b)" if first else "(a, b, c, d) -> (d)"
    whole = "affine_map<(a, b, c, d) -> (a, b, c, d)>"
    return f"""
func.func @conv(%x: tensor<{x}xf32>, %f: tensor<{f}xf32>, %bias: tensor<{co}xf32>, %more: tensor<{y}xf32>)
    -> tensor<{y}xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{y}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{y}xf32>) -> tensor<{y}xf32>
  %r = linalg.conv_2d_{op} {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %f : tensor<{x}xf32>, tensor<{f}xf32>) outs(%z : tensor<{y}xf32>) -> tensor<{y}xf32>
  %s = linalg.generic {{indexing_maps = [{whole}, affine_map<{bias}>, {whole}, {whole}],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%r, %bias, %more : tensor<{y}xf32>, tensor<{co}xf32>, tensor<{y}xf32>) outs(%e : tensor<{y}xf32>) {{
    ^bb0(%a: f32, %o: f32, %m: f32, %old: f32):
      %sum = arith.addf %a, %o : f32
      %top = arith.maximumf %sum, %zero : f32
      %all = arith.addf %top, %m : f32
      linalg.yield %all : f32
  }} -> tensor<{y}xf32>
  return %s : tensor<{y}xf32>
}}
"""


def check(n: int, h: int, w: int, c: int, co: int, first: bool) -> list[str]:
    """The commands of a call whose results are right, with the same bits for every number of workers."""
    rng = np.random.default_rng(h * 100 + w)
    x, f, bias = (rng.standard_normal(s, dtype=np.float32) for s in ((n, h, w, c), (c, co), (co,)))
    more = rng.standard_normal((n, h, w, co), dtype=np.float32)
    expected = np.maximum(x.astype(np.float64) @ f + bias, 0) + more
    arguments = [x, f[None, None], bias, more]
    if first:
        x, more, expected = (np.moveaxis(a, 3, 1).copy() for a in (x, more, expected))
        arguments = [x, f.T[:, :, None, None].copy(), bias, more]
    artifact = pd.compile(program(n, h, w, c, co, first), targets="cpu", cpu="native")
    functions = [pd.device(f"cpu?workers={workers}").load(artifact).conv for workers in (1, 2, 3)]
    results = [np.asarray(function(*arguments)) for function in functions]
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-4)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    return functions[0].plan_of(*arguments)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40), st.integers(1, 40), st.booleans()
)  # fmt: skip
def test_values(n: int, h: int, w: int, c: int, co: int, first: bool) -> None:
    check(n, h, w, c, co, first)


@pytest.mark.parametrize("first", [False, True])
def test_one_dispatch(first: bool) -> None:
    """What follows the convolution is computed where its result is."""
    assert len(check(1, 7, 7, 64, 96, first)) == 1
