// Written by tests/ops/write_checks.py; the expected values are NumPy's.

func.func @matmul_i8_static() {
  %x0 = util.unfoldable_constant dense<[[3, 1, 0, -2], [-2, -4, -4, -4], [-3, 3, 1, 4]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[[0, 1, 4, 2, 1], [0, 1, 4, -2, 3], [2, -4, -1, 3, 0], [-4, 2, 2, 3, -3]]> : tensor<4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<3x5xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v3 = linalg.matmul ins(%x0, %x1 : tensor<3x4xi8>, tensor<4x5xi8>) outs(%v2 : tensor<3x5xi32>) -> tensor<3x5xi32>
  check.expect_eq_const(%v3, dense<[[8, 0, 12, -2, 12], [8, 2, -28, -20, -2], [-14, 4, 7, 3, -6]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @matmul_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[3.0, 1.0, 0.0, -2.0], [-2.0, -4.0, -4.0, -4.0], [-3.0, 3.0, 1.0, 4.0]]> : tensor<3x4xf32> -> tensor<?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[0.0, 1.0, 4.0, 2.0, 1.0], [0.0, 1.0, 4.0, -2.0, 3.0], [2.0, -4.0, -1.0, 3.0, 0.0], [-4.0, 2.0, 2.0, 3.0, -3.0]]> : tensor<4x5xf32> -> tensor<?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.matmul ins(%x0, %x1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[8.0, 0.0, 12.0, -2.0, 12.0], [8.0, 2.0, -28.0, -20.0, -2.0], [-14.0, 4.0, 7.0, 3.0, -6.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @matmul_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[3.0, 1.0, 0.0, -2.0], [-2.0, -4.0, -4.0, -4.0], [-3.0, 3.0, 1.0, 4.0]]> : tensor<3x4xf16> -> tensor<?x4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[0.0, 1.0, 4.0, 2.0, 1.0], [0.0, 1.0, 4.0, -2.0, 3.0], [2.0, -4.0, -1.0, 3.0, 0.0], [-4.0, 2.0, 2.0, 3.0, -3.0]]> : tensor<4x5xf16> -> tensor<4x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.matmul ins(%x0, %x1 : tensor<?x4xf16>, tensor<4x?xf16>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[8.0, 0.0, 12.0, -2.0, 12.0], [8.0, 2.0, -28.0, -20.0, -2.0], [-14.0, 4.0, 7.0, 3.0, -6.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @matmul_transpose_a_i8_static() {
  %x0 = util.unfoldable_constant dense<[[0, 0, 2], [4, -4, -3], [3, 4, -2], [-2, 3, -1]]> : tensor<4x3xi8>
  %x1 = util.unfoldable_constant dense<[[-2, 3, -2, -1, 1], [0, -4, -4, 3, 2], [3, 0, 3, -2, 0], [3, -3, -2, -3, 0]]> : tensor<4x5xi8>
  %x2 = util.unfoldable_constant dense<[[4, -3, -1, -1, 4], [-3, 0, -2, -4, 2], [-4, -2, 0, 0, -3]]> : tensor<3x5xi32>
  %v0 = linalg.matmul_transpose_a ins(%x0, %x1 : tensor<4x3xi8>, tensor<4x5xi8>) outs(%x2 : tensor<3x5xi32>) -> tensor<3x5xi32>
  check.expect_eq_const(%v0, dense<[[7, -13, -4, 11, 12], [18, 7, 20, -33, -6], [-17, 19, 4, -4, -7]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @matmul_transpose_a_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[0.0, 0.0, 2.0], [4.0, -4.0, -3.0], [3.0, 4.0, -2.0], [-2.0, 3.0, -1.0]]> : tensor<4x3xf32> -> tensor<?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[-2.0, 3.0, -2.0, -1.0, 1.0], [0.0, -4.0, -4.0, 3.0, 2.0], [3.0, 0.0, 3.0, -2.0, 0.0], [3.0, -3.0, -2.0, -3.0, 0.0]]> : tensor<4x5xf32> -> tensor<?x?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[[4.0, -3.0, -1.0, -1.0, 4.0], [-3.0, 0.0, -2.0, -4.0, 2.0], [-4.0, -2.0, 0.0, 0.0, -3.0]]> : tensor<3x5xf32> -> tensor<?x?xf32>
  %v0 = linalg.matmul_transpose_a ins(%x0, %x1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%x2 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[7.0, -13.0, -4.0, 11.0, 12.0], [18.0, 7.0, 20.0, -33.0, -6.0], [-17.0, 19.0, 4.0, -4.0, -7.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @matmul_transpose_a_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[0.0, 0.0, 2.0], [4.0, -4.0, -3.0], [3.0, 4.0, -2.0], [-2.0, 3.0, -1.0]]> : tensor<4x3xf16> -> tensor<4x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[-2.0, 3.0, -2.0, -1.0, 1.0], [0.0, -4.0, -4.0, 3.0, 2.0], [3.0, 0.0, 3.0, -2.0, 0.0], [3.0, -3.0, -2.0, -3.0, 0.0]]> : tensor<4x5xf16> -> tensor<4x?xf16>
  %x2 = flow.tensor.dynamic_constant dense<[[4.0, -3.0, -1.0, -1.0, 4.0], [-3.0, 0.0, -2.0, -4.0, 2.0], [-4.0, -2.0, 0.0, 0.0, -3.0]]> : tensor<3x5xf32> -> tensor<?x?xf32>
  %v0 = linalg.matmul_transpose_a ins(%x0, %x1 : tensor<4x?xf16>, tensor<4x?xf16>) outs(%x2 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[7.0, -13.0, -4.0, 11.0, 12.0], [18.0, 7.0, 20.0, -33.0, -6.0], [-17.0, 19.0, 4.0, -4.0, -7.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @matmul_transpose_b_i8_static() {
  %x0 = util.unfoldable_constant dense<[[3, -2, -4, -2], [-1, 3, 0, -4], [-1, 1, 3, 2]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[[4, -3, 3, -4], [1, -2, -3, 1], [-2, 1, -2, -3], [2, -1, 2, 2], [4, -1, -3, 1]]> : tensor<5x4xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<3x5xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v3 = linalg.matmul_transpose_b ins(%x0, %x1 : tensor<3x4xi8>, tensor<5x4xi8>) outs(%v2 : tensor<3x5xi32>) -> tensor<3x5xi32>
  check.expect_eq_const(%v3, dense<[[14, 17, 6, -4, 24], [3, -11, 17, -13, -11], [-6, -10, -9, 7, -12]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @matmul_transpose_b_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[3.0, -2.0, -4.0, -2.0], [-1.0, 3.0, 0.0, -4.0], [-1.0, 1.0, 3.0, 2.0]]> : tensor<3x4xf32> -> tensor<?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[4.0, -3.0, 3.0, -4.0], [1.0, -2.0, -3.0, 1.0], [-2.0, 1.0, -2.0, -3.0], [2.0, -1.0, 2.0, 2.0], [4.0, -1.0, -3.0, 1.0]]> : tensor<5x4xf32> -> tensor<?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.matmul_transpose_b ins(%x0, %x1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[14.0, 17.0, 6.0, -4.0, 24.0], [3.0, -11.0, 17.0, -13.0, -11.0], [-6.0, -10.0, -9.0, 7.0, -12.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @matmul_transpose_b_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[3.0, -2.0, -4.0, -2.0], [-1.0, 3.0, 0.0, -4.0], [-1.0, 1.0, 3.0, 2.0]]> : tensor<3x4xf16> -> tensor<?x4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[4.0, -3.0, 3.0, -4.0], [1.0, -2.0, -3.0, 1.0], [-2.0, 1.0, -2.0, -3.0], [2.0, -1.0, 2.0, 2.0], [4.0, -1.0, -3.0, 1.0]]> : tensor<5x4xf16> -> tensor<?x4xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.matmul_transpose_b ins(%x0, %x1 : tensor<?x4xf16>, tensor<?x4xf16>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[14.0, 17.0, 6.0, -4.0, 24.0], [3.0, -11.0, 17.0, -13.0, -11.0], [-6.0, -10.0, -9.0, 7.0, -12.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @batch_matmul_i8_static() {
  %x0 = util.unfoldable_constant dense<[[[3, -4, -3, -2], [-3, 3, 3, 1], [-4, -4, -2, -1]], [[1, 0, -2, -3], [2, 2, -4, -3], [0, -1, 3, 0]]]> : tensor<2x3x4xi8>
  %x1 = util.unfoldable_constant dense<[[[-1, -1, 1, 1, -3], [2, 2, 4, 3, -2], [-2, 1, 1, 2, 3], [-2, 4, -4, -4, 4]], [[4, -2, -3, -2, -4], [4, 1, 1, -2, 0], [-3, 2, 0, -4, -2], [2, 0, -1, -2, -4]]]> : tensor<2x4x5xi8>
  %x2 = util.unfoldable_constant dense<[[[1, 1, 0, 4, 4], [-3, 1, 1, -2, -2], [0, 2, -2, 2, 1]], [[-3, -1, 3, 3, 1], [-4, 2, -2, 3, 4], [-1, 4, 2, -2, 3]]]> : tensor<2x3x5xi32>
  %v0 = linalg.batch_matmul ins(%x0, %x1 : tensor<2x3x4xi8>, tensor<2x4x5xi8>) outs(%x2 : tensor<2x3x5xi32>) -> tensor<2x3x5xi32>
  check.expect_eq_const(%v0, dense<[[[0, -21, -8, -3, -14], [-2, 17, 9, 6, 14], [2, -8, -20, -14, 11]], [[1, -7, 3, 15, 13], [18, -8, -3, 17, 16], [-14, 9, 1, -12, -3]]]> : tensor<2x3x5xi32>) : tensor<2x3x5xi32>
  return
}

func.func @batch_matmul_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3.0, -4.0, -3.0, -2.0], [-3.0, 3.0, 3.0, 1.0], [-4.0, -4.0, -2.0, -1.0]], [[1.0, 0.0, -2.0, -3.0], [2.0, 2.0, -4.0, -3.0], [0.0, -1.0, 3.0, 0.0]]]> : tensor<2x3x4xf32> -> tensor<?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[-1.0, -1.0, 1.0, 1.0, -3.0], [2.0, 2.0, 4.0, 3.0, -2.0], [-2.0, 1.0, 1.0, 2.0, 3.0], [-2.0, 4.0, -4.0, -4.0, 4.0]], [[4.0, -2.0, -3.0, -2.0, -4.0], [4.0, 1.0, 1.0, -2.0, 0.0], [-3.0, 2.0, 0.0, -4.0, -2.0], [2.0, 0.0, -1.0, -2.0, -4.0]]]> : tensor<2x4x5xf32> -> tensor<?x?x?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[[[1.0, 1.0, 0.0, 4.0, 4.0], [-3.0, 1.0, 1.0, -2.0, -2.0], [0.0, 2.0, -2.0, 2.0, 1.0]], [[-3.0, -1.0, 3.0, 3.0, 1.0], [-4.0, 2.0, -2.0, 3.0, 4.0], [-1.0, 4.0, 2.0, -2.0, 3.0]]]> : tensor<2x3x5xf32> -> tensor<?x?x?xf32>
  %v0 = linalg.batch_matmul ins(%x0, %x1 : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%x2 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?x?xf32> to tensor<2x3x5xf32>
  check.expect_eq_const(%static0, dense<[[[0.0, -21.0, -8.0, -3.0, -14.0], [-2.0, 17.0, 9.0, 6.0, 14.0], [2.0, -8.0, -20.0, -14.0, 11.0]], [[1.0, -7.0, 3.0, 15.0, 13.0], [18.0, -8.0, -3.0, 17.0, 16.0], [-14.0, 9.0, 1.0, -12.0, -3.0]]]> : tensor<2x3x5xf32>) : tensor<2x3x5xf32>
  return
}

func.func @batch_matmul_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3.0, -4.0, -3.0, -2.0], [-3.0, 3.0, 3.0, 1.0], [-4.0, -4.0, -2.0, -1.0]], [[1.0, 0.0, -2.0, -3.0], [2.0, 2.0, -4.0, -3.0], [0.0, -1.0, 3.0, 0.0]]]> : tensor<2x3x4xf16> -> tensor<2x?x4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[-1.0, -1.0, 1.0, 1.0, -3.0], [2.0, 2.0, 4.0, 3.0, -2.0], [-2.0, 1.0, 1.0, 2.0, 3.0], [-2.0, 4.0, -4.0, -4.0, 4.0]], [[4.0, -2.0, -3.0, -2.0, -4.0], [4.0, 1.0, 1.0, -2.0, 0.0], [-3.0, 2.0, 0.0, -4.0, -2.0], [2.0, 0.0, -1.0, -2.0, -4.0]]]> : tensor<2x4x5xf16> -> tensor<2x4x?xf16>
  %x2 = flow.tensor.dynamic_constant dense<[[[1.0, 1.0, 0.0, 4.0, 4.0], [-3.0, 1.0, 1.0, -2.0, -2.0], [0.0, 2.0, -2.0, 2.0, 1.0]], [[-3.0, -1.0, 3.0, 3.0, 1.0], [-4.0, 2.0, -2.0, 3.0, 4.0], [-1.0, 4.0, 2.0, -2.0, 3.0]]]> : tensor<2x3x5xf32> -> tensor<2x?x?xf32>
  %v0 = linalg.batch_matmul ins(%x0, %x1 : tensor<2x?x4xf16>, tensor<2x4x?xf16>) outs(%x2 : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<2x?x?xf32> to tensor<2x3x5xf32>
  check.expect_eq_const(%static0, dense<[[[0.0, -21.0, -8.0, -3.0, -14.0], [-2.0, 17.0, 9.0, 6.0, 14.0], [2.0, -8.0, -20.0, -14.0, 11.0]], [[1.0, -7.0, 3.0, 15.0, 13.0], [18.0, -8.0, -3.0, 17.0, 16.0], [-14.0, 9.0, 1.0, -12.0, -3.0]]]> : tensor<2x3x5xf32>) : tensor<2x3x5xf32>
  return
}

func.func @batch_matmul_transpose_a_i8_static() {
  %x0 = util.unfoldable_constant dense<[[[2, 4, 3], [0, 4, 4], [4, -4, 0], [1, -2, -1]], [[1, 3, 1], [-3, 2, 3], [-3, 0, -1], [4, -4, 0]]]> : tensor<2x4x3xi8>
  %x1 = util.unfoldable_constant dense<[[[4, -1, -3, 3, 4], [4, 4, -1, 2, 4], [1, 4, 1, -3, 0], [1, -2, 2, -1, 4]], [[-3, 1, -4, -3, 0], [0, 0, 0, 3, 0], [-1, 4, 3, -1, -3], [-2, -3, 0, 1, 1]]]> : tensor<2x4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<2x3x5xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<2x3x5xi32>) -> tensor<2x3x5xi32>
  %v3 = linalg.batch_matmul_transpose_a ins(%x0, %x1 : tensor<2x4x3xi8>, tensor<2x4x5xi8>) outs(%v2 : tensor<2x3x5xi32>) -> tensor<2x3x5xi32>
  check.expect_eq_const(%v3, dense<[[[13, 12, 0, -7, 12], [26, 0, -24, 34, 24], [27, 15, -15, 18, 24]], [[-8, -23, -13, -5, 13], [-1, 15, -12, -7, -4], [-2, -3, -7, 7, 3]]]> : tensor<2x3x5xi32>) : tensor<2x3x5xi32>
  return
}

