// A JAX export that knows nothing of kernels. spec.mlir and spec.pdl.mlir replace its operations.
module @jit_distance {
  func.func public @main(%x: tensor<4x3xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
    %w = stablehlo.constant dense<[[0.5, -1.0], [1.5, 0.5], [-2.0, 1.0]]> : tensor<3x2xf32>
    %product = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %activated = stablehlo.tanh %product : tensor<4x2xf32>
    %difference = stablehlo.subtract %activated, %y : tensor<4x2xf32>
    %squares = stablehlo.multiply %difference, %difference : tensor<4x2xf32>
    return %squares : tensor<4x2xf32>
  }
}
