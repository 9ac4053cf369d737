func.func @exchanges(%x: tensor<4x6xf32>, %t: !stablehlo.token) {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a1: tensor<f32>, %b1: tensor<f32>):
    %s1 = stablehlo.add %a1, %b1 : tensor<f32>
    stablehlo.return %s1 : tensor<f32>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %5 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a5: tensor<f32>, %b5: tensor<f32>):
    %s5 = stablehlo.add %a5, %b5 : tensor<f32>
    stablehlo.return %s5 : tensor<f32>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = "stablehlo.collective_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a6: tensor<f32>, %b6: tensor<f32>):
    %s6 = stablehlo.add %a6, %b6 : tensor<f32>
    stablehlo.return %s6 : tensor<f32>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = stablehlo.partition_id : tensor<ui32>
  %r = stablehlo.replica_id : tensor<ui32>
  %in:2 = "stablehlo.infeed"(%t) <{infeed_config = ""}> : (!stablehlo.token) -> (tensor<4x6xf32>, !stablehlo.token)
  %out = "stablehlo.outfeed"(%x, %t) <{outfeed_config = ""}> : (tensor<4x6xf32>, !stablehlo.token) -> !stablehlo.token
  %got:2 = "stablehlo.recv"(%t) <{is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4x6xf32>, !stablehlo.token)
  %sent = "stablehlo.send"(%x, %t) <{is_host_transfer = true}> : (tensor<4x6xf32>, !stablehlo.token) -> !stablehlo.token
  return
}