func.func @batch_matmul_transpose_a_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[2.0, 4.0, 3.0], [0.0, 4.0, 4.0], [4.0, -4.0, 0.0], [1.0, -2.0, -1.0]], [[1.0, 3.0, 1.0], [-3.0, 2.0, 3.0], [-3.0, 0.0, -1.0], [4.0, -4.0, 0.0]]]> : tensor<2x4x3xf32> -> tensor<?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[4.0, -1.0, -3.0, 3.0, 4.0], [4.0, 4.0, -1.0, 2.0, 4.0], [1.0, 4.0, 1.0, -3.0, 0.0], [1.0, -2.0, 2.0, -1.0, 4.0]], [[-3.0, 1.0, -4.0, -3.0, 0.0], [0.0, 0.0, 0.0, 3.0, 0.0], [-1.0, 4.0, 3.0, -1.0, -3.0], [-2.0, -3.0, 0.0, 1.0, 1.0]]]> : tensor<2x4x5xf32> -> tensor<?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 2 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 5 : index
  %v4 = tensor.empty(%v1, %v2, %v3) : tensor<?x?x?xf32>
  %v5 = linalg.fill ins(%v0 : f32) outs(%v4 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %v6 = linalg.batch_matmul_transpose_a ins(%x0, %x1 : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%v5 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v6 : tensor<?x?x?xf32> to tensor<2x3x5xf32>
  check.expect_eq_const(%static0, dense<[[[13.0, 12.0, 0.0, -7.0, 12.0], [26.0, 0.0, -24.0, 34.0, 24.0], [27.0, 15.0, -15.0, 18.0, 24.0]], [[-8.0, -23.0, -13.0, -5.0, 13.0], [-1.0, 15.0, -12.0, -7.0, -4.0], [-2.0, -3.0, -7.0, 7.0, 3.0]]]> : tensor<2x3x5xf32>) : tensor<2x3x5xf32>
  return
}

func.func @batch_matmul_transpose_a_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[[2.0, 4.0, 3.0], [0.0, 4.0, 4.0], [4.0, -4.0, 0.0], [1.0, -2.0, -1.0]], [[1.0, 3.0, 1.0], [-3.0, 2.0, 3.0], [-3.0, 0.0, -1.0], [4.0, -4.0, 0.0]]]> : tensor<2x4x3xf16> -> tensor<2x4x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[4.0, -1.0, -3.0, 3.0, 4.0], [4.0, 4.0, -1.0, 2.0, 4.0], [1.0, 4.0, 1.0, -3.0, 0.0], [1.0, -2.0, 2.0, -1.0, 4.0]], [[-3.0, 1.0, -4.0, -3.0, 0.0], [0.0, 0.0, 0.0, 3.0, 0.0], [-1.0, 4.0, 3.0, -1.0, -3.0], [-2.0, -3.0, 0.0, 1.0, 1.0]]]> : tensor<2x4x5xf16> -> tensor<2x4x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<2x?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %v5 = linalg.batch_matmul_transpose_a ins(%x0, %x1 : tensor<2x4x?xf16>, tensor<2x4x?xf16>) outs(%v4 : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %static0 = tensor.cast %v5 : tensor<2x?x?xf32> to tensor<2x3x5xf32>
  check.expect_eq_const(%static0, dense<[[[13.0, 12.0, 0.0, -7.0, 12.0], [26.0, 0.0, -24.0, 34.0, 24.0], [27.0, 15.0, -15.0, 18.0, 24.0]], [[-8.0, -23.0, -13.0, -5.0, 13.0], [-1.0, 15.0, -12.0, -7.0, -4.0], [-2.0, -3.0, -7.0, 7.0, 3.0]]]> : tensor<2x3x5xf32>) : tensor<2x3x5xf32>
  return
}

