// Written by tests/ops/write_checks.py; the expected values are NumPy's.

func.func @pack_0_static_static() {
  %x0 = util.unfoldable_constant dense<[[85, 63, 51, 26], [30, 4, 7, 1], [17, 81, 64, 91], [50, 60, 97, 72]]> : tensor<4x4xi32>
  %v0 = tensor.empty() : tensor<2x2x2x2xi32>
  %v1 = arith.constant 9 : i32
  %v2 = linalg.pack %x0 padding_value(%v1 : i32) inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %v0 : tensor<4x4xi32> -> tensor<2x2x2x2xi32>
  %v3 = tensor.empty() : tensor<4x4xi32>
  %v4 = linalg.unpack %v2 inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %v3 : tensor<2x2x2x2xi32> -> tensor<4x4xi32>
  %v5 = tensor.cast %v2 : tensor<2x2x2x2xi32> to tensor<2x2x2x2xi32>
  check.expect_eq_const(%v5, dense<[[[[85, 63], [30, 4]], [[51, 26], [7, 1]]], [[[17, 81], [50, 60]], [[64, 91], [97, 72]]]]> : tensor<2x2x2x2xi32>) : tensor<2x2x2x2xi32>
  check.expect_eq_const(%v4, dense<[[85, 63, 51, 26], [30, 4, 7, 1], [17, 81, 64, 91], [50, 60, 97, 72]]> : tensor<4x4xi32>) : tensor<4x4xi32>
  return
}

func.func @pack_0_dynamic_static() {
  %x0 = flow.tensor.dynamic_constant dense<[[85, 63, 51, 26], [30, 4, 7, 1], [17, 81, 64, 91], [50, 60, 97, 72]]> : tensor<4x4xi32> -> tensor<?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 2 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?x2x2xi32>
  %v3 = arith.constant 9 : i32
  %v4 = linalg.pack %x0 padding_value(%v3 : i32) inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %v2 : tensor<?x?xi32> -> tensor<?x?x2x2xi32>
  %v5 = util.unfoldable_constant 4 : index
  %v6 = util.unfoldable_constant 4 : index
  %v7 = tensor.empty(%v5, %v6) : tensor<?x?xi32>
  %v8 = linalg.unpack %v4 inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %v7 : tensor<?x?x2x2xi32> -> tensor<?x?xi32>
  %v9 = tensor.cast %v4 : tensor<?x?x2x2xi32> to tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?xi32> to tensor<2x2x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[85, 63], [30, 4]], [[51, 26], [7, 1]]], [[[17, 81], [50, 60]], [[64, 91], [97, 72]]]]> : tensor<2x2x2x2xi32>) : tensor<2x2x2x2xi32>
  %static1 = tensor.cast %v8 : tensor<?x?xi32> to tensor<4x4xi32>
  check.expect_eq_const(%static1, dense<[[85, 63, 51, 26], [30, 4, 7, 1], [17, 81, 64, 91], [50, 60, 97, 72]]> : tensor<4x4xi32>) : tensor<4x4xi32>
  return
}

func.func @pack_0_dynamic_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[85, 63, 51, 26], [30, 4, 7, 1], [17, 81, 64, 91], [50, 60, 97, 72]]> : tensor<4x4xi32> -> tensor<?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 2 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = tensor.empty(%v2, %v3, %v0, %v1) : tensor<?x?x?x?xi32>
  %v5 = arith.constant 9 : i32
  %v6 = linalg.pack %x0 padding_value(%v5 : i32) inner_dims_pos = [0, 1] inner_tiles = [%v0, %v1] into %v4 : tensor<?x?xi32> -> tensor<?x?x?x?xi32>
  %v7 = util.unfoldable_constant 4 : index
  %v8 = util.unfoldable_constant 4 : index
  %v9 = tensor.empty(%v7, %v8) : tensor<?x?xi32>
  %v10 = linalg.unpack %v6 inner_dims_pos = [0, 1] inner_tiles = [%v0, %v1] into %v9 : tensor<?x?x?x?xi32> -> tensor<?x?xi32>
  %v11 = tensor.cast %v6 : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v11 : tensor<?x?x?x?xi32> to tensor<2x2x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[85, 63], [30, 4]], [[51, 26], [7, 1]]], [[[17, 81], [50, 60]], [[64, 91], [97, 72]]]]> : tensor<2x2x2x2xi32>) : tensor<2x2x2x2xi32>
  %static1 = tensor.cast %v10 : tensor<?x?xi32> to tensor<4x4xi32>
  check.expect_eq_const(%static1, dense<[[85, 63, 51, 26], [30, 4, 7, 1], [17, 81, 64, 91], [50, 60, 97, 72]]> : tensor<4x4xi32>) : tensor<4x4xi32>
  return
}

