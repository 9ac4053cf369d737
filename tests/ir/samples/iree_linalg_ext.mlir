// Operations of `iree_linalg_ext` that order, combine and move elements, and the names that torch-mlir has for them.
func.func @sort(%a: tensor<128xi32>, %b: tensor<?x?xi32>, %c: tensor<?x?xf32>) -> (tensor<128xi32>, tensor<?x?xf32>) {
  %0 = iree_linalg_ext.sort {kept} dimension(0) outs(%a : tensor<128xi32>) {
  ^bb0(%x: i32, %y: i32):
    %less = arith.cmpi slt, %x, %y : i32
    iree_linalg_ext.yield {kept} %less : i1
  } -> tensor<128xi32>
  %1:2 = iree_linalg_ext.sort dimension(1) outs(%b, %c : tensor<?x?xi32>, tensor<?x?xf32>) {
  ^bb0(%x: i32, %y: i32, %v: f32, %w: f32):
    %more = arith.cmpf ogt, %v, %w : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<?x?xi32>, tensor<?x?xf32>
  %2 = iree_linalg_ext.sort dimension(0) ins(%0 : tensor<128xi32>) outs(%a : tensor<128xi32>) {
  ^bb0(%x: i32, %y: i32):
    %greater = arith.cmpi sgt, %x, %y : i32
    iree_linalg_ext.yield %greater : i1
  } -> tensor<128xi32>
  return %2, %1#1 : tensor<128xi32>, tensor<?x?xf32>
}
func.func @sort_of_memory(%a: memref<128xi32>) {
  iree_linalg_ext.sort dimension(0) outs(%a : memref<128xi32>) {
  ^bb0(%x: i32, %y: i32):
    %less = arith.cmpi slt, %x, %y : i32
    iree_linalg_ext.yield %less : i1
  }
  return
}
func.func @topk(%a: tensor<2x10xf32>, %i: tensor<2x10xi32>, %v: tensor<2x3xf32>, %w: tensor<2x3xi32>) {
  %0:2 = iree_linalg_ext.topk dimension(1) ins(%a : tensor<2x10xf32>) outs(%v, %w : tensor<2x3xf32>, tensor<2x3xi32>) {
  ^bb0(%x: f32, %y: f32):
    %more = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<2x3xf32>, tensor<2x3xi32>
  %1:2 = iree_linalg_ext.topk_v2 dimension(1) is_sorted ins(%a, %i : tensor<2x10xf32>, tensor<2x10xi32>) outs(%v, %w : tensor<2x3xf32>, tensor<2x3xi32>) {
  ^bb0(%x: f32, %y: f32):
    %more = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<2x3xf32>, tensor<2x3xi32>
  %2 = iree_linalg_ext.topk_v2 {kept} dimension(1) ins(%a : tensor<2x10xf32>) outs(%v : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32):
    %more = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<2x3xf32>
  return
}
func.func @arg_compare(%a: tensor<2x10xf32>, %i: tensor<2x10xi32>, %v: tensor<2xf32>, %w: tensor<2xi32>, %base: index) {
  %0:2 = iree_linalg_ext.arg_compare dimension(1) ins(%a : tensor<2x10xf32>) outs(%v, %w : tensor<2xf32>, tensor<2xi32>) index_base(%base : index) {
  ^bb0(%x: f32, %y: f32):
    %more = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<2xf32>, tensor<2xi32>
  %1:2 = iree_linalg_ext.arg_compare {kept} dimension(1) ins(%a, %i : tensor<2x10xf32>, tensor<2x10xi32>) outs(%v, %w : tensor<2xf32>, tensor<2xi32>) {
  ^bb0(%x: f32, %y: f32):
    %more = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<2xf32>, tensor<2xi32>
  return
}
func.func @scan(%a: tensor<?x4xf32>, %out: tensor<?x4xf32>, %first: tensor<4xf32>) {
  %0:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%a : tensor<?x4xf32>) outs(%out, %first : tensor<?x4xf32>, tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32):
    %sum = arith.addf %x, %y : f32
    iree_linalg_ext.yield %sum : f32
  } -> tensor<?x4xf32>, tensor<4xf32>
  return
}
func.func @scatter(%a: tensor<?x?xf32>, %i: tensor<?x1xi32>, %u: tensor<?x?xf32>, %m: tensor<?xi1>) {
  %0 = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%u, %i : tensor<?x?xf32>, tensor<?x1xi32>) outs(%a : tensor<?x?xf32>) {
  ^bb0(%update: f32, %old: f32):
    %sum = arith.addf %update, %old : f32
    iree_linalg_ext.yield %sum : f32
  } -> tensor<?x?xf32>
  %1 = iree_linalg_ext.scatter {kept} dimension_map = [0] unique_indices(false) ins(%u, %i, %m : tensor<?x?xf32>, tensor<?x1xi32>, tensor<?xi1>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%update: f32, %old: f32):
    iree_linalg_ext.yield %update : f32
  } -> tensor<?x?xf32>
  return
}
func.func @gather(%a: tensor<10x20xf32>, %i: tensor<3x2xi32>, %j: tensor<3xi64>, %m: tensor<3xi1>, %out: tensor<3xf32>, %rows: tensor<3x20xf32>) {
  %0 = iree_linalg_ext.gather dimension_map = [1, 0] ins(%a, %i : tensor<10x20xf32>, tensor<3x2xi32>) outs(%out : tensor<3xf32>) -> tensor<3xf32>
  %1 = iree_linalg_ext.gather {kept} dimension_map = [0] ins(%a, %j, %m : tensor<10x20xf32>, tensor<3xi64>, tensor<3xi1>) outs(%rows : tensor<3x20xf32>) -> tensor<3x20xf32>
  return
}
func.func @maps(%a: tensor<4x8xf32>, %b: tensor<4x10xf32>, %m: memref<4x8xf32>, %pad: f32, %true: i1) {
  %0 = iree_linalg_ext.map_store %a into %b attributes {kept} {
  ^bb0(%x: index, %y: index):
    iree_linalg_ext.yield %x, %y, %true : index, index, i1
  } : tensor<4x8xf32> into tensor<4x10xf32> -> tensor<4x10xf32>
  %1 = iree_linalg_ext.map_scatter %a into %b {
  ^bb0(%x: index, %y: index):
    iree_linalg_ext.yield %x, %y, %true : index, index, i1
  } : tensor<4x8xf32> into tensor<4x10xf32> -> tensor<4x10xf32>
  %2 = iree_linalg_ext.map_load %a into %b {
  ^bb0(%x: index, %y: index):
    iree_linalg_ext.yield %x, %y, %pad : index, index, f32
  } : tensor<4x8xf32> into tensor<4x10xf32> -> tensor<4x10xf32>
  %3 = iree_linalg_ext.map_gather %a into %b {
  ^bb0(%x: index, %y: index):
    iree_linalg_ext.yield %x, %y, %pad : index, index, f32
  } : tensor<4x8xf32> into tensor<4x10xf32> -> tensor<4x10xf32>
  iree_linalg_ext.map_load %m into %m {
  ^bb0(%x: index, %y: index):
    iree_linalg_ext.yield %x, %y, %pad : index, index, f32
  } : memref<4x8xf32> into memref<4x8xf32>
  return
}
func.func @of_torch_mlir(%a: tensor<8xi32>, %i: tensor<3x1xi32>, %u: tensor<3xi32>, %acc: tensor<i32>, %v: tensor<3xi32>, %w: tensor<3xi64>) {
  %0 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(true) ins(%u, %i : tensor<3xi32>, tensor<3x1xi32>) outs(%a : tensor<8xi32>) {
  ^bb0(%update: i32, %old: i32):
    tm_tensor.yield %update : i32
  } -> tensor<8xi32>
  %1:2 = tm_tensor.scan dimension(0) inclusive(false) ins(%0 : tensor<8xi32>) outs(%a, %acc : tensor<8xi32>, tensor<i32>) {
  ^bb0(%x: i32, %y: i32):
    %sum = arith.addi %x, %y : i32
    tm_tensor.yield %sum : i32
  } -> tensor<8xi32>, tensor<i32>
  %2 = tm_tensor.sort dimension(0) outs(%1#0 : tensor<8xi32>) {
  ^bb0(%x: i32, %y: i32):
    %less = arith.cmpi slt, %x, %y : i32
    tm_tensor.yield %less : i1
  } -> tensor<8xi32>
  %3:2 = tm_tensor.topk dimension(0) ins(%2 : tensor<8xi32>) outs(%v, %w : tensor<3xi32>, tensor<3xi64>) {
  ^bb0(%x: i32, %y: i32):
    %less = arith.cmpi slt, %x, %y : i32
    tm_tensor.yield %less : i1
  } -> tensor<3xi32>, tensor<3xi64>
  return
}
#query = affine_map<(b, m, d, k, n) -> (b, m, d)>
#key = affine_map<(b, m, d, k, n) -> (b, k, d)>
#value = affine_map<(b, m, d, k, n) -> (b, k, n)>
#scale = affine_map<(b, m, d, k, n) -> ()>
#mask = affine_map<(b, m, d, k, n) -> (m, k)>
#output = affine_map<(b, m, d, k, n) -> (b, m, n)>
#row = affine_map<(b, m, d, k, n) -> (b, m)>
func.func @attention(%q: tensor<2x?x4xf16>, %k: tensor<2x5x4xf16>, %v: tensor<2x5x6xf16>, %s: f16, %m: tensor<?x5xi1>, %o: tensor<2x?x6xf16>, %acc: tensor<2x?x6xf32>, %most: tensor<2x?xf32>, %sum: tensor<2x?xf32>) {
  %0 = iree_linalg_ext.attention {indexing_maps = [#query, #key, #value, #scale, #mask, #output]} ins(%q, %k, %v, %s, %m : tensor<2x?x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>, f16, tensor<?x5xi1>) outs(%o : tensor<2x?x6xf16>) {
  ^bb0(%score: f32):
    %column = iree_linalg_ext.index 3 : index
    %integer = arith.index_cast %column : index to i32
    %float = arith.sitofp %integer : i32 to f32
    %biased = arith.addf %score, %float : f32
    iree_linalg_ext.yield %biased : f32
  } -> tensor<2x?x6xf16>
  %1 = iree_linalg_ext.attention {indexing_maps = [#query, #key, #value, #output], kept} ins(%q, %k, %v, %s : tensor<2x?x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>, f16) outs(%o : tensor<2x?x6xf16>) -> tensor<2x?x6xf16>
  %2:3 = iree_linalg_ext.online_attention {decomposition_config = {use_exp2 = false}, indexing_maps = [#query, #key, #value, #scale, #output, #row, #row]} ins(%q, %k, %v, %s : tensor<2x?x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>, f16) outs(%acc, %most, %sum : tensor<2x?x6xf32>, tensor<2x?xf32>, tensor<2x?xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x?x6xf32>, tensor<2x?xf32>, tensor<2x?xf32>
  %3 = tm_tensor.attention ins(%q, %k, %v : tensor<2x?x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>) outs(%o : tensor<2x?x6xf16>) -> tensor<2x?x6xf16>
  return
}
func.func @transforms(%x: tensor<1x10x10x4xf32>, %f: tensor<3x3x4x5xf32>, %xt: tensor<8x8x1x2x2x4xf32>, %ft: tensor<4x5x8x8xf32>, %y: tensor<1x4x12x12xf32>, %re: tensor<3x8xf32>, %im: tensor<3x8xf32>, %c: tensor<2xf32>) {
  %0 = iree_linalg_ext.winograd.input_transform output_tile_size(6) kernel_size(3) image_dimensions([1, 2]) ins(%x : tensor<1x10x10x4xf32>) outs(%xt : tensor<8x8x1x2x2x4xf32>) -> tensor<8x8x1x2x2x4xf32>
  %1 = iree_linalg_ext.winograd.filter_transform {kept} output_tile_size(6) kernel_size(3) kernel_dimensions([0, 1]) input_tile_dimensions([2, 3]) ins(%f : tensor<3x3x4x5xf32>) outs(%ft : tensor<4x5x8x8xf32>) -> tensor<4x5x8x8xf32>
  %2 = iree_linalg_ext.winograd.output_transform output_tile_size(6) kernel_size(3) image_dimensions([2, 3]) ins(%0 : tensor<8x8x1x2x2x4xf32>) outs(%y : tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32>
  %stage = arith.constant 2 : index
  %3:2 = iree_linalg_ext.fft ins(%stage : index) outs(%re, %im : tensor<3x8xf32>, tensor<3x8xf32>) : tensor<3x8xf32>, tensor<3x8xf32>
  %4:2 = iree_linalg_ext.fft {kept} ins(%stage, %c, %c : index, tensor<2xf32>, tensor<2xf32>) outs(%3#0, %3#1 : tensor<3x8xf32>, tensor<3x8xf32>) : tensor<3x8xf32>, tensor<3x8xf32>
  return
}
func.func @packing(%x: tensor<5x7xf32>, %pad: f32, %n: index, %t: tensor<?x3x4x?xf32>, %a: memref<4x6xf32>, %b: memref<2x3x2x2xf32>) {
  %0 = iree_linalg_ext.pack %x padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, %n] into %t : (tensor<5x7xf32> tensor<?x3x4x?xf32>) -> tensor<?x3x4x?xf32>
  %1 = iree_linalg_ext.unpack {kept} %0 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, %n] into %x : (tensor<?x3x4x?xf32> tensor<5x7xf32>) -> tensor<5x7xf32>
  iree_linalg_ext.pack %a inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %b : (memref<4x6xf32> memref<2x3x2x2xf32>)
  return
}

func.func @grouped(%r: tensor<3x4xf32>, %m: tensor<2x4x5xf32>, %e: tensor<2xi64>, %i: index, %o: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = iree_linalg_ext.group_matmul ins(%r, %m, %e, %i : tensor<3x4xf32>, tensor<2x4x5xf32>, tensor<2xi64>, index) outs(%o : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