func.func @batch_matmul_transpose_b_i8_static() {
  %x0 = util.unfoldable_constant dense<[[[2, 3, -4, 3], [0, 0, 1, -2], [4, -4, -2, -1]], [[1, -1, -3, -4], [-4, -4, -3, 4], [-3, 1, 2, -2]]]> : tensor<2x3x4xi8>
  %x1 = util.unfoldable_constant dense<[[[-2, -1, -2, 4], [-3, 4, 3, 3], [-3, -1, 1, 0], [1, 2, 1, -4], [4, 1, 4, -2]], [[-1, 3, -3, -4], [-1, 2, -3, 3], [-1, -2, 0, 4], [3, 3, -2, -4], [3, 2, 2, -4]]]> : tensor<2x5x4xi8>
  %x2 = util.unfoldable_constant dense<[[[-4, 0, -1, -1, 4], [-3, 0, -2, -2, 3], [-3, -2, -3, -3, -2]], [[2, 1, 0, -3, 3], [3, -2, -4, -2, -3], [3, 0, 0, -2, 0]]]> : tensor<2x3x5xi32>
  %v0 = linalg.batch_matmul_transpose_b ins(%x0, %x1 : tensor<2x3x4xi8>, tensor<2x5x4xi8>) outs(%x2 : tensor<2x3x5xi32>) -> tensor<2x3x5xi32>
  check.expect_eq_const(%v0, dense<[[[9, 3, -14, -9, -7], [-13, -3, -1, 7, 11], [-7, -39, -13, -5, 4]], [[23, -5, -15, 19, 14], [-12, 15, 24, -36, -45], [11, -7, -7, -4, 5]]]> : tensor<2x3x5xi32>) : tensor<2x3x5xi32>
  return
}

func.func @batch_matmul_transpose_b_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[2.0, 3.0, -4.0, 3.0], [0.0, 0.0, 1.0, -2.0], [4.0, -4.0, -2.0, -1.0]], [[1.0, -1.0, -3.0, -4.0], [-4.0, -4.0, -3.0, 4.0], [-3.0, 1.0, 2.0, -2.0]]]> : tensor<2x3x4xf32> -> tensor<?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[-2.0, -1.0, -2.0, 4.0], [-3.0, 4.0, 3.0, 3.0], [-3.0, -1.0, 1.0, 0.0], [1.0, 2.0, 1.0, -4.0], [4.0, 1.0, 4.0, -2.0]], [[-1.0, 3.0, -3.0, -4.0], [-1.0, 2.0, -3.0, 3.0], [-1.0, -2.0, 0.0, 4.0], [3.0, 3.0, -2.0, -4.0], [3.0, 2.0, 2.0, -4.0]]]> : tensor<2x5x4xf32> -> tensor<?x?x?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[[[-4.0, 0.0, -1.0, -1.0, 4.0], [-3.0, 0.0, -2.0, -2.0, 3.0], [-3.0, -2.0, -3.0, -3.0, -2.0]], [[2.0, 1.0, 0.0, -3.0, 3.0], [3.0, -2.0, -4.0, -2.0, -3.0], [3.0, 0.0, 0.0, -2.0, 0.0]]]> : tensor<2x3x5xf32> -> tensor<?x?x?xf32>
  %v0 = linalg.batch_matmul_transpose_b ins(%x0, %x1 : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%x2 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?x?xf32> to tensor<2x3x5xf32>
  check.expect_eq_const(%static0, dense<[[[9.0, 3.0, -14.0, -9.0, -7.0], [-13.0, -3.0, -1.0, 7.0, 11.0], [-7.0, -39.0, -13.0, -5.0, 4.0]], [[23.0, -5.0, -15.0, 19.0, 14.0], [-12.0, 15.0, 24.0, -36.0, -45.0], [11.0, -7.0, -7.0, -4.0, 5.0]]]> : tensor<2x3x5xf32>) : tensor<2x3x5xf32>
  return
}

func.func @batch_matmul_transpose_b_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[[2.0, 3.0, -4.0, 3.0], [0.0, 0.0, 1.0, -2.0], [4.0, -4.0, -2.0, -1.0]], [[1.0, -1.0, -3.0, -4.0], [-4.0, -4.0, -3.0, 4.0], [-3.0, 1.0, 2.0, -2.0]]]> : tensor<2x3x4xf16> -> tensor<2x?x4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[-2.0, -1.0, -2.0, 4.0], [-3.0, 4.0, 3.0, 3.0], [-3.0, -1.0, 1.0, 0.0], [1.0, 2.0, 1.0, -4.0], [4.0, 1.0, 4.0, -2.0]], [[-1.0, 3.0, -3.0, -4.0], [-1.0, 2.0, -3.0, 3.0], [-1.0, -2.0, 0.0, 4.0], [3.0, 3.0, -2.0, -4.0], [3.0, 2.0, 2.0, -4.0]]]> : tensor<2x5x4xf16> -> tensor<2x?x4xf16>
  %x2 = flow.tensor.dynamic_constant dense<[[[-4.0, 0.0, -1.0, -1.0, 4.0], [-3.0, 0.0, -2.0, -2.0, 3.0], [-3.0, -2.0, -3.0, -3.0, -2.0]], [[2.0, 1.0, 0.0, -3.0, 3.0], [3.0, -2.0, -4.0, -2.0, -3.0], [3.0, 0.0, 0.0, -2.0, 0.0]]]> : tensor<2x3x5xf32> -> tensor<2x?x?xf32>
  %v0 = linalg.batch_matmul_transpose_b ins(%x0, %x1 : tensor<2x?x4xf16>, tensor<2x?x4xf16>) outs(%x2 : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<2x?x?xf32> to tensor<2x3x5xf32>
  check.expect_eq_const(%static0, dense<[[[9.0, 3.0, -14.0, -9.0, -7.0], [-13.0, -3.0, -1.0, 7.0, 11.0], [-7.0, -39.0, -13.0, -5.0, 4.0]], [[23.0, -5.0, -15.0, 19.0, 14.0], [-12.0, 15.0, 24.0, -36.0, -45.0], [11.0, -7.0, -7.0, -4.0, 5.0]]]> : tensor<2x3x5xf32>) : tensor<2x3x5xf32>
  return
}

