module @jit_special attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>) -> (tensor<4x6xf32> {jax.result_info = "result[0]"}, tensor<4x6xf32> {jax.result_info = "result[1]"}, tensor<4x6xf32> {jax.result_info = "result[2]"}, tensor<4x6xf32> {jax.result_info = "result[3]"}, tensor<4x6xf32> {jax.result_info = "result[4]"}, tensor<4x6xf32> {jax.result_info = "result[5]"}, tensor<4x6xf32> {jax.result_info = "result[6]"}, tensor<4x6xf32> {jax.result_info = "result[7]"}, tensor<4x6xf32> {jax.result_info = "result[8]"}, tensor<4x6xf32> {jax.result_info = "result[9]"}, tensor<4x6xf32> {jax.result_info = "result[10]"}, tensor<4x6xf32> {jax.result_info = "result[11]"}, tensor<4x6xf32> {jax.result_info = "result[12]"}, tensor<4x6xf32> {jax.result_info = "result[13]"}) {
    %0 = stablehlo.abs %arg0 : tensor<4x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %2 = stablehlo.add %0, %1 : tensor<4x6xf32>
    %3 = chlo.erf %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %4 = chlo.erfc %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %6 = stablehlo.divide %arg0, %5 : tensor<4x6xf32>
    %7 = chlo.erf_inv %6 : tensor<4x6xf32> -> tensor<4x6xf32>
    %8 = chlo.lgamma %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %9 = chlo.digamma %2 : tensor<4x6xf32> -> tensor<4x6xf32>
    %10 = chlo.asinh %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %11 = call @arccosh(%2) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %13 = stablehlo.divide %arg0, %12 : tensor<4x6xf32>
    %14 = chlo.atanh %13 : tensor<4x6xf32> -> tensor<4x6xf32>
    %15 = chlo.sinh %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %16 = stablehlo.tan %arg0 : tensor<4x6xf32>
    %17 = chlo.next_after %arg0, %2 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %19 = stablehlo.add %2, %18 : tensor<4x6xf32>
    %20 = chlo.zeta %19, %2 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    %21 = chlo.bessel_i1e %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %22 = stablehlo.floor %2 : tensor<4x6xf32>
    %23 = chlo.polygamma %22, %2 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    return %3, %4, %7, %8, %9, %10, %11, %14, %15, %16, %17, %20, %21, %23 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
  }
  func.func private @arccosh(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = chlo.acosh %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
