// Written by tests/ops/write_checks.py; the expected values are NumPy's.

func.func @conv_1d_static() {
  %x0 = util.unfoldable_constant dense<[3.0, 1.0, 0.0, -2.0]> : tensor<4xf32>
  %x1 = util.unfoldable_constant dense<[-2.0, -4.0]> : tensor<2xf32>
  %x2 = util.unfoldable_constant dense<[-4.0, -4.0, -3.0]> : tensor<3xf32>
  %v0 = linalg.conv_1d ins(%x0, %x1 : tensor<4xf32>, tensor<2xf32>) outs(%x2 : tensor<3xf32>) -> tensor<3xf32>
  check.expect_eq_const(%v0, dense<[-14.0, -6.0, 5.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}

func.func @conv_1d_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[3.0, 1.0, 0.0, -2.0]> : tensor<4xf32> -> tensor<?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[-2.0, -4.0]> : tensor<2xf32> -> tensor<?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[-4.0, -4.0, -3.0]> : tensor<3xf32> -> tensor<?xf32>
  %v0 = linalg.conv_1d ins(%x0, %x1 : tensor<?xf32>, tensor<?xf32>) outs(%x2 : tensor<?xf32>) -> tensor<?xf32>
  %static0 = tensor.cast %v0 : tensor<?xf32> to tensor<3xf32>
  check.expect_eq_const(%static0, dense<[-14.0, -6.0, 5.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}

func.func @conv_2d_static() {
  %x0 = util.unfoldable_constant dense<[[0, 0, 2, 4], [-4, -3, 3, 4], [-2, -2, 3, -1], [-2, 3, -2, -1]]> : tensor<4x4xi8>
  %x1 = util.unfoldable_constant dense<[[1, 0, -4], [-4, 3, 2]]> : tensor<2x3xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<3x2xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<3x2xi32>) -> tensor<3x2xi32>
  %v3 = linalg.conv_2d ins(%x0, %x1 : tensor<4x4xi8>, tensor<2x3xi8>) outs(%v2 : tensor<3x2xi32>) -> tensor<3x2xi32>
  check.expect_eq_const(%v3, dense<[[5, 13], [-8, -4], [-1, -18]]> : tensor<3x2xi32>) : tensor<3x2xi32>
  return
}

func.func @conv_2d_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[0, 0, 2, 4], [-4, -3, 3, 4], [-2, -2, 3, -1], [-2, 3, -2, -1]]> : tensor<4x4xi8> -> tensor<?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[1, 0, -4], [-4, 3, 2]]> : tensor<2x3xi8> -> tensor<?x?xi8>
  %v0 = arith.constant 0 : i32
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xi32>
  %v4 = linalg.fill ins(%v0 : i32) outs(%v3 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %v5 = linalg.conv_2d ins(%x0, %x1 : tensor<?x?xi8>, tensor<?x?xi8>) outs(%v4 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %static0 = tensor.cast %v5 : tensor<?x?xi32> to tensor<3x2xi32>
  check.expect_eq_const(%static0, dense<[[5, 13], [-8, -4], [-1, -18]]> : tensor<3x2xi32>) : tensor<3x2xi32>
  return
}

func.func @conv_3d_static() {
  %x0 = util.unfoldable_constant dense<[[[3.0, -2.0, -4.0], [-2.0, -1.0, 3.0], [0.0, -4.0, -1.0], [1.0, 3.0, 2.0]], [[4.0, -3.0, 3.0], [-4.0, 1.0, -2.0], [-3.0, 1.0, -2.0], [1.0, -2.0, -3.0]], [[2.0, -1.0, 2.0], [2.0, 4.0, -1.0], [-3.0, 1.0, 4.0], [4.0, 3.0, 2.0]], [[-1.0, -1.0, -4.0], [-3.0, -2.0, -1.0], [1.0, 0.0, 2.0], [4.0, 3.0, 2.0]]]> : tensor<4x4x3xf64>
  %x1 = util.unfoldable_constant dense<[[[4.0, -2.0], [4.0, 4.0], [-2.0, 0.0]], [[1.0, 2.0], [2.0, -4.0], [0.0, -4.0]]]> : tensor<2x3x2xf64>
  %v0 = arith.constant 0.0 : f64
  %v1 = tensor.empty() : tensor<3x2x2xf64>
  %v2 = linalg.fill ins(%v0 : f64) outs(%v1 : tensor<3x2x2xf64>) -> tensor<3x2x2xf64>
  %v3 = linalg.conv_3d ins(%x0, %x1 : tensor<4x4x3xf64>, tensor<2x3x2xf64>) outs(%v2 : tensor<3x2x2xf64>) -> tensor<3x2x2xf64>
  check.expect_eq_const(%v3, dense<[[[-14.0, 37.0], [-28.0, -17.0]], [[0.0, -25.0], [-40.0, -12.0]], [[39.0, -15.0], [-33.0, 12.0]]]> : tensor<3x2x2xf64>) : tensor<3x2x2xf64>
  return
}

func.func @conv_3d_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3.0, -2.0, -4.0], [-2.0, -1.0, 3.0], [0.0, -4.0, -1.0], [1.0, 3.0, 2.0]], [[4.0, -3.0, 3.0], [-4.0, 1.0, -2.0], [-3.0, 1.0, -2.0], [1.0, -2.0, -3.0]], [[2.0, -1.0, 2.0], [2.0, 4.0, -1.0], [-3.0, 1.0, 4.0], [4.0, 3.0, 2.0]], [[-1.0, -1.0, -4.0], [-3.0, -2.0, -1.0], [1.0, 0.0, 2.0], [4.0, 3.0, 2.0]]]> : tensor<4x4x3xf64> -> tensor<?x?x?xf64>
  %x1 = flow.tensor.dynamic_constant dense<[[[4.0, -2.0], [4.0, 4.0], [-2.0, 0.0]], [[1.0, 2.0], [2.0, -4.0], [0.0, -4.0]]]> : tensor<2x3x2xf64> -> tensor<?x?x?xf64>
  %v0 = arith.constant 0.0 : f64
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = tensor.empty(%v1, %v2, %v3) : tensor<?x?x?xf64>
  %v5 = linalg.fill ins(%v0 : f64) outs(%v4 : tensor<?x?x?xf64>) -> tensor<?x?x?xf64>
  %v6 = linalg.conv_3d ins(%x0, %x1 : tensor<?x?x?xf64>, tensor<?x?x?xf64>) outs(%v5 : tensor<?x?x?xf64>) -> tensor<?x?x?xf64>
  %static0 = tensor.cast %v6 : tensor<?x?x?xf64> to tensor<3x2x2xf64>
  check.expect_eq_const(%static0, dense<[[[-14.0, 37.0], [-28.0, -17.0]], [[0.0, -25.0], [-40.0, -12.0]], [[39.0, -15.0], [-33.0, 12.0]]]> : tensor<3x2x2xf64>) : tensor<3x2x2xf64>
  return
}

func.func @conv_1d_nwc_wcf_static() {
  %x0 = util.unfoldable_constant dense<[[[3.0, -4.0], [-3.0, -2.0], [-3.0, 3.0], [3.0, 1.0]]]> : tensor<1x4x2xf16>
  %x1 = util.unfoldable_constant dense<[[[-4.0, -4.0, -2.0], [-1.0, 1.0, 0.0]], [[-2.0, -3.0, 2.0], [2.0, -4.0, -3.0]]]> : tensor<2x2x3xf16>
  %x2 = util.unfoldable_constant dense<[[[0.0, -1.0, 3.0], [0.0, -1.0, -1.0], [1.0, 1.0, -3.0]]]> : tensor<1x3x3xf32>
  %v0 = linalg.conv_1d_nwc_wcf {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[1]> : tensor<1xi64>} ins(%x0, %x1 : tensor<1x4x2xf16>, tensor<2x2x3xf16>) outs(%x2 : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  check.expect_eq_const(%v0, dense<[[[-6.0, 0.0, -3.0], [26.0, 6.0, -10.0], [6.0, 3.0, 6.0]]]> : tensor<1x3x3xf32>) : tensor<1x3x3xf32>
  return
}

func.func @conv_1d_nwc_wcf_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[3.0, -4.0], [-3.0, -2.0], [-3.0, 3.0], [3.0, 1.0], [-4.0, -4.0], [-2.0, -1.0]]]> : tensor<1x6x2xf16> -> tensor<?x?x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[1.0, 0.0, -2.0], [-3.0, 2.0, 2.0]], [[-4.0, -3.0, 0.0], [-1.0, 3.0, 0.0]]]> : tensor<2x2x3xf16> -> tensor<?x?x?xf16>
  %x2 = flow.tensor.dynamic_constant dense<[[[-1.0, -1.0, 1.0], [1.0, -3.0, 2.0], [2.0, 4.0, 3.0]]]> : tensor<1x3x3xf32> -> tensor<?x?x?xf32>
  %v0 = linalg.conv_1d_nwc_wcf {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %x1 : tensor<?x?x?xf16>, tensor<?x?x?xf16>) outs(%x2 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?x?xf32> to tensor<1x3x3xf32>
  check.expect_eq_const(%static0, dense<[[[28.0, -6.0, -13.0], [-24.0, -3.0, 14.0], [19.0, -1.0, 3.0]]]> : tensor<1x3x3xf32>) : tensor<1x3x3xf32>
  return
}

func.func @conv_1d_ncw_fcw_static() {
  %x0 = util.unfoldable_constant dense<[[[2.0, 4.0, 3.0, 0.0], [4.0, 4.0, 4.0, -4.0]]]> : tensor<1x2x4xf32>
  %x1 = util.unfoldable_constant dense<[[[0.0, 1.0], [-2.0, -1.0]], [[1.0, 3.0], [1.0, -3.0]], [[2.0, 3.0], [-3.0, 0.0]]]> : tensor<3x2x2xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x3x3xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  %v3 = linalg.conv_1d_ncw_fcw {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[1]> : tensor<1xi64>} ins(%x0, %x1 : tensor<1x2x4xf32>, tensor<3x2x2xf32>) outs(%v2 : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  check.expect_eq_const(%v3, dense<[[[-8.0, -9.0, -4.0], [6.0, 5.0, 19.0], [4.0, 5.0, -6.0]]]> : tensor<1x3x3xf32>) : tensor<1x3x3xf32>
  return
}

func.func @conv_1d_ncw_fcw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[2.0, 4.0, 3.0, 0.0, 4.0, 4.0], [4.0, -4.0, 0.0, 1.0, -2.0, -1.0]]]> : tensor<1x2x6xf32> -> tensor<?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[1.0, 3.0], [1.0, -3.0]], [[2.0, 3.0], [-3.0, 0.0]], [[-1.0, 4.0], [-4.0, 0.0]]]> : tensor<3x2x2xf32> -> tensor<?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 3 : index
  %v4 = tensor.empty(%v1, %v2, %v3) : tensor<?x?x?xf32>
  %v5 = linalg.fill ins(%v0 : f32) outs(%v4 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %v6 = linalg.conv_1d_ncw_fcw {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %x1 : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%v5 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v6 : tensor<?x?x?xf32> to tensor<1x3x3xf32>
  check.expect_eq_const(%static0, dense<[[[30.0, 0.0, 17.0], [4.0, 6.0, 26.0], [-2.0, -3.0, 20.0]]]> : tensor<1x3x3xf32>) : tensor<1x3x3xf32>
  return
}

func.func @conv_2d_nhwc_hwcf_static() {
  %x0 = util.unfoldable_constant dense<[[[[2, 3], [-4, 3], [0, 0], [1, -2], [4, -4]], [[-2, -1], [1, -1], [-3, -4], [-4, -4], [-3, 4]], [[-3, 1], [2, -2], [-2, -1], [-2, 4], [-3, 4]], [[3, 3], [-3, -1], [1, 0], [1, 2], [1, -4]]]]> : tensor<1x4x5x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[4, 1, 4], [-2, -1, 3]], [[-3, -4, -1], [2, -3, 3]], [[-1, -2, 0], [4, 3, 3]]], [[[-2, -4, 3], [2, 2, -4]], [[-4, 0, -1], [-1, 4, -3]], [[0, -2, -2], [3, -3, -2]]]]> : tensor<2x3x2x3xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<1x3x2x3xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<1x3x2x3xi32>) -> tensor<1x3x2x3xi32>
  %v3 = linalg.conv_2d_nhwc_hwcf {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x4x5x2xi8>, tensor<2x3x2x3xi8>) outs(%v2 : tensor<1x3x2x3xi32>) -> tensor<1x3x2x3xi32>
  check.expect_eq_const(%v3, dense<[[[[7, 26, 44], [3, -36, 2]], [[-25, 5, -30], [37, 63, -34]], [[-13, -17, -19], [7, 27, 17]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @conv_2d_nhwc_hwcf_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[2, 3], [-4, 3], [0, 0], [1, -2]], [[4, -4], [-2, -1], [1, -1], [-3, -4]], [[-4, -4], [-3, 4], [-3, 1], [2, -2]], [[-2, -1], [-2, 4], [-3, 4], [3, 3]], [[-3, -1], [1, 0], [1, 2], [1, -4]], [[4, 1], [4, -2], [-1, 3], [-3, -4]]]]> : tensor<1x6x4x2xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[-1, 2, -3], [3, -1, -2]], [[0, 4, 3], [3, -2, -4]], [[3, 2, 2], [-4, -4, 0]]], [[[-1, -1, 4], [-3, 0, -2]], [[-2, 3, -3], [-2, -3, -3]], [[-2, 2, 1], [0, -3, 3]]]]> : tensor<2x3x2x3xi8> -> tensor<?x?x?x?xi8>
  %v0 = arith.constant 0 : i32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = tensor.empty(%v1, %v2, %v3, %v4) : tensor<?x?x?x?xi32>
  %v6 = linalg.fill ins(%v0 : i32) outs(%v5 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v7 = linalg.conv_2d_nhwc_hwcf {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?xi8>, tensor<?x?x?x?xi8>) outs(%v6 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v7 : tensor<?x?x?x?xi32> to tensor<1x3x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[28, -23, -5], [35, 13, -13]], [[-2, -68, -14], [14, -34, -15]], [[-14, -4, 32], [28, 10, -7]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @conv_2d_nhwc_fhwc_static() {
  %x0 = util.unfoldable_constant dense<[[[[0.0, 0.0], [0.0, -1.0], [4.0, -1.0], [1.0, -1.0], [0.0, 4.0]], [[-3.0, 1.0], [-1.0, 2.0], [2.0, -2.0], [2.0, 2.0], [0.0, -3.0]], [[1.0, -4.0], [3.0, 3.0], [3.0, -4.0], [4.0, 4.0], [1.0, 3.0]], [[2.0, 3.0], [-3.0, -4.0], [-2.0, -3.0], [0.0, 3.0], [2.0, -1.0]]]]> : tensor<1x4x5x2xf64>
  %x1 = util.unfoldable_constant dense<[[[[0.0, 1.0], [2.0, -3.0], [3.0, -3.0]], [[1.0, 0.0], [3.0, 2.0], [-3.0, 0.0]]], [[[-4.0, -4.0], [0.0, 3.0], [-3.0, -3.0]], [[4.0, -1.0], [-3.0, 1.0], [-2.0, -2.0]]], [[[-1.0, -1.0], [3.0, 3.0], [-2.0, 0.0]], [[2.0, 0.0], [1.0, 4.0], [-2.0, -2.0]]]]> : tensor<3x2x3x2xf64>
  %x2 = util.unfoldable_constant dense<[[[[2.0, 4.0, -1.0], [-1.0, 3.0, -2.0]], [[0.0, 3.0, -1.0], [-4.0, 0.0, 3.0]], [[3.0, 3.0, 2.0], [4.0, -2.0, -4.0]]]]> : tensor<1x3x2x3xf64>
  %v0 = linalg.conv_2d_nhwc_fhwc {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x4x5x2xf64>, tensor<3x2x3x2xf64>) outs(%x2 : tensor<1x3x2x3xf64>) -> tensor<1x3x2x3xf64>
  check.expect_eq_const(%v0, dense<[[[[12.0, -16.0, -11.0], [3.0, -12.0, 15.0]], [[12.0, 21.0, 19.0], [21.0, 15.0, 33.0]], [[8.0, 47.0, 12.0], [-12.0, -2.0, 25.0]]]]> : tensor<1x3x2x3xf64>) : tensor<1x3x2x3xf64>
  return
}

func.func @conv_2d_nhwc_fhwc_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[0.0, 0.0], [0.0, -1.0], [4.0, -1.0], [1.0, -1.0]], [[0.0, 4.0], [-3.0, 1.0], [-1.0, 2.0], [2.0, -2.0]], [[2.0, 2.0], [0.0, -3.0], [1.0, -4.0], [3.0, 3.0]], [[3.0, -4.0], [4.0, 4.0], [1.0, 3.0], [2.0, 3.0]], [[-3.0, -4.0], [-2.0, -3.0], [0.0, 3.0], [2.0, -1.0]], [[0.0, 1.0], [2.0, -3.0], [3.0, -3.0], [1.0, 0.0]]]]> : tensor<1x6x4x2xf64> -> tensor<?x?x?x?xf64>
  %x1 = flow.tensor.dynamic_constant dense<[[[[3.0, 2.0], [-3.0, 0.0], [-4.0, -4.0]], [[0.0, 3.0], [-3.0, -3.0], [4.0, -1.0]]], [[[-3.0, 1.0], [-2.0, -2.0], [-1.0, -1.0]], [[3.0, 3.0], [-2.0, 0.0], [2.0, 0.0]]], [[[1.0, 4.0], [-2.0, -2.0], [2.0, 4.0]], [[-1.0, -1.0], [3.0, -2.0], [0.0, 3.0]]]]> : tensor<3x2x3x2xf64> -> tensor<?x?x?x?xf64>
  %x2 = flow.tensor.dynamic_constant dense<[[[[-1.0, -4.0, 0.0], [3.0, 3.0, 3.0]], [[2.0, 4.0, -2.0], [-4.0, 2.0, -2.0]], [[2.0, 2.0, 0.0], [-1.0, 0.0, -4.0]]]]> : tensor<1x3x2x3xf64> -> tensor<?x?x?x?xf64>
  %v0 = linalg.conv_2d_nhwc_fhwc {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?xf64>, tensor<?x?x?x?xf64>) outs(%x2 : tensor<?x?x?x?xf64>) -> tensor<?x?x?x?xf64>
  %static0 = tensor.cast %v0 : tensor<?x?x?x?xf64> to tensor<1x3x2x3xf64>
  check.expect_eq_const(%static0, dense<[[[[-1.0, 11.0, -3.0], [-1.0, -4.0, -20.0]], [[-11.0, 0.0, 14.0], [-32.0, 25.0, 8.0]], [[0.0, 19.0, 5.0], [-22.0, -11.0, -8.0]]]]> : tensor<1x3x2x3xf64>) : tensor<1x3x2x3xf64>
  return
}

