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
