// Written by tests/ops/write_checks.py; the expected values are NumPy's.

func.func @extract_slice_i32_0_static() {
  %x0 = util.unfoldable_constant dense<[[42, 31, 25, 13, 15, 2], [3, 0, 8, 40, 32, 45], [25, 30, 48, 36, 31, 27], [27, 46, 13, 40, 33, 0]]> : tensor<4x6xi32>
  %v0 = tensor.extract_slice %x0[3, 3] [0, 1] [3, 3] : tensor<4x6xi32> to tensor<0xi32>
  check.expect_eq_const(%v0, dense<> : tensor<0xi32>) : tensor<0xi32>
  return
}

func.func @extract_slice_f32_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[23.0, 25.0, 37.0, 47.0, 1.0], [7.0, 41.0, 47.0, 12.0, 15.0], [43.0, 21.0, 13.0, 41.0, 12.0]]> : tensor<3x5xf32> -> tensor<?x?xf32>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 0 : index
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 1 : index
  %v6 = tensor.extract_slice %x0[%v0, %v1] [%v2, %v3] [%v4, %v5] : tensor<?x?xf32> to tensor<?x?xf32>
  %static0 = tensor.cast %v6 : tensor<?x?xf32> to tensor<0x1xf32>
  check.expect_eq_const(%static0, dense<> : tensor<0x1xf32>) : tensor<0x1xf32>
  return
}

func.func @extract_slice_i8_2_static() {
  %x0 = util.unfoldable_constant dense<[[[41, 13, 5, 14]], [[20, 40, 22, 4]]]> : tensor<2x1x4xi8>
  %v0 = tensor.extract_slice %x0[0, 0, 1] [0, 1, 1] [1, 1, 1] : tensor<2x1x4xi8> to tensor<0x1x1xi8>
  check.expect_eq_const(%v0, dense<> : tensor<0x1x1xi8>) : tensor<0x1x1xi8>
  return
}

func.func @extract_slice_i64_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[40, 4, 8, 11, 9, 40, 43]> : tensor<7xi64> -> tensor<?xi64>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 1 : index
  %v2 = tensor.extract_slice %x0[4] [%v0] [%v1] : tensor<?xi64> to tensor<?xi64>
  %static0 = tensor.cast %v2 : tensor<?xi64> to tensor<1xi64>
  check.expect_eq_const(%static0, dense<[9]> : tensor<1xi64>) : tensor<1xi64>
  return
}

func.func @insert_slice_f32_0_static() {
  %x0 = util.unfoldable_constant dense<[[23.0, 25.0, 37.0, 47.0, 1.0, 7.0], [41.0, 47.0, 12.0, 15.0, 43.0, 21.0], [13.0, 41.0, 12.0, 20.0, 32.0, 27.0], [4.0, 1.0, 43.0, 37.0, 41.0, 26.0]]> : tensor<4x6xf32>
  %x1 = util.unfoldable_constant dense<[[73.0]]> : tensor<1x1xf32>
  %v0 = tensor.insert_slice %x1 into %x0[0, 0] [1, 1] [2, 2] : tensor<1x1xf32> into tensor<4x6xf32>
  check.expect_eq_const(%v0, dense<[[73.0, 25.0, 37.0, 47.0, 1.0, 7.0], [41.0, 47.0, 12.0, 15.0, 43.0, 21.0], [13.0, 41.0, 12.0, 20.0, 32.0, 27.0], [4.0, 1.0, 43.0, 37.0, 41.0, 26.0]]> : tensor<4x6xf32>) : tensor<4x6xf32>
  return
}

func.func @insert_slice_i8_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[41, 13, 5, 14, 20], [40, 22, 4, 16, 30], [40, 36, 49, 9, 44]]> : tensor<3x5xi8> -> tensor<?x?xi8>
  %x1 = flow.tensor.dynamic_constant dense<[[4]]> : tensor<1x1xi8> -> tensor<?x?xi8>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 4 : index
  %v2 = util.unfoldable_constant 1 : index
  %v3 = util.unfoldable_constant 1 : index
  %v4 = util.unfoldable_constant 1 : index
  %v5 = util.unfoldable_constant 2 : index
  %v6 = tensor.insert_slice %x1 into %x0[%v0, %v1] [%v2, %v3] [%v4, %v5] : tensor<?x?xi8> into tensor<?x?xi8>
  %static0 = tensor.cast %v6 : tensor<?x?xi8> to tensor<3x5xi8>
  check.expect_eq_const(%static0, dense<[[41, 13, 5, 14, 20], [40, 22, 4, 16, 30], [40, 36, 49, 9, 4]]> : tensor<3x5xi8>) : tensor<3x5xi8>
  return
}

func.func @insert_slice_i64_2_static() {
  %x0 = util.unfoldable_constant dense<[[[40, 4, 8, 11]], [[9, 40, 43, 29]]]> : tensor<2x1x4xi64>
  %x1 = util.unfoldable_constant dense<[[3]]> : tensor<1x1xi64>
  %v0 = tensor.insert_slice %x1 into %x0[1, 0, 3] [1, 1, 1] [1, 1, 1] : tensor<1x1xi64> into tensor<2x1x4xi64>
  check.expect_eq_const(%v0, dense<[[[40, 4, 8, 11]], [[9, 40, 43, 3]]]> : tensor<2x1x4xi64>) : tensor<2x1x4xi64>
  return
}

func.func @insert_slice_i1_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<true> : tensor<7xi1> -> tensor<?xi1>
  %x1 = flow.tensor.dynamic_constant dense<[false]> : tensor<1xi1> -> tensor<?xi1>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 1 : index
  %v2 = tensor.insert_slice %x1 into %x0[2] [%v0] [%v1] : tensor<?xi1> into tensor<?xi1>
  %static0 = tensor.cast %v2 : tensor<?xi1> to tensor<7xi1>
  check.expect_eq_const(%static0, dense<[true, true, false, true, true, true, true]> : tensor<7xi1>) : tensor<7xi1>
  return
}

