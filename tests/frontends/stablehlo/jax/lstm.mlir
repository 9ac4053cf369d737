module @jit_lstm attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x32xf32>, %arg1: tensor<6x32xf32>, %arg2: tensor<3x5x6xf32>) -> (tensor<3x8xf32> {jax.result_info = "result[0][0]"}, tensor<3x8xf32> {jax.result_info = "result[0][1]"}, tensor<5x3x8xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %1 = stablehlo.transpose %arg2, dims = [1, 0, 2] : (tensor<3x5x6xf32>) -> tensor<5x3x6xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5x3x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3:7 = stablehlo.while(%iterArg = %1, %iterArg_1 = %arg1, %iterArg_2 = %arg0, %iterArg_3 = %c, %iterArg_4 = %0, %iterArg_5 = %0, %iterArg_6 = %2) : tensor<5x3x6xf32>, tensor<6x32xf32>, tensor<8x32xf32>, tensor<i32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<5x3x8xf32>
    cond {
      %c_7 = stablehlo.constant dense<5> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg_3, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_3) : (tensor<5x3x6xf32>, tensor<i32>) -> tensor<3x6xf32>
      %5:3 = func.call @closed_call(%iterArg_1, %iterArg_2, %iterArg_4, %iterArg_5, %4) : (tensor<6x32xf32>, tensor<8x32xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x6xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>)
      %6 = func.call @dynamic_update_index_in_dim(%iterArg_6, %5#2, %iterArg_3) : (tensor<5x3x8xf32>, tensor<3x8xf32>, tensor<i32>) -> tensor<5x3x8xf32>
      %c_7 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %iterArg_3, %c_7 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_1, %iterArg_2, %7, %5#0, %5#1, %6 : tensor<5x3x6xf32>, tensor<6x32xf32>, tensor<8x32xf32>, tensor<i32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<5x3x8xf32>
    }
    return %3#4, %3#5, %3#6 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<5x3x8xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x3x6xf32>, %arg1: tensor<i32>) -> tensor<3x6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 3, 6] : (tensor<5x3x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x6xf32>) -> tensor<3x6xf32>
    return %1 : tensor<3x6xf32>
  }
  func.func private @closed_call(%arg0: tensor<6x32xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<3x8xf32>, %arg3: tensor<3x8xf32>, %arg4: tensor<3x6xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf32>, tensor<6x32xf32>) -> tensor<3x32xf32>
    %1 = stablehlo.dot_general %arg2, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<8x32xf32>) -> tensor<3x32xf32>
    %2 = stablehlo.add %0, %1 : tensor<3x32xf32>
    %3 = stablehlo.slice %2 [0:3, 0:8] : (tensor<3x32xf32>) -> tensor<3x8xf32>
    %4 = stablehlo.slice %2 [0:3, 8:16] : (tensor<3x32xf32>) -> tensor<3x8xf32>
    %5 = stablehlo.slice %2 [0:3, 16:24] : (tensor<3x32xf32>) -> tensor<3x8xf32>
    %6 = stablehlo.slice %2 [0:3, 24:32] : (tensor<3x32xf32>) -> tensor<3x8xf32>
    %7 = stablehlo.negate %4 : tensor<3x8xf32>
    %8 = stablehlo.exponential %7 : tensor<3x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %10 = stablehlo.add %9, %8 : tensor<3x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %12 = stablehlo.divide %11, %10 : tensor<3x8xf32>
    %13 = stablehlo.multiply %12, %arg3 : tensor<3x8xf32>
    %14 = stablehlo.negate %3 : tensor<3x8xf32>
    %15 = stablehlo.exponential %14 : tensor<3x8xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %17 = stablehlo.add %16, %15 : tensor<3x8xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %19 = stablehlo.divide %18, %17 : tensor<3x8xf32>
    %20 = stablehlo.tanh %5 : tensor<3x8xf32>
    %21 = stablehlo.multiply %19, %20 : tensor<3x8xf32>
    %22 = stablehlo.add %13, %21 : tensor<3x8xf32>
    %23 = stablehlo.negate %6 : tensor<3x8xf32>
    %24 = stablehlo.exponential %23 : tensor<3x8xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %26 = stablehlo.add %25, %24 : tensor<3x8xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %28 = stablehlo.divide %27, %26 : tensor<3x8xf32>
    %29 = stablehlo.tanh %22 : tensor<3x8xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<3x8xf32>
    return %30, %22, %30 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<5x3x8xf32>, %arg1: tensor<3x8xf32>, %arg2: tensor<i32>) -> tensor<5x3x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<3x8xf32>) -> tensor<1x3x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<5x3x8xf32>, tensor<1x3x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x3x8xf32>
    return %1 : tensor<5x3x8xf32>
  }
}
