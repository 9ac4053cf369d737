"""Custom calls whose targets have a meaning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


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
