#id1 = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
func.func @map_forms() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = util.unfoldable_constant dense<[3.0, 5.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.map { arith.mulf } ins(%a, %b : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>)
  %s = linalg.map ins(%a, %b : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) (%x: f32, %y: f32) {
    %d = arith.subf %x, %y : f32
    linalg.yield %d : f32
  }
  %t = linalg.map { math.exp } ins(%s : tensor<2xf32>) outs(%e : tensor<2xf32>)
  check.expect_eq_const(%r, dense<[3.0, 10.0]> : tensor<2xf32>) : tensor<2xf32>
  check.expect_almost_eq_const(%t, dense<[0.13533528, 0.04978707]> : tensor<2xf32>, atol 1.0e-06) : tensor<2xf32>
  return
}
func.func @reduce_several() {
  %a = util.unfoldable_constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %b = util.unfoldable_constant dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>
  %i = arith.constant dense<0> : tensor<2xi32>
  %f = arith.constant dense<1.0> : tensor<2xf32>
  %r:2 = linalg.reduce ins(%a, %b : tensor<2x2xi32>, tensor<2x2xf32>) outs(%i, %f : tensor<2xi32>, tensor<2xf32>) dimensions = [0]
  (%x: i32, %y: f32, %ax: i32, %ay: f32) {
    %s = arith.addi %x, %ax : i32
    %m = arith.mulf %y, %ay : f32
    linalg.yield %s, %m : i32, f32
  }
  check.expect_eq_const(%r#0, dense<[4, 6]> : tensor<2xi32>) : tensor<2xi32>
  check.expect_eq_const(%r#1, dense<[35.0, 48.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func @generic_scalar_operand() {
  %x = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  %c = arith.constant 5 : i32
  %e = tensor.empty() : tensor<3xi32>
  %r = linalg.generic {indexing_maps = [#id1, affine_map<(d0) -> ()>, #id1], iterator_types = ["parallel"]} ins(%x, %c : tensor<3xi32>, i32) outs(%e : tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32, %o: i32):
    %s = arith.addi %a, %b : i32
    linalg.yield %s : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[6, 7, 8]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @reversed_map() {
  %x = util.unfoldable_constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  %e = tensor.empty() : tensor<5xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (4 - d0)>, #id1], iterator_types = ["parallel"]} ins(%x : tensor<5xi32>) outs(%e : tensor<5xi32>) {
  ^bb0(%a: i32, %o: i32):
    linalg.yield %a : i32
  } -> tensor<5xi32>
  check.expect_eq_const(%r, dense<[5, 4, 3, 2, 1]> : tensor<5xi32>) : tensor<5xi32>
  return
}
func.func @window_map_with_pad() {
  %x = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  %w = util.unfoldable_constant dense<[0.5, 1.0, 0.25]> : tensor<3xf32>
  %e = arith.constant dense<0.0> : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
     ins(%p, %w : tensor<6xf32>, tensor<3xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  check.expect_eq_const(%r, dense<[1.5, 3.25, 5.0, 5.5]> : tensor<4xf32>) : tensor<4xf32>
  return
}
func.func @pad_value_depends_on_index() {
  %x = util.unfoldable_constant dense<[7, 8]> : tensor<2xindex>
  %p = tensor.pad %x low[2] high[1] {
  ^bb0(%i: index):
    %c = arith.constant 100 : index
    %s = arith.addi %i, %c : index
    tensor.yield %s : index
  } : tensor<2xindex> to tensor<5xindex>
  check.expect_eq_const(%p, dense<[100, 101, 7, 8, 104]> : tensor<5xindex>) : tensor<5xindex>
  return
}
func.func @scan_like_body_with_scf() {
  %x = util.unfoldable_constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %e = tensor.empty() : tensor<4xi32>
  %r = linalg.generic {indexing_maps = [#id1], iterator_types = ["parallel"]} outs(%e : tensor<4xi32>) {
  ^bb0(%o: i32):
    %i = linalg.index 0 : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.addi %i, %c1 : index
    %z = arith.constant 0 : i32
    %s = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %z) -> (i32) {
      %v = tensor.extract %x[%k] : tensor<4xi32>
      %t = arith.addi %acc, %v : i32
      scf.yield %t : i32
    }
    linalg.yield %s : i32
  } -> tensor<4xi32>
  check.expect_eq_const(%r, dense<[1, 3, 6, 10]> : tensor<4xi32>) : tensor<4xi32>
  return
}
func.func @body_with_if() {
  %x = util.unfoldable_constant dense<[-1.0, 4.0, 9.0]> : tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  %r = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %z = arith.constant 0.0 : f32
    %c = arith.cmpf olt, %a, %z : f32
    %v = scf.if %c -> (f32) {
      scf.yield %z : f32
    } else {
      %q = math.sqrt %a : f32
      scf.yield %q : f32
    }
    linalg.yield %v : f32
  } -> tensor<3xf32>
  check.expect_eq_const(%r, dense<[0.0, 2.0, 3.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}
func.func @elementwise_op_with_maps() {
  %a = util.unfoldable_constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = util.unfoldable_constant dense<[10.0, 20.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %r = linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>]
    ins(%a, %b : tensor<2x2xf32>, tensor<2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const(%r, dense<[[11.0, 13.0], [22.0, 24.0]]> : tensor<2x2xf32>) : tensor<2x2xf32>
  %c = util.unfoldable_constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
  %s = linalg.select ins(%c, %a, %r : tensor<2x2xi1>, tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const(%s, dense<[[1.0, 13.0], [22.0, 4.0]]> : tensor<2x2xf32>) : tensor<2x2xf32>
  return
}
func.func @mmt4d_small() {
  %a = util.unfoldable_constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]> : tensor<1x2x2x2xi8>
  %b = util.unfoldable_constant dense<[[[[1, 1], [2, 0]], [[0, 1], [1, -1]]]]> : tensor<1x2x2x2xi8>
  %c = arith.constant dense<0> : tensor<1x1x2x2xi32>
  %r = linalg.mmt4d ins(%a, %b : tensor<1x2x2x2xi8>, tensor<1x2x2x2xi8>) outs(%c : tensor<1x1x2x2xi32>) -> tensor<1x1x2x2xi32>
  check.expect_eq_const(%r, dense<[[[[9, 1], [15, 5]]]]> : tensor<1x1x2x2xi32>) : tensor<1x1x2x2xi32>
  return
}
func.func @dense_i64_large_and_hex() {
  %a = util.unfoldable_constant dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>
  %b = arith.constant dense<1> : tensor<2xi64>
  %r = arith.addi %a, %b : tensor<2xi64>
  check.expect_eq_const(%r, dense<[-9223372036854775808, -9223372036854775807]> : tensor<2xi64>) : tensor<2xi64>
  %f = arith.constant dense<"0x0000803F00000040"> : tensor<2xf32>
  check.expect_eq_const(%f, dense<[1.0, 2.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func @transposed_chain_into_matmul() {
  %a = util.unfoldable_constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%a : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %f = tensor.collapse_shape %t [[0, 1]] : tensor<3x2xf32> into tensor<6xf32>
  %g = tensor.expand_shape %f [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %z = arith.constant dense<0.0> : tensor<2x2xf32>
  %m = linalg.matmul ins(%g, %t : tensor<2x3xf32>, tensor<3x2xf32>) outs(%z : tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const(%m, dense<[[15.0, 36.0], [29.0, 71.0]]> : tensor<2x2xf32>) : tensor<2x2xf32>
  return
}
func.func @index_tensors() {
  %a = util.unfoldable_constant dense<[3, 1, 2]> : tensor<3xindex>
  %b = arith.index_cast %a : tensor<3xindex> to tensor<3xi32>
  %c = arith.muli %b, %b : tensor<3xi32>
  %d = arith.index_cast %c : tensor<3xi32> to tensor<3xindex>
  check.expect_eq_const(%d, dense<[9, 1, 4]> : tensor<3xindex>) : tensor<3xindex>
  return
}
func.func @bitcasts() {
  %a = util.unfoldable_constant dense<[1.0, -2.0]> : tensor<2xf32>
  %b = tensor.bitcast %a : tensor<2xf32> to tensor<2xi32>
  check.expect_eq_const(%b, dense<[1065353216, -1073741824]> : tensor<2xi32>) : tensor<2xi32>
  %c = arith.bitcast %b : tensor<2xi32> to tensor<2xf32>
  check.expect_eq(%c, %a) : tensor<2xf32>
  %d = flow.tensor.bitcast %a : tensor<2xf32> -> tensor<4xi16>
  check.expect_eq_const(%d, dense<[0, 16256, 0, -16384]> : tensor<4xi16>) : tensor<4xi16>
  return
}
func.func @f16_accumulation() {
  %a = util.unfoldable_constant dense<0.5> : tensor<3x17xf16>
  %b = util.unfoldable_constant dense<2.0> : tensor<17x4xf16>
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<3x4xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<3x4xf16>) -> tensor<3x4xf16>
  %m = linalg.matmul ins(%a, %b : tensor<3x17xf16>, tensor<17x4xf16>) outs(%f : tensor<3x4xf16>) -> tensor<3x4xf16>
  check.expect_eq_const(%m, dense<17.0> : tensor<3x4xf16>) : tensor<3x4xf16>
  return
}
func.func private @twice(%x: tensor<?xi32>, %unused: i64) -> (tensor<?xi32>, tensor<?xi32>) {
  %y = arith.addi %x, %x : tensor<?xi32>
  return %y, %y : tensor<?xi32>, tensor<?xi32>
}
func.func @calls_give_the_same_value_twice() {
  %x = flow.tensor.dynamic_constant dense<[1, 2, 3]> : tensor<3xi32> -> tensor<?xi32>
  %c = arith.constant 4 : i64
  %r:2 = call @twice(%x, %c) : (tensor<?xi32>, i64) -> (tensor<?xi32>, tensor<?xi32>)
  %q:2 = func.call @twice(%r#1, %c) : (tensor<?xi32>, i64) -> (tensor<?xi32>, tensor<?xi32>)
  %s = arith.subi %q#0, %r#0 : tensor<?xi32>
  check.expect_eq(%s, %r#1) : tensor<?xi32>
  %k = tensor.cast %q#1 : tensor<?xi32> to tensor<3xi32>
  check.expect_eq_const(%k, dense<[4, 8, 12]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @loop_over_tensor_inserts() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %e = arith.constant dense<0> : tensor<5xi32>
  %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%t = %e) -> (tensor<5xi32>) {
    %v = arith.index_cast %i : index to i32
    %q = arith.muli %v, %v : i32
    %u = tensor.insert %q into %t[%i] : tensor<5xi32>
    scf.yield %u : tensor<5xi32>
  }
  check.expect_eq_const(%r, dense<[0, 1, 4, 9, 16]> : tensor<5xi32>) : tensor<5xi32>
  return
}
func.func @scf_if_tensors() {
  %c = util.unfoldable_constant 1 : i1
  %a = util.unfoldable_constant dense<[1, 2]> : tensor<2xi32>
  %r = scf.if %c -> (tensor<2xi32>) {
    %x = arith.addi %a, %a : tensor<2xi32>
    scf.yield %x : tensor<2xi32>
  } else {
    scf.yield %a : tensor<2xi32>
  }
  check.expect_eq_const(%r, dense<[2, 4]> : tensor<2xi32>) : tensor<2xi32>
  return
}
func.func @scatter_add_like() {
  %d = util.unfoldable_constant dense<[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]> : tensor<3x2xf32>
  %s = util.unfoldable_constant dense<[[10.0, 20.0]]> : tensor<1x2xf32>
  %i = util.unfoldable_constant dense<[[1]]> : tensor<1x1xi32>
  %r = tensor.scatter %s into %d[%i] scatter_dims([0]) unique : (tensor<1x2xf32>, tensor<3x2xf32>, tensor<1x1xi32>) -> tensor<3x2xf32>
  %e = arith.addf %r, %d : tensor<3x2xf32>
  check.expect_eq_const(%e, dense<[[2.0, 2.0], [12.0, 22.0], [6.0, 6.0]]> : tensor<3x2xf32>) : tensor<3x2xf32>
  return
}
func.func @gather_rank_preserving() {
  %s = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %i = util.unfoldable_constant dense<[[2], [0]]> : tensor<2x1xindex>
  %r = tensor.gather %s[%i] gather_dims([1]) : (tensor<2x3xi32>, tensor<2x1xindex>) -> tensor<2x2x1xi32>
  check.expect_eq_const(%r, dense<[[[3], [6]], [[1], [4]]]> : tensor<2x2x1xi32>) : tensor<2x2x1xi32>
  return
}
func.func @concat_three_in_the_middle() {
  %a = util.unfoldable_constant dense<[[[1], [2]], [[3], [4]]]> : tensor<2x2x1xi8>
  %b = util.unfoldable_constant dense<[[[5]], [[6]]]> : tensor<2x1x1xi8>
  %r = tensor.concat dim(1) %a, %b, %a : (tensor<2x2x1xi8>, tensor<2x1x1xi8>, tensor<2x2x1xi8>) -> tensor<2x5x1xi8>
  check.expect_eq_const(%r, dense<[[[1], [2], [5], [1], [2]], [[3], [4], [6], [3], [4]]]> : tensor<2x5x1xi8>) : tensor<2x5x1xi8>
  return
}
func.func @batch_matmul_dynamic_k_then_erf() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %a = flow.tensor.dynamic_constant dense<0.125> : tensor<1x1x64xf32> -> tensor<?x?x64xf32>
  %b = flow.tensor.dynamic_constant dense<0.125> : tensor<1x64x32xf32> -> tensor<?x64x32xf32>
  %B = tensor.dim %a, %c0 : tensor<?x?x64xf32>
  %M = tensor.dim %a, %c1 : tensor<?x?x64xf32>
  %e = tensor.empty(%B, %M) : tensor<?x?x32xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  %m = linalg.batch_matmul ins(%a, %b : tensor<?x?x64xf32>, tensor<?x64x32xf32>) outs(%f : tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  %r = math.erf %m : tensor<?x?x32xf32>
  %w = flow.tensor.dynamic_constant dense<0.84270079> : tensor<1x1x32xf32> -> tensor<?x?x32xf32>
  check.expect_almost_eq(%r, %w, atol 1.0e-05) : tensor<?x?x32xf32>
  return
}