func.func @conv_2d_nchw_fchw_static() {
  %x0 = util.unfoldable_constant dense<[[[[4.0, 1.0, 2.0, 4.0, 1.0], [2.0, 3.0, -2.0, -4.0, -2.0], [-2.0, 3.0, 4.0, -4.0, 0.0], [3.0, -3.0, 3.0, -3.0, 0.0]], [[3.0, -2.0, -1.0, -2.0, 2.0], [-2.0, 4.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 4.0, 3.0], [3.0, 2.0, 1.0, -1.0, 4.0]]]]> : tensor<1x2x4x5xf16>
  %x1 = util.unfoldable_constant dense<[[[[0.0, -3.0, 3.0], [-3.0, 3.0, 1.0]], [[-3.0, -4.0, 0.0], [-4.0, -3.0, 0.0]]], [[[4.0, 0.0, 3.0], [4.0, 3.0, 1.0]], [[-1.0, 0.0, -2.0], [0.0, -1.0, -2.0]]], [[[4.0, -4.0, -4.0], [-3.0, 4.0, 2.0]], [[3.0, -3.0, 2.0], [-1.0, 0.0, -4.0]]]]> : tensor<3x2x2x3xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x3x3x2xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %v3 = linalg.conv_2d_nchw_fchw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x2x4x5xf16>, tensor<3x2x2x3xf16>) outs(%v2 : tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  check.expect_eq_const(%v3, dense<[[[[-1.0, -6.0], [-10.0, -30.0], [-33.0, -23.0]], [[32.0, -14.0], [9.0, -20.0], [5.0, 6.0]], [[21.0, -19.0], [11.0, -24.0], [-55.0, -12.0]]]]> : tensor<1x3x3x2xf32>) : tensor<1x3x3x2xf32>
  return
}

func.func @conv_2d_nchw_fchw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[4.0, 1.0, 2.0, 4.0], [1.0, 2.0, 3.0, -2.0], [-4.0, -2.0, -2.0, 3.0], [4.0, -4.0, 0.0, 3.0], [-3.0, 3.0, -3.0, 0.0], [3.0, -2.0, -1.0, -2.0]], [[2.0, -2.0, 4.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 4.0, 3.0, 3.0], [2.0, 1.0, -1.0, 4.0], [0.0, -3.0, 3.0, -3.0], [3.0, 1.0, -3.0, -4.0]]]]> : tensor<1x2x6x4xf16> -> tensor<?x?x?x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[[0.0, -4.0, -3.0], [0.0, 4.0, 0.0]], [[3.0, 4.0, 3.0], [1.0, -1.0, 0.0]]], [[[-2.0, 0.0, -1.0], [-2.0, 4.0, -4.0]], [[-4.0, -3.0, 4.0], [2.0, 3.0, -3.0]]], [[[2.0, -1.0, 0.0], [-4.0, 1.0, 3.0]], [[1.0, -3.0, 0.0], [-2.0, 4.0, 3.0]]]]> : tensor<3x2x2x3xf16> -> tensor<?x?x?x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 3 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = tensor.empty(%v1, %v2, %v3, %v4) : tensor<?x?x?x?xf32>
  %v6 = linalg.fill ins(%v0 : f32) outs(%v5 : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %v7 = linalg.conv_2d_nchw_fchw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?xf16>, tensor<?x?x?x?xf16>) outs(%v6 : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %static0 = tensor.cast %v7 : tensor<?x?x?x?xf32> to tensor<1x3x3x2xf32>
  check.expect_eq_const(%static0, dense<[[[[8.0, 1.0], [24.0, 34.0], [-12.0, 6.0]], [[-5.0, 9.0], [-4.0, -29.0], [38.0, -2.0]], [[25.0, -21.0], [-41.0, 24.0], [-28.0, -28.0]]]]> : tensor<1x3x3x2xf32>) : tensor<1x3x3x2xf32>
  return
}

func.func @conv_2d_ngchw_fgchw_static() {
  %x0 = util.unfoldable_constant dense<[[[[[2.0, -2.0, -2.0, 4.0, -3.0], [-2.0, 1.0, 3.0, 1.0, 3.0], [-4.0, -1.0, 1.0, -1.0, -1.0], [-1.0, -4.0, -4.0, 0.0, 0.0]], [[4.0, -2.0, 3.0, -2.0, -3.0], [-3.0, -1.0, -3.0, 4.0, 3.0], [3.0, -1.0, -4.0, -2.0, 0.0], [1.0, 0.0, 1.0, -1.0, 1.0]]], [[[-4.0, 4.0, 0.0, -3.0, 3.0], [-1.0, 3.0, -2.0, 4.0, -4.0], [-1.0, -3.0, -1.0, -1.0, 4.0], [-1.0, 2.0, 1.0, -1.0, 0.0]], [[-4.0, 1.0, -1.0, -2.0, -3.0], [-3.0, 4.0, -2.0, 3.0, -4.0], [-4.0, -1.0, 4.0, 0.0, 2.0], [2.0, 1.0, 3.0, -2.0, -4.0]]]]]> : tensor<1x2x2x4x5xf32>
  %x1 = util.unfoldable_constant dense<[[[[[-3.0, 4.0, -4.0], [2.0, 0.0, 4.0]], [[4.0, -3.0, -4.0], [-1.0, -1.0, 0.0]]], [[[-3.0, 2.0, 0.0], [-2.0, -3.0, 0.0]], [[4.0, -2.0, -2.0], [0.0, 2.0, 0.0]]]], [[[[1.0, 1.0, 0.0], [2.0, 3.0, -2.0]], [[2.0, 1.0, -3.0], [-4.0, 2.0, 1.0]]], [[[0.0, 0.0, -1.0], [-3.0, -1.0, -2.0]], [[4.0, -4.0, 4.0], [-1.0, -2.0, -1.0]]]], [[[[0.0, 0.0, 2.0], [-4.0, 3.0, 2.0]], [[-3.0, -2.0, 3.0], [-2.0, -2.0, 4.0]]], [[[-1.0, 1.0, 2.0], [1.0, 0.0, 0.0]], [[1.0, -3.0, 3.0], [-3.0, 3.0, -3.0]]]]]> : tensor<3x2x2x2x3xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x2x3x3x2xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x2x3x3x2xf32>) -> tensor<1x2x3x3x2xf32>
  %v3 = linalg.conv_2d_ngchw_fgchw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x2x2x4x5xf32>, tensor<3x2x2x2x3xf32>) outs(%v2 : tensor<1x2x3x3x2xf32>) -> tensor<1x2x3x3x2xf32>
  check.expect_eq_const(%v3, dense<[[[[[16.0, 81.0], [-5.0, -49.0], [16.0, -21.0]], [[-3.0, 41.0], [-30.0, 6.0], [3.0, -23.0]], [[10.0, -13.0], [3.0, 19.0], [-31.0, 34.0]]], [[[5.0, -2.0], [2.0, 13.0], [-27.0, 10.0]], [[-23.0, -1.0], [-24.0, -42.0], [-3.0, 23.0]], [[24.0, 24.0], [-25.0, -44.0], [-6.0, 16.0]]]]]> : tensor<1x2x3x3x2xf32>) : tensor<1x2x3x3x2xf32>
  return
}

func.func @conv_2d_ngchw_fgchw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2.0, -2.0, -2.0, 4.0], [-3.0, -2.0, 1.0, 3.0], [1.0, 3.0, -4.0, -1.0], [1.0, -1.0, -1.0, -1.0], [-4.0, -4.0, 0.0, 0.0], [4.0, -2.0, 3.0, -2.0]], [[-3.0, -3.0, -1.0, -3.0], [4.0, 3.0, 3.0, -1.0], [-4.0, -2.0, 0.0, 1.0], [0.0, 1.0, -1.0, 1.0], [-4.0, 4.0, 0.0, -3.0], [3.0, -1.0, 3.0, -2.0]]], [[[4.0, -4.0, -1.0, -3.0], [-1.0, -1.0, 4.0, -1.0], [2.0, 1.0, -1.0, 0.0], [-4.0, 1.0, -1.0, -2.0], [-3.0, -3.0, 4.0, -2.0], [3.0, -4.0, -4.0, -1.0]], [[4.0, 0.0, 2.0, 2.0], [1.0, 3.0, -2.0, -4.0], [-3.0, 4.0, -4.0, 2.0], [0.0, 4.0, 4.0, -3.0], [-4.0, -1.0, -1.0, 0.0], [-3.0, 2.0, 0.0, -2.0]]]]]> : tensor<1x2x2x6x4xf32> -> tensor<?x?x?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[-3.0, 0.0, 4.0], [-2.0, -2.0, 0.0]], [[2.0, 0.0, 1.0], [1.0, 0.0, 2.0]]], [[[3.0, -2.0, 2.0], [1.0, -3.0, -4.0]], [[2.0, 1.0, 0.0], [0.0, -1.0, -3.0]]]], [[[[-1.0, -2.0, 4.0], [-4.0, 4.0, -1.0]], [[-2.0, -1.0, 0.0], [0.0, 2.0, -4.0]]], [[[3.0, 2.0, -3.0], [-2.0, 3.0, -2.0]], [[-2.0, 4.0, -1.0], [1.0, 2.0, 1.0]]]], [[[[0.0, 0.0, 1.0], [-3.0, 3.0, -3.0]], [[3.0, -3.0, 0.0], [-1.0, 0.0, -3.0]]], [[[-1.0, 0.0, 3.0], [4.0, 3.0, 2.0]], [[4.0, -2.0, 4.0], [-2.0, -4.0, 3.0]]]]]> : tensor<3x2x2x2x3xf32> -> tensor<?x?x?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 3 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = tensor.empty(%v1, %v2, %v3, %v4, %v5) : tensor<?x?x?x?x?xf32>
  %v7 = linalg.fill ins(%v0 : f32) outs(%v6 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %v8 = linalg.conv_2d_ngchw_fgchw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?x?xf32>) outs(%v7 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %static0 = tensor.cast %v8 : tensor<?x?x?x?x?xf32> to tensor<1x2x3x3x2xf32>
  check.expect_eq_const(%static0, dense<[[[[[-1.0, 16.0], [-29.0, -9.0], [9.0, 10.0]], [[0.0, 48.0], [-14.0, 0.0], [-25.0, 32.0]], [[-15.0, -2.0], [-10.0, -8.0], [-63.0, 40.0]]], [[[15.0, -9.0], [-19.0, 26.0], [25.0, -6.0]], [[-7.0, 12.0], [62.0, -17.0], [-31.0, 1.0]], [[-2.0, -5.0], [-60.0, -5.0], [-13.0, -45.0]]]]]> : tensor<1x2x3x3x2xf32>) : tensor<1x2x3x3x2xf32>
  return
}

func.func @conv_2d_ngchw_gfchw_static() {
  %x0 = util.unfoldable_constant dense<[[[[[-1, 3, 4, -2, -3], [1, 2, 2, 1, 2], [4, 4, 4, 3, 2], [4, -4, -4, 3, -1]], [[2, 0, 4, -4, 2], [-4, -3, 3, -2, 4], [-1, 3, 4, -2, 4], [2, 4, -2, 0, 2]]], [[[4, -2, 0, 3, 3], [4, -3, 4, -3, 3], [3, 4, 3, 2, 1], [0, -4, 4, 4, -4]], [[1, -1, 2, 1, 1], [0, -3, 3, 3, -3], [0, -4, -1, -3, -1], [4, -3, -3, 2, -2]]]]]> : tensor<1x2x2x4x5xi8>
  %x1 = util.unfoldable_constant dense<[[[[[-4, -1, -3], [1, 0, 3]], [[1, -4, -4], [4, 2, 2]]], [[[3, -2, 0], [-3, -4, 1]], [[-2, 1, 4], [-2, -2, -3]]], [[[-2, 2, 1], [2, -4, 3]], [[2, -3, 1], [2, -4, -4]]]], [[[[-3, -4, 1], [-3, 1, 3]], [[-2, 0, 1], [1, -2, 1]]], [[[-2, 1, -2], [-2, 4, 2]], [[-3, -4, -4], [-1, 4, -4]]], [[[-3, -3, -2], [4, -2, 1]], [[-4, 3, 1], [1, 4, 1]]]]]> : tensor<2x3x2x2x3xi8>
  %x2 = util.unfoldable_constant dense<[[[[[-4, 3], [0, 1], [-4, 0]], [[3, 1], [-1, 1], [-4, -1]], [[3, 2], [-2, -1], [-4, 1]]], [[[3, 0], [1, 2], [3, 2]], [[2, -4], [-2, 3], [3, 4]], [[-2, -2], [4, 2], [-4, 3]]]]]> : tensor<1x2x3x3x2xi32>
  %v0 = linalg.conv_2d_ngchw_gfchw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x2x2x4x5xi8>, tensor<2x3x2x2x3xi8>) outs(%x2 : tensor<1x2x3x3x2xi32>) -> tensor<1x2x3x3x2xi32>
  check.expect_eq_const(%v0, dense<[[[[[-38, 34], [10, 11], [-61, -40]], [[2, -9], [-25, -25], [15, 8]], [[15, 13], [-20, 17], [1, -16]]], [[[5, -24], [19, -4], [-5, -42]], [[-51, -14], [-17, -26], [3, 36]], [[4, 16], [-23, -18], [-43, -13]]]]]> : tensor<1x2x3x3x2xi32>) : tensor<1x2x3x3x2xi32>
  return
}

