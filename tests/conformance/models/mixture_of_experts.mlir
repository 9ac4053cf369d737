module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x16x8xf32>, %arg1: tensor<8x4xf32>, %arg2: tensor<4x8x16xf32>, %arg3: tensor<3x8xf32>) -> (tensor<3x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg3, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.maximum %2, %1 : tensor<3xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x4xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<3x4xf32>
    %7 = stablehlo.exponential %6 : tensor<3x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x4xf32>
    %11 = stablehlo.divide %7, %10 : tensor<3x4xf32>
    %values, %indices = chlo.top_k(%11, k = 2) : tensor<3x4xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
    %c = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %13 = stablehlo.compare LT, %indices, %12, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
    %c_2 = stablehlo.constant dense<4> : tensor<i32>
    %14 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %15 = stablehlo.add %indices, %14 : tensor<3x2xi32>
    %16 = stablehlo.select %13, %15, %indices : tensor<3x2xi1>, tensor<3x2xi32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<3x2xi32>) -> tensor<3x2x1xi32>
    %18 = "stablehlo.gather"(%arg2, %17) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8, 16>}> : (tensor<4x8x16xf32>, tensor<3x2x1xi32>) -> tensor<3x2x8x16xf32>
    %19 = stablehlo.dot_general %arg3, %18, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<3x2x8x16xf32>) -> tensor<3x2x16xf32>
    %20 = stablehlo.multiply %19, %19 : tensor<3x2x16xf32>
    %21 = stablehlo.multiply %20, %19 : tensor<3x2x16xf32>
    %cst_3 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x2x16xf32>
    %23 = stablehlo.multiply %22, %21 : tensor<3x2x16xf32>
    %24 = stablehlo.add %19, %23 : tensor<3x2x16xf32>
    %cst_4 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x2x16xf32>
    %26 = stablehlo.multiply %25, %24 : tensor<3x2x16xf32>
    %27 = stablehlo.tanh %26 : tensor<3x2x16xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x2x16xf32>
    %29 = stablehlo.add %28, %27 : tensor<3x2x16xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3x2x16xf32>
    %31 = stablehlo.multiply %30, %29 : tensor<3x2x16xf32>
    %32 = stablehlo.multiply %19, %31 : tensor<3x2x16xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %33 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %34 = stablehlo.compare LT, %indices, %33, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
    %c_8 = stablehlo.constant dense<4> : tensor<i32>
    %35 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %36 = stablehlo.add %indices, %35 : tensor<3x2xi32>
    %37 = stablehlo.select %34, %36, %indices : tensor<3x2xi1>, tensor<3x2xi32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1] : (tensor<3x2xi32>) -> tensor<3x2x1xi32>
    %39 = "stablehlo.gather"(%arg0, %38) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16, 8>}> : (tensor<4x16x8xf32>, tensor<3x2x1xi32>) -> tensor<3x2x16x8xf32>
    %40 = stablehlo.dot_general %32, %39, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<3x2x16xf32>, tensor<3x2x16x8xf32>) -> tensor<3x2x8xf32>
    %41 = stablehlo.dot_general %values, %40, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2xf32>, tensor<3x2x8xf32>) -> tensor<3x8xf32>
    return %41 : tensor<3x8xf32>
  }
}