func.func @pad_i8_0_static() {
  %x0 = util.unfoldable_constant dense<[[41, 13, 5, 14, 20, 40], [22, 4, 16, 30, 40, 36], [49, 9, 44, 2, 27, 13], [10, 32, 15, 28, 13, 7]]> : tensor<4x6xi8>
  %v0 = arith.constant 0 : i8
  %v1 = tensor.pad %x0 low[0, 1] high[0, 2] {
  ^bb0(%p0: index, %p1: index):
    tensor.yield %v0 : i8
  } : tensor<4x6xi8> to tensor<4x9xi8>
  check.expect_eq_const(%v1, dense<[[0, 41, 13, 5, 14, 20, 40, 0, 0], [0, 22, 4, 16, 30, 40, 36, 0, 0], [0, 49, 9, 44, 2, 27, 13, 0, 0], [0, 10, 32, 15, 28, 13, 7, 0, 0]]> : tensor<4x9xi8>) : tensor<4x9xi8>
  return
}

func.func @pad_i64_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[40, 4, 8, 11, 9], [40, 43, 29, 1, 4], [16, 21, 31, 23, 13]]> : tensor<3x5xi64> -> tensor<?x?xi64>
  %v0 = arith.constant 1 : i64
  %v1 = util.unfoldable_constant 0 : index
  %v2 = util.unfoldable_constant 2 : index
  %v3 = util.unfoldable_constant 5 : index
  %v4 = util.unfoldable_constant 2 : index
  %v5 = tensor.pad %x0 low[%v1, %v2] high[%v3, %v4] {
  ^bb0(%p0: index, %p1: index):
    tensor.yield %v0 : i64
  } : tensor<?x?xi64> to tensor<?x?xi64>
  %static0 = tensor.cast %v5 : tensor<?x?xi64> to tensor<8x9xi64>
  check.expect_eq_const(%static0, dense<[[1, 1, 40, 4, 8, 11, 9, 1, 1], [1, 1, 40, 43, 29, 1, 4, 1, 1], [1, 1, 16, 21, 31, 23, 13, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1]]> : tensor<8x9xi64>) : tensor<8x9xi64>
  return
}

func.func @pad_i1_2_static() {
  %x0 = util.unfoldable_constant dense<[[[true, true, true, true]], [[true, true, true, false]]]> : tensor<2x1x4xi1>
  %v0 = arith.constant true
  %v1 = tensor.pad %x0 low[0, 0, 0] high[5, 1, 0] {
  ^bb0(%p0: index, %p1: index, %p2: index):
    tensor.yield %v0 : i1
  } : tensor<2x1x4xi1> to tensor<7x2x4xi1>
  check.expect_eq_const(%v1, dense<[[[true, true, true, true], [true, true, true, true]], [[true, true, true, false], [true, true, true, true]], [[true, true, true, true], [true, true, true, true]], [[true, true, true, true], [true, true, true, true]], [[true, true, true, true], [true, true, true, true]], [[true, true, true, true], [true, true, true, true]], [[true, true, true, true], [true, true, true, true]]]> : tensor<7x2x4xi1>) : tensor<7x2x4xi1>
  return
}

func.func @pad_f16_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[33.0, 40.0, 1.0, 40.0, 23.0, 25.0, 31.0]> : tensor<7xf16> -> tensor<?xf16>
  %v0 = arith.constant 0.0 : f16
  %v1 = util.unfoldable_constant 1 : index
  %v2 = tensor.pad %x0 low[%v1] high[0] {
  ^bb0(%p0: index):
    tensor.yield %v0 : f16
  } : tensor<?xf16> to tensor<8xf16>
  check.expect_eq_const(%v2, dense<[0.0, 33.0, 40.0, 1.0, 40.0, 23.0, 25.0, 31.0]> : tensor<8xf16>) : tensor<8xf16>
  return
}

func.func @collapse_i64_0_static() {
  %x0 = util.unfoldable_constant dense<[[40, 4, 8, 11, 9, 40], [43, 29, 1, 4, 16, 21], [31, 23, 13, 7, 34, 36], [1, 5, 22, 19, 44, 25]]> : tensor<4x6xi64>
  %v0 = tensor.collapse_shape %x0 [[0], [1]] : tensor<4x6xi64> into tensor<4x6xi64>
  check.expect_eq_const(%v0, dense<[[40, 4, 8, 11, 9, 40], [43, 29, 1, 4, 16, 21], [31, 23, 13, 7, 34, 36], [1, 5, 22, 19, 44, 25]]> : tensor<4x6xi64>) : tensor<4x6xi64>
  return
}

func.func @collapse_i1_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[true, true, true, true, true], [true, true, false, false, true], [false, false, true, true, true]]> : tensor<3x5xi1> -> tensor<?x?xi1>
  %v0 = tensor.collapse_shape %x0 [[0, 1]] : tensor<?x?xi1> into tensor<?xi1>
  %static0 = tensor.cast %v0 : tensor<?xi1> to tensor<15xi1>
  check.expect_eq_const(%static0, dense<[true, true, true, true, true, true, true, false, false, true, false, false, true, true, true]> : tensor<15xi1>) : tensor<15xi1>
  return
}

func.func @collapse_f16_2_static() {
  %x0 = util.unfoldable_constant dense<[[[33.0, 40.0, 1.0, 40.0]], [[23.0, 25.0, 31.0, 14.0]]]> : tensor<2x1x4xf16>
  %v0 = tensor.collapse_shape %x0 [[0, 1, 2]] : tensor<2x1x4xf16> into tensor<8xf16>
  check.expect_eq_const(%v0, dense<[33.0, 40.0, 1.0, 40.0, 23.0, 25.0, 31.0, 14.0]> : tensor<8xf16>) : tensor<8xf16>
  return
}

func.func @collapse_index_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[22, 26, 25, 17, 47, 18, 32]> : tensor<7xindex> -> tensor<?xindex>
  %static0 = tensor.cast %x0 : tensor<?xindex> to tensor<7xindex>
  check.expect_eq_const(%static0, dense<[22, 26, 25, 17, 47, 18, 32]> : tensor<7xindex>) : tensor<7xindex>
  return
}

func.func @expand_i1_0_static() {
  %x0 = util.unfoldable_constant dense<[[true, true, true, true, true, true], [true, false, false, true, false, false], [true, true, true, false, true, true], [false, true, false, true, false, false]]> : tensor<4x6xi1>
  %v0 = tensor.expand_shape %x0 [[0, 1], [2, 3]] output_shape [1, 4, 3, 2] : tensor<4x6xi1> into tensor<1x4x3x2xi1>
  check.expect_eq_const(%v0, dense<[[[[true, true], [true, true], [true, true]], [[true, false], [false, true], [false, false]], [[true, true], [true, false], [true, true]], [[false, true], [false, true], [false, false]]]]> : tensor<1x4x3x2xi1>) : tensor<1x4x3x2xi1>
  return
}