func.func @conv_2d_ngchw_gfchw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[-1, 3, 4, -2], [-3, 1, 2, 2], [1, 2, 4, 4], [4, 3, 2, 4], [-4, -4, 3, -1], [2, 0, 4, -4]], [[2, -4, -3, 3], [-2, 4, -1, 3], [4, -2, 4, 2], [4, -2, 0, 2], [4, -2, 0, 3], [3, 4, -3, 4]]], [[[-3, 3, 3, 4], [3, 2, 1, 0], [-4, 4, 4, -4], [1, -1, 2, 1], [1, 0, -3, 3], [3, -3, 0, -4]], [[-1, -3, -1, 4], [-3, -3, 2, -2], [-4, -1, -3, 1], [0, 3, 1, -4], [-4, 4, 2, 2], [3, -2, 0, -3]]]]]> : tensor<1x2x2x6x4xi8> -> tensor<?x?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[-4, 1, -2], [1, 4, -2]], [[-2, -3, -2], [2, 1, 2]]], [[[-4, 3, 2], [-3, 1, 2]], [[-4, -4, -3], [-4, 1, -3]]], [[[1, 3, -2], [0, 1, 1]], [[-2, 1, -2], [1, -2, -2]]]], [[[[4, 2, -3], [-4, -4, -1]], [[4, -4, -3], [-3, -2, 4]]], [[[-2, 1, -4], [3, 1, 1]], [[4, 1, -4], [3, 0, 1]]], [[[-4, 0, 3], [1, -1, 1]], [[-4, -1, 3], [2, -2, -1]]]]]> : tensor<2x3x2x2x3xi8> -> tensor<?x?x?x?x?xi8>
  %x2 = flow.tensor.dynamic_constant dense<[[[[[-4, 1], [3, 0], [1, 2]], [[3, 2], [2, -4], [-2, 3]], [[3, 4], [-2, -2], [4, 2]]], [[[-4, 3], [-2, 0], [2, -3]], [[1, 2], [1, 3], [4, -2]], [[-3, -3], [0, 2], [1, 0]]]]]> : tensor<1x2x3x3x2xi32> -> tensor<?x?x?x?x?xi32>
  %v0 = linalg.conv_2d_ngchw_gfchw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xi8>, tensor<?x?x?x?x?xi8>) outs(%x2 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v0 : tensor<?x?x?x?x?xi32> to tensor<1x2x3x3x2xi32>
  check.expect_eq_const(%static0, dense<[[[[[4, 26], [1, -21], [3, 58]], [[70, -6], [-31, -3], [3, -10]], [[-4, 26], [-8, 8], [-23, 9]]], [[[-6, -26], [-29, 9], [-28, -6]], [[0, -50], [-3, 9], [9, -29]], [[22, 15], [33, -10], [22, -11]]]]]> : tensor<1x2x3x3x2xi32>) : tensor<1x2x3x3x2xi32>
  return
}

func.func @conv_2d_nhwgc_gfhwc_static() {
  %x0 = util.unfoldable_constant dense<[[[[[2.0, 4.0], [-2.0, -3.0]], [[3.0, 3.0], [0.0, -3.0]], [[3.0, 0.0], [-3.0, -3.0]], [[-1.0, 2.0], [-1.0, 3.0]], [[-4.0, -1.0], [0.0, 4.0]]], [[[-2.0, 3.0], [-4.0, -1.0]], [[2.0, 1.0], [4.0, 2.0]], [[4.0, 3.0], [-3.0, 4.0]], [[3.0, -3.0], [4.0, 2.0]], [[-2.0, -3.0], [-1.0, 4.0]]], [[[3.0, -2.0], [0.0, 3.0]], [[1.0, -2.0], [-3.0, 4.0]], [[-2.0, 0.0], [2.0, -2.0]], [[0.0, -2.0], [3.0, 1.0]], [[-3.0, -1.0], [2.0, 2.0]]], [[[-2.0, -3.0], [-3.0, -2.0]], [[3.0, 3.0], [-1.0, 1.0]], [[0.0, -2.0], [0.0, -3.0]], [[0.0, -3.0], [-2.0, -2.0]], [[-4.0, -1.0], [2.0, 1.0]]]]]> : tensor<1x4x5x2x2xf64>
  %x1 = util.unfoldable_constant dense<[[[[[2.0, 3.0], [-4.0, 2.0], [-3.0, -1.0]], [[-4.0, -3.0], [0.0, 0.0], [-1.0, -1.0]]], [[[-1.0, 1.0], [1.0, -1.0], [2.0, 1.0]], [[0.0, -3.0], [3.0, -2.0], [-2.0, 2.0]]], [[[3.0, 4.0], [3.0, 3.0], [2.0, 3.0]], [[1.0, 3.0], [-2.0, 0.0], [3.0, 2.0]]]], [[[[-1.0, 1.0], [-1.0, 0.0], [-4.0, -2.0]], [[2.0, 3.0], [3.0, -4.0], [-3.0, 3.0]]], [[[1.0, 3.0], [0.0, -1.0], [-2.0, 3.0]], [[-3.0, -1.0], [-4.0, 0.0], [1.0, 0.0]]], [[[0.0, -3.0], [-1.0, -2.0], [2.0, -2.0]], [[1.0, 0.0], [4.0, 2.0], [-3.0, 2.0]]]]]> : tensor<2x3x2x3x2xf64>
  %v0 = arith.constant 0.0 : f64
  %v1 = tensor.empty() : tensor<1x3x2x2x3xf64>
  %v2 = linalg.fill ins(%v0 : f64) outs(%v1 : tensor<1x3x2x2x3xf64>) -> tensor<1x3x2x2x3xf64>
  %v3 = linalg.conv_2d_nhwgc_gfhwc {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x4x5x2x2xf64>, tensor<2x3x2x3x2xf64>) outs(%v2 : tensor<1x3x2x2x3xf64>) -> tensor<1x3x2x2x3xf64>
  check.expect_eq_const(%v3, dense<[[[[[-7.0, 1.0, 67.0], [31.0, -17.0, 48.0]], [[7.0, -11.0, -4.0], [18.0, -15.0, 24.0]]], [[[-20.0, 34.0, 21.0], [-25.0, 20.0, -33.0]], [[20.0, 6.0, -2.0], [2.0, 7.0, -16.0]]], [[[17.0, 2.0, -27.0], [-26.0, 10.0, -17.0]], [[13.0, 15.0, -41.0], [-29.0, 10.0, -15.0]]]]]> : tensor<1x3x2x2x3xf64>) : tensor<1x3x2x2x3xf64>
  return
}

func.func @conv_2d_nhwgc_gfhwc_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[2.0, 4.0], [-2.0, -3.0]], [[3.0, 3.0], [0.0, -3.0]], [[3.0, 0.0], [-3.0, -3.0]], [[-1.0, 2.0], [-1.0, 3.0]]], [[[-4.0, -1.0], [0.0, 4.0]], [[-2.0, 3.0], [-4.0, -1.0]], [[2.0, 1.0], [4.0, 2.0]], [[4.0, 3.0], [-3.0, 4.0]]], [[[3.0, -3.0], [4.0, 2.0]], [[-2.0, -3.0], [-1.0, 4.0]], [[3.0, -2.0], [0.0, 3.0]], [[1.0, -2.0], [-3.0, 4.0]]], [[[-2.0, 0.0], [2.0, -2.0]], [[0.0, -2.0], [3.0, 1.0]], [[-3.0, -1.0], [2.0, 2.0]], [[-2.0, -3.0], [-3.0, -2.0]]], [[[3.0, 3.0], [-1.0, 1.0]], [[0.0, -2.0], [0.0, -3.0]], [[0.0, -3.0], [-2.0, -2.0]], [[-4.0, -1.0], [2.0, 1.0]]], [[[2.0, 3.0], [-4.0, 2.0]], [[-3.0, -1.0], [-4.0, -3.0]], [[0.0, 0.0], [-1.0, -1.0]], [[-1.0, 1.0], [1.0, -1.0]]]]]> : tensor<1x6x4x2x2xf64> -> tensor<?x?x?x?x?xf64>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[2.0, 1.0], [0.0, -3.0], [3.0, -2.0]], [[-2.0, 2.0], [3.0, 4.0], [3.0, 3.0]]], [[[2.0, 3.0], [1.0, 3.0], [-2.0, 0.0]], [[3.0, 2.0], [-1.0, 1.0], [-1.0, 0.0]]], [[[-4.0, -2.0], [2.0, 3.0], [3.0, -4.0]], [[-3.0, 3.0], [1.0, 3.0], [0.0, -1.0]]]], [[[[-2.0, 3.0], [-3.0, -1.0], [-4.0, 0.0]], [[1.0, 0.0], [0.0, -3.0], [-1.0, -2.0]]], [[[2.0, -2.0], [1.0, 0.0], [4.0, 2.0]], [[-3.0, 2.0], [-2.0, 0.0], [-3.0, 0.0]]], [[[-4.0, 0.0], [0.0, -2.0], [0.0, -3.0]], [[4.0, -2.0], [3.0, 1.0], [2.0, -4.0]]]]]> : tensor<2x3x2x3x2xf64> -> tensor<?x?x?x?x?xf64>
  %v0 = arith.constant 0.0 : f64
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v1, %v2, %v3, %v4, %v5) : tensor<?x?x?x?x?xf64>
  %v7 = linalg.fill ins(%v0 : f64) outs(%v6 : tensor<?x?x?x?x?xf64>) -> tensor<?x?x?x?x?xf64>
  %v8 = linalg.conv_2d_nhwgc_gfhwc {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xf64>, tensor<?x?x?x?x?xf64>) outs(%v7 : tensor<?x?x?x?x?xf64>) -> tensor<?x?x?x?x?xf64>
  %static0 = tensor.cast %v8 : tensor<?x?x?x?x?xf64> to tensor<1x3x2x2x3xf64>
  check.expect_eq_const(%static0, dense<[[[[[29.0, 11.0, 23.0], [5.0, -12.0, 2.0]], [[43.0, 15.0, -6.0], [-8.0, 16.0, -25.0]]], [[[9.0, -25.0, -1.0], [-10.0, -13.0, -15.0]], [[-26.0, -18.0, 16.0], [27.0, -16.0, 6.0]]], [[[10.0, 23.0, -15.0], [24.0, 11.0, -17.0]], [[1.0, -17.0, -8.0], [-9.0, 19.0, -7.0]]]]]> : tensor<1x3x2x2x3xf64>) : tensor<1x3x2x2x3xf64>
  return
}

func.func @conv_3d_ndhwc_dhwcf_static() {
  %x0 = util.unfoldable_constant dense<[[[[[-3.0, -3.0], [3.0, 0.0], [1.0, 1.0], [2.0, -4.0]], [[0.0, -3.0], [-1.0, 4.0], [0.0, -4.0], [0.0, -3.0]], [[2.0, 4.0], [4.0, 1.0], [3.0, -1.0], [-3.0, 0.0]], [[-1.0, 1.0], [4.0, -2.0], [3.0, -3.0], [-1.0, 3.0]], [[-2.0, 2.0], [0.0, 0.0], [4.0, 3.0], [3.0, 0.0]]], [[[4.0, 4.0], [-3.0, -3.0], [-2.0, 0.0], [3.0, 0.0]], [[4.0, -1.0], [4.0, 1.0], [2.0, -2.0], [1.0, 3.0]], [[3.0, 3.0], [4.0, -3.0], [3.0, 0.0], [2.0, -2.0]], [[-4.0, -4.0], [4.0, 4.0], [-2.0, -1.0], [-2.0, -3.0]], [[3.0, 2.0], [-4.0, -3.0], [1.0, 4.0], [4.0, -3.0]]], [[[1.0, -4.0], [-3.0, -3.0], [-1.0, -1.0], [2.0, 0.0]], [[-1.0, 4.0], [1.0, 2.0], [2.0, -1.0], [4.0, -4.0]], [[-2.0, -3.0], [-4.0, 4.0], [-4.0, 0.0], [3.0, 2.0]], [[3.0, -4.0], [0.0, -4.0], [-3.0, 3.0], [-4.0, 1.0]], [[-4.0, -2.0], [4.0, -2.0], [-2.0, -4.0], [2.0, -3.0]]], [[[0.0, -4.0], [-4.0, 3.0], [-4.0, 0.0], [-1.0, -3.0]], [[1.0, 2.0], [4.0, -3.0], [4.0, -4.0], [-3.0, 1.0]], [[3.0, 4.0], [2.0, -4.0], [-1.0, 3.0], [0.0, -3.0]], [[2.0, -4.0], [2.0, -4.0], [-1.0, -2.0], [4.0, 2.0]], [[1.0, 0.0], [-2.0, 3.0], [4.0, -3.0], [-2.0, -2.0]]]]]> : tensor<1x4x5x4x2xf16>
  %x1 = util.unfoldable_constant dense<[[[[[0.0, -2.0, -1.0], [4.0, -1.0, 4.0]], [[0.0, -1.0, 4.0], [-1.0, 2.0, -2.0]]], [[[4.0, 2.0, 3.0], [-4.0, -4.0, -4.0]], [[0.0, -1.0, 4.0], [-2.0, -3.0, 3.0]]], [[[-2.0, 2.0, -2.0], [0.0, -4.0, 1.0]], [[4.0, 2.0, 3.0], [3.0, 1.0, 4.0]]]], [[[[0.0, -3.0, 1.0], [1.0, -3.0, -3.0]], [[1.0, -1.0, 0.0], [3.0, 2.0, 4.0]]], [[[-3.0, 2.0, 0.0], [-4.0, -4.0, -1.0]], [[1.0, -3.0, 0.0], [4.0, -3.0, -3.0]]], [[[4.0, -2.0, 3.0], [-1.0, 2.0, -4.0]], [[1.0, 3.0, -1.0], [1.0, -3.0, -3.0]]]]]> : tensor<2x3x2x2x3xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x3x2x2x3xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x3x2x2x3xf32>) -> tensor<1x3x2x2x3xf32>
  %v3 = linalg.conv_3d_ndhwc_dhwcf {dilations = dense<[1, 1, 2]> : tensor<3xi64>, strides = dense<[1, 2, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<1x4x5x4x2xf16>, tensor<2x3x2x2x3xf16>) outs(%v2 : tensor<1x3x2x2x3xf32>) -> tensor<1x3x2x2x3xf32>
  check.expect_eq_const(%v3, dense<[[[[[12.0, 26.0, -9.0], [-14.0, -22.0, -7.0]], [[87.0, -29.0, 43.0], [-27.0, 29.0, 37.0]]], [[[14.0, -21.0, 46.0], [-51.0, 51.0, -10.0]], [[13.0, 56.0, 41.0], [57.0, 30.0, 0.0]]], [[[-66.0, -16.0, -37.0], [21.0, 14.0, 33.0]], [[16.0, 53.0, 1.0], [13.0, 51.0, 5.0]]]]]> : tensor<1x3x2x2x3xf32>) : tensor<1x3x2x2x3xf32>
  return
}

