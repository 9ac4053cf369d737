// Where the largest element of x + y is, as a compiler writes it. spec.mlir puts a kernel in.
func.func @f(%x: tensor<1x128xf32>, %y: tensor<1x128xf32>) -> tensor<1xi64> {
  %sum = arith.addf %x, %y : tensor<1x128xf32>
  %first = arith.constant 0 : i64
  %least = arith.constant 0xFF800000 : f32
  %no_index = tensor.empty() : tensor<1xi64>
  %index = linalg.fill ins(%first : i64) outs(%no_index : tensor<1xi64>) -> tensor<1xi64>
  %no_value = tensor.empty() : tensor<1xf32>
  %value = linalg.fill ins(%least : f32) outs(%no_value : tensor<1xf32>) -> tensor<1xf32>
  %best:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%sum : tensor<1x128xf32>) outs(%value, %index : tensor<1xf32>, tensor<1xi64>) {
  ^bb0(%in: f32, %largest: f32, %at: i64):
    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i64
    %m = arith.maximumf %in, %largest : f32
    %c = arith.cmpf ogt, %in, %largest : f32
    %s = arith.select %c, %n, %at : i64
    linalg.yield %m, %s : f32, i64
  } -> (tensor<1xf32>, tensor<1xi64>)
  return %best#1 : tensor<1xi64>
}
