module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32>, %arg1: tensor<64x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16x16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16xf32>, %arg9: tensor<16x16xf32>, %arg10: tensor<16xf32>, %arg11: tensor<16x16xf32>, %arg12: tensor<64xf32>, %arg13: tensor<16x64xf32>, %arg14: tensor<16xf32>, %arg15: tensor<16x16xf32>, %arg16: tensor<1x8x16xf32>, %arg17: tensor<1x8xf32>) -> (tensor<1x8x16xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg16, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %1 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %3 = stablehlo.add %0, %2 : tensor<1x8x16xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %6 = stablehlo.dot_general %arg16, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %7 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %9 = stablehlo.add %6, %8 : tensor<1x8x16xf32>
    %10 = stablehlo.reshape %9 : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %11 = stablehlo.transpose %10, dims = [0, 2, 1, 3] : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %12 = stablehlo.dot_general %arg16, %arg15, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %13 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %15 = stablehlo.add %12, %14 : tensor<1x8x16xf32>
    %16 = stablehlo.reshape %15 : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %17 = stablehlo.transpose %16, dims = [0, 2, 1, 3] : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %18 = stablehlo.transpose %11, dims = [0, 1, 3, 2] : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %19 = stablehlo.reshape %5 : (tensor<1x2x8x8xf32>) -> tensor<2x8x8xf32>
    %20 = stablehlo.reshape %18 : (tensor<1x2x8x8xf32>) -> tensor<2x8x8xf32>
    %21 = stablehlo.dot_general %19, %20, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [1, 2, 3] : (tensor<2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %cst = stablehlo.constant dense<2.82842708> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x8x8xf32>
    %24 = stablehlo.divide %22, %23 : tensor<1x2x8x8xf32>
    %25 = stablehlo.broadcast_in_dim %arg17, dims = [0, 3] : (tensor<1x8xf32>) -> tensor<1x1x1x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1x1x8xf32>
    %27 = stablehlo.subtract %26, %25 : tensor<1x1x1x8xf32>
    %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x1x1x8xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<1x1x1x8xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x2x8x8xf32>
    %31 = stablehlo.add %24, %30 : tensor<1x2x8x8xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %32 = stablehlo.reduce(%31 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x8xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x2x8xf32>
    %34 = stablehlo.maximum %33, %32 : tensor<1x2x8xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x2x8xf32>) -> tensor<1x2x8x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x2x8x1xf32>) -> tensor<1x2x8x8xf32>
    %37 = stablehlo.subtract %31, %36 : tensor<1x2x8x8xf32>
    %38 = stablehlo.exponential %37 : tensor<1x2x8x8xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_4) applies stablehlo.add across dimensions = [3] : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x8xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2] : (tensor<1x2x8xf32>) -> tensor<1x2x8x1xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x2x8x1xf32>) -> tensor<1x2x8x8xf32>
    %42 = stablehlo.divide %38, %41 : tensor<1x2x8x8xf32>
    %43 = stablehlo.reshape %42 : (tensor<1x2x8x8xf32>) -> tensor<2x8x8xf32>
    %44 = stablehlo.reshape %17 : (tensor<1x2x8x8xf32>) -> tensor<2x8x8xf32>
    %45 = stablehlo.dot_general %43, %44, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [1, 2, 3] : (tensor<2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %47 = stablehlo.transpose %46, dims = [0, 2, 1, 3] : (tensor<1x2x8x8xf32>) -> tensor<1x8x2x8xf32>
    %48 = stablehlo.reshape %47 : (tensor<1x8x2x8xf32>) -> tensor<1x8x16xf32>
    %49 = stablehlo.dot_general %48, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %50 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %52 = stablehlo.add %49, %51 : tensor<1x8x16xf32>
    %53 = stablehlo.add %arg16, %52 : tensor<1x8x16xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.reduce(%53 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_6 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %57 = stablehlo.divide %55, %56 : tensor<1x8x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %59 = stablehlo.subtract %53, %58 : tensor<1x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %60 = call @_var(%53, %c) : (tensor<1x8x16xf32>, tensor<i32>) -> tensor<1x8x1xf32>
    %cst_7 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %62 = stablehlo.add %60, %61 : tensor<1x8x1xf32>
    %63 = stablehlo.rsqrt %62 : tensor<1x8x1xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %65 = stablehlo.multiply %59, %64 : tensor<1x8x16xf32>
    %66 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %68 = stablehlo.multiply %65, %67 : tensor<1x8x16xf32>
    %69 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %71 = stablehlo.add %68, %70 : tensor<1x8x16xf32>
    %72 = stablehlo.dot_general %71, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x64xf32>) -> tensor<1x8x64xf32>
    %73 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<1x8x64xf32>
    %75 = stablehlo.add %72, %74 : tensor<1x8x64xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x8x64xf32>
    %77 = stablehlo.multiply %76, %75 : tensor<1x8x64xf32>
    %78 = stablehlo.negate %75 : tensor<1x8x64xf32>
    %cst_9 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x8x64xf32>
    %80 = stablehlo.multiply %78, %79 : tensor<1x8x64xf32>
    %81 = chlo.erfc %80 : tensor<1x8x64xf32> -> tensor<1x8x64xf32>
    %82 = stablehlo.multiply %77, %81 : tensor<1x8x64xf32>
    %83 = stablehlo.dot_general %82, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x64xf32>, tensor<64x16xf32>) -> tensor<1x8x16xf32>
    %84 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %86 = stablehlo.add %83, %85 : tensor<1x8x16xf32>
    %87 = stablehlo.add %71, %86 : tensor<1x8x16xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %88 = stablehlo.reduce(%87 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_11 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %91 = stablehlo.divide %89, %90 : tensor<1x8x1xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %93 = stablehlo.subtract %87, %92 : tensor<1x8x16xf32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %94 = call @_var(%87, %c_12) : (tensor<1x8x16xf32>, tensor<i32>) -> tensor<1x8x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %96 = stablehlo.add %94, %95 : tensor<1x8x1xf32>
    %97 = stablehlo.rsqrt %96 : tensor<1x8x1xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %99 = stablehlo.multiply %93, %98 : tensor<1x8x16xf32>
    %100 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %102 = stablehlo.multiply %99, %101 : tensor<1x8x16xf32>
    %103 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %105 = stablehlo.add %102, %104 : tensor<1x8x16xf32>
    return %105 : tensor<1x8x16xf32>
  }
  func.func private @_var(%arg0: tensor<1x8x16xf32>, %arg1: tensor<i32>) -> tensor<1x8x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x8x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<1x8x16xf32>
    %6 = chlo.square %5 : tensor<1x8x16xf32> -> tensor<1x8x16xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<1x8x1xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = call @_where(%13, %12, %cst_4) : (tensor<i1>, tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    return %14 : tensor<1x8x1xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x8x1xf32>, %arg2: tensor<f32>) -> tensor<1x8x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<1x8x1xf32>
    return %2 : tensor<1x8x1xf32>
  }
}