func.func @conv_3d_ndhwc_dhwcf_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[-3.0, -3.0], [3.0, 0.0], [1.0, 1.0]], [[2.0, -4.0], [0.0, -3.0], [-1.0, 4.0]], [[0.0, -4.0], [0.0, -3.0], [2.0, 4.0]], [[4.0, 1.0], [3.0, -1.0], [-3.0, 0.0]]], [[[-1.0, 1.0], [4.0, -2.0], [3.0, -3.0]], [[-1.0, 3.0], [-2.0, 2.0], [0.0, 0.0]], [[4.0, 3.0], [3.0, 0.0], [4.0, 4.0]], [[-3.0, -3.0], [-2.0, 0.0], [3.0, 0.0]]], [[[4.0, -1.0], [4.0, 1.0], [2.0, -2.0]], [[1.0, 3.0], [3.0, 3.0], [4.0, -3.0]], [[3.0, 0.0], [2.0, -2.0], [-4.0, -4.0]], [[4.0, 4.0], [-2.0, -1.0], [-2.0, -3.0]]], [[[3.0, 2.0], [-4.0, -3.0], [1.0, 4.0]], [[4.0, -3.0], [1.0, -4.0], [-3.0, -3.0]], [[-1.0, -1.0], [2.0, 0.0], [-1.0, 4.0]], [[1.0, 2.0], [2.0, -1.0], [4.0, -4.0]]], [[[-2.0, -3.0], [-4.0, 4.0], [-4.0, 0.0]], [[3.0, 2.0], [3.0, -4.0], [0.0, -4.0]], [[-3.0, 3.0], [-4.0, 1.0], [-4.0, -2.0]], [[4.0, -2.0], [-2.0, -4.0], [2.0, -3.0]]], [[[0.0, -4.0], [-4.0, 3.0], [-4.0, 0.0]], [[-1.0, -3.0], [1.0, 2.0], [4.0, -3.0]], [[4.0, -4.0], [-3.0, 1.0], [3.0, 4.0]], [[2.0, -4.0], [-1.0, 3.0], [0.0, -3.0]]]]]> : tensor<1x6x4x3x2xf16> -> tensor<?x?x?x?x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[2.0, -4.0, 2.0], [-4.0, -1.0, -2.0]], [[4.0, 2.0, 1.0], [0.0, -2.0, 3.0]]], [[[4.0, -3.0, -2.0], [-2.0, 0.0, -2.0]], [[-1.0, 4.0, -1.0], [4.0, 0.0, -1.0]]], [[[4.0, -1.0, 2.0], [-2.0, 4.0, 2.0]], [[3.0, -4.0, -4.0], [-4.0, 0.0, -1.0]]]], [[[[4.0, -2.0, -3.0], [3.0, -2.0, 2.0]], [[-2.0, 0.0, -4.0], [1.0, 4.0, 2.0]]], [[[3.0, 3.0, 1.0], [4.0, 0.0, -3.0]], [[1.0, 1.0, -3.0], [-3.0, 1.0, -1.0]]], [[[0.0, 3.0, 2.0], [4.0, -3.0, 2.0]], [[0.0, -4.0, -4.0], [-1.0, 1.0, -3.0]]]]]> : tensor<2x3x2x2x3xf16> -> tensor<?x?x?x?x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v1, %v2, %v3, %v4, %v5) : tensor<?x?x?x?x?xf32>
  %v7 = linalg.fill ins(%v0 : f32) outs(%v6 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %v8 = linalg.conv_3d_ndhwc_dhwcf {dilations = dense<[1, 1, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xf16>, tensor<?x?x?x?x?xf16>) outs(%v7 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %static0 = tensor.cast %v8 : tensor<?x?x?x?x?xf32> to tensor<1x3x2x2x3xf32>
  check.expect_eq_const(%static0, dense<[[[[[44.0, -21.0, -14.0], [28.0, -61.0, -69.0]], [[69.0, 17.0, 16.0], [32.0, 5.0, 14.0]]], [[[93.0, -32.0, 10.0], [-16.0, 45.0, 40.0]], [[15.0, -19.0, -6.0], [-2.0, -25.0, 2.0]]], [[[-91.0, 86.0, 42.0], [-33.0, 5.0, -10.0]], [[-12.0, 40.0, 24.0], [18.0, -61.0, -30.0]]]]]> : tensor<1x3x2x2x3xf32>) : tensor<1x3x2x2x3xf32>
  return
}

func.func @conv_3d_ncdhw_fcdhw_static() {
  %x0 = util.unfoldable_constant dense<[[[[[1.0, -2.0, 4.0, 4.0], [-4.0, -3.0, -3.0, -3.0], [1.0, -1.0, 0.0, -2.0], [4.0, 2.0, 1.0, -3.0], [-3.0, 4.0, -2.0, 3.0]], [[3.0, -4.0, 0.0, 0.0], [0.0, -4.0, 2.0, -2.0], [-1.0, -1.0, -2.0, 0.0], [3.0, 0.0, 2.0, 4.0], [-3.0, -2.0, 1.0, -3.0]], [[2.0, 2.0, 2.0, 4.0], [-1.0, 4.0, 4.0, 3.0], [-2.0, -4.0, 3.0, 4.0], [-2.0, 1.0, -3.0, 3.0], [3.0, -1.0, 3.0, -3.0]], [[4.0, 3.0, 3.0, 1.0], [-4.0, 3.0, 2.0, -3.0], [3.0, -3.0, -1.0, 2.0], [2.0, -4.0, -2.0, 4.0], [1.0, -3.0, -1.0, 1.0]]], [[[-4.0, -1.0, -2.0, -2.0], [1.0, -3.0, 4.0, 3.0], [1.0, 4.0, -4.0, 2.0], [3.0, 1.0, 0.0, 2.0], [2.0, 0.0, 0.0, 1.0]], [[2.0, 4.0, 3.0, -2.0], [3.0, -3.0, 1.0, 4.0], [4.0, 4.0, 3.0, 0.0], [-3.0, 3.0, 3.0, 2.0], [1.0, 4.0, -1.0, -4.0]], [[4.0, 4.0, 2.0, 0.0], [4.0, 0.0, 4.0, 2.0], [4.0, 1.0, -2.0, -1.0], [1.0, -2.0, -3.0, 4.0], [3.0, 3.0, 0.0, -4.0]], [[4.0, -1.0, -3.0, 2.0], [-1.0, 3.0, 1.0, 4.0], [-3.0, -2.0, 4.0, 4.0], [4.0, 2.0, 4.0, -4.0], [3.0, -3.0, -4.0, -3.0]]]]]> : tensor<1x2x4x5x4xf32>
  %x1 = util.unfoldable_constant dense<[[[[[-3.0, -4.0], [-1.0, 2.0], [2.0, -2.0]], [[0.0, 2.0], [2.0, -4.0], [2.0, 3.0]]], [[[-3.0, 2.0], [-2.0, 3.0], [-2.0, 1.0]], [[-2.0, 0.0], [2.0, -3.0], [-3.0, 4.0]]]], [[[[3.0, -3.0], [1.0, 0.0], [-1.0, -3.0]], [[-1.0, -4.0], [1.0, 2.0], [0.0, 3.0]]], [[[2.0, 0.0], [4.0, 3.0], [-3.0, 3.0]], [[-1.0, 0.0], [-2.0, 2.0], [3.0, -2.0]]]], [[[[0.0, -3.0], [-3.0, -3.0], [-2.0, -4.0]], [[-1.0, -4.0], [2.0, 2.0], [-1.0, 4.0]]], [[[-4.0, -4.0], [-3.0, 2.0], [1.0, 2.0]], [[-2.0, 2.0], [4.0, 0.0], [-3.0, 0.0]]]]]> : tensor<3x2x2x3x2xf32>
  %x2 = util.unfoldable_constant dense<[[[[[-4.0, 2.0], [0.0, -2.0]], [[3.0, 2.0], [1.0, -3.0]], [[-2.0, -4.0], [-3.0, 4.0]]], [[[0.0, -4.0], [3.0, -3.0]], [[1.0, -4.0], [2.0, -4.0]], [[1.0, -3.0], [-1.0, 4.0]]], [[[1.0, 2.0], [4.0, -1.0]], [[-2.0, -4.0], [3.0, 3.0]], [[0.0, 0.0], [-3.0, 3.0]]]]]> : tensor<1x3x3x2x2xf32>
  %v0 = linalg.conv_3d_ncdhw_fcdhw {dilations = dense<[1, 1, 2]> : tensor<3xi64>, strides = dense<[1, 2, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<1x2x4x5x4xf32>, tensor<3x2x2x3x2xf32>) outs(%x2 : tensor<1x3x3x2x2xf32>) -> tensor<1x3x3x2x2xf32>
  check.expect_eq_const(%v0, dense<[[[[[-28.0, -41.0], [-67.0, -65.0]], [[-49.0, -7.0], [34.0, -70.0]], [[-26.0, -11.0], [-60.0, 4.0]]], [[[-26.0, -11.0], [59.0, 24.0]], [[51.0, -14.0], [-5.0, 20.0]], [[-25.0, -20.0], [-20.0, -35.0]]], [[[26.0, 10.0], [17.0, -42.0]], [[-5.0, 34.0], [-46.0, -54.0]], [[-87.0, -26.0], [-12.0, 33.0]]]]]> : tensor<1x3x3x2x2xf32>) : tensor<1x3x3x2x2xf32>
  return
}

func.func @conv_3d_ncdhw_fcdhw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[1.0, -2.0, 4.0], [4.0, -4.0, -3.0], [-3.0, -3.0, 1.0], [-1.0, 0.0, -2.0]], [[4.0, 2.0, 1.0], [-3.0, -3.0, 4.0], [-2.0, 3.0, 3.0], [-4.0, 0.0, 0.0]], [[0.0, -4.0, 2.0], [-2.0, -1.0, -1.0], [-2.0, 0.0, 3.0], [0.0, 2.0, 4.0]], [[-3.0, -2.0, 1.0], [-3.0, 2.0, 2.0], [2.0, 4.0, -1.0], [4.0, 4.0, 3.0]], [[-2.0, -4.0, 3.0], [4.0, -2.0, 1.0], [-3.0, 3.0, 3.0], [-1.0, 3.0, -3.0]], [[4.0, 3.0, 3.0], [1.0, -4.0, 3.0], [2.0, -3.0, 3.0], [-3.0, -1.0, 2.0]]], [[[2.0, -4.0, -2.0], [4.0, 1.0, -3.0], [-1.0, 1.0, -4.0], [-1.0, -2.0, -2.0]], [[1.0, -3.0, 4.0], [3.0, 1.0, 4.0], [-4.0, 2.0, 3.0], [1.0, 0.0, 2.0]], [[2.0, 0.0, 0.0], [1.0, 2.0, 4.0], [3.0, -2.0, 3.0], [-3.0, 1.0, 4.0]], [[4.0, 4.0, 3.0], [0.0, -3.0, 3.0], [3.0, 2.0, 1.0], [4.0, -1.0, -4.0]], [[4.0, 4.0, 2.0], [0.0, 4.0, 0.0], [4.0, 2.0, 4.0], [1.0, -2.0, -1.0]], [[1.0, -2.0, -3.0], [4.0, 3.0, 3.0], [0.0, -4.0, 4.0], [-1.0, -3.0, 2.0]]]]]> : tensor<1x2x6x4x3xf32> -> tensor<?x?x?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[-1.0, 3.0], [1.0, 4.0], [-3.0, -2.0]], [[4.0, 4.0], [4.0, 2.0], [4.0, -4.0]]], [[[3.0, -3.0], [-4.0, -3.0], [-3.0, -4.0]], [[-1.0, 2.0], [2.0, -2.0], [0.0, 2.0]]]], [[[[2.0, -4.0], [2.0, 3.0], [-3.0, 2.0]], [[-2.0, 3.0], [-2.0, 1.0], [-2.0, 0.0]]], [[[2.0, -3.0], [-3.0, 4.0], [3.0, -3.0]], [[1.0, 0.0], [-1.0, -3.0], [-1.0, -4.0]]]], [[[[1.0, 2.0], [0.0, 3.0], [2.0, 0.0]], [[4.0, 3.0], [-3.0, 3.0], [-1.0, 0.0]]], [[[-2.0, 2.0], [3.0, -2.0], [0.0, -3.0]], [[-3.0, -3.0], [-2.0, -4.0], [-1.0, -4.0]]]]]> : tensor<3x2x2x3x2xf32> -> tensor<?x?x?x?x?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[[[[[2.0, 2.0], [-1.0, 4.0]], [[-4.0, -4.0], [-3.0, 2.0]], [[1.0, 2.0], [-2.0, 2.0]]], [[[4.0, 0.0], [-3.0, 0.0]], [[-4.0, 2.0], [0.0, -2.0]], [[3.0, 2.0], [1.0, -3.0]]], [[[-2.0, -4.0], [-3.0, 4.0]], [[0.0, -4.0], [3.0, -3.0]], [[1.0, -4.0], [2.0, -4.0]]]]]> : tensor<1x3x3x2x2xf32> -> tensor<?x?x?x?x?xf32>
  %v0 = linalg.conv_3d_ncdhw_fcdhw {dilations = dense<[1, 1, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?x?xf32>) outs(%x2 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?x?x?x?xf32> to tensor<1x3x3x2x2xf32>
  check.expect_eq_const(%static0, dense<[[[[[-17.0, 38.0], [-63.0, 69.0]], [[-43.0, -11.0], [-8.0, 9.0]], [[-9.0, -36.0], [-49.0, -10.0]]], [[[11.0, -55.0], [36.0, -14.0]], [[41.0, -29.0], [-38.0, 6.0]], [[45.0, -44.0], [36.0, 22.0]]], [[[-12.0, 6.0], [-38.0, -33.0]], [[-42.0, -60.0], [2.0, -9.0]], [[-28.0, 33.0], [19.0, -15.0]]]]]> : tensor<1x3x3x2x2xf32>) : tensor<1x3x3x2x2xf32>
  return
}

func.func @depthwise_conv_1d_nwc_wc_static() {
  %x0 = util.unfoldable_constant dense<[[[4, 3], [3, 3], [-4, 3], [4, -2]]]> : tensor<1x4x2xi8>
  %x1 = util.unfoldable_constant dense<[[-3, -4], [3, 4]]> : tensor<2x2xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<1x3x2xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<1x3x2xi32>) -> tensor<1x3x2xi32>
  %v3 = linalg.depthwise_conv_1d_nwc_wc {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[1]> : tensor<1xi64>} ins(%x0, %x1 : tensor<1x4x2xi8>, tensor<2x2xi8>) outs(%v2 : tensor<1x3x2xi32>) -> tensor<1x3x2xi32>
  check.expect_eq_const(%v3, dense<[[[-3, 0], [-21, 0], [24, -20]]]> : tensor<1x3x2xi32>) : tensor<1x3x2xi32>
  return
}

func.func @depthwise_conv_1d_nwc_wc_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[4, 3], [3, 3], [-4, 3], [4, -2], [-3, -4], [3, 4]]]> : tensor<1x6x2xi8> -> tensor<?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[1, 1], [3, -4]]> : tensor<2x2xi8> -> tensor<?x?xi8>
  %v0 = arith.constant 0 : i32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = tensor.empty(%v1, %v2, %v3) : tensor<?x?x?xi32>
  %v5 = linalg.fill ins(%v0 : i32) outs(%v4 : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
  %v6 = linalg.depthwise_conv_1d_nwc_wc {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %x1 : tensor<?x?x?xi8>, tensor<?x?xi8>) outs(%v5 : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
  %static0 = tensor.cast %v6 : tensor<?x?x?xi32> to tensor<1x3x2xi32>
  check.expect_eq_const(%static0, dense<[[[13, -9], [8, 11], [6, -20]]]> : tensor<1x3x2xi32>) : tensor<1x3x2xi32>
  return
}

func.func @depthwise_conv_1d_nwc_wcm_static() {
  %x0 = util.unfoldable_constant dense<[[[-3.0, 3.0], [1.0, -1.0], [-4.0, 2.0], [-1.0, 3.0]]]> : tensor<1x4x2xf64>
  %x1 = util.unfoldable_constant dense<[[[-1.0, 1.0], [-3.0, 0.0]], [[-4.0, 2.0], [-4.0, 2.0]]]> : tensor<2x2x2xf64>
  %v0 = arith.constant 0.0 : f64
  %v1 = tensor.empty() : tensor<1x3x2x2xf64>
  %v2 = linalg.fill ins(%v0 : f64) outs(%v1 : tensor<1x3x2x2xf64>) -> tensor<1x3x2x2xf64>
  %v3 = linalg.depthwise_conv_1d_nwc_wcm {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[1]> : tensor<1xi64>} ins(%x0, %x1 : tensor<1x4x2xf64>, tensor<2x2x2xf64>) outs(%v2 : tensor<1x3x2x2xf64>) -> tensor<1x3x2x2xf64>
  check.expect_eq_const(%v3, dense<[[[[-1.0, -1.0], [-5.0, -2.0]], [[15.0, -7.0], [-5.0, 4.0]], [[8.0, -6.0], [-18.0, 6.0]]]]> : tensor<1x3x2x2xf64>) : tensor<1x3x2x2xf64>
  return
}

func.func @depthwise_conv_1d_nwc_wcm_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[-3.0, 3.0], [1.0, -1.0], [-4.0, 2.0], [-1.0, 3.0], [-1.0, 1.0], [-3.0, 0.0]]]> : tensor<1x6x2xf64> -> tensor<?x?x?xf64>
  %x1 = flow.tensor.dynamic_constant dense<[[[-4.0, 2.0], [-4.0, 2.0]], [[2.0, 0.0], [3.0, 1.0]]]> : tensor<2x2x2xf64> -> tensor<?x?x?xf64>
  %v0 = arith.constant 0.0 : f64
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = tensor.empty(%v1, %v2, %v3, %v4) : tensor<?x?x?x?xf64>
  %v6 = linalg.fill ins(%v0 : f64) outs(%v5 : tensor<?x?x?x?xf64>) -> tensor<?x?x?x?xf64>
  %v7 = linalg.depthwise_conv_1d_nwc_wcm {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %x1 : tensor<?x?x?xf64>, tensor<?x?x?xf64>) outs(%v6 : tensor<?x?x?x?xf64>) -> tensor<?x?x?x?xf64>
  %static0 = tensor.cast %v7 : tensor<?x?x?x?xf64> to tensor<1x3x2x2xf64>
  check.expect_eq_const(%static0, dense<[[[[14.0, -6.0], [-15.0, 5.0]], [[14.0, -8.0], [1.0, 7.0]], [[-2.0, -2.0], [-4.0, 2.0]]]]> : tensor<1x3x2x2xf64>) : tensor<1x3x2x2xf64>
  return
}