func.func @expand_f16_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[33.0, 40.0, 1.0, 40.0, 23.0], [25.0, 31.0, 14.0, 48.0, 2.0], [13.0, 19.0, 28.0, 20.0, 6.0]]> : tensor<3x5xf16> -> tensor<?x?xf16>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.expand_shape %x0 [[0, 1], [2]] output_shape [%v0, %v1, %v2] : tensor<?x?xf16> into tensor<?x?x?xf16>
  %static0 = tensor.cast %v3 : tensor<?x?x?xf16> to tensor<1x3x5xf16>
  check.expect_eq_const(%static0, dense<[[[33.0, 40.0, 1.0, 40.0, 23.0], [25.0, 31.0, 14.0, 48.0, 2.0], [13.0, 19.0, 28.0, 20.0, 6.0]]]> : tensor<1x3x5xf16>) : tensor<1x3x5xf16>
  return
}

func.func @expand_index_2_static() {
  %x0 = util.unfoldable_constant dense<[[[22, 26, 25, 17]], [[47, 18, 32, 18]]]> : tensor<2x1x4xindex>
  %v0 = tensor.expand_shape %x0 [[0], [1, 2], [3, 4]] output_shape [2, 1, 1, 1, 4] : tensor<2x1x4xindex> into tensor<2x1x1x1x4xindex>
  check.expect_eq_const(%v0, dense<[[[[[22, 26, 25, 17]]]], [[[[47, 18, 32, 18]]]]]> : tensor<2x1x1x1x4xindex>) : tensor<2x1x1x1x4xindex>
  return
}

func.func @expand_i16_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[47, 31, 34, 44, 28, 38, 41]> : tensor<7xi16> -> tensor<?xi16>
  %static0 = tensor.cast %x0 : tensor<?xi16> to tensor<7xi16>
  check.expect_eq_const(%static0, dense<[47, 31, 34, 44, 28, 38, 41]> : tensor<7xi16>) : tensor<7xi16>
  return
}

func.func @reshape_f16_0_static() {
  %x0 = util.unfoldable_constant dense<[[33.0, 40.0, 1.0, 40.0, 23.0, 25.0], [31.0, 14.0, 48.0, 2.0, 13.0, 19.0], [28.0, 20.0, 6.0, 2.0, 0.0, 2.0], [7.0, 49.0, 9.0, 32.0, 37.0, 11.0]]> : tensor<4x6xf16>
  %v0 = arith.constant 6 : index
  %v1 = arith.constant 4 : index
  %v2 = tensor.from_elements %v0, %v1 : tensor<2xindex>
  %v3 = tensor.reshape %x0(%v2) : (tensor<4x6xf16>, tensor<2xindex>) -> tensor<6x4xf16>
  check.expect_eq_const(%v3, dense<[[33.0, 40.0, 1.0, 40.0], [23.0, 25.0, 31.0, 14.0], [48.0, 2.0, 13.0, 19.0], [28.0, 20.0, 6.0, 2.0], [0.0, 2.0, 7.0, 49.0], [9.0, 32.0, 37.0, 11.0]]> : tensor<6x4xf16>) : tensor<6x4xf16>
  return
}

func.func @reshape_index_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[22, 26, 25, 17, 47], [18, 32, 18, 22, 49], [9, 31, 21, 33, 37]]> : tensor<3x5xindex> -> tensor<?x?xindex>
  %v0 = arith.constant 3 : index
  %v1 = arith.constant 5 : index
  %v2 = tensor.from_elements %v0, %v1 : tensor<2xindex>
  %v3 = tensor.reshape %x0(%v2) : (tensor<?x?xindex>, tensor<2xindex>) -> tensor<?x?xindex>
  %static0 = tensor.cast %v3 : tensor<?x?xindex> to tensor<3x5xindex>
  check.expect_eq_const(%static0, dense<[[22, 26, 25, 17, 47], [18, 32, 18, 22, 49], [9, 31, 21, 33, 37]]> : tensor<3x5xindex>) : tensor<3x5xindex>
  return
}

func.func @reshape_i16_2_static() {
  %x0 = util.unfoldable_constant dense<[[[47, 31, 34, 44]], [[28, 38, 41, 11]]]> : tensor<2x1x4xi16>
  %v0 = arith.constant 8 : index
  %v1 = tensor.from_elements %v0 : tensor<1xindex>
  %v2 = tensor.reshape %x0(%v1) : (tensor<2x1x4xi16>, tensor<1xindex>) -> tensor<8xi16>
  check.expect_eq_const(%v2, dense<[47, 31, 34, 44, 28, 38, 41, 11]> : tensor<8xi16>) : tensor<8xi16>
  return
}

func.func @reshape_f64_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[35.0, 16.0, 11.0, 49.0, 8.0, 15.0, 32.0]> : tensor<7xf64> -> tensor<?xf64>
  %v0 = arith.constant 1 : index
  %v1 = arith.constant 7 : index
  %v2 = tensor.from_elements %v0, %v1 : tensor<2xindex>
  %v3 = tensor.reshape %x0(%v2) : (tensor<?xf64>, tensor<2xindex>) -> tensor<?x?xf64>
  %static0 = tensor.cast %v3 : tensor<?x?xf64> to tensor<1x7xf64>
  check.expect_eq_const(%static0, dense<[[35.0, 16.0, 11.0, 49.0, 8.0, 15.0, 32.0]]> : tensor<1x7xf64>) : tensor<1x7xf64>
  return
}

func.func @concat_index_0_static() {
  %x0 = util.unfoldable_constant dense<[[22, 26, 25, 17, 47, 18], [32, 18, 22, 49, 9, 31], [21, 33, 37, 16, 33, 33], [22, 6, 30, 2, 44, 42]]> : tensor<4x6xindex>
  %x1 = util.unfoldable_constant dense<[[1], [0], [1], [1]]> : tensor<4x1xindex>
  %v0 = tensor.concat dim(1) %x0, %x1 : (tensor<4x6xindex>, tensor<4x1xindex>) -> tensor<4x7xindex>
  check.expect_eq_const(%v0, dense<[[22, 26, 25, 17, 47, 18, 1], [32, 18, 22, 49, 9, 31, 0], [21, 33, 37, 16, 33, 33, 1], [22, 6, 30, 2, 44, 42, 1]]> : tensor<4x7xindex>) : tensor<4x7xindex>
  return
}