func.func @batch_reduce_matmul_i8_static() {
  %x0 = util.unfoldable_constant dense<[[[0, 0, 0, -1], [4, -1, 1, -1], [0, 4, -3, 1]], [[-1, 2, 2, -2], [2, 2, 0, -3], [1, -4, 3, 3]]]> : tensor<2x3x4xi8>
  %x1 = util.unfoldable_constant dense<[[[3, -4, 4, 4, 1], [3, 2, 3, -3, -4], [-2, -3, 0, 3, 2], [-1, 0, 1, 2, -3]], [[3, -3, 1, 0, 3], [2, -3, 0, -4, -4], [0, 3, -3, -3, 4], [-1, -3, 1, -2, -2]]]> : tensor<2x4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<3x5xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v3 = linalg.batch_reduce_matmul ins(%x0, %x1 : tensor<2x3x4xi8>, tensor<2x4x5xi8>) outs(%v2 : tensor<3x5xi32>) -> tensor<3x5xi32>
  check.expect_eq_const(%v3, dense<[[4, 9, -10, -12, 4], [21, -24, 11, 18, 17], [9, 26, 8, -18, 0]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @batch_reduce_matmul_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[0.0, 0.0, 0.0, -1.0], [4.0, -1.0, 1.0, -1.0], [0.0, 4.0, -3.0, 1.0]], [[-1.0, 2.0, 2.0, -2.0], [2.0, 2.0, 0.0, -3.0], [1.0, -4.0, 3.0, 3.0]]]> : tensor<2x3x4xf32> -> tensor<?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[3.0, -4.0, 4.0, 4.0, 1.0], [3.0, 2.0, 3.0, -3.0, -4.0], [-2.0, -3.0, 0.0, 3.0, 2.0], [-1.0, 0.0, 1.0, 2.0, -3.0]], [[3.0, -3.0, 1.0, 0.0, 3.0], [2.0, -3.0, 0.0, -4.0, -4.0], [0.0, 3.0, -3.0, -3.0, 4.0], [-1.0, -3.0, 1.0, -2.0, -2.0]]]> : tensor<2x4x5xf32> -> tensor<?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.batch_reduce_matmul ins(%x0, %x1 : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[4.0, 9.0, -10.0, -12.0, 4.0], [21.0, -24.0, 11.0, 18.0, 17.0], [9.0, 26.0, 8.0, -18.0, 0.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @batch_reduce_matmul_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[[0.0, 0.0, 0.0, -1.0], [4.0, -1.0, 1.0, -1.0], [0.0, 4.0, -3.0, 1.0]], [[-1.0, 2.0, 2.0, -2.0], [2.0, 2.0, 0.0, -3.0], [1.0, -4.0, 3.0, 3.0]]]> : tensor<2x3x4xf16> -> tensor<2x?x4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[3.0, -4.0, 4.0, 4.0, 1.0], [3.0, 2.0, 3.0, -3.0, -4.0], [-2.0, -3.0, 0.0, 3.0, 2.0], [-1.0, 0.0, 1.0, 2.0, -3.0]], [[3.0, -3.0, 1.0, 0.0, 3.0], [2.0, -3.0, 0.0, -4.0, -4.0], [0.0, 3.0, -3.0, -3.0, 4.0], [-1.0, -3.0, 1.0, -2.0, -2.0]]]> : tensor<2x4x5xf16> -> tensor<2x4x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.batch_reduce_matmul ins(%x0, %x1 : tensor<2x?x4xf16>, tensor<2x4x?xf16>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[4.0, 9.0, -10.0, -12.0, 4.0], [21.0, -24.0, 11.0, 18.0, 17.0], [9.0, 26.0, 8.0, -18.0, 0.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @matvec_i8_static() {
  %x0 = util.unfoldable_constant dense<[[4, 1, 2, 4], [1, 2, 3, -2], [-4, -2, -2, 3]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[4, -4, 0, 3]> : tensor<4xi8>
  %x2 = util.unfoldable_constant dense<[-3, 3, -3]> : tensor<3xi32>
  %v0 = linalg.matvec ins(%x0, %x1 : tensor<3x4xi8>, tensor<4xi8>) outs(%x2 : tensor<3xi32>) -> tensor<3xi32>
  check.expect_eq_const(%v0, dense<[21, -7, -2]> : tensor<3xi32>) : tensor<3xi32>
  return
}

func.func @matvec_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[4.0, 1.0, 2.0, 4.0], [1.0, 2.0, 3.0, -2.0], [-4.0, -2.0, -2.0, 3.0]]> : tensor<3x4xf32> -> tensor<?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[4.0, -4.0, 0.0, 3.0]> : tensor<4xf32> -> tensor<?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[-3.0, 3.0, -3.0]> : tensor<3xf32> -> tensor<?xf32>
  %v0 = linalg.matvec ins(%x0, %x1 : tensor<?x?xf32>, tensor<?xf32>) outs(%x2 : tensor<?xf32>) -> tensor<?xf32>
  %static0 = tensor.cast %v0 : tensor<?xf32> to tensor<3xf32>
  check.expect_eq_const(%static0, dense<[21.0, -7.0, -2.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}

func.func @matvec_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[4.0, 1.0, 2.0, 4.0], [1.0, 2.0, 3.0, -2.0], [-4.0, -2.0, -2.0, 3.0]]> : tensor<3x4xf16> -> tensor<?x4xf16>
  %x1 = util.unfoldable_constant dense<[4.0, -4.0, 0.0, 3.0]> : tensor<4xf16>
  %x2 = flow.tensor.dynamic_constant dense<[-3.0, 3.0, -3.0]> : tensor<3xf32> -> tensor<?xf32>
  %v0 = linalg.matvec ins(%x0, %x1 : tensor<?x4xf16>, tensor<4xf16>) outs(%x2 : tensor<?xf32>) -> tensor<?xf32>
  %static0 = tensor.cast %v0 : tensor<?xf32> to tensor<3xf32>
  check.expect_eq_const(%static0, dense<[21.0, -7.0, -2.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}

func.func @vecmat_i8_static() {
  %x0 = util.unfoldable_constant dense<[2, -2, -2, 4]> : tensor<4xi8>
  %x1 = util.unfoldable_constant dense<[[-3, -2, 1, 3, 1], [3, -4, -1, 1, -1], [-1, -1, -4, -4, 0], [0, 4, -2, 3, -2]]> : tensor<4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<5xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<5xi32>) -> tensor<5xi32>
  %v3 = linalg.vecmat ins(%x0, %x1 : tensor<4xi8>, tensor<4x5xi8>) outs(%v2 : tensor<5xi32>) -> tensor<5xi32>
  check.expect_eq_const(%v3, dense<[-10, 22, 4, 24, -4]> : tensor<5xi32>) : tensor<5xi32>
  return
}

func.func @vecmat_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[2.0, -2.0, -2.0, 4.0]> : tensor<4xf32> -> tensor<?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[-3.0, -2.0, 1.0, 3.0, 1.0], [3.0, -4.0, -1.0, 1.0, -1.0], [-1.0, -1.0, -4.0, -4.0, 0.0], [0.0, 4.0, -2.0, 3.0, -2.0]]> : tensor<4x5xf32> -> tensor<?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 5 : index
  %v2 = tensor.empty(%v1) : tensor<?xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<?xf32>) -> tensor<?xf32>
  %v4 = linalg.vecmat ins(%x0, %x1 : tensor<?xf32>, tensor<?x?xf32>) outs(%v3 : tensor<?xf32>) -> tensor<?xf32>
  %static0 = tensor.cast %v4 : tensor<?xf32> to tensor<5xf32>
  check.expect_eq_const(%static0, dense<[-10.0, 22.0, 4.0, 24.0, -4.0]> : tensor<5xf32>) : tensor<5xf32>
  return
}

