"""Reductions over windows on every backend, against NumPy: sizes that no type states, and several results."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend

X = np.random.default_rng(5).standard_normal((2, 2, 7, 9)).astype(np.float32)

POOL = """
func.func @f(%x: tensor<{input}xf32>, %s: tensor<2x2x6x9xf32>) -> tensor<2x2x6x9xf32> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<{input}xf32>
  %low = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<2x1xf32>
  %e = tensor.empty({size}) : tensor<{pooled}xf32>
  %i = linalg.fill ins(%low : f32) outs(%e : tensor<{pooled}xf32>) -> tensor<{pooled}xf32>
  %y = linalg.pooling_nchw_max ins(%x, %window : tensor<{input}xf32>, tensor<2x1xf32>)
      outs(%i : tensor<{pooled}xf32>) -> tensor<{pooled}xf32>
  %known = tensor.cast %y : tensor<{pooled}xf32> to tensor<2x2x6x9xf32>
  %z = arith.addf %known, %s : tensor<2x2x6x9xf32>
  return %z : tensor<2x2x6x9xf32>
}}"""


@pytest.mark.parametrize(("input", "pooled", "size"), [
    ("?x2x7x9", "?x2x6x9", "%n"),  # the batch is 2, which only the other operand says
    ("2x2x7x?", "2x2x6x9", ""),  # so is the width
])  # fmt: skip
def test_sizes_that_another_operand_states(input: str, pooled: str, size: str, backend: Backend) -> None:
    program = backend.load(POOL.format(input=input, pooled=pooled, size=size))
    got = np.asarray(program.f(X, np.ones((2, 2, 6, 9), np.float32)))
    np.testing.assert_array_equal(got, np.maximum(X[:, :, :-1], X[:, :, 1:]) + 1)


LARGEST = """
func.func @f(%x: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
  %e = tensor.empty() : tensor<2x2xf32>
  %n = tensor.empty() : tensor<2x2xi32>
  %window = tensor.empty() : tensor<2xf32>
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %v = linalg.fill ins(%low : f32) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %w = linalg.fill ins(%zero : i32) outs(%n : tensor<2x2xi32>) -> tensor<2x2xi32>
  %y:2 = linalg.generic {indexing_maps = [
      affine_map<(i, j, k) -> (i, j + k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %window : tensor<2x3xf32>, tensor<2xf32>) outs(%v, %w : tensor<2x2xf32>, tensor<2x2xi32>) {
  ^bb0(%p: f32, %q: f32, %most: f32, %where: i32):
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %place = arith.addi %j, %k : index
    %number = arith.index_cast %place : index to i32
    %greater = arith.cmpf ogt, %p, %most : f32
    %value = arith.select %greater, %p, %most : f32
    %index = arith.select %greater, %number, %where : i32
    linalg.yield %value, %index : f32, i32
  } -> (tensor<2x2xf32>, tensor<2x2xi32>)
  %turned = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<2x2xf32>) {
  ^bb0(%o: f32):
    %c1 = arith.constant 1 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %back = arith.subi %c1, %i : index
    %element = tensor.extract %y#0[%back, %j] : tensor<2x2xf32>
    linalg.yield %element : f32
  } -> tensor<2x2xf32>
  return %turned, %y#1 : tensor<2x2xf32>, tensor<2x2xi32>
}"""


def test_results_of_one_reduction_are_read_at_different_places(backend: Backend) -> None:
    x = np.array([[3, 1, 2], [5, 7, 6]], np.float32)
    values, places = map(np.asarray, backend.load(LARGEST).f(x))
    np.testing.assert_array_equal(values, [[7, 7], [3, 2]])
    np.testing.assert_array_equal(places, [[0, 2], [1, 1]])
