"""Scatters into several tensors at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

TWO = """func.func @main(%x: tensor<5x3xf32>, %y: tensor<5x3xi32>, %i: tensor<4x1xi32>,
    %u: tensor<4x3xf32>, %v: tensor<4x3xi32>)
    -> (tensor<5x3xf32>, tensor<5x3xi32>) {{
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    {body}
    stablehlo.return %e, %f : tensor<f32>, tensor<i32>
  }}) : (tensor<5x3xf32>, tensor<5x3xi32>, tensor<4x1xi32>, tensor<4x3xf32>, tensor<4x3xi32>)
    -> (tensor<5x3xf32>, tensor<5x3xi32>)
  return %0#0, %0#1 : tensor<5x3xf32>, tensor<5x3xi32>
}}"""
ALONE = """%e = stablehlo.add %a, %c : tensor<f32>
    %f = stablehlo.maximum %b, %d : tensor<i32>"""
TOGETHER = """%g = stablehlo.compare GE, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %e = stablehlo.select %g, %c, %a : tensor<i1>, tensor<f32>
    %f = stablehlo.select %g, %d, %b : tensor<i1>, tensor<i32>"""


@pytest.mark.parametrize("body", [ALONE, TOGETHER], ids=["alone", "together"])
def test_a_scatter_into_two_tensors(run: Any, body: str) -> None:
    """What an element becomes follows from it alone, or from those of both tensors. Slices meet, and lie outside."""
    rng = np.random.default_rng(8)
    x, u = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 3), (4, 3)))
    y, v = (rng.integers(-9, 9, shape).astype(np.int32) for shape in ((5, 3), (4, 3)))
    starts = np.array([[3], [0], [3], [6]], np.int32)
    found = run(TWO.format(body=body), x, y, starts, u, v)
    for n, row in enumerate(starts[:3, 0]):
        if body == ALONE:
            x[row], y[row] = x[row] + u[n], np.maximum(y[row], v[n])
        else:
            better = u[n] >= x[row]
            x[row], y[row] = np.where(better, u[n], x[row]), np.where(better, v[n], y[row])
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)


def test_slices_of_several_elements(run: Any) -> None:
    """Along an axis whose first place is computed; elements outside of the tensor are left out."""
    text = """func.func @main(%x: tensor<6x4xf32>, %i: tensor<3x2xi32>, %u: tensor<3x2x3xf32>) -> tensor<6x4xf32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }) : (tensor<6x4xf32>, tensor<3x2xi32>, tensor<3x2x3xf32>) -> tensor<6x4xf32>
      return %0 : tensor<6x4xf32>
    }"""
    rng = np.random.default_rng(9)
    x, u = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((6, 4), (3, 2, 3)))
    starts = np.array([[0, 1], [1, 0], [5, 3]], np.int32)
    (found,) = run(text, x, starts, u)
    for (row, column), update in zip(starts, u, strict=True):
        for place, value in np.ndenumerate(update):
            if row + place[0] < 6 and column + place[1] < 4:
                x[row + place[0], column + place[1]] += value
    np.testing.assert_array_equal(found, x)