func.func @concat_i16_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[47, 31, 34, 44, 28], [38, 41, 11, 2, 15], [14, 43, 45, 0, 24]]> : tensor<3x5xi16> -> tensor<?x?xi16>
  %v0 = tensor.concat dim(1) %x0 : (tensor<?x?xi16>) -> tensor<?x?xi16>
  %static0 = tensor.cast %v0 : tensor<?x?xi16> to tensor<3x5xi16>
  check.expect_eq_const(%static0, dense<[[47, 31, 34, 44, 28], [38, 41, 11, 2, 15], [14, 43, 45, 0, 24]]> : tensor<3x5xi16>) : tensor<3x5xi16>
  return
}

func.func @concat_f64_2_static() {
  %x0 = util.unfoldable_constant dense<[[[35.0, 16.0, 11.0, 49.0]], [[8.0, 15.0, 32.0, 39.0]]]> : tensor<2x1x4xf64>
  %v0 = tensor.concat dim(2) %x0 : (tensor<2x1x4xf64>) -> tensor<2x1x4xf64>
  check.expect_eq_const(%v0, dense<[[[35.0, 16.0, 11.0, 49.0]], [[8.0, 15.0, 32.0, 39.0]]]> : tensor<2x1x4xf64>) : tensor<2x1x4xf64>
  return
}

func.func @concat_bf16_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[21.0, 43.0, 48.0, 14.0, 5.0, 30.0, 33.0]> : tensor<7xbf16> -> tensor<?xbf16>
  %x1 = util.unfoldable_constant dense<1.0> : tensor<2xbf16>
  %v0 = tensor.concat dim(0) %x0, %x1 : (tensor<?xbf16>, tensor<2xbf16>) -> tensor<?xbf16>
  %static0 = tensor.cast %v0 : tensor<?xbf16> to tensor<9xbf16>
  check.expect_eq_const(%static0, dense<[21.0, 43.0, 48.0, 14.0, 5.0, 30.0, 33.0, 1.0, 1.0]> : tensor<9xbf16>) : tensor<9xbf16>
  return
}

func.func @gather_i16_0_static() {
  %x0 = util.unfoldable_constant dense<[[47, 31, 34, 44, 28, 38], [41, 11, 2, 15, 14, 43], [45, 0, 24, 41, 6, 39], [5, 23, 40, 15, 17, 13]]> : tensor<4x6xi16>
  %x1 = util.unfoldable_constant dense<> : tensor<0x1xi64>
  %v0 = tensor.gather %x0[%x1] gather_dims([1]) : (tensor<4x6xi16>, tensor<0x1xi64>) -> tensor<0x4xi16>
  check.expect_eq_const(%v0, dense<> : tensor<0x4xi16>) : tensor<0x4xi16>
  return
}

func.func @gather_f64_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[35.0, 16.0, 11.0, 49.0, 8.0], [15.0, 32.0, 39.0, 31.0, 43.0], [2.0, 19.0, 28.0, 21.0, 19.0]]> : tensor<3x5xf64> -> tensor<?x?xf64>
  %x1 = flow.tensor.dynamic_constant dense<[[0, 2]]> : tensor<1x2xi32> -> tensor<?x2xi32>
  %v0 = tensor.gather %x0[%x1] gather_dims([0, 1]) : (tensor<?x?xf64>, tensor<?x2xi32>) -> tensor<?xf64>
  %static0 = tensor.cast %v0 : tensor<?xf64> to tensor<1xf64>
  check.expect_eq_const(%static0, dense<[11.0]> : tensor<1xf64>) : tensor<1xf64>
  return
}

func.func @gather_bf16_2_static() {
  %x0 = util.unfoldable_constant dense<[[[21.0, 43.0, 48.0, 14.0]], [[5.0, 30.0, 33.0, 38.0]]]> : tensor<2x1x4xbf16>
  %x1 = util.unfoldable_constant dense<[[2]]> : tensor<1x1xindex>
  %v0 = tensor.gather %x0[%x1] gather_dims([2]) : (tensor<2x1x4xbf16>, tensor<1x1xindex>) -> tensor<1x2x1xbf16>
  check.expect_eq_const(%v0, dense<[[[48.0], [33.0]]]> : tensor<1x2x1xbf16>) : tensor<1x2x1xbf16>
  return
}

func.func @gather_i32_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[38, 47, 13, 10, 39, 41, 25]> : tensor<7xi32> -> tensor<?xi32>
  %x1 = util.unfoldable_constant dense<> : tensor<0x1xindex>
  %v0 = tensor.gather %x0[%x1] gather_dims([0]) : (tensor<?xi32>, tensor<0x1xindex>) -> tensor<0xi32>
  check.expect_eq_const(%v0, dense<> : tensor<0xi32>) : tensor<0xi32>
  return
}

func.func @scatter_f64_0_static() {
  %x0 = util.unfoldable_constant dense<[[35.0, 16.0, 11.0, 49.0, 8.0, 15.0], [32.0, 39.0, 31.0, 43.0, 2.0, 19.0], [28.0, 21.0, 19.0, 18.0, 2.0, 5.0], [27.0, 23.0, 47.0, 12.0, 42.0, 12.0]]> : tensor<4x6xf64>
  %x1 = util.unfoldable_constant dense<[[3], [2], [1]]> : tensor<3x1xi64>
  %x2 = util.unfoldable_constant dense<[[0.0, 0.0, 0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]> : tensor<3x6xf64>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<3x6xf64>, tensor<4x6xf64>, tensor<3x1xi64>) -> tensor<4x6xf64>
  check.expect_eq_const(%v0, dense<[[35.0, 16.0, 11.0, 49.0, 8.0, 15.0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]]> : tensor<4x6xf64>) : tensor<4x6xf64>
  return
}