func.func @vecmat_f16_mixed() {
  %x0 = util.unfoldable_constant dense<[2.0, -2.0, -2.0, 4.0]> : tensor<4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[-3.0, -2.0, 1.0, 3.0, 1.0], [3.0, -4.0, -1.0, 1.0, -1.0], [-1.0, -1.0, -4.0, -4.0, 0.0], [0.0, 4.0, -2.0, 3.0, -2.0]]> : tensor<4x5xf16> -> tensor<4x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 5 : index
  %v2 = tensor.empty(%v1) : tensor<?xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<?xf32>) -> tensor<?xf32>
  %v4 = linalg.vecmat ins(%x0, %x1 : tensor<4xf16>, tensor<4x?xf16>) outs(%v3 : tensor<?xf32>) -> tensor<?xf32>
  %static0 = tensor.cast %v4 : tensor<?xf32> to tensor<5xf32>
  check.expect_eq_const(%static0, dense<[-10.0, 22.0, 4.0, 24.0, -4.0]> : tensor<5xf32>) : tensor<5xf32>
  return
}

func.func @batch_matvec_i8_static() {
  %x0 = util.unfoldable_constant dense<[[[-1, 3, 4, -2], [-3, 1, 2, 2], [1, 2, 4, 4]], [[4, 3, 2, 4], [-4, -4, 3, -1], [2, 0, 4, -4]]]> : tensor<2x3x4xi8>
  %x1 = util.unfoldable_constant dense<[[2, -4, -3, 3], [-2, 4, -1, 3]]> : tensor<2x4xi8>
  %x2 = util.unfoldable_constant dense<[[4, -2, 4], [2, 4, -2]]> : tensor<2x3xi32>
  %v0 = linalg.batch_matvec ins(%x0, %x1 : tensor<2x3x4xi8>, tensor<2x4xi8>) outs(%x2 : tensor<2x3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const(%v0, dense<[[-28, -12, -2], [16, -10, -22]]> : tensor<2x3xi32>) : tensor<2x3xi32>
  return
}

func.func @batch_matvec_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[-1.0, 3.0, 4.0, -2.0], [-3.0, 1.0, 2.0, 2.0], [1.0, 2.0, 4.0, 4.0]], [[4.0, 3.0, 2.0, 4.0], [-4.0, -4.0, 3.0, -1.0], [2.0, 0.0, 4.0, -4.0]]]> : tensor<2x3x4xf32> -> tensor<?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[2.0, -4.0, -3.0, 3.0], [-2.0, 4.0, -1.0, 3.0]]> : tensor<2x4xf32> -> tensor<?x?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[[4.0, -2.0, 4.0], [2.0, 4.0, -2.0]]> : tensor<2x3xf32> -> tensor<?x?xf32>
  %v0 = linalg.batch_matvec ins(%x0, %x1 : tensor<?x?x?xf32>, tensor<?x?xf32>) outs(%x2 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?xf32> to tensor<2x3xf32>
  check.expect_eq_const(%static0, dense<[[-28.0, -12.0, -2.0], [16.0, -10.0, -22.0]]> : tensor<2x3xf32>) : tensor<2x3xf32>
  return
}

func.func @batch_matvec_f16_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[[[-1.0, 3.0, 4.0, -2.0], [-3.0, 1.0, 2.0, 2.0], [1.0, 2.0, 4.0, 4.0]], [[4.0, 3.0, 2.0, 4.0], [-4.0, -4.0, 3.0, -1.0], [2.0, 0.0, 4.0, -4.0]]]> : tensor<2x3x4xf16> -> tensor<2x?x4xf16>
  %x1 = util.unfoldable_constant dense<[[2.0, -4.0, -3.0, 3.0], [-2.0, 4.0, -1.0, 3.0]]> : tensor<2x4xf16>
  %x2 = flow.tensor.dynamic_constant dense<[[4.0, -2.0, 4.0], [2.0, 4.0, -2.0]]> : tensor<2x3xf32> -> tensor<2x?xf32>
  %v0 = linalg.batch_matvec ins(%x0, %x1 : tensor<2x?x4xf16>, tensor<2x4xf16>) outs(%x2 : tensor<2x?xf32>) -> tensor<2x?xf32>
  %static0 = tensor.cast %v0 : tensor<2x?xf32> to tensor<2x3xf32>
  check.expect_eq_const(%static0, dense<[[-28.0, -12.0, -2.0], [16.0, -10.0, -22.0]]> : tensor<2x3xf32>) : tensor<2x3xf32>
  return
}

func.func @batch_vecmat_i8_static() {
  %x0 = util.unfoldable_constant dense<[[2, 4, -2, -3], [3, 3, 0, -3]]> : tensor<2x4xi8>
  %x1 = util.unfoldable_constant dense<[[[3, 0, -3, -3, -1], [2, -1, 3, -4, -1], [0, 4, -2, 3, -4], [-1, 2, 1, 4, 2]], [[4, 3, -3, 4, 3], [-3, 4, 2, -2, -3], [-1, 4, 3, -2, 0], [3, 1, -2, -3, 4]]]> : tensor<2x4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<2x5xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<2x5xi32>) -> tensor<2x5xi32>
  %v3 = linalg.batch_vecmat ins(%x0, %x1 : tensor<2x4xi8>, tensor<2x4x5xi8>) outs(%v2 : tensor<2x5xi32>) -> tensor<2x5xi32>
  check.expect_eq_const(%v3, dense<[[17, -18, 7, -40, -4], [-6, 18, 3, 15, -12]]> : tensor<2x5xi32>) : tensor<2x5xi32>
  return
}

func.func @batch_vecmat_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[2.0, 4.0, -2.0, -3.0], [3.0, 3.0, 0.0, -3.0]]> : tensor<2x4xf32> -> tensor<?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[3.0, 0.0, -3.0, -3.0, -1.0], [2.0, -1.0, 3.0, -4.0, -1.0], [0.0, 4.0, -2.0, 3.0, -4.0], [-1.0, 2.0, 1.0, 4.0, 2.0]], [[4.0, 3.0, -3.0, 4.0, 3.0], [-3.0, 4.0, 2.0, -2.0, -3.0], [-1.0, 4.0, 3.0, -2.0, 0.0], [3.0, 1.0, -2.0, -3.0, 4.0]]]> : tensor<2x4x5xf32> -> tensor<?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 2 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf32>
  %v4 = linalg.fill ins(%v0 : f32) outs(%v3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %v5 = linalg.batch_vecmat ins(%x0, %x1 : tensor<?x?xf32>, tensor<?x?x?xf32>) outs(%v4 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v5 : tensor<?x?xf32> to tensor<2x5xf32>
  check.expect_eq_const(%static0, dense<[[17.0, -18.0, 7.0, -40.0, -4.0], [-6.0, 18.0, 3.0, 15.0, -12.0]]> : tensor<2x5xf32>) : tensor<2x5xf32>
  return
}

func.func @batch_vecmat_f16_mixed() {
  %x0 = util.unfoldable_constant dense<[[2.0, 4.0, -2.0, -3.0], [3.0, 3.0, 0.0, -3.0]]> : tensor<2x4xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[3.0, 0.0, -3.0, -3.0, -1.0], [2.0, -1.0, 3.0, -4.0, -1.0], [0.0, 4.0, -2.0, 3.0, -4.0], [-1.0, 2.0, 1.0, 4.0, 2.0]], [[4.0, 3.0, -3.0, 4.0, 3.0], [-3.0, 4.0, 2.0, -2.0, -3.0], [-1.0, 4.0, 3.0, -2.0, 0.0], [3.0, 1.0, -2.0, -3.0, 4.0]]]> : tensor<2x4x5xf16> -> tensor<2x4x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 5 : index
  %v2 = tensor.empty(%v1) : tensor<2x?xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<2x?xf32>) -> tensor<2x?xf32>
  %v4 = linalg.batch_vecmat ins(%x0, %x1 : tensor<2x4xf16>, tensor<2x4x?xf16>) outs(%v3 : tensor<2x?xf32>) -> tensor<2x?xf32>
  %static0 = tensor.cast %v4 : tensor<2x?xf32> to tensor<2x5xf32>
  check.expect_eq_const(%static0, dense<[[17.0, -18.0, 7.0, -40.0, -4.0], [-6.0, 18.0, 3.0, 15.0, -12.0]]> : tensor<2x5xf32>) : tensor<2x5xf32>
  return
}

