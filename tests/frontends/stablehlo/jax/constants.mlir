module @jit_constants attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>) -> (tensor<4x6xf32> {jax.result_info = "result[0]"}, tensor<4x6xf32> {jax.result_info = "result[1]"}, tensor<4x6xi1> {jax.result_info = "result[2]"}) {
    %cst = stablehlo.constant dense<[[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 5.000000e+00], [6.000000e+00, 7.000000e+00, 8.000000e+00, 9.000000e+00, 1.000000e+01, 1.100000e+01], [1.200000e+01, 1.300000e+01, 1.400000e+01, 1.500000e+01, 1.600000e+01, 1.700000e+01], [1.800000e+01, 1.900000e+01, 2.000000e+01, 2.100000e+01, 2.200000e+01, 2.300000e+01]]> : tensor<4x6xf32>
    %c = stablehlo.constant dense<[false, true, false, true, false, true]> : tensor<6xi1>
    %0 = stablehlo.add %arg0, %cst : tensor<4x6xf32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %2 = stablehlo.multiply %arg1, %1 : tensor<4x6xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %4 = stablehlo.compare NE, %arg0, %3, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %5 = stablehlo.convert %4 : tensor<4x6xi1>
    %6 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<6xi1>) -> tensor<1x6xi1>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x6xi1>) -> tensor<4x6xi1>
    %8 = stablehlo.and %5, %7 : tensor<4x6xi1>
    return %0, %2, %8 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi1>
  }
}