func.func @pack_1_static_static() {
  %x0 = util.unfoldable_constant dense<[[47, 51, 75, 95, 3, 14, 82], [94, 24, 31, 86, 42, 27, 82], [25, 40, 64, 54, 8, 2, 86], [75, 83, 53, 81, 32, 45, 78], [12, 30, 12, 45, 97, 13, 38]]> : tensor<5x7xi8>
  %v0 = tensor.empty() : tensor<4x2x2x3xi8>
  %v1 = arith.constant 9 : i8
  %v2 = linalg.pack %x0 padding_value(%v1 : i8) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [2, 3] into %v0 : tensor<5x7xi8> -> tensor<4x2x2x3xi8>
  %v3 = tensor.empty() : tensor<5x7xi8>
  %v4 = linalg.unpack %v2 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [2, 3] into %v3 : tensor<4x2x2x3xi8> -> tensor<5x7xi8>
  %v5 = tensor.cast %v2 : tensor<4x2x2x3xi8> to tensor<4x2x2x3xi8>
  check.expect_eq_const(%v5, dense<[[[[47, 94, 25], [51, 24, 40]], [[75, 12, 9], [83, 30, 9]]], [[[75, 31, 64], [95, 86, 54]], [[53, 12, 9], [81, 45, 9]]], [[[3, 42, 8], [14, 27, 2]], [[32, 97, 9], [45, 13, 9]]], [[[82, 82, 86], [9, 9, 9]], [[78, 38, 9], [9, 9, 9]]]]> : tensor<4x2x2x3xi8>) : tensor<4x2x2x3xi8>
  check.expect_eq_const(%v4, dense<[[47, 51, 75, 95, 3, 14, 82], [94, 24, 31, 86, 42, 27, 82], [25, 40, 64, 54, 8, 2, 86], [75, 83, 53, 81, 32, 45, 78], [12, 30, 12, 45, 97, 13, 38]]> : tensor<5x7xi8>) : tensor<5x7xi8>
  return
}

func.func @pack_1_dynamic_static() {
  %x0 = flow.tensor.dynamic_constant dense<[[47, 51, 75, 95, 3, 14, 82], [94, 24, 31, 86, 42, 27, 82], [25, 40, 64, 54, 8, 2, 86], [75, 83, 53, 81, 32, 45, 78], [12, 30, 12, 45, 97, 13, 38]]> : tensor<5x7xi8> -> tensor<?x?xi8>
  %v0 = util.unfoldable_constant 4 : index
  %v1 = util.unfoldable_constant 2 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?x2x3xi8>
  %v3 = arith.constant 9 : i8
  %v4 = linalg.pack %x0 padding_value(%v3 : i8) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [2, 3] into %v2 : tensor<?x?xi8> -> tensor<?x?x2x3xi8>
  %v5 = util.unfoldable_constant 5 : index
  %v6 = util.unfoldable_constant 7 : index
  %v7 = tensor.empty(%v5, %v6) : tensor<?x?xi8>
  %v8 = linalg.unpack %v4 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [2, 3] into %v7 : tensor<?x?x2x3xi8> -> tensor<?x?xi8>
  %v9 = tensor.cast %v4 : tensor<?x?x2x3xi8> to tensor<?x?x?x?xi8>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?xi8> to tensor<4x2x2x3xi8>
  check.expect_eq_const(%static0, dense<[[[[47, 94, 25], [51, 24, 40]], [[75, 12, 9], [83, 30, 9]]], [[[75, 31, 64], [95, 86, 54]], [[53, 12, 9], [81, 45, 9]]], [[[3, 42, 8], [14, 27, 2]], [[32, 97, 9], [45, 13, 9]]], [[[82, 82, 86], [9, 9, 9]], [[78, 38, 9], [9, 9, 9]]]]> : tensor<4x2x2x3xi8>) : tensor<4x2x2x3xi8>
  %static1 = tensor.cast %v8 : tensor<?x?xi8> to tensor<5x7xi8>
  check.expect_eq_const(%static1, dense<[[47, 51, 75, 95, 3, 14, 82], [94, 24, 31, 86, 42, 27, 82], [25, 40, 64, 54, 8, 2, 86], [75, 83, 53, 81, 32, 45, 78], [12, 30, 12, 45, 97, 13, 38]]> : tensor<5x7xi8>) : tensor<5x7xi8>
  return
}

