module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<10xf32>, %arg1: tensor<16x10xf32>, %arg2: tensor<3x3x8x8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<8xf32>, %arg7: tensor<3x3x8x8xf32>, %arg8: tensor<8xf32>, %arg9: tensor<8xf32>, %arg10: tensor<8xf32>, %arg11: tensor<8xf32>, %arg12: tensor<3x3x8x16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16xf32>, %arg17: tensor<3x3x16x16xf32>, %arg18: tensor<16xf32>, %arg19: tensor<16xf32>, %arg20: tensor<16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<1x1x8x16xf32>, %arg23: tensor<16xf32>, %arg24: tensor<16xf32>, %arg25: tensor<16xf32>, %arg26: tensor<16xf32>, %arg27: tensor<7x7x3x8xf32>, %arg28: tensor<8xf32>, %arg29: tensor<8xf32>, %arg30: tensor<8xf32>, %arg31: tensor<8xf32>, %arg32: tensor<1x32x32x3xf32>) -> (tensor<1x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg32, %arg27) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[2, 3], [2, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x32x32x3xf32>, tensor<7x7x3x8xf32>) -> tensor<1x16x16x8xf32>
    %1 = stablehlo.reshape %arg29 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %2 = stablehlo.reshape %arg31 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x1x1x8xf32>
    %4 = stablehlo.add %2, %3 : tensor<1x1x1x8xf32>
    %5 = stablehlo.rsqrt %4 : tensor<1x1x1x8xf32>
    %6 = stablehlo.reshape %arg30 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<1x1x1x8xf32>
    %8 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x16x16x8xf32>
    %9 = stablehlo.subtract %0, %8 : tensor<1x16x16x8xf32>
    %10 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x16x16x8xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<1x16x16x8xf32>
    %12 = stablehlo.reshape %arg28 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x16x16x8xf32>
    %14 = stablehlo.add %11, %13 : tensor<1x16x16x8xf32>
    %15 = call @relu(%14) : (tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
    %17 = "stablehlo.reduce_window"(%15, %16) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg33: tensor<f32>, %arg34: tensor<f32>):
      %105 = stablehlo.maximum %arg33, %arg34 : tensor<f32>
      stablehlo.return %105 : tensor<f32>
    }) : (tensor<1x16x16x8xf32>, tensor<f32>) -> tensor<1x8x8x8xf32>
    %18 = stablehlo.convolution(%17, %arg2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<3x3x8x8xf32>) -> tensor<1x8x8x8xf32>
    %19 = stablehlo.reshape %arg4 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %20 = stablehlo.reshape %arg6 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x1x1x8xf32>
    %22 = stablehlo.add %20, %21 : tensor<1x1x1x8xf32>
    %23 = stablehlo.rsqrt %22 : tensor<1x1x1x8xf32>
    %24 = stablehlo.reshape %arg5 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %25 = stablehlo.multiply %23, %24 : tensor<1x1x1x8xf32>
    %26 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x8x8x8xf32>
    %27 = stablehlo.subtract %18, %26 : tensor<1x8x8x8xf32>
    %28 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x8x8x8xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<1x8x8x8xf32>
    %30 = stablehlo.reshape %arg3 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x8x8x8xf32>
    %32 = stablehlo.add %29, %31 : tensor<1x8x8x8xf32>
    %33 = call @relu_0(%32) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
    %34 = stablehlo.convolution(%33, %arg7) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<3x3x8x8xf32>) -> tensor<1x8x8x8xf32>
    %35 = stablehlo.reshape %arg9 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %36 = stablehlo.reshape %arg11 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %cst_2 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x1x1x8xf32>
    %38 = stablehlo.add %36, %37 : tensor<1x1x1x8xf32>
    %39 = stablehlo.rsqrt %38 : tensor<1x1x1x8xf32>
    %40 = stablehlo.reshape %arg10 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %41 = stablehlo.multiply %39, %40 : tensor<1x1x1x8xf32>
    %42 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x8x8x8xf32>
    %43 = stablehlo.subtract %34, %42 : tensor<1x8x8x8xf32>
    %44 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x8x8x8xf32>
    %45 = stablehlo.multiply %43, %44 : tensor<1x8x8x8xf32>
    %46 = stablehlo.reshape %arg8 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x8x8x8xf32>
    %48 = stablehlo.add %45, %47 : tensor<1x8x8x8xf32>
    %49 = stablehlo.add %48, %17 : tensor<1x8x8x8xf32>
    %50 = call @relu_0(%49) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
    %51 = stablehlo.convolution(%50, %arg12) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<3x3x8x16xf32>) -> tensor<1x4x4x16xf32>
    %52 = stablehlo.reshape %arg14 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %53 = stablehlo.reshape %arg16 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %55 = stablehlo.add %53, %54 : tensor<1x1x1x16xf32>
    %56 = stablehlo.rsqrt %55 : tensor<1x1x1x16xf32>
    %57 = stablehlo.reshape %arg15 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %58 = stablehlo.multiply %56, %57 : tensor<1x1x1x16xf32>
    %59 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %60 = stablehlo.subtract %51, %59 : tensor<1x4x4x16xf32>
    %61 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %62 = stablehlo.multiply %60, %61 : tensor<1x4x4x16xf32>
    %63 = stablehlo.reshape %arg13 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %65 = stablehlo.add %62, %64 : tensor<1x4x4x16xf32>
    %66 = call @relu_1(%65) : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
    %67 = stablehlo.convolution(%66, %arg17) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x4x4x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x4x4x16xf32>
    %68 = stablehlo.reshape %arg19 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %69 = stablehlo.reshape %arg21 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %71 = stablehlo.add %69, %70 : tensor<1x1x1x16xf32>
    %72 = stablehlo.rsqrt %71 : tensor<1x1x1x16xf32>
    %73 = stablehlo.reshape %arg20 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %74 = stablehlo.multiply %72, %73 : tensor<1x1x1x16xf32>
    %75 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %76 = stablehlo.subtract %67, %75 : tensor<1x4x4x16xf32>
    %77 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %78 = stablehlo.multiply %76, %77 : tensor<1x4x4x16xf32>
    %79 = stablehlo.reshape %arg18 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %81 = stablehlo.add %78, %80 : tensor<1x4x4x16xf32>
    %82 = stablehlo.convolution(%50, %arg22) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x4x16xf32>
    %83 = stablehlo.reshape %arg24 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %84 = stablehlo.reshape %arg26 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %86 = stablehlo.add %84, %85 : tensor<1x1x1x16xf32>
    %87 = stablehlo.rsqrt %86 : tensor<1x1x1x16xf32>
    %88 = stablehlo.reshape %arg25 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %89 = stablehlo.multiply %87, %88 : tensor<1x1x1x16xf32>
    %90 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %91 = stablehlo.subtract %82, %90 : tensor<1x4x4x16xf32>
    %92 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %93 = stablehlo.multiply %91, %92 : tensor<1x4x4x16xf32>
    %94 = stablehlo.reshape %arg23 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %96 = stablehlo.add %93, %95 : tensor<1x4x4x16xf32>
    %97 = stablehlo.add %81, %96 : tensor<1x4x4x16xf32>
    %98 = call @relu_1(%97) : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %99 = stablehlo.reduce(%98 init: %cst_6) applies stablehlo.add across dimensions = [1, 2] : (tensor<1x4x4x16xf32>, tensor<f32>) -> tensor<1x16xf32>
    %cst_7 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %101 = stablehlo.divide %99, %100 : tensor<1x16xf32>
    %102 = stablehlo.dot_general %101, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x10xf32>) -> tensor<1x10xf32>
    %103 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %104 = stablehlo.add %102, %103 : tensor<1x10xf32>
    return %104 : tensor<1x10xf32>
  }
  func.func private @relu(%arg0: tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x16x16x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x16x16x8xf32>
    return %1 : tensor<1x16x16x8xf32>
  }
  func.func private @relu_0(%arg0: tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x8x8x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x8x8x8xf32>
    return %1 : tensor<1x8x8x8xf32>
  }
  func.func private @relu_1(%arg0: tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x4x4x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x4x4x16xf32>
    return %1 : tensor<1x4x4x16xf32>
  }
}

