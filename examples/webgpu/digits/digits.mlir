// The network of make.py, which puts its weights where @name@ is.
func.func @classify(%image: tensor<1x1x28x28xf32>) -> tensor<10xf32> {
  %zero = arith.constant 0.0 : f32
  %filters = @filters@
  %weights = @weights@
  %bias = @bias@

  %e0 = tensor.empty() : tensor<1x8x24x24xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x8x24x24xf32>) -> tensor<1x8x24x24xf32>
  %maps = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%image, %filters : tensor<1x1x28x28xf32>, tensor<8x1x5x5xf32>)
    outs(%f0 : tensor<1x8x24x24xf32>) -> tensor<1x8x24x24xf32>

  %e1 = tensor.empty() : tensor<1x8x6x6xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %w = tensor.empty() : tensor<4x4xf32>
  // From zero on, so that this is ReLU too.
  %pooled = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<4> : vector<2xi64>}
    ins(%maps, %w : tensor<1x8x24x24xf32>, tensor<4x4xf32>) outs(%f1 : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>

  %row = tensor.collapse_shape %pooled [[0, 1, 2, 3]] : tensor<1x8x6x6xf32> into tensor<288xf32>
  %logits = linalg.vecmat ins(%row, %weights : tensor<288xf32>, tensor<288x10xf32>)
    outs(%bias : tensor<10xf32>) -> tensor<10xf32>
  %e2 = tensor.empty() : tensor<10xf32>
  %result = linalg.softmax dimension(0) ins(%logits : tensor<10xf32>) outs(%e2 : tensor<10xf32>) -> tensor<10xf32>
  return %result : tensor<10xf32>
}
