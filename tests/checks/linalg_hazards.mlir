#id1 = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
// in-place hazards: a tensor is updated and still read
func.func @update_then_read_old() {
  %x = util.unfoldable_constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %y = arith.addi %x, %x : tensor<4xi32>
  %p = util.unfoldable_constant dense<[9, 9]> : tensor<2xi32>
  %u = tensor.insert_slice %p into %y[1] [2] [1] : tensor<2xi32> into tensor<4xi32>
  %w = tensor.insert_slice %p into %y[2] [2] [1] : tensor<2xi32> into tensor<4xi32>
  %s = arith.addi %u, %y : tensor<4xi32>
  check.expect_eq_const(%u, dense<[2, 9, 9, 8]> : tensor<4xi32>) : tensor<4xi32>
  check.expect_eq_const(%w, dense<[2, 4, 9, 9]> : tensor<4xi32>) : tensor<4xi32>
  check.expect_eq_const(%s, dense<[4, 13, 15, 16]> : tensor<4xi32>) : tensor<4xi32>
  check.expect_eq_const(%y, dense<[2, 4, 6, 8]> : tensor<4xi32>) : tensor<4xi32>
  return
}
func.func @overlapping_slice_into_itself() {
  %x = util.unfoldable_constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  %y = arith.addi %x, %x : tensor<5xi32>
  %h = tensor.extract_slice %y[0] [4] [1] : tensor<5xi32> to tensor<4xi32>
  %u = tensor.insert_slice %h into %y[1] [4] [1] : tensor<4xi32> into tensor<5xi32>
  check.expect_eq_const(%u, dense<[2, 2, 4, 6, 8]> : tensor<5xi32>) : tensor<5xi32>
  return
}
func.func @swap_halves_and_rotate_in_loop() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %x = util.unfoldable_constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %x) -> (tensor<4xi32>) {
    %a = tensor.extract_slice %t[0] [3] [1] : tensor<4xi32> to tensor<3xi32>
    %b = tensor.extract_slice %t[3] [1] [1] : tensor<4xi32> to tensor<1xi32>
    %o = tensor.insert_slice %a into %t[1] [3] [1] : tensor<3xi32> into tensor<4xi32>
    %q = tensor.insert_slice %b into %o[0] [1] [1] : tensor<1xi32> into tensor<4xi32>
    scf.yield %q : tensor<4xi32>
  }
  check.expect_eq_const(%r, dense<[2, 3, 4, 1]> : tensor<4xi32>) : tensor<4xi32>
  return
}
// outs that is transposed and also an input of the body
func.func @transposed_result_map() {
  %x = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %y = util.unfoldable_constant dense<[[10, 20], [30, 40], [50, 60]]> : tensor<3x2xi32>
  %r = linalg.generic {indexing_maps = [#id2, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x3xi32>) outs(%y : tensor<3x2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    linalg.yield %s : i32
  } -> tensor<3x2xi32>
  check.expect_eq_const(%r, dense<[[11, 24], [32, 45], [53, 66]]> : tensor<3x2xi32>) : tensor<3x2xi32>
  return
}
func.func @two_results_of_different_maps() {
  %x = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %e = tensor.empty() : tensor<2x3xi32>
  %f = tensor.empty() : tensor<3x2xi32>
  %r:2 = linalg.generic {indexing_maps = [#id2, #id2, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x3xi32>) outs(%e, %f : tensor<2x3xi32>, tensor<3x2xi32>) {
  ^bb0(%a: i32, %b: i32, %c: i32):
    %s = arith.muli %a, %a : i32
    linalg.yield %s, %a : i32, i32
  } -> (tensor<2x3xi32>, tensor<3x2xi32>)
  check.expect_eq_const(%r#0, dense<[[1, 4, 9], [16, 25, 36]]> : tensor<2x3xi32>) : tensor<2x3xi32>
  check.expect_eq_const(%r#1, dense<[[1, 4], [2, 5], [3, 6]]> : tensor<3x2xi32>) : tensor<3x2xi32>
  return
}
func.func @sum_and_max_together() {
  %x = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, -6]]> : tensor<2x3xi32>
  %z = arith.constant dense<0> : tensor<2xi32>
  %n = arith.constant dense<-100> : tensor<2xi32>
  %r:2 = linalg.generic {indexing_maps = [#id2, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x3xi32>) outs(%z, %n : tensor<2xi32>, tensor<2xi32>) {
  ^bb0(%a: i32, %b: i32, %c: i32):
    %s = arith.addi %a, %b : i32
    %m = arith.maxsi %a, %c : i32
    linalg.yield %s, %m : i32, i32
  } -> (tensor<2xi32>, tensor<2xi32>)
  %w = arith.subi %r#0, %r#1 : tensor<2xi32>
  check.expect_eq_const(%w, dense<[3, -2]> : tensor<2xi32>) : tensor<2xi32>
  return
}
func.func @online_softmax_state() {
  %x = util.unfoldable_constant dense<[1.0, 3.0, 2.0]> : tensor<3xf32>
  %n = arith.constant dense<0xFF800000> : tensor<f32>
  %z = arith.constant dense<0.0> : tensor<f32>
  %r:2 = linalg.generic {indexing_maps = [#id1, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<3xf32>) outs(%n, %z : tensor<f32>, tensor<f32>) {
  ^bb0(%a: f32, %m: f32, %s: f32):
    %mm = arith.maximumf %a, %m : f32
    %d = arith.subf %m, %mm : f32
    %e = math.exp %d : f32
    %k = arith.mulf %s, %e : f32
    %f = arith.subf %a, %mm : f32
    %g = math.exp %f : f32
    %t = arith.addf %k, %g : f32
    linalg.yield %mm, %t : f32, f32
  } -> (tensor<f32>, tensor<f32>)
  check.expect_eq_const(%r#0, dense<3.0> : tensor<f32>) : tensor<f32>
  check.expect_almost_eq_const(%r#1, dense<1.5032147> : tensor<f32>, atol 1.0e-05) : tensor<f32>
  return
}
func.func @body_yields_constant_or_argument_reduction() {
  %x = util.unfoldable_constant dense<[5, 6, 7]> : tensor<3xi32>
  %z = arith.constant dense<0> : tensor<i32>
  %r = linalg.generic {indexing_maps = [#id1, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<3xi32>) outs(%z : tensor<i32>) {
  ^bb0(%a: i32, %b: i32):
    linalg.yield %a : i32
  } -> tensor<i32>
  check.expect_eq_const(%r, dense<7> : tensor<i32>) : tensor<i32>
  %e = tensor.empty() : tensor<3xi32>
  %c = arith.constant 4 : i32
  %k = linalg.generic {indexing_maps = [#id1], iterator_types = ["parallel"]} outs(%e : tensor<3xi32>) {
  ^bb0(%b: i32):
    linalg.yield %c : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%k, dense<4> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @non_commutative_reduction() {
  %x = util.unfoldable_constant dense<[1, 2, 3, 4, 5, 6, 7, 8, 9]> : tensor<9xi32>
  %z = arith.constant dense<100> : tensor<i32>
  %r = linalg.generic {indexing_maps = [#id1, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<9xi32>) outs(%z : tensor<i32>) {
  ^bb0(%a: i32, %b: i32):
    %c3 = arith.constant 3 : i32
    %m = arith.muli %b, %c3 : i32
    %s = arith.subi %m, %a : i32
    linalg.yield %s : i32
  } -> tensor<i32>
  check.expect_eq_const(%r, dense<1953543> : tensor<i32>) : tensor<i32>
  return
}
func.func @reduction_of_i1_any_all() {
  %x = util.unfoldable_constant dense<[[true, false], [true, true], [false, false]]> : tensor<3x2xi1>
  %t = arith.constant dense<true> : tensor<3xi1>
  %f = arith.constant dense<false> : tensor<3xi1>
  %all = linalg.reduce { arith.andi } ins(%x : tensor<3x2xi1>) outs(%t : tensor<3xi1>) dimensions = [1]
  %any = linalg.reduce { arith.ori } ins(%x : tensor<3x2xi1>) outs(%f : tensor<3xi1>) dimensions = [1]
  check.expect_eq_const(%all, dense<[false, true, false]> : tensor<3xi1>) : tensor<3xi1>
  check.expect_eq_const(%any, dense<[true, true, false]> : tensor<3xi1>) : tensor<3xi1>
  return
}
func.func @large_prime_sum_f64_and_i8() {
  %e = tensor.empty() : tensor<100003xi64>
  %x = linalg.generic {indexing_maps = [#id1], iterator_types = ["parallel"]} outs(%e : tensor<100003xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    linalg.yield %c : i64
  } -> tensor<100003xi64>
  %h = util.optimization_barrier %x : tensor<100003xi64>
  %z = arith.constant dense<0> : tensor<i64>
  %s = linalg.reduce { arith.addi } ins(%h : tensor<100003xi64>) outs(%z : tensor<i64>) dimensions = [0]
  check.expect_eq_const(%s, dense<5000250003> : tensor<i64>) : tensor<i64>
  %n = arith.trunci %h : tensor<100003xi64> to tensor<100003xi8>
  %z8 = arith.constant dense<0> : tensor<i8>
  %s8 = linalg.reduce { arith.xori } ins(%n : tensor<100003xi8>) outs(%z8 : tensor<i8>) dimensions = [0]
  check.expect_eq_const(%s8, dense<-93> : tensor<i8>) : tensor<i8>
  return
}
func.func @depthwise_then_pointwise_with_padding_dynamic() {
  %x = flow.tensor.dynamic_constant dense<1.0> : tensor<1x5x5x2xf32> -> tensor<1x?x?x2xf32>
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %z : f32
  } : tensor<1x?x?x2xf32> to tensor<1x?x?x2xf32>
  %k = util.unfoldable_constant dense<1.0> : tensor<3x3x2xf32>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x2xf32>
  %w = tensor.dim %x, %c2 : tensor<1x?x?x2xf32>
  %e = tensor.empty(%h, %w) : tensor<1x?x?x2xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x?x?x2xf32>) -> tensor<1x?x?x2xf32>
  %d = linalg.depthwise_conv_2d_nhwc_hwc {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%p, %k : tensor<1x?x?x2xf32>, tensor<3x3x2xf32>) outs(%f : tensor<1x?x?x2xf32>) -> tensor<1x?x?x2xf32>
  %k1 = util.unfoldable_constant dense<[[[[1.0], [10.0]]]]> : tensor<1x1x2x1xf32>
  %e1 = tensor.empty(%h, %w) : tensor<1x?x?x1xf32>
  %f1 = linalg.fill ins(%z : f32) outs(%e1 : tensor<1x?x?x1xf32>) -> tensor<1x?x?x1xf32>
  %q = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%d, %k1 : tensor<1x?x?x2xf32>, tensor<1x1x2x1xf32>) outs(%f1 : tensor<1x?x?x1xf32>) -> tensor<1x?x?x1xf32>
  %s = tensor.cast %q : tensor<1x?x?x1xf32> to tensor<1x5x5x1xf32>
  %cs = tensor.collapse_shape %s [[0, 1], [2, 3]] : tensor<1x5x5x1xf32> into tensor<5x5xf32>
  check.expect_eq_const(%cs, dense<[[44.0, 66.0, 66.0, 66.0, 44.0], [66.0, 99.0, 99.0, 99.0, 66.0], [66.0, 99.0, 99.0, 99.0, 66.0], [66.0, 99.0, 99.0, 99.0, 66.0], [44.0, 66.0, 66.0, 66.0, 44.0]]> : tensor<5x5xf32>) : tensor<5x5xf32>
  return
}
func.func @gather_of_computed_and_negative_wraps() {
  %t = util.unfoldable_constant dense<[10, 20, 30, 40]> : tensor<4xi32>
  %i = util.unfoldable_constant dense<[-1, 2, -4]> : tensor<3xi32>
  %e = tensor.empty() : tensor<3xi32>
  %n = arith.constant 4 : i32
  %z = arith.constant 0 : i32
  %r = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%i : tensor<3xi32>) outs(%e : tensor<3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %lt = arith.cmpi slt, %a, %z : i32
    %w = arith.addi %a, %n : i32
    %s = arith.select %lt, %w, %a : i32
    %x = arith.index_cast %s : i32 to index
    %v = tensor.extract %t[%x] : tensor<4xi32>
    linalg.yield %v : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[40, 30, 10]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @six_dims_transpose_and_reduce() {
  %e = tensor.empty() : tensor<2x3x2x2x3x2xi32>
  %x = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e, f) -> (a, b, c, d, e, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<2x3x2x2x3x2xi32>) {
  ^bb0(%o: i32):
    %i = linalg.index 4 : index
    %j = linalg.index 1 : index
    %k = arith.muli %i, %j : index
    %c = arith.index_cast %k : index to i32
    linalg.yield %c : i32
  } -> tensor<2x3x2x2x3x2xi32>
  %te = tensor.empty() : tensor<3x2x2x3x2x2xi32>
  %t = linalg.transpose ins(%x : tensor<2x3x2x2x3x2xi32>) outs(%te : tensor<3x2x2x3x2x2xi32>) permutation = [4, 0, 5, 1, 2, 3]
  %z = arith.constant dense<0> : tensor<3x3xi32>
  %r = linalg.reduce { arith.addi } ins(%t : tensor<3x2x2x3x2x2xi32>) outs(%z : tensor<3x3xi32>) dimensions = [1, 2, 4, 5]
  check.expect_eq_const(%r, dense<[[0, 0, 0], [0, 16, 32], [0, 32, 64]]> : tensor<3x3xi32>) : tensor<3x3xi32>
  return
}
func.func @constant_folding_everything() {
  %a = arith.constant dense<[1, 2]> : tensor<2xi32>
  %b = arith.addi %a, %a : tensor<2xi32>
  check.expect_eq_const(%b, dense<[2, 4]> : tensor<2xi32>) : tensor<2xi32>
  check.expect_eq_const(%a, dense<[1, 2]> : tensor<2xi32>) : tensor<2xi32>
  return
}
func.func @nested_if_while() {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c10 = arith.constant 10 : i32
  %t0 = arith.constant dense<1> : tensor<2xi32>
  %r:2 = scf.while (%i = %c0, %t = %t0) : (i32, tensor<2xi32>) -> (i32, tensor<2xi32>) {
    %c = arith.cmpi slt, %i, %c10 : i32
    scf.condition(%c) %i, %t : i32, tensor<2xi32>
  } do {
  ^bb0(%i: i32, %t: tensor<2xi32>):
    %n = arith.addi %i, %c1 : i32
    %u = arith.addi %t, %t : tensor<2xi32>
    scf.yield %n, %u : i32, tensor<2xi32>
  }
  check.expect_eq_const(%r#1, dense<1024> : tensor<2xi32>) : tensor<2xi32>
  return
}
