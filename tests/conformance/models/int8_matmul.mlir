module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<24x32xi8>, %arg1: tensor<32xf32>, %arg2: tensor<8x24xf32>) -> (tensor<8x32xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.abs %arg2 : tensor<8x24xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<8x24xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %cst_0 = stablehlo.constant dense<1.270000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<8x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x24xf32>
    %6 = stablehlo.divide %arg2, %5 : tensor<8x24xf32>
    %7 = call @round(%6) : (tensor<8x24xf32>) -> tensor<8x24xf32>
    %8 = stablehlo.convert %7 : (tensor<8x24xf32>) -> tensor<8x24xi8>
    %9 = stablehlo.dot_general %8, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x24xi8>, tensor<24x32xi8>) -> tensor<8x32xi32>
    %10 = stablehlo.convert %9 : (tensor<8x32xi32>) -> tensor<8x32xf32>
    %11 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<8x32xf32>
    %13 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
    %15 = stablehlo.multiply %12, %14 : tensor<8x32xf32>
    return %15 : tensor<8x32xf32>
  }
  func.func private @round(%arg0: tensor<8x24xf32>) -> tensor<8x24xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<8x24xf32>
    return %0 : tensor<8x24xf32>
  }
}

