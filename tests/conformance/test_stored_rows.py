"""Values that a row stores for its later loops, read at another row: the stored row is not that one."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend

ROWS = 3
PROGRAM = """
func.func @f(%x: tensor<3x7xf32>) -> (tensor<3x7xf32>, tensor<3xf32>) {{
  %e = tensor.empty() : tensor<3x7xf32>
  %f = tensor.empty() : tensor<3xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<3xf32>) -> tensor<3xf32>
  %y = math.tanh %x : tensor<3x7xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      outs(%e : tensor<3x7xf32>) {{
  ^bb0(%o: f32):
    %c2 = arith.constant 2 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %other = {row}
    %v = tensor.extract %y[%other, %j] : tensor<3x7xf32>
    linalg.yield %v : f32
  }} -> tensor<3x7xf32>
  %sum = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}} ins(%y : tensor<3x7xf32>) outs(%z : tensor<3xf32>) {{
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  }} -> tensor<3xf32>
  %squares = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
      affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}}
      ins(%y, %sum : tensor<3x7xf32>, tensor<3xf32>) outs(%z : tensor<3xf32>) {{
  ^bb0(%p: f32, %m: f32, %o: f32):
    %d = arith.subf %p, %m : f32
    %q = arith.mulf %d, %d : f32
    %s = arith.addf %q, %o : f32
    linalg.yield %s : f32
  }} -> tensor<3xf32>
  return %r, %squares : tensor<3x7xf32>, tensor<3xf32>
}}"""


@pytest.mark.parametrize(("row", "order"), [
    ("arith.subi %c2, %i : index", [2, 1, 0]),
    ("arith.remui %c2, %c2 : index", [0, 0, 0]),
    ("arith.minui %i, %c2 : index", [0, 1, 2]),  # the stored row itself
])  # fmt: skip
def test_rows_that_are_read_elsewhere(row: str, order: list[int], backend: Backend) -> None:
    x = np.random.default_rng(3).standard_normal((ROWS, 7)).astype(np.float32)
    rows, squares = map(np.asarray, backend.load(PROGRAM.format(row=row)).f(x))
    y = np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(rows, y[order], rtol=1e-5)
    np.testing.assert_allclose(squares, ((y - y.sum(1, keepdims=True)) ** 2).sum(1), rtol=1e-4)
