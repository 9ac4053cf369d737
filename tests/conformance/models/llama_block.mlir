module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<24x16xf32>, %arg1: tensor<16x24xf32>, %arg2: tensor<16x8xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16x16xf32>, %arg6: tensor<16x16xf32>, %arg7: tensor<16x24xf32>, %arg8: tensor<16x8xf32>, %arg9: tensor<1x8x16xf32>) -> (tensor<1x8x16xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.multiply %arg9, %arg9 : tensor<1x8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<1x8x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<1x8x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<1x8x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %9 = stablehlo.multiply %arg9, %8 : tensor<1x8x16xf32>
    %10 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<1x8x16xf32>
    %13 = stablehlo.dot_general %12, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x8x16xf32>) -> tensor<1x8x4x4xf32>
    %15 = stablehlo.dot_general %12, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x8xf32>) -> tensor<1x8x8xf32>
    %16 = stablehlo.reshape %15 : (tensor<1x8x8xf32>) -> tensor<1x8x2x4xf32>
    %17 = stablehlo.dot_general %12, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x8xf32>) -> tensor<1x8x8xf32>
    %18 = stablehlo.reshape %17 : (tensor<1x8x8xf32>) -> tensor<1x8x2x4xf32>
    %19 = stablehlo.iota dim = 0 : tensor<8xi32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %21 = stablehlo.iota dim = 0 : tensor<2xi32>
    %22 = stablehlo.negate %21 : tensor<2xi32>
    %23 = stablehlo.convert %22 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %25 = stablehlo.divide %23, %24 : tensor<2xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %27 = stablehlo.power %26, %25 : tensor<2xf32>
    %28 = stablehlo.convert %20 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %29 = stablehlo.broadcast_in_dim %27, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %30 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %31 = stablehlo.broadcast_in_dim %29, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<8x2xf32>
    %33 = stablehlo.cosine %32 : tensor<8x2xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %35 = stablehlo.sine %32 : tensor<8x2xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %37 = stablehlo.slice %14 [0:1, 0:8, 0:4, 0:2] : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x2xf32>
    %38 = stablehlo.slice %14 [0:1, 0:8, 0:4, 2:4] : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x2xf32>
    %39 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x4x2xf32>
    %41 = stablehlo.multiply %37, %40 : tensor<1x8x4x2xf32>
    %42 = stablehlo.broadcast_in_dim %36, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x4x2xf32>
    %44 = stablehlo.multiply %38, %43 : tensor<1x8x4x2xf32>
    %45 = stablehlo.subtract %41, %44 : tensor<1x8x4x2xf32>
    %46 = stablehlo.broadcast_in_dim %36, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x4x2xf32>
    %48 = stablehlo.multiply %37, %47 : tensor<1x8x4x2xf32>
    %49 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x4x2xf32>
    %51 = stablehlo.multiply %38, %50 : tensor<1x8x4x2xf32>
    %52 = stablehlo.add %48, %51 : tensor<1x8x4x2xf32>
    %53 = stablehlo.concatenate %45, %52, dim = 3 : (tensor<1x8x4x2xf32>, tensor<1x8x4x2xf32>) -> tensor<1x8x4x4xf32>
    %54 = stablehlo.iota dim = 0 : tensor<8xi32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %56 = stablehlo.iota dim = 0 : tensor<2xi32>
    %57 = stablehlo.negate %56 : tensor<2xi32>
    %58 = stablehlo.convert %57 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %60 = stablehlo.divide %58, %59 : tensor<2xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %62 = stablehlo.power %61, %60 : tensor<2xf32>
    %63 = stablehlo.convert %55 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %64 = stablehlo.broadcast_in_dim %62, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %65 = stablehlo.broadcast_in_dim %63, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %66 = stablehlo.broadcast_in_dim %64, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %67 = stablehlo.multiply %65, %66 : tensor<8x2xf32>
    %68 = stablehlo.cosine %67 : tensor<8x2xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %70 = stablehlo.sine %67 : tensor<8x2xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %72 = stablehlo.slice %16 [0:1, 0:8, 0:2, 0:2] : (tensor<1x8x2x4xf32>) -> tensor<1x8x2x2xf32>
    %73 = stablehlo.slice %16 [0:1, 0:8, 0:2, 2:4] : (tensor<1x8x2x4xf32>) -> tensor<1x8x2x2xf32>
    %74 = stablehlo.broadcast_in_dim %69, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x2x2xf32>
    %76 = stablehlo.multiply %72, %75 : tensor<1x8x2x2xf32>
    %77 = stablehlo.broadcast_in_dim %71, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x2x2xf32>
    %79 = stablehlo.multiply %73, %78 : tensor<1x8x2x2xf32>
    %80 = stablehlo.subtract %76, %79 : tensor<1x8x2x2xf32>
    %81 = stablehlo.broadcast_in_dim %71, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x2x2xf32>
    %83 = stablehlo.multiply %72, %82 : tensor<1x8x2x2xf32>
    %84 = stablehlo.broadcast_in_dim %69, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x8x2x2xf32>
    %86 = stablehlo.multiply %73, %85 : tensor<1x8x2x2xf32>
    %87 = stablehlo.add %83, %86 : tensor<1x8x2x2xf32>
    %88 = stablehlo.concatenate %80, %87, dim = 3 : (tensor<1x8x2x2xf32>, tensor<1x8x2x2xf32>) -> tensor<1x8x2x4xf32>
    %89 = stablehlo.reshape %53 : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2x4xf32>
    %90 = stablehlo.dot_general %89, %88, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x8x2x2x4xf32>, tensor<1x8x2x4xf32>) -> tensor<1x2x8x2x8xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x2x8x2x8xf32>
    %92 = stablehlo.multiply %90, %91 : tensor<1x2x8x2x8xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %93 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1x2x8x8xi1>
    %c_7 = stablehlo.constant dense<true> : tensor<i1>
    %94 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %95 = call @tril(%94) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %96 = stablehlo.broadcast_in_dim %95, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<1x1x8x8xi1>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xi1>) -> tensor<1x2x8x8xi1>
    %98 = stablehlo.and %93, %97 : tensor<1x2x8x8xi1>
    %cst_8 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %99 = call @_where(%98, %92, %cst_8) : (tensor<1x2x8x8xi1>, tensor<1x2x8x2x8xf32>, tensor<f32>) -> tensor<2x1x2x8x8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %100 = stablehlo.reduce(%99 init: %cst_9) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x2x8x8xf32>, tensor<f32>) -> tensor<2x1x2x8xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x1x2x8xf32>
    %102 = stablehlo.maximum %101, %100 : tensor<2x1x2x8xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<2x1x2x8xf32>) -> tensor<2x1x2x8x1xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x8x1xf32>) -> tensor<2x1x2x8x8xf32>
    %105 = stablehlo.subtract %99, %104 : tensor<2x1x2x8x8xf32>
    %106 = stablehlo.exponential %105 : tensor<2x1x2x8x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %107 = stablehlo.reduce(%106 init: %cst_11) applies stablehlo.add across dimensions = [4] : (tensor<2x1x2x8x8xf32>, tensor<f32>) -> tensor<2x1x2x8xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3] : (tensor<2x1x2x8xf32>) -> tensor<2x1x2x8x1xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x8x1xf32>) -> tensor<2x1x2x8x8xf32>
    %110 = stablehlo.divide %106, %109 : tensor<2x1x2x8x8xf32>
    %111 = stablehlo.dot_general %18, %110, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x8x2x4xf32>, tensor<2x1x2x8x8xf32>) -> tensor<1x2x4x2x8xf32>
    %112 = stablehlo.transpose %111, dims = [3, 0, 4, 1, 2] : (tensor<1x2x4x2x8xf32>) -> tensor<2x1x8x2x4xf32>
    %113 = stablehlo.transpose %112, dims = [1, 2, 3, 0, 4] : (tensor<2x1x8x2x4xf32>) -> tensor<1x8x2x2x4xf32>
    %114 = stablehlo.reshape %113 : (tensor<1x8x2x2x4xf32>) -> tensor<1x8x4x4xf32>
    %115 = stablehlo.reshape %114 : (tensor<1x8x4x4xf32>) -> tensor<1x8x16xf32>
    %116 = stablehlo.dot_general %115, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %117 = stablehlo.add %arg9, %116 : tensor<1x8x16xf32>
    %118 = stablehlo.multiply %117, %117 : tensor<1x8x16xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.reduce(%118 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<1x8xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<1x8x1xf32>
    %cst_13 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %122 = stablehlo.divide %120, %121 : tensor<1x8x1xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %124 = stablehlo.add %122, %123 : tensor<1x8x1xf32>
    %125 = stablehlo.rsqrt %124 : tensor<1x8x1xf32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %127 = stablehlo.multiply %117, %126 : tensor<1x8x16xf32>
    %128 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<1x8x16xf32>
    %130 = stablehlo.multiply %127, %129 : tensor<1x8x16xf32>
    %131 = stablehlo.dot_general %130, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x24xf32>) -> tensor<1x8x24xf32>
    %132 = call @silu(%131) : (tensor<1x8x24xf32>) -> tensor<1x8x24xf32>
    %133 = stablehlo.dot_general %130, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x16xf32>, tensor<16x24xf32>) -> tensor<1x8x24xf32>
    %134 = stablehlo.multiply %132, %133 : tensor<1x8x24xf32>
    %135 = stablehlo.dot_general %134, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x24xf32>, tensor<24x16xf32>) -> tensor<1x8x16xf32>
    %136 = stablehlo.add %117, %135 : tensor<1x8x16xf32>
    return %136 : tensor<1x8x16xf32>
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
  func.func private @_where(%arg0: tensor<1x2x8x8xi1>, %arg1: tensor<1x2x8x2x8xf32>, %arg2: tensor<f32>) -> tensor<2x1x2x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x2x8x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<1x2x8x8xi1>) -> tensor<2x1x2x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<1x2x8x8xf32>) -> tensor<2x1x2x8x8xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<1x2x8x2x8xf32>) -> tensor<2x1x2x8x8xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x1x2x8x8xi1>, tensor<2x1x2x8x8xf32>
    return %4 : tensor<2x1x2x8x8xf32>
  }
  func.func private @silu(%arg0: tensor<1x8x24xf32>) -> tensor<1x8x24xf32> {
    %0 = stablehlo.negate %arg0 : tensor<1x8x24xf32>
    %1 = stablehlo.exponential %0 : tensor<1x8x24xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x8x24xf32>
    %3 = stablehlo.add %2, %1 : tensor<1x8x24xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x8x24xf32>
    %5 = stablehlo.divide %4, %3 : tensor<1x8x24xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x8x24xf32>
    return %6 : tensor<1x8x24xf32>
  }
}

