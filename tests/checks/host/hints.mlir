// Lowering hints of other compilers change nothing.

#compilation0 = #iree_codegen.compilation_info<
    lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [8, 8, 0], distribution = [32, 32, 0]>,
    translation_info = <pipeline = CPUDoubleTilingExpert>>
#compilation1 = #iree_codegen.compilation_info<
    lowering_config = #iree_codegen.lowering_config<tile_sizes = [[64, 64], [4, 4, 0], [0, 0, 4], [0, 0, 0]]>,
    translation_info = #iree_codegen.translation_info<pipeline = CPUDoubleTilingExpert workgroup_size = [64, 1, 1] subgroup_size = 32, {mma_schedule = #iree_gpu.mma_schedule<intrinsic = #iree_gpu.mma_layout<MFMA_F32_16x16x16_F16>, subgroup_m_count = 2>}>>
#compilation2 = #iree_codegen.compilation_info<
    lowering_config = <tile_sizes = [{sizes=[32, 64], interchange=[1,0]}, [8, 32, 0], [0, 0, 8], [0, 0, 0]]>,
    translation_info = <CPUDoubleTilingPadExpert>>
#gpu = #iree_gpu.lowering_config<{workgroup = [16, 16, 0], reduction = [0, 0, 4], thread = [1, 1, 0], promote_operands = [0, 1]}>
#exec = #iree_codegen.export_config<workgroup_size = [64, 1, 1], subgroup_size = 64>

func.func @lowering_config_test() {
  %a = util.unfoldable_constant dense<1.0> : tensor<12x25xf32>
  %b = util.unfoldable_constant dense<2.0> : tensor<25x51xf32>
  %e = tensor.empty() : tensor<12x51xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<12x51xf32>) -> tensor<12x51xf32>
  %0 = linalg.matmul {compilation_info = #compilation0} ins(%a, %b : tensor<12x25xf32>, tensor<25x51xf32>) outs(%f : tensor<12x51xf32>) -> tensor<12x51xf32>
  %1 = linalg.matmul {compilation_info = #compilation1} ins(%a, %b : tensor<12x25xf32>, tensor<25x51xf32>) outs(%f : tensor<12x51xf32>) -> tensor<12x51xf32>
  %2 = linalg.matmul {compilation_info = #compilation2} ins(%a, %b : tensor<12x25xf32>, tensor<25x51xf32>) outs(%f : tensor<12x51xf32>) -> tensor<12x51xf32>
  %3 = linalg.matmul {lowering_config = #gpu} ins(%a, %b : tensor<12x25xf32>, tensor<25x51xf32>) outs(%f : tensor<12x51xf32>) -> tensor<12x51xf32>
  %4 = linalg.matmul {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[64, 64, 0]]>} ins(%a, %b : tensor<12x25xf32>, tensor<25x51xf32>) outs(%f : tensor<12x51xf32>) -> tensor<12x51xf32>
  check.expect_almost_eq_const(%0, dense<50.0> : tensor<12x51xf32>) : tensor<12x51xf32>
  check.expect_almost_eq_const(%1, dense<50.0> : tensor<12x51xf32>) : tensor<12x51xf32>
  check.expect_almost_eq_const(%2, dense<50.0> : tensor<12x51xf32>) : tensor<12x51xf32>
  check.expect_almost_eq_const(%3, dense<50.0> : tensor<12x51xf32>) : tensor<12x51xf32>
  check.expect_almost_eq_const(%4, dense<50.0> : tensor<12x51xf32>) : tensor<12x51xf32>
  return
}

func.func @translation() attributes {translation_info = #iree_codegen.translation_info<pipeline = None>, noinline, iree.reflection = {a = "b"}} {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<2xf32>) outs(%a : tensor<2xf32>) attrs = {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[4]]>} {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2xf32>
  check.expect_eq_const(%g, dense<[2.0, 4.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
