// Written by tests/ops/write_checks.py; the expected values are NumPy's.

func.func @pooling_nwc_sum() {
  %x0 = util.unfoldable_constant dense<[[[3.0, 1.0, 0.0], [-2.0, -2.0, -4.0], [-4.0, -4.0, -3.0], [3.0, 1.0, 4.0], [0.0, 1.0, 4.0], [2.0, 1.0, 0.0]]]> : tensor<1x6x3xf32>
  %v0 = tensor.empty() : tensor<2xf32>
  %v1 = arith.constant 0.0 : f32
  %v2 = tensor.empty() : tensor<1x3x3xf32>
  %v3 = linalg.fill ins(%v1 : f32) outs(%v2 : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  %v4 = linalg.pooling_nwc_sum {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v0 : tensor<1x6x3xf32>, tensor<2xf32>) outs(%v3 : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  check.expect_eq_const(%v4, dense<[[[1.0, -1.0, -4.0], [-1.0, -3.0, 1.0], [2.0, 2.0, 4.0]]]> : tensor<1x3x3xf32>) : tensor<1x3x3xf32>
  return
}

func.func @pooling_nwc_max() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3, 1, 0], [-2, -2, -4], [-4, -4, -3], [3, 1, 4], [0, 1, 4], [2, 1, 0]]]> : tensor<1x6x3xi32> -> tensor<?x?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = tensor.empty(%v0) : tensor<?xi32>
  %v2 = arith.constant -2147483648 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v3, %v4, %v5) : tensor<?x?x?xi32>
  %v7 = linalg.fill ins(%v2 : i32) outs(%v6 : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
  %v8 = linalg.pooling_nwc_max {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v1 : tensor<?x?x?xi32>, tensor<?xi32>) outs(%v7 : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
  %static0 = tensor.cast %v8 : tensor<?x?x?xi32> to tensor<1x3x3xi32>
  check.expect_eq_const(%static0, dense<[[[3, 1, 0], [3, 1, 4], [2, 1, 4]]]> : tensor<1x3x3xi32>) : tensor<1x3x3xi32>
  return
}

func.func @pooling_nwc_min() {
  %x0 = util.unfoldable_constant dense<[[[3.0, 1.0, 0.0], [-2.0, -2.0, -4.0], [-4.0, -4.0, -3.0], [3.0, 1.0, 4.0], [0.0, 1.0, 4.0], [2.0, 1.0, 0.0]]]> : tensor<1x6x3xf16>
  %v0 = tensor.empty() : tensor<2xf16>
  %v1 = arith.constant 0x7C00 : f16
  %v2 = tensor.empty() : tensor<1x3x3xf16>
  %v3 = linalg.fill ins(%v1 : f16) outs(%v2 : tensor<1x3x3xf16>) -> tensor<1x3x3xf16>
  %v4 = linalg.pooling_nwc_min {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v0 : tensor<1x6x3xf16>, tensor<2xf16>) outs(%v3 : tensor<1x3x3xf16>) -> tensor<1x3x3xf16>
  check.expect_eq_const(%v4, dense<[[[-2.0, -2.0, -4.0], [-4.0, -4.0, -3.0], [0.0, 1.0, 0.0]]]> : tensor<1x3x3xf16>) : tensor<1x3x3xf16>
  return
}

func.func @pooling_nwc_max_unsigned() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3, 1, 0], [-2, -2, -4], [-4, -4, -3], [3, 1, 4], [0, 1, 4], [2, 1, 0]]]> : tensor<1x6x3xi8> -> tensor<?x?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = tensor.empty(%v0) : tensor<?xi8>
  %v2 = arith.constant 0 : i8
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v3, %v4, %v5) : tensor<?x?x?xi8>
  %v7 = linalg.fill ins(%v2 : i8) outs(%v6 : tensor<?x?x?xi8>) -> tensor<?x?x?xi8>
  %v8 = linalg.pooling_nwc_max_unsigned {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v1 : tensor<?x?x?xi8>, tensor<?xi8>) outs(%v7 : tensor<?x?x?xi8>) -> tensor<?x?x?xi8>
  %static0 = tensor.cast %v8 : tensor<?x?x?xi8> to tensor<1x3x3xi8>
  check.expect_eq_const(%static0, dense<[[[-2, -2, -4], [-4, -4, -3], [2, 1, 4]]]> : tensor<1x3x3xi8>) : tensor<1x3x3xi8>
  return
}

func.func @pooling_nwc_min_unsigned() {
  %x0 = util.unfoldable_constant dense<[[[3, 1, 0], [-2, -2, -4], [-4, -4, -3], [3, 1, 4], [0, 1, 4], [2, 1, 0]]]> : tensor<1x6x3xi8>
  %v0 = tensor.empty() : tensor<2xi8>
  %v1 = arith.constant -1 : i8
  %v2 = tensor.empty() : tensor<1x3x3xi8>
  %v3 = linalg.fill ins(%v1 : i8) outs(%v2 : tensor<1x3x3xi8>) -> tensor<1x3x3xi8>
  %v4 = linalg.pooling_nwc_min_unsigned {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v0 : tensor<1x6x3xi8>, tensor<2xi8>) outs(%v3 : tensor<1x3x3xi8>) -> tensor<1x3x3xi8>
  check.expect_eq_const(%v4, dense<[[[3, 1, 0], [3, 1, 4], [0, 1, 0]]]> : tensor<1x3x3xi8>) : tensor<1x3x3xi8>
  return
}

