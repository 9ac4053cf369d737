module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<3x3x16x16xf32>, %arg3: tensor<3x3x16x16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16xf32>, %arg9: tensor<16xf32>, %arg10: tensor<16xf32>, %arg11: tensor<16x16xf32>, %arg12: tensor<48xf32>, %arg13: tensor<16x48xf32>, %arg14: tensor<16xf32>, %arg15: tensor<16x16xf32>, %arg16: tensor<1x8x8x16xf32>, %arg17: tensor<1x16xf32>) -> (tensor<1x8x8x16xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.reshape %arg16 : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x4x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<1x8x8x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 3] : (tensor<1x4xf32>) -> tensor<1x1x1x4x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<1x1x1x4x1xf32>
    %5 = chlo.square %0 : tensor<1x8x8x4x4xf32> -> tensor<1x8x8x4x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst_1) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<1x8x8x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 3] : (tensor<1x4xf32>) -> tensor<1x1x1x4x1xf32>
    %cst_2 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %9 = stablehlo.divide %7, %8 : tensor<1x1x1x4x1xf32>
    %10 = chlo.square %4 : tensor<1x1x1x4x1xf32> -> tensor<1x1x1x4x1xf32>
    %11 = stablehlo.subtract %9, %10 : tensor<1x1x1x4x1xf32>
    %12 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x4x1xf32>) -> tensor<1x8x8x4x4xf32>
    %13 = stablehlo.subtract %0, %12 : tensor<1x8x8x4x4xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %15 = stablehlo.add %11, %14 : tensor<1x1x1x4x1xf32>
    %16 = stablehlo.rsqrt %15 : tensor<1x1x1x4x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x4x1xf32>) -> tensor<1x8x8x4x4xf32>
    %18 = stablehlo.multiply %13, %17 : tensor<1x8x8x4x4xf32>
    %19 = stablehlo.reshape %18 : (tensor<1x8x8x4x4xf32>) -> tensor<1x8x8x16xf32>
    %20 = stablehlo.broadcast_in_dim %arg5, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %22 = stablehlo.multiply %19, %21 : tensor<1x8x8x16xf32>
    %23 = stablehlo.broadcast_in_dim %arg4, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %25 = stablehlo.add %22, %24 : tensor<1x8x8x16xf32>
    %26 = call @silu(%25) : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
    %27 = stablehlo.convolution(%26, %arg2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x8x8x16xf32>
    %28 = stablehlo.broadcast_in_dim %arg0, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %30 = stablehlo.add %27, %29 : tensor<1x8x8x16xf32>
    %31 = call @silu_0(%arg17) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %32 = stablehlo.dot_general %31, %arg15, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
    %33 = stablehlo.broadcast_in_dim %arg14, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %34 = stablehlo.add %32, %33 : tensor<1x16xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 3] : (tensor<1x16xf32>) -> tensor<1x1x1x16xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %37 = stablehlo.add %30, %36 : tensor<1x8x8x16xf32>
    %38 = stablehlo.reshape %37 : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x4x4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_4) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<1x8x8x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 3] : (tensor<1x4xf32>) -> tensor<1x1x1x4x1xf32>
    %cst_5 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %42 = stablehlo.divide %40, %41 : tensor<1x1x1x4x1xf32>
    %43 = chlo.square %38 : tensor<1x8x8x4x4xf32> -> tensor<1x8x8x4x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_6) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<1x8x8x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 3] : (tensor<1x4xf32>) -> tensor<1x1x1x4x1xf32>
    %cst_7 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %47 = stablehlo.divide %45, %46 : tensor<1x1x1x4x1xf32>
    %48 = chlo.square %42 : tensor<1x1x1x4x1xf32> -> tensor<1x1x1x4x1xf32>
    %49 = stablehlo.subtract %47, %48 : tensor<1x1x1x4x1xf32>
    %50 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x4x1xf32>) -> tensor<1x8x8x4x4xf32>
    %51 = stablehlo.subtract %38, %50 : tensor<1x8x8x4x4xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %53 = stablehlo.add %49, %52 : tensor<1x1x1x4x1xf32>
    %54 = stablehlo.rsqrt %53 : tensor<1x1x1x4x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x4x1xf32>) -> tensor<1x8x8x4x4xf32>
    %56 = stablehlo.multiply %51, %55 : tensor<1x8x8x4x4xf32>
    %57 = stablehlo.reshape %56 : (tensor<1x8x8x4x4xf32>) -> tensor<1x8x8x16xf32>
    %58 = stablehlo.broadcast_in_dim %arg7, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %60 = stablehlo.multiply %57, %59 : tensor<1x8x8x16xf32>
    %61 = stablehlo.broadcast_in_dim %arg6, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %63 = stablehlo.add %60, %62 : tensor<1x8x8x16xf32>
    %64 = call @silu(%63) : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
    %65 = stablehlo.convolution(%64, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x8x8x16xf32>
    %66 = stablehlo.broadcast_in_dim %arg1, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %68 = stablehlo.add %65, %67 : tensor<1x8x8x16xf32>
    %69 = stablehlo.add %arg16, %68 : tensor<1x8x8x16xf32>
    %70 = stablehlo.reshape %69 : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x4x4xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_9) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<1x8x8x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 3] : (tensor<1x4xf32>) -> tensor<1x1x1x4x1xf32>
    %cst_10 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %74 = stablehlo.divide %72, %73 : tensor<1x1x1x4x1xf32>
    %75 = chlo.square %70 : tensor<1x8x8x4x4xf32> -> tensor<1x8x8x4x4xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_11) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<1x8x8x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 3] : (tensor<1x4xf32>) -> tensor<1x1x1x4x1xf32>
    %cst_12 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %78 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %79 = stablehlo.divide %77, %78 : tensor<1x1x1x4x1xf32>
    %80 = chlo.square %74 : tensor<1x1x1x4x1xf32> -> tensor<1x1x1x4x1xf32>
    %81 = stablehlo.subtract %79, %80 : tensor<1x1x1x4x1xf32>
    %82 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x4x1xf32>) -> tensor<1x8x8x4x4xf32>
    %83 = stablehlo.subtract %70, %82 : tensor<1x8x8x4x4xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x1x1x4x1xf32>
    %85 = stablehlo.add %81, %84 : tensor<1x1x1x4x1xf32>
    %86 = stablehlo.rsqrt %85 : tensor<1x1x1x4x1xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x4x1xf32>) -> tensor<1x8x8x4x4xf32>
    %88 = stablehlo.multiply %83, %87 : tensor<1x8x8x4x4xf32>
    %89 = stablehlo.reshape %88 : (tensor<1x8x8x4x4xf32>) -> tensor<1x8x8x16xf32>
    %90 = stablehlo.broadcast_in_dim %arg9, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %92 = stablehlo.multiply %89, %91 : tensor<1x8x8x16xf32>
    %93 = stablehlo.broadcast_in_dim %arg8, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %95 = stablehlo.add %92, %94 : tensor<1x8x8x16xf32>
    %96 = stablehlo.slice %95 [0:1, 0:8:4, 0:8:4, 0:16] : (tensor<1x8x8x16xf32>) -> tensor<1x2x2x16xf32>
    %97 = stablehlo.reshape %96 : (tensor<1x2x2x16xf32>) -> tensor<1x4x16xf32>
    %98 = stablehlo.dot_general %97, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16xf32>, tensor<16x48xf32>) -> tensor<1x4x48xf32>
    %99 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<1x4x48xf32>
    %101 = stablehlo.add %98, %100 : tensor<1x4x48xf32>
    %102 = stablehlo.slice %101 [0:1, 0:4, 0:16] : (tensor<1x4x48xf32>) -> tensor<1x4x16xf32>
    %103 = stablehlo.slice %101 [0:1, 0:4, 16:32] : (tensor<1x4x48xf32>) -> tensor<1x4x16xf32>
    %104 = stablehlo.slice %101 [0:1, 0:4, 32:48] : (tensor<1x4x48xf32>) -> tensor<1x4x16xf32>
    %105 = stablehlo.reshape %102 : (tensor<1x4x16xf32>) -> tensor<1x4x4x4xf32>
    %106 = stablehlo.reshape %103 : (tensor<1x4x16xf32>) -> tensor<1x4x4x4xf32>
    %107 = stablehlo.reshape %104 : (tensor<1x4x16xf32>) -> tensor<1x4x4x4xf32>
    %108 = stablehlo.reshape %105 : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x1x4xf32>
    %109 = stablehlo.dot_general %108, %106, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x4x4x1x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x1x4xf32>
    %cst_14 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x4x4x1x4xf32>
    %111 = stablehlo.multiply %109, %110 : tensor<1x4x4x1x4xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %112 = stablehlo.reduce(%111 init: %cst_15) applies stablehlo.maximum across dimensions = [4] : (tensor<1x4x4x1x4xf32>, tensor<f32>) -> tensor<1x4x4x1xf32>
    %cst_16 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %113 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x4x4x1xf32>
    %114 = stablehlo.maximum %113, %112 : tensor<1x4x4x1xf32>
    %115 = stablehlo.transpose %114, dims = [3, 0, 1, 2] : (tensor<1x4x4x1xf32>) -> tensor<1x1x4x4xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2, 3] : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4x1xf32>
    %117 = stablehlo.transpose %111, dims = [3, 0, 1, 2, 4] : (tensor<1x4x4x1x4xf32>) -> tensor<1x1x4x4x4xf32>
    %118 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3, 4] : (tensor<1x1x4x4x1xf32>) -> tensor<1x1x4x4x4xf32>
    %119 = stablehlo.subtract %117, %118 : tensor<1x1x4x4x4xf32>
    %120 = stablehlo.exponential %119 : tensor<1x1x4x4x4xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.reduce(%120 init: %cst_17) applies stablehlo.add across dimensions = [4] : (tensor<1x1x4x4x4xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
    %122 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4x1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2, 3, 4] : (tensor<1x1x4x4x1xf32>) -> tensor<1x1x4x4x4xf32>
    %124 = stablehlo.divide %120, %123 : tensor<1x1x4x4x4xf32>
    %125 = stablehlo.dot_general %107, %124, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x4x4x4xf32>, tensor<1x1x4x4x4xf32>) -> tensor<1x4x4x1x4xf32>
    %126 = stablehlo.transpose %125, dims = [3, 0, 4, 1, 2] : (tensor<1x4x4x1x4xf32>) -> tensor<1x1x4x4x4xf32>
    %127 = stablehlo.transpose %126, dims = [1, 2, 3, 0, 4] : (tensor<1x1x4x4x4xf32>) -> tensor<1x4x4x1x4xf32>
    %128 = stablehlo.reshape %127 : (tensor<1x4x4x1x4xf32>) -> tensor<1x4x4x4xf32>
    %129 = stablehlo.reshape %128 : (tensor<1x4x4x4xf32>) -> tensor<1x4x16xf32>
    %130 = stablehlo.dot_general %129, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16xf32>, tensor<16x16xf32>) -> tensor<1x4x16xf32>
    %131 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x4x16xf32>
    %133 = stablehlo.add %130, %132 : tensor<1x4x16xf32>
    %134 = stablehlo.reshape %133 : (tensor<1x4x16xf32>) -> tensor<1x2x2x16xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 3, 4] : (tensor<1x2x2x16xf32>) -> tensor<1x2x4x2x16xf32>
    %136 = stablehlo.reshape %135 : (tensor<1x2x4x2x16xf32>) -> tensor<1x8x2x16xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2, 4] : (tensor<1x8x2x16xf32>) -> tensor<1x8x2x4x16xf32>
    %138 = stablehlo.reshape %137 : (tensor<1x8x2x4x16xf32>) -> tensor<1x8x8x16xf32>
    %139 = stablehlo.add %69, %138 : tensor<1x8x8x16xf32>
    return %139 : tensor<1x8x8x16xf32>
  }
  func.func private @silu(%arg0: tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
    %0 = stablehlo.negate %arg0 : tensor<1x8x8x16xf32>
    %1 = stablehlo.exponential %0 : tensor<1x8x8x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x8x8x16xf32>
    %3 = stablehlo.add %2, %1 : tensor<1x8x8x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x8x8x16xf32>
    %5 = stablehlo.divide %4, %3 : tensor<1x8x8x16xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x8x8x16xf32>
    return %6 : tensor<1x8x8x16xf32>
  }
  func.func private @silu_0(%arg0: tensor<1x16xf32>) -> tensor<1x16xf32> {
    %0 = stablehlo.negate %arg0 : tensor<1x16xf32>
    %1 = stablehlo.exponential %0 : tensor<1x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %3 = stablehlo.add %2, %1 : tensor<1x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %5 = stablehlo.divide %4, %3 : tensor<1x16xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x16xf32>
    return %6 : tensor<1x16xf32>
  }
}

