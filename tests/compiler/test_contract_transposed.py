"""Products whose rows are neighbours in the result: blocks are transposed in registers before the epilogue."""

from __future__ import annotations

import machine_levels
import numpy as np
import pytest

import pydispatch as pd


def program(m: str, k: int, n: int) -> str:
    """The transposed product with a bias for each column and a clamp."""
    x, y = f"tensor<{m}x{k}xf32>", f"tensor<{n}x{m}xf32>"
    size = "" if m != "?" else "%c0 = arith.constant 0 : index\n  %m = tensor.dim %x, %c0 : tensor<?x" + f"{k}xf32>"
    dim = "%m" if m == "?" else ""
    return f"""
func.func @product(%x: {x}, %w: tensor<{k}x{n}xf32>, %bias: tensor<{n}xf32>) -> {y} {{
  {size}
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty({dim}) : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (n, m)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : {x}, tensor<{k}x{n}xf32>) outs(%z : {y}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
  }} -> {y}
  %t = linalg.generic {{indexing_maps = [affine_map<(n, m) -> (n, m)>, affine_map<(n, m) -> (n)>,
      affine_map<(n, m) -> (n, m)>], iterator_types = ["parallel", "parallel"]}}
      ins(%r, %bias : {y}, tensor<{n}xf32>) outs(%e : {y}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %c = arith.maximumf %s, %zero : f32
      linalg.yield %c : f32
  }} -> {y}
  return %t : {y}
}}
"""


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 7, 64), (13, 7, 32), (14, 9, 48), (30, 7, 33), (113, 21, 64), (29, 5000, 128), (17, 40, 8)]
)
@pytest.mark.parametrize("known", [True, False])
def test_values(m: int, k: int, n: int, known: bool, cpu: str) -> None:
    artifact = pd.compile(program(str(m) if known else "?", k, n), targets="cpu", cpu=cpu)
    function = pd.device("cpu").load(artifact).product
    rng = np.random.default_rng(m)
    x, w, bias = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n), (n,)))
    np.testing.assert_array_equal(function(x, w, bias), np.maximum(x @ w + bias, 0).T)