func.func @scatter_bf16_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[21.0, 43.0, 48.0, 14.0, 5.0], [30.0, 33.0, 38.0, 32.0, 35.0], [45.0, 45.0, 46.0, 43.0, 36.0]]> : tensor<3x5xbf16> -> tensor<?x?xbf16>
  %x1 = flow.tensor.dynamic_constant dense<[[1], [2], [0]]> : tensor<3x1xi64> -> tensor<?x1xi64>
  %x2 = flow.tensor.dynamic_constant dense<[[1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 1.0]]> : tensor<3x5xbf16> -> tensor<?x?xbf16>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x1xi64>) -> tensor<?x?xbf16>
  %static0 = tensor.cast %v0 : tensor<?x?xbf16> to tensor<3x5xbf16>
  check.expect_eq_const(%static0, dense<[[0.0, 0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0, 1.0]]> : tensor<3x5xbf16>) : tensor<3x5xbf16>
  return
}

func.func @scatter_i32_2_static() {
  %x0 = util.unfoldable_constant dense<[[[38, 47, 13, 10]], [[39, 41, 25, 7]]]> : tensor<2x1x4xi32>
  %x1 = util.unfoldable_constant dense<[[1]]> : tensor<1x1xindex>
  %x2 = util.unfoldable_constant dense<[[[1, 1, 0, 0]]]> : tensor<1x1x4xi32>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<1x1x4xi32>, tensor<2x1x4xi32>, tensor<1x1xindex>) -> tensor<2x1x4xi32>
  check.expect_eq_const(%v0, dense<[[[38, 47, 13, 10]], [[1, 1, 0, 0]]]> : tensor<2x1x4xi32>) : tensor<2x1x4xi32>
  return
}

func.func @scatter_f32_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[6.0, 6.0, 39.0, 24.0, 29.0, 30.0, 35.0]> : tensor<7xf32> -> tensor<?xf32>
  %x1 = util.unfoldable_constant dense<[[6], [3], [0], [1]]> : tensor<4x1xi64>
  %x2 = util.unfoldable_constant dense<0.0> : tensor<4xf32>
  %v0 = tensor.scatter %x2 into %x0[%x1] scatter_dims([0]) unique : (tensor<4xf32>, tensor<?xf32>, tensor<4x1xi64>) -> tensor<?xf32>
  %static0 = tensor.cast %v0 : tensor<?xf32> to tensor<7xf32>
  check.expect_eq_const(%static0, dense<[0.0, 0.0, 39.0, 0.0, 29.0, 30.0, 0.0]> : tensor<7xf32>) : tensor<7xf32>
  return
}

func.func @insert_bf16_0_static() {
  %x0 = util.unfoldable_constant dense<[[21.0, 43.0, 48.0, 14.0, 5.0, 30.0], [33.0, 38.0, 32.0, 35.0, 45.0, 45.0], [46.0, 43.0, 36.0, 45.0, 0.0, 1.0], [39.0, 21.0, 37.0, 24.0, 45.0, 3.0]]> : tensor<4x6xbf16>
  %v0 = arith.constant 1.0 : bf16
  %v1 = arith.constant 1 : index
  %v2 = arith.constant 5 : index
  %v3 = tensor.insert %v0 into %x0[%v1, %v2] : tensor<4x6xbf16>
  check.expect_eq_const(%v3, dense<[[21.0, 43.0, 48.0, 14.0, 5.0, 30.0], [33.0, 38.0, 32.0, 35.0, 45.0, 1.0], [46.0, 43.0, 36.0, 45.0, 0.0, 1.0], [39.0, 21.0, 37.0, 24.0, 45.0, 3.0]]> : tensor<4x6xbf16>) : tensor<4x6xbf16>
  return
}

func.func @insert_i32_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[38, 47, 13, 10, 39], [41, 25, 7, 41, 25], [7, 6, 20, 34, 20]]> : tensor<3x5xi32> -> tensor<?x?xi32>
  %v0 = arith.constant 1 : i32
  %v1 = arith.constant 0 : index
  %v2 = arith.constant 4 : index
  %v3 = tensor.insert %v0 into %x0[%v1, %v2] : tensor<?x?xi32>
  %static0 = tensor.cast %v3 : tensor<?x?xi32> to tensor<3x5xi32>
  check.expect_eq_const(%static0, dense<[[38, 47, 13, 10, 1], [41, 25, 7, 41, 25], [7, 6, 20, 34, 20]]> : tensor<3x5xi32>) : tensor<3x5xi32>
  return
}

func.func @insert_f32_2_static() {
  %x0 = util.unfoldable_constant dense<[[[6.0, 6.0, 39.0, 24.0]], [[29.0, 30.0, 35.0, 1.0]]]> : tensor<2x1x4xf32>
  %v0 = arith.constant 1.0 : f32
  %v1 = arith.constant 1 : index
  %v2 = arith.constant 0 : index
  %v3 = arith.constant 0 : index
  %v4 = tensor.insert %v0 into %x0[%v1, %v2, %v3] : tensor<2x1x4xf32>
  check.expect_eq_const(%v4, dense<[[[6.0, 6.0, 39.0, 24.0]], [[1.0, 30.0, 35.0, 1.0]]]> : tensor<2x1x4xf32>) : tensor<2x1x4xf32>
  return
}

func.func @insert_i8_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[30, 12, 48, 47, 3, 9, 9]> : tensor<7xi8> -> tensor<?xi8>
  %v0 = arith.constant 1 : i8
  %v1 = arith.constant 6 : index
  %v2 = tensor.insert %v0 into %x0[%v1] : tensor<?xi8>
  %static0 = tensor.cast %v2 : tensor<?xi8> to tensor<7xi8>
  check.expect_eq_const(%static0, dense<[30, 12, 48, 47, 3, 9, 1]> : tensor<7xi8>) : tensor<7xi8>
  return
}

func.func @cast_i32_0_static() {
  %x0 = util.unfoldable_constant dense<[[38, 47, 13, 10, 39, 41], [25, 7, 41, 25, 7, 6], [20, 34, 20, 42, 0, 21], [26, 47, 11, 41, 3, 16]]> : tensor<4x6xi32>
  %v0 = tensor.cast %x0 : tensor<4x6xi32> to tensor<?x?xi32>
  %v1 = util.optimization_barrier %v0 : tensor<?x?xi32>
  %v2 = tensor.cast %v1 : tensor<?x?xi32> to tensor<4x6xi32>
  check.expect_eq_const(%v2, dense<[[38, 47, 13, 10, 39, 41], [25, 7, 41, 25, 7, 6], [20, 34, 20, 42, 0, 21], [26, 47, 11, 41, 3, 16]]> : tensor<4x6xi32>) : tensor<4x6xi32>
  return
}

