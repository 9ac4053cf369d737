// Quantized types.
func.func @quantized(%a: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.uniform_quantize %a : (tensor<4x2xf32>) -> tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:-3>>
  %1 = stablehlo.uniform_quantize %a : (tensor<4x2xf32>) -> tensor<4x2x!quant.uniform<u8<1:254>:f32:1, {1.000000e-01,2.000000e-01:128}>>
  %2 = stablehlo.constant() <{value = dense<[1, -1]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 2.000000e+00>>
  %3 = stablehlo.uniform_dequantize %0 : (tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:-3>>) -> tensor<4x2xf32>
  return %3 : tensor<4x2xf32>
}