func.func @pack_1_dynamic_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[47, 51, 75, 95, 3, 14, 82], [94, 24, 31, 86, 42, 27, 82], [25, 40, 64, 54, 8, 2, 86], [75, 83, 53, 81, 32, 45, 78], [12, 30, 12, 45, 97, 13, 38]]> : tensor<5x7xi8> -> tensor<?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 4 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = tensor.empty(%v2, %v3, %v0, %v1) : tensor<?x?x?x?xi8>
  %v5 = arith.constant 9 : i8
  %v6 = linalg.pack %x0 padding_value(%v5 : i8) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [%v0, %v1] into %v4 : tensor<?x?xi8> -> tensor<?x?x?x?xi8>
  %v7 = util.unfoldable_constant 5 : index
  %v8 = util.unfoldable_constant 7 : index
  %v9 = tensor.empty(%v7, %v8) : tensor<?x?xi8>
  %v10 = linalg.unpack %v6 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [%v0, %v1] into %v9 : tensor<?x?x?x?xi8> -> tensor<?x?xi8>
  %v11 = tensor.cast %v6 : tensor<?x?x?x?xi8> to tensor<?x?x?x?xi8>
  %static0 = tensor.cast %v11 : tensor<?x?x?x?xi8> to tensor<4x2x2x3xi8>
  check.expect_eq_const(%static0, dense<[[[[47, 94, 25], [51, 24, 40]], [[75, 12, 9], [83, 30, 9]]], [[[75, 31, 64], [95, 86, 54]], [[53, 12, 9], [81, 45, 9]]], [[[3, 42, 8], [14, 27, 2]], [[32, 97, 9], [45, 13, 9]]], [[[82, 82, 86], [9, 9, 9]], [[78, 38, 9], [9, 9, 9]]]]> : tensor<4x2x2x3xi8>) : tensor<4x2x2x3xi8>
  %static1 = tensor.cast %v10 : tensor<?x?xi8> to tensor<5x7xi8>
  check.expect_eq_const(%static1, dense<[[47, 51, 75, 95, 3, 14, 82], [94, 24, 31, 86, 42, 27, 82], [25, 40, 64, 54, 8, 2, 86], [75, 83, 53, 81, 32, 45, 78], [12, 30, 12, 45, 97, 13, 38]]> : tensor<5x7xi8>) : tensor<5x7xi8>
  return
}