func.func @depthwise_conv_1d_ncw_cw_static() {
  %x0 = util.unfoldable_constant dense<[[[4.0, 2.0, 2.0, 3.0], [-2.0, -1.0, -3.0, -4.0]]]> : tensor<1x2x4xf16>
  %x1 = util.unfoldable_constant dense<[[-1.0, 1.0], [4.0, -3.0]]> : tensor<2x2xf16>
  %x2 = util.unfoldable_constant dense<[[[4.0, 2.0, 0.0], [-1.0, 2.0, 0.0]]]> : tensor<1x2x3xf32>
  %v0 = linalg.depthwise_conv_1d_ncw_cw {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[1]> : tensor<1xi64>} ins(%x0, %x1 : tensor<1x2x4xf16>, tensor<2x2xf16>) outs(%x2 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  check.expect_eq_const(%v0, dense<[[[2.0, 2.0, 1.0], [-6.0, 7.0, 0.0]]]> : tensor<1x2x3xf32>) : tensor<1x2x3xf32>
  return
}

func.func @depthwise_conv_1d_ncw_cw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[4.0, 2.0, 2.0, 3.0, -2.0, -1.0], [-3.0, -4.0, -1.0, 1.0, 4.0, -3.0]]]> : tensor<1x2x6xf16> -> tensor<?x?x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[4.0, 2.0], [0.0, -1.0]]> : tensor<2x2xf16> -> tensor<?x?xf16>
  %x2 = flow.tensor.dynamic_constant dense<[[[2.0, 0.0, -2.0], [4.0, -3.0, 3.0]]]> : tensor<1x2x3xf32> -> tensor<?x?x?xf32>
  %v0 = linalg.depthwise_conv_1d_ncw_cw {dilations = dense<[1]> : tensor<1xi64>, strides = dense<[2]> : tensor<1xi64>} ins(%x0, %x1 : tensor<?x?x?xf16>, tensor<?x?xf16>) outs(%x2 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %static0 = tensor.cast %v0 : tensor<?x?x?xf32> to tensor<1x2x3xf32>
  check.expect_eq_const(%static0, dense<[[[22.0, 14.0, -12.0], [8.0, -4.0, 6.0]]]> : tensor<1x2x3xf32>) : tensor<1x2x3xf32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwc_static() {
  %x0 = util.unfoldable_constant dense<[[[[0.0, 1.0], [3.0, -1.0], [2.0, -4.0], [0.0, -1.0], [-4.0, 1.0]], [[0.0, -4.0], [-2.0, 3.0], [-4.0, 3.0], [3.0, -4.0], [-3.0, 3.0]], [[-4.0, -3.0], [3.0, 2.0], [0.0, -3.0], [-3.0, 2.0], [-2.0, 4.0]], [[-1.0, 4.0], [-2.0, 1.0], [-3.0, -3.0], [4.0, -1.0], [2.0, -2.0]]]]> : tensor<1x4x5x2xf32>
  %x1 = util.unfoldable_constant dense<[[[-4.0, 4.0], [4.0, -2.0], [3.0, 1.0]], [[-1.0, -1.0], [2.0, -3.0], [3.0, -1.0]]]> : tensor<2x3x2xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x3x2x2xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  %v3 = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x4x5x2xf32>, tensor<2x3x2xf32>) outs(%v2 : tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  check.expect_eq_const(%v3, dense<[[[[2.0, -6.0], [-19.0, -7.0]], [[-10.0, -19.0], [7.0, 16.0]], [[16.0, -23.0], [-1.0, -4.0]]]]> : tensor<1x3x2x2xf32>) : tensor<1x3x2x2xf32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwc_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[0.0, 1.0], [3.0, -1.0], [2.0, -4.0], [0.0, -1.0]], [[-4.0, 1.0], [0.0, -4.0], [-2.0, 3.0], [-4.0, 3.0]], [[3.0, -4.0], [-3.0, 3.0], [-4.0, -3.0], [3.0, 2.0]], [[0.0, -3.0], [-3.0, 2.0], [-2.0, 4.0], [-1.0, 4.0]], [[-2.0, 1.0], [-3.0, -3.0], [4.0, -1.0], [2.0, -2.0]], [[-4.0, 4.0], [4.0, -2.0], [3.0, 1.0], [-1.0, -1.0]]]]> : tensor<1x6x4x2xf32> -> tensor<?x?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[2.0, -3.0], [3.0, -1.0], [-2.0, 2.0]], [[4.0, -1.0], [4.0, 2.0], [1.0, 1.0]]]> : tensor<2x3x2xf32> -> tensor<?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = tensor.empty(%v1, %v2, %v3, %v4) : tensor<?x?x?x?xf32>
  %v6 = linalg.fill ins(%v0 : f32) outs(%v5 : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %v7 = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>) outs(%v6 : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %static0 = tensor.cast %v7 : tensor<?x?x?x?xf32> to tensor<1x3x2x2xf32>
  check.expect_eq_const(%static0, dense<[[[[-13.0, -16.0], [0.0, 18.0]], [[-9.0, 14.0], [-45.0, 8.0]], [[-18.0, -9.0], [29.0, 9.0]]]]> : tensor<1x3x2x2xf32>) : tensor<1x3x2x2xf32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwcm_static() {
  %x0 = util.unfoldable_constant dense<[[[[2, 3], [-4, -3], [0, 1], [2, -1], [-4, -3]], [[0, -1], [4, -1], [1, 1], [-4, 2], [-4, -4]], [[1, -2], [-1, 1], [-3, -4], [2, 4], [2, 3]], [[-1, -4], [1, 1], [2, 1], [0, -4], [2, -3]]]]> : tensor<1x4x5x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[0, -3], [1, 0]], [[-1, 1], [-3, 0]], [[2, 4], [-3, 3]]], [[[-1, -1], [3, -3]], [[-2, -1], [1, 3]], [[-2, -1], [3, 4]]]]> : tensor<2x3x2x2xi8>
  %v0 = arith.constant 0 : i32
  %v1 = tensor.empty() : tensor<1x3x2x2x2xi32>
  %v2 = linalg.fill ins(%v0 : i32) outs(%v1 : tensor<1x3x2x2x2xi32>) -> tensor<1x3x2x2x2xi32>
  %v3 = linalg.depthwise_conv_2d_nhwc_hwcm {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x4x5x2xi8>, tensor<2x3x2x2xi8>) outs(%v2 : tensor<1x3x2x2x2xi32>) -> tensor<1x3x2x2x2xi32>
  check.expect_eq_const(%v3, dense<[[[[[-6, -15], [8, 7]], [[5, -7], [6, -22]]], [[[5, 11], [-18, -4]], [[-9, -24], [8, 24]]], [[[-10, -18], [-1, 7]], [[-4, 15], [-35, -18]]]]]> : tensor<1x3x2x2x2xi32>) : tensor<1x3x2x2x2xi32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwcm_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[2, 3], [-4, -3], [0, 1], [2, -1]], [[-4, -3], [0, -1], [4, -1], [1, 1]], [[-4, 2], [-4, -4], [1, -2], [-1, 1]], [[-3, -4], [2, 4], [2, 3], [-1, -4]], [[1, 1], [2, 1], [0, -4], [2, -3]], [[0, -3], [1, 0], [-1, 1], [-3, 0]]]]> : tensor<1x6x4x2xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[2, 4], [-3, 3]], [[-1, -1], [3, -3]], [[-2, -1], [1, 3]]], [[[-2, -1], [3, 4]], [[3, 1], [3, -2]], [[-3, 1], [-2, 1]]]]> : tensor<2x3x2x2xi8> -> tensor<?x?x?x?xi8>
  %v0 = arith.constant 0 : i32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = tensor.empty(%v1, %v2, %v3, %v4, %v5) : tensor<?x?x?x?x?xi32>
  %v7 = linalg.fill ins(%v0 : i32) outs(%v6 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %v8 = linalg.depthwise_conv_2d_nhwc_hwcm {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?xi8>, tensor<?x?x?x?xi8>) outs(%v7 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v8 : tensor<?x?x?x?x?xi32> to tensor<1x3x2x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[[4, 20], [-27, 10]], [[-3, -13], [3, -16]]], [[[0, -6], [-26, -9]], [[-2, -17], [36, 3]]], [[[6, 2], [-15, -23]], [[4, 1], [-15, 4]]]]]> : tensor<1x3x2x2x2xi32>) : tensor<1x3x2x2x2xi32>
  return
}

func.func @depthwise_conv_2d_nchw_chw_static() {
  %x0 = util.unfoldable_constant dense<[[[[4.0, -1.0, -3.0, 2.0, 3.0], [-2.0, -1.0, -4.0, 4.0, 4.0], [2.0, 1.0, 1.0, 1.0, 2.0], [1.0, 3.0, 0.0, -1.0, -3.0]], [[3.0, -2.0, 1.0, 2.0, 2.0], [4.0, 2.0, 3.0, 2.0, 4.0], [0.0, -4.0, 1.0, 2.0, -3.0], [2.0, 2.0, 1.0, -2.0, 1.0]]]]> : tensor<1x2x4x5xf64>
  %x1 = util.unfoldable_constant dense<[[[1.0, -3.0, 2.0], [1.0, 3.0, 3.0]], [[3.0, -4.0, -4.0], [4.0, 3.0, -3.0]]]> : tensor<2x2x3xf64>
  %x2 = util.unfoldable_constant dense<[[[[-2.0, -1.0], [3.0, 0.0], [3.0, 1.0]], [[0.0, 0.0], [-4.0, -1.0], [3.0, 3.0]]]]> : tensor<1x2x3x2xf64>
  %v0 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1 : tensor<1x2x4x5xf64>, tensor<2x2x3xf64>) outs(%x2 : tensor<1x2x3x2xf64>) -> tensor<1x2x3x2xf64>
  check.expect_eq_const(%v0, dense<[[[[-18.0, 16.0], [4.0, 2.0], [14.0, -9.0]], [[26.0, -7.0], [-27.0, 3.0], [26.0, 5.0]]]]> : tensor<1x2x3x2xf64>) : tensor<1x2x3x2xf64>
  return
}

func.func @depthwise_conv_2d_nchw_chw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[4.0, -1.0, -3.0, 2.0], [3.0, -2.0, -1.0, -4.0], [4.0, 4.0, 2.0, 1.0], [1.0, 1.0, 2.0, 1.0], [3.0, 0.0, -1.0, -3.0], [3.0, -2.0, 1.0, 2.0]], [[2.0, 4.0, 2.0, 3.0], [2.0, 4.0, 0.0, -4.0], [1.0, 2.0, -3.0, 2.0], [2.0, 1.0, -2.0, 1.0], [1.0, -3.0, 2.0, 1.0], [3.0, 3.0, 3.0, -4.0]]]]> : tensor<1x2x6x4xf64> -> tensor<?x?x?x?xf64>
  %x1 = flow.tensor.dynamic_constant dense<[[[-4.0, 4.0, 3.0], [-3.0, -2.0, -1.0]], [[3.0, 0.0, 3.0], [1.0, 0.0, 0.0]]]> : tensor<2x2x3xf64> -> tensor<?x?x?xf64>
  %x2 = flow.tensor.dynamic_constant dense<[[[[-4.0, -1.0], [3.0, 3.0], [1.0, -1.0]], [[2.0, 3.0], [4.0, -2.0], [-1.0, 1.0]]]]> : tensor<1x2x3x2xf64> -> tensor<?x?x?x?xf64>
  %v0 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1 : tensor<?x?x?x?xf64>, tensor<?x?x?xf64>) outs(%x2 : tensor<?x?x?x?xf64>) -> tensor<?x?x?x?xf64>
  %static0 = tensor.cast %v0 : tensor<?x?x?x?xf64> to tensor<1x2x3x2xf64>
  check.expect_eq_const(%static0, dense<[[[[-37.0, 9.0], [2.0, -10.0], [-20.0, -12.0]], [[16.0, 28.0], [0.0, 11.0], [11.0, -2.0]]]]> : tensor<1x2x3x2xf64>) : tensor<1x2x3x2xf64>
  return
}

func.func @depthwise_conv_3d_ndhwc_dhwc_static() {
  %x0 = util.unfoldable_constant dense<[[[[[1.0, -1.0], [-1.0, 4.0], [-1.0, -2.0], [3.0, -4.0]], [[-1.0, -2.0], [-4.0, 2.0], [4.0, 3.0], [-2.0, 0.0]], [[3.0, -2.0], [-1.0, 4.0], [-3.0, 4.0], [2.0, -1.0]], [[3.0, -1.0], [-1.0, 1.0], [4.0, 2.0], [2.0, 1.0]], [[3.0, -1.0], [2.0, -1.0], [1.0, 1.0], [-1.0, 4.0]]], [[[-2.0, -4.0], [2.0, -4.0], [0.0, 2.0], [-3.0, 0.0]], [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [-4.0, 4.0]], [[3.0, -1.0], [-1.0, 1.0], [4.0, 0.0], [-2.0, -4.0]], [[0.0, -3.0], [1.0, 3.0], [3.0, 0.0], [-3.0, 2.0]], [[-3.0, 0.0], [-3.0, 3.0], [-4.0, 3.0], [-2.0, -1.0]]], [[[-1.0, -3.0], [2.0, 3.0], [2.0, 0.0], [4.0, 1.0]], [[1.0, 0.0], [0.0, -4.0], [3.0, 0.0], [-3.0, -4.0]], [[4.0, -4.0], [2.0, 3.0], [1.0, -3.0], [0.0, 2.0]], [[-4.0, -1.0], [0.0, 0.0], [3.0, 0.0], [-2.0, -3.0]], [[1.0, -4.0], [-4.0, 1.0], [0.0, -4.0], [-4.0, -4.0]]], [[[0.0, -4.0], [-2.0, 1.0], [-4.0, 4.0], [-3.0, 0.0]], [[4.0, -4.0], [3.0, 1.0], [-2.0, 0.0], [-3.0, 2.0]], [[3.0, -3.0], [-4.0, 2.0], [0.0, 4.0], [1.0, -3.0]], [[3.0, 4.0], [0.0, 1.0], [2.0, 3.0], [3.0, -3.0]], [[-1.0, -1.0], [2.0, 3.0], [4.0, 3.0], [3.0, 1.0]]]]]> : tensor<1x4x5x4x2xf16>
  %x1 = util.unfoldable_constant dense<[[[[0.0, 2.0], [1.0, 1.0]], [[-2.0, 0.0], [1.0, -2.0]], [[1.0, 0.0], [0.0, 0.0]]], [[[3.0, 0.0], [4.0, -4.0]], [[0.0, 4.0], [4.0, 4.0]], [[0.0, 2.0], [2.0, -3.0]]]]> : tensor<2x3x2x2xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x3x2x2x2xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x3x2x2x2xf32>) -> tensor<1x3x2x2x2xf32>
  %v3 = linalg.depthwise_conv_3d_ndhwc_dhwc {dilations = dense<[1, 1, 2]> : tensor<3xi64>, strides = dense<[1, 2, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<1x4x5x4x2xf16>, tensor<2x3x2x2xf16>) outs(%v2 : tensor<1x3x2x2x2xf32>) -> tensor<1x3x2x2x2xf32>
  check.expect_eq_const(%v3, dense<[[[[[10.0, -12.0], [-18.0, 34.0]], [[27.0, -25.0], [-19.0, 50.0]]], [[[20.0, -5.0], [2.0, -52.0]], [[32.0, 10.0], [-20.0, -12.0]]], [[[-17.0, -56.0], [-25.0, 40.0]], [[38.0, -10.0], [4.0, 21.0]]]]]> : tensor<1x3x2x2x2xf32>) : tensor<1x3x2x2x2xf32>
  return
}

