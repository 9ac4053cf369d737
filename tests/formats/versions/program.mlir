// Something of everything that an artifact can hold. All values are small integers, so that results are equal on every
// architecture: they are compared bit by bit.
util.global private mutable @total = dense<0> : tensor<4xi32>
util.global private @weights = #stream.parameter.named<"model"::"weights"> : tensor<4x4xf32>

// Constants, fusion and a broadcast.
func.func @scaled(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x3xf32>
  %scale = arith.constant dense<[1.0, -2.0, 4.0]> : tensor<3xf32>
  %out = tensor.empty(%n) : tensor<?x3xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %scale : tensor<?x3xf32>, tensor<3xf32>) outs(%out : tensor<?x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %p, %b : f32
    linalg.yield %q : f32
  } -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}

// Parameters, several dispatches and a transient between them.
func.func @product(%x: tensor<?x4xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x4xf32>
  %f0 = arith.constant 0.0 : f32
  %w = util.global.load @weights : tensor<4x4xf32>
  %empty = tensor.empty(%n) : tensor<?x4xf32>
  %clear = linalg.fill ins(%f0 : f32) outs(%empty : tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x4xf32>, tensor<4x4xf32>) outs(%clear : tensor<?x4xf32>) -> tensor<?x4xf32>
  %rows = tensor.empty(%n) : tensor<?xf32>
  %none = linalg.fill ins(%f0 : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %sums = linalg.reduce ins(%y : tensor<?x4xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
    (%a: f32, %b: f32) {
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    }
  return %sums : tensor<?xf32>
}

// State, and host code with a loop.
func.func @count(%step: tensor<4xi32>, %times: index) -> tensor<4xi32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %before = util.global.load @total : tensor<4xi32>
  %after = scf.for %i = %zero to %times step %one iter_args(%t = %before) -> (tensor<4xi32>) {
    %next = arith.addi %t, %step : tensor<4xi32>
    scf.yield %next : tensor<4xi32>
  }
  util.global.store %after, @total : tensor<4xi32>
  return %after : tensor<4xi32>
}

// Packed elements.
func.func @nibbles(%x: tensor<6xi4>) -> tensor<6xi4> {
  %y = arith.addi %x, %x : tensor<6xi4>
  return %y : tensor<6xi4>
}