func.func @pack_2_static_static() {
  %x0 = util.unfoldable_constant dense<[[83.0, 26.0, 10.0, 29.0, 41.0, 81.0, 45.0, 9.0, 33.0]]> : tensor<1x9xf32>
  %v0 = tensor.empty() : tensor<1x3x8x4xf32>
  %v1 = arith.constant 9.0 : f32
  %v2 = linalg.pack %x0 padding_value(%v1 : f32) inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %v0 : tensor<1x9xf32> -> tensor<1x3x8x4xf32>
  %v3 = tensor.empty() : tensor<1x9xf32>
  %v4 = linalg.unpack %v2 inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %v3 : tensor<1x3x8x4xf32> -> tensor<1x9xf32>
  %v5 = tensor.cast %v2 : tensor<1x3x8x4xf32> to tensor<1x3x8x4xf32>
  check.expect_eq_const(%v5, dense<[[[[83.0, 26.0, 10.0, 29.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]], [[41.0, 81.0, 45.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]], [[33.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]]]> : tensor<1x3x8x4xf32>) : tensor<1x3x8x4xf32>
  check.expect_eq_const(%v4, dense<[[83.0, 26.0, 10.0, 29.0, 41.0, 81.0, 45.0, 9.0, 33.0]]> : tensor<1x9xf32>) : tensor<1x9xf32>
  return
}

func.func @pack_2_dynamic_static() {
  %x0 = flow.tensor.dynamic_constant dense<[[83.0, 26.0, 10.0, 29.0, 41.0, 81.0, 45.0, 9.0, 33.0]]> : tensor<1x9xf32> -> tensor<?x?xf32>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?x8x4xf32>
  %v3 = arith.constant 9.0 : f32
  %v4 = linalg.pack %x0 padding_value(%v3 : f32) inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %v2 : tensor<?x?xf32> -> tensor<?x?x8x4xf32>
  %v5 = util.unfoldable_constant 1 : index
  %v6 = util.unfoldable_constant 9 : index
  %v7 = tensor.empty(%v5, %v6) : tensor<?x?xf32>
  %v8 = linalg.unpack %v4 inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %v7 : tensor<?x?x8x4xf32> -> tensor<?x?xf32>
  %v9 = tensor.cast %v4 : tensor<?x?x8x4xf32> to tensor<?x?x?x?xf32>
  %static0 = tensor.cast %v9 : tensor<?x?x?x?xf32> to tensor<1x3x8x4xf32>
  check.expect_eq_const(%static0, dense<[[[[83.0, 26.0, 10.0, 29.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]], [[41.0, 81.0, 45.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]], [[33.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]]]> : tensor<1x3x8x4xf32>) : tensor<1x3x8x4xf32>
  %static1 = tensor.cast %v8 : tensor<?x?xf32> to tensor<1x9xf32>
  check.expect_eq_const(%static1, dense<[[83.0, 26.0, 10.0, 29.0, 41.0, 81.0, 45.0, 9.0, 33.0]]> : tensor<1x9xf32>) : tensor<1x9xf32>
  return
}

func.func @pack_2_dynamic_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[83.0, 26.0, 10.0, 29.0, 41.0, 81.0, 45.0, 9.0, 33.0]]> : tensor<1x9xf32> -> tensor<?x?xf32>
  %v0 = util.unfoldable_constant 8 : index
  %v1 = util.unfoldable_constant 4 : index
  %v2 = util.unfoldable_constant 1 : index
  %v3 = util.unfoldable_constant 3 : index
  %v4 = tensor.empty(%v2, %v3, %v0, %v1) : tensor<?x?x?x?xf32>
  %v5 = arith.constant 9.0 : f32
  %v6 = linalg.pack %x0 padding_value(%v5 : f32) inner_dims_pos = [0, 1] inner_tiles = [%v0, %v1] into %v4 : tensor<?x?xf32> -> tensor<?x?x?x?xf32>
  %v7 = util.unfoldable_constant 1 : index
  %v8 = util.unfoldable_constant 9 : index
  %v9 = tensor.empty(%v7, %v8) : tensor<?x?xf32>
  %v10 = linalg.unpack %v6 inner_dims_pos = [0, 1] inner_tiles = [%v0, %v1] into %v9 : tensor<?x?x?x?xf32> -> tensor<?x?xf32>
  %v11 = tensor.cast %v6 : tensor<?x?x?x?xf32> to tensor<?x?x?x?xf32>
  %static0 = tensor.cast %v11 : tensor<?x?x?x?xf32> to tensor<1x3x8x4xf32>
  check.expect_eq_const(%static0, dense<[[[[83.0, 26.0, 10.0, 29.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]], [[41.0, 81.0, 45.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]], [[33.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]]]> : tensor<1x3x8x4xf32>) : tensor<1x3x8x4xf32>
  %static1 = tensor.cast %v10 : tensor<?x?xf32> to tensor<1x9xf32>
  check.expect_eq_const(%static1, dense<[[83.0, 26.0, 10.0, 29.0, 41.0, 81.0, 45.0, 9.0, 33.0]]> : tensor<1x9xf32>) : tensor<1x9xf32>
  return
}

func.func @pack_3_static_static() {
  %x0 = util.unfoldable_constant dense<[[[81, 8], [17, 23], [18, 80], [86, 58], [3, 9]], [[33, 43], [62, 47], [26, 15], [69, 73], [3, 11]], [[45, 39], [88, 51], [42, 43], [66, 58], [17, 73]]]> : tensor<3x5x2xi32>
  %v0 = tensor.empty() : tensor<2x3x3x2xi32>
  %v1 = arith.constant 9 : i32
  %v2 = linalg.pack %x0 padding_value(%v1 : i32) outer_dims_perm = [2, 0, 1] inner_dims_pos = [1] inner_tiles = [2] into %v0 : tensor<3x5x2xi32> -> tensor<2x3x3x2xi32>
  %v3 = tensor.empty() : tensor<3x5x2xi32>
  %v4 = linalg.unpack %v2 outer_dims_perm = [2, 0, 1] inner_dims_pos = [1] inner_tiles = [2] into %v3 : tensor<2x3x3x2xi32> -> tensor<3x5x2xi32>
  %v5 = tensor.cast %v2 : tensor<2x3x3x2xi32> to tensor<2x3x3x2xi32>
  check.expect_eq_const(%v5, dense<[[[[81, 17], [18, 86], [3, 9]], [[33, 62], [26, 69], [3, 9]], [[45, 88], [42, 66], [17, 9]]], [[[8, 23], [80, 58], [9, 9]], [[43, 47], [15, 73], [11, 9]], [[39, 51], [43, 58], [73, 9]]]]> : tensor<2x3x3x2xi32>) : tensor<2x3x3x2xi32>
  check.expect_eq_const(%v4, dense<[[[81, 8], [17, 23], [18, 80], [86, 58], [3, 9]], [[33, 43], [62, 47], [26, 15], [69, 73], [3, 11]], [[45, 39], [88, 51], [42, 43], [66, 58], [17, 73]]]> : tensor<3x5x2xi32>) : tensor<3x5x2xi32>
  return
}

func.func @pack_3_dynamic_static() {
  %x0 = flow.tensor.dynamic_constant dense<[[[81, 8], [17, 23], [18, 80], [86, 58], [3, 9]], [[33, 43], [62, 47], [26, 15], [69, 73], [3, 11]], [[45, 39], [88, 51], [42, 43], [66, 58], [17, 73]]]> : tensor<3x5x2xi32> -> tensor<?x?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?x2xi32>
  %v4 = arith.constant 9 : i32
  %v5 = linalg.pack %x0 padding_value(%v4 : i32) outer_dims_perm = [2, 0, 1] inner_dims_pos = [1] inner_tiles = [2] into %v3 : tensor<?x?x?xi32> -> tensor<?x?x?x2xi32>
  %v6 = util.unfoldable_constant 3 : index
  %v7 = util.unfoldable_constant 5 : index
  %v8 = util.unfoldable_constant 2 : index
  %v9 = tensor.empty(%v6, %v7, %v8) : tensor<?x?x?xi32>
  %v10 = linalg.unpack %v5 outer_dims_perm = [2, 0, 1] inner_dims_pos = [1] inner_tiles = [2] into %v9 : tensor<?x?x?x2xi32> -> tensor<?x?x?xi32>
  %v11 = tensor.cast %v5 : tensor<?x?x?x2xi32> to tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v11 : tensor<?x?x?x?xi32> to tensor<2x3x3x2xi32>
  check.expect_eq_const(%static0, dense<[[[[81, 17], [18, 86], [3, 9]], [[33, 62], [26, 69], [3, 9]], [[45, 88], [42, 66], [17, 9]]], [[[8, 23], [80, 58], [9, 9]], [[43, 47], [15, 73], [11, 9]], [[39, 51], [43, 58], [73, 9]]]]> : tensor<2x3x3x2xi32>) : tensor<2x3x3x2xi32>
  %static1 = tensor.cast %v10 : tensor<?x?x?xi32> to tensor<3x5x2xi32>
  check.expect_eq_const(%static1, dense<[[[81, 8], [17, 23], [18, 80], [86, 58], [3, 9]], [[33, 43], [62, 47], [26, 15], [69, 73], [3, 11]], [[45, 39], [88, 51], [42, 43], [66, 58], [17, 73]]]> : tensor<3x5x2xi32>) : tensor<3x5x2xi32>
  return
}

func.func @pack_3_dynamic_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[[81, 8], [17, 23], [18, 80], [86, 58], [3, 9]], [[33, 43], [62, 47], [26, 15], [69, 73], [3, 11]], [[45, 39], [88, 51], [42, 43], [66, 58], [17, 73]]]> : tensor<3x5x2xi32> -> tensor<?x?x?xi32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 2 : index
  %v2 = util.unfoldable_constant 3 : index
  %v3 = util.unfoldable_constant 3 : index
  %v4 = tensor.empty(%v1, %v2, %v3, %v0) : tensor<?x?x?x?xi32>
  %v5 = arith.constant 9 : i32
  %v6 = linalg.pack %x0 padding_value(%v5 : i32) outer_dims_perm = [2, 0, 1] inner_dims_pos = [1] inner_tiles = [%v0] into %v4 : tensor<?x?x?xi32> -> tensor<?x?x?x?xi32>
  %v7 = util.unfoldable_constant 3 : index
  %v8 = util.unfoldable_constant 5 : index
  %v9 = util.unfoldable_constant 2 : index
  %v10 = tensor.empty(%v7, %v8, %v9) : tensor<?x?x?xi32>
  %v11 = linalg.unpack %v6 outer_dims_perm = [2, 0, 1] inner_dims_pos = [1] inner_tiles = [%v0] into %v10 : tensor<?x?x?x?xi32> -> tensor<?x?x?xi32>
  %v12 = tensor.cast %v6 : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v12 : tensor<?x?x?x?xi32> to tensor<2x3x3x2xi32>
  check.expect_eq_const(%static0, dense<[[[[81, 17], [18, 86], [3, 9]], [[33, 62], [26, 69], [3, 9]], [[45, 88], [42, 66], [17, 9]]], [[[8, 23], [80, 58], [9, 9]], [[43, 47], [15, 73], [11, 9]], [[39, 51], [43, 58], [73, 9]]]]> : tensor<2x3x3x2xi32>) : tensor<2x3x3x2xi32>
  %static1 = tensor.cast %v11 : tensor<?x?x?xi32> to tensor<3x5x2xi32>
  check.expect_eq_const(%static1, dense<[[[81, 8], [17, 23], [18, 80], [86, 58], [3, 9]], [[33, 43], [62, 47], [26, 15], [69, 73], [3, 11]], [[45, 39], [88, 51], [42, 43], [66, 58], [17, 73]]]> : tensor<3x5x2xi32>) : tensor<3x5x2xi32>
  return
}

