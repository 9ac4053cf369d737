module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x19xf32>, %arg1: tensor<19x22xf32>, %arg2: tensor<22x25xf32>, %arg3: tensor<25x28xf32>, %arg4: tensor<4x16xf32>) -> (tensor<4x28xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x19xf32>) -> tensor<4x19xf32>
    %1 = stablehlo.tanh %0 : tensor<4x19xf32>
    %2 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x19xf32>, tensor<19x22xf32>) -> tensor<4x22xf32>
    %3 = stablehlo.tanh %2 : tensor<4x22xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x22xf32>, tensor<22x25xf32>) -> tensor<4x25xf32>
    %5 = stablehlo.tanh %4 : tensor<4x25xf32>
    %6 = stablehlo.dot_general %5, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x25xf32>, tensor<25x28xf32>) -> tensor<4x28xf32>
    %7 = stablehlo.tanh %6 : tensor<4x28xf32>
    return %7 : tensor<4x28xf32>
  }
}

