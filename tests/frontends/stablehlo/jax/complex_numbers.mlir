module @jit_complex_numbers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x5xcomplex<f32>>, %arg1: tensor<3x5xcomplex<f32>>) -> (tensor<3x5xcomplex<f32>> {jax.result_info = "result[0]"}, tensor<3x5xcomplex<f32>> {jax.result_info = "result[1]"}, tensor<3x5xf32> {jax.result_info = "result[2]"}, tensor<3x5xcomplex<f32>> {jax.result_info = "result[3]"}, tensor<3x5xcomplex<f32>> {jax.result_info = "result[4]"}, tensor<3x5xcomplex<f32>> {jax.result_info = "result[5]"}, tensor<3x5xi1> {jax.result_info = "result[6]"}, tensor<3x5xf32> {jax.result_info = "result[7]"}, tensor<5xcomplex<f32>> {jax.result_info = "result[8]"}, tensor<3x3xcomplex<f32>> {jax.result_info = "result[9]"}) {
    %0 = stablehlo.exponential %arg0 : tensor<3x5xcomplex<f32>>
    %1 = stablehlo.real %arg1 : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %2 = stablehlo.imag %arg1 : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %3 = stablehlo.negate %2 : tensor<3x5xf32>
    %4 = stablehlo.complex %1, %3 : tensor<3x5xcomplex<f32>>
    %5 = stablehlo.multiply %0, %4 : tensor<3x5xcomplex<f32>>
    %6 = stablehlo.divide %arg0, %arg1 : tensor<3x5xcomplex<f32>>
    %7 = stablehlo.real %arg0 : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %8 = stablehlo.abs %arg1 : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %9 = stablehlo.add %7, %8 : tensor<3x5xf32>
    %10 = stablehlo.sqrt %arg0 : tensor<3x5xcomplex<f32>>
    %11 = stablehlo.log %arg0 : tensor<3x5xcomplex<f32>>
    %12 = stablehlo.tanh %arg0 : tensor<3x5xcomplex<f32>>
    %13 = stablehlo.compare EQ, %arg0, %arg1, FLOAT : (tensor<3x5xcomplex<f32>>, tensor<3x5xcomplex<f32>>) -> tensor<3x5xi1>
    %14 = call @angle(%arg0) : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %cst = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %15 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<3x5xcomplex<f32>>, tensor<complex<f32>>) -> tensor<5xcomplex<f32>>
    %16 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<3x5xcomplex<f32>>) -> tensor<5x3xcomplex<f32>>
    %17 = stablehlo.dot_general %arg0, %16, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x5xcomplex<f32>>, tensor<5x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
    return %5, %6, %9, %10, %11, %12, %13, %14, %15, %17 : tensor<3x5xcomplex<f32>>, tensor<3x5xcomplex<f32>>, tensor<3x5xf32>, tensor<3x5xcomplex<f32>>, tensor<3x5xcomplex<f32>>, tensor<3x5xcomplex<f32>>, tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xcomplex<f32>>, tensor<3x3xcomplex<f32>>
  }
  func.func private @angle(%arg0: tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32> {
    %0 = stablehlo.real %arg0 : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %1 = stablehlo.imag %arg0 : (tensor<3x5xcomplex<f32>>) -> tensor<3x5xf32>
    %2 = stablehlo.atan2 %1, %0 : tensor<3x5xf32>
    return %2 : tensor<3x5xf32>
  }
}
