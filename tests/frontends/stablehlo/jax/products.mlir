module @jit_products attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x4x3x8xf32>, %arg1: tensor<2x5x3x8xf32>) -> (tensor<2x3x4x5xf32> {jax.result_info = "result[0]"}, tensor<4x5xf32> {jax.result_info = "result[1]"}, tensor<4x4xf32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x3x4x5xf32>
    %1 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0, 3, 2] x [0, 3, 2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<4x5xf32>
    %2 = stablehlo.slice %arg0 [0:1, 0:4, 0:3, 0:8] : (tensor<2x4x3x8xf32>) -> tensor<1x4x3x8xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x4x3x8xf32>) -> tensor<4x3x8xf32>
    %4 = stablehlo.slice %arg1 [0:1, 0:4, 0:3, 0:8] : (tensor<2x5x3x8xf32>) -> tensor<1x4x3x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x4x3x8xf32>) -> tensor<4x3x8xf32>
    %6 = stablehlo.dot_general %3, %5, contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x3x8xf32>, tensor<4x3x8xf32>) -> tensor<4x4xf32>
    return %0, %1, %6 : tensor<2x3x4x5xf32>, tensor<4x5xf32>, tensor<4x4xf32>
  }
}
