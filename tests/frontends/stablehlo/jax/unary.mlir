module @jit_unary attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>) -> (tensor<4x6xf32> {jax.result_info = "result[0]"}, tensor<4x6xf32> {jax.result_info = "result[1]"}, tensor<4x6xf32> {jax.result_info = "result[2]"}, tensor<4x6xf32> {jax.result_info = "result[3]"}, tensor<4x6xi1> {jax.result_info = "result[4]"}, tensor<4x6xf32> {jax.result_info = "result[5]"}, tensor<4x6xf32> {jax.result_info = "result[6]"}, tensor<4x6xf32> {jax.result_info = "result[7]"}, tensor<4x6xf32> {jax.result_info = "result[8]"}, tensor<4x6xf32> {jax.result_info = "result[9]"}, tensor<4x6xf32> {jax.result_info = "result[10]"}, tensor<4x6xf32> {jax.result_info = "result[11]"}, tensor<4x6xf32> {jax.result_info = "result[12]"}, tensor<4x6xf32> {jax.result_info = "result[13]"}) {
    %0 = stablehlo.ceil %arg0 : tensor<4x6xf32>
    %1 = stablehlo.cosine %arg0 : tensor<4x6xf32>
    %2 = stablehlo.exponential %arg0 : tensor<4x6xf32>
    %3 = stablehlo.exponential_minus_one %arg0 : tensor<4x6xf32>
    %4 = stablehlo.is_finite %arg0 : (tensor<4x6xf32>) -> tensor<4x6xi1>
    %5 = stablehlo.multiply %arg0, %arg0 : tensor<4x6xf32>
    %6 = stablehlo.log_plus_one %5 : tensor<4x6xf32>
    %7 = stablehlo.negate %arg0 : tensor<4x6xf32>
    %8 = stablehlo.exponential %7 : tensor<4x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %10 = stablehlo.add %9, %8 : tensor<4x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %12 = stablehlo.divide %11, %10 : tensor<4x6xf32>
    %13 = call @round(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %14 = stablehlo.round_nearest_afz %arg0 : tensor<4x6xf32>
    %15 = stablehlo.multiply %arg0, %arg0 : tensor<4x6xf32>
    %16 = stablehlo.rsqrt %15 : tensor<4x6xf32>
    %17 = stablehlo.sign %arg0 : tensor<4x6xf32>
    %18 = stablehlo.cbrt %arg0 : tensor<4x6xf32>
    %19 = stablehlo.tanh %arg0 : tensor<4x6xf32>
    %20 = stablehlo.multiply %arg0, %arg0 : tensor<4x6xf32>
    %21 = stablehlo.multiply %20, %arg0 : tensor<4x6xf32>
    %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %23 = stablehlo.multiply %22, %21 : tensor<4x6xf32>
    %24 = stablehlo.add %arg0, %23 : tensor<4x6xf32>
    %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %26 = stablehlo.multiply %25, %24 : tensor<4x6xf32>
    %27 = stablehlo.tanh %26 : tensor<4x6xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %29 = stablehlo.add %28, %27 : tensor<4x6xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %31 = stablehlo.multiply %30, %29 : tensor<4x6xf32>
    %32 = stablehlo.multiply %arg0, %31 : tensor<4x6xf32>
    return %0, %1, %2, %3, %4, %6, %12, %13, %14, %16, %17, %18, %19, %32 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
  }
  func.func private @round(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