func.func @pooling_ncw_sum() {
  %x0 = flow.tensor.dynamic_constant dense<[[[0.0, 0.0, 2.0, 4.0, -4.0, -3.0], [3.0, 4.0, -2.0, -2.0, 3.0, -1.0], [-2.0, 3.0, -2.0, -1.0, 1.0, 0.0]]]> : tensor<1x3x6xf32> -> tensor<?x?x?xf32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = tensor.empty(%v0) : tensor<?xf32>
  %v2 = arith.constant 0.0 : f32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v3, %v4, %v5) : tensor<?x?x?xf32>
  %v7 = linalg.fill ins(%v2 : f32) outs(%v6 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %v8 = linalg.pooling_ncw_sum {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v1 : tensor<?x?x?xf32>, tensor<?xf32>) outs(%v7 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v8 : tensor<?x?x?xf32> to tensor<1x3x3xf32>
  check.expect_eq_const(%static0, dense<[[[0.0, 6.0, -7.0], [7.0, -4.0, 2.0], [1.0, -3.0, 1.0]]]> : tensor<1x3x3xf32>) : tensor<1x3x3xf32>
  return
}

func.func @pooling_ncw_max() {
  %x0 = util.unfoldable_constant dense<[[[0, 0, 2, 4, -4, -3], [3, 4, -2, -2, 3, -1], [-2, 3, -2, -1, 1, 0]]]> : tensor<1x3x6xi32>
  %v0 = tensor.empty() : tensor<2xi32>
  %v1 = arith.constant -2147483648 : i32
  %v2 = tensor.empty() : tensor<1x3x3xi32>
  %v3 = linalg.fill ins(%v1 : i32) outs(%v2 : tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
  %v4 = linalg.pooling_ncw_max {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v0 : tensor<1x3x6xi32>, tensor<2xi32>) outs(%v3 : tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
  check.expect_eq_const(%v4, dense<[[[0, 4, -3], [4, -2, 3], [3, -1, 1]]]> : tensor<1x3x3xi32>) : tensor<1x3x3xi32>
  return
}

func.func @pooling_ncw_min() {
  %x0 = flow.tensor.dynamic_constant dense<[[[0.0, 0.0, 2.0, 4.0, -4.0, -3.0], [3.0, 4.0, -2.0, -2.0, 3.0, -1.0], [-2.0, 3.0, -2.0, -1.0, 1.0, 0.0]]]> : tensor<1x3x6xf16> -> tensor<?x?x?xf16>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = tensor.empty(%v0) : tensor<?xf16>
  %v2 = arith.constant 0x7C00 : f16
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v3, %v4, %v5) : tensor<?x?x?xf16>
  %v7 = linalg.fill ins(%v2 : f16) outs(%v6 : tensor<?x?x?xf16>) -> tensor<?x?x?xf16>
  %v8 = linalg.pooling_ncw_min {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v1 : tensor<?x?x?xf16>, tensor<?xf16>) outs(%v7 : tensor<?x?x?xf16>) -> tensor<?x?x?xf16>
  %static0 = tensor.cast %v8 : tensor<?x?x?xf16> to tensor<1x3x3xf16>
  check.expect_eq_const(%static0, dense<[[[0.0, 2.0, -4.0], [3.0, -2.0, -1.0], [-2.0, -2.0, 0.0]]]> : tensor<1x3x3xf16>) : tensor<1x3x3xf16>
  return
}

func.func @pooling_ncw_max_unsigned() {
  %x0 = util.unfoldable_constant dense<[[[0, 0, 2, 4, -4, -3], [3, 4, -2, -2, 3, -1], [-2, 3, -2, -1, 1, 0]]]> : tensor<1x3x6xi8>
  %v0 = tensor.empty() : tensor<2xi8>
  %v1 = arith.constant 0 : i8
  %v2 = tensor.empty() : tensor<1x3x3xi8>
  %v3 = linalg.fill ins(%v1 : i8) outs(%v2 : tensor<1x3x3xi8>) -> tensor<1x3x3xi8>
  %v4 = linalg.pooling_ncw_max_unsigned {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v0 : tensor<1x3x6xi8>, tensor<2xi8>) outs(%v3 : tensor<1x3x3xi8>) -> tensor<1x3x3xi8>
  check.expect_eq_const(%v4, dense<[[[0, 4, -3], [4, -2, -1], [-2, -1, 1]]]> : tensor<1x3x3xi8>) : tensor<1x3x3xi8>
  return
}

func.func @pooling_ncw_min_unsigned() {
  %x0 = flow.tensor.dynamic_constant dense<[[[0, 0, 2, 4, -4, -3], [3, 4, -2, -2, 3, -1], [-2, 3, -2, -1, 1, 0]]]> : tensor<1x3x6xi8> -> tensor<?x?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = tensor.empty(%v0) : tensor<?xi8>
  %v2 = arith.constant -1 : i8
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v3, %v4, %v5) : tensor<?x?x?xi8>
  %v7 = linalg.fill ins(%v2 : i8) outs(%v6 : tensor<?x?x?xi8>) -> tensor<?x?x?xi8>
  %v8 = linalg.pooling_ncw_min_unsigned {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %v1 : tensor<?x?x?xi8>, tensor<?xi8>) outs(%v7 : tensor<?x?x?xi8>) -> tensor<?x?x?xi8>
  %static0 = tensor.cast %v8 : tensor<?x?x?xi8> to tensor<1x3x3xi8>
  check.expect_eq_const(%static0, dense<[[[0, 2, -4], [3, -2, 3], [3, -2, 0]]]> : tensor<1x3x3xi8>) : tensor<1x3x3xi8>
  return
}

func.func @pooling_nhwc_sum() {
  %x0 = util.unfoldable_constant dense<[[[[3.0, -2.0, -4.0], [-2.0, -1.0, 3.0], [0.0, -4.0, -1.0], [1.0, 3.0, 2.0], [4.0, -3.0, 3.0], [-4.0, 1.0, -2.0]], [[-3.0, 1.0, -2.0], [1.0, -2.0, -3.0], [2.0, -1.0, 2.0], [2.0, 4.0, -1.0], [-3.0, 1.0, 4.0], [4.0, 3.0, 2.0]], [[-1.0, -1.0, -4.0], [-3.0, -2.0, -1.0], [1.0, 0.0, 2.0], [4.0, 3.0, 2.0], [4.0, -2.0, 4.0], [4.0, -2.0, 0.0]], [[1.0, 2.0, 2.0], [-4.0, 0.0, -4.0], [4.0, -3.0, 0.0], [3.0, 0.0, 2.0], [0.0, 3.0, 1.0], [1.0, 0.0, -1.0]], [[1.0, 0.0, 3.0], [1.0, 0.0, 3.0], [-3.0, -1.0, 0.0], [4.0, -1.0, 1.0], [-4.0, 3.0, -1.0], [0.0, -4.0, 2.0]], [[1.0, -1.0, 2.0], [0.0, -4.0, -3.0], [-2.0, -4.0, 0.0], [-4.0, 0.0, 2.0], [1.0, 0.0, -2.0], [4.0, -2.0, 3.0]]]]> : tensor<1x6x6x3xf32>
  %v0 = tensor.empty() : tensor<2x3xf32>
  %v1 = arith.constant 0.0 : f32
  %v2 = tensor.empty() : tensor<1x3x2x3xf32>
  %v3 = linalg.fill ins(%v1 : f32) outs(%v2 : tensor<1x3x2x3xf32>) -> tensor<1x3x2x3xf32>
  %v4 = linalg.pooling_nhwc_sum {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v0 : tensor<1x6x6x3xf32>, tensor<2x3xf32>) outs(%v3 : tensor<1x3x2x3xf32>) -> tensor<1x3x2x3xf32>
  check.expect_eq_const(%v4, dense<[[[[3.0, -8.0, 2.0], [2.0, 8.0, 1.0]], [[9.0, -1.0, 5.0], [5.0, -1.0, -2.0]], [[-6.0, -3.0, 2.0], [5.0, -11.0, 8.0]]]]> : tensor<1x3x2x3xf32>) : tensor<1x3x2x3xf32>
  return
}

func.func @pooling_nhwc_max() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[3, -2, -4], [-2, -1, 3], [0, -4, -1], [1, 3, 2], [4, -3, 3], [-4, 1, -2]], [[-3, 1, -2], [1, -2, -3], [2, -1, 2], [2, 4, -1], [-3, 1, 4], [4, 3, 2]], [[-1, -1, -4], [-3, -2, -1], [1, 0, 2], [4, 3, 2], [4, -2, 4], [4, -2, 0]], [[1, 2, 2], [-4, 0, -4], [4, -3, 0], [3, 0, 2], [0, 3, 1], [1, 0, -1]], [[1, 0, 3], [1, 0, 3], [-3, -1, 0], [4, -1, 1], [-4, 3, -1], [0, -4, 2]], [[1, -1, 2], [0, -4, -3], [-2, -4, 0], [-4, 0, 2], [1, 0, -2], [4, -2, 3]]]]> : tensor<1x6x6x3xi32> -> tensor<?x?x?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xi32>
  %v3 = arith.constant -2147483648 : i32
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = util.unfoldable_constant 3 : index
  %v8 = tensor.empty(%v4, %v5, %v6, %v7) : tensor<?x?x?x?xi32>
  %v9 = linalg.fill ins(%v3 : i32) outs(%v8 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v10 = linalg.pooling_nhwc_max {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v2 : tensor<?x?x?x?xi32>, tensor<?x?xi32>) outs(%v9 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?xi32> to tensor<1x3x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[4, 1, 4], [4, 4, 3]], [[4, 3, 4], [4, 3, 2]], [[1, 3, 3], [4, 0, 3]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @pooling_nhwc_min() {
  %x0 = util.unfoldable_constant dense<[[[[3.0, -2.0, -4.0], [-2.0, -1.0, 3.0], [0.0, -4.0, -1.0], [1.0, 3.0, 2.0], [4.0, -3.0, 3.0], [-4.0, 1.0, -2.0]], [[-3.0, 1.0, -2.0], [1.0, -2.0, -3.0], [2.0, -1.0, 2.0], [2.0, 4.0, -1.0], [-3.0, 1.0, 4.0], [4.0, 3.0, 2.0]], [[-1.0, -1.0, -4.0], [-3.0, -2.0, -1.0], [1.0, 0.0, 2.0], [4.0, 3.0, 2.0], [4.0, -2.0, 4.0], [4.0, -2.0, 0.0]], [[1.0, 2.0, 2.0], [-4.0, 0.0, -4.0], [4.0, -3.0, 0.0], [3.0, 0.0, 2.0], [0.0, 3.0, 1.0], [1.0, 0.0, -1.0]], [[1.0, 0.0, 3.0], [1.0, 0.0, 3.0], [-3.0, -1.0, 0.0], [4.0, -1.0, 1.0], [-4.0, 3.0, -1.0], [0.0, -4.0, 2.0]], [[1.0, -1.0, 2.0], [0.0, -4.0, -3.0], [-2.0, -4.0, 0.0], [-4.0, 0.0, 2.0], [1.0, 0.0, -2.0], [4.0, -2.0, 3.0]]]]> : tensor<1x6x6x3xf16>
  %v0 = tensor.empty() : tensor<2x3xf16>
  %v1 = arith.constant 0x7C00 : f16
  %v2 = tensor.empty() : tensor<1x3x2x3xf16>
  %v3 = linalg.fill ins(%v1 : f16) outs(%v2 : tensor<1x3x2x3xf16>) -> tensor<1x3x2x3xf16>
  %v4 = linalg.pooling_nhwc_min {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v0 : tensor<1x6x6x3xf16>, tensor<2x3xf16>) outs(%v3 : tensor<1x3x2x3xf16>) -> tensor<1x3x2x3xf16>
  check.expect_eq_const(%v4, dense<[[[[-3.0, -4.0, -4.0], [-4.0, -2.0, -3.0]], [[-1.0, -3.0, -4.0], [-4.0, -2.0, -4.0]], [[-4.0, -4.0, -2.0], [-4.0, -4.0, -3.0]]]]> : tensor<1x3x2x3xf16>) : tensor<1x3x2x3xf16>
  return
}

func.func @pooling_nhwc_max_unsigned() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[3, -2, -4], [-2, -1, 3], [0, -4, -1], [1, 3, 2], [4, -3, 3], [-4, 1, -2]], [[-3, 1, -2], [1, -2, -3], [2, -1, 2], [2, 4, -1], [-3, 1, 4], [4, 3, 2]], [[-1, -1, -4], [-3, -2, -1], [1, 0, 2], [4, 3, 2], [4, -2, 4], [4, -2, 0]], [[1, 2, 2], [-4, 0, -4], [4, -3, 0], [3, 0, 2], [0, 3, 1], [1, 0, -1]], [[1, 0, 3], [1, 0, 3], [-3, -1, 0], [4, -1, 1], [-4, 3, -1], [0, -4, 2]], [[1, -1, 2], [0, -4, -3], [-2, -4, 0], [-4, 0, 2], [1, 0, -2], [4, -2, 3]]]]> : tensor<1x6x6x3xi8> -> tensor<?x?x?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xi8>
  %v3 = arith.constant 0 : i8
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = util.unfoldable_constant 3 : index
  %v8 = tensor.empty(%v4, %v5, %v6, %v7) : tensor<?x?x?x?xi8>
  %v9 = linalg.fill ins(%v3 : i8) outs(%v8 : tensor<?x?x?x?xi8>) -> tensor<?x?x?x?xi8>
  %v10 = linalg.pooling_nhwc_max_unsigned {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v2 : tensor<?x?x?x?xi8>, tensor<?x?xi8>) outs(%v9 : tensor<?x?x?x?xi8>) -> tensor<?x?x?x?xi8>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?xi8> to tensor<1x3x2x3xi8>
  check.expect_eq_const(%static0, dense<[[[[-3, -1, -1], [-2, -1, -1]], [[-1, -1, -4], [-3, -2, -1]], [[-2, -1, -1], [-4, -1, -3]]]]> : tensor<1x3x2x3xi8>) : tensor<1x3x2x3xi8>
  return
}