func.func @cast_f32_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[6.0, 6.0, 39.0, 24.0, 29.0], [30.0, 35.0, 1.0, 24.0, 7.0], [20.0, 46.0, 27.0, 3.0, 27.0]]> : tensor<3x5xf32> -> tensor<?x?xf32>
  %v0 = tensor.cast %x0 : tensor<?x?xf32> to tensor<?x?xf32>
  %v1 = util.optimization_barrier %v0 : tensor<?x?xf32>
  %v2 = tensor.cast %v1 : tensor<?x?xf32> to tensor<?x?xf32>
  %static0 = tensor.cast %v2 : tensor<?x?xf32> to tensor<3x5xf32>
  check.expect_eq_const(%static0, dense<[[6.0, 6.0, 39.0, 24.0, 29.0], [30.0, 35.0, 1.0, 24.0, 7.0], [20.0, 46.0, 27.0, 3.0, 27.0]]> : tensor<3x5xf32>) : tensor<3x5xf32>
  return
}

func.func @cast_i8_2_static() {
  %x0 = util.unfoldable_constant dense<[[[30, 12, 48, 47]], [[3, 9, 9, 8]]]> : tensor<2x1x4xi8>
  %v0 = tensor.cast %x0 : tensor<2x1x4xi8> to tensor<?x?x?xi8>
  %v1 = util.optimization_barrier %v0 : tensor<?x?x?xi8>
  %v2 = tensor.cast %v1 : tensor<?x?x?xi8> to tensor<2x1x4xi8>
  check.expect_eq_const(%v2, dense<[[[30, 12, 48, 47]], [[3, 9, 9, 8]]]> : tensor<2x1x4xi8>) : tensor<2x1x4xi8>
  return
}

func.func @cast_i64_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[44, 43, 40, 42, 3, 40, 47]> : tensor<7xi64> -> tensor<?xi64>
  %v0 = tensor.cast %x0 : tensor<?xi64> to tensor<?xi64>
  %v1 = util.optimization_barrier %v0 : tensor<?xi64>
  %v2 = tensor.cast %v1 : tensor<?xi64> to tensor<?xi64>
  %static0 = tensor.cast %v2 : tensor<?xi64> to tensor<7xi64>
  check.expect_eq_const(%static0, dense<[44, 43, 40, 42, 3, 40, 47]> : tensor<7xi64>) : tensor<7xi64>
  return
}

func.func @transpose_f32_0_static() {
  %x0 = util.unfoldable_constant dense<[[6.0, 6.0, 39.0, 24.0, 29.0, 30.0], [35.0, 1.0, 24.0, 7.0, 20.0, 46.0], [27.0, 3.0, 27.0, 6.0, 37.0, 47.0], [48.0, 31.0, 43.0, 18.0, 7.0, 25.0]]> : tensor<4x6xf32>
  %v0 = tensor.empty() : tensor<6x4xf32>
  %v1 = linalg.transpose ins(%x0 : tensor<4x6xf32>) outs(%v0 : tensor<6x4xf32>) permutation = [1, 0]
  check.expect_eq_const(%v1, dense<[[6.0, 35.0, 27.0, 48.0], [6.0, 1.0, 3.0, 31.0], [39.0, 24.0, 27.0, 43.0], [24.0, 7.0, 6.0, 18.0], [29.0, 20.0, 37.0, 7.0], [30.0, 46.0, 47.0, 25.0]]> : tensor<6x4xf32>) : tensor<6x4xf32>
  return
}

func.func @transpose_i8_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[30, 12, 48, 47, 3], [9, 9, 8, 29, 17], [24, 11, 47, 33, 33]]> : tensor<3x5xi8> -> tensor<?x?xi8>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = util.unfoldable_constant 5 : index
  %v2 = tensor.empty(%v0, %v1) : tensor<?x?xi8>
  %v3 = linalg.transpose ins(%x0 : tensor<?x?xi8>) outs(%v2 : tensor<?x?xi8>) permutation = [0, 1]
  %static0 = tensor.cast %v3 : tensor<?x?xi8> to tensor<3x5xi8>
  check.expect_eq_const(%static0, dense<[[30, 12, 48, 47, 3], [9, 9, 8, 29, 17], [24, 11, 47, 33, 33]]> : tensor<3x5xi8>) : tensor<3x5xi8>
  return
}

func.func @transpose_i64_2_static() {
  %x0 = util.unfoldable_constant dense<[[[44, 43, 40, 42]], [[3, 40, 47, 13]]]> : tensor<2x1x4xi64>
  %v0 = tensor.empty() : tensor<1x4x2xi64>
  %v1 = linalg.transpose ins(%x0 : tensor<2x1x4xi64>) outs(%v0 : tensor<1x4x2xi64>) permutation = [1, 2, 0]
  check.expect_eq_const(%v1, dense<[[[44, 3], [43, 40], [40, 47], [42, 13]]]> : tensor<1x4x2xi64>) : tensor<1x4x2xi64>
  return
}

func.func @transpose_i1_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[false, true, true, false, false, true, false]> : tensor<7xi1> -> tensor<?xi1>
  %v0 = util.unfoldable_constant 7 : index
  %v1 = tensor.empty(%v0) : tensor<?xi1>
  %v2 = linalg.transpose ins(%x0 : tensor<?xi1>) outs(%v1 : tensor<?xi1>) permutation = [0]
  %static0 = tensor.cast %v2 : tensor<?xi1> to tensor<7xi1>
  check.expect_eq_const(%static0, dense<[false, true, true, false, false, true, false]> : tensor<7xi1>) : tensor<7xi1>
  return
}

