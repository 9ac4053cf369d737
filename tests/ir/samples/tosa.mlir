func.func @elementwise(%a: tensor<2x3xf32>, %i: tensor<2x3xi32>, %p: tensor<2x3xi1>, %s: tensor<1xi8>) {
  %0 = tosa.abs %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tosa.add %a, %0 {kept} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tosa.mul %i, %i, %s : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32>
  %3 = tosa.maximum %a, %1 {nan_mode = IGNORE} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = tosa.clamp %a {max_val = 1.0 : f32, min_val = 0.0 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = tosa.select %p, %a, %4 : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = tosa.cast %a : (tensor<2x3xf32>) -> tensor<*xi8>
  %7 = tosa.arithmetic_right_shift %i, %i {round = true} : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}
func.func @rescale(%a: tensor<2x3xi32>) {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() {values = dense<30> : tensor<1xi8>} : () -> tensor<1xi8>
  %z = tosa.const {value = dense<0> : tensor<1xi32>} : () -> tensor<1xi32>
  %0 = tosa.rescale %a, %m, %s, %z, %z {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x3xi32>
  %1 = "tosa.rescale"(%a) {double_round = true, input_zp = 0 : i32, multiplier = array<i32: 2026291432>, output_zp = 27 : i32, per_channel = true, scale32 = true, shift = array<i32: 37>} : (tensor<2x3xi32>) -> tensor<2x3xi8>
  return
}
func.func @products(%x: tensor<1x4x4x4xi8>, %w: tensor<8x1x1x4xi8>, %b: tensor<8xi32>, %z: tensor<1xi8>) {
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i32, dilation = array<i64: 1, 1>, local_bound = true, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x4xi8>, tensor<8x1x1x4xi8>, tensor<8xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x8xi32>
  %1 = "tosa.conv2d"(%x, %w, %b) {dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, quantization_info = #tosa.conv_quant<input_zp = 0, weight_zp = 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x4xi8>, tensor<8x1x1x4xi8>, tensor<8xi32>) -> tensor<1x4x4x8xi32>
  %2 = tosa.max_pool2d %x {kernel = array<i64: 1, 1>, nan_mode = #tosa.nan_mode<PROPAGATE>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x4xi8>) -> tensor<1x4x4x4xi8>
  return
}
func.func @arrangements(%a: tensor<13x21x3xf32>, %g: tensor<1x32x32x8xf32>) -> tensor<1x819xf32> {
  %s = tosa.const_shape {values = dense<[1, 819]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.reshape %a, %s : (tensor<13x21x3xf32>, !tosa.shape<2>) -> tensor<1x819xf32>
  %1 = tosa.transpose %a {perms = array<i32: 2, 0, 1>} : (tensor<13x21x3xf32>) -> tensor<3x13x21xf32>
  %scale = tosa.const_shape {values = dense<[4, 2, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<[-1, -1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.resize %g, %scale, %o, %o {mode = BILINEAR} : (tensor<1x32x32x8xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x64x64x8xf32>
  %3 = "tosa.resize"(%g) <{border = array<i64: 1, 1>, mode = #tosa.resize_mode<BILINEAR>, offset = array<i64: -1, -1>, scale = array<i64: 4, 2, 4, 2>}> : (tensor<1x32x32x8xf32>) -> tensor<1x64x64x8xf32>
  %4:2 = tosa.rfft2d %a : (tensor<13x21x3xf32>) -> (tensor<13x21x2xf32>, tensor<13x21x2xf32>)
  %5 = tosa.dim %a {axis = 1 : i32} : (tensor<13x21x3xf32>) -> !tosa.shape<1>
  %6 = tosa.concat_shape %s, %5 : (!tosa.shape<2>, !tosa.shape<1>) -> !tosa.shape<3>
  %7 = tosa.custom %a {domain_name = "lib", implementation_attrs = "", operator_name = "f"} : (tensor<13x21x3xf32>) -> tensor<2xf32>
  return %0 : tensor<1x819xf32>
}
func.func @control(%a: tensor<f32>, %c: tensor<i1>, %n: tensor<i32>) -> tensor<f32> {
  %0 = tosa.cond_if %c (%x = %a, %y = %a) : tensor<i1> (tensor<f32>, tensor<f32>) -> tensor<f32> {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    tosa.yield %x : tensor<f32>
  } else {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    tosa.yield %y : tensor<f32>
  }
  %1:2 = tosa.cond_if %c : tensor<i1> -> (tensor<f32>, tensor<f32>) {
    tosa.yield %a, %0 : tensor<f32>, tensor<f32>
  } else {
    tosa.yield %0, %a : tensor<f32>, tensor<f32>
  }
  %2 = tosa.cond_if %c -> (tensor<f32>) {
    tosa.yield %a : tensor<f32>
  } else {
    tosa.yield %0 : tensor<f32>
  }
  %3:2 = tosa.while_loop (%i = %n, %v = %a) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>) {
    %m = tosa.greater %n, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    tosa.yield %m : tensor<i1>
  } do {
  ^bb0(%i: tensor<i32>, %v: tensor<f32>):
    tosa.yield %i, %v : tensor<i32>, tensor<f32>
  }
  return %2 : tensor<f32>
}
tosa.variable @state = dense<7.0> : tensor<1xf32>
tosa.variable @open : tensor<2x3xi8>
func.func @variables(%a: tensor<1xf32>) {
  %0 = tosa.variable_read @state : tensor<1xf32>
  tosa.variable_write @state, %a : tensor<1xf32>
  tosa.variable.write @state, %0 : tensor<1xf32>
  %1 = tosa.variable.read @state : tensor<1xf32>
  return
}
func.func @rest(%a: tensor<2x3xf32>, %f: tensor<f32>, %image: tensor<1x4x4x2xf32>, %volume: tensor<1x2x4x4x2xf32>, %kernel: tensor<1x1x2x1xf32>, %bias: tensor<2xf32>, %zero: tensor<1xf32>, %table: tensor<1x4x2xf32>, %at: tensor<1x3xi32>, %n: tensor<1xi32>) {
  %0 = tosa.bitwise_not %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tosa.ceil %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tosa.clz %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = tosa.cos %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = tosa.erf %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = tosa.exp %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = tosa.floor %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = tosa.identity %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = tosa.log %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = tosa.logical_not %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %10 = tosa.reciprocal %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %11 = tosa.rsqrt %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %12 = tosa.sigmoid %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %13 = tosa.sin %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %14 = tosa.tanh %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %15 = tosa.negate %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %16 = tosa.bitwise_and %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %17 = tosa.bitwise_or %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %18 = tosa.bitwise_xor %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %19 = tosa.div %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %20 = tosa.equal %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %21 = tosa.greater_equal %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %22 = tosa.intdiv %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %23 = tosa.logical_and %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %24 = tosa.logical_left_shift %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %25 = tosa.logical_or %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %26 = tosa.logical_right_shift %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %27 = tosa.logical_xor %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %28 = tosa.pow %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %29 = tosa.sub %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %30 = tosa.table %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %31 = tosa.minimum %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %32 = tosa.reduce_all %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %33 = tosa.reduce_any %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %34 = tosa.reduce_prod %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %35 = tosa.reduce_product %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %36 = tosa.reduce_sum %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %37 = tosa.reduce_max %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %38 = tosa.reduce_min %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %39 = tosa.argmax %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %40 = tosa.reverse %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x?xf32>
  %41 = tosa.concat %a, %a, %a {axis = 0 : i32} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  %four = tosa.const_shape {values = dense<[1, 0, 0, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %two = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %42 = tosa.pad %a, %four, %zero : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x4xf32>
  %43 = tosa.slice %a, %two, %two : (tensor<2x3xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x1xf32>
  %44 = tosa.tile %a, %two : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<4x3xf32>
  %45 = tosa.add_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %46 = tosa.sub_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %47 = tosa.mul_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %48 = tosa.div_ceil_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %49 = tosa.div_floor_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %50 = tosa.mod_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %51 = tosa.max_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %52 = tosa.min_shape %two, %two : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>
  %53 = tosa.slice_shape %four, %n, %n : (!tosa.shape<4>, tensor<1xi32>, tensor<1xi32>) -> !tosa.shape<2>
  %54 = tosa.gather %table, %at : (tensor<1x4x2xf32>, tensor<1x3xi32>) -> tensor<1x3x2xf32>
  %55 = tosa.scatter %table, %at, %54 : (tensor<1x4x2xf32>, tensor<1x3xi32>, tensor<1x3x2xf32>) -> tensor<1x4x2xf32>
  %56 = tosa.matmul %table, %table : (tensor<1x4x2xf32>, tensor<1x4x2xf32>) -> tensor<1x4x?xf32>
  %57 = tosa.fully_connected %a, %a, %bias : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %58 = tosa.conv3d %volume, %volume, %bias, %zero, %zero {acc_type = f32, dilation = array<i64: 1, 1, 1>, pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>} : (tensor<1x2x4x4x2xf32>, tensor<1x2x4x4x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1x1x1xf32>
  %59 = tosa.depthwise_conv2d %image, %kernel, %bias, %zero, %zero {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<1x1x2x1xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x2xf32>
  %60 = tosa.transpose_conv2d %image, %image, %bias, %zero, %zero {acc_type = f32, out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x7x7x1xf32>
  %61 = tosa.avg_pool2d %image, %zero, %zero {acc_type = f32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 1, 0, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x2xf32>
  %62 = tosa.avg_pool2d_adaptive %image, %zero, %zero, %two, %two, %four {acc_type = f32} : (tensor<1x4x4x2xf32>, tensor<1xf32>, tensor<1xf32>, !tosa.shape<2>, !tosa.shape<2>, !tosa.shape<4>) -> tensor<1x?x?x2xf32>
  %63 = tosa.max_pool2d_adaptive %image, %two, %two, %four : (tensor<1x4x4x2xf32>, !tosa.shape<2>, !tosa.shape<2>, !tosa.shape<4>) -> tensor<1x?x?x2xf32>
  %64:2 = tosa.fft2d %table, %table {inverse = false} : (tensor<1x4x2xf32>, tensor<1x4x2xf32>) -> (tensor<1x4x2xf32>, tensor<1x4x2xf32>)
  return
}