func.func @pooling_nhwc_min_unsigned() {
  %x0 = util.unfoldable_constant dense<[[[[3, -2, -4], [-2, -1, 3], [0, -4, -1], [1, 3, 2], [4, -3, 3], [-4, 1, -2]], [[-3, 1, -2], [1, -2, -3], [2, -1, 2], [2, 4, -1], [-3, 1, 4], [4, 3, 2]], [[-1, -1, -4], [-3, -2, -1], [1, 0, 2], [4, 3, 2], [4, -2, 4], [4, -2, 0]], [[1, 2, 2], [-4, 0, -4], [4, -3, 0], [3, 0, 2], [0, 3, 1], [1, 0, -1]], [[1, 0, 3], [1, 0, 3], [-3, -1, 0], [4, -1, 1], [-4, 3, -1], [0, -4, 2]], [[1, -1, 2], [0, -4, -3], [-2, -4, 0], [-4, 0, 2], [1, 0, -2], [4, -2, 3]]]]> : tensor<1x6x6x3xi8>
  %v0 = tensor.empty() : tensor<2x3xi8>
  %v1 = arith.constant -1 : i8
  %v2 = tensor.empty() : tensor<1x3x2x3xi8>
  %v3 = linalg.fill ins(%v1 : i8) outs(%v2 : tensor<1x3x2x3xi8>) -> tensor<1x3x2x3xi8>
  %v4 = linalg.pooling_nhwc_min_unsigned {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v0 : tensor<1x6x6x3xi8>, tensor<2x3xi8>) outs(%v3 : tensor<1x3x2x3xi8>) -> tensor<1x3x2x3xi8>
  check.expect_eq_const(%v4, dense<[[[[0, 1, 2], [1, 1, 2]], [[0, 0, 0], [1, 0, 0]], [[1, 0, 0], [0, 0, 1]]]]> : tensor<1x3x2x3xi8>) : tensor<1x3x2x3xi8>
  return
}

func.func @pooling_nchw_sum() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[3.0, -4.0, -3.0, -2.0, -3.0, 3.0], [3.0, 1.0, -4.0, -4.0, -2.0, -1.0], [1.0, 0.0, -2.0, -3.0, 2.0, 2.0], [-4.0, -3.0, 0.0, -1.0, 3.0, 0.0], [-1.0, -1.0, 1.0, 1.0, -3.0, 2.0], [2.0, 4.0, 3.0, -2.0, -2.0, 1.0]], [[1.0, 2.0, 3.0, -2.0, 4.0, -4.0], [-4.0, 4.0, 4.0, -2.0, -3.0, -2.0], [-4.0, 4.0, 1.0, 1.0, -2.0, 0.0], [-3.0, 2.0, 0.0, -4.0, -2.0, 2.0], [0.0, -1.0, -2.0, -4.0, 1.0, 1.0], [0.0, 4.0, 4.0, -3.0, 1.0, 1.0]], [[-2.0, -2.0, 0.0, 2.0, -2.0, 2.0], [1.0, -3.0, -1.0, 3.0, 3.0, 1.0], [-4.0, 2.0, -2.0, 3.0, 4.0, -1.0], [4.0, 2.0, -2.0, 3.0, -1.0, -4.0], [1.0, 3.0, 1.0, -1.0, 4.0, 0.0], [-1.0, -3.0, -3.0, 2.0, 3.0, -2.0]]]]> : tensor<1x3x6x6xf32> -> tensor<?x?x?x?xf32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xf32>
  %v3 = arith.constant 0.0 : f32
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = tensor.empty(%v4, %v5, %v6, %v7) : tensor<?x?x?x?xf32>
  %v9 = linalg.fill ins(%v3 : f32) outs(%v8 : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %v10 = linalg.pooling_nchw_sum {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v2 : tensor<?x?x?x?xf32>, tensor<?x?xf32>) outs(%v9 : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?xf32> to tensor<1x3x3x2xf32>
  check.expect_eq_const(%static0, dense<[[[[-6.0, -7.0], [0.0, -5.0], [0.0, 5.0]], [[5.0, -4.0], [-10.0, 5.0], [4.0, -2.0]], [[-1.0, 3.0], [-1.0, 5.0], [5.0, -1.0]]]]> : tensor<1x3x3x2xf32>) : tensor<1x3x3x2xf32>
  return
}

func.func @pooling_nchw_max() {
  %x0 = util.unfoldable_constant dense<[[[[3, -4, -3, -2, -3, 3], [3, 1, -4, -4, -2, -1], [1, 0, -2, -3, 2, 2], [-4, -3, 0, -1, 3, 0], [-1, -1, 1, 1, -3, 2], [2, 4, 3, -2, -2, 1]], [[1, 2, 3, -2, 4, -4], [-4, 4, 4, -2, -3, -2], [-4, 4, 1, 1, -2, 0], [-3, 2, 0, -4, -2, 2], [0, -1, -2, -4, 1, 1], [0, 4, 4, -3, 1, 1]], [[-2, -2, 0, 2, -2, 2], [1, -3, -1, 3, 3, 1], [-4, 2, -2, 3, 4, -1], [4, 2, -2, 3, -1, -4], [1, 3, 1, -1, 4, 0], [-1, -3, -3, 2, 3, -2]]]]> : tensor<1x3x6x6xi32>
  %v0 = tensor.empty() : tensor<2x3xi32>
  %v1 = arith.constant -2147483648 : i32
  %v2 = tensor.empty() : tensor<1x3x3x2xi32>
  %v3 = linalg.fill ins(%v1 : i32) outs(%v2 : tensor<1x3x3x2xi32>) -> tensor<1x3x3x2xi32>
  %v4 = linalg.pooling_nchw_max {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v0 : tensor<1x3x6x6xi32>, tensor<2x3xi32>) outs(%v3 : tensor<1x3x3x2xi32>) -> tensor<1x3x3x2xi32>
  check.expect_eq_const(%v4, dense<[[[[3, 3], [3, 2], [3, 4]], [[4, 4], [1, 4], [4, 4]], [[3, 3], [4, 3], [4, 3]]]]> : tensor<1x3x3x2xi32>) : tensor<1x3x3x2xi32>
  return
}

func.func @pooling_nchw_min() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[3.0, -4.0, -3.0, -2.0, -3.0, 3.0], [3.0, 1.0, -4.0, -4.0, -2.0, -1.0], [1.0, 0.0, -2.0, -3.0, 2.0, 2.0], [-4.0, -3.0, 0.0, -1.0, 3.0, 0.0], [-1.0, -1.0, 1.0, 1.0, -3.0, 2.0], [2.0, 4.0, 3.0, -2.0, -2.0, 1.0]], [[1.0, 2.0, 3.0, -2.0, 4.0, -4.0], [-4.0, 4.0, 4.0, -2.0, -3.0, -2.0], [-4.0, 4.0, 1.0, 1.0, -2.0, 0.0], [-3.0, 2.0, 0.0, -4.0, -2.0, 2.0], [0.0, -1.0, -2.0, -4.0, 1.0, 1.0], [0.0, 4.0, 4.0, -3.0, 1.0, 1.0]], [[-2.0, -2.0, 0.0, 2.0, -2.0, 2.0], [1.0, -3.0, -1.0, 3.0, 3.0, 1.0], [-4.0, 2.0, -2.0, 3.0, 4.0, -1.0], [4.0, 2.0, -2.0, 3.0, -1.0, -4.0], [1.0, 3.0, 1.0, -1.0, 4.0, 0.0], [-1.0, -3.0, -3.0, 2.0, 3.0, -2.0]]]]> : tensor<1x3x6x6xf16> -> tensor<?x?x?x?xf16>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xf16>
  %v3 = arith.constant 0x7C00 : f16
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = tensor.empty(%v4, %v5, %v6, %v7) : tensor<?x?x?x?xf16>
  %v9 = linalg.fill ins(%v3 : f16) outs(%v8 : tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16>
  %v10 = linalg.pooling_nchw_min {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v2 : tensor<?x?x?x?xf16>, tensor<?x?xf16>) outs(%v9 : tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?xf16> to tensor<1x3x3x2xf16>
  check.expect_eq_const(%static0, dense<[[[[-4.0, -4.0], [-4.0, -3.0], [-3.0, -2.0]], [[-4.0, -4.0], [-4.0, -4.0], [-2.0, -4.0]], [[-2.0, -3.0], [-4.0, -4.0], [-3.0, -3.0]]]]> : tensor<1x3x3x2xf16>) : tensor<1x3x3x2xf16>
  return
}

func.func @pooling_nchw_max_unsigned() {
  %x0 = util.unfoldable_constant dense<[[[[3, -4, -3, -2, -3, 3], [3, 1, -4, -4, -2, -1], [1, 0, -2, -3, 2, 2], [-4, -3, 0, -1, 3, 0], [-1, -1, 1, 1, -3, 2], [2, 4, 3, -2, -2, 1]], [[1, 2, 3, -2, 4, -4], [-4, 4, 4, -2, -3, -2], [-4, 4, 1, 1, -2, 0], [-3, 2, 0, -4, -2, 2], [0, -1, -2, -4, 1, 1], [0, 4, 4, -3, 1, 1]], [[-2, -2, 0, 2, -2, 2], [1, -3, -1, 3, 3, 1], [-4, 2, -2, 3, 4, -1], [4, 2, -2, 3, -1, -4], [1, 3, 1, -1, 4, 0], [-1, -3, -3, 2, 3, -2]]]]> : tensor<1x3x6x6xi8>
  %v0 = tensor.empty() : tensor<2x3xi8>
  %v1 = arith.constant 0 : i8
  %v2 = tensor.empty() : tensor<1x3x3x2xi8>
  %v3 = linalg.fill ins(%v1 : i8) outs(%v2 : tensor<1x3x3x2xi8>) -> tensor<1x3x3x2xi8>
  %v4 = linalg.pooling_nchw_max_unsigned {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v0 : tensor<1x3x6x6xi8>, tensor<2x3xi8>) outs(%v3 : tensor<1x3x3x2xi8>) -> tensor<1x3x3x2xi8>
  check.expect_eq_const(%v4, dense<[[[[-2, -1], [-2, -1], [-1, -1]], [[-3, -2], [-2, -4], [-2, -1]], [[-1, -2], [-1, -1], [-1, -1]]]]> : tensor<1x3x3x2xi8>) : tensor<1x3x3x2xi8>
  return
}

func.func @pooling_nchw_min_unsigned() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[3, -4, -3, -2, -3, 3], [3, 1, -4, -4, -2, -1], [1, 0, -2, -3, 2, 2], [-4, -3, 0, -1, 3, 0], [-1, -1, 1, 1, -3, 2], [2, 4, 3, -2, -2, 1]], [[1, 2, 3, -2, 4, -4], [-4, 4, 4, -2, -3, -2], [-4, 4, 1, 1, -2, 0], [-3, 2, 0, -4, -2, 2], [0, -1, -2, -4, 1, 1], [0, 4, 4, -3, 1, 1]], [[-2, -2, 0, 2, -2, 2], [1, -3, -1, 3, 3, 1], [-4, 2, -2, 3, 4, -1], [4, 2, -2, 3, -1, -4], [1, 3, 1, -1, 4, 0], [-1, -3, -3, 2, 3, -2]]]]> : tensor<1x3x6x6xi8> -> tensor<?x?x?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xi8>
  %v3 = arith.constant -1 : i8
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = tensor.empty(%v4, %v5, %v6, %v7) : tensor<?x?x?x?xi8>
  %v9 = linalg.fill ins(%v3 : i8) outs(%v8 : tensor<?x?x?x?xi8>) -> tensor<?x?x?x?xi8>
  %v10 = linalg.pooling_nchw_min_unsigned {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %v2 : tensor<?x?x?x?xi8>, tensor<?x?xi8>) outs(%v9 : tensor<?x?x?x?xi8>) -> tensor<?x?x?x?xi8>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?xi8> to tensor<1x3x3x2xi8>
  check.expect_eq_const(%static0, dense<[[[[3, 1], [0, 0], [1, 1]], [[1, 2], [0, 0], [0, 1]], [[0, 1], [4, 2], [1, 0]]]]> : tensor<1x3x3x2xi8>) : tensor<1x3x3x2xi8>
  return
}

