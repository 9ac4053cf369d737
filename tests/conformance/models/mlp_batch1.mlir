module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<24xf32>, %arg1: tensor<16x24xf32>, %arg2: tensor<24xf32>, %arg3: tensor<24x24xf32>, %arg4: tensor<10xf32>, %arg5: tensor<24x10xf32>, %arg6: tensor<1x16xf32>) -> (tensor<1x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg6, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x24xf32>) -> tensor<1x24xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<24xf32>) -> tensor<1x24xf32>
    %2 = stablehlo.add %0, %1 : tensor<1x24xf32>
    %3 = call @relu(%2) : (tensor<1x24xf32>) -> tensor<1x24xf32>
    %4 = stablehlo.dot_general %3, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x24xf32>, tensor<24x24xf32>) -> tensor<1x24xf32>
    %5 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<24xf32>) -> tensor<1x24xf32>
    %6 = stablehlo.add %4, %5 : tensor<1x24xf32>
    %7 = call @relu(%6) : (tensor<1x24xf32>) -> tensor<1x24xf32>
    %8 = stablehlo.dot_general %7, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x24xf32>, tensor<24x10xf32>) -> tensor<1x10xf32>
    %9 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %10 = stablehlo.add %8, %9 : tensor<1x10xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<1x10xf32>, tensor<f32>) -> tensor<1xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %13 = stablehlo.maximum %12, %11 : tensor<1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x10xf32>
    %16 = stablehlo.subtract %10, %15 : tensor<1x10xf32>
    %17 = stablehlo.exponential %16 : tensor<1x10xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%17 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<1x10xf32>, tensor<f32>) -> tensor<1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x10xf32>
    %21 = stablehlo.divide %17, %20 : tensor<1x10xf32>
    return %21 : tensor<1x10xf32>
  }
  func.func private @relu(%arg0: tensor<1x24xf32>) -> tensor<1x24xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x24xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x24xf32>
    return %1 : tensor<1x24xf32>
  }
}

