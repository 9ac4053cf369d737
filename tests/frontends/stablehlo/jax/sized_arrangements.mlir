module @jit_sized_arrangements attributes {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<?x6xf32> loc(unknown)) -> (tensor<?x6xf32> {jax.result_info = "result[0]"}, tensor<?x6xf32> {jax.result_info = "result[1]"}, tensor<?x8xf32> {jax.result_info = "result[2]"}, tensor<?x6xf32> {jax.result_info = "result[3]"}, tensor<?x6xf32> {jax.result_info = "result[4]"}, tensor<?x6xf32> {jax.result_info = "result[5]"}, tensor<?x6xf32> {jax.result_info = "result[6]"}, tensor<6xf32> {jax.result_info = "result[7]"}) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'b'. Using the following polymorphic shapes specifications: args[0].shape = (b, 6). Obtained dimension variables: 'b' = {0} from specification 'b' for dimension args[0].shape[0] (= {0}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details.", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2:8 = call @_wrapped_jax_export_main(%0, %arg0) : (tensor<i32>, tensor<?x6xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x8xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<6xf32>)
    return %2#0, %2#1, %2#2, %2#3, %2#4, %2#5, %2#6, %2#7 : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x8xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<6xf32>
  }
  func.func @reduce_window_float32_reducer(%arg0: tensor<f32> loc("reduce_window_sum:"(#loc4)), %arg1: tensor<f32> loc("reduce_window_sum:"(#loc4))) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @_wrapped_jax_export_main(%arg0: tensor<i32> {jax.global_constant = "b"} loc(unknown), %arg1: tensor<?x6xf32> loc("x")) -> (tensor<?x6xf32> {jax.result_info = "result[0]"}, tensor<?x6xf32> {jax.result_info = "result[1]"}, tensor<?x8xf32> {jax.result_info = "result[2]"}, tensor<?x6xf32> {jax.result_info = "result[3]"}, tensor<?x6xf32> {jax.result_info = "result[4]"}, tensor<?x6xf32> {jax.result_info = "result[5]"}, tensor<?x6xf32> {jax.result_info = "result[6]"}, tensor<6xf32> {jax.result_info = "result[7]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<1> : tensor<1xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<6> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<6> : tensor<i32>
    %c_3 = stablehlo.constant dense<-1> : tensor<i32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.convert %arg0 : tensor<i32>
    %2 = stablehlo.add %1, %c_3 : tensor<i32>
    %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
    %4 = stablehlo.concatenate %3, %c_1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %5 = "stablehlo.dynamic_gather"(%arg1, %0, %4) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0]>, indices_are_sorted = true}> : (tensor<?x6xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<?x6xf32>
    %6 = stablehlo.concatenate %arg1, %arg1, dim = 0 : (tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
    %7 = call @_pad(%arg0, %arg1, %c_0) : (tensor<i32>, tensor<?x6xf32>, tensor<i32>) -> tensor<?x8xf32>
    %8 = stablehlo.convert %arg0 : tensor<i32>
    %9 = stablehlo.add %8, %c_3 : tensor<i32>
    %10 = stablehlo.convert %9 : tensor<i32>
    %11 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %12 = stablehlo.dynamic_iota %11, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
    %13 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %14 = stablehlo.dynamic_broadcast_in_dim %c_3, %13, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>
    %15 = stablehlo.multiply %14, %12 : tensor<?xi32>
    %16 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %17 = stablehlo.dynamic_broadcast_in_dim %10, %16, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>
    %18 = stablehlo.add %17, %15 : tensor<?xi32>
    %19 = stablehlo.reverse %18, dims = [0] : tensor<?xi32>
    %20 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %21 = stablehlo.concatenate %20, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %22 = stablehlo.dynamic_broadcast_in_dim %19, %21, dims = [0] : (tensor<?xi32>, tensor<2xi32>) -> tensor<?x1xi32>
    %23 = "stablehlo.gather"(%arg1, %22) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 6>}> : (tensor<?x6xf32>, tensor<?x1xi32>) -> tensor<?x6xf32>
    %24 = stablehlo.reverse %23, dims = [0] : tensor<?x6xf32>
    %25 = call @cumsum(%arg0, %arg1) : (tensor<i32>, tensor<?x6xf32>) -> tensor<?x6xf32>
    %26 = call @sort(%arg0, %arg1) : (tensor<i32>, tensor<?x6xf32>) -> tensor<?x6xf32>
    %27 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %28 = stablehlo.dynamic_iota %27, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
    %29 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %30 = stablehlo.dynamic_broadcast_in_dim %c_4, %29, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>
    %31 = stablehlo.multiply %30, %28 : tensor<?xi32>
    %32 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %33 = stablehlo.dynamic_broadcast_in_dim %c_0, %32, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>
    %34 = stablehlo.add %33, %31 : tensor<?xi32>
    %35 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %36 = stablehlo.concatenate %35, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %37 = stablehlo.dynamic_broadcast_in_dim %34, %36, dims = [0] : (tensor<?xi32>, tensor<2xi32>) -> tensor<?x1xi32>
    %38 = stablehlo.convert %37 : (tensor<?x1xi32>) -> tensor<?x1xf32>
    %39 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %40 = stablehlo.concatenate %39, %c_1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %41 = stablehlo.dynamic_broadcast_in_dim %38, %40, dims = [0, 1] : (tensor<?x1xf32>, tensor<2xi32>) -> tensor<?x6xf32>
    %42 = stablehlo.add %arg1, %41 : tensor<?x6xf32>
    %43 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %44:4 = stablehlo.while(%iterArg = %arg1, %iterArg_5 = %c_0, %iterArg_6 = %arg0, %iterArg_7 = %43) : tensor<?x6xf32>, tensor<i32>, tensor<i32>, tensor<6xf32>
    cond {
      %45 = stablehlo.compare LT, %iterArg_5, %iterArg_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %45 : tensor<i1>
    } do {
      %45 = stablehlo.add %iterArg_5, %c_4 : tensor<i32>
      %46 = stablehlo.convert %iterArg_5 : tensor<i32>
      %47 = stablehlo.convert %arg0 : tensor<i32>
      %48 = stablehlo.compare LT, %46, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %49 = stablehlo.add %46, %47 : tensor<i32>
      %50 = stablehlo.select %48, %49, %46 : tensor<i1>, tensor<i32>
      %51 = stablehlo.compare LT, %c_0, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %52 = stablehlo.add %c_0, %c_2 : tensor<i32>
      %53 = stablehlo.select %51, %52, %c_0 : tensor<i1>, tensor<i32>
      %54 = stablehlo.dynamic_slice %iterArg, %50, %53, sizes = [1, 6] : (tensor<?x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
      %55 = stablehlo.reshape %54 : (tensor<1x6xf32>) -> tensor<6xf32>
      %56 = stablehlo.add %iterArg_7, %55 : tensor<6xf32>
      stablehlo.return %iterArg, %45, %iterArg_6, %56 : tensor<?x6xf32>, tensor<i32>, tensor<i32>, tensor<6xf32>
    }
    return %5, %6, %7, %24, %25, %26, %42, %44#3 : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x8xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<6xf32>
  }
  func.func private @_pad(%arg0: tensor<i32> {jax.global_constant = "b"} loc(unknown), %arg1: tensor<?x6xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<?x8xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg1, %0, low = [1, 1], high = [1, 1], interior = [0, 0] : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x8xf32>
    return %1 : tensor<?x8xf32>
  }
  func.func private @cumsum(%arg0: tensor<i32> {jax.global_constant = "b"} loc(unknown), %arg1: tensor<?x6xf32> loc(unknown)) -> tensor<?x6xf32> {
    %0 = call @cumsum_0(%arg0, %arg1) : (tensor<i32>, tensor<?x6xf32>) -> tensor<?x6xf32>
    return %0 : tensor<?x6xf32>
  }
  func.func private @cumsum_0(%arg0: tensor<i32> loc(unknown), %arg1: tensor<?x6xf32> loc(unknown)) -> tensor<?x6xf32> {
    %c = stablehlo.constant dense<1> : tensor<1xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<1xi32>
    %c_1 = stablehlo.constant dense<-1> : tensor<i32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = stablehlo.convert %arg0 : tensor<i32>
    %2 = stablehlo.add %1, %c_1 : tensor<i32>
    %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
    %4 = stablehlo.concatenate %3, %c_0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %5 = stablehlo.reshape %4 : (tensor<2xi32>) -> tensor<1x2xi32>
    %6 = stablehlo.concatenate %c_0, %c_0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %7 = stablehlo.reshape %6 : (tensor<2xi32>) -> tensor<1x2xi32>
    %8 = stablehlo.concatenate %5, %7, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %9 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %10 = stablehlo.concatenate %9, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %11 = stablehlo.concatenate %c, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %12 = stablehlo.concatenate %c, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %13 = stablehlo.concatenate %c, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %14 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%arg1, %0, %10, %11, %12, %13, %8) {api_version = 2 : i32, called_computations = [@reduce_window_float32_reducer]} : (tensor<?x6xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x6xf32>
    return %14 : tensor<?x6xf32>
  }
  func.func private @sort(%arg0: tensor<i32> {jax.global_constant = "b"} loc(unknown), %arg1: tensor<?x6xf32> loc(unknown)) -> tensor<?x6xf32> {
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = "stablehlo.sort"(%arg1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<f32> loc("sort:"(#loc24)), %arg3: tensor<f32> loc("sort:"(#loc24))):
      %1 = stablehlo.compare EQ, %arg2, %cst_0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %cst_0, %arg2 : tensor<i1>, tensor<f32>
      %3 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.select %3, %cst, %2 : tensor<i1>, tensor<f32>
      %5 = stablehlo.compare EQ, %arg3, %cst_0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.select %5, %cst_0, %arg3 : tensor<i1>, tensor<f32>
      %7 = stablehlo.compare NE, %arg3, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %8 = stablehlo.select %7, %cst, %6 : tensor<i1>, tensor<f32>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<?x6xf32>) -> tensor<?x6xf32>
    return %0 : tensor<?x6xf32>
  }
}
