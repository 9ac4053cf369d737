func.func @grouped(%r: tensor<3x4xf32>, %m: tensor<2x4x5xf32>, %e: tensor<2xi64>, %i: index, %o: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = iree_linalg_ext.group_matmul ins(%r, %m, %e, %i : tensor<3x4xf32>, tensor<2x4x5xf32>, tensor<2xi64>, index) outs(%o : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
