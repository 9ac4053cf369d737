"""Rows of several dimensions of which one has no elements: their number is known, whatever the others are."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd

PROGRAM = """
func.func @f(%x: tensor<IMAGExf32>, %k: tensor<3x3x16x32xf32>, %out: tensor<RESULTxf32>) -> tensor<RESULTxf32> {
  %y = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %k : tensor<IMAGExf32>, tensor<3x3x16x32xf32>) outs(%out : tensor<RESULTxf32>) -> tensor<RESULTxf32>
  return %y : tensor<RESULTxf32>
}
"""


@pytest.mark.parametrize("batch", [0, 1])
def test_a_convolution_of_no_images_of_any_size(batch: int) -> None:
    text = PROGRAM.replace("IMAGE", f"{batch}x?x?x16").replace("RESULT", f"{batch}x?x?x32")
    f = pd.device("ptx-interpreter").load(pd.compile(text, targets="cuda")).f
    image, kernel = np.ones((batch, 5, 5, 16), np.float32), np.ones((3, 3, 16, 32), np.float32)
    result = np.asarray(f(image, kernel, np.zeros((batch, 3, 3, 32), np.float32)))
    assert result.shape == (batch, 3, 3, 32)
    np.testing.assert_array_equal(result, np.float32(144))
