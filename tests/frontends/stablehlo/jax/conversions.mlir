module @jit_conversions attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>) -> (tensor<4x6xbf16> {jax.result_info = "result[0]"}, tensor<4x6xf16> {jax.result_info = "result[1]"}, tensor<4x6xi8> {jax.result_info = "result[2]"}, tensor<4x6xf8E4M3FN> {jax.result_info = "result[3]"}, tensor<4x6xf8E5M2> {jax.result_info = "result[4]"}, tensor<4x6xui8> {jax.result_info = "result[5]"}, tensor<4x6xi1> {jax.result_info = "result[6]"}, tensor<4x6xf32> {jax.result_info = "result[7]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %1 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xf16>
    %2 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xi8>
    %3 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xf8E4M3FN>
    %4 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xf8E5M2>
    %5 = stablehlo.abs %arg0 : tensor<4x6xf32>
    %6 = stablehlo.convert %5 : (tensor<4x6xf32>) -> tensor<4x6xui8>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %8 = stablehlo.compare NE, %arg0, %7, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %9 = stablehlo.convert %8 : tensor<4x6xi1>
    %10 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<4x6xf32>
    return %0, %1, %2, %3, %4, %6, %9, %10 : tensor<4x6xbf16>, tensor<4x6xf16>, tensor<4x6xi8>, tensor<4x6xf8E4M3FN>, tensor<4x6xf8E5M2>, tensor<4x6xui8>, tensor<4x6xi1>, tensor<4x6xf32>
  }
}