func.func @depthwise_conv_3d_ndhwc_dhwc_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[1.0, -1.0], [-1.0, 4.0], [-1.0, -2.0]], [[3.0, -4.0], [-1.0, -2.0], [-4.0, 2.0]], [[4.0, 3.0], [-2.0, 0.0], [3.0, -2.0]], [[-1.0, 4.0], [-3.0, 4.0], [2.0, -1.0]]], [[[3.0, -1.0], [-1.0, 1.0], [4.0, 2.0]], [[2.0, 1.0], [3.0, -1.0], [2.0, -1.0]], [[1.0, 1.0], [-1.0, 4.0], [-2.0, -4.0]], [[2.0, -4.0], [0.0, 2.0], [-3.0, 0.0]]], [[[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]], [[-4.0, 4.0], [3.0, -1.0], [-1.0, 1.0]], [[4.0, 0.0], [-2.0, -4.0], [0.0, -3.0]], [[1.0, 3.0], [3.0, 0.0], [-3.0, 2.0]]], [[[-3.0, 0.0], [-3.0, 3.0], [-4.0, 3.0]], [[-2.0, -1.0], [-1.0, -3.0], [2.0, 3.0]], [[2.0, 0.0], [4.0, 1.0], [1.0, 0.0]], [[0.0, -4.0], [3.0, 0.0], [-3.0, -4.0]]], [[[4.0, -4.0], [2.0, 3.0], [1.0, -3.0]], [[0.0, 2.0], [-4.0, -1.0], [0.0, 0.0]], [[3.0, 0.0], [-2.0, -3.0], [1.0, -4.0]], [[-4.0, 1.0], [0.0, -4.0], [-4.0, -4.0]]], [[[0.0, -4.0], [-2.0, 1.0], [-4.0, 4.0]], [[-3.0, 0.0], [4.0, -4.0], [3.0, 1.0]], [[-2.0, 0.0], [-3.0, 2.0], [3.0, -3.0]], [[-4.0, 2.0], [0.0, 4.0], [1.0, -3.0]]]]]> : tensor<1x6x4x3x2xf16> -> tensor<?x?x?x?x?xf16>
  %x1 = flow.tensor.dynamic_constant dense<[[[[3.0, 4.0], [0.0, 1.0]], [[2.0, 3.0], [3.0, -3.0]], [[-1.0, -1.0], [2.0, 3.0]]], [[[4.0, 3.0], [3.0, 1.0]], [[0.0, 2.0], [1.0, 1.0]], [[-2.0, 0.0], [1.0, -2.0]]]]> : tensor<2x3x2x2xf16> -> tensor<?x?x?x?xf16>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = tensor.empty(%v1, %v2, %v3, %v4, %v5) : tensor<?x?x?x?x?xf32>
  %v7 = linalg.fill ins(%v0 : f32) outs(%v6 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %v8 = linalg.depthwise_conv_3d_ndhwc_dhwc {dilations = dense<[1, 1, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xf16>, tensor<?x?x?x?xf16>) outs(%v7 : tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
  %static0 = tensor.cast %v8 : tensor<?x?x?x?x?xf32> to tensor<1x3x2x2x2xf32>
  check.expect_eq_const(%static0, dense<[[[[[7.0, -18.0], [1.0, 6.0]], [[18.0, 3.0], [22.0, -7.0]]], [[[-26.0, 7.0], [-24.0, -2.0]], [[-9.0, 19.0], [-10.0, 4.0]]], [[[-8.0, -32.0], [-6.0, 3.0]], [[9.0, -7.0], [8.0, -13.0]]]]]> : tensor<1x3x2x2x2xf32>) : tensor<1x3x2x2x2xf32>
  return
}

func.func @depthwise_conv_3d_ndhwc_dhwcm_static() {
  %x0 = util.unfoldable_constant dense<[[[[[4.0, -2.0], [-2.0, 0.0], [4.0, -3.0], [-2.0, 0.0]], [[-2.0, -1.0], [-1.0, -4.0], [-4.0, -4.0], [1.0, 4.0]], [[4.0, 2.0], [4.0, 0.0], [0.0, 1.0], [-1.0, -2.0]], [[2.0, -2.0], [0.0, -4.0], [-3.0, -4.0], [1.0, 3.0]], [[3.0, 3.0], [4.0, -4.0], [2.0, -2.0], [1.0, -4.0]]], [[[-3.0, 0.0], [-2.0, 1.0], [4.0, 0.0], [4.0, -3.0]], [[-1.0, 2.0], [-3.0, 1.0], [-1.0, 0.0], [0.0, -2.0]], [[2.0, 4.0], [-3.0, -4.0], [-2.0, -3.0], [-1.0, -1.0]], [[-2.0, -2.0], [-2.0, 1.0], [3.0, 2.0], [-4.0, 2.0]], [[1.0, 2.0], [-3.0, -3.0], [-4.0, 2.0], [-1.0, -2.0]]], [[[1.0, 0.0], [0.0, -3.0], [-3.0, 3.0], [-1.0, -4.0]], [[4.0, -1.0], [0.0, 1.0], [0.0, 2.0], [4.0, -4.0]], [[-1.0, 4.0], [4.0, -2.0], [-2.0, 0.0], [2.0, -2.0]], [[-4.0, -4.0], [-3.0, -2.0], [4.0, -2.0], [4.0, 1.0]], [[-4.0, -4.0], [3.0, 4.0], [-2.0, -3.0], [1.0, 0.0]]], [[[-1.0, -1.0], [-3.0, -1.0], [0.0, 4.0], [1.0, 4.0]], [[4.0, 1.0], [0.0, -2.0], [2.0, -3.0], [-1.0, 0.0]], [[0.0, -3.0], [0.0, 0.0], [0.0, -4.0], [-1.0, -4.0]], [[-2.0, 0.0], [1.0, -1.0], [-1.0, 4.0], [2.0, -1.0]], [[4.0, 0.0], [4.0, -1.0], [2.0, 2.0], [0.0, -1.0]]]]]> : tensor<1x4x5x4x2xf32>
  %x1 = util.unfoldable_constant dense<[[[[[-4.0, -2.0], [3.0, 0.0]], [[4.0, 3.0], [-3.0, 0.0]]], [[[-1.0, 2.0], [-2.0, 1.0]], [[-2.0, -2.0], [-4.0, 0.0]]], [[[1.0, -1.0], [3.0, 3.0]], [[1.0, -2.0], [-1.0, 3.0]]]], [[[[-4.0, -1.0], [0.0, -2.0]], [[-3.0, 4.0], [3.0, 3.0]]], [[[-3.0, 0.0], [-2.0, 3.0]], [[4.0, 3.0], [0.0, 2.0]]], [[[-3.0, 1.0], [-3.0, 2.0]], [[-4.0, -4.0], [3.0, -2.0]]]]]> : tensor<2x3x2x2x2xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<1x3x2x2x2x2xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<1x3x2x2x2x2xf32>) -> tensor<1x3x2x2x2x2xf32>
  %v3 = linalg.depthwise_conv_3d_ndhwc_dhwcm {dilations = dense<[1, 1, 2]> : tensor<3xi64>, strides = dense<[1, 2, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<1x4x5x4x2xf32>, tensor<2x3x2x2x2xf32>) outs(%v2 : tensor<1x3x2x2x2x2xf32>) -> tensor<1x3x2x2x2x2xf32>
  check.expect_eq_const(%v3, dense<[[[[[[15.0, 30.0], [1.0, 28.0]], [[20.0, 11.0], [-8.0, -28.0]]], [[[22.0, 11.0], [29.0, -18.0]], [[1.0, -31.0], [-8.0, -18.0]]]], [[[[35.0, 14.0], [10.0, 23.0]], [[22.0, 19.0], [-7.0, -25.0]]], [[[35.0, -4.0], [32.0, -16.0]], [[4.0, 27.0], [-40.0, -12.0]]]], [[[[-23.0, 9.0], [4.0, 24.0]], [[3.0, -11.0], [17.0, 5.0]]], [[[-32.0, -19.0], [13.0, -27.0]], [[-13.0, -15.0], [2.0, -7.0]]]]]]> : tensor<1x3x2x2x2x2xf32>) : tensor<1x3x2x2x2x2xf32>
  return
}

func.func @depthwise_conv_3d_ndhwc_dhwcm_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[4.0, -2.0], [-2.0, 0.0], [4.0, -3.0]], [[-2.0, 0.0], [-2.0, -1.0], [-1.0, -4.0]], [[-4.0, -4.0], [1.0, 4.0], [4.0, 2.0]], [[4.0, 0.0], [0.0, 1.0], [-1.0, -2.0]]], [[[2.0, -2.0], [0.0, -4.0], [-3.0, -4.0]], [[1.0, 3.0], [3.0, 3.0], [4.0, -4.0]], [[2.0, -2.0], [1.0, -4.0], [-3.0, 0.0]], [[-2.0, 1.0], [4.0, 0.0], [4.0, -3.0]]], [[[-1.0, 2.0], [-3.0, 1.0], [-1.0, 0.0]], [[0.0, -2.0], [2.0, 4.0], [-3.0, -4.0]], [[-2.0, -3.0], [-1.0, -1.0], [-2.0, -2.0]], [[-2.0, 1.0], [3.0, 2.0], [-4.0, 2.0]]], [[[1.0, 2.0], [-3.0, -3.0], [-4.0, 2.0]], [[-1.0, -2.0], [1.0, 0.0], [0.0, -3.0]], [[-3.0, 3.0], [-1.0, -4.0], [4.0, -1.0]], [[0.0, 1.0], [0.0, 2.0], [4.0, -4.0]]], [[[-1.0, 4.0], [4.0, -2.0], [-2.0, 0.0]], [[2.0, -2.0], [-4.0, -4.0], [-3.0, -2.0]], [[4.0, -2.0], [4.0, 1.0], [-4.0, -4.0]], [[3.0, 4.0], [-2.0, -3.0], [1.0, 0.0]]], [[[-1.0, -1.0], [-3.0, -1.0], [0.0, 4.0]], [[1.0, 4.0], [4.0, 1.0], [0.0, -2.0]], [[2.0, -3.0], [-1.0, 0.0], [0.0, -3.0]], [[0.0, 0.0], [0.0, -4.0], [-1.0, -4.0]]]]]> : tensor<1x6x4x3x2xf32> -> tensor<?x?x?x?x?xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[-2.0, 0.0], [1.0, -1.0]], [[-1.0, 4.0], [2.0, -1.0]]], [[[4.0, 0.0], [4.0, -1.0]], [[2.0, 2.0], [0.0, -1.0]]], [[[-4.0, -2.0], [3.0, 0.0]], [[4.0, 3.0], [-3.0, 0.0]]]], [[[[-1.0, 2.0], [-2.0, 1.0]], [[-2.0, -2.0], [-4.0, 0.0]]], [[[1.0, -1.0], [3.0, 3.0]], [[1.0, -2.0], [-1.0, 3.0]]], [[[-4.0, -1.0], [0.0, -2.0]], [[-3.0, 4.0], [3.0, 3.0]]]]]> : tensor<2x3x2x2x2xf32> -> tensor<?x?x?x?x?xf32>
  %v0 = arith.constant 0.0 : f32
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = tensor.empty(%v1, %v2, %v3, %v4, %v5, %v6) : tensor<?x?x?x?x?x?xf32>
  %v8 = linalg.fill ins(%v0 : f32) outs(%v7 : tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
  %v9 = linalg.depthwise_conv_3d_ndhwc_dhwcm {dilations = dense<[1, 1, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?x?xf32>) outs(%v8 : tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?x?x?xf32> to tensor<1x3x2x2x2x2xf32>
  check.expect_eq_const(%static0, dense<[[[[[[-7.0, -2.0], [-12.0, 11.0]], [[20.0, 6.0], [33.0, 9.0]]], [[[-32.0, -4.0], [-41.0, -16.0]], [[-28.0, 16.0], [5.0, -19.0]]]], [[[[33.0, -1.0], [-20.0, -27.0]], [[9.0, 4.0], [18.0, -8.0]]], [[[3.0, 20.0], [14.0, 1.0]], [[-47.0, -23.0], [-19.0, -28.0]]]], [[[[5.0, 1.0], [0.0, 24.0]], [[-49.0, -43.0], [-21.0, -5.0]]], [[[-4.0, -26.0], [-30.0, -10.0]], [[29.0, -8.0], [-16.0, -3.0]]]]]]> : tensor<1x3x2x2x2x2xf32>) : tensor<1x3x2x2x2x2xf32>
  return
}

func.func @depthwise_conv_3d_ncdhw_cdhw_static() {
  %x0 = util.unfoldable_constant dense<[[[[[-2, 3, -1, 1], [0, 2, -1, -4], [-2, 1, 1, 4], [-2, -1, 4, -3], [2, 4, 4, 2]], [[4, -3, 2, 2], [0, 4, 3, -3], [4, 3, -1, 2], [3, -3, -2, -3], [0, 4, -1, -1]], [[4, -1, -4, 1], [2, -1, 4, -4], [3, -2, 3, 0], [1, 2, 4, 1], [1, -1, -4, -3]], [[-3, 3, -4, -3], [-2, 2, -2, 0], [2, 0, 0, -1], [4, -3, 3, -3], [0, 1, -2, -2]]], [[[-3, -4, -2, -3], [1, 4, -4, 2], [-1, 1, 4, -1], [-3, 3, 4, -2], [1, 1, -3, -4]], [[-4, 1, 1, 4], [1, 2, 0, -4], [-1, 1, 2, -2], [-3, 4, -2, -4], [-1, -4, 1, -4]], [[-2, -1, 2, 3], [2, 1, -2, 1], [2, -4, 1, -3], [-4, -1, 3, 1], [4, 2, -1, 1]], [[-2, -2, 1, -3], [-1, -1, 0, -2], [-2, 2, 0, 4], [0, 3, 3, -3], [3, 3, 1, -4]]]]]> : tensor<1x2x4x5x4xi8>
  %x1 = util.unfoldable_constant dense<[[[[3, -3], [4, 2], [-1, -2]], [[0, 3], [-2, 2], [-1, 1]]], [[[1, 1], [-3, 4], [1, 3]], [[-1, -4], [4, 4], [2, -1]]]]> : tensor<2x2x3x2xi8>
  %x2 = util.unfoldable_constant dense<[[[[[1, -2], [-2, 3]], [[-2, 4], [1, 2]], [[-3, 2], [2, -4]]], [[[4, -2], [2, 3]], [[-2, 4], [-1, -2]], [[1, 2], [4, -3]]]]]> : tensor<1x2x3x2x2xi32>
  %v0 = linalg.depthwise_conv_3d_ncdhw_cdhw {dilations = dense<[1, 1, 2]> : tensor<3xi64>, strides = dense<[1, 2, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<1x2x4x5x4xi8>, tensor<2x2x3x2xi8>) outs(%x2 : tensor<1x2x3x2x2xi32>) -> tensor<1x2x3x2x2xi32>
  check.expect_eq_const(%v0, dense<[[[[[3, -14], [-35, -23]], [[0, -9], [36, -19]], [[14, -28], [17, 1]]], [[[-9, -36], [-8, -22]], [[-6, -26], [2, -28]], [[-18, -6], [51, -6]]]]]> : tensor<1x2x3x2x2xi32>) : tensor<1x2x3x2x2xi32>
  return
}

func.func @depthwise_conv_3d_ncdhw_cdhw_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[-2, 3, -1], [1, 0, 2], [-1, -4, -2], [1, 1, 4]], [[-2, -1, 4], [-3, 2, 4], [4, 2, 4], [-3, 2, 2]], [[0, 4, 3], [-3, 4, 3], [-1, 2, 3], [-3, -2, -3]], [[0, 4, -1], [-1, 4, -1], [-4, 1, 2], [-1, 4, -4]], [[3, -2, 3], [0, 1, 2], [4, 1, 1], [-1, -4, -3]], [[-3, 3, -4], [-3, -2, 2], [-2, 0, 2], [0, 0, -1]]], [[[4, -3, 3], [-3, 0, 1], [-2, -2, -3], [-4, -2, -3]], [[1, 4, -4], [2, -1, 1], [4, -1, -3], [3, 4, -2]], [[1, 1, -3], [-4, -4, 1], [1, 4, 1], [2, 0, -4]], [[-1, 1, 2], [-2, -3, 4], [-2, -4, -1], [-4, 1, -4]], [[-2, -1, 2], [3, 2, 1], [-2, 1, 2], [-4, 1, -3]], [[-4, -1, 3], [1, 4, 2], [-1, 1, -2], [-2, 1, -3]]]]]> : tensor<1x2x6x4x3xi8> -> tensor<?x?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[-1, -1], [0, -2], [-2, 2]], [[0, 4], [0, 3], [3, -3]]], [[[3, 3], [1, -4], [3, -3]], [[4, 2], [-1, -2], [0, 3]]]]> : tensor<2x2x3x2xi8> -> tensor<?x?x?x?xi8>
  %x2 = flow.tensor.dynamic_constant dense<[[[[[-2, 2], [-1, 1]], [[1, 1], [-3, 4]], [[1, 3], [-1, -4]]], [[[4, 4], [2, -1]], [[1, -2], [-2, 3]], [[-2, 4], [1, 2]]]]]> : tensor<1x2x3x2x2xi32> -> tensor<?x?x?x?x?xi32>
  %v0 = linalg.depthwise_conv_3d_ncdhw_cdhw {dilations = dense<[1, 1, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %x1 : tensor<?x?x?x?x?xi8>, tensor<?x?x?x?xi8>) outs(%x2 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v0 : tensor<?x?x?x?x?xi32> to tensor<1x2x3x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[[-1, 22], [5, 37]], [[8, -20], [-2, 15]], [[-8, -18], [-18, 10]]], [[[13, 1], [9, 14]], [[4, -7], [-36, -4]], [[-49, -10], [9, 30]]]]]> : tensor<1x2x3x2x2xi32>) : tensor<1x2x3x2x2xi32>
  return
}