func.func @pooling_ndhwc_sum() {
  %x0 = util.unfoldable_constant dense<[[[[[2.0, 4.0, 3.0], [0.0, 4.0, 4.0], [4.0, -4.0, 0.0]], [[1.0, -2.0, -1.0], [1.0, 3.0, 1.0], [-3.0, 2.0, 3.0]], [[-3.0, 0.0, -1.0], [4.0, -4.0, 0.0], [4.0, -1.0, -3.0]], [[3.0, 4.0, 4.0], [4.0, -1.0, 2.0], [4.0, 1.0, 4.0]], [[1.0, -3.0, 0.0], [1.0, -2.0, 2.0], [-1.0, 4.0, -3.0]], [[1.0, -4.0, -3.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]], [[[-1.0, 4.0, 3.0], [-1.0, -3.0, -2.0], [-3.0, 0.0, 1.0]], [[1.0, 4.0, 4.0], [0.0, 1.0, -4.0], [-2.0, 4.0, 4.0]], [[-4.0, 0.0, 0.0], [2.0, -3.0, 0.0], [-1.0, -3.0, 3.0]], [[2.0, -3.0, 2.0], [0.0, -3.0, 1.0], [0.0, 0.0, -1.0]], [[4.0, -3.0, 4.0], [-3.0, 3.0, 4.0], [-3.0, 3.0, -4.0]], [[-1.0, 0.0, 2.0], [-3.0, -4.0, -2.0], [4.0, -2.0, 0.0]]], [[[-4.0, 3.0, 4.0], [-2.0, 3.0, -1.0], [-2.0, -1.0, -3.0]], [[4.0, -4.0, -1.0], [1.0, 0.0, -4.0], [4.0, 3.0, 4.0]], [[-3.0, -1.0, -1.0], [-2.0, -4.0, 3.0], [2.0, -4.0, -3.0]], [[-1.0, 4.0, 3.0], [-3.0, 4.0, -2.0], [-2.0, 4.0, -4.0]], [[-4.0, 3.0, -2.0], [1.0, -1.0, -2.0], [-1.0, 0.0, -3.0]], [[-4.0, 4.0, 2.0], [-1.0, 0.0, 4.0], [2.0, 1.0, -4.0]]], [[[-4.0, 1.0, 1.0], [-1.0, 0.0, 0.0], [3.0, -1.0, 0.0]], [[1.0, 2.0, 1.0], [1.0, 1.0, -4.0], [-4.0, -2.0, -2.0]], [[4.0, -4.0, 1.0], [-1.0, 3.0, 0.0], [-3.0, -3.0, 3.0]], [[2.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, -4.0, 4.0]], [[1.0, 1.0, 2.0], [-4.0, 1.0, -3.0], [0.0, 2.0, -3.0]], [[-2.0, 1.0, 2.0], [-4.0, 0.0, 1.0], [-1.0, -4.0, 2.0]]], [[[2.0, -3.0, 3.0], [-2.0, -1.0, -2.0], [-2.0, -1.0, 0.0]], [[4.0, 0.0, 3.0], [-1.0, 3.0, 2.0], [1.0, 2.0, -4.0]], [[2.0, -2.0, 2.0], [0.0, -4.0, 4.0], [2.0, -1.0, -1.0]], [[0.0, 4.0, 3.0], [-4.0, -1.0, -3.0], [2.0, 2.0, 1.0]], [[3.0, 0.0, 1.0], [1.0, 1.0, 0.0], [-1.0, -3.0, 1.0]], [[4.0, -1.0, 4.0], [1.0, 3.0, 3.0], [-1.0, -4.0, 1.0]]], [[[4.0, 2.0, 2.0], [-4.0, -3.0, 3.0], [-1.0, -4.0, 2.0]], [[4.0, 4.0, -2.0], [4.0, 4.0, 2.0], [-2.0, -2.0, 0.0]], [[2.0, 3.0, -3.0], [4.0, -4.0, 2.0], [-2.0, 3.0, 2.0]], [[-1.0, -4.0, 2.0], [4.0, -1.0, -2.0], [4.0, -1.0, 2.0]], [[-2.0, -1.0, -1.0], [3.0, -4.0, -4.0], [-1.0, 4.0, -4.0]], [[2.0, 3.0, -2.0], [4.0, 1.0, 0.0], [3.0, -2.0, 1.0]]]]]> : tensor<1x6x6x3x3xf32>
  %v0 = tensor.empty() : tensor<2x3x2xf32>
  %v1 = arith.constant 0.0 : f32
  %v2 = tensor.empty() : tensor<1x3x2x2x3xf32>
  %v3 = linalg.fill ins(%v1 : f32) outs(%v2 : tensor<1x3x2x2x3xf32>) -> tensor<1x3x2x2x3xf32>
  %v4 = linalg.pooling_ndhwc_sum {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v0 : tensor<1x6x6x3x3xf32>, tensor<2x3x2xf32>) outs(%v3 : tensor<1x3x2x2x3xf32>) -> tensor<1x3x2x2x3xf32>
  check.expect_eq_const(%v4, dense<[[[[[2.0, -3.0, 17.0], [3.0, -6.0, 2.0]], [[9.0, -5.0, 6.0], [5.0, 4.0, 8.0]]], [[[-19.0, 5.0, 2.0], [-10.0, -5.0, -12.0]], [[-6.0, 14.0, 3.0], [-6.0, 3.0, -4.0]]], [[[13.0, -16.0, 7.0], [-3.0, -17.0, 3.0]], [[21.0, 15.0, 10.0], [15.0, 4.0, 3.0]]]]]> : tensor<1x3x2x2x3xf32>) : tensor<1x3x2x2x3xf32>
  return
}

func.func @pooling_ndhwc_max() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2, 4, 3], [0, 4, 4], [4, -4, 0]], [[1, -2, -1], [1, 3, 1], [-3, 2, 3]], [[-3, 0, -1], [4, -4, 0], [4, -1, -3]], [[3, 4, 4], [4, -1, 2], [4, 1, 4]], [[1, -3, 0], [1, -2, 2], [-1, 4, -3]], [[1, -4, -3], [0, 0, 0], [0, 3, 0]]], [[[-1, 4, 3], [-1, -3, -2], [-3, 0, 1]], [[1, 4, 4], [0, 1, -4], [-2, 4, 4]], [[-4, 0, 0], [2, -3, 0], [-1, -3, 3]], [[2, -3, 2], [0, -3, 1], [0, 0, -1]], [[4, -3, 4], [-3, 3, 4], [-3, 3, -4]], [[-1, 0, 2], [-3, -4, -2], [4, -2, 0]]], [[[-4, 3, 4], [-2, 3, -1], [-2, -1, -3]], [[4, -4, -1], [1, 0, -4], [4, 3, 4]], [[-3, -1, -1], [-2, -4, 3], [2, -4, -3]], [[-1, 4, 3], [-3, 4, -2], [-2, 4, -4]], [[-4, 3, -2], [1, -1, -2], [-1, 0, -3]], [[-4, 4, 2], [-1, 0, 4], [2, 1, -4]]], [[[-4, 1, 1], [-1, 0, 0], [3, -1, 0]], [[1, 2, 1], [1, 1, -4], [-4, -2, -2]], [[4, -4, 1], [-1, 3, 0], [-3, -3, 3]], [[2, 2, 0], [0, 0, 1], [1, -4, 4]], [[1, 1, 2], [-4, 1, -3], [0, 2, -3]], [[-2, 1, 2], [-4, 0, 1], [-1, -4, 2]]], [[[2, -3, 3], [-2, -1, -2], [-2, -1, 0]], [[4, 0, 3], [-1, 3, 2], [1, 2, -4]], [[2, -2, 2], [0, -4, 4], [2, -1, -1]], [[0, 4, 3], [-4, -1, -3], [2, 2, 1]], [[3, 0, 1], [1, 1, 0], [-1, -3, 1]], [[4, -1, 4], [1, 3, 3], [-1, -4, 1]]], [[[4, 2, 2], [-4, -3, 3], [-1, -4, 2]], [[4, 4, -2], [4, 4, 2], [-2, -2, 0]], [[2, 3, -3], [4, -4, 2], [-2, 3, 2]], [[-1, -4, 2], [4, -1, -2], [4, -1, 2]], [[-2, -1, -1], [3, -4, -4], [-1, 4, -4]], [[2, 3, -2], [4, 1, 0], [3, -2, 1]]]]]> : tensor<1x6x6x3x3xi32> -> tensor<?x?x?x?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?xi32>
  %v4 = arith.constant -2147483648 : i32
  %v5 = util.unfoldable_constant 1 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = util.unfoldable_constant 2 : index
  %v9 = util.unfoldable_constant 3 : index
  %v10 = tensor.empty(%v5, %v6, %v7, %v8, %v9) : tensor<?x?x?x?x?xi32>
  %v11 = linalg.fill ins(%v4 : i32) outs(%v10 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %v12 = linalg.pooling_ndhwc_max {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v3 : tensor<?x?x?x?x?xi32>, tensor<?x?x?xi32>) outs(%v11 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v12 : tensor<?x?x?x?x?xi32> to tensor<1x3x2x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[[4, 4, 4], [4, 4, 4]], [[4, 4, 4], [4, 4, 4]]], [[[4, 3, 4], [3, 3, 3]], [[4, 4, 4], [4, 4, 4]]], [[[4, 3, 4], [4, 4, 4]], [[4, 4, 4], [4, 4, 3]]]]]> : tensor<1x3x2x2x3xi32>) : tensor<1x3x2x2x3xi32>
  return
}