func.func @pack_4_static_static() {
  %x0 = util.unfoldable_constant dense<[72, 94, 88, 51, 94, 97, 97, 8, 45, 60, 28, 37, 62]> : tensor<13xi8>
  %v0 = tensor.empty() : tensor<4x4xi8>
  %v1 = arith.constant 9 : i8
  %v2 = linalg.pack %x0 padding_value(%v1 : i8) inner_dims_pos = [0] inner_tiles = [4] into %v0 : tensor<13xi8> -> tensor<4x4xi8>
  %v3 = tensor.empty() : tensor<13xi8>
  %v4 = linalg.unpack %v2 inner_dims_pos = [0] inner_tiles = [4] into %v3 : tensor<4x4xi8> -> tensor<13xi8>
  %v5 = tensor.cast %v2 : tensor<4x4xi8> to tensor<4x4xi8>
  check.expect_eq_const(%v5, dense<[[72, 94, 88, 51], [94, 97, 97, 8], [45, 60, 28, 37], [62, 9, 9, 9]]> : tensor<4x4xi8>) : tensor<4x4xi8>
  check.expect_eq_const(%v4, dense<[72, 94, 88, 51, 94, 97, 97, 8, 45, 60, 28, 37, 62]> : tensor<13xi8>) : tensor<13xi8>
  return
}