func.func @dot_i8_static() {
  %x0 = util.unfoldable_constant dense<[-3, -3, 3, 0]> : tensor<4xi8>
  %x1 = util.unfoldable_constant dense<[1, 1, 2, -4]> : tensor<4xi8>
  %x2 = util.unfoldable_constant dense<0> : tensor<i32>
  %v0 = linalg.dot ins(%x0, %x1 : tensor<4xi8>, tensor<4xi8>) outs(%x2 : tensor<i32>) -> tensor<i32>
  check.expect_eq_const(%v0, dense<0> : tensor<i32>) : tensor<i32>
  return
}

func.func @dot_f32_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[-3.0, -3.0, 3.0, 0.0]> : tensor<4xf32> -> tensor<?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[1.0, 1.0, 2.0, -4.0]> : tensor<4xf32> -> tensor<?xf32>
  %x2 = util.unfoldable_constant dense<0.0> : tensor<f32>
  %v0 = linalg.dot ins(%x0, %x1 : tensor<?xf32>, tensor<?xf32>) outs(%x2 : tensor<f32>) -> tensor<f32>
  check.expect_eq_const(%v0, dense<0.0> : tensor<f32>) : tensor<f32>
  return
}

func.func @dot_f16_mixed() {
  %x0 = util.unfoldable_constant dense<[-3.0, -3.0, 3.0, 0.0]> : tensor<4xf16>
  %x1 = util.unfoldable_constant dense<[1.0, 1.0, 2.0, -4.0]> : tensor<4xf16>
  %x2 = util.unfoldable_constant dense<0.0> : tensor<f32>
  %v0 = linalg.dot ins(%x0, %x1 : tensor<4xf16>, tensor<4xf16>) outs(%x2 : tensor<f32>) -> tensor<f32>
  check.expect_eq_const(%v0, dense<0.0> : tensor<f32>) : tensor<f32>
  return
}

func.func @matmul_narrow_1() {
  %x0 = util.unfoldable_constant dense<[[0, 0, 2, 4, -4, -3, 3, 4, -2, -2, 3, -1, -2], [3, -2, -1, 1, 0, -4, -4, 3, 2, 3, 0, 3, -2], [0, 3, -3, -2, -3, 0, 4, -3, -1, -1, 4, -3, 0], [-2, -4, 2, -4, -2, 0, 0, -3, 4, 2, 4, -4, 2], [-2, 0, 4, -2, 2, -3, -2, 4, -1, 0, -2, -3, -1], [1, 0, 2, -1, 1, 2, 4, -1, -4, 2, 0, 3, 0], [-1, -4, 0, 1, 2, 3, -3, 1, 3, -2, -1, 3, 1]]> : tensor<7x13xi8>
  %x1 = util.unfoldable_constant dense<[[0], [2], [0], [4], [2], [-4], [-3], [0], [3], [-4], [2], [2], [3]]> : tensor<13x1xi8>
  %x2 = util.unfoldable_constant dense<[[3], [-3], [0], [3], [-1], [-3], [0]]> : tensor<7x1xi32>
  %v0 = linalg.matmul ins(%x0, %x1 : tensor<7x13xi8>, tensor<13x1xi8>) outs(%x2 : tensor<7x1xi32>) -> tensor<7x1xi32>
  check.expect_eq_const(%v0, dense<[[14], [19], [-17], [-15], [-3], [-39], [21]]> : tensor<7x1xi32>) : tensor<7x1xi32>
  return
}

func.func @matmul_narrow_2() {
  %x0 = util.unfoldable_constant dense<[[3, -2, -4, -2, -1, 3, 0, -4, -1, 1, 3, 2, 4], [-3, 3, -4, 1, -2, -3, 1, -2, 1, -2, -3, 2, -1], [2, 2, 4, -1, -3, 1, 4, 4, 3, 2, -1, -1, -4], [-3, -2, -1, 1, 0, 2, 4, 3, 2, 4, -2, 4, 4], [-2, 0, 1, 2, 2, -4, 0, -4, 4, -3, 0, 3, 0], [2, 0, 3, 1, 1, 0, -1, 1, 0, 3, 1, 0, 3], [-3, -1, 0, 4, -1, 1, -4, 3, -1, 0, -4, 2, 1]]> : tensor<7x13xi8>
  %x1 = util.unfoldable_constant dense<[[-1, 2], [0, -4], [-3, -2], [-4, 0], [-4, 0], [2, 1], [0, -2], [4, -2], [3, -1], [-1, 2], [4, 3], [1, -4], [2, 3]]> : tensor<13x2xi8>
  %x2 = util.unfoldable_constant dense<[[-1, -1], [-3, 4], [-3, 0], [-3, 3], [1, -3], [-3, -4], [-4, 3]]> : tensor<7x2xi32>
  %v0 = linalg.matmul ins(%x0, %x1 : tensor<7x13xi8>, tensor<13x2xi8>) outs(%x2 : tensor<7x2xi32>) -> tensor<7x2xi32>
  check.expect_eq_const(%v0, dense<[[28, 48], [-5, -32], [11, -37], [21, -9], [-22, -27], [-11, 12], [-14, -12]]> : tensor<7x2xi32>) : tensor<7x2xi32>
  return
}

func.func @generic_0() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3.0, 1.0, 0.0, -2.0, -2.0], [-4.0, -4.0, -4.0, -3.0, 3.0], [1.0, 4.0, 0.0, 1.0, 4.0]], [[2.0, 1.0, 0.0, 1.0, 4.0], [-2.0, 3.0, 2.0, -4.0, -1.0], [3.0, 0.0, -4.0, 2.0, 2.0]]]> : tensor<2x3x5xf32> -> tensor<2x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[3.0, -3.0, -4.0, 3.0, -4.0], [0.0, -4.0, -2.0, 0.0, -1.0], [-1.0, -4.0, -4.0, -3.0, -4.0], [2.0, 0.0, 1.0, -2.0, 1.0]], [[2.0, -1.0, 0.0, 4.0, 3.0], [4.0, -1.0, 2.0, 4.0, 1.0], [3.0, 2.0, 2.0, -1.0, 3.0], [-3.0, 1.0, 2.0, 3.0, 0.0]]]> : tensor<2x4x5xf32> -> tensor<2x4x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v1) : tensor<2x?x4xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(n, m, k, b) -> (b, m, k)>, affine_map<(n, m, k, b) -> (b, n, k)>, affine_map<(n, m, k, b) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x0, %x1 : tensor<2x?x?xf32>, tensor<2x4x?xf32>) outs(%v3 : tensor<2x?x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o0: f32):
    %p = arith.mulf %a0, %a1 : f32
    %s = arith.addf %o0, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x?x4xf32>
  %static0 = tensor.cast %v4 : tensor<2x?x4xf32> to tensor<2x3x4xf32>
  check.expect_eq_const(%static0, dense<[[[8.0, -2.0, 7.0, 8.0], [-5.0, 21.0, 33.0, -3.0], [-22.0, -20.0, -36.0, 4.0]], [[19.0, 15.0, 19.0, -2.0], [-26.0, -24.0, 5.0, 1.0], [20.0, 14.0, 5.0, -11.0]]]> : tensor<2x3x4xf32>) : tensor<2x3x4xf32>
  return
}

func.func @generic_1() {
  %x0 = flow.tensor.dynamic_constant dense<[[0.0, 0.0, 2.0, 4.0, -4.0], [-3.0, 3.0, 4.0, -2.0, -2.0], [3.0, -1.0, -2.0, 3.0, -2.0]]> : tensor<3x5xf32> -> tensor<?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[-1.0, 1.0, 0.0, -4.0], [-4.0, 3.0, 2.0, 3.0], [0.0, 3.0, -2.0, 0.0], [3.0, -3.0, -2.0, -3.0], [0.0, 4.0, -3.0, -1.0]]> : tensor<5x4xf32> -> tensor<?x4xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v1) : tensor<4x?xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<4x?xf32>) -> tensor<4x?xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(n, m, k) -> (m, k)>, affine_map<(n, m, k) -> (k, n)>, affine_map<(n, m, k) -> (n, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %x1 : tensor<?x?xf32>, tensor<?x4xf32>) outs(%v3 : tensor<4x?xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o0: f32):
    %p = arith.mulf %a0, %a1 : f32
    %s = arith.addf %o0, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x?xf32>
  %static0 = tensor.cast %v4 : tensor<4x?xf32> to tensor<4x3xf32>
  check.expect_eq_const(%static0, dense<[[12.0, -15.0, 10.0], [-22.0, 16.0, -23.0], [0.0, 8.0, 2.0], [-8.0, 29.0, -22.0]]> : tensor<4x3xf32>) : tensor<4x3xf32>
  return
}