func.func @pooling_ndhwc_min() {
  %x0 = util.unfoldable_constant dense<[[[[[2.0, 4.0, 3.0], [0.0, 4.0, 4.0], [4.0, -4.0, 0.0]], [[1.0, -2.0, -1.0], [1.0, 3.0, 1.0], [-3.0, 2.0, 3.0]], [[-3.0, 0.0, -1.0], [4.0, -4.0, 0.0], [4.0, -1.0, -3.0]], [[3.0, 4.0, 4.0], [4.0, -1.0, 2.0], [4.0, 1.0, 4.0]], [[1.0, -3.0, 0.0], [1.0, -2.0, 2.0], [-1.0, 4.0, -3.0]], [[1.0, -4.0, -3.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]], [[[-1.0, 4.0, 3.0], [-1.0, -3.0, -2.0], [-3.0, 0.0, 1.0]], [[1.0, 4.0, 4.0], [0.0, 1.0, -4.0], [-2.0, 4.0, 4.0]], [[-4.0, 0.0, 0.0], [2.0, -3.0, 0.0], [-1.0, -3.0, 3.0]], [[2.0, -3.0, 2.0], [0.0, -3.0, 1.0], [0.0, 0.0, -1.0]], [[4.0, -3.0, 4.0], [-3.0, 3.0, 4.0], [-3.0, 3.0, -4.0]], [[-1.0, 0.0, 2.0], [-3.0, -4.0, -2.0], [4.0, -2.0, 0.0]]], [[[-4.0, 3.0, 4.0], [-2.0, 3.0, -1.0], [-2.0, -1.0, -3.0]], [[4.0, -4.0, -1.0], [1.0, 0.0, -4.0], [4.0, 3.0, 4.0]], [[-3.0, -1.0, -1.0], [-2.0, -4.0, 3.0], [2.0, -4.0, -3.0]], [[-1.0, 4.0, 3.0], [-3.0, 4.0, -2.0], [-2.0, 4.0, -4.0]], [[-4.0, 3.0, -2.0], [1.0, -1.0, -2.0], [-1.0, 0.0, -3.0]], [[-4.0, 4.0, 2.0], [-1.0, 0.0, 4.0], [2.0, 1.0, -4.0]]], [[[-4.0, 1.0, 1.0], [-1.0, 0.0, 0.0], [3.0, -1.0, 0.0]], [[1.0, 2.0, 1.0], [1.0, 1.0, -4.0], [-4.0, -2.0, -2.0]], [[4.0, -4.0, 1.0], [-1.0, 3.0, 0.0], [-3.0, -3.0, 3.0]], [[2.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, -4.0, 4.0]], [[1.0, 1.0, 2.0], [-4.0, 1.0, -3.0], [0.0, 2.0, -3.0]], [[-2.0, 1.0, 2.0], [-4.0, 0.0, 1.0], [-1.0, -4.0, 2.0]]], [[[2.0, -3.0, 3.0], [-2.0, -1.0, -2.0], [-2.0, -1.0, 0.0]], [[4.0, 0.0, 3.0], [-1.0, 3.0, 2.0], [1.0, 2.0, -4.0]], [[2.0, -2.0, 2.0], [0.0, -4.0, 4.0], [2.0, -1.0, -1.0]], [[0.0, 4.0, 3.0], [-4.0, -1.0, -3.0], [2.0, 2.0, 1.0]], [[3.0, 0.0, 1.0], [1.0, 1.0, 0.0], [-1.0, -3.0, 1.0]], [[4.0, -1.0, 4.0], [1.0, 3.0, 3.0], [-1.0, -4.0, 1.0]]], [[[4.0, 2.0, 2.0], [-4.0, -3.0, 3.0], [-1.0, -4.0, 2.0]], [[4.0, 4.0, -2.0], [4.0, 4.0, 2.0], [-2.0, -2.0, 0.0]], [[2.0, 3.0, -3.0], [4.0, -4.0, 2.0], [-2.0, 3.0, 2.0]], [[-1.0, -4.0, 2.0], [4.0, -1.0, -2.0], [4.0, -1.0, 2.0]], [[-2.0, -1.0, -1.0], [3.0, -4.0, -4.0], [-1.0, 4.0, -4.0]], [[2.0, 3.0, -2.0], [4.0, 1.0, 0.0], [3.0, -2.0, 1.0]]]]]> : tensor<1x6x6x3x3xf16>
  %v0 = tensor.empty() : tensor<2x3x2xf16>
  %v1 = arith.constant 0x7C00 : f16
  %v2 = tensor.empty() : tensor<1x3x2x2x3xf16>
  %v3 = linalg.fill ins(%v1 : f16) outs(%v2 : tensor<1x3x2x2x3xf16>) -> tensor<1x3x2x2x3xf16>
  %v4 = linalg.pooling_ndhwc_min {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v0 : tensor<1x6x6x3x3xf16>, tensor<2x3x2xf16>) outs(%v3 : tensor<1x3x2x2x3xf16>) -> tensor<1x3x2x2x3xf16>
  check.expect_eq_const(%v4, dense<[[[[[-4.0, -4.0, -2.0], [-3.0, -4.0, -4.0]], [[-3.0, -4.0, -4.0], [-3.0, -4.0, -4.0]]], [[[-4.0, -4.0, -3.0], [-4.0, -4.0, -3.0]], [[-4.0, -4.0, -4.0], [-4.0, -4.0, -4.0]]], [[[-4.0, -4.0, -4.0], [-4.0, -4.0, -4.0]], [[-4.0, -4.0, -3.0], [-4.0, -4.0, -4.0]]]]]> : tensor<1x3x2x2x3xf16>) : tensor<1x3x2x2x3xf16>
  return
}

func.func @pooling_ndhwc_max_unsigned() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2, 4, 3], [0, 4, 4], [4, -4, 0]], [[1, -2, -1], [1, 3, 1], [-3, 2, 3]], [[-3, 0, -1], [4, -4, 0], [4, -1, -3]], [[3, 4, 4], [4, -1, 2], [4, 1, 4]], [[1, -3, 0], [1, -2, 2], [-1, 4, -3]], [[1, -4, -3], [0, 0, 0], [0, 3, 0]]], [[[-1, 4, 3], [-1, -3, -2], [-3, 0, 1]], [[1, 4, 4], [0, 1, -4], [-2, 4, 4]], [[-4, 0, 0], [2, -3, 0], [-1, -3, 3]], [[2, -3, 2], [0, -3, 1], [0, 0, -1]], [[4, -3, 4], [-3, 3, 4], [-3, 3, -4]], [[-1, 0, 2], [-3, -4, -2], [4, -2, 0]]], [[[-4, 3, 4], [-2, 3, -1], [-2, -1, -3]], [[4, -4, -1], [1, 0, -4], [4, 3, 4]], [[-3, -1, -1], [-2, -4, 3], [2, -4, -3]], [[-1, 4, 3], [-3, 4, -2], [-2, 4, -4]], [[-4, 3, -2], [1, -1, -2], [-1, 0, -3]], [[-4, 4, 2], [-1, 0, 4], [2, 1, -4]]], [[[-4, 1, 1], [-1, 0, 0], [3, -1, 0]], [[1, 2, 1], [1, 1, -4], [-4, -2, -2]], [[4, -4, 1], [-1, 3, 0], [-3, -3, 3]], [[2, 2, 0], [0, 0, 1], [1, -4, 4]], [[1, 1, 2], [-4, 1, -3], [0, 2, -3]], [[-2, 1, 2], [-4, 0, 1], [-1, -4, 2]]], [[[2, -3, 3], [-2, -1, -2], [-2, -1, 0]], [[4, 0, 3], [-1, 3, 2], [1, 2, -4]], [[2, -2, 2], [0, -4, 4], [2, -1, -1]], [[0, 4, 3], [-4, -1, -3], [2, 2, 1]], [[3, 0, 1], [1, 1, 0], [-1, -3, 1]], [[4, -1, 4], [1, 3, 3], [-1, -4, 1]]], [[[4, 2, 2], [-4, -3, 3], [-1, -4, 2]], [[4, 4, -2], [4, 4, 2], [-2, -2, 0]], [[2, 3, -3], [4, -4, 2], [-2, 3, 2]], [[-1, -4, 2], [4, -1, -2], [4, -1, 2]], [[-2, -1, -1], [3, -4, -4], [-1, 4, -4]], [[2, 3, -2], [4, 1, 0], [3, -2, 1]]]]]> : tensor<1x6x6x3x3xi8> -> tensor<?x?x?x?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?xi8>
  %v4 = arith.constant 0 : i8
  %v5 = util.unfoldable_constant 1 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = util.unfoldable_constant 2 : index
  %v9 = util.unfoldable_constant 3 : index
  %v10 = tensor.empty(%v5, %v6, %v7, %v8, %v9) : tensor<?x?x?x?x?xi8>
  %v11 = linalg.fill ins(%v4 : i8) outs(%v10 : tensor<?x?x?x?x?xi8>) -> tensor<?x?x?x?x?xi8>
  %v12 = linalg.pooling_ndhwc_max_unsigned {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v3 : tensor<?x?x?x?x?xi8>, tensor<?x?x?xi8>) outs(%v11 : tensor<?x?x?x?x?xi8>) -> tensor<?x?x?x?x?xi8>
  %static0 = tensor.cast %v12 : tensor<?x?x?x?x?xi8> to tensor<1x3x2x2x3xi8>
  check.expect_eq_const(%static0, dense<[[[[[-1, -2, -1], [-1, -1, -2]], [[-1, -1, -1], [-2, -1, -1]]], [[[-1, -1, -1], [-1, -1, -1]], [[-1, -4, -1], [-1, -2, -2]]], [[[-2, -1, -1], [-1, -1, -1]], [[-1, -1, -2], [-1, -1, -2]]]]]> : tensor<1x3x2x2x3xi8>) : tensor<1x3x2x2x3xi8>
  return
}

