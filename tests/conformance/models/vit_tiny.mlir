module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32>, %arg1: tensor<64x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16x16xf32>, %arg8: tensor<48xf32>, %arg9: tensor<16x48xf32>, %arg10: tensor<64xf32>, %arg11: tensor<16x64xf32>, %arg12: tensor<1x1x16xf32>, %arg13: tensor<1000xf32>, %arg14: tensor<16x1000xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16xf32>, %arg17: tensor<8x8x3x16xf32>, %arg18: tensor<1x5x16xf32>, %arg19: tensor<1x16x16x3xf32>) -> (tensor<1x1000xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg19, %arg17) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [8, 8], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x16x16x3xf32>, tensor<8x8x3x16xf32>) -> tensor<1x2x2x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x2x16xf32>) -> tensor<1x4x16xf32>
    %2 = stablehlo.concatenate %arg12, %1, dim = 1 : (tensor<1x1x16xf32>, tensor<1x4x16xf32>) -> tensor<1x5x16xf32>
    %3 = stablehlo.add %2, %arg18 : tensor<1x5x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x5x16xf32>, tensor<f32>) -> tensor<1x5xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<1x5x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %7 = stablehlo.divide %5, %6 : tensor<1x5x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x5x1xf32>) -> tensor<1x5x16xf32>
    %9 = stablehlo.subtract %3, %8 : tensor<1x5x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %10 = call @_var(%3, %c) : (tensor<1x5x16xf32>, tensor<i32>) -> tensor<1x5x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x5x1xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x5x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<1x5x1xf32>) -> tensor<1x5x16xf32>
    %15 = stablehlo.multiply %9, %14 : tensor<1x5x16xf32>
    %16 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x5x16xf32>
    %18 = stablehlo.multiply %15, %17 : tensor<1x5x16xf32>
    %19 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x5x16xf32>
    %21 = stablehlo.add %18, %20 : tensor<1x5x16xf32>
    %22 = stablehlo.dot_general %21, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x5x16xf32>, tensor<16x48xf32>) -> tensor<1x5x48xf32>
    %23 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<1x5x48xf32>
    %25 = stablehlo.add %22, %24 : tensor<1x5x48xf32>
    %26 = stablehlo.slice %25 [0:1, 0:5, 0:16] : (tensor<1x5x48xf32>) -> tensor<1x5x16xf32>
    %27 = stablehlo.slice %25 [0:1, 0:5, 16:32] : (tensor<1x5x48xf32>) -> tensor<1x5x16xf32>
    %28 = stablehlo.slice %25 [0:1, 0:5, 32:48] : (tensor<1x5x48xf32>) -> tensor<1x5x16xf32>
    %29 = stablehlo.reshape %26 : (tensor<1x5x16xf32>) -> tensor<1x5x2x8xf32>
    %30 = stablehlo.reshape %27 : (tensor<1x5x16xf32>) -> tensor<1x5x2x8xf32>
    %31 = stablehlo.reshape %28 : (tensor<1x5x16xf32>) -> tensor<1x5x2x8xf32>
    %32 = stablehlo.reshape %29 : (tensor<1x5x2x8xf32>) -> tensor<1x5x2x1x8xf32>
    %33 = stablehlo.dot_general %32, %30, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x5x2x1x8xf32>, tensor<1x5x2x8xf32>) -> tensor<1x2x5x1x5xf32>
    %cst_2 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x2x5x1x5xf32>
    %35 = stablehlo.multiply %33, %34 : tensor<1x2x5x1x5xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %36 = stablehlo.reduce(%35 init: %cst_3) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x5x1x5xf32>, tensor<f32>) -> tensor<1x2x5x1xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x2x5x1xf32>
    %38 = stablehlo.maximum %37, %36 : tensor<1x2x5x1xf32>
    %39 = stablehlo.transpose %38, dims = [3, 0, 1, 2] : (tensor<1x2x5x1xf32>) -> tensor<1x1x2x5xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<1x1x2x5xf32>) -> tensor<1x1x2x5x1xf32>
    %41 = stablehlo.transpose %35, dims = [3, 0, 1, 2, 4] : (tensor<1x2x5x1x5xf32>) -> tensor<1x1x2x5x5xf32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3, 4] : (tensor<1x1x2x5x1xf32>) -> tensor<1x1x2x5x5xf32>
    %43 = stablehlo.subtract %41, %42 : tensor<1x1x2x5x5xf32>
    %44 = stablehlo.exponential %43 : tensor<1x1x2x5x5xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_5) applies stablehlo.add across dimensions = [4] : (tensor<1x1x2x5x5xf32>, tensor<f32>) -> tensor<1x1x2x5xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x1x2x5xf32>) -> tensor<1x1x2x5x1xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3, 4] : (tensor<1x1x2x5x1xf32>) -> tensor<1x1x2x5x5xf32>
    %48 = stablehlo.divide %44, %47 : tensor<1x1x2x5x5xf32>
    %49 = stablehlo.dot_general %31, %48, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x5x2x8xf32>, tensor<1x1x2x5x5xf32>) -> tensor<1x2x8x1x5xf32>
    %50 = stablehlo.transpose %49, dims = [3, 0, 4, 1, 2] : (tensor<1x2x8x1x5xf32>) -> tensor<1x1x5x2x8xf32>
    %51 = stablehlo.transpose %50, dims = [1, 2, 3, 0, 4] : (tensor<1x1x5x2x8xf32>) -> tensor<1x5x2x1x8xf32>
    %52 = stablehlo.reshape %51 : (tensor<1x5x2x1x8xf32>) -> tensor<1x5x2x8xf32>
    %53 = stablehlo.reshape %52 : (tensor<1x5x2x8xf32>) -> tensor<1x5x16xf32>
    %54 = stablehlo.dot_general %53, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x5x16xf32>, tensor<16x16xf32>) -> tensor<1x5x16xf32>
    %55 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x5x16xf32>
    %57 = stablehlo.add %54, %56 : tensor<1x5x16xf32>
    %58 = stablehlo.add %3, %57 : tensor<1x5x16xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<1x5x16xf32>, tensor<f32>) -> tensor<1x5xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<1x5x1xf32>
    %cst_7 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %62 = stablehlo.divide %60, %61 : tensor<1x5x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2] : (tensor<1x5x1xf32>) -> tensor<1x5x16xf32>
    %64 = stablehlo.subtract %58, %63 : tensor<1x5x16xf32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %65 = call @_var(%58, %c_8) : (tensor<1x5x16xf32>, tensor<i32>) -> tensor<1x5x1xf32>
    %cst_9 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %67 = stablehlo.add %65, %66 : tensor<1x5x1xf32>
    %68 = stablehlo.rsqrt %67 : tensor<1x5x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<1x5x1xf32>) -> tensor<1x5x16xf32>
    %70 = stablehlo.multiply %64, %69 : tensor<1x5x16xf32>
    %71 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x5x16xf32>
    %73 = stablehlo.multiply %70, %72 : tensor<1x5x16xf32>
    %74 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x5x16xf32>
    %76 = stablehlo.add %73, %75 : tensor<1x5x16xf32>
    %77 = stablehlo.dot_general %76, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x5x16xf32>, tensor<16x64xf32>) -> tensor<1x5x64xf32>
    %78 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<1x5x64xf32>
    %80 = stablehlo.add %77, %79 : tensor<1x5x64xf32>
    %81 = stablehlo.multiply %80, %80 : tensor<1x5x64xf32>
    %82 = stablehlo.multiply %81, %80 : tensor<1x5x64xf32>
    %cst_10 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x5x64xf32>
    %84 = stablehlo.multiply %83, %82 : tensor<1x5x64xf32>
    %85 = stablehlo.add %80, %84 : tensor<1x5x64xf32>
    %cst_11 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x5x64xf32>
    %87 = stablehlo.multiply %86, %85 : tensor<1x5x64xf32>
    %88 = stablehlo.tanh %87 : tensor<1x5x64xf32>
    %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x5x64xf32>
    %90 = stablehlo.add %89, %88 : tensor<1x5x64xf32>
    %cst_13 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x5x64xf32>
    %92 = stablehlo.multiply %91, %90 : tensor<1x5x64xf32>
    %93 = stablehlo.multiply %80, %92 : tensor<1x5x64xf32>
    %94 = stablehlo.dot_general %93, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x5x64xf32>, tensor<64x16xf32>) -> tensor<1x5x16xf32>
    %95 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x5x16xf32>
    %97 = stablehlo.add %94, %96 : tensor<1x5x16xf32>
    %98 = stablehlo.add %58, %97 : tensor<1x5x16xf32>
    %99 = stablehlo.slice %98 [0:1, 0:1, 0:16] : (tensor<1x5x16xf32>) -> tensor<1x1x16xf32>
    %100 = stablehlo.reshape %99 : (tensor<1x1x16xf32>) -> tensor<1x16xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %101 = stablehlo.reduce(%100 init: %cst_14) applies stablehlo.add across dimensions = [1] : (tensor<1x16xf32>, tensor<f32>) -> tensor<1xf32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_15 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %104 = stablehlo.divide %102, %103 : tensor<1x1xf32>
    %105 = stablehlo.broadcast_in_dim %104, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %106 = stablehlo.subtract %100, %105 : tensor<1x16xf32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %107 = call @_var_0(%100, %c_16) : (tensor<1x16xf32>, tensor<i32>) -> tensor<1x1xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %109 = stablehlo.add %107, %108 : tensor<1x1xf32>
    %110 = stablehlo.rsqrt %109 : tensor<1x1xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %112 = stablehlo.multiply %106, %111 : tensor<1x16xf32>
    %113 = stablehlo.broadcast_in_dim %arg16, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %114 = stablehlo.multiply %112, %113 : tensor<1x16xf32>
    %115 = stablehlo.broadcast_in_dim %arg15, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %116 = stablehlo.add %114, %115 : tensor<1x16xf32>
    %117 = stablehlo.dot_general %116, %arg14, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x1000xf32>) -> tensor<1x1000xf32>
    %118 = stablehlo.broadcast_in_dim %arg13, dims = [1] : (tensor<1000xf32>) -> tensor<1x1000xf32>
    %119 = stablehlo.add %117, %118 : tensor<1x1000xf32>
    return %119 : tensor<1x1000xf32>
  }
  func.func private @_var(%arg0: tensor<1x5x16xf32>, %arg1: tensor<i32>) -> tensor<1x5x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x5x16xf32>, tensor<f32>) -> tensor<1x5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<1x5x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x5x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x5x1xf32>) -> tensor<1x5x16xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<1x5x16xf32>
    %6 = chlo.square %5 : tensor<1x5x16xf32> -> tensor<1x5x16xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<1x5x16xf32>, tensor<f32>) -> tensor<1x5xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<1x5x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<1x5x1xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = call @_where(%13, %12, %cst_4) : (tensor<i1>, tensor<1x5x1xf32>, tensor<f32>) -> tensor<1x5x1xf32>
    return %14 : tensor<1x5x1xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x5x1xf32>, %arg2: tensor<f32>) -> tensor<1x5x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x5x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<1x5x1xf32>
    return %2 : tensor<1x5x1xf32>
  }
  func.func private @_var_0(%arg0: tensor<1x16xf32>, %arg1: tensor<i32>) -> tensor<1x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<1x16xf32>, tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<1x16xf32>
    %6 = chlo.square %5 : tensor<1x16xf32> -> tensor<1x16xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<1x16xf32>, tensor<f32>) -> tensor<1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<1x1xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = call @_where_1(%13, %12, %cst_4) : (tensor<i1>, tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
    return %14 : tensor<1x1xf32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<1x1xf32>, %arg2: tensor<f32>) -> tensor<1x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<1x1xf32>
    return %2 : tensor<1x1xf32>
  }
}

