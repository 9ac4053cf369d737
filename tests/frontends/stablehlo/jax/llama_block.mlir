module @jit_llama_block attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8x12xf32>, %arg3: tensor<8x8xf32>, %arg4: tensor<8x8xf32>, %arg5: tensor<8x8xf32>, %arg6: tensor<8x12xf32>, %arg7: tensor<1x6x8xf32>) -> (tensor<1x6x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.multiply %arg7, %arg7 : tensor<1x6x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x6x8xf32>, tensor<f32>) -> tensor<1x6xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x6x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<1x6x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x6x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<1x6x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<1x6x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x6x1xf32>) -> tensor<1x6x8xf32>
    %9 = stablehlo.multiply %arg7, %8 : tensor<1x6x8xf32>
    %10 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x6x8xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<1x6x8xf32>
    %13 = stablehlo.dot_general %12, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6x8xf32>, tensor<8x8xf32>) -> tensor<1x6x8xf32>
    %14 = stablehlo.slice %13 [0:1, 0:6, 0:4] : (tensor<1x6x8xf32>) -> tensor<1x6x4xf32>
    %15 = stablehlo.slice %13 [0:1, 0:6, 4:8] : (tensor<1x6x8xf32>) -> tensor<1x6x4xf32>
    %16 = stablehlo.dot_general %12, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6x8xf32>, tensor<8x8xf32>) -> tensor<1x6x8xf32>
    %17 = stablehlo.reshape %16 : (tensor<1x6x8xf32>) -> tensor<1x6x4x2xf32>
    %18 = stablehlo.iota dim = 0 : tensor<6xi32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %20 = stablehlo.iota dim = 0 : tensor<1xi32>
    %21 = stablehlo.negate %20 : tensor<1xi32>
    %22 = stablehlo.convert %21 : (tensor<1xi32>) -> tensor<1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %24 = stablehlo.divide %22, %23 : tensor<1xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %26 = stablehlo.power %25, %24 : tensor<1xf32>
    %27 = stablehlo.convert %19 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %28 = stablehlo.broadcast_in_dim %26, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<6x1xf32>
    %30 = stablehlo.multiply %27, %29 : tensor<6x1xf32>
    %31 = stablehlo.cosine %30 : tensor<6x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 2] : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %33 = stablehlo.sine %30 : tensor<6x1xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %35 = stablehlo.slice %17 [0:1, 0:6, 0:4, 0:1] : (tensor<1x6x4x2xf32>) -> tensor<1x6x4x1xf32>
    %36 = stablehlo.slice %17 [0:1, 0:6, 0:4, 1:2] : (tensor<1x6x4x2xf32>) -> tensor<1x6x4x1xf32>
    %37 = stablehlo.broadcast_in_dim %32, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x4x1xf32>
    %39 = stablehlo.multiply %35, %38 : tensor<1x6x4x1xf32>
    %40 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x4x1xf32>
    %42 = stablehlo.multiply %36, %41 : tensor<1x6x4x1xf32>
    %43 = stablehlo.subtract %39, %42 : tensor<1x6x4x1xf32>
    %44 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x4x1xf32>
    %46 = stablehlo.multiply %35, %45 : tensor<1x6x4x1xf32>
    %47 = stablehlo.broadcast_in_dim %32, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x4x1xf32>
    %49 = stablehlo.multiply %36, %48 : tensor<1x6x4x1xf32>
    %50 = stablehlo.add %46, %49 : tensor<1x6x4x1xf32>
    %51 = stablehlo.concatenate %43, %50, dim = 3 : (tensor<1x6x4x1xf32>, tensor<1x6x4x1xf32>) -> tensor<1x6x4x2xf32>
    %52 = stablehlo.reshape %14 : (tensor<1x6x4xf32>) -> tensor<1x6x2x2xf32>
    %53 = stablehlo.iota dim = 0 : tensor<6xi32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %55 = stablehlo.iota dim = 0 : tensor<1xi32>
    %56 = stablehlo.negate %55 : tensor<1xi32>
    %57 = stablehlo.convert %56 : (tensor<1xi32>) -> tensor<1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %59 = stablehlo.divide %57, %58 : tensor<1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %61 = stablehlo.power %60, %59 : tensor<1xf32>
    %62 = stablehlo.convert %54 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %63 = stablehlo.broadcast_in_dim %61, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<6x1xf32>
    %65 = stablehlo.multiply %62, %64 : tensor<6x1xf32>
    %66 = stablehlo.cosine %65 : tensor<6x1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 2] : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %68 = stablehlo.sine %65 : tensor<6x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 2] : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %70 = stablehlo.slice %52 [0:1, 0:6, 0:2, 0:1] : (tensor<1x6x2x2xf32>) -> tensor<1x6x2x1xf32>
    %71 = stablehlo.slice %52 [0:1, 0:6, 0:2, 1:2] : (tensor<1x6x2x2xf32>) -> tensor<1x6x2x1xf32>
    %72 = stablehlo.broadcast_in_dim %67, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x2x1xf32>
    %74 = stablehlo.multiply %70, %73 : tensor<1x6x2x1xf32>
    %75 = stablehlo.broadcast_in_dim %69, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x2x1xf32>
    %77 = stablehlo.multiply %71, %76 : tensor<1x6x2x1xf32>
    %78 = stablehlo.subtract %74, %77 : tensor<1x6x2x1xf32>
    %79 = stablehlo.broadcast_in_dim %69, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x2x1xf32>
    %81 = stablehlo.multiply %70, %80 : tensor<1x6x2x1xf32>
    %82 = stablehlo.broadcast_in_dim %67, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<1x6x2x1xf32>
    %84 = stablehlo.multiply %71, %83 : tensor<1x6x2x1xf32>
    %85 = stablehlo.add %81, %84 : tensor<1x6x2x1xf32>
    %86 = stablehlo.concatenate %78, %85, dim = 3 : (tensor<1x6x2x1xf32>, tensor<1x6x2x1xf32>) -> tensor<1x6x2x2xf32>
    %87 = stablehlo.reshape %15 : (tensor<1x6x4xf32>) -> tensor<1x6x2x2xf32>
    %88 = stablehlo.reshape %51 : (tensor<1x6x4x2xf32>) -> tensor<1x6x2x2x2xf32>
    %89 = stablehlo.dot_general %88, %86, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x6x2x2x2xf32>, tensor<1x6x2x2xf32>) -> tensor<1x2x6x2x6xf32>
    %cst_6 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x2x6x2x6xf32>
    %91 = stablehlo.multiply %89, %90 : tensor<1x2x6x2x6xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %92 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1x2x6x6xi1>
    %c_7 = stablehlo.constant dense<true> : tensor<i1>
    %93 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %94 = call @tril(%93) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %95 = stablehlo.broadcast_in_dim %94, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<1x1x6x6xi1>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xi1>) -> tensor<1x2x6x6xi1>
    %97 = stablehlo.and %92, %96 : tensor<1x2x6x6xi1>
    %cst_8 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %98 = call @_where(%97, %91, %cst_8) : (tensor<1x2x6x6xi1>, tensor<1x2x6x2x6xf32>, tensor<f32>) -> tensor<2x1x2x6x6xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %99 = stablehlo.reduce(%98 init: %cst_9) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x2x6x6xf32>, tensor<f32>) -> tensor<2x1x2x6xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x1x2x6xf32>
    %101 = stablehlo.maximum %100, %99 : tensor<2x1x2x6xf32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2, 3] : (tensor<2x1x2x6xf32>) -> tensor<2x1x2x6x1xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x6x1xf32>) -> tensor<2x1x2x6x6xf32>
    %104 = stablehlo.subtract %98, %103 : tensor<2x1x2x6x6xf32>
    %105 = stablehlo.exponential %104 : tensor<2x1x2x6x6xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %106 = stablehlo.reduce(%105 init: %cst_11) applies stablehlo.add across dimensions = [4] : (tensor<2x1x2x6x6xf32>, tensor<f32>) -> tensor<2x1x2x6xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<2x1x2x6xf32>) -> tensor<2x1x2x6x1xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x6x1xf32>) -> tensor<2x1x2x6x6xf32>
    %109 = stablehlo.divide %105, %108 : tensor<2x1x2x6x6xf32>
    %110 = stablehlo.dot_general %87, %109, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x6x2x2xf32>, tensor<2x1x2x6x6xf32>) -> tensor<1x2x2x2x6xf32>
    %111 = stablehlo.transpose %110, dims = [3, 0, 4, 1, 2] : (tensor<1x2x2x2x6xf32>) -> tensor<2x1x6x2x2xf32>
    %112 = stablehlo.transpose %111, dims = [1, 2, 3, 0, 4] : (tensor<2x1x6x2x2xf32>) -> tensor<1x6x2x2x2xf32>
    %113 = stablehlo.reshape %112 : (tensor<1x6x2x2x2xf32>) -> tensor<1x6x4x2xf32>
    %114 = stablehlo.reshape %113 : (tensor<1x6x4x2xf32>) -> tensor<1x6x8xf32>
    %115 = stablehlo.dot_general %114, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6x8xf32>, tensor<8x8xf32>) -> tensor<1x6x8xf32>
    %116 = stablehlo.add %arg7, %115 : tensor<1x6x8xf32>
    %117 = stablehlo.multiply %116, %116 : tensor<1x6x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.reduce(%117 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<1x6x8xf32>, tensor<f32>) -> tensor<1x6xf32>
    %119 = stablehlo.broadcast_in_dim %118, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x1xf32>
    %cst_13 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x6x1xf32>
    %121 = stablehlo.divide %119, %120 : tensor<1x6x1xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %122 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x6x1xf32>
    %123 = stablehlo.add %121, %122 : tensor<1x6x1xf32>
    %124 = stablehlo.rsqrt %123 : tensor<1x6x1xf32>
    %125 = stablehlo.broadcast_in_dim %124, dims = [0, 1, 2] : (tensor<1x6x1xf32>) -> tensor<1x6x8xf32>
    %126 = stablehlo.multiply %116, %125 : tensor<1x6x8xf32>
    %127 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x6x8xf32>
    %129 = stablehlo.multiply %126, %128 : tensor<1x6x8xf32>
    %130 = stablehlo.dot_general %129, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6x8xf32>, tensor<8x12xf32>) -> tensor<1x6x12xf32>
    %131 = call @silu(%130) : (tensor<1x6x12xf32>) -> tensor<1x6x12xf32>
    %132 = stablehlo.dot_general %129, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6x8xf32>, tensor<8x12xf32>) -> tensor<1x6x12xf32>
    %133 = stablehlo.multiply %131, %132 : tensor<1x6x12xf32>
    %134 = stablehlo.dot_general %133, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6x12xf32>, tensor<12x8xf32>) -> tensor<1x6x8xf32>
    %135 = stablehlo.add %116, %134 : tensor<1x6x8xf32>
    return %135 : tensor<1x6x8xf32>
  }
  func.func private @tril(%arg0: tensor<6x6xi1>) -> tensor<6x6xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where(%arg0: tensor<1x2x6x6xi1>, %arg1: tensor<1x2x6x2x6xf32>, %arg2: tensor<f32>) -> tensor<2x1x2x6x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x2x6x6xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<1x2x6x6xi1>) -> tensor<2x1x2x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<1x2x6x6xf32>) -> tensor<2x1x2x6x6xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<1x2x6x2x6xf32>) -> tensor<2x1x2x6x6xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x1x2x6x6xi1>, tensor<2x1x2x6x6xf32>
    return %4 : tensor<2x1x2x6x6xf32>
  }
  func.func private @silu(%arg0: tensor<1x6x12xf32>) -> tensor<1x6x12xf32> {
    %0 = stablehlo.negate %arg0 : tensor<1x6x12xf32>
    %1 = stablehlo.exponential %0 : tensor<1x6x12xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x6x12xf32>
    %3 = stablehlo.add %2, %1 : tensor<1x6x12xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x6x12xf32>
    %5 = stablehlo.divide %4, %3 : tensor<1x6x12xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x6x12xf32>
    return %6 : tensor<1x6x12xf32>
  }
}