func.func @pooling_ndhwc_min_unsigned() {
  %x0 = util.unfoldable_constant dense<[[[[[2, 4, 3], [0, 4, 4], [4, -4, 0]], [[1, -2, -1], [1, 3, 1], [-3, 2, 3]], [[-3, 0, -1], [4, -4, 0], [4, -1, -3]], [[3, 4, 4], [4, -1, 2], [4, 1, 4]], [[1, -3, 0], [1, -2, 2], [-1, 4, -3]], [[1, -4, -3], [0, 0, 0], [0, 3, 0]]], [[[-1, 4, 3], [-1, -3, -2], [-3, 0, 1]], [[1, 4, 4], [0, 1, -4], [-2, 4, 4]], [[-4, 0, 0], [2, -3, 0], [-1, -3, 3]], [[2, -3, 2], [0, -3, 1], [0, 0, -1]], [[4, -3, 4], [-3, 3, 4], [-3, 3, -4]], [[-1, 0, 2], [-3, -4, -2], [4, -2, 0]]], [[[-4, 3, 4], [-2, 3, -1], [-2, -1, -3]], [[4, -4, -1], [1, 0, -4], [4, 3, 4]], [[-3, -1, -1], [-2, -4, 3], [2, -4, -3]], [[-1, 4, 3], [-3, 4, -2], [-2, 4, -4]], [[-4, 3, -2], [1, -1, -2], [-1, 0, -3]], [[-4, 4, 2], [-1, 0, 4], [2, 1, -4]]], [[[-4, 1, 1], [-1, 0, 0], [3, -1, 0]], [[1, 2, 1], [1, 1, -4], [-4, -2, -2]], [[4, -4, 1], [-1, 3, 0], [-3, -3, 3]], [[2, 2, 0], [0, 0, 1], [1, -4, 4]], [[1, 1, 2], [-4, 1, -3], [0, 2, -3]], [[-2, 1, 2], [-4, 0, 1], [-1, -4, 2]]], [[[2, -3, 3], [-2, -1, -2], [-2, -1, 0]], [[4, 0, 3], [-1, 3, 2], [1, 2, -4]], [[2, -2, 2], [0, -4, 4], [2, -1, -1]], [[0, 4, 3], [-4, -1, -3], [2, 2, 1]], [[3, 0, 1], [1, 1, 0], [-1, -3, 1]], [[4, -1, 4], [1, 3, 3], [-1, -4, 1]]], [[[4, 2, 2], [-4, -3, 3], [-1, -4, 2]], [[4, 4, -2], [4, 4, 2], [-2, -2, 0]], [[2, 3, -3], [4, -4, 2], [-2, 3, 2]], [[-1, -4, 2], [4, -1, -2], [4, -1, 2]], [[-2, -1, -1], [3, -4, -4], [-1, 4, -4]], [[2, 3, -2], [4, 1, 0], [3, -2, 1]]]]]> : tensor<1x6x6x3x3xi8>
  %v0 = tensor.empty() : tensor<2x3x2xi8>
  %v1 = arith.constant -1 : i8
  %v2 = tensor.empty() : tensor<1x3x2x2x3xi8>
  %v3 = linalg.fill ins(%v1 : i8) outs(%v2 : tensor<1x3x2x2x3xi8>) -> tensor<1x3x2x2x3xi8>
  %v4 = linalg.pooling_ndhwc_min_unsigned {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v0 : tensor<1x6x6x3x3xi8>, tensor<2x3x2xi8>) outs(%v3 : tensor<1x3x2x2x3xi8>) -> tensor<1x3x2x2x3xi8>
  check.expect_eq_const(%v4, dense<[[[[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]], [[[1, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]], [[[0, 0, 0], [0, 1, 0]], [[0, 0, 0], [1, 1, 0]]]]]> : tensor<1x3x2x2x3xi8>) : tensor<1x3x2x2x3xi8>
  return
}

func.func @pooling_ncdhw_sum() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2.0, 3.0, -4.0], [3.0, 0.0, 0.0], [1.0, -2.0, 4.0], [-4.0, -2.0, -1.0], [1.0, -1.0, -3.0], [-4.0, -4.0, -4.0]], [[-3.0, 4.0, -3.0], [1.0, 2.0, -2.0], [-2.0, -1.0, -2.0], [4.0, -3.0, 4.0], [3.0, 3.0, -3.0], [-1.0, 1.0, 0.0]], [[1.0, 2.0, 1.0], [-4.0, 4.0, 1.0], [4.0, -2.0, -1.0], [3.0, -3.0, -4.0], [-1.0, 2.0, -3.0], [3.0, -1.0, -2.0]], [[0.0, 4.0, 3.0], [3.0, -2.0, -4.0], [3.0, 2.0, 2.0], [-4.0, -4.0, 0.0], [-1.0, -1.0, 4.0], [-3.0, 0.0, -2.0]], [[-2.0, 3.0, -3.0], [-2.0, -3.0, -3.0], [-2.0, 2.0, 1.0], [0.0, -3.0, 3.0], [3.0, -2.0, -4.0], [-2.0, -3.0, 3.0]], [[0.0, 0.0, -2.0], [0.0, 4.0, -2.0], [2.0, -4.0, -2.0], [4.0, 3.0, -4.0], [3.0, 3.0, 0.0], [-1.0, 4.0, 4.0]]], [[[2.0, -1.0, -3.0], [4.0, -2.0, 1.0], [2.0, -2.0, -2.0], [2.0, -3.0, 2.0], [4.0, 2.0, 1.0], [0.0, 4.0, -3.0]], [[-1.0, 1.0, 1.0], [-4.0, -3.0, 2.0], [3.0, 1.0, 4.0], [-1.0, -2.0, 3.0], [-4.0, -3.0, -3.0], [-1.0, -3.0, 3.0]], [[3.0, -1.0, -4.0], [2.0, -4.0, 1.0], [-3.0, 4.0, 2.0], [4.0, 1.0, 2.0], [-1.0, 3.0, -3.0], [-3.0, -1.0, 2.0]], [[0.0, 3.0, 4.0], [-1.0, -1.0, 0.0], [1.0, 0.0, 1.0], [4.0, 2.0, -2.0], [-1.0, -1.0, -3.0], [-4.0, 3.0, -1.0]], [[-1.0, 1.0, 1.0], [4.0, 1.0, 4.0], [1.0, -2.0, -2.0], [4.0, 1.0, -3.0], [3.0, 3.0, -4.0], [-3.0, 2.0, -1.0]], [[-1.0, -4.0, -3.0], [3.0, 3.0, 3.0], [1.0, -3.0, -2.0], [0.0, 4.0, -2.0], [0.0, 0.0, 0.0], [0.0, 2.0, -4.0]]], [[[4.0, 3.0, 2.0], [-2.0, -1.0, 0.0], [-2.0, -4.0, 2.0], [-4.0, 2.0, -3.0], [1.0, -1.0, -2.0], [4.0, 0.0, 4.0]], [[-3.0, 0.0, -1.0], [0.0, -4.0, 2.0], [-1.0, 3.0, -3.0], [-1.0, -4.0, 3.0], [0.0, -1.0, 4.0], [1.0, 4.0, 2.0]], [[1.0, 0.0, -3.0], [2.0, 3.0, 2.0], [-1.0, -4.0, 2.0], [-4.0, 3.0, -3.0], [-2.0, -3.0, 0.0], [-3.0, -2.0, -4.0]], [[4.0, -3.0, -3.0], [1.0, -3.0, 3.0], [3.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-2.0, 2.0, -3.0], [3.0, -1.0, 4.0]], [[-2.0, -1.0, 3.0], [2.0, -4.0, -1.0], [-4.0, 3.0, -1.0], [-2.0, 2.0, 3.0], [-4.0, 0.0, -1.0], [2.0, 4.0, 0.0]], [[2.0, -2.0, 1.0], [0.0, 2.0, -4.0], [-2.0, -4.0, 4.0], [0.0, 0.0, 0.0], [-4.0, 3.0, 3.0], [-4.0, 1.0, 1.0]]]]]> : tensor<1x3x6x6x3xf32> -> tensor<?x?x?x?x?xf32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?xf32>
  %v4 = arith.constant 0.0 : f32
  %v5 = util.unfoldable_constant 1 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 3 : index
  %v8 = util.unfoldable_constant 2 : index
  %v9 = util.unfoldable_constant 2 : index
  %v10 = tensor.empty(%v5, %v6, %v7, %v8, %v9) : tensor<?x?x?x?x?xf32>
  %v11 = linalg.fill ins(%v4 : f32) outs(%v10 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %v12 = linalg.pooling_ncdhw_sum {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v3 : tensor<?x?x?x?x?xf32>, tensor<?x?x?xf32>) outs(%v11 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %static0 = tensor.cast %v12 : tensor<?x?x?x?x?xf32> to tensor<1x3x3x2x2xf32>
  check.expect_eq_const(%static0, dense<[[[[[8.0, -5.0], [-7.0, -9.0]], [[13.0, 13.0], [-8.0, -17.0]], [[6.0, -8.0], [1.0, 3.0]]], [[[4.0, -4.0], [-9.0, -1.0]], [[7.0, 5.0], [2.0, 2.0]], [[-2.0, -15.0], [21.0, 10.0]]], [[[-1.0, 2.0], [-5.0, 5.0]], [[-6.0, -17.0], [0.0, 3.0]], [[-15.0, 8.0], [3.0, 4.0]]]]]> : tensor<1x3x3x2x2xf32>) : tensor<1x3x3x2x2xf32>
  return
}

func.func @pooling_ncdhw_max() {
  %x0 = util.unfoldable_constant dense<[[[[[2, 3, -4], [3, 0, 0], [1, -2, 4], [-4, -2, -1], [1, -1, -3], [-4, -4, -4]], [[-3, 4, -3], [1, 2, -2], [-2, -1, -2], [4, -3, 4], [3, 3, -3], [-1, 1, 0]], [[1, 2, 1], [-4, 4, 1], [4, -2, -1], [3, -3, -4], [-1, 2, -3], [3, -1, -2]], [[0, 4, 3], [3, -2, -4], [3, 2, 2], [-4, -4, 0], [-1, -1, 4], [-3, 0, -2]], [[-2, 3, -3], [-2, -3, -3], [-2, 2, 1], [0, -3, 3], [3, -2, -4], [-2, -3, 3]], [[0, 0, -2], [0, 4, -2], [2, -4, -2], [4, 3, -4], [3, 3, 0], [-1, 4, 4]]], [[[2, -1, -3], [4, -2, 1], [2, -2, -2], [2, -3, 2], [4, 2, 1], [0, 4, -3]], [[-1, 1, 1], [-4, -3, 2], [3, 1, 4], [-1, -2, 3], [-4, -3, -3], [-1, -3, 3]], [[3, -1, -4], [2, -4, 1], [-3, 4, 2], [4, 1, 2], [-1, 3, -3], [-3, -1, 2]], [[0, 3, 4], [-1, -1, 0], [1, 0, 1], [4, 2, -2], [-1, -1, -3], [-4, 3, -1]], [[-1, 1, 1], [4, 1, 4], [1, -2, -2], [4, 1, -3], [3, 3, -4], [-3, 2, -1]], [[-1, -4, -3], [3, 3, 3], [1, -3, -2], [0, 4, -2], [0, 0, 0], [0, 2, -4]]], [[[4, 3, 2], [-2, -1, 0], [-2, -4, 2], [-4, 2, -3], [1, -1, -2], [4, 0, 4]], [[-3, 0, -1], [0, -4, 2], [-1, 3, -3], [-1, -4, 3], [0, -1, 4], [1, 4, 2]], [[1, 0, -3], [2, 3, 2], [-1, -4, 2], [-4, 3, -3], [-2, -3, 0], [-3, -2, -4]], [[4, -3, -3], [1, -3, 3], [3, -1, -1], [-1, 2, -1], [-2, 2, -3], [3, -1, 4]], [[-2, -1, 3], [2, -4, -1], [-4, 3, -1], [-2, 2, 3], [-4, 0, -1], [2, 4, 0]], [[2, -2, 1], [0, 2, -4], [-2, -4, 4], [0, 0, 0], [-4, 3, 3], [-4, 1, 1]]]]]> : tensor<1x3x6x6x3xi32>
  %v0 = tensor.empty() : tensor<2x3x2xi32>
  %v1 = arith.constant -2147483648 : i32
  %v2 = tensor.empty() : tensor<1x3x3x2x2xi32>
  %v3 = linalg.fill ins(%v1 : i32) outs(%v2 : tensor<1x3x3x2x2xi32>) -> tensor<1x3x3x2x2xi32>
  %v4 = linalg.pooling_ncdhw_max {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v0 : tensor<1x3x6x6x3xi32>, tensor<2x3x2xi32>) outs(%v3 : tensor<1x3x3x2x2xi32>) -> tensor<1x3x3x2x2xi32>
  check.expect_eq_const(%v4, dense<[[[[[4, 4], [4, 4]], [[4, 4], [4, 4]], [[3, 3], [4, 4]]], [[[4, 4], [4, 4]], [[4, 4], [4, 3]], [[3, 3], [4, 4]]], [[[4, 4], [4, 4]], [[4, 2], [3, 4]], [[3, 4], [4, 4]]]]]> : tensor<1x3x3x2x2xi32>) : tensor<1x3x3x2x2xi32>
  return
}

func.func @pooling_ncdhw_min() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2.0, 3.0, -4.0], [3.0, 0.0, 0.0], [1.0, -2.0, 4.0], [-4.0, -2.0, -1.0], [1.0, -1.0, -3.0], [-4.0, -4.0, -4.0]], [[-3.0, 4.0, -3.0], [1.0, 2.0, -2.0], [-2.0, -1.0, -2.0], [4.0, -3.0, 4.0], [3.0, 3.0, -3.0], [-1.0, 1.0, 0.0]], [[1.0, 2.0, 1.0], [-4.0, 4.0, 1.0], [4.0, -2.0, -1.0], [3.0, -3.0, -4.0], [-1.0, 2.0, -3.0], [3.0, -1.0, -2.0]], [[0.0, 4.0, 3.0], [3.0, -2.0, -4.0], [3.0, 2.0, 2.0], [-4.0, -4.0, 0.0], [-1.0, -1.0, 4.0], [-3.0, 0.0, -2.0]], [[-2.0, 3.0, -3.0], [-2.0, -3.0, -3.0], [-2.0, 2.0, 1.0], [0.0, -3.0, 3.0], [3.0, -2.0, -4.0], [-2.0, -3.0, 3.0]], [[0.0, 0.0, -2.0], [0.0, 4.0, -2.0], [2.0, -4.0, -2.0], [4.0, 3.0, -4.0], [3.0, 3.0, 0.0], [-1.0, 4.0, 4.0]]], [[[2.0, -1.0, -3.0], [4.0, -2.0, 1.0], [2.0, -2.0, -2.0], [2.0, -3.0, 2.0], [4.0, 2.0, 1.0], [0.0, 4.0, -3.0]], [[-1.0, 1.0, 1.0], [-4.0, -3.0, 2.0], [3.0, 1.0, 4.0], [-1.0, -2.0, 3.0], [-4.0, -3.0, -3.0], [-1.0, -3.0, 3.0]], [[3.0, -1.0, -4.0], [2.0, -4.0, 1.0], [-3.0, 4.0, 2.0], [4.0, 1.0, 2.0], [-1.0, 3.0, -3.0], [-3.0, -1.0, 2.0]], [[0.0, 3.0, 4.0], [-1.0, -1.0, 0.0], [1.0, 0.0, 1.0], [4.0, 2.0, -2.0], [-1.0, -1.0, -3.0], [-4.0, 3.0, -1.0]], [[-1.0, 1.0, 1.0], [4.0, 1.0, 4.0], [1.0, -2.0, -2.0], [4.0, 1.0, -3.0], [3.0, 3.0, -4.0], [-3.0, 2.0, -1.0]], [[-1.0, -4.0, -3.0], [3.0, 3.0, 3.0], [1.0, -3.0, -2.0], [0.0, 4.0, -2.0], [0.0, 0.0, 0.0], [0.0, 2.0, -4.0]]], [[[4.0, 3.0, 2.0], [-2.0, -1.0, 0.0], [-2.0, -4.0, 2.0], [-4.0, 2.0, -3.0], [1.0, -1.0, -2.0], [4.0, 0.0, 4.0]], [[-3.0, 0.0, -1.0], [0.0, -4.0, 2.0], [-1.0, 3.0, -3.0], [-1.0, -4.0, 3.0], [0.0, -1.0, 4.0], [1.0, 4.0, 2.0]], [[1.0, 0.0, -3.0], [2.0, 3.0, 2.0], [-1.0, -4.0, 2.0], [-4.0, 3.0, -3.0], [-2.0, -3.0, 0.0], [-3.0, -2.0, -4.0]], [[4.0, -3.0, -3.0], [1.0, -3.0, 3.0], [3.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-2.0, 2.0, -3.0], [3.0, -1.0, 4.0]], [[-2.0, -1.0, 3.0], [2.0, -4.0, -1.0], [-4.0, 3.0, -1.0], [-2.0, 2.0, 3.0], [-4.0, 0.0, -1.0], [2.0, 4.0, 0.0]], [[2.0, -2.0, 1.0], [0.0, 2.0, -4.0], [-2.0, -4.0, 4.0], [0.0, 0.0, 0.0], [-4.0, 3.0, 3.0], [-4.0, 1.0, 1.0]]]]]> : tensor<1x3x6x6x3xf16> -> tensor<?x?x?x?x?xf16>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?xf16>
  %v4 = arith.constant 0x7C00 : f16
  %v5 = util.unfoldable_constant 1 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 3 : index
  %v8 = util.unfoldable_constant 2 : index
  %v9 = util.unfoldable_constant 2 : index
  %v10 = tensor.empty(%v5, %v6, %v7, %v8, %v9) : tensor<?x?x?x?x?xf16>
  %v11 = linalg.fill ins(%v4 : f16) outs(%v10 : tensor<?x?x?x?x?xf16>) -> tensor<?x?x?x?x?xf16>
  %v12 = linalg.pooling_ncdhw_min {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v3 : tensor<?x?x?x?x?xf16>, tensor<?x?x?xf16>) outs(%v11 : tensor<?x?x?x?x?xf16>) -> tensor<?x?x?x?x?xf16>
  %static0 = tensor.cast %v12 : tensor<?x?x?x?x?xf16> to tensor<1x3x3x2x2xf16>
  check.expect_eq_const(%static0, dense<[[[[[-3.0, -4.0], [-4.0, -4.0]], [[-2.0, -3.0], [-4.0, -4.0]], [[-4.0, -4.0], [-3.0, -4.0]]], [[[-4.0, -3.0], [-4.0, -3.0]], [[-3.0, -4.0], [-4.0, -4.0]], [[-4.0, -4.0], [-3.0, -4.0]]], [[[-4.0, -4.0], [-4.0, -4.0]], [[-4.0, -4.0], [-4.0, -4.0]], [[-4.0, -4.0], [-4.0, -4.0]]]]]> : tensor<1x3x3x2x2xf16>) : tensor<1x3x3x2x2xf16>
  return
}