func.func @conv_2d_nhwc_hwcf_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[2, -1], [1, -3], [4, -4], [-2, 1], [-4, 0]], [[-3, 4], [-2, 3], [-2, 3], [-4, -4], [-2, 0]], [[-3, 1], [0, -4], [-1, 0], [4, -2], [-2, -3]], [[0, 3], [-1, -1], [1, -4], [1, -1], [1, 4]]]]> : tensor<1x4x5x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[-2, -1, -1], [-3, -1, -4]], [[-2, 0, -1], [2, 4, -1]], [[4, 3, -2], [0, 2, 3]]], [[[-2, 1, 3], [1, 4, -1]], [[1, -4, -2], [2, -4, 3]], [[-1, 2, 3], [-1, -2, -4]]]]> : tensor<2x3x2x3xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<1x3x2x3xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<1x3x2x3xi32>) -> tensor<1x3x2x3xi32>
  %v5 = linalg.conv_2d_nhwc_hwcf_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x4x5x2xi8>, tensor<2x3x2x3xi8>, i32, i32) outs(%v4 : tensor<1x3x2x3xi32>) -> tensor<1x3x2x3xi32>
  check.expect_eq_const(%v5, dense<[[[[-173, -188, -236], [-122, -68, -120]], [[-167, -122, -198], [-124, -133, -136]], [[-144, -110, -127], [-203, -198, -199]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @conv_2d_nhwc_hwcf_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[2, -1], [1, -3], [4, -4], [-2, 1]], [[-4, 0], [-3, 4], [-2, 3], [-2, 3]], [[-4, -4], [-2, 0], [-3, 1], [0, -4]], [[-1, 0], [4, -2], [-2, -3], [0, 3]], [[-1, -1], [1, -4], [1, -1], [1, 4]], [[-2, -1], [-1, -3], [-1, -4], [-2, 0]]]]> : tensor<1x6x4x2xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[-1, 2, 4], [-1, 4, 3]], [[-2, 0, 2], [3, -2, 1]], [[3, 1, 4], [-1, 1, -4]]], [[[-2, 2, -4], [3, -1, 2]], [[3, -1, -2], [-4, -3, -3]], [[-4, 0, 1], [1, 2, -4]]]]> : tensor<2x3x2x3xi8> -> tensor<?x?x?x?xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = tensor.empty(%v3, %v4, %v5, %v6) : tensor<?x?x?x?xi32>
  %v8 = linalg.fill ins(%v2 : i32) outs(%v7 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v9 = linalg.conv_2d_nhwc_hwcf_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?xi8>, tensor<?x?x?x?xi8>, i32, i32) outs(%v8 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?xi32> to tensor<1x3x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[-173, -155, -133], [-200, -179, -192]], [[-77, -117, -136], [-136, -108, -156]], [[-99, -79, -64], [-130, -113, -144]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @conv_2d_nhwc_fhwc_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[-4, 2], [-1, 1], [-2, -3], [1, -3], [-3, 1]], [[1, 3], [-1, -3], [-3, -3], [-4, 2], [2, 0]], [[2, -1], [2, -1], [0, -4], [-3, 0], [-3, -2]], [[-4, -1], [-3, 0], [-2, 2], [-4, 1], [-4, 2]]]]> : tensor<1x4x5x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[-2, -4], [-2, 1], [-2, 0]], [[4, 3], [-4, 4], [0, -4]]], [[[-3, 3], [2, -2], [-3, 1]], [[0, 2], [-4, 3], [1, 4]]], [[[-4, 1], [-4, 3], [3, 0]], [[-3, -2], [1, -3], [1, 0]]]]> : tensor<3x2x3x2xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<1x3x2x3xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<1x3x2x3xi32>) -> tensor<1x3x2x3xi32>
  %v5 = linalg.conv_2d_nhwc_fhwc_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x4x5x2xi8>, tensor<3x2x3x2xi8>, i32, i32) outs(%v4 : tensor<1x3x2x3xi32>) -> tensor<1x3x2x3xi32>
  check.expect_eq_const(%v5, dense<[[[[-109, -100, -121], [-103, -60, -136]], [[-158, -141, -175], [-76, -103, -72]], [[-168, -109, -162], [-75, -67, -126]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @conv_2d_nhwc_fhwc_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[-4, 2], [-1, 1], [-2, -3], [1, -3]], [[-3, 1], [1, 3], [-1, -3], [-3, -3]], [[-4, 2], [2, 0], [2, -1], [2, -1]], [[0, -4], [-3, 0], [-3, -2], [-4, -1]], [[-3, 0], [-2, 2], [-4, 1], [-4, 2]], [[-2, -4], [-2, 1], [-2, 0], [4, 3]]]]> : tensor<1x6x4x2xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[-4, 4], [0, -4], [-3, 3]], [[2, -2], [-3, 1], [0, 2]]], [[[-4, 3], [1, 4], [-4, 1]], [[-4, 3], [3, 0], [-3, -2]]], [[[1, -3], [1, 0], [3, 2]], [[4, 0], [-1, 2], [-2, -3]]]]> : tensor<3x2x3x2xi8> -> tensor<?x?x?x?xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = tensor.empty(%v3, %v4, %v5, %v6) : tensor<?x?x?x?xi32>
  %v8 = linalg.fill ins(%v2 : i32) outs(%v7 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v9 = linalg.conv_2d_nhwc_fhwc_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?xi8>, tensor<?x?x?x?xi8>, i32, i32) outs(%v8 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?xi32> to tensor<1x3x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[-144, -84, -142], [-129, -118, -98]], [[-109, -124, -102], [-161, -143, -117]], [[-87, -80, -108], [-151, -162, -206]]]]> : tensor<1x3x2x3xi32>) : tensor<1x3x2x3xi32>
  return
}

func.func @conv_2d_nchw_fchw_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[-1, -2, 2, -1, 3], [1, -3, 0, -1, 1], [1, 1, 1, 3, -1], [-4, 2, 2, 0, 3]], [[-2, 2, 1, -1, 3], [4, -2, -4, 1, 3], [-4, 1, 2, -4, 1], [-2, -3, -1, 0, -3]]]]> : tensor<1x2x4x5xi8>
  %x1 = util.unfoldable_constant dense<[[[[-2, 1, -4], [-1, 3, 2]], [[3, -1, 4], [-4, -1, 2]]], [[[3, 2, 2], [-4, -1, 0]], [[2, 0, 1], [4, 0, 1]]], [[[0, -2, -2], [3, -1, -2]], [[-1, 2, 2], [-3, -4, -3]]]]> : tensor<3x2x2x3xi8>
  %x2 = util.unfoldable_constant dense<[[[[-4, -3], [0, 3], [2, -3]], [[2, -2], [0, -3], [3, 3]], [[2, 0], [3, -3], [3, 4]]]]> : tensor<1x3x3x2xi32>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = linalg.conv_2d_nchw_fchw_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x2x4x5xi8>, tensor<3x2x2x3xi8>, i32, i32) outs(%x2 : tensor<1x3x3x2xi32>) -> tensor<1x3x3x2xi32>
  check.expect_eq_const(%v2, dense<[[[[-202, -193], [-148, -183], [-139, -171]], [[-123, -184], [-158, -166], [-121, -165]], [[-169, -251], [-208, -205], [-181, -224]]]]> : tensor<1x3x3x2xi32>) : tensor<1x3x3x2xi32>
  return
}

func.func @conv_2d_nchw_fchw_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[-1, -2, 2, -1], [3, 1, -3, 0], [-1, 1, 1, 1], [1, 3, -1, -4], [2, 2, 0, 3], [-2, 2, 1, -1]], [[3, 4, -2, -4], [1, 3, -4, 1], [2, -4, 1, -2], [-3, -1, 0, -3], [-2, 1, -4, -1], [3, 2, 3, -1]]]]> : tensor<1x2x6x4xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[4, -4, -1], [2, 3, 2]], [[2, -4, -1], [0, 2, 0]]], [[[1, 4, 0], [1, 0, -2]], [[-2, 3, -1], [-2, -1, 2]]], [[[2, -3, -4], [-3, -4, -3]], [[0, 3, 2], [-3, 2, -2]]]]> : tensor<3x2x2x3xi8> -> tensor<?x?x?x?xi8>
  %x2 = flow.tensor.dynamic_constant dense<[[[[0, -3], [3, 3], [2, 0]], [[3, -3], [3, 4], [4, 3]], [[0, -2], [-2, -2], [-1, -4]]]]> : tensor<1x3x3x2xi32> -> tensor<?x?x?x?xi32>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = linalg.conv_2d_nchw_fchw_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?xi8>, tensor<?x?x?x?xi8>, i32, i32) outs(%x2 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v2 : tensor<?x?x?x?xi32> to tensor<1x3x3x2xi32>
  check.expect_eq_const(%static0, dense<[[[[-187, -153], [-140, -138], [-199, -165]], [[-198, -152], [-167, -102], [-192, -219]], [[-233, -226], [-240, -171], [-283, -285]]]]> : tensor<1x3x3x2xi32>) : tensor<1x3x3x2xi32>
  return
}

func.func @conv_2d_ngchw_gfchw_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[[0, -3, 3, -4, -2], [-3, 0, -1, -3, -4], [1, -3, -2, 4, 0], [3, 2, -3, -3, -2]], [[-4, 2, -4, 4, -2], [-1, -3, 3, -1, -3], [2, 0, 0, 1, 2], [3, -1, -2, 2, -1]]], [[[-2, -1, 0, -3, -2], [2, 4, 1, 0, 0], [-2, 1, 2, 1, -3], [-4, -3, -2, 0, -1]], [[3, -3, -2, 2, -2], [2, 1, 2, 2, -4], [-4, -4, 4, -2, 0], [0, -1, -4, -4, 4]]]]]> : tensor<1x2x2x4x5xi8>
  %x1 = util.unfoldable_constant dense<[[[[[1, -4, -2], [1, 1, 2]], [[0, 1, -4], [-1, 3, 3]]], [[[1, -2, 2], [-3, 2, 0]], [[3, -3, -2], [-4, -1, 4]]], [[[-4, 0, 1], [-2, 3, 2]], [[2, 4, -4], [-4, -4, -1]]]], [[[[0, -2, 3], [4, -3, -3]], [[3, -2, 1], [-4, 1, 1]]], [[[4, -3, 0], [2, -4, -2]], [[3, 3, -1], [2, 4, 4]]], [[[-1, -1, -2], [-3, 4, 4]], [[-1, 1, 1], [4, 3, 0]]]]]> : tensor<2x3x2x2x3xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<1x2x3x3x2xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<1x2x3x3x2xi32>) -> tensor<1x2x3x3x2xi32>
  %v5 = linalg.conv_2d_ngchw_gfchw_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x2x2x4x5xi8>, tensor<2x3x2x2x3xi8>, i32, i32) outs(%v4 : tensor<1x2x3x3x2xi32>) -> tensor<1x2x3x3x2xi32>
  check.expect_eq_const(%v5, dense<[[[[[-102, -99], [-166, -116], [-173, -187]], [[-104, -158], [-176, -133], [-204, -181]], [[-110, -149], [-204, -157], [-215, -183]]], [[[-215, -171], [-228, -204], [-100, -142]], [[-180, -105], [-206, -133], [-110, -118]], [[-168, -103], [-215, -177], [-78, -157]]]]]> : tensor<1x2x3x3x2xi32>) : tensor<1x2x3x3x2xi32>
  return
}

func.func @conv_2d_ngchw_gfchw_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[0, -3, 3, -4], [-2, -3, 0, -1], [-3, -4, 1, -3], [-2, 4, 0, 3], [2, -3, -3, -2], [-4, 2, -4, 4]], [[-2, -1, -3, 3], [-1, -3, 2, 0], [0, 1, 2, 3], [-1, -2, 2, -1], [-2, -1, 0, -3], [-2, 2, 4, 1]]], [[[0, 0, -2, 1], [2, 1, -3, -4], [-3, -2, 0, -1], [3, -3, -2, 2], [-2, 2, 1, 2], [2, -4, -4, -4]], [[4, -2, 0, 0], [-1, -4, -4, 4], [1, -4, -2, 1], [1, 2, 0, 1], [-4, -1, 3, 3], [1, -2, 2, -3]]]]]> : tensor<1x2x2x6x4xi8> -> tensor<?x?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[2, 0, 3], [-3, -2, -4]], [[-1, 4, -4], [0, 1, -2]]], [[[3, 2, 2], [4, -4, -4]], [[-4, -1, 0], [-2, 3, 4]]], [[[-3, -3, 3], [-2, 1, -4]], [[1, 1, 4], [-3, 0, 2]]]], [[[[-4, -2, 3], [3, -1, 2]], [[4, 4, -1], [-1, -2, -3]]], [[[4, 4, -1], [1, 1, 4]], [[3, 0, -4], [2, -4, 0]]], [[[-3, -1, -1], [2, 4, -2]], [[-2, -4, -2], [0, -4, -4]]]]]> : tensor<2x3x2x2x3xi8> -> tensor<?x?x?x?x?xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = tensor.empty(%v3, %v4, %v5, %v6, %v7) : tensor<?x?x?x?x?xi32>
  %v9 = linalg.fill ins(%v2 : i32) outs(%v8 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %v10 = linalg.conv_2d_ngchw_gfchw_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?x?xi8>, tensor<?x?x?x?x?xi8>, i32, i32) outs(%v9 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?x?xi32> to tensor<1x2x3x3x2xi32>
  check.expect_eq_const(%static0, dense<[[[[[-109, -174], [-203, -270], [-142, -194]], [[-92, -121], [-197, -213], [-105, -151]], [[-113, -124], [-131, -220], [-113, -203]]], [[[-107, -112], [-120, -162], [-161, -157]], [[-86, -110], [-128, -126], [-153, -166]], [[-138, -163], [-167, -192], [-196, -243]]]]]> : tensor<1x2x3x3x2xi32>) : tensor<1x2x3x3x2xi32>
  return
}

func.func @conv_2d_nhwgc_gfhwc_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[[3, 0], [0, -2]], [[-1, -4], [-1, 2]], [[2, 3], [0, 0]], [[4, 1], [2, -3]], [[4, 0], [-4, -3]]], [[[4, 0], [3, -1]], [[-4, 4], [4, 0]], [[-2, -3], [2, -2]], [[-3, 0], [4, 3]], [[-2, -1], [0, 4]]], [[[2, -2], [1, 4]], [[-4, 2], [4, 4]], [[-4, 4], [-2, -3]], [[2, 2], [4, -2]], [[3, 1], [-4, -2]]], [[[2, 0], [4, -1]], [[4, -4], [0, 1]], [[4, 2], [0, 3]], [[-1, 2], [-2, -3]], [[2, 1], [4, 0]]]]]> : tensor<1x4x5x2x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[[-4, -2], [-4, -4], [4, -4]], [[4, 3], [-3, -2], [4, -2]]], [[[3, 2], [0, 2], [-3, -2]], [[1, 2], [3, 2], [-3, 0]]], [[[3, 1], [0, 4], [4, 1]], [[4, 4], [4, 1], [2, 0]]]], [[[[-1, -2], [-3, 0], [0, 3]], [[-4, -4], [-4, -3], [0, 4]]], [[[-2, -1], [-1, 3], [-3, -1]], [[0, 2], [-2, 2], [-3, -3]]], [[[2, -4], [-1, -2], [0, 0]], [[3, 3], [-2, -3], [3, -2]]]]]> : tensor<2x3x2x3x2xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<1x3x2x2x3xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<1x3x2x2x3xi32>) -> tensor<1x3x2x2x3xi32>
  %v5 = linalg.conv_2d_nhwgc_gfhwc_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x4x5x2x2xi8>, tensor<2x3x2x3x2xi8>, i32, i32) outs(%v4 : tensor<1x3x2x2x3xi32>) -> tensor<1x3x2x2x3xi32>
  check.expect_eq_const(%v5, dense<[[[[[-198, -174, -102], [-272, -233, -201]], [[-257, -183, -118], [-261, -236, -225]]], [[[-221, -110, -86], [-371, -267, -258]], [[-177, -143, -83], [-228, -218, -222]]], [[[-252, -185, -98], [-330, -280, -290]], [[-273, -257, -147], [-192, -169, -112]]]]]> : tensor<1x3x2x2x3xi32>) : tensor<1x3x2x2x3xi32>
  return
}