func.func @broadcast_i8_0_static() {
  %x0 = util.unfoldable_constant dense<[[30, 12, 48, 47, 3, 9], [9, 8, 29, 17, 24, 11], [47, 33, 33, 5, 7, 44], [15, 42, 39, 0, 23, 27]]> : tensor<4x6xi8>
  %v0 = tensor.empty() : tensor<4x6x1xi8>
  %v1 = linalg.broadcast ins(%x0 : tensor<4x6xi8>) outs(%v0 : tensor<4x6x1xi8>) dimensions = [2]
  check.expect_eq_const(%v1, dense<[[[30], [12], [48], [47], [3], [9]], [[9], [8], [29], [17], [24], [11]], [[47], [33], [33], [5], [7], [44]], [[15], [42], [39], [0], [23], [27]]]> : tensor<4x6x1xi8>) : tensor<4x6x1xi8>
  return
}

func.func @broadcast_i64_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[44, 43, 40, 42, 3], [40, 47, 13, 8, 3], [39, 47, 30, 30, 39]]> : tensor<3x5xi64> -> tensor<?x?xi64>
  %v0 = util.unfoldable_constant 1 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v0, %v1, %v2) : tensor<?x?x?xi64>
  %v4 = linalg.broadcast ins(%x0 : tensor<?x?xi64>) outs(%v3 : tensor<?x?x?xi64>) dimensions = [0]
  %static0 = tensor.cast %v4 : tensor<?x?x?xi64> to tensor<1x3x5xi64>
  check.expect_eq_const(%static0, dense<[[[44, 43, 40, 42, 3], [40, 47, 13, 8, 3], [39, 47, 30, 30, 39]]]> : tensor<1x3x5xi64>) : tensor<1x3x5xi64>
  return
}

func.func @broadcast_i1_2_static() {
  %x0 = util.unfoldable_constant dense<[[[false, true, true, false]], [[false, true, false, true]]]> : tensor<2x1x4xi1>
  %v0 = tensor.empty() : tensor<2x3x1x4xi1>
  %v1 = linalg.broadcast ins(%x0 : tensor<2x1x4xi1>) outs(%v0 : tensor<2x3x1x4xi1>) dimensions = [1]
  check.expect_eq_const(%v1, dense<[[[[false, true, true, false]], [[false, true, true, false]], [[false, true, true, false]]], [[[false, true, false, true]], [[false, true, false, true]], [[false, true, false, true]]]]> : tensor<2x3x1x4xi1>) : tensor<2x3x1x4xi1>
  return
}

func.func @broadcast_f16_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[46.0, 34.0, 35.0, 40.0, 12.0, 17.0, 10.0]> : tensor<7xf16> -> tensor<?xf16>
  %v0 = util.unfoldable_constant 7 : index
  %v1 = tensor.empty(%v0) : tensor<2x?xf16>
  %v2 = linalg.broadcast ins(%x0 : tensor<?xf16>) outs(%v1 : tensor<2x?xf16>) dimensions = [0]
  %static0 = tensor.cast %v2 : tensor<2x?xf16> to tensor<2x7xf16>
  check.expect_eq_const(%static0, dense<[[46.0, 34.0, 35.0, 40.0, 12.0, 17.0, 10.0], [46.0, 34.0, 35.0, 40.0, 12.0, 17.0, 10.0]]> : tensor<2x7xf16>) : tensor<2x7xf16>
  return
}

func.func @double_i64_0_static() {
  %x0 = util.unfoldable_constant dense<[[44, 43, 40, 42, 3, 40], [47, 13, 8, 3, 39, 47], [30, 30, 39, 0, 41, 45], [6, 49, 42, 14, 23, 40]]> : tensor<4x6xi64>
  %v0 = arith.muli %x0, %x0 : tensor<4x6xi64>
  check.expect_eq_const(%v0, dense<[[1936, 1849, 1600, 1764, 9, 1600], [2209, 169, 64, 9, 1521, 2209], [900, 900, 1521, 0, 1681, 2025], [36, 2401, 1764, 196, 529, 1600]]> : tensor<4x6xi64>) : tensor<4x6xi64>
  return
}

func.func @double_i1_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[false, true, true, false, false], [true, false, true, false, true], [false, true, false, true, false]]> : tensor<3x5xi1> -> tensor<?x?xi1>
  %v0 = arith.ori %x0, %x0 : tensor<?x?xi1>
  %static0 = tensor.cast %v0 : tensor<?x?xi1> to tensor<3x5xi1>
  check.expect_eq_const(%static0, dense<[[false, true, true, false, false], [true, false, true, false, true], [false, true, false, true, false]]> : tensor<3x5xi1>) : tensor<3x5xi1>
  return
}

func.func @double_f16_2_static() {
  %x0 = util.unfoldable_constant dense<[[[46.0, 34.0, 35.0, 40.0]], [[12.0, 17.0, 10.0, 2.0]]]> : tensor<2x1x4xf16>
  %v0 = arith.addf %x0, %x0 : tensor<2x1x4xf16>
  check.expect_eq_const(%v0, dense<[[[92.0, 68.0, 70.0, 80.0]], [[24.0, 34.0, 20.0, 4.0]]]> : tensor<2x1x4xf16>) : tensor<2x1x4xf16>
  return
}

func.func @double_index_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[26, 28, 41, 21, 38, 4, 26]> : tensor<7xindex> -> tensor<?xindex>
  %static0 = tensor.cast %x0 : tensor<?xindex> to tensor<7xindex>
  check.expect_eq_const(%static0, dense<[26, 28, 41, 21, 38, 4, 26]> : tensor<7xindex>) : tensor<7xindex>
  return
}

func.func @reverse_i1_0_static() {
  %x0 = util.unfoldable_constant dense<[[false, true, true, false, false, true], [false, true, false, true, false, true], [false, true, false, true, true, false], [true, true, true, true, true, false]]> : tensor<4x6xi1>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.empty() : tensor<4x6xi1>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v1 : tensor<4x6xi1>) {
  ^bb0(%o0: i1):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v0, %i0 : index
    %e = tensor.extract %x0[%j, %i1] : tensor<4x6xi1>
    linalg.yield %e : i1
  } -> tensor<4x6xi1>
  check.expect_eq_const(%v2, dense<[[true, true, true, true, true, false], [false, true, false, true, true, false], [false, true, false, true, false, true], [false, true, true, false, false, true]]> : tensor<4x6xi1>) : tensor<4x6xi1>
  return
}