func.func @pooling_ncdhw_max_unsigned() {
  %x0 = util.unfoldable_constant dense<[[[[[2, 3, -4], [3, 0, 0], [1, -2, 4], [-4, -2, -1], [1, -1, -3], [-4, -4, -4]], [[-3, 4, -3], [1, 2, -2], [-2, -1, -2], [4, -3, 4], [3, 3, -3], [-1, 1, 0]], [[1, 2, 1], [-4, 4, 1], [4, -2, -1], [3, -3, -4], [-1, 2, -3], [3, -1, -2]], [[0, 4, 3], [3, -2, -4], [3, 2, 2], [-4, -4, 0], [-1, -1, 4], [-3, 0, -2]], [[-2, 3, -3], [-2, -3, -3], [-2, 2, 1], [0, -3, 3], [3, -2, -4], [-2, -3, 3]], [[0, 0, -2], [0, 4, -2], [2, -4, -2], [4, 3, -4], [3, 3, 0], [-1, 4, 4]]], [[[2, -1, -3], [4, -2, 1], [2, -2, -2], [2, -3, 2], [4, 2, 1], [0, 4, -3]], [[-1, 1, 1], [-4, -3, 2], [3, 1, 4], [-1, -2, 3], [-4, -3, -3], [-1, -3, 3]], [[3, -1, -4], [2, -4, 1], [-3, 4, 2], [4, 1, 2], [-1, 3, -3], [-3, -1, 2]], [[0, 3, 4], [-1, -1, 0], [1, 0, 1], [4, 2, -2], [-1, -1, -3], [-4, 3, -1]], [[-1, 1, 1], [4, 1, 4], [1, -2, -2], [4, 1, -3], [3, 3, -4], [-3, 2, -1]], [[-1, -4, -3], [3, 3, 3], [1, -3, -2], [0, 4, -2], [0, 0, 0], [0, 2, -4]]], [[[4, 3, 2], [-2, -1, 0], [-2, -4, 2], [-4, 2, -3], [1, -1, -2], [4, 0, 4]], [[-3, 0, -1], [0, -4, 2], [-1, 3, -3], [-1, -4, 3], [0, -1, 4], [1, 4, 2]], [[1, 0, -3], [2, 3, 2], [-1, -4, 2], [-4, 3, -3], [-2, -3, 0], [-3, -2, -4]], [[4, -3, -3], [1, -3, 3], [3, -1, -1], [-1, 2, -1], [-2, 2, -3], [3, -1, 4]], [[-2, -1, 3], [2, -4, -1], [-4, 3, -1], [-2, 2, 3], [-4, 0, -1], [2, 4, 0]], [[2, -2, 1], [0, 2, -4], [-2, -4, 4], [0, 0, 0], [-4, 3, 3], [-4, 1, 1]]]]]> : tensor<1x3x6x6x3xi8>
  %v0 = tensor.empty() : tensor<2x3x2xi8>
  %v1 = arith.constant 0 : i8
  %v2 = tensor.empty() : tensor<1x3x3x2x2xi8>
  %v3 = linalg.fill ins(%v1 : i8) outs(%v2 : tensor<1x3x3x2x2xi8>) -> tensor<1x3x3x2x2xi8>
  %v4 = linalg.pooling_ncdhw_max_unsigned {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v0 : tensor<1x3x6x6x3xi8>, tensor<2x3x2xi8>) outs(%v3 : tensor<1x3x3x2x2xi8>) -> tensor<1x3x3x2x2xi8>
  check.expect_eq_const(%v4, dense<[[[[[-1, -1], [-1, -1]], [[-1, -1], [-1, -1]], [[-2, -2], [-1, -2]]], [[[-1, -1], [-1, -2]], [[-1, -1], [-1, -1]], [[-1, -2], [-3, -1]]], [[[-1, -1], [-1, -1]], [[-1, -1], [-1, -1]], [[-1, -1], [-2, -1]]]]]> : tensor<1x3x3x2x2xi8>) : tensor<1x3x3x2x2xi8>
  return
}

