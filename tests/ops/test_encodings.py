"""Programs with encodings compute what they compute without."""

from __future__ import annotations

import numpy as np

import pydispatch as pd

TEXT = """
#lhs = #iree_encoding.encoding<operand_index = 0 : index, op_type = matmul, element_types = [f32, f32, f32]>
#rhs = #iree_encoding.encoding<operand_index = 1 : index, op_type = matmul, element_types = [f32, f32, f32]>
#out = #iree_encoding.encoding<operand_index = 2 : index, op_type = matmul, element_types = [f32, f32, f32]>
func.func private @encoded(%b: tensor<4x3xf32>) -> tensor<4x3xf32, #rhs> {
  %0 = iree_encoding.set_encoding %b : tensor<4x3xf32> -> tensor<4x3xf32, #rhs>
  return %0 : tensor<4x3xf32, #rhs>
}
func.func @f(%a: tensor<?x4xf32>, %b: tensor<4x3xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x4xf32>
  %l = iree_encoding.set_encoding %a encoding_dims{%m} : tensor<?x4xf32> -> tensor<?x4xf32, #lhs>
  %r = call @encoded(%b) : (tensor<4x3xf32>) -> tensor<4x3xf32, #rhs>
  %e = tensor.empty(%m) : tensor<?x3xf32, #out>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3xf32, #out>) -> tensor<?x3xf32, #out>
  %p = linalg.matmul ins(%l, %r : tensor<?x4xf32, #lhs>, tensor<4x3xf32, #rhs>)
      outs(%f : tensor<?x3xf32, #out>) -> tensor<?x3xf32, #out>
  %u = iree_encoding.unset_encoding %p encoding_dims{%m} : tensor<?x3xf32, #out> -> tensor<?x3xf32>{%m}
  return %u : tensor<?x3xf32>
}
"""


def test_a_product_of_encoded_tensors() -> None:
    a = np.arange(20, dtype=np.float32).reshape(5, 4)
    b = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(TEXT))["f"](a, b), a @ b)
