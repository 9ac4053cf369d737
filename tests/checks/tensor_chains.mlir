// Written by tests/ops/write_checks.py; the expected values are NumPy's.

func.func @chain_0() {
  %x0 = util.unfoldable_constant dense<[[17, 12, 10, 5], [6, 0, 1, 0], [3, 16, 12, 18]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[[1], [2], [0]]> : tensor<3x1xi64>
  %x2 = util.unfoldable_constant dense<[[[1, 1, 1, 1]], [[1, 1, 1, 1]], [[0, 1, 1, 0]]]> : tensor<3x1x4xi8>
  %v0 = tensor.empty() : tensor<3x1x4xi8>
  %v1 = linalg.broadcast ins(%x0 : tensor<3x4xi8>) outs(%v0 : tensor<3x1x4xi8>) dimensions = [1]
  %v2 = tensor.scatter %x2 into %v1[%x1] scatter_dims([0]) unique : (tensor<3x1x4xi8>, tensor<3x1x4xi8>, tensor<3x1xi64>) -> tensor<3x1x4xi8>
  %v3 = tensor.empty() : tensor<4x3x1xi8>
  %v4 = linalg.transpose ins(%v2 : tensor<3x1x4xi8>) outs(%v3 : tensor<4x3x1xi8>) permutation = [2, 0, 1]
  %v5 = arith.constant 1 : i8
  %v6 = arith.constant 1 : index
  %v7 = arith.constant 0 : index
  %v8 = arith.constant 0 : index
  %v9 = tensor.insert %v5 into %v4[%v6, %v7, %v8] : tensor<4x3x1xi8>
  %v10 = tensor.expand_shape %v9 [[0, 1], [2], [3, 4]] output_shape [1, 4, 3, 1, 1] : tensor<4x3x1xi8> into tensor<1x4x3x1x1xi8>
  check.expect_eq_const(%v10, dense<[[[[[0]], [[1]], [[1]]], [[[1]], [[1]], [[1]]], [[[1]], [[1]], [[1]]], [[[0]], [[1]], [[1]]]]]> : tensor<1x4x3x1x1xi8>) : tensor<1x4x3x1x1xi8>
  return
}

func.func @chain_1() {
  %x0 = flow.tensor.dynamic_constant dense<[[9, 10, 15, 19], [0, 2, 16, 18], [4, 6, 17, 8]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<> : tensor<0x1x2x2xi32> -> tensor<?x?x?x?xi32>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = tensor.expand_shape %x0 [[0, 1], [2, 3]] output_shape [%v0, %v1, %v2, %v3] : tensor<?x?xi32> into tensor<?x?x?x?xi32>
  %v5 = tensor.concat dim(0) %v4, %x1 : (tensor<?x?x?x?xi32>, tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v6 = arith.muli %v5, %v5 : tensor<?x?x?x?xi32>
  %v7 = util.unfoldable_constant 1 : index
  %v8 = util.unfoldable_constant 0 : index
  %v9 = util.unfoldable_constant 1 : index
  %v10 = util.unfoldable_constant 0 : index
  %v11 = util.unfoldable_constant 1 : index
  %v12 = util.unfoldable_constant 1 : index
  %v13 = util.unfoldable_constant 1 : index
  %v14 = util.unfoldable_constant 1 : index
  %v15 = util.unfoldable_constant 3 : index
  %v16 = util.unfoldable_constant 2 : index
  %v17 = util.unfoldable_constant 1 : index
  %v18 = util.unfoldable_constant 1 : index
  %v19 = tensor.extract_slice %v6[%v7, %v8, %v9, %v10] [%v11, %v12, %v13, %v14] [%v15, %v16, %v17, %v18] : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v19 : tensor<?x?x?x?xi32> to tensor<1x1x1x1xi32>
  check.expect_eq_const(%static0, dense<[[[[256]]]]> : tensor<1x1x1x1xi32>) : tensor<1x1x1x1xi32>
  return
}

func.func @chain_2() {
  %x0 = flow.tensor.dynamic_constant dense<[[16.0, 5.0, 2.0, 5.0], [8.0, 16.0, 9.0, 1.0], [6.0, 12.0, 16.0, 14.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[89.0], [16.0], [79.0]]> : tensor<3x1xf32> -> tensor<?x?xf32>
  %x2 = flow.tensor.dynamic_constant dense<[[0.0, 1.0, 0.0, 0.0]]> : tensor<1x4xf32> -> tensor<?x4xf32>
  %x3 = flow.tensor.dynamic_constant dense<[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]> : tensor<5x4xf32> -> tensor<?x4xf32>
  %x4 = flow.tensor.dynamic_constant dense<[[16.0]]> : tensor<1x1xf32> -> tensor<?x?xf32>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = util.unfoldable_constant 1 : index
  %v2 = util.unfoldable_constant 1 : index
  %v3 = tensor.insert_slice %x1 into %x0[0, 2] [%v0, %v1] [%v2, 2] : tensor<?x?xf32> into tensor<?x4xf32>
  %v4 = tensor.concat dim(0) %v3, %x2, %x3 : (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %v5 = util.unfoldable_constant 9 : index
  %v6 = tensor.empty(%v5) : tensor<4x?xf32>
  %v7 = linalg.transpose ins(%v4 : tensor<?x4xf32>) outs(%v6 : tensor<4x?xf32>) permutation = [1, 0]
  %v8 = util.unfoldable_constant 1 : index
  %v9 = util.unfoldable_constant 1 : index
  %v10 = util.unfoldable_constant 1 : index
  %v11 = util.unfoldable_constant 1 : index
  %v12 = tensor.insert_slice %x4 into %v7[2, 6] [%v8, %v9] [%v10, %v11] : tensor<?x?xf32> into tensor<4x?xf32>
  %v13 = arith.constant 1 : index
  %v14 = arith.constant 36 : index
  %v15 = tensor.from_elements %v13, %v14 : tensor<2xindex>
  %v16 = tensor.reshape %v12(%v15) : (tensor<4x?xf32>, tensor<2xindex>) -> tensor<?x36xf32>
  %static0 = tensor.cast %v16 : tensor<?x36xf32> to tensor<1x36xf32>
  check.expect_eq_const(%static0, dense<[[16.0, 8.0, 6.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 5.0, 16.0, 12.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 89.0, 16.0, 79.0, 0.0, 1.0, 0.0, 16.0, 1.0, 0.0, 5.0, 1.0, 14.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]]> : tensor<1x36xf32>) : tensor<1x36xf32>
  return
}

func.func @chain_3() {
  %x0 = util.unfoldable_constant dense<[[16, 1, 3, 4], [3, 16, 17, 11], [0, 1, 6, 8]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<> : tensor<0x1xindex>
  %x2 = util.unfoldable_constant dense<[[1, 0, 0, 0, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 1], [1, 0, 1, 1, 1], [1, 0, 0, 1, 1], [1, 1, 0, 1, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 1]]> : tensor<8x5xi8>
  %x3 = util.unfoldable_constant dense<[[0], [0], [0], [1], [0], [0], [0], [1]]> : tensor<8x1xi8>
  %v0 = tensor.gather %x0[%x1] gather_dims([1]) : (tensor<3x4xi8>, tensor<0x1xindex>) -> tensor<0x3xi8>
  %v1 = arith.constant 0 : i8
  %v2 = tensor.pad %v0 low[3, 0] high[5, 2] {
  ^bb0(%p0: index, %p1: index):
    tensor.yield %v1 : i8
  } : tensor<0x3xi8> to tensor<8x5xi8>
  %v3 = tensor.concat dim(1) %x3, %v2, %x2 : (tensor<8x1xi8>, tensor<8x5xi8>, tensor<8x5xi8>) -> tensor<8x11xi8>
  %v4 = tensor.expand_shape %v3 [[0], [1, 2]] output_shape [8, 1, 11] : tensor<8x11xi8> into tensor<8x1x11xi8>
  %v5 = arith.constant 1 : i8
  %v6 = tensor.pad %v4 low[0, 3, 0] high[2, 0, 2] {
  ^bb0(%p0: index, %p1: index, %p2: index):
    tensor.yield %v5 : i8
  } : tensor<8x1x11xi8> to tensor<10x4x13xi8>
  check.expect_eq_const(%v6, dense<[[[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]]> : tensor<10x4x13xi8>) : tensor<10x4x13xi8>
  return
}

func.func @chain_4() {
  %x0 = flow.tensor.dynamic_constant dense<[[14, 18, 17, 10], [18, 19, 19, 1], [9, 12, 5, 7]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<> : tensor<0x2xi32> -> tensor<?x2xi32>
  %x2 = flow.tensor.dynamic_constant dense<> : tensor<0xi32> -> tensor<?xi32>
  %v0 = tensor.gather %x0[%x1] gather_dims([0, 1]) : (tensor<?x?xi32>, tensor<?x2xi32>) -> tensor<?xi32>
  %v1 = arith.constant 1 : i32
  %v2 = util.unfoldable_constant 0 : index
  %v3 = util.unfoldable_constant 0 : index
  %v4 = tensor.pad %v0 low[%v2] high[%v3] {
  ^bb0(%p0: index):
    tensor.yield %v1 : i32
  } : tensor<?xi32> to tensor<?xi32>
  %v5 = util.unfoldable_constant 0 : index
  %v6 = util.unfoldable_constant 0 : index
  %v7 = util.unfoldable_constant 1 : index
  %v8 = tensor.insert_slice %x2 into %v4[%v5] [%v6] [%v7] : tensor<?xi32> into tensor<?xi32>
  %v9 = tensor.collapse_shape %v8 [[0]] : tensor<?xi32> into tensor<?xi32>
  %static0 = tensor.cast %v9 : tensor<?xi32> to tensor<0xi32>
  check.expect_eq_const(%static0, dense<> : tensor<0xi32>) : tensor<0xi32>
  return
}

func.func @chain_5() {
  %x0 = flow.tensor.dynamic_constant dense<[[13.0, 16.0, 0.0, 16.0], [9.0, 10.0, 12.0, 5.0], [19.0, 1.0, 5.0, 7.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[1], [0], [2]]> : tensor<3x1xi32> -> tensor<?x1xi32>
  %x2 = flow.tensor.dynamic_constant dense<[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x3 = flow.tensor.dynamic_constant dense<[[25.0], [39.0]]> : tensor<2x1xf32> -> tensor<2x?xf32>
  %x4 = util.unfoldable_constant dense<> : tensor<0x1xi64>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x1xi32>) -> tensor<?x4xf32>
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 1 : index
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 1 : index
  %v5 = tensor.insert_slice %x3 into %v0[0, %v1] [2, %v2] [%v3, %v4] : tensor<2x?xf32> into tensor<?x4xf32>
  %v6 = tensor.gather %v5[%x4] gather_dims([0]) : (tensor<?x4xf32>, tensor<0x1xi64>) -> tensor<0x4xf32>
  %v7 = arith.constant 0 : index
  %v8 = tensor.from_elements %v7 : tensor<1xindex>
  %v9 = tensor.reshape %v6(%v8) : (tensor<0x4xf32>, tensor<1xindex>) -> tensor<0xf32>
  %v10 = util.unfoldable_constant 1 : index
  %v11 = tensor.empty(%v10) : tensor<?x0xf32>
  %v12 = linalg.broadcast ins(%v9 : tensor<0xf32>) outs(%v11 : tensor<?x0xf32>) dimensions = [0]
  %static0 = tensor.cast %v12 : tensor<?x0xf32> to tensor<1x0xf32>
  check.expect_eq_const(%static0, dense<> : tensor<1x0xf32>) : tensor<1x0xf32>
  return
}

func.func @chain_6() {
  %x0 = util.unfoldable_constant dense<[[8, 10, 10, 6], [18, 7, 13, 7], [8, 19, 3, 12]]> : tensor<3x4xi8>
  %v0 = arith.constant 0 : i8
  %v1 = tensor.pad %x0 low[2, 1] high[0, 0] {
  ^bb0(%p0: index, %p1: index):
    tensor.yield %v0 : i8
  } : tensor<3x4xi8> to tensor<5x5xi8>
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.generate  {
  ^bb0(%p: index):
    %c0 = arith.constant 5 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 5 : index
    %r1 = arith.remui %p, %c1 : index
    %e = tensor.extract %v1[%r0, %r1] : tensor<5x5xi8>
    tensor.yield %e : i8
  } : tensor<5xi8>
  %v4 = tensor.empty() : tensor<5xi8>
  %v5 = linalg.transpose ins(%v3 : tensor<5xi8>) outs(%v4 : tensor<5xi8>) permutation = [0]
  %v6 = tensor.extract_slice %v5[3] [1] [2] : tensor<5xi8> to tensor<1xi8>
  %v7 = tensor.collapse_shape %v6 [[0]] : tensor<1xi8> into tensor<1xi8>
  check.expect_eq_const(%v7, dense<[13]> : tensor<1xi8>) : tensor<1xi8>
  return
}

func.func @chain_7() {
  %x0 = flow.tensor.dynamic_constant dense<[[18, 12, 13, 17], [11, 15, 16, 4], [1, 6, 5, 17]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %v0 = tensor.cast %x0 : tensor<?x?xi32> to tensor<?x?xi32>
  %v1 = util.optimization_barrier %v0 : tensor<?x?xi32>
  %v2 = tensor.cast %v1 : tensor<?x?xi32> to tensor<?x?xi32>
  %v3 = util.unfoldable_constant 3 : index
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = util.unfoldable_constant 2 : index
  %v7 = tensor.expand_shape %v2 [[0, 1], [2, 3]] output_shape [%v3, %v4, %v5, %v6] : tensor<?x?xi32> into tensor<?x?x?x?xi32>
  %v8 = tensor.concat dim(0) %v7 : (tensor<?x?x?x?xi32>) -> tensor<?x?x?x?xi32>
  %v9 = arith.muli %v8, %v8 : tensor<?x?x?x?xi32>
  %v10 = arith.muli %v9, %v9 : tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v10 : tensor<?x?x?x?xi32> to tensor<3x1x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[104976, 20736], [28561, 83521]]], [[[14641, 50625], [65536, 256]]], [[[1, 1296], [625, 83521]]]]> : tensor<3x1x2x2xi32>) : tensor<3x1x2x2xi32>
  return
}

func.func @chain_8() {
  %x0 = flow.tensor.dynamic_constant dense<[[14.0, 6.0, 4.0, 19.0], [3.0, 6.0, 12.0, 15.0], [12.0, 17.0, 0.0, 7.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[2, 0]]> : tensor<1x2xi32> -> tensor<?x2xi32>
  %x2 = flow.tensor.dynamic_constant dense<0> : tensor<3x1xi64> -> tensor<?x1xi64>
  %v0 = tensor.gather %x0[%x1] gather_dims([0, 1]) : (tensor<?x4xf32>, tensor<?x2xi32>) -> tensor<?xf32>
  %v1 = tensor.gather %v0[%x2] gather_dims([0]) : (tensor<?xf32>, tensor<?x1xi64>) -> tensor<?xf32>
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.generate %v2 {
  ^bb0(%p: index):
    %c0 = arith.constant 3 : index
    %r0 = arith.remui %p, %c0 : index
    %e = tensor.extract %v1[%r0] : tensor<?xf32>
    tensor.yield %e : f32
  } : tensor<?xf32>
  %v4 = tensor.concat dim(0) %v3 : (tensor<?xf32>) -> tensor<?xf32>
  %static0 = tensor.cast %v4 : tensor<?xf32> to tensor<5xf32>
  check.expect_eq_const(%static0, dense<12.0> : tensor<5xf32>) : tensor<5xf32>
  return
}

func.func @chain_9() {
  %x0 = util.unfoldable_constant dense<[[8, 17, 19, 5], [2, 12, 13, 15], [12, 14, 18, 18]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<[[0]]> : tensor<1x1xindex>
  %x2 = util.unfoldable_constant dense<1> : tensor<1x4xi8>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.empty() : tensor<3x4xi8>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v1 : tensor<3x4xi8>) {
  ^bb0(%o0: i8):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v0, %i1 : index
    %e = tensor.extract %x0[%i0, %j] : tensor<3x4xi8>
    linalg.yield %e : i8
  } -> tensor<3x4xi8>
  %v3 = tensor.scatter %x2 into %v2[%x1] scatter_dims([0]) unique : (tensor<1x4xi8>, tensor<3x4xi8>, tensor<1x1xindex>) -> tensor<3x4xi8>
  %v4 = tensor.extract_slice %v3[2, 0] [1, 1] [2, 2] : tensor<3x4xi8> to tensor<1xi8>
  %v5 = arith.muli %v4, %v4 : tensor<1xi8>
  %v6 = arith.constant 1 : index
  %v7 = arith.constant 1 : index
  %v8 = tensor.from_elements %v6, %v7 : tensor<2xindex>
  %v9 = tensor.reshape %v5(%v8) : (tensor<1xi8>, tensor<2xindex>) -> tensor<1x1xi8>
  check.expect_eq_const(%v9, dense<[[68]]> : tensor<1x1xi8>) : tensor<1x1xi8>
  return
}

func.func @chain_10() {
  %x0 = flow.tensor.dynamic_constant dense<[[15, 19, 5, 4], [15, 16, 10, 2], [16, 10, 3, 2]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<[[36], [62]]> : tensor<2x1xi32> -> tensor<?x?xi32>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 1 : index
  %v6 = tensor.insert_slice %x1 into %x0[%v0, %v1] [%v2, %v3] [%v4, %v5] : tensor<?x?xi32> into tensor<?x?xi32>
  %v7 = arith.constant 4 : index
  %v8 = arith.constant 3 : index
  %v9 = tensor.from_elements %v7, %v8 : tensor<2xindex>
  %v10 = tensor.reshape %v6(%v9) : (tensor<?x?xi32>, tensor<2xindex>) -> tensor<?x?xi32>
  %v11 = tensor.cast %v10 : tensor<?x?xi32> to tensor<?x?xi32>
  %v12 = util.optimization_barrier %v11 : tensor<?x?xi32>
  %v13 = tensor.cast %v12 : tensor<?x?xi32> to tensor<?x?xi32>
  %v14 = arith.constant 0 : i32
  %v15 = util.unfoldable_constant 0 : index
  %v16 = util.unfoldable_constant 1 : index
  %v17 = util.unfoldable_constant 0 : index
  %v18 = util.unfoldable_constant 5 : index
  %v19 = tensor.pad %v13 low[%v15, %v16] high[%v17, %v18] {
  ^bb0(%p0: index, %p1: index):
    tensor.yield %v14 : i32
  } : tensor<?x?xi32> to tensor<?x?xi32>
  %v20 = util.unfoldable_constant 9 : index
  %v21 = util.unfoldable_constant 4 : index
  %v22 = tensor.empty(%v20, %v21) : tensor<?x?xi32>
  %v23 = linalg.transpose ins(%v19 : tensor<?x?xi32>) outs(%v22 : tensor<?x?xi32>) permutation = [1, 0]
  %static0 = tensor.cast %v23 : tensor<?x?xi32> to tensor<9x4xi32>
  check.expect_eq_const(%static0, dense<[[0, 0, 0, 0], [15, 4, 10, 10], [19, 15, 36, 3], [5, 16, 16, 62], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]> : tensor<9x4xi32>) : tensor<9x4xi32>
  return
}

func.func @chain_11() {
  %x0 = flow.tensor.dynamic_constant dense<[[2.0, 2.0, 15.0, 9.0], [11.0, 12.0, 14.0, 0.0], [9.0, 2.0, 8.0, 18.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v1) : tensor<?x4xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v2 : tensor<?x4xf32>) {
  ^bb0(%o0: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v0, %i1 : index
    %e = tensor.extract %x0[%i0, %j] : tensor<?x4xf32>
    linalg.yield %e : f32
  } -> tensor<?x4xf32>
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 3 : index
  %v6 = tensor.empty(%v5) : tensor<?x4xf32>
  %v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v6 : tensor<?x4xf32>) {
  ^bb0(%o0: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v4, %i0 : index
    %e = tensor.extract %v3[%j, %i1] : tensor<?x4xf32>
    linalg.yield %e : f32
  } -> tensor<?x4xf32>
  %v8 = arith.constant 12 : index
  %v9 = tensor.from_elements %v8 : tensor<1xindex>
  %v10 = tensor.reshape %v7(%v9) : (tensor<?x4xf32>, tensor<1xindex>) -> tensor<12xf32>
  %v11 = util.unfoldable_constant 5 : index
  %v12 = tensor.generate %v11 {
  ^bb0(%p: index):
    %c0 = arith.constant 12 : index
    %r0 = arith.remui %p, %c0 : index
    %e = tensor.extract %v10[%r0] : tensor<12xf32>
    tensor.yield %e : f32
  } : tensor<?xf32>
  %v13 = arith.constant 5 : index
  %v14 = arith.constant 1 : index
  %v15 = tensor.from_elements %v13, %v14 : tensor<2xindex>
  %v16 = tensor.reshape %v12(%v15) : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %static0 = tensor.cast %v16 : tensor<?x?xf32> to tensor<5x1xf32>
  check.expect_eq_const(%static0, dense<[[18.0], [8.0], [2.0], [9.0], [0.0]]> : tensor<5x1xf32>) : tensor<5x1xf32>
  return
}

func.func @chain_12() {
  %x0 = util.unfoldable_constant dense<[[12, 5, 19, 18], [1, 3, 3, 3], [11, 6, 9, 4]]> : tensor<3x4xi8>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.generate  {
  ^bb0(%p: index):
    %c0 = arith.constant 3 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 4 : index
    %r1 = arith.remui %p, %c1 : index
    %e = tensor.extract %x0[%r0, %r1] : tensor<3x4xi8>
    tensor.yield %e : i8
  } : tensor<3xi8>
  %v2 = tensor.empty() : tensor<3xi8>
  %v3 = linalg.transpose ins(%v1 : tensor<3xi8>) outs(%v2 : tensor<3xi8>) permutation = [0]
  %v4 = tensor.empty() : tensor<2x3xi8>
  %v5 = linalg.broadcast ins(%v3 : tensor<3xi8>) outs(%v4 : tensor<2x3xi8>) dimensions = [0]
  %v6 = util.unfoldable_constant 3 : index
  %v7 = tensor.generate  {
  ^bb0(%p: index):
    %c0 = arith.constant 2 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 3 : index
    %r1 = arith.remui %p, %c1 : index
    %e = tensor.extract %v5[%r0, %r1] : tensor<2x3xi8>
    tensor.yield %e : i8
  } : tensor<3xi8>
  %v8 = util.unfoldable_constant 2 : index
  %v9 = tensor.empty() : tensor<3xi8>
  %v10 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%v9 : tensor<3xi8>) {
  ^bb0(%o0: i8):
    %i0 = linalg.index 0 : index
    %j = arith.subi %v8, %i0 : index
    %e = tensor.extract %v7[%j] : tensor<3xi8>
    linalg.yield %e : i8
  } -> tensor<3xi8>
  check.expect_eq_const(%v10, dense<[9, 3, 12]> : tensor<3xi8>) : tensor<3xi8>
  return
}

func.func @chain_13() {
  %x0 = flow.tensor.dynamic_constant dense<[[17, 17, 16, 17], [1, 16, 18, 5], [3, 1, 15, 18]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<[[2], [0]]> : tensor<2x1xindex> -> tensor<?x1xindex>
  %x2 = flow.tensor.dynamic_constant dense<[[1, 1, 1, 0], [1, 1, 0, 1]]> : tensor<2x4xi32> -> tensor<?x?xi32>
  %x3 = flow.tensor.dynamic_constant dense<[[0]]> : tensor<1x1xi32> -> tensor<?x1xi32>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<?x?xi32>, tensor<?x?xi32>, tensor<?x1xindex>) -> tensor<?x?xi32>
  %v1 = tensor.gather %v0[%x3] gather_dims([0]) : (tensor<?x?xi32>, tensor<?x1xi32>) -> tensor<?x?xi32>
  %v2 = tensor.concat dim(1) %v1 : (tensor<?x?xi32>) -> tensor<?x?xi32>
  %v3 = arith.muli %v2, %v2 : tensor<?x?xi32>
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 4 : index
  %v6 = tensor.expand_shape %v3 [[0], [1]] output_shape [%v4, %v5] : tensor<?x?xi32> into tensor<?x?xi32>
  %static0 = tensor.cast %v6 : tensor<?x?xi32> to tensor<1x4xi32>
  check.expect_eq_const(%static0, dense<[[1, 1, 0, 1]]> : tensor<1x4xi32>) : tensor<1x4xi32>
  return
}

func.func @chain_14() {
  %x0 = flow.tensor.dynamic_constant dense<[[3.0, 16.0, 13.0, 7.0], [1.0, 14.0, 6.0, 17.0], [6.0, 12.0, 3.0, 10.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[2, 3], [1, 3], [1, 3]]> : tensor<3x2xi32> -> tensor<?x2xi32>
  %x2 = flow.tensor.dynamic_constant dense<[[1]]> : tensor<1x1xi64> -> tensor<?x1xi64>
  %x3 = flow.tensor.dynamic_constant dense<[0.0]> : tensor<1xf32> -> tensor<?xf32>
  %x4 = util.unfoldable_constant dense<[[2], [0]]> : tensor<2x1xi32>
  %x5 = util.unfoldable_constant dense<[1.0, 0.0]> : tensor<2xf32>
  %x6 = flow.tensor.dynamic_constant dense<[[0]]> : tensor<1x1xindex> -> tensor<?x1xindex>
  %x7 = flow.tensor.dynamic_constant dense<[1.0]> : tensor<1xf32> -> tensor<?xf32>
  %v0 = tensor.gather %x0[%x1] gather_dims([0, 1]) : (tensor<?x4xf32>, tensor<?x2xi32>) -> tensor<?xf32>
  %v1 = tensor.scatter %x3 into %v0[%x2] scatter_dims([0]) unique : (tensor<?xf32>, tensor<?xf32>, tensor<?x1xi64>) -> tensor<?xf32>
  %v2 = tensor.scatter %x5 into %v1[%x4] scatter_dims([0]) unique : (tensor<2xf32>, tensor<?xf32>, tensor<2x1xi32>) -> tensor<?xf32>
  %v3 = tensor.scatter %x7 into %v2[%x6] scatter_dims([0]) unique : (tensor<?xf32>, tensor<?xf32>, tensor<?x1xindex>) -> tensor<?xf32>
  %static0 = tensor.cast %v3 : tensor<?xf32> to tensor<3xf32>
  check.expect_eq_const(%static0, dense<[1.0, 0.0, 1.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}

func.func @chain_15() {
  %x0 = util.unfoldable_constant dense<[[18, 13, 14, 16], [4, 6, 4, 0], [8, 11, 19, 2]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<> : tensor<0x4xi8>
  %x2 = util.unfoldable_constant dense<[[1, 1, 0, 0]]> : tensor<1x4xi8>
  %x3 = util.unfoldable_constant dense<[[62, 41], [24, 87]]> : tensor<2x2xi8>
  %x4 = util.unfoldable_constant dense<[[1], [0], [3]]> : tensor<3x1xi64>
  %x5 = util.unfoldable_constant dense<[[0, 1, 0, 1], [0, 1, 1, 1], [1, 0, 1, 1]]> : tensor<3x4xi8>
  %x6 = util.unfoldable_constant dense<> : tensor<0x2xi64>
  %v0 = tensor.concat dim(0) %x2, %x1, %x0 : (tensor<1x4xi8>, tensor<0x4xi8>, tensor<3x4xi8>) -> tensor<4x4xi8>
  %v1 = tensor.insert_slice %x3 into %v0[1, 0] [2, 2] [2, 1] : tensor<2x2xi8> into tensor<4x4xi8>
  %v2 = tensor.empty() : tensor<4x4xi8>
  %v3 = linalg.transpose ins(%v1 : tensor<4x4xi8>) outs(%v2 : tensor<4x4xi8>) permutation = [1, 0]
  %v4 = tensor.scatter %x5 into %v3[%x4] scatter_dims([0]) unique : (tensor<3x4xi8>, tensor<4x4xi8>, tensor<3x1xi64>) -> tensor<4x4xi8>
  %v5 = tensor.gather %v4[%x6] gather_dims([0, 1]) : (tensor<4x4xi8>, tensor<0x2xi64>) -> tensor<0xi8>
  check.expect_eq_const(%v5, dense<> : tensor<0xi8>) : tensor<0xi8>
  return
}

func.func @chain_16() {
  %x0 = flow.tensor.dynamic_constant dense<[[10, 11, 16, 8], [15, 1, 10, 6], [0, 12, 9, 0]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<[[1], [0]]> : tensor<2x1xi64> -> tensor<?x1xi64>
  %x2 = flow.tensor.dynamic_constant dense<[[0, 1, 0], [1, 1, 0]]> : tensor<2x3xi32> -> tensor<?x?xi32>
  %v0 = util.unfoldable_constant 4 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xi32>
  %v3 = linalg.transpose ins(%x0 : tensor<?x?xi32>) outs(%v2 : tensor<?x?xi32>) permutation = [1, 0]
  %v4 = arith.constant 1 : i32
  %v5 = arith.constant 3 : index
  %v6 = arith.constant 0 : index
  %v7 = tensor.insert %v4 into %v3[%v5, %v6] : tensor<?x?xi32>
  %v8 = util.unfoldable_constant 3 : index
  %v9 = util.unfoldable_constant 4 : index
  %v10 = util.unfoldable_constant 3 : index
  %v11 = tensor.empty(%v9, %v10) : tensor<?x?xi32>
  %v12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v11 : tensor<?x?xi32>) {
  ^bb0(%o0: i32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v8, %i0 : index
    %e = tensor.extract %v7[%j, %i1] : tensor<?x?xi32>
    linalg.yield %e : i32
  } -> tensor<?x?xi32>
  %v13 = arith.muli %v12, %v12 : tensor<?x?xi32>
  %v14 = tensor.scatter %x2 into %v13[%x1] scatter_dims([0]) unique : (tensor<?x?xi32>, tensor<?x?xi32>, tensor<?x1xi64>) -> tensor<?x?xi32>
  %static0 = tensor.cast %v14 : tensor<?x?xi32> to tensor<4x3xi32>
  check.expect_eq_const(%static0, dense<[[1, 1, 0], [0, 1, 0], [121, 1, 144], [100, 225, 0]]> : tensor<4x3xi32>) : tensor<4x3xi32>
  return
}

func.func @chain_17() {
  %x0 = flow.tensor.dynamic_constant dense<[[14.0, 16.0, 2.0, 3.0], [9.0, 11.0, 15.0, 7.0], [0.0, 4.0, 9.0, 7.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = util.unfoldable_constant dense<[[0], [3]]> : tensor<2x1xi64>
  %x2 = util.unfoldable_constant dense<[1.0, 0.0]> : tensor<2xf32>
  %v0 = arith.addf %x0, %x0 : tensor<?x4xf32>
  %v1 = arith.constant 1.0 : f32
  %v2 = arith.constant 1 : index
  %v3 = arith.constant 2 : index
  %v4 = tensor.insert %v1 into %v0[%v2, %v3] : tensor<?x4xf32>
  %v5 = arith.constant 12 : index
  %v6 = tensor.from_elements %v5 : tensor<1xindex>
  %v7 = tensor.reshape %v4(%v6) : (tensor<?x4xf32>, tensor<1xindex>) -> tensor<12xf32>
  %v8 = tensor.scatter %x2 into %v7[%x1] scatter_dims([0]) unique : (tensor<2xf32>, tensor<12xf32>, tensor<2x1xi64>) -> tensor<12xf32>
  %v9 = arith.addf %v8, %v8 : tensor<12xf32>
  check.expect_eq_const(%v9, dense<[2.0, 64.0, 8.0, 0.0, 36.0, 44.0, 2.0, 28.0, 0.0, 16.0, 36.0, 28.0]> : tensor<12xf32>) : tensor<12xf32>
  return
}

func.func @chain_18() {
  %x0 = util.unfoldable_constant dense<[[17, 7, 4, 14], [17, 5, 7, 1], [19, 19, 13, 11]]> : tensor<3x4xi8>
  %x1 = util.unfoldable_constant dense<> : tensor<0x1xi32>
  %v0 = arith.constant 4 : index
  %v1 = arith.constant 3 : index
  %v2 = tensor.from_elements %v0, %v1 : tensor<2xindex>
  %v3 = tensor.reshape %x0(%v2) : (tensor<3x4xi8>, tensor<2xindex>) -> tensor<4x3xi8>
  %v4 = tensor.cast %v3 : tensor<4x3xi8> to tensor<?x?xi8>
  %v5 = util.optimization_barrier %v4 : tensor<?x?xi8>
  %v6 = tensor.cast %v5 : tensor<?x?xi8> to tensor<4x3xi8>
  %v7 = tensor.gather %v6[%x1] gather_dims([1]) : (tensor<4x3xi8>, tensor<0x1xi32>) -> tensor<0x4xi8>
  check.expect_eq_const(%v7, dense<> : tensor<0x4xi8>) : tensor<0x4xi8>
  return
}

func.func @chain_19() {
  %x0 = flow.tensor.dynamic_constant dense<[[11, 8, 7, 18], [7, 5, 17, 1], [8, 6, 0, 14]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<[[89, 70], [29, 48]]> : tensor<2x2xi32> -> tensor<?x?xi32>
  %v0 = util.unfoldable_constant 0 : index
  %v1 = util.unfoldable_constant 2 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 2 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = util.unfoldable_constant 1 : index
  %v6 = tensor.insert_slice %x1 into %x0[%v0, %v1] [%v2, %v3] [%v4, %v5] : tensor<?x?xi32> into tensor<?x?xi32>
  %v7 = util.unfoldable_constant 3 : index
  %v8 = util.unfoldable_constant 1 : index
  %v9 = util.unfoldable_constant 2 : index
  %v10 = util.unfoldable_constant 2 : index
  %v11 = tensor.expand_shape %v6 [[0, 1], [2, 3]] output_shape [%v7, %v8, %v9, %v10] : tensor<?x?xi32> into tensor<?x?x?x?xi32>
  %v12 = tensor.cast %v11 : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %v13 = util.optimization_barrier %v12 : tensor<?x?x?x?xi32>
  %v14 = tensor.cast %v13 : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %v15 = arith.constant 1 : i32
  %v16 = arith.constant 0 : index
  %v17 = arith.constant 0 : index
  %v18 = arith.constant 0 : index
  %v19 = arith.constant 0 : index
  %v20 = tensor.insert %v15 into %v14[%v16, %v17, %v18, %v19] : tensor<?x?x?x?xi32>
  %v21 = tensor.collapse_shape %v20 [[0], [1], [2], [3]] : tensor<?x?x?x?xi32> into tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v21 : tensor<?x?x?x?xi32> to tensor<3x1x2x2xi32>
  check.expect_eq_const(%static0, dense<[[[[1, 8], [89, 70]]], [[[7, 5], [17, 1]]], [[[8, 6], [29, 48]]]]> : tensor<3x1x2x2xi32>) : tensor<3x1x2x2xi32>
  return
}

func.func @chain_20() {
  %x0 = flow.tensor.dynamic_constant dense<[[17.0, 5.0, 5.0, 9.0], [17.0, 2.0, 4.0, 10.0], [4.0, 8.0, 6.0, 1.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = flow.tensor.dynamic_constant dense<[[2], [0], [1]]> : tensor<3x1xindex> -> tensor<?x1xindex>
  %x2 = flow.tensor.dynamic_constant dense<[[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x1xindex>) -> tensor<?x4xf32>
  %v1 = arith.constant 4 : index
  %v2 = arith.constant 3 : index
  %v3 = tensor.from_elements %v1, %v2 : tensor<2xindex>
  %v4 = tensor.reshape %v0(%v3) : (tensor<?x4xf32>, tensor<2xindex>) -> tensor<4x?xf32>
  %v5 = arith.constant 1.0 : f32
  %v6 = util.unfoldable_constant 5 : index
  %v7 = tensor.pad %v4 low[0, 0] high[2, %v6] {
  ^bb0(%p0: index, %p1: index):
    tensor.yield %v5 : f32
  } : tensor<4x?xf32> to tensor<6x8xf32>
  %v8 = arith.addf %v7, %v7 : tensor<6x8xf32>
  check.expect_eq_const(%v8, dense<[[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0], [0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]]> : tensor<6x8xf32>) : tensor<6x8xf32>
  return
}

func.func @chain_21() {
  %x0 = util.unfoldable_constant dense<[[6, 15, 7, 12], [9, 14, 6, 1], [5, 12, 12, 19]]> : tensor<3x4xi8>
  %v0 = arith.constant 4 : index
  %v1 = arith.constant 3 : index
  %v2 = tensor.from_elements %v0, %v1 : tensor<2xindex>
  %v3 = tensor.reshape %x0(%v2) : (tensor<3x4xi8>, tensor<2xindex>) -> tensor<4x3xi8>
  %v4 = arith.constant 1 : i8
  %v5 = arith.constant 3 : index
  %v6 = arith.constant 0 : index
  %v7 = tensor.insert %v4 into %v3[%v5, %v6] : tensor<4x3xi8>
  %v8 = util.unfoldable_constant 5 : index
  %v9 = tensor.generate  {
  ^bb0(%p: index):
    %c0 = arith.constant 4 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 3 : index
    %r1 = arith.remui %p, %c1 : index
    %e = tensor.extract %v7[%r0, %r1] : tensor<4x3xi8>
    tensor.yield %e : i8
  } : tensor<5xi8>
  %v10 = arith.constant 1 : index
  %v11 = arith.constant 5 : index
  %v12 = tensor.from_elements %v10, %v11 : tensor<2xindex>
  %v13 = tensor.reshape %v9(%v12) : (tensor<5xi8>, tensor<2xindex>) -> tensor<1x5xi8>
  %v14 = tensor.extract_slice %v13[0, 1] [1, 4] [1, 1] : tensor<1x5xi8> to tensor<4xi8>
  check.expect_eq_const(%v14, dense<[9, 5, 1, 15]> : tensor<4xi8>) : tensor<4xi8>
  return
}

func.func @chain_22() {
  %x0 = flow.tensor.dynamic_constant dense<[[15, 7, 13, 3], [18, 1, 5, 13], [0, 9, 2, 19]]> : tensor<3x4xi32> -> tensor<?x?xi32>
  %x1 = flow.tensor.dynamic_constant dense<[[[[29]]]]> : tensor<1x1x1x1xi32> -> tensor<?x?x?x?xi32>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 4 : index
  %v3 = util.unfoldable_constant 1 : index
  %v4 = tensor.expand_shape %x0 [[0, 1], [2, 3]] output_shape [%v0, %v1, %v2, %v3] : tensor<?x?xi32> into tensor<?x?x?x?xi32>
  %v5 = arith.constant 1 : i32
  %v6 = util.unfoldable_constant 0 : index
  %v7 = util.unfoldable_constant 1 : index
  %v8 = util.unfoldable_constant 0 : index
  %v9 = util.unfoldable_constant 1 : index
  %v10 = util.unfoldable_constant 1 : index
  %v11 = util.unfoldable_constant 5 : index
  %v12 = util.unfoldable_constant 0 : index
  %v13 = util.unfoldable_constant 0 : index
  %v14 = tensor.pad %v4 low[%v6, %v7, %v8, %v9] high[%v10, %v11, %v12, %v13] {
  ^bb0(%p0: index, %p1: index, %p2: index, %p3: index):
    tensor.yield %v5 : i32
  } : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %v15 = arith.constant 1 : i32
  %v16 = arith.constant 1 : index
  %v17 = arith.constant 3 : index
  %v18 = arith.constant 1 : index
  %v19 = arith.constant 0 : index
  %v20 = tensor.insert %v15 into %v14[%v16, %v17, %v18, %v19] : tensor<?x?x?x?xi32>
  %v21 = util.unfoldable_constant 1 : index
  %v22 = util.unfoldable_constant 6 : index
  %v23 = util.unfoldable_constant 1 : index
  %v24 = util.unfoldable_constant 0 : index
  %v25 = util.unfoldable_constant 1 : index
  %v26 = util.unfoldable_constant 1 : index
  %v27 = util.unfoldable_constant 1 : index
  %v28 = util.unfoldable_constant 1 : index
  %v29 = util.unfoldable_constant 2 : index
  %v30 = util.unfoldable_constant 1 : index
  %v31 = util.unfoldable_constant 2 : index
  %v32 = util.unfoldable_constant 2 : index
  %v33 = tensor.insert_slice %x1 into %v20[%v21, %v22, %v23, %v24] [%v25, %v26, %v27, %v28] [%v29, %v30, %v31, %v32] : tensor<?x?x?x?xi32> into tensor<?x?x?x?xi32>
  %v34 = tensor.cast %v33 : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %v35 = util.optimization_barrier %v34 : tensor<?x?x?x?xi32>
  %v36 = tensor.cast %v35 : tensor<?x?x?x?xi32> to tensor<?x?x?x?xi32>
  %static0 = tensor.cast %v36 : tensor<?x?x?x?xi32> to tensor<2x9x4x2xi32>
  check.expect_eq_const(%static0, dense<[[[[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 15], [1, 7], [1, 13], [1, 3]], [[1, 18], [1, 1], [1, 5], [1, 13]], [[1, 0], [1, 9], [1, 2], [1, 19]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]]], [[[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [29, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [1, 1]]]]> : tensor<2x9x4x2xi32>) : tensor<2x9x4x2xi32>
  return
}

func.func @chain_23() {
  %x0 = flow.tensor.dynamic_constant dense<[[0.0, 13.0, 8.0, 12.0], [5.0, 2.0, 12.0, 2.0], [2.0, 13.0, 13.0, 17.0]]> : tensor<3x4xf32> -> tensor<?x4xf32>
  %x1 = util.unfoldable_constant dense<[[0], [2]]> : tensor<2x1xindex>
  %x2 = util.unfoldable_constant dense<[[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]> : tensor<2x4xf32>
  %v0 = arith.constant 1.0 : f32
  %v1 = arith.constant 0 : index
  %v2 = arith.constant 0 : index
  %v3 = tensor.insert %v0 into %x0[%v1, %v2] : tensor<?x4xf32>
  %v4 = arith.constant 1.0 : f32
  %v5 = arith.constant 1 : index
  %v6 = arith.constant 3 : index
  %v7 = tensor.insert %v4 into %v3[%v5, %v6] : tensor<?x4xf32>
  %v8 = util.unfoldable_constant 3 : index
  %v9 = tensor.empty(%v8) : tensor<?x4xf32>
  %v10 = linalg.transpose ins(%v7 : tensor<?x4xf32>) outs(%v9 : tensor<?x4xf32>) permutation = [0, 1]
  %v11 = tensor.scatter %x2 into %v10[%x1] scatter_dims([0]) unique : (tensor<2x4xf32>, tensor<?x4xf32>, tensor<2x1xindex>) -> tensor<?x4xf32>
  %v12 = util.unfoldable_constant 2 : index
  %v13 = util.unfoldable_constant 3 : index
  %v14 = tensor.empty(%v13) : tensor<?x4xf32>
  %v15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v14 : tensor<?x4xf32>) {
  ^bb0(%o0: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v12, %i0 : index
    %e = tensor.extract %v11[%j, %i1] : tensor<?x4xf32>
    linalg.yield %e : f32
  } -> tensor<?x4xf32>
  %static0 = tensor.cast %v15 : tensor<?x4xf32> to tensor<3x4xf32>
  check.expect_eq_const(%static0, dense<[[0.0, 1.0, 1.0, 0.0], [5.0, 2.0, 12.0, 1.0], [0.0, 0.0, 0.0, 0.0]]> : tensor<3x4xf32>) : tensor<3x4xf32>
  return
}