func.func @pack_4_dynamic_static() {
  %x0 = flow.tensor.dynamic_constant dense<[72, 94, 88, 51, 94, 97, 97, 8, 45, 60, 28, 37, 62]> : tensor<13xi8> -> tensor<?xi8>
  %v0 = util.unfoldable_constant 4 : index
  %v1 = tensor.empty(%v0) : tensor<?x4xi8>
  %v2 = arith.constant 9 : i8
  %v3 = linalg.pack %x0 padding_value(%v2 : i8) inner_dims_pos = [0] inner_tiles = [4] into %v1 : tensor<?xi8> -> tensor<?x4xi8>
  %v4 = util.unfoldable_constant 13 : index
  %v5 = tensor.empty(%v4) : tensor<?xi8>
  %v6 = linalg.unpack %v3 inner_dims_pos = [0] inner_tiles = [4] into %v5 : tensor<?x4xi8> -> tensor<?xi8>
  %v7 = tensor.cast %v3 : tensor<?x4xi8> to tensor<?x?xi8>
  %static0 = tensor.cast %v7 : tensor<?x?xi8> to tensor<4x4xi8>
  check.expect_eq_const(%static0, dense<[[72, 94, 88, 51], [94, 97, 97, 8], [45, 60, 28, 37], [62, 9, 9, 9]]> : tensor<4x4xi8>) : tensor<4x4xi8>
  %static1 = tensor.cast %v6 : tensor<?xi8> to tensor<13xi8>
  check.expect_eq_const(%static1, dense<[72, 94, 88, 51, 94, 97, 97, 8, 45, 60, 28, 37, 62]> : tensor<13xi8>) : tensor<13xi8>
  return
}