func.func @generic_2() {
  %x0 = flow.tensor.dynamic_constant dense<[[3.0, -2.0, -4.0, -2.0, -1.0], [3.0, 0.0, -4.0, -1.0, 1.0]]> : tensor<2x5xf32> -> tensor<2x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[3.0, 2.0, 4.0, -3.0, 3.0], [-4.0, 1.0, -2.0, -3.0, 1.0]]> : tensor<2x5xf32> -> tensor<2x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<2xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<2xf32>) -> tensor<2xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(k, b) -> (b, k)>, affine_map<(k, b) -> (b, k)>, affine_map<(k, b) -> (b)>], iterator_types = ["reduction", "parallel"]} ins(%x0, %x1 : tensor<2x?xf32>, tensor<2x?xf32>) outs(%v2 : tensor<2xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o0: f32):
    %p = arith.mulf %a0, %a1 : f32
    %s = arith.addf %o0, %p : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  check.expect_eq_const(%v3, dense<[-8.0, 0.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}

func.func @generic_3() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3.0, -4.0], [-3.0, -2.0], [-3.0, 3.0], [3.0, 1.0], [-4.0, -4.0]], [[-2.0, -1.0], [1.0, 0.0], [-2.0, -3.0], [2.0, 2.0], [-4.0, -3.0]], [[0.0, -1.0], [3.0, 0.0], [-1.0, -1.0], [1.0, 1.0], [-3.0, 2.0]]]> : tensor<3x5x2xf32> -> tensor<?x?x2xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[2.0, 4.0, 3.0, -2.0], [-2.0, 1.0, 1.0, 2.0], [3.0, -2.0, 4.0, -4.0], [-4.0, 4.0, 4.0, -2.0], [-3.0, -2.0, -4.0, 4.0]], [[1.0, 1.0, -2.0, 0.0], [-3.0, 2.0, 0.0, -4.0], [-2.0, 2.0, 0.0, -1.0], [-2.0, -4.0, 1.0, 1.0], [0.0, 4.0, 4.0, -3.0]]]> : tensor<2x5x4xf32> -> tensor<2x?x4xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v1) : tensor<?x4xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(n, m, k, j) -> (m, k, j)>, affine_map<(n, m, k, j) -> (j, k, n)>, affine_map<(n, m, k, j) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x0, %x1 : tensor<?x?x2xf32>, tensor<2x?x4xf32>) outs(%v3 : tensor<?x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o0: f32):
    %p = arith.mulf %a0, %a1 : f32
    %s = arith.addf %o0, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %static0 = tensor.cast %v4 : tensor<?x4xf32> to tensor<3x4xf32>
  check.expect_eq_const(%static0, dense<[[-3.0, 13.0, 15.0, -4.0], [-7.0, -14.0, 3.0, 8.0], [-5.0, 16.0, 26.0, -8.0]]> : tensor<3x4xf32>) : tensor<3x4xf32>
  return
}

func.func @generic_4() {
  %x0 = flow.tensor.dynamic_constant dense<[2.0, 4.0, 3.0]> : tensor<3xf32> -> tensor<?xf32>
  %x1 = util.unfoldable_constant dense<[0.0, 4.0, 4.0, 4.0]> : tensor<4xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v1) : tensor<?x4xf32>
  %v3 = linalg.fill ins(%v0 : f32) outs(%v2 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(n, m) -> (m)>, affine_map<(n, m) -> (n)>, affine_map<(n, m) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%x0, %x1 : tensor<?xf32>, tensor<4xf32>) outs(%v3 : tensor<?x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o0: f32):
    %p = arith.mulf %a0, %a1 : f32
    %s = arith.addf %o0, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %static0 = tensor.cast %v4 : tensor<?x4xf32> to tensor<3x4xf32>
  check.expect_eq_const(%static0, dense<[[0.0, 8.0, 8.0, 8.0], [0.0, 16.0, 16.0, 16.0], [0.0, 12.0, 12.0, 12.0]]> : tensor<3x4xf32>) : tensor<3x4xf32>
  return
}

