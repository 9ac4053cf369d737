// A classifier of 16x16 images as a framework would export it: dense, hard swish, dense. It knows nothing of kernels.
util.global private @w1 = #flow.parameter.named<"model"::"w1"> : tensor<256x64xf32>
util.global private @b1 = #flow.parameter.named<"model"::"b1"> : tensor<64xf32>
util.global private @w2 = #flow.parameter.named<"model"::"w2"> : tensor<64x4xf32>
util.global private @b2 = #flow.parameter.named<"model"::"b2"> : tensor<4xf32>

func.func @main(%pixels: tensor<?x256xf32>) -> tensor<?x4xf32> {
  %w1 = util.global.load @w1 : tensor<256x64xf32>
  %b1 = util.global.load @b1 : tensor<64xf32>
  %w2 = util.global.load @w2 : tensor<64x4xf32>
  %b2 = util.global.load @b2 : tensor<4xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %pixels, %c0 : tensor<?x256xf32>

  %e1 = tensor.empty(%n) : tensor<?x64xf32>
  %bias1 = linalg.broadcast ins(%b1 : tensor<64xf32>) outs(%e1 : tensor<?x64xf32>) dimensions = [0]
  %hidden = linalg.matmul ins(%pixels, %w1 : tensor<?x256xf32>, tensor<256x64xf32>)
      outs(%bias1 : tensor<?x64xf32>) -> tensor<?x64xf32>

  %three = arith.constant 3.0 : f32
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %threes = tensor.splat %three[%n] : tensor<?x64xf32>
  %zeros = tensor.splat %zero[%n] : tensor<?x64xf32>
  %sixes = tensor.splat %six[%n] : tensor<?x64xf32>
  %shifted = arith.addf %hidden, %threes : tensor<?x64xf32>
  %positive = arith.maximumf %shifted, %zeros : tensor<?x64xf32>
  %gate = arith.minimumf %positive, %sixes : tensor<?x64xf32>
  %gated = arith.mulf %hidden, %gate : tensor<?x64xf32>
  %active = arith.divf %gated, %sixes : tensor<?x64xf32>

  %e2 = tensor.empty(%n) : tensor<?x4xf32>
  %bias2 = linalg.broadcast ins(%b2 : tensor<4xf32>) outs(%e2 : tensor<?x4xf32>) dimensions = [0]
  %scores = linalg.matmul ins(%active, %w2 : tensor<?x64xf32>, tensor<64x4xf32>)
      outs(%bias2 : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %scores : tensor<?x4xf32>
}