func.func @pooling_ncdhw_min_unsigned() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2, 3, -4], [3, 0, 0], [1, -2, 4], [-4, -2, -1], [1, -1, -3], [-4, -4, -4]], [[-3, 4, -3], [1, 2, -2], [-2, -1, -2], [4, -3, 4], [3, 3, -3], [-1, 1, 0]], [[1, 2, 1], [-4, 4, 1], [4, -2, -1], [3, -3, -4], [-1, 2, -3], [3, -1, -2]], [[0, 4, 3], [3, -2, -4], [3, 2, 2], [-4, -4, 0], [-1, -1, 4], [-3, 0, -2]], [[-2, 3, -3], [-2, -3, -3], [-2, 2, 1], [0, -3, 3], [3, -2, -4], [-2, -3, 3]], [[0, 0, -2], [0, 4, -2], [2, -4, -2], [4, 3, -4], [3, 3, 0], [-1, 4, 4]]], [[[2, -1, -3], [4, -2, 1], [2, -2, -2], [2, -3, 2], [4, 2, 1], [0, 4, -3]], [[-1, 1, 1], [-4, -3, 2], [3, 1, 4], [-1, -2, 3], [-4, -3, -3], [-1, -3, 3]], [[3, -1, -4], [2, -4, 1], [-3, 4, 2], [4, 1, 2], [-1, 3, -3], [-3, -1, 2]], [[0, 3, 4], [-1, -1, 0], [1, 0, 1], [4, 2, -2], [-1, -1, -3], [-4, 3, -1]], [[-1, 1, 1], [4, 1, 4], [1, -2, -2], [4, 1, -3], [3, 3, -4], [-3, 2, -1]], [[-1, -4, -3], [3, 3, 3], [1, -3, -2], [0, 4, -2], [0, 0, 0], [0, 2, -4]]], [[[4, 3, 2], [-2, -1, 0], [-2, -4, 2], [-4, 2, -3], [1, -1, -2], [4, 0, 4]], [[-3, 0, -1], [0, -4, 2], [-1, 3, -3], [-1, -4, 3], [0, -1, 4], [1, 4, 2]], [[1, 0, -3], [2, 3, 2], [-1, -4, 2], [-4, 3, -3], [-2, -3, 0], [-3, -2, -4]], [[4, -3, -3], [1, -3, 3], [3, -1, -1], [-1, 2, -1], [-2, 2, -3], [3, -1, 4]], [[-2, -1, 3], [2, -4, -1], [-4, 3, -1], [-2, 2, 3], [-4, 0, -1], [2, 4, 0]], [[2, -2, 1], [0, 2, -4], [-2, -4, 4], [0, 0, 0], [-4, 3, 3], [-4, 1, 1]]]]]> : tensor<1x3x6x6x3xi8> -> tensor<?x?x?x?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?xi8>
  %v4 = arith.constant -1 : i8
  %v5 = util.unfoldable_constant 1 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 3 : index
  %v8 = util.unfoldable_constant 2 : index
  %v9 = util.unfoldable_constant 2 : index
  %v10 = tensor.empty(%v5, %v6, %v7, %v8, %v9) : tensor<?x?x?x?x?xi8>
  %v11 = linalg.fill ins(%v4 : i8) outs(%v10 : tensor<?x?x?x?x?xi8>) -> tensor<?x?x?x?x?xi8>
  %v12 = linalg.pooling_ncdhw_min_unsigned {dilations = dense<[1, 2, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %v3 : tensor<?x?x?x?x?xi8>, tensor<?x?x?xi8>) outs(%v11 : tensor<?x?x?x?x?xi8>) -> tensor<?x?x?x?x?xi8>
  %static0 = tensor.cast %v12 : tensor<?x?x?x?x?xi8> to tensor<1x3x3x2x2xi8>
  check.expect_eq_const(%static0, dense<[[[[[1, 3], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [0, 3]]], [[[1, 1], [0, 1]], [[0, 0], [1, 0]], [[0, 0], [0, 1]]], [[[0, 0], [0, 0]], [[0, 0], [1, 2]], [[0, 0], [0, 0]]]]]> : tensor<1x3x3x2x2xi8>) : tensor<1x3x3x2x2xi8>
  return
}
