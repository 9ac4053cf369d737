// Every operation, in the form in which programs are written down.
func.func @elementwise(%a: tensor<4x?xf32>, %b: tensor<4x?xf32>, %p: tensor<4x?xi1>, %z: tensor<2xcomplex<f64>>, %s: tensor<f32>, %u: tensor<3xui8>) {
  %0 = stablehlo.abs %a : tensor<4x?xf32>
  %1 = stablehlo.abs %z : (tensor<2xcomplex<f64>>) -> tensor<2xf64>
  %2 = stablehlo.atan2 %a, %b : tensor<4x?xf32>
  %3 = stablehlo.bitcast_convert %u : (tensor<3xui8>) -> tensor<3xi8>
  %4 = stablehlo.cbrt %a {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4x?xf32>
  %5 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<4x?xf32>, tensor<f32>) -> tensor<4x?xf32>
  %6 = stablehlo.compare LT, %a, %b : (tensor<4x?xf32>, tensor<4x?xf32>) -> tensor<4x?xi1>
  %7 = stablehlo.compare GE, %a, %b, TOTALORDER : (tensor<4x?xf32>, tensor<4x?xf32>) -> tensor<4x?xi1>
  %8 = stablehlo.complex %s, %s : tensor<complex<f32>>
  %9 = stablehlo.convert %u : (tensor<3xui8>) -> tensor<3xf8E4M3FN>
  %10 = stablehlo.imag %z : (tensor<2xcomplex<f64>>) -> tensor<2xf64>
  %11 = stablehlo.is_finite %a : (tensor<4x?xf32>) -> tensor<4x?xi1>
  %12 = stablehlo.logistic %a : tensor<4x?xf32>
  %13 = "stablehlo.map"(%a, %b) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %14 = stablehlo.power %x, %y : tensor<f32>
    stablehlo.return %14 : tensor<f32>
  }) : (tensor<4x?xf32>, tensor<4x?xf32>) -> tensor<4x?xf32>
  %15 = stablehlo.reduce_precision %a, format = e8m7 : tensor<4x?xf32>
  %16 = stablehlo.select %p, %a, %b : tensor<4x?xi1>, tensor<4x?xf32>
  return
}
func.func @shapes(%a: tensor<4x6xf32>, %s: tensor<f32>, %n: tensor<i32>) {
  %c = stablehlo.constant dense<[(1.000000e+00,0x7F800000), (0.000000e+00,-2.500000e+00)]> : tensor<2xcomplex<f32>>
  %0 = stablehlo.constant dense<[1, 2, 255]> : tensor<3xui8>
  %1 = stablehlo.broadcast %s, sizes = [2, 3] : (tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<4x6xf32>) -> tensor<6x2x4xf32>
  %3 = stablehlo.concatenate %a, %a, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  %4 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x6xf32>) -> tensor<i32>
  %5 = stablehlo.iota dim = 1 : tensor<2x3xcomplex<f32>>
  %6 = stablehlo.pad %a, %s, low = [0, -1], high = [2, 0], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<9x5xf32>
  %7 = stablehlo.reshape %a : (tensor<4x6xf32>) -> tensor<24xf32>
  %8 = stablehlo.reverse %a, dims = [1, 0] : tensor<4x6xf32>
  %9 = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<4x6xf32>, tensor<i32>) -> tensor<?x6xf32, #stablehlo.bounds<4, ?>>
  %10 = stablehlo.slice %s [] : (tensor<f32>) -> tensor<f32>
  %11 = stablehlo.slice %a [0:4:3, 1:5] : (tensor<4x6xf32>) -> tensor<2x4xf32>
  %12 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return
}
func.func @products(%a: tensor<2x4x6xf32>, %b: tensor<2x6x5xf32>, %m: tensor<4x6xf32>, %v: tensor<6xf32>, %x: tensor<1x8x8x4xf32>, %k: tensor<3x3x2x6xf32>, %q: tensor<3x3xf32>) {
  %0 = stablehlo.cholesky %q, lower = true : tensor<3x3xf32>
  %1 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[f, b, 1, 0], window = {stride = [2, 1], pad = [[1, 1], [0, -1]], lhs_dilate = [1, 2], rhs_dilate = [2, 1], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<6x1x12x3xf32>
  %2 = stablehlo.dot %m, %v : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4xf32>
  %3 = stablehlo.dot %m, %v, precision = [HIGH, DEFAULT] : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4xf32>
  %4 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x6xf32>, tensor<2x6x5xf32>) -> tensor<2x4x5xf32>
  %5 = stablehlo.dot_general %m, %m, contracting_dims = [] x [], precision = [HIGHEST, HIGHEST] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6x4x6xf32>
  %6 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<2x4x6xf32>, tensor<2x6x5xf32>) -> tensor<2x4x5xf32>
  %7 = stablehlo.fft %m, type = RFFT, length = [6] : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
  %8 = "stablehlo.triangular_solve"(%q, %q) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}