func.func @conv_2d_nhwgc_gfhwc_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[3, 0], [0, -2]], [[-1, -4], [-1, 2]], [[2, 3], [0, 0]], [[4, 1], [2, -3]]], [[[4, 0], [-4, -3]], [[4, 0], [3, -1]], [[-4, 4], [4, 0]], [[-2, -3], [2, -2]]], [[[-3, 0], [4, 3]], [[-2, -1], [0, 4]], [[2, -2], [1, 4]], [[-4, 2], [4, 4]]], [[[-4, 4], [-2, -3]], [[2, 2], [4, -2]], [[3, 1], [-4, -2]], [[2, 0], [4, -1]]], [[[4, -4], [0, 1]], [[4, 2], [0, 3]], [[-1, 2], [-2, -3]], [[2, 1], [4, 0]]], [[[-4, -2], [-4, -4]], [[4, -4], [4, 3]], [[-3, -2], [4, -2]], [[3, 2], [0, 2]]]]]> : tensor<1x6x4x2x2xi8> -> tensor<?x?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[-3, -2], [1, 2], [3, 2]], [[-3, 0], [3, 1], [0, 4]]], [[[4, 1], [4, 4], [4, 1]], [[2, 0], [-1, -2], [-3, 0]]], [[[0, 3], [-4, -4], [-4, -3]], [[0, 4], [-2, -1], [-1, 3]]]], [[[[-3, -1], [0, 2], [-2, 2]], [[-3, -3], [2, -4], [-1, -2]]], [[[0, 0], [3, 3], [-2, -3]], [[3, -2], [-2, 3], [-1, -4]]], [[[3, 1], [0, 4], [1, 2]], [[3, 1], [-4, -4], [-4, 0]]]]]> : tensor<2x3x2x3x2xi8> -> tensor<?x?x?x?x?xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = util.unfoldable_constant 3 : index
  %v8 = tensor.empty(%v3, %v4, %v5, %v6, %v7) : tensor<?x?x?x?x?xi32>
  %v9 = linalg.fill ins(%v2 : i32) outs(%v8 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %v10 = linalg.conv_2d_nhwgc_gfhwc_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?x?xi8>, tensor<?x?x?x?x?xi8>, i32, i32) outs(%v9 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?x?xi32> to tensor<1x3x2x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[[-201, -174, -251], [-176, -192, -194]], [[-175, -119, -281], [-254, -202, -222]]], [[[-135, -189, -197], [-216, -225, -167]], [[-179, -193, -226], [-303, -253, -201]]], [[[-119, -79, -240], [-196, -163, -226]], [[-226, -151, -271], [-310, -290, -234]]]]]> : tensor<1x3x2x2x3xi32>) : tensor<1x3x2x2x3xi32>
  return
}

func.func @conv_3d_ndhwc_dhwcf_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[[-4, 2], [-3, -2], [4, -3], [1, -2]], [[-1, 4], [-3, 3], [2, -4], [4, -3]], [[-2, -2], [4, 4], [-2, -1], [1, -3]], [[-1, 3], [-4, 4], [-3, -2], [-2, -1]], [[0, 2], [1, -2], [0, 3], [4, 0]]], [[[2, 1], [4, 4], [4, -4], [2, -1]], [[-4, 2], [-1, 1], [-3, -3], [2, 4]], [[-2, 4], [-3, -4], [4, -1], [-3, -1]], [[1, 4], [-2, -4], [4, 3], [2, -2]], [[1, -4], [-4, 0], [-4, -2], [-4, 1]]], [[[2, -4], [4, 4], [2, -1], [4, 1]], [[0, -2], [4, 3], [-4, 3], [4, 4]], [[-2, 1], [-4, -3], [0, -3], [1, -4]], [[-3, 1], [-4, 4], [1, -4], [0, 0]], [[-3, 4], [2, 3], [-2, -4], [1, 0]]], [[[-1, 4], [-3, -1], [2, 2], [4, -2]], [[-3, 0], [0, -4], [-4, 1], [-3, 2]], [[0, -1], [-2, -3], [-4, 1], [3, 2]], [[0, 1], [2, 1], [-3, 2], [-3, -2]], [[-4, 1], [1, 0], [3, 1], [4, 0]]]]]> : tensor<1x4x5x4x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[[3, 2, 0], [-2, 4, 4]], [[1, 0, -2], [2, -3, 3]]], [[[3, -4, -4], [4, -1, -4]], [[0, 1, 2], [-2, -3, 2]]], [[[2, 4, 1], [-3, -3, 4]], [[-3, 3, -3], [-1, 2, 3]]]], [[[[-3, -3, -4], [0, 0, 0]], [[3, -2, 2], [4, 0, 2]]], [[[-3, 3, -2], [0, 1, 2]], [[4, 1, 1], [3, 2, 0]]], [[[4, -2, -4], [-2, 1, -3]], [[-2, 1, 2], [-4, 3, 0]]]]]> : tensor<2x3x2x2x3xi8>
  %x2 = util.unfoldable_constant dense<[[[[[-1, -3, 4], [0, 3, 2]], [[2, 3, -2], [-4, 4, 1]]], [[[-1, 1, 3], [-1, -4, 3]], [[3, 1, 3], [4, -4, -4]]], [[[2, 4, 4], [-1, 0, 2]], [[2, -4, 3], [2, 2, -4]]]]]> : tensor<1x3x2x2x3xi32>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = linalg.conv_3d_ndhwc_dhwcf_q {dilations = dense<[1, 1, 2]> : tensor<3xi64>, strides = dense<[1, 2, 1]> : tensor<3xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x4x5x4x2xi8>, tensor<2x3x2x2x3xi8>, i32, i32) outs(%x2 : tensor<1x3x2x2x3xi32>) -> tensor<1x3x2x2x3xi32>
  check.expect_eq_const(%v2, dense<[[[[[-329, -318, -342], [-345, -358, -373]], [[-287, -357, -355], [-257, -167, -273]]], [[[-331, -282, -341], [-410, -443, -430]], [[-279, -319, -324], [-202, -226, -185]]], [[[-264, -331, -310], [-373, -404, -411]], [[-310, -238, -250], [-351, -324, -351]]]]]> : tensor<1x3x2x2x3xi32>) : tensor<1x3x2x2x3xi32>
  return
}

func.func @conv_3d_ndhwc_dhwcf_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[[-4, 2], [-3, -2], [4, -3]], [[1, -2], [-1, 4], [-3, 3]], [[2, -4], [4, -3], [-2, -2]], [[4, 4], [-2, -1], [1, -3]]], [[[-1, 3], [-4, 4], [-3, -2]], [[-2, -1], [0, 2], [1, -2]], [[0, 3], [4, 0], [2, 1]], [[4, 4], [4, -4], [2, -1]]], [[[-4, 2], [-1, 1], [-3, -3]], [[2, 4], [-2, 4], [-3, -4]], [[4, -1], [-3, -1], [1, 4]], [[-2, -4], [4, 3], [2, -2]]], [[[1, -4], [-4, 0], [-4, -2]], [[-4, 1], [2, -4], [4, 4]], [[2, -1], [4, 1], [0, -2]], [[4, 3], [-4, 3], [4, 4]]], [[[-2, 1], [-4, -3], [0, -3]], [[1, -4], [-3, 1], [-4, 4]], [[1, -4], [0, 0], [-3, 4]], [[2, 3], [-2, -4], [1, 0]]], [[[-1, 4], [-3, -1], [2, 2]], [[4, -2], [-3, 0], [0, -4]], [[-4, 1], [-3, 2], [0, -1]], [[-2, -3], [-4, 1], [3, 2]]]]]> : tensor<1x6x4x3x2xi8> -> tensor<?x?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[[0, 1, 2], [1, -3, 2]], [[-3, -2, -4], [1, 1, 0]]], [[[3, 1, 4], [0, 3, 2]], [[0, -2, 4], [4, 1, 0]]], [[[-2, 2, -3], [3, 3, -4]], [[-4, 4, -1], [-4, 0, 1]]]], [[[[2, -2, -3], [2, 2, 4]], [[1, -3, -3], [4, -3, 3]]], [[[-3, -1, 2], [3, -3, -3]], [[-4, 0, 0], [0, 3, -2]]], [[[2, 4, 0], [2, -3, 3]], [[-2, 0, 1], [2, 4, 1]]]]]> : tensor<2x3x2x2x3xi8> -> tensor<?x?x?x?x?xi8>
  %x2 = flow.tensor.dynamic_constant dense<[[[[[1, 3, 2], [0, 4, -2]], [[-4, -2, 1], [-3, -2, 1]]], [[[2, -4, 3], [0, -1, -3]], [[4, 0, 3], [2, 2, 3]]], [[[-2, -4, 4], [1, -1, 1]], [[3, -1, -4], [3, 3, 1]]]]]> : tensor<1x3x2x2x3xi32> -> tensor<?x?x?x?x?xi32>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = linalg.conv_3d_ndhwc_dhwcf_q {dilations = dense<[1, 1, 1]> : tensor<3xi64>, strides = dense<[2, 1, 1]> : tensor<3xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?x?xi8>, tensor<?x?x?x?x?xi8>, i32, i32) outs(%x2 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v2 : tensor<?x?x?x?x?xi32> to tensor<1x3x2x2x3xi32>
  check.expect_eq_const(%static0, dense<[[[[[-320, -333, -296], [-343, -288, -341]], [[-430, -462, -439], [-359, -341, -341]]], [[[-303, -324, -340], [-361, -226, -247]], [[-438, -371, -360], [-407, -481, -452]]], [[[-228, -234, -176], [-231, -277, -262]], [[-157, -207, -292], [-262, -266, -260]]]]]> : tensor<1x3x2x2x3xi32>) : tensor<1x3x2x2x3xi32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwc_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[1, 3], [-3, 3], [3, 2], [2, -4], [-3, -4]], [[3, -2], [-1, 3], [-2, 4], [-2, 0], [3, 3]], [[0, -2], [4, 3], [2, 3], [-3, -4], [-3, 4]], [[2, -1], [0, -3], [3, 0], [4, 1], [4, -4]]]]> : tensor<1x4x5x2xi8>
  %x1 = util.unfoldable_constant dense<[[[4, -3], [2, -1], [0, -3]], [[-4, 1], [-1, -4], [-2, 2]]]> : tensor<2x3x2xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<1x3x2x2xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<1x3x2x2xi32>) -> tensor<1x3x2x2xi32>
  %v5 = linalg.depthwise_conv_2d_nhwc_hwc_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x4x5x2xi8>, tensor<2x3x2xi8>, i32, i32) outs(%v4 : tensor<1x3x2x2xi32>) -> tensor<1x3x2x2xi32>
  check.expect_eq_const(%v5, dense<[[[[-107, -203], [-78, -99]], [[-121, -176], [-79, -158]], [[-154, -109], [-150, -143]]]]> : tensor<1x3x2x2xi32>) : tensor<1x3x2x2xi32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwc_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[1, 3], [-3, 3], [3, 2], [2, -4]], [[-3, -4], [3, -2], [-1, 3], [-2, 4]], [[-2, 0], [3, 3], [0, -2], [4, 3]], [[2, 3], [-3, -4], [-3, 4], [2, -1]], [[0, -3], [3, 0], [4, 1], [4, -4]], [[4, -3], [2, -1], [0, -3], [-4, 1]]]]> : tensor<1x6x4x2xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[-1, -4], [-2, 2], [-2, 0]], [[3, -2], [-3, 4], [3, 4]]]> : tensor<2x3x2xi8> -> tensor<?x?x?xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = tensor.empty(%v3, %v4, %v5, %v6) : tensor<?x?x?x?xi32>
  %v8 = linalg.fill ins(%v2 : i32) outs(%v7 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v9 = linalg.depthwise_conv_2d_nhwc_hwc_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?xi8>, tensor<?x?x?xi8>, i32, i32) outs(%v8 : tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?xi32> to tensor<1x3x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[-118, -97], [-107, -84]], [[-79, -98], [-116, -89]], [[-169, -31], [-166, -52]]]]> : tensor<1x3x2x2xi32>) : tensor<1x3x2x2xi32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwcm_q_static() {
  %x0 = util.unfoldable_constant dense<[[[[4, -4], [1, 0], [-2, 0], [1, -2], [1, -3]], [[4, -4], [-1, -1], [-4, -1], [1, -4], [-4, -2]], [[-3, 3], [-3, 1], [3, 4], [-3, 3], [4, 1]], [[-1, -3], [-4, 3], [2, -1], [0, -4], [-1, 4]]]]> : tensor<1x4x5x2xi8>
  %x1 = util.unfoldable_constant dense<[[[[0, 4], [-1, -2]], [[2, 0], [-1, -2]], [[1, 2], [2, 4]]], [[[-2, 1], [-4, 1]], [[0, -2], [-3, -2]], [[4, -1], [-1, 1]]]]> : tensor<2x3x2x2xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = tensor.empty() : tensor<1x3x2x2x2xi32>
  %v4 = linalg.fill ins(%v2 : i32) outs(%v3 : tensor<1x3x2x2x2xi32>) -> tensor<1x3x2x2x2xi32>
  %v5 = linalg.depthwise_conv_2d_nhwc_hwcm_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<1x4x5x2xi8>, tensor<2x3x2x2xi8>, i32, i32) outs(%v4 : tensor<1x3x2x2x2xi32>) -> tensor<1x3x2x2x2xi32>
  check.expect_eq_const(%v5, dense<[[[[[-109, -66], [-40, -35]], [[-45, -51], [-40, -33]]], [[[-43, -50], [-140, -89]], [[-52, -82], [-144, -94]]], [[[-38, -49], [-141, -127]], [[-110, -80], [-142, -124]]]]]> : tensor<1x3x2x2x2xi32>) : tensor<1x3x2x2x2xi32>
  return
}

func.func @depthwise_conv_2d_nhwc_hwcm_q_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[[4, -4], [1, 0], [-2, 0], [1, -2]], [[1, -3], [4, -4], [-1, -1], [-4, -1]], [[1, -4], [-4, -2], [-3, 3], [-3, 1]], [[3, 4], [-3, 3], [4, 1], [-1, -3]], [[-4, 3], [2, -1], [0, -4], [-1, 4]], [[0, 4], [-1, -2], [2, 0], [-1, -2]]]]> : tensor<1x6x4x2xi8> -> tensor<?x?x?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[[[1, 2], [2, 4]], [[-2, 1], [-4, 1]], [[0, -2], [-3, -2]]], [[[4, -1], [-1, 1]], [[4, 2], [1, -4]], [[0, 1], [-4, 4]]]]> : tensor<2x3x2x2xi8> -> tensor<?x?x?x?xi8>
  %v0 = arith.constant -3 : i32
  %v1 = arith.constant 5 : i32
  %v2 = arith.constant 0 : i32
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 3 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = util.unfoldable_constant 2 : index
  %v8 = tensor.empty(%v3, %v4, %v5, %v6, %v7) : tensor<?x?x?x?x?xi32>
  %v9 = linalg.fill ins(%v2 : i32) outs(%v8 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %v10 = linalg.depthwise_conv_2d_nhwc_hwcm_q {dilations = dense<[1, 1]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x0, %x1, %v0, %v1 : tensor<?x?x?x?xi8>, tensor<?x?x?x?xi8>, i32, i32) outs(%v9 : tensor<?x?x?x?x?xi32>) -> tensor<?x?x?x?x?xi32>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?x?xi32> to tensor<1x3x2x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[[-82, -97], [-62, -25]], [[-47, -88], [-64, -38]]], [[[-50, -72], [-156, -131]], [[-13, -26], [-141, -113]]], [[[-76, -82], [-101, -47]], [[-68, -76], [-80, -79]]]]]> : tensor<1x3x2x2x2xi32>) : tensor<1x3x2x2x2xi32>
  return
}