func.func @quantized_0() {
  %x0 = util.unfoldable_constant dense<[[89, 35, 2, -59], [-50, -118, -109, -124], [-84, 80, 38, 105]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[[0, 27, 120, 58, 33], [11, 15, 111, -57, 80], [43, -128, -28, 91, 13], [-120, 67, 58, 88, -84]]> : tensor<4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = arith.constant 0 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<3x5xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v5 = linalg.quantized_matmul ins(%x0, %x1, %v0, %v1 : tensor<3x4xi8>, tensor<4x5xi8>, i32, i32) outs(%v4 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v6 = arith.constant 0 : i32
  %v7 = tensor.empty() : tensor<3x5xi32>
  %v8 = linalg.fill ins(%v6 : i32) outs(%v7 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v9 = linalg.matmul ins(%x0, %x1 : tensor<3x4xi8>, tensor<4x5xi8>) outs(%v8 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v10 = arith.constant 0 : i32
  %v11 = tensor.empty() : tensor<3xi32>
  %v12 = linalg.fill ins(%v10 : i32) outs(%v11 : tensor<3xi32>) -> tensor<3xi32>
  %v13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x0 : tensor<3x4xi8>) outs(%v12 : tensor<3xi32>) {
  ^bb0(%a0: i8, %o0: i32):
    %e = arith.extsi %a0 : i8 to i32
    %s = arith.addi %e, %o0 : i32
    linalg.yield %s : i32
  } -> tensor<3xi32>
  %v14 = arith.constant 0 : i32
  %v15 = tensor.empty() : tensor<5xi32>
  %v16 = linalg.fill ins(%v14 : i32) outs(%v15 : tensor<5xi32>) -> tensor<5xi32>
  %v17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x1 : tensor<4x5xi8>) outs(%v16 : tensor<5xi32>) {
  ^bb0(%a0: i8, %o0: i32):
    %e = arith.extsi %a0 : i8 to i32
    %s = arith.addi %e, %o0 : i32
    linalg.yield %s : i32
  } -> tensor<5xi32>
  %v18 = arith.constant 4 : i32
  %v19 = tensor.empty() : tensor<3x5xi32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v9, %v13, %v17, %v0, %v1, %v18 : tensor<3x5xi32>, tensor<3xi32>, tensor<5xi32>, i32, i32, i32) outs(%v19 : tensor<3x5xi32>) {
  ^bb0(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %a4: i32, %a5: i32, %o0: i32):
    %0 = arith.muli %a1, %a4 : i32
    %1 = arith.muli %a2, %a3 : i32
    %2 = arith.addi %0, %1 : i32
    %3 = arith.muli %a3, %a4 : i32
    %4 = arith.muli %a5, %3 : i32
    %5 = arith.subi %a0, %2 : i32
    %6 = arith.addi %5, %4 : i32
    linalg.yield %6 : i32
  } -> tensor<3x5xi32>
  check.expect_eq_const(%v5, dense<[[7551, -1281, 11087, -1843, 10719], [8895, 2524, -23238, -17005, -2091], [-10086, 1103, 3826, 3266, -4698]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  check.expect_eq_const(%v20, dense<[[7551, -1281, 11087, -1843, 10719], [8895, 2524, -23238, -17005, -2091], [-10086, 1103, 3826, 3266, -4698]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @quantized_1() {
  %x0 = util.unfoldable_constant dense<[[-7, 3, 65, 115], [-120, -92, 82, 114], [-65, -49, 94, -20]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[[-59, 83, -63, -24, 36], [12, -107, -121, 93, 64], [86, 9, 81, -44, -13], [73, -97, -51, -97, -12]]> : tensor<4x5xi8>
  %v0 = arith.constant 0 : i32
  %v1 = arith.constant 3 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<3x5xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v5 = linalg.quantized_matmul ins(%x0, %x1, %v0, %v1 : tensor<3x4xi8>, tensor<4x5xi8>, i32, i32) outs(%v4 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v6 = arith.constant 0 : i32
  %v7 = tensor.empty() : tensor<3x5xi32>
  %v8 = linalg.fill ins(%v6 : i32) outs(%v7 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v9 = linalg.matmul ins(%x0, %x1 : tensor<3x4xi8>, tensor<4x5xi8>) outs(%v8 : tensor<3x5xi32>) -> tensor<3x5xi32>
  %v10 = arith.constant 0 : i32
  %v11 = tensor.empty() : tensor<3xi32>
  %v12 = linalg.fill ins(%v10 : i32) outs(%v11 : tensor<3xi32>) -> tensor<3xi32>
  %v13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x0 : tensor<3x4xi8>) outs(%v12 : tensor<3xi32>) {
  ^bb0(%a0: i8, %o0: i32):
    %e = arith.extsi %a0 : i8 to i32
    %s = arith.addi %e, %o0 : i32
    linalg.yield %s : i32
  } -> tensor<3xi32>
  %v14 = arith.constant 0 : i32
  %v15 = tensor.empty() : tensor<5xi32>
  %v16 = linalg.fill ins(%v14 : i32) outs(%v15 : tensor<5xi32>) -> tensor<5xi32>
  %v17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x1 : tensor<4x5xi8>) outs(%v16 : tensor<5xi32>) {
  ^bb0(%a0: i8, %o0: i32):
    %e = arith.extsi %a0 : i8 to i32
    %s = arith.addi %e, %o0 : i32
    linalg.yield %s : i32
  } -> tensor<5xi32>
  %v18 = arith.constant 4 : i32
  %v19 = tensor.empty() : tensor<3x5xi32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v9, %v13, %v17, %v0, %v1, %v18 : tensor<3x5xi32>, tensor<3xi32>, tensor<5xi32>, i32, i32, i32) outs(%v19 : tensor<3x5xi32>) {
  ^bb0(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %a4: i32, %a5: i32, %o0: i32):
    %0 = arith.muli %a1, %a4 : i32
    %1 = arith.muli %a2, %a3 : i32
    %2 = arith.addi %0, %1 : i32
    %3 = arith.muli %a3, %a4 : i32
    %4 = arith.muli %a5, %3 : i32
    %5 = arith.subi %a0, %2 : i32
    %6 = arith.addi %5, %4 : i32
    linalg.yield %6 : i32
  } -> tensor<3x5xi32>
  check.expect_eq_const(%v5, dense<[[13906, -12000, -1050, -14096, -2813], [21398, -10388, 19568, -20294, -12594], [9991, 2754, 18778, -5073, -6338]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  check.expect_eq_const(%v20, dense<[[13906, -12000, -1050, -14096, -2813], [21398, -10388, 19568, -20294, -12594], [9991, 2754, 18778, -5073, -6338]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @quantized_2() {
  %x0 = flow.tensor.dynamic_constant dense<[[86, -62, -101, -52], [-23, 80, -13, -105], [-43, 25, 80, 58]]> : tensor<3x4xi8> -> tensor<?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[126, -80, 97, -114, 14], [-58, -77, 40, -50, 15], [-62, -90, 63, -18, 45], [43, 113, -20, -72, 34]]> : tensor<4x5xi8> -> tensor<?x?xi8>
  %v0 = arith.constant -128 : i32
  %v1 = arith.constant 127 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 3 : index
  %v4 = util.unfoldable_constant 5 : index
  %v5 = tensor.empty(%v3, %v4) : tensor<?x?xi32>
  %v6 = linalg.fill ins(%v2 : i32) outs(%v5 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %v7 = linalg.quantized_matmul ins(%x0, %x1, %v0, %v1 : tensor<?x?xi8>, tensor<?x?xi8>, i32, i32) outs(%v6 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %v8 = arith.constant 0 : i32
  %v9 = util.unfoldable_constant 3 : index
  %v10 = util.unfoldable_constant 5 : index
  %v11 = tensor.empty(%v9, %v10) : tensor<?x?xi32>
  %v12 = linalg.fill ins(%v8 : i32) outs(%v11 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %v13 = linalg.matmul ins(%x0, %x1 : tensor<?x?xi8>, tensor<?x?xi8>) outs(%v12 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %v14 = arith.constant 0 : i32
  %v15 = util.unfoldable_constant 3 : index
  %v16 = tensor.empty(%v15) : tensor<?xi32>
  %v17 = linalg.fill ins(%v14 : i32) outs(%v16 : tensor<?xi32>) -> tensor<?xi32>
  %v18 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x0 : tensor<?x?xi8>) outs(%v17 : tensor<?xi32>) {
  ^bb0(%a0: i8, %o0: i32):
    %e = arith.extsi %a0 : i8 to i32
    %s = arith.addi %e, %o0 : i32
    linalg.yield %s : i32
  } -> tensor<?xi32>
  %v19 = arith.constant 0 : i32
  %v20 = util.unfoldable_constant 5 : index
  %v21 = tensor.empty(%v20) : tensor<?xi32>
  %v22 = linalg.fill ins(%v19 : i32) outs(%v21 : tensor<?xi32>) -> tensor<?xi32>
  %v23 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x1 : tensor<?x?xi8>) outs(%v22 : tensor<?xi32>) {
  ^bb0(%a0: i8, %o0: i32):
    %e = arith.extsi %a0 : i8 to i32
    %s = arith.addi %e, %o0 : i32
    linalg.yield %s : i32
  } -> tensor<?xi32>
  %v24 = arith.constant 4 : i32
  %v25 = util.unfoldable_constant 3 : index
  %v26 = util.unfoldable_constant 5 : index
  %v27 = tensor.empty(%v25, %v26) : tensor<?x?xi32>
  %v28 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v13, %v18, %v23, %v0, %v1, %v24 : tensor<?x?xi32>, tensor<?xi32>, tensor<?xi32>, i32, i32, i32) outs(%v27 : tensor<?x?xi32>) {
  ^bb0(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %a4: i32, %a5: i32, %o0: i32):
    %0 = arith.muli %a1, %a4 : i32
    %1 = arith.muli %a2, %a3 : i32
    %2 = arith.addi %0, %1 : i32
    %3 = arith.muli %a3, %a4 : i32
    %4 = arith.muli %a5, %3 : i32
    %5 = arith.subi %a0, %2 : i32
    %6 = arith.addi %5, %4 : i32
    linalg.yield %6 : i32
  } -> tensor<?x?xi32>
  %static0 = tensor.cast %v7 : tensor<?x?xi32> to tensor<3x5xi32>
  check.expect_eq_const(%static0, dense<[[-23911, -64685, -25062, -82295, -40856], [-62252, -89444, -31987, -83373, -46730], [-83326, -96547, -56515, -114740, -61095]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  %static1 = tensor.cast %v28 : tensor<?x?xi32> to tensor<3x5xi32>
  check.expect_eq_const(%static1, dense<[[-23911, -64685, -25062, -82295, -40856], [-62252, -89444, -31987, -83373, -46730], [-83326, -96547, -56515, -114740, -61095]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @quantized_batch() {
  %x0 = util.unfoldable_constant dense<[[[79, -107, -83, -68], [-82, 77, 94, 21], [-118, -104, -43, -18]], [[31, -6, -61, -88], [49, 60, -120, -99], [-13, -28, 99, 4]]]> : tensor<2x3x4xi8>
  %x1 = util.unfoldable_constant dense<[[[-21, -18, 42, 22, -84], [60, 65, 116, 73, -56], [-47, 38, 38, 50, 94], [-54, 112, -128, -109, 121]], [[113, -52, -93, -48, -117], [100, 41, 21, -66, -8], [-80, 69, -7, -121, -63], [52, 5, -33, -64, -105]]]> : tensor<2x4x5xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 9 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<2x3x5xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<2x3x5xi32>) -> tensor<2x3x5xi32>
  %v5 = linalg.quantized_batch_matmul ins(%x0, %x1, %v0, %v1 : tensor<2x3x4xi8>, tensor<2x4x5xi8>, i32, i32) outs(%v4 : tensor<2x3x5xi32>) -> tensor<2x3x5xi32>
  check.expect_eq_const(%v5, dense<[[[811, -17053, -1837, -1200, -14946], [-494, 11898, 5478, 5238, 13080], [1484, -5256, -13707, -7829, 12180]], [[4770, -5310, 994, 12032, 9633], [17426, -7792, 1356, 14529, 11745], [-12092, 5902, -1206, -11326, -6457]]]> : tensor<2x3x5xi32>) : tensor<2x3x5xi32>
  return
}
