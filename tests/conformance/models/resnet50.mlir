module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<10xf32>, %arg1: tensor<64x10xf32>, %arg2: tensor<1x1x8x8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<8xf32>, %arg7: tensor<3x3x8x8xf32>, %arg8: tensor<8xf32>, %arg9: tensor<8xf32>, %arg10: tensor<8xf32>, %arg11: tensor<8xf32>, %arg12: tensor<1x1x8x32xf32>, %arg13: tensor<32xf32>, %arg14: tensor<32xf32>, %arg15: tensor<32xf32>, %arg16: tensor<32xf32>, %arg17: tensor<1x1x8x32xf32>, %arg18: tensor<32xf32>, %arg19: tensor<32xf32>, %arg20: tensor<32xf32>, %arg21: tensor<32xf32>, %arg22: tensor<1x1x32x16xf32>, %arg23: tensor<16xf32>, %arg24: tensor<16xf32>, %arg25: tensor<16xf32>, %arg26: tensor<16xf32>, %arg27: tensor<3x3x16x16xf32>, %arg28: tensor<16xf32>, %arg29: tensor<16xf32>, %arg30: tensor<16xf32>, %arg31: tensor<16xf32>, %arg32: tensor<1x1x16x64xf32>, %arg33: tensor<64xf32>, %arg34: tensor<64xf32>, %arg35: tensor<64xf32>, %arg36: tensor<64xf32>, %arg37: tensor<1x1x32x64xf32>, %arg38: tensor<64xf32>, %arg39: tensor<64xf32>, %arg40: tensor<64xf32>, %arg41: tensor<64xf32>, %arg42: tensor<7x7x3x8xf32>, %arg43: tensor<8xf32>, %arg44: tensor<8xf32>, %arg45: tensor<8xf32>, %arg46: tensor<8xf32>, %arg47: tensor<1x32x32x3xf32>) -> (tensor<1x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg47, %arg42) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[2, 3], [2, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x32x32x3xf32>, tensor<7x7x3x8xf32>) -> tensor<1x16x16x8xf32>
    %1 = stablehlo.reshape %arg44 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %2 = stablehlo.reshape %arg46 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x1x1x8xf32>
    %4 = stablehlo.add %2, %3 : tensor<1x1x1x8xf32>
    %5 = stablehlo.rsqrt %4 : tensor<1x1x1x8xf32>
    %6 = stablehlo.reshape %arg45 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<1x1x1x8xf32>
    %8 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x16x16x8xf32>
    %9 = stablehlo.subtract %0, %8 : tensor<1x16x16x8xf32>
    %10 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x16x16x8xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<1x16x16x8xf32>
    %12 = stablehlo.reshape %arg43 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x16x16x8xf32>
    %14 = stablehlo.add %11, %13 : tensor<1x16x16x8xf32>
    %15 = call @relu(%14) : (tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
    %17 = "stablehlo.reduce_window"(%15, %16) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg48: tensor<f32>, %arg49: tensor<f32>):
      %152 = stablehlo.maximum %arg48, %arg49 : tensor<f32>
      stablehlo.return %152 : tensor<f32>
    }) : (tensor<1x16x16x8xf32>, tensor<f32>) -> tensor<1x8x8x8xf32>
    %18 = stablehlo.convolution(%17, %arg2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x8x8x8xf32>
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
    %49 = call @relu_0(%48) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
    %50 = stablehlo.convolution(%49, %arg12) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<1x1x8x32xf32>) -> tensor<1x8x8x32xf32>
    %51 = stablehlo.reshape %arg14 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %52 = stablehlo.reshape %arg16 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1x1x32xf32>
    %54 = stablehlo.add %52, %53 : tensor<1x1x1x32xf32>
    %55 = stablehlo.rsqrt %54 : tensor<1x1x1x32xf32>
    %56 = stablehlo.reshape %arg15 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %57 = stablehlo.multiply %55, %56 : tensor<1x1x1x32xf32>
    %58 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x8x8x32xf32>
    %59 = stablehlo.subtract %50, %58 : tensor<1x8x8x32xf32>
    %60 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x8x8x32xf32>
    %61 = stablehlo.multiply %59, %60 : tensor<1x8x8x32xf32>
    %62 = stablehlo.reshape %arg13 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x8x8x32xf32>
    %64 = stablehlo.add %61, %63 : tensor<1x8x8x32xf32>
    %65 = stablehlo.convolution(%17, %arg17) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x8xf32>, tensor<1x1x8x32xf32>) -> tensor<1x8x8x32xf32>
    %66 = stablehlo.reshape %arg19 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %67 = stablehlo.reshape %arg21 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x1x1x32xf32>
    %69 = stablehlo.add %67, %68 : tensor<1x1x1x32xf32>
    %70 = stablehlo.rsqrt %69 : tensor<1x1x1x32xf32>
    %71 = stablehlo.reshape %arg20 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %72 = stablehlo.multiply %70, %71 : tensor<1x1x1x32xf32>
    %73 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x8x8x32xf32>
    %74 = stablehlo.subtract %65, %73 : tensor<1x8x8x32xf32>
    %75 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x8x8x32xf32>
    %76 = stablehlo.multiply %74, %75 : tensor<1x8x8x32xf32>
    %77 = stablehlo.reshape %arg18 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x8x8x32xf32>
    %79 = stablehlo.add %76, %78 : tensor<1x8x8x32xf32>
    %80 = stablehlo.add %64, %79 : tensor<1x8x8x32xf32>
    %81 = call @relu_1(%80) : (tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
    %82 = stablehlo.convolution(%81, %arg22) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x32xf32>, tensor<1x1x32x16xf32>) -> tensor<1x8x8x16xf32>
    %83 = stablehlo.reshape %arg24 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %84 = stablehlo.reshape %arg26 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %86 = stablehlo.add %84, %85 : tensor<1x1x1x16xf32>
    %87 = stablehlo.rsqrt %86 : tensor<1x1x1x16xf32>
    %88 = stablehlo.reshape %arg25 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %89 = stablehlo.multiply %87, %88 : tensor<1x1x1x16xf32>
    %90 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %91 = stablehlo.subtract %82, %90 : tensor<1x8x8x16xf32>
    %92 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %93 = stablehlo.multiply %91, %92 : tensor<1x8x8x16xf32>
    %94 = stablehlo.reshape %arg23 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x8x8x16xf32>
    %96 = stablehlo.add %93, %95 : tensor<1x8x8x16xf32>
    %97 = call @relu_2(%96) : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
    %98 = stablehlo.convolution(%97, %arg27) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x4x4x16xf32>
    %99 = stablehlo.reshape %arg29 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %100 = stablehlo.reshape %arg31 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_6 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %102 = stablehlo.add %100, %101 : tensor<1x1x1x16xf32>
    %103 = stablehlo.rsqrt %102 : tensor<1x1x1x16xf32>
    %104 = stablehlo.reshape %arg30 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %105 = stablehlo.multiply %103, %104 : tensor<1x1x1x16xf32>
    %106 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %107 = stablehlo.subtract %98, %106 : tensor<1x4x4x16xf32>
    %108 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %109 = stablehlo.multiply %107, %108 : tensor<1x4x4x16xf32>
    %110 = stablehlo.reshape %arg28 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x4x4x16xf32>
    %112 = stablehlo.add %109, %111 : tensor<1x4x4x16xf32>
    %113 = call @relu_3(%112) : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
    %114 = stablehlo.convolution(%113, %arg32) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x4x4x16xf32>, tensor<1x1x16x64xf32>) -> tensor<1x4x4x64xf32>
    %115 = stablehlo.reshape %arg34 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %116 = stablehlo.reshape %arg36 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_7 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %118 = stablehlo.add %116, %117 : tensor<1x1x1x64xf32>
    %119 = stablehlo.rsqrt %118 : tensor<1x1x1x64xf32>
    %120 = stablehlo.reshape %arg35 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %121 = stablehlo.multiply %119, %120 : tensor<1x1x1x64xf32>
    %122 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x4x4x64xf32>
    %123 = stablehlo.subtract %114, %122 : tensor<1x4x4x64xf32>
    %124 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x4x4x64xf32>
    %125 = stablehlo.multiply %123, %124 : tensor<1x4x4x64xf32>
    %126 = stablehlo.reshape %arg33 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x4x4x64xf32>
    %128 = stablehlo.add %125, %127 : tensor<1x4x4x64xf32>
    %129 = stablehlo.convolution(%81, %arg37) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x32xf32>, tensor<1x1x32x64xf32>) -> tensor<1x4x4x64xf32>
    %130 = stablehlo.reshape %arg39 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %131 = stablehlo.reshape %arg41 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %133 = stablehlo.add %131, %132 : tensor<1x1x1x64xf32>
    %134 = stablehlo.rsqrt %133 : tensor<1x1x1x64xf32>
    %135 = stablehlo.reshape %arg40 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %136 = stablehlo.multiply %134, %135 : tensor<1x1x1x64xf32>
    %137 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x4x4x64xf32>
    %138 = stablehlo.subtract %129, %137 : tensor<1x4x4x64xf32>
    %139 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x4x4x64xf32>
    %140 = stablehlo.multiply %138, %139 : tensor<1x4x4x64xf32>
    %141 = stablehlo.reshape %arg38 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %142 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x4x4x64xf32>
    %143 = stablehlo.add %140, %142 : tensor<1x4x4x64xf32>
    %144 = stablehlo.add %128, %143 : tensor<1x4x4x64xf32>
    %145 = call @relu_4(%144) : (tensor<1x4x4x64xf32>) -> tensor<1x4x4x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %146 = stablehlo.reduce(%145 init: %cst_9) applies stablehlo.add across dimensions = [1, 2] : (tensor<1x4x4x64xf32>, tensor<f32>) -> tensor<1x64xf32>
    %cst_10 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
    %148 = stablehlo.divide %146, %147 : tensor<1x64xf32>
    %149 = stablehlo.dot_general %148, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x64xf32>, tensor<64x10xf32>) -> tensor<1x10xf32>
    %150 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %151 = stablehlo.add %149, %150 : tensor<1x10xf32>
    return %151 : tensor<1x10xf32>
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
  func.func private @relu_1(%arg0: tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x8x8x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x8x8x32xf32>
    return %1 : tensor<1x8x8x32xf32>
  }
  func.func private @relu_2(%arg0: tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x8x8x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x8x8x16xf32>
    return %1 : tensor<1x8x8x16xf32>
  }
  func.func private @relu_3(%arg0: tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x4x4x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x4x4x16xf32>
    return %1 : tensor<1x4x4x16xf32>
  }
  func.func private @relu_4(%arg0: tensor<1x4x4x64xf32>) -> tensor<1x4x4x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x4x4x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x4x4x64xf32>
    return %1 : tensor<1x4x4x64xf32>
  }
}

