module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<24xf16>, %arg1: tensor<16x24xf16>, %arg2: tensor<24xf16>, %arg3: tensor<24x24xf16>, %arg4: tensor<10xf16>, %arg5: tensor<24x10xf16>, %arg6: tensor<8x16xf16>) -> (tensor<8x10xf16> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg6, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf16>, tensor<16x24xf16>) -> tensor<8x24xf16>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<24xf16>) -> tensor<1x24xf16>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x24xf16>) -> tensor<8x24xf16>
    %3 = stablehlo.add %0, %2 : tensor<8x24xf16>
    %4 = call @relu(%3) : (tensor<8x24xf16>) -> tensor<8x24xf16>
    %5 = stablehlo.dot_general %4, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x24xf16>, tensor<24x24xf16>) -> tensor<8x24xf16>
    %6 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<24xf16>) -> tensor<1x24xf16>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x24xf16>) -> tensor<8x24xf16>
    %8 = stablehlo.add %5, %7 : tensor<8x24xf16>
    %9 = call @relu(%8) : (tensor<8x24xf16>) -> tensor<8x24xf16>
    %10 = stablehlo.dot_general %9, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x24xf16>, tensor<24x10xf16>) -> tensor<8x10xf16>
    %11 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<10xf16>) -> tensor<1x10xf16>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x10xf16>) -> tensor<8x10xf16>
    %13 = stablehlo.add %10, %12 : tensor<8x10xf16>
    %cst = stablehlo.constant dense<0xFC00> : tensor<f16>
    %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<8x10xf16>, tensor<f16>) -> tensor<8xf16>
    %cst_0 = stablehlo.constant dense<0xFC00> : tensor<f16>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f16>) -> tensor<8xf16>
    %16 = stablehlo.maximum %15, %14 : tensor<8xf16>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<8xf16>) -> tensor<8x1xf16>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x10xf16>
    %19 = stablehlo.subtract %13, %18 : tensor<8x10xf16>
    %20 = stablehlo.exponential %19 : tensor<8x10xf16>
    %21 = stablehlo.convert %20 : (tensor<8x10xf16>) -> tensor<8x10xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x10xf32>, tensor<f32>) -> tensor<8xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %24 = stablehlo.convert %23 : (tensor<8x1xf32>) -> tensor<8x1xf16>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x10xf16>
    %26 = stablehlo.divide %20, %25 : tensor<8x10xf16>
    return %26 : tensor<8x10xf16>
  }
  func.func private @relu(%arg0: tensor<8x24xf16>) -> tensor<8x24xf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x24xf16>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x24xf16>
    return %1 : tensor<8x24xf16>
  }
}

