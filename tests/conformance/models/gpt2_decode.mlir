module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32>, %arg1: tensor<64x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16x16xf32>, %arg8: tensor<48xf32>, %arg9: tensor<16x48xf32>, %arg10: tensor<64xf32>, %arg11: tensor<16x64xf32>, %arg12: tensor<16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16x16xf32>, %arg15: tensor<32x16xf32>, %arg16: tensor<1x2x2x16x8xf32>, %arg17: tensor<1xi32>, %arg18: tensor<i32>) -> (tensor<1x32xf32> {jax.result_info = "result[0]"}, tensor<1x2x2x16x8xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.compare LT, %arg17, %0, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %c_0 = stablehlo.constant dense<32> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.add %arg17, %2 : tensor<1xi32>
    %4 = stablehlo.select %1, %3, %arg17 : tensor<1xi1>, tensor<1xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %6 = "stablehlo.gather"(%arg15, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<32x16xf32>, tensor<1x1xi32>) -> tensor<1x16xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.compare LT, %arg18, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<16> : tensor<i32>
    %8 = stablehlo.add %arg18, %c_2 : tensor<i32>
    %9 = stablehlo.select %7, %8, %arg18 : tensor<i1>, tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %10 = stablehlo.compare LT, %c_3, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %c_6 = stablehlo.constant dense<16> : tensor<i32>
    %11 = stablehlo.add %c_5, %c_6 : tensor<i32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.select %10, %11, %c_7 : tensor<i1>, tensor<i32>
    %13 = stablehlo.dynamic_slice %arg14, %9, %12, sizes = [1, 16] : (tensor<16x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x16xf32>) -> tensor<16xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %16 = stablehlo.add %6, %15 : tensor<1x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<1x16xf32>, tensor<f32>) -> tensor<1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_8 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %20 = stablehlo.divide %18, %19 : tensor<1x1xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %22 = stablehlo.subtract %16, %21 : tensor<1x16xf32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %23 = call @_var(%16, %c_9) : (tensor<1x16xf32>, tensor<i32>) -> tensor<1x1xf32>
    %cst_10 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %25 = stablehlo.add %23, %24 : tensor<1x1xf32>
    %26 = stablehlo.rsqrt %25 : tensor<1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %28 = stablehlo.multiply %22, %27 : tensor<1x16xf32>
    %29 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<1x16xf32>
    %31 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %32 = stablehlo.add %30, %31 : tensor<1x16xf32>
    %33 = stablehlo.reshape %arg16 : (tensor<1x2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
    %34 = stablehlo.dot_general %32, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x48xf32>) -> tensor<1x48xf32>
    %35 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %36 = stablehlo.add %34, %35 : tensor<1x48xf32>
    %37 = stablehlo.slice %36 [0:1, 0:16] : (tensor<1x48xf32>) -> tensor<1x16xf32>
    %38 = stablehlo.slice %36 [0:1, 16:32] : (tensor<1x48xf32>) -> tensor<1x16xf32>
    %39 = stablehlo.slice %36 [0:1, 32:48] : (tensor<1x48xf32>) -> tensor<1x16xf32>
    %40 = stablehlo.reshape %37 : (tensor<1x16xf32>) -> tensor<1x2x8xf32>
    %41 = stablehlo.reshape %38 : (tensor<1x16xf32>) -> tensor<1x2x8xf32>
    %42 = stablehlo.reshape %39 : (tensor<1x16xf32>) -> tensor<1x2x8xf32>
    %43 = stablehlo.broadcast_in_dim %41, dims = [1, 2, 3] : (tensor<1x2x8xf32>) -> tensor<1x1x2x8xf32>
    %44 = stablehlo.broadcast_in_dim %42, dims = [1, 2, 3] : (tensor<1x2x8xf32>) -> tensor<1x1x2x8xf32>
    %45 = stablehlo.concatenate %43, %44, dim = 0 : (tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>) -> tensor<2x1x2x8xf32>
    %46 = stablehlo.transpose %45, dims = [0, 2, 1, 3] : (tensor<2x1x2x8xf32>) -> tensor<2x2x1x8xf32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %47 = stablehlo.compare LT, %arg18, %c_11, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_12 = stablehlo.constant dense<16> : tensor<i32>
    %48 = stablehlo.add %arg18, %c_12 : tensor<i32>
    %49 = stablehlo.select %47, %48, %arg18 : tensor<i1>, tensor<i32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %50 = stablehlo.dynamic_update_slice %33, %46, %c_13, %c_14, %49, %c_15 : (tensor<2x2x16x8xf32>, tensor<2x2x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x16x8xf32>
    %51 = stablehlo.slice %50 [0:1, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %52 = stablehlo.reshape %51 : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %53 = stablehlo.slice %50 [1:2, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %54 = stablehlo.reshape %53 : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %55 = stablehlo.dot_general %52, %40, batching_dims = [0] x [1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x16x8xf32>, tensor<1x2x8xf32>) -> tensor<2x16x1xf32>
    %56 = stablehlo.transpose %55, dims = [2, 0, 1] : (tensor<2x16x1xf32>) -> tensor<1x2x16xf32>
    %cst_16 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x2x16xf32>
    %58 = stablehlo.divide %56, %57 : tensor<1x2x16xf32>
    %59 = stablehlo.iota dim = 0 : tensor<16xi32>
    %60 = stablehlo.broadcast_in_dim %arg18, dims = [] : (tensor<i32>) -> tensor<16xi32>
    %61 = stablehlo.compare LE, %59, %60, SIGNED : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %cst_17 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %62 = call @_where_0(%61, %58, %cst_17) : (tensor<16xi1>, tensor<1x2x16xf32>, tensor<f32>) -> tensor<1x2x16xf32>
    %cst_18 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %63 = stablehlo.reduce(%62 init: %cst_18) applies stablehlo.maximum across dimensions = [2] : (tensor<1x2x16xf32>, tensor<f32>) -> tensor<1x2xf32>
    %cst_19 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x2xf32>
    %65 = stablehlo.maximum %64, %63 : tensor<1x2xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<1x2x1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x2x1xf32>) -> tensor<1x2x16xf32>
    %68 = stablehlo.subtract %62, %67 : tensor<1x2x16xf32>
    %69 = stablehlo.exponential %68 : tensor<1x2x16xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %70 = stablehlo.reduce(%69 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<1x2x16xf32>, tensor<f32>) -> tensor<1x2xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<1x2x1xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<1x2x1xf32>) -> tensor<1x2x16xf32>
    %73 = stablehlo.divide %69, %72 : tensor<1x2x16xf32>
    %74 = stablehlo.dot_general %54, %73, batching_dims = [0] x [1], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x16x8xf32>, tensor<1x2x16xf32>) -> tensor<2x8x1xf32>
    %75 = stablehlo.transpose %74, dims = [2, 0, 1] : (tensor<2x8x1xf32>) -> tensor<1x2x8xf32>
    %76 = stablehlo.reshape %75 : (tensor<1x2x8xf32>) -> tensor<1x16xf32>
    %77 = stablehlo.dot_general %76, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
    %78 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %79 = stablehlo.add %77, %78 : tensor<1x16xf32>
    %80 = stablehlo.add %16, %79 : tensor<1x16xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %81 = stablehlo.reduce(%80 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<1x16xf32>, tensor<f32>) -> tensor<1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_22 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %84 = stablehlo.divide %82, %83 : tensor<1x1xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %86 = stablehlo.subtract %80, %85 : tensor<1x16xf32>
    %c_23 = stablehlo.constant dense<0> : tensor<i32>
    %87 = call @_var(%80, %c_23) : (tensor<1x16xf32>, tensor<i32>) -> tensor<1x1xf32>
    %cst_24 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %89 = stablehlo.add %87, %88 : tensor<1x1xf32>
    %90 = stablehlo.rsqrt %89 : tensor<1x1xf32>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %92 = stablehlo.multiply %86, %91 : tensor<1x16xf32>
    %93 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %94 = stablehlo.multiply %92, %93 : tensor<1x16xf32>
    %95 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %96 = stablehlo.add %94, %95 : tensor<1x16xf32>
    %97 = stablehlo.dot_general %96, %arg11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x64xf32>) -> tensor<1x64xf32>
    %98 = stablehlo.broadcast_in_dim %arg10, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %99 = stablehlo.add %97, %98 : tensor<1x64xf32>
    %100 = stablehlo.multiply %99, %99 : tensor<1x64xf32>
    %101 = stablehlo.multiply %100, %99 : tensor<1x64xf32>
    %cst_25 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
    %103 = stablehlo.multiply %102, %101 : tensor<1x64xf32>
    %104 = stablehlo.add %99, %103 : tensor<1x64xf32>
    %cst_26 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
    %106 = stablehlo.multiply %105, %104 : tensor<1x64xf32>
    %107 = stablehlo.tanh %106 : tensor<1x64xf32>
    %cst_27 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
    %109 = stablehlo.add %108, %107 : tensor<1x64xf32>
    %cst_28 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
    %111 = stablehlo.multiply %110, %109 : tensor<1x64xf32>
    %112 = stablehlo.multiply %99, %111 : tensor<1x64xf32>
    %113 = stablehlo.dot_general %112, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x64xf32>, tensor<64x16xf32>) -> tensor<1x16xf32>
    %114 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %115 = stablehlo.add %113, %114 : tensor<1x16xf32>
    %116 = stablehlo.add %80, %115 : tensor<1x16xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %117 = stablehlo.reduce(%116 init: %cst_29) applies stablehlo.add across dimensions = [1] : (tensor<1x16xf32>, tensor<f32>) -> tensor<1xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_30 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %120 = stablehlo.divide %118, %119 : tensor<1x1xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %122 = stablehlo.subtract %116, %121 : tensor<1x16xf32>
    %c_31 = stablehlo.constant dense<0> : tensor<i32>
    %123 = call @_var(%116, %c_31) : (tensor<1x16xf32>, tensor<i32>) -> tensor<1x1xf32>
    %cst_32 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %124 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %125 = stablehlo.add %123, %124 : tensor<1x1xf32>
    %126 = stablehlo.rsqrt %125 : tensor<1x1xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x16xf32>
    %128 = stablehlo.multiply %122, %127 : tensor<1x16xf32>
    %129 = stablehlo.broadcast_in_dim %arg13, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %130 = stablehlo.multiply %128, %129 : tensor<1x16xf32>
    %131 = stablehlo.broadcast_in_dim %arg12, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %132 = stablehlo.add %130, %131 : tensor<1x16xf32>
    %133 = stablehlo.transpose %arg15, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %134 = stablehlo.dot_general %132, %133, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x16xf32>, tensor<16x32xf32>) -> tensor<1x32xf32>
    %135 = stablehlo.broadcast_in_dim %50, dims = [1, 2, 3, 4] : (tensor<2x2x16x8xf32>) -> tensor<1x2x2x16x8xf32>
    return %134, %135 : tensor<1x32xf32>, tensor<1x2x2x16x8xf32>
  }
  func.func private @_var(%arg0: tensor<1x16xf32>, %arg1: tensor<i32>) -> tensor<1x1xf32> {
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
    %14 = call @_where(%13, %12, %cst_4) : (tensor<i1>, tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
    return %14 : tensor<1x1xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x1xf32>, %arg2: tensor<f32>) -> tensor<1x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<1x1xf32>
    return %2 : tensor<1x1xf32>
  }
  func.func private @_where_0(%arg0: tensor<16xi1>, %arg1: tensor<1x2x16xf32>, %arg2: tensor<f32>) -> tensor<1x2x16xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<16xi1>) -> tensor<1x2x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x2x16xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x2x16xi1>, tensor<1x2x16xf32>
    return %3 : tensor<1x2x16xf32>
  }
}