func.func @reverse_f16_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[46.0, 34.0, 35.0, 40.0, 12.0], [17.0, 10.0, 2.0, 22.0, 28.0], [48.0, 7.0, 49.0, 35.0, 23.0]]> : tensor<3x5xf16> -> tensor<?x?xf16>
  %v0 = util.unfoldable_constant 2 : index
  %v1 = util.unfoldable_constant 3 : index
  %v2 = util.unfoldable_constant 5 : index
  %v3 = tensor.empty(%v1, %v2) : tensor<?x?xf16>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%v3 : tensor<?x?xf16>) {
  ^bb0(%o0: f16):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %j = arith.subi %v0, %i0 : index
    %e = tensor.extract %x0[%j, %i1] : tensor<?x?xf16>
    linalg.yield %e : f16
  } -> tensor<?x?xf16>
  %static0 = tensor.cast %v4 : tensor<?x?xf16> to tensor<3x5xf16>
  check.expect_eq_const(%static0, dense<[[48.0, 7.0, 49.0, 35.0, 23.0], [17.0, 10.0, 2.0, 22.0, 28.0], [46.0, 34.0, 35.0, 40.0, 12.0]]> : tensor<3x5xf16>) : tensor<3x5xf16>
  return
}

func.func @reverse_index_2_static() {
  %x0 = util.unfoldable_constant dense<[[[26, 28, 41, 21]], [[38, 4, 26, 17]]]> : tensor<2x1x4xindex>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.empty() : tensor<2x1x4xindex>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} outs(%v1 : tensor<2x1x4xindex>) {
  ^bb0(%o0: index):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %i2 = linalg.index 2 : index
    %j = arith.subi %v0, %i2 : index
    %e = tensor.extract %x0[%i0, %i1, %j] : tensor<2x1x4xindex>
    linalg.yield %e : index
  } -> tensor<2x1x4xindex>
  check.expect_eq_const(%v2, dense<[[[21, 41, 28, 26]], [[17, 26, 4, 38]]]> : tensor<2x1x4xindex>) : tensor<2x1x4xindex>
  return
}

func.func @reverse_i16_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[37, 42, 5, 8, 22, 27, 38]> : tensor<7xi16> -> tensor<?xi16>
  %v0 = util.unfoldable_constant 6 : index
  %v1 = util.unfoldable_constant 7 : index
  %v2 = tensor.empty(%v1) : tensor<?xi16>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%v2 : tensor<?xi16>) {
  ^bb0(%o0: i16):
    %i0 = linalg.index 0 : index
    %j = arith.subi %v0, %i0 : index
    %e = tensor.extract %x0[%j] : tensor<?xi16>
    linalg.yield %e : i16
  } -> tensor<?xi16>
  %static0 = tensor.cast %v3 : tensor<?xi16> to tensor<7xi16>
  check.expect_eq_const(%static0, dense<[38, 27, 22, 8, 5, 42, 37]> : tensor<7xi16>) : tensor<7xi16>
  return
}

func.func @generate_f16_0_static() {
  %x0 = util.unfoldable_constant dense<[[46.0, 34.0, 35.0, 40.0, 12.0, 17.0], [10.0, 2.0, 22.0, 28.0, 48.0, 7.0], [49.0, 35.0, 23.0, 17.0, 34.0, 22.0], [13.0, 48.0, 10.0, 39.0, 4.0, 42.0]]> : tensor<4x6xf16>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.generate  {
  ^bb0(%p: index):
    %c0 = arith.constant 4 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 6 : index
    %r1 = arith.remui %p, %c1 : index
    %e = tensor.extract %x0[%r0, %r1] : tensor<4x6xf16>
    tensor.yield %e : f16
  } : tensor<3xf16>
  check.expect_eq_const(%v1, dense<[46.0, 2.0, 23.0]> : tensor<3xf16>) : tensor<3xf16>
  return
}

func.func @generate_index_1_dynamic() {
  %x0 = flow.tensor.dynamic_constant dense<[[26, 28, 41, 21, 38], [4, 26, 17, 0, 31], [23, 1, 14, 43, 3]]> : tensor<3x5xindex> -> tensor<?x?xindex>
  %v0 = util.unfoldable_constant 5 : index
  %v1 = tensor.generate %v0 {
  ^bb0(%p: index):
    %c0 = arith.constant 3 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 5 : index
    %r1 = arith.remui %p, %c1 : index
    %e = tensor.extract %x0[%r0, %r1] : tensor<?x?xindex>
    tensor.yield %e : index
  } : tensor<?xindex>
  %static0 = tensor.cast %v1 : tensor<?xindex> to tensor<5xindex>
  check.expect_eq_const(%static0, dense<[26, 26, 14, 21, 31]> : tensor<5xindex>) : tensor<5xindex>
  return
}

func.func @generate_i16_2_static() {
  %x0 = util.unfoldable_constant dense<[[[37, 42, 5, 8]], [[22, 27, 38, 18]]]> : tensor<2x1x4xi16>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.generate  {
  ^bb0(%p: index):
    %c0 = arith.constant 2 : index
    %r0 = arith.remui %p, %c0 : index
    %c1 = arith.constant 1 : index
    %r1 = arith.remui %p, %c1 : index
    %c2 = arith.constant 4 : index
    %r2 = arith.remui %p, %c2 : index
    %e = tensor.extract %x0[%r0, %r1, %r2] : tensor<2x1x4xi16>
    tensor.yield %e : i16
  } : tensor<3xi16>
  check.expect_eq_const(%v1, dense<[37, 27, 5]> : tensor<3xi16>) : tensor<3xi16>
  return
}

func.func @generate_f64_3_mixed() {
  %x0 = flow.tensor.dynamic_constant dense<[44.0, 19.0, 10.0, 35.0, 43.0, 14.0, 18.0]> : tensor<7xf64> -> tensor<?xf64>
  %v0 = util.unfoldable_constant 3 : index
  %v1 = tensor.generate %v0 {
  ^bb0(%p: index):
    %c0 = arith.constant 7 : index
    %r0 = arith.remui %p, %c0 : index
    %e = tensor.extract %x0[%r0] : tensor<?xf64>
    tensor.yield %e : f64
  } : tensor<?xf64>
  %static0 = tensor.cast %v1 : tensor<?xf64> to tensor<3xf64>
  check.expect_eq_const(%static0, dense<[44.0, 19.0, 10.0]> : tensor<3xf64>) : tensor<3xf64>
  return
}