func.func @reduction_in_a_wider_type(%a: tensor<4x6xf16>, %s: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %s) across dimensions = [1] : (tensor<4x6xf16>, tensor<f32>) -> tensor<4xf32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return
}
func.func @reductions(%a: tensor<4x6xf32>, %i: tensor<4x6xi32>, %s: tensor<f32>, %n: tensor<i32>, %w: tensor<3x5xf32>) {
  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.maximum across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  %1:2 = stablehlo.reduce(%a init: %s), (%i init: %n) across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%x: tensor<f32>, %y: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {
    %2 = stablehlo.add %x, %y : tensor<f32>
    %3 = stablehlo.minimum %j, %k : tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }
  %4 = "stablehlo.reduce_window"(%a, %s) <{padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 2>, window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %5 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %5 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x2xf32>
  %6 = "stablehlo.select_and_scatter"(%a, %w, %s) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %7 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %7 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %8 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %8 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<3x5xf32>, tensor<f32>) -> tensor<4x6xf32>
  %9:2 = "stablehlo.sort"(%a, %i) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %j: tensor<i32>, %k: tensor<i32>):
    %10 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %10 : tensor<i1>
  }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
  return
}
func.func @indexing(%a: tensor<4x6xf32>, %i: tensor<3x1xi32>, %n: tensor<i32>, %u: tensor<3x6xf32>, %t: tensor<2x2xf32>) {
  %0 = stablehlo.dynamic_slice %a, %n, %n, sizes = [2, 4] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
  %1 = stablehlo.dynamic_update_slice %a, %t, %n, %n : (tensor<4x6xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
  %2 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
  %3 = "stablehlo.scatter"(%a, %i, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %4 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<3x1xi32>, tensor<3x6xf32>) -> tensor<4x6xf32>
  return
}
func.func @control(%p: tensor<i1>, %n: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = stablehlo.while(%iterArg = %n, %iterArg_0 = %a) : tensor<i32>, tensor<4xf32> attributes {my.note = "loop"}
  cond {
    %1 = stablehlo.compare LT, %iterArg, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %iterArg_0, %iterArg_0 : tensor<4xf32>
    stablehlo.return %iterArg, %2 : tensor<i32>, tensor<4xf32>
  }
  %3 = "stablehlo.if"(%p) ({
    stablehlo.return %a : tensor<4xf32>
  }, {
    stablehlo.return %0#1 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %4 = "stablehlo.case"(%n) ({
    stablehlo.return %a : tensor<4xf32>
  }, {
    stablehlo.return %3 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %5:2 = stablehlo.optimization_barrier %4, %n : tensor<4xf32>, tensor<i32>
  %6 = stablehlo.tuple %5#0, %5#1 : tuple<tensor<4xf32>, tensor<i32>>
  %7 = stablehlo.get_tuple_element %6[0] : (tuple<tensor<4xf32>, tensor<i32>>) -> tensor<4xf32>
  %8 = stablehlo.create_token : !stablehlo.token
  %9 = stablehlo.after_all %8, %8 : !stablehlo.token
  return %7 : tensor<4xf32>
}
func.func @random(%s: tensor<f32>, %n: tensor<2xi64>, %k: tensor<2xui64>) {
  %0 = stablehlo.rng %s, %s, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
  %output_state, %output = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return
}
func.func @dynamic(%a: tensor<?x6xf32>, %s: tensor<f32>, %n: tensor<2xi32>, %x: tensor<?x8x4xf32>, %k: tensor<3x4x6xf32>, %p: tensor<1x2xi64>, %i: tensor<3x1xi32>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %n, dims = [0, 1] {known_expanding_dimensions = array<i64: 0>} : (tensor<?x6xf32>, tensor<2xi32>) -> tensor<?x6xf32>
  %1 = "stablehlo.dynamic_conv"(%x, %k, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64}> : (tensor<?x8x4xf32>, tensor<3x4x6xf32>, tensor<1x2xi64>) -> tensor<?x?x6xf32>
  %short = stablehlo.dynamic_conv(%x, %k, %p) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], lhs_dilate = [2], rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<?x8x4xf32>, tensor<3x4x6xf32>, tensor<1x2xi64>) -> tensor<?x?x6xf32>
  %2 = "stablehlo.dynamic_gather"(%a, %i, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true}> : (tensor<?x6xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x?x6xf32>
  %3 = stablehlo.dynamic_iota %n, dim = 1 : (tensor<2xi32>) -> tensor<?x?xf32>
  %4 = stablehlo.dynamic_pad %a, %s, %n, %n, %n : (tensor<?x6xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  %5 = stablehlo.dynamic_reshape %a, %n : (tensor<?x6xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %6 = stablehlo.real_dynamic_slice %a, %n, %n, %n : (tensor<?x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  return
}
func.func @normalization(%x: tensor<2x3x4xf32>, %c: tensor<4xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %c, %c, %c, %c) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %1:3 = "stablehlo.batch_norm_training"(%x, %c, %c) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %2:3 = "stablehlo.batch_norm_grad"(%x, %c, %c, %c, %x) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
func.func @calls(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @my.scale(%a) {backend_config = "", mhlo.backend_config = {k = 2.000000e+00 : f32}, operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.custom_call @note() {has_side_effect = true} : () -> ()
  %1 = stablehlo.composite "my.op" %0, %a {decomposition = @inner, version = 2 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.subtract %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @all_on_elements(%a: tensor<4xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>) {
  %e0 = stablehlo.ceil %a : tensor<4xf32>
  %e1 = stablehlo.cosine %a : tensor<4xf32>
  %e2 = stablehlo.count_leading_zeros %i : tensor<4xi32>
  %e3 = stablehlo.exponential %a : tensor<4xf32>
  %e4 = stablehlo.exponential_minus_one %a : tensor<4xf32>
  %e5 = stablehlo.floor %a : tensor<4xf32>
  %e6 = stablehlo.log %a : tensor<4xf32>
  %e7 = stablehlo.log_plus_one %a : tensor<4xf32>
  %e8 = stablehlo.negate %a : tensor<4xf32>
  %e9 = stablehlo.not %i : tensor<4xi32>
  %e10 = stablehlo.popcnt %i : tensor<4xi32>
  %e11 = stablehlo.real %z : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %e12 = stablehlo.round_nearest_afz %a : tensor<4xf32>
  %e13 = stablehlo.round_nearest_even %a : tensor<4xf32>
  %e14 = stablehlo.rsqrt %a : tensor<4xf32>
  %e15 = stablehlo.sign %a : tensor<4xf32>
  %e16 = stablehlo.sine %a : tensor<4xf32>
  %e17 = stablehlo.sqrt %a : tensor<4xf32>
  %e18 = stablehlo.tan %a : tensor<4xf32>
  %sq = stablehlo.square %a : tensor<4xf32>
  %e19 = stablehlo.tanh %a : tensor<4xf32>
  %e20 = stablehlo.and %i, %i : tensor<4xi32>
  %e21 = stablehlo.divide %a, %a : tensor<4xf32>
  %e22 = stablehlo.multiply %a, %a : tensor<4xf32>
  %e23 = stablehlo.or %i, %i : tensor<4xi32>
  %e24 = stablehlo.remainder %a, %a : tensor<4xf32>
  %e25 = stablehlo.shift_left %i, %i : tensor<4xi32>
  %e26 = stablehlo.shift_right_arithmetic %i, %i : tensor<4xi32>
  %e27 = stablehlo.shift_right_logical %i, %i : tensor<4xi32>
  %e28 = stablehlo.xor %i, %i : tensor<4xi32>
  %e29 = stablehlo.convert %a : tensor<4xf32>
  return
}
func.func @index_select(%a: tensor<4x6xf32>, %i: tensor<3xi32>) {
  %0 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 0 : i64, dim = 1 : i64}> : (tensor<4x6xf32>, tensor<3xi32>) -> tensor<4x3xf32>
  return
}