func.func @pack_4_dynamic_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[72, 94, 88, 51, 94, 97, 97, 8, 45, 60, 28, 37, 62]> : tensor<13xi8> -> tensor<?xi8>
  %v0 = util.unfoldable_constant 4 : index
  %v1 = util.unfoldable_constant 4 : index
  %v2 = tensor.empty(%v1, %v0) : tensor<?x?xi8>
  %v3 = arith.constant 9 : i8
  %v4 = linalg.pack %x0 padding_value(%v3 : i8) inner_dims_pos = [0] inner_tiles = [%v0] into %v2 : tensor<?xi8> -> tensor<?x?xi8>
  %v5 = util.unfoldable_constant 13 : index
  %v6 = tensor.empty(%v5) : tensor<?xi8>
  %v7 = linalg.unpack %v4 inner_dims_pos = [0] inner_tiles = [%v0] into %v6 : tensor<?x?xi8> -> tensor<?xi8>
  %v8 = tensor.cast %v4 : tensor<?x?xi8> to tensor<?x?xi8>
  %static0 = tensor.cast %v8 : tensor<?x?xi8> to tensor<4x4xi8>
  check.expect_eq_const(%static0, dense<[[72, 94, 88, 51], [94, 97, 97, 8], [45, 60, 28, 37], [62, 9, 9, 9]]> : tensor<4x4xi8>) : tensor<4x4xi8>
  %static1 = tensor.cast %v7 : tensor<?xi8> to tensor<13xi8>
  check.expect_eq_const(%static1, dense<[72, 94, 88, 51, 94, 97, 97, 8, 45, 60, 28, 37, 62]> : tensor<13xi8>) : tensor<13xi8>
  return
}
