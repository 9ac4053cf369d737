// What jax.ffi.ffi_call exports: a call of @residual, by name only. compile(..., kernels={"residual": ...}) gives the kernel.
module @jit_step {
  func.func public @main(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %activated = stablehlo.logistic %x : tensor<4x3xf32>
    %sum = stablehlo.custom_call @residual(%activated, %y) {api_version = 4 : i32, backend_config = {}}
        : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %result = stablehlo.add %sum, %sum : tensor<4x3xf32>
    return %result : tensor<4x3xf32>
  }
}
