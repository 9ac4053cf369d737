"""Constants and tensors of no elements, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend

CASES = {
    "read by a reduction": (
        """func.func @f(%x: tensor<0x16xi16>) -> tensor<0x16xi16> {
  %v = arith.constant dense<> : tensor<7x0x16x8xi16>
  %r = linalg.reduce { arith.andi } ins(%v : tensor<7x0x16x8xi16>) outs(%x : tensor<0x16xi16>) dimensions = [0, 3]
  return %r : tensor<0x16xi16>
}""",
        np.zeros((0, 16), np.int16),
        np.zeros((0, 16), np.int16),
    ),
    "reduced to its initial value": (
        """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %v = arith.constant dense<> : tensor<4x0xf32>
  %r = linalg.reduce { arith.addf } ins(%v : tensor<4x0xf32>) outs(%x : tensor<4xf32>) dimensions = [1]
  return %r : tensor<4xf32>
}""",
        np.arange(4, dtype=np.float32),
        np.arange(4, dtype=np.float32),
    ),
    "added": (
        """func.func @f(%x: tensor<3x0xf32>) -> tensor<3x0xf32> {
  %v = arith.constant dense<> : tensor<3x0xf32>
  %r = arith.addf %x, %v : tensor<3x0xf32>
  return %r : tensor<3x0xf32>
}""",
        np.zeros((3, 0), np.float32),
        np.zeros((3, 0), np.float32),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_constants(backend: Backend, case: str) -> None:
    text, argument, expected = CASES[case]
    np.testing.assert_array_equal(np.asarray(backend.load(text).f(argument)), expected)
