module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<24x32xi8>, %arg1: tensor<32xf32>, %arg2: tensor<1x24xf32>) -> (tensor<1x32xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg0 : (tensor<24x32xi8>) -> tensor<24x32xf32>
    %1 = stablehlo.dot_general %arg2, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x24xf32>, tensor<24x32xf32>) -> tensor<1x32xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<1x32xf32>
    return %3 : tensor<1x32xf32>
  }
}

