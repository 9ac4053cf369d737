module @jit_arrangements attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>) -> (tensor<6x4xf32> {jax.result_info = "result[0]"}, tensor<3x8xf32> {jax.result_info = "result[1]"}, tensor<1x4x6xf32> {jax.result_info = "result[2]"}, tensor<2x4xf32> {jax.result_info = "result[3]"}, tensor<4x6xf32> {jax.result_info = "result[4]"}, tensor<4x12xf32> {jax.result_info = "result[5]"}, tensor<6x8xf32> {jax.result_info = "result[6]"}, tensor<6x7xf32> {jax.result_info = "result[7]"}, tensor<4x13xf32> {jax.result_info = "result[8]"}, tensor<4x4xf32> {jax.result_info = "result[9]"}, tensor<5xi32> {jax.result_info = "result[10]"}, tensor<4x12xf32> {jax.result_info = "result[11]"}, tensor<4x6xf32> {jax.result_info = "result[12]"}, tensor<4x6xf32> {jax.result_info = "result[13]"}, tensor<4x2x6xf32> {jax.result_info = "result[14]"}) {
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<4x6xf32>) -> tensor<3x8xf32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<4x6xf32>) -> tensor<1x4x6xf32>
    %3 = stablehlo.slice %arg0 [0:4:2, 1:5] : (tensor<4x6xf32>) -> tensor<2x4xf32>
    %4 = stablehlo.reverse %arg0, dims = [0] : tensor<4x6xf32>
    %5 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %6 = call @_pad(%arg0, %c) : (tensor<4x6xf32>, tensor<i32>) -> tensor<6x8xf32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %7 = call @_pad_0(%arg0, %c_0) : (tensor<4x6xf32>, tensor<i32>) -> tensor<6x7xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.pad %arg0, %cst, low = [-1, 0], high = [1, 2], interior = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x13xf32>
    %9 = stablehlo.iota dim = 0 : tensor<4x4xi32>
    %10 = stablehlo.iota dim = 1 : tensor<4x4xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4x4xi32>
    %12 = stablehlo.add %9, %11 : tensor<4x4xi32>
    %13 = stablehlo.compare EQ, %12, %10, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %14 = stablehlo.convert %13 : (tensor<4x4xi1>) -> tensor<4x4xf32>
    %15 = stablehlo.iota dim = 0 : tensor<5xi32>
    %16 = stablehlo.reshape %arg0 : (tensor<4x6xf32>) -> tensor<1x4x1x6xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<1x4x1x6xf32>) -> tensor<1x4x2x6xf32>
    %18 = stablehlo.reshape %17 : (tensor<1x4x2x6xf32>) -> tensor<4x12xf32>
    %19 = call @_roll_static(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %20 = call @tril(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %21 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<4x6xf32>) -> tensor<4x1x6xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<4x1x6xf32>) -> tensor<4x2x6xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %14, %15, %18, %19, %20, %22 : tensor<6x4xf32>, tensor<3x8xf32>, tensor<1x4x6xf32>, tensor<2x4xf32>, tensor<4x6xf32>, tensor<4x12xf32>, tensor<6x8xf32>, tensor<6x7xf32>, tensor<4x13xf32>, tensor<4x4xf32>, tensor<5xi32>, tensor<4x12xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x2x6xf32>
  }
  func.func private @_pad(%arg0: tensor<4x6xf32>, %arg1: tensor<i32>) -> tensor<6x8xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 1], high = [1, 1], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6x8xf32>
    return %1 : tensor<6x8xf32>
  }
  func.func private @_pad_0(%arg0: tensor<4x6xf32>, %arg1: tensor<i32>) -> tensor<6x7xf32> {
    %0 = stablehlo.slice %arg0 [0:1, 0:6] : (tensor<4x6xf32>) -> tensor<1x6xf32>
    %1 = stablehlo.slice %arg0 [1:3, 0:6] : (tensor<4x6xf32>) -> tensor<2x6xf32>
    %2 = call @_flip(%1) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %3 = stablehlo.concatenate %2, %arg0, dim = 0 : (tensor<2x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
    %4 = stablehlo.slice %3 [5:6, 0:6] : (tensor<6x6xf32>) -> tensor<1x6xf32>
    %5 = stablehlo.slice %3 [0:6, 0:1] : (tensor<6x6xf32>) -> tensor<6x1xf32>
    %6 = stablehlo.slice %3 [0:6, 5:6] : (tensor<6x6xf32>) -> tensor<6x1xf32>
    %7 = stablehlo.slice %3 [0:6, 4:5] : (tensor<6x6xf32>) -> tensor<6x1xf32>
    %8 = call @_flip_1(%7) : (tensor<6x1xf32>) -> tensor<6x1xf32>
    %9 = stablehlo.concatenate %3, %8, dim = 1 : (tensor<6x6xf32>, tensor<6x1xf32>) -> tensor<6x7xf32>
    return %9 : tensor<6x7xf32>
  }
  func.func private @_flip(%arg0: tensor<2x6xf32>) -> tensor<2x6xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<2x6xf32>
    return %0 : tensor<2x6xf32>
  }
  func.func private @_flip_1(%arg0: tensor<6x1xf32>) -> tensor<6x1xf32> {
    %0 = stablehlo.reverse %arg0, dims = [1] : tensor<6x1xf32>
    return %0 : tensor<6x1xf32>
  }
  func.func private @_roll_static(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.slice %arg0 [0:4, 4:6] : (tensor<4x6xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.slice %arg0 [0:4, 0:4] : (tensor<4x6xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<4x2xf32>, tensor<4x4xf32>) -> tensor<4x6xf32>
    return %2 : tensor<4x6xf32>
  }
  func.func private @tril(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<4x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<4x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<4x6xi1>, tensor<4x6xf32>
    return %6 : tensor<4x6xf32>
  }
}
