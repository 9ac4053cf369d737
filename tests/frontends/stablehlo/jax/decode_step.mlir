module @jit_decode_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<11x8xf32>, %arg1: tensor<8x24xf32>, %arg2: tensor<2x4x10x4xf32>, %arg3: tensor<2xi32>, %arg4: tensor<i32>) -> (tensor<2xi32> {jax.result_info = "result[0]"}, tensor<2x4x10x4xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %1 = stablehlo.compare LT, %arg3, %0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_0 = stablehlo.constant dense<11> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %3 = stablehlo.add %arg3, %2 : tensor<2xi32>
    %4 = stablehlo.select %1, %3, %arg3 : tensor<2xi1>, tensor<2xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<11x8xf32>, tensor<2x1xi32>) -> tensor<2x8xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 2] : (tensor<2x8xf32>) -> tensor<2x1x8xf32>
    %8 = stablehlo.dot_general %7, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x1x8xf32>, tensor<8x24xf32>) -> tensor<2x1x24xf32>
    %9 = stablehlo.slice %8 [0:2, 0:1, 0:8] : (tensor<2x1x24xf32>) -> tensor<2x1x8xf32>
    %10 = stablehlo.slice %8 [0:2, 0:1, 8:16] : (tensor<2x1x24xf32>) -> tensor<2x1x8xf32>
    %11 = stablehlo.slice %8 [0:2, 0:1, 16:24] : (tensor<2x1x24xf32>) -> tensor<2x1x8xf32>
    %12 = stablehlo.reshape %9 : (tensor<2x1x8xf32>) -> tensor<2x1x2x4xf32>
    %13 = stablehlo.transpose %12, dims = [0, 2, 1, 3] : (tensor<2x1x2x4xf32>) -> tensor<2x2x1x4xf32>
    %14 = stablehlo.reshape %10 : (tensor<2x1x8xf32>) -> tensor<2x1x2x4xf32>
    %15 = stablehlo.transpose %14, dims = [0, 2, 1, 3] : (tensor<2x1x2x4xf32>) -> tensor<2x2x1x4xf32>
    %16 = stablehlo.reshape %11 : (tensor<2x1x8xf32>) -> tensor<2x1x2x4xf32>
    %17 = stablehlo.transpose %16, dims = [0, 2, 1, 3] : (tensor<2x1x2x4xf32>) -> tensor<2x2x1x4xf32>
    %18 = stablehlo.concatenate %15, %17, dim = 1 : (tensor<2x2x1x4xf32>, tensor<2x2x1x4xf32>) -> tensor<2x4x1x4xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %19 = stablehlo.compare LT, %arg4, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<10> : tensor<i32>
    %20 = stablehlo.add %arg4, %c_2 : tensor<i32>
    %21 = stablehlo.select %19, %20, %arg4 : tensor<i1>, tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.dynamic_update_slice %arg2, %18, %c_3, %c_4, %21, %c_5 : (tensor<2x4x10x4xf32>, tensor<2x4x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x10x4xf32>
    %23 = stablehlo.slice %22 [0:2, 0:2, 0:10, 0:4] : (tensor<2x4x10x4xf32>) -> tensor<2x2x10x4xf32>
    %24 = stablehlo.slice %22 [0:2, 2:4, 0:10, 0:4] : (tensor<2x4x10x4xf32>) -> tensor<2x2x10x4xf32>
    %25 = stablehlo.iota dim = 0 : tensor<10xi32>
    %26 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<i32>) -> tensor<10xi32>
    %27 = stablehlo.compare LE, %25, %26, SIGNED : (tensor<10xi32>, tensor<10xi32>) -> tensor<10xi1>
    %28 = stablehlo.transpose %23, dims = [0, 1, 3, 2] : (tensor<2x2x10x4xf32>) -> tensor<2x2x4x10xf32>
    %29 = stablehlo.dot_general %13, %28, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x1x4xf32>, tensor<2x2x4x10xf32>) -> tensor<2x2x1x10xf32>
    %cst = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %30 = call @_where(%27, %29, %cst) : (tensor<10xi1>, tensor<2x2x1x10xf32>, tensor<f32>) -> tensor<2x2x1x10xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %31 = stablehlo.reduce(%30 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x1x10xf32>, tensor<f32>) -> tensor<2x2x1xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x2x1xf32>
    %33 = stablehlo.maximum %32, %31 : tensor<2x2x1xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<2x2x1xf32>) -> tensor<2x2x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2, 3] : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x10xf32>
    %36 = stablehlo.subtract %30, %35 : tensor<2x2x1x10xf32>
    %37 = stablehlo.exponential %36 : tensor<2x2x1x10xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %38 = stablehlo.reduce(%37 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x2x1x10xf32>, tensor<f32>) -> tensor<2x2x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<2x2x1xf32>) -> tensor<2x2x1x1xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x10xf32>
    %41 = stablehlo.divide %37, %40 : tensor<2x2x1x10xf32>
    %42 = stablehlo.dot_general %41, %24, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x1x10xf32>, tensor<2x2x10x4xf32>) -> tensor<2x2x1x4xf32>
    %43 = stablehlo.transpose %42, dims = [0, 2, 1, 3] : (tensor<2x2x1x4xf32>) -> tensor<2x1x2x4xf32>
    %44 = stablehlo.reshape %43 : (tensor<2x1x2x4xf32>) -> tensor<2x8xf32>
    %45 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<11x8xf32>) -> tensor<8x11xf32>
    %46 = stablehlo.dot_general %44, %45, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8xf32>, tensor<8x11xf32>) -> tensor<2x11xf32>
    %47 = call @argmax(%46) : (tensor<2x11xf32>) -> tensor<2xi32>
    return %47, %22 : tensor<2xi32>, tensor<2x4x10x4xf32>
  }
  func.func private @_where(%arg0: tensor<10xi1>, %arg1: tensor<2x2x1x10xf32>, %arg2: tensor<f32>) -> tensor<2x2x1x10xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3] : (tensor<10xi1>) -> tensor<2x2x1x10xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x1x10xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x1x10xi1>, tensor<2x2x1x10xf32>
    return %3 : tensor<2x2x1x10xf32>
  }
  func.func private @argmax(%arg0: tensor<2x11xf32>) -> tensor<2xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<2x11xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<2x11xf32>, tensor<2x11xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<2xi32>
  }
}
