module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32>, %arg1: tensor<64x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16x16xf32>, %arg8: tensor<48xf32>, %arg9: tensor<16x48xf32>, %arg10: tensor<64xf32>, %arg11: tensor<16x64xf32>, %arg12: tensor<1x8x16xf32>) -> (tensor<1x8x16xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg12 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x8x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %5 = stablehlo.subtract %arg12, %4 : tensor<1x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %6 = call @_var(%arg12, %c) : (tensor<1x8x16xf32>, tensor<i32>) -> tensor<1x8x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %8 = stablehlo.add %6, %7 : tensor<1x8x1xf32>
    %9 = stablehlo.rsqrt %8 : tensor<1x8x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %11 = stablehlo.multiply %5, %10 : tensor<1x8x16xf32>
    %12 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %14 = stablehlo.multiply %11, %13 : tensor<1x8x16xf32>
    %15 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %17 = stablehlo.add %14, %16 : tensor<1x8x16xf32>
    %18 = stablehlo.dot_general %17, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x48xf32>) -> tensor<1x8x48xf32>
    %19 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<1x8x48xf32>
    %21 = stablehlo.add %18, %20 : tensor<1x8x48xf32>
    %22 = stablehlo.slice %21 [0:1, 0:8, 0:16] : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %23 = stablehlo.slice %21 [0:1, 0:8, 16:32] : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %24 = stablehlo.slice %21 [0:1, 0:8, 32:48] : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %25 = stablehlo.reshape %22 : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %26 = stablehlo.reshape %23 : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %27 = stablehlo.reshape %24 : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %28 = stablehlo.reshape %25 : (tensor<1x8x2x8xf32>) -> tensor<1x8x2x1x8xf32>
    %29 = stablehlo.dot_general %28, %26, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x8x2x1x8xf32>, tensor<1x8x2x8xf32>) -> tensor<1x2x8x1x8xf32>
    %cst_2 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x2x8x1x8xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<1x2x8x1x8xf32>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %32 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i1>) -> tensor<1x2x8x8xi1>
    %c_4 = stablehlo.constant dense<true> : tensor<i1>
    %33 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %34 = call @tril(%33) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %35 = stablehlo.broadcast_in_dim %34, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<1x1x8x8xi1>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xi1>) -> tensor<1x2x8x8xi1>
    %37 = stablehlo.and %32, %36 : tensor<1x2x8x8xi1>
    %cst_5 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %38 = call @_where_0(%37, %31, %cst_5) : (tensor<1x2x8x8xi1>, tensor<1x2x8x1x8xf32>, tensor<f32>) -> tensor<1x1x2x8x8xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_6) applies stablehlo.maximum across dimensions = [4] : (tensor<1x1x2x8x8xf32>, tensor<f32>) -> tensor<1x1x2x8xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x1x2x8xf32>
    %41 = stablehlo.maximum %40, %39 : tensor<1x1x2x8xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x2x8xf32>) -> tensor<1x1x2x8x1xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3, 4] : (tensor<1x1x2x8x1xf32>) -> tensor<1x1x2x8x8xf32>
    %44 = stablehlo.subtract %38, %43 : tensor<1x1x2x8x8xf32>
    %45 = stablehlo.exponential %44 : tensor<1x1x2x8x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %46 = stablehlo.reduce(%45 init: %cst_8) applies stablehlo.add across dimensions = [4] : (tensor<1x1x2x8x8xf32>, tensor<f32>) -> tensor<1x1x2x8xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x1x2x8xf32>) -> tensor<1x1x2x8x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3, 4] : (tensor<1x1x2x8x1xf32>) -> tensor<1x1x2x8x8xf32>
    %49 = stablehlo.divide %45, %48 : tensor<1x1x2x8x8xf32>
    %50 = stablehlo.dot_general %27, %49, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x8x2x8xf32>, tensor<1x1x2x8x8xf32>) -> tensor<1x2x8x1x8xf32>
    %51 = stablehlo.transpose %50, dims = [3, 0, 4, 1, 2] : (tensor<1x2x8x1x8xf32>) -> tensor<1x1x8x2x8xf32>
    %52 = stablehlo.transpose %51, dims = [1, 2, 3, 0, 4] : (tensor<1x1x8x2x8xf32>) -> tensor<1x8x2x1x8xf32>
    %53 = stablehlo.reshape %52 : (tensor<1x8x2x1x8xf32>) -> tensor<1x8x2x8xf32>
    %54 = stablehlo.reshape %53 : (tensor<1x8x2x8xf32>) -> tensor<1x8x16xf32>
    %55 = stablehlo.dot_general %54, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %56 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %58 = stablehlo.add %55, %57 : tensor<1x8x16xf32>
    %59 = stablehlo.add %arg12, %58 : tensor<1x8x16xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_10 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %63 = stablehlo.divide %61, %62 : tensor<1x8x1xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %65 = stablehlo.subtract %59, %64 : tensor<1x8x16xf32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %66 = call @_var(%59, %c_11) : (tensor<1x8x16xf32>, tensor<i32>) -> tensor<1x8x1xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %68 = stablehlo.add %66, %67 : tensor<1x8x1xf32>
    %69 = stablehlo.rsqrt %68 : tensor<1x8x1xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %71 = stablehlo.multiply %65, %70 : tensor<1x8x16xf32>
    %72 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %74 = stablehlo.multiply %71, %73 : tensor<1x8x16xf32>
    %75 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %77 = stablehlo.add %74, %76 : tensor<1x8x16xf32>
    %78 = stablehlo.dot_general %77, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x64xf32>) -> tensor<1x8x64xf32>
    %79 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<1x8x64xf32>
    %81 = stablehlo.add %78, %80 : tensor<1x8x64xf32>
    %82 = stablehlo.multiply %81, %81 : tensor<1x8x64xf32>
    %83 = stablehlo.multiply %82, %81 : tensor<1x8x64xf32>
    %cst_13 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x8x64xf32>
    %85 = stablehlo.multiply %84, %83 : tensor<1x8x64xf32>
    %86 = stablehlo.add %81, %85 : tensor<1x8x64xf32>
    %cst_14 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x8x64xf32>
    %88 = stablehlo.multiply %87, %86 : tensor<1x8x64xf32>
    %89 = stablehlo.tanh %88 : tensor<1x8x64xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x8x64xf32>
    %91 = stablehlo.add %90, %89 : tensor<1x8x64xf32>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x8x64xf32>
    %93 = stablehlo.multiply %92, %91 : tensor<1x8x64xf32>
    %94 = stablehlo.multiply %81, %93 : tensor<1x8x64xf32>
    %95 = stablehlo.dot_general %94, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x64xf32>, tensor<64x16xf32>) -> tensor<1x8x16xf32>
    %96 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %98 = stablehlo.add %95, %97 : tensor<1x8x16xf32>
    %99 = stablehlo.add %59, %98 : tensor<1x8x16xf32>
    return %99 : tensor<1x8x16xf32>
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
  func.func private @tril(%arg0: tensor<8x8xi1>) -> tensor<8x8xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x8xi32>
    %2 = stablehlo.add %0, %1 : tensor<8x8xi32>
    %3 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<8x8xi1>, tensor<8x8xi1>
    return %6 : tensor<8x8xi1>
  }
  func.func private @_where_0(%arg0: tensor<1x2x8x8xi1>, %arg1: tensor<1x2x8x1x8xf32>, %arg2: tensor<f32>) -> tensor<1x1x2x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x2x8x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<1x2x8x8xi1>) -> tensor<1x1x2x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<1x2x8x8xf32>) -> tensor<1x1x2x8x8xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<1x2x8x1x8xf32>) -> tensor<1x1x2x8x8xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<1x1x2x8x8xi1>, tensor<1x1x2x8x8xf32>
    return %4 : tensor<1x1x2x8x8xf32>
  }
}

