// Memory, loops and regions: `memref`, `gpu`, `affine`, `scf`, `tensor`, `iree_codegen`, and the rest of `linalg`.
"memref.global"() <{sym_name = "table", sym_visibility = "private", type = memref<4xf32>, initial_value = dense<1.0> : tensor<4xf32>, constant}> : () -> ()
func.func @memory(%m: memref<4x8xf32>, %n: index, %v: f32, %s: memref<2xindex>, %bytes: memref<64xi8>, %x: memref<4xf32>) {
  %0 = memref.alloc() : memref<4x8xf32>
  %1 = memref.transpose %m (d0, d1) -> (d1, d0) {kept} : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
  %2 = memref.reshape %m(%s) : (memref<4x8xf32>, memref<2xindex>) -> memref<?x?xf32>
  %3 = memref.get_global @table : memref<4xf32>
  %4 = "memref.rank"(%m) : (memref<4x8xf32>) -> index
  %5 = memref.cast %m {kept} : memref<4x8xf32> to memref<?x8xf32>
  %6 = memref.memory_space_cast %m : memref<4x8xf32> to memref<4x8xf32, 1 : i32>
  %7 = memref.extract_aligned_pointer_as_index %m : memref<4x8xf32> -> index
  %8 = memref.atomic_rmw addf %v, %m[%n, %n] {kept} : (f32, memref<4x8xf32>) -> f32
  memref.copy %m, %0 {kept} : memref<4x8xf32> to memref<4x8xf32>
  %9, %10, %11:2, %12:2 = memref.extract_strided_metadata %m : memref<4x8xf32> -> memref<f32>, index, index, index, index, index
  %13, %14, %15, %16, %17, %18 = iree_codegen.extract_strided_metadata %m {kept} : memref<4x8xf32> -> memref<f32>, index, index, index, index, index
  iree_codegen.ukernel.generic {kept} "name" ins(%m : memref<4x8xf32>) outs(%0 : memref<4x8xf32>) (%n, %v : index, f32) fn_def_attrs {a = 1 : i32} strided_dims([[0], [0, 1]])
  iree_codegen.ukernel.generic "name" outs(%0 : memref<4x8xf32>) strided_outer_dims(1)
  memref.dealloc %0 : memref<4x8xf32>
  gpu.barrier {kept}
  gpu.barrier
  %20 = gpu.thread_id x
  %21 = gpu.block_id y {kept}
  %22 = gpu.block_dim z upper_bound 64
  %23 = gpu.grid_dim x
  %24 = gpu.global_id x
  return
}
#map = affine_map<(d0)[s0] -> (d0 + s0, 8)>
#set = affine_set<(d0)[s0] : (d0 - s0 >= 0)>
func.func @affine(%n: index, %m: memref<8xf32>, %v: f32) -> f32 {
  %0 = affine.max #map(%n)[%n] {kept}
  %1 = affine.min #map(%n)[%n]
  %2:2 = affine.delinearize_index %n into (%n, 4) {kept} : index, index
  %3 = affine.linearize_index disjoint [%2#0, %2#1] by (%n, 4) {kept} : index
  %4 = affine.linearize_index [%n] by (4) : index
  %5 = affine.if #set(%n)[%n] -> (f32) {
    affine.yield %v : f32
  } else {
    affine.yield %v : f32
  } {kept}
  affine.if #set(%n)[%n] {
  }
  affine.parallel (%i, %j) = (0, max(%n, 3)) to (%n, min(symbol(%n) * 2, 8)) step (1, 2) {
    affine.store %v, %m[%i] : memref<8xf32>
  } {kept}
  %6 = affine.parallel (%i) = (0) to (8) reduce ("addf") -> (f32) {
    affine.yield %v : f32
  }
  return %5 : f32
}
func.func @loops(%c: i1, %n: index, %v: f32, %t: tensor<4xf32>, %i32: i32) -> tensor<4xf32> {
  %0 = scf.if %c -> f32 {
    scf.yield %v : f32
  } else {
    scf.yield %v : f32
  } {kept}
  %1:2 = scf.if %c -> (f32, f32) {
    scf.yield %v, %v : f32, f32
  } else {
    scf.yield %v, %v : f32, f32
  }
  scf.if %c {
  }
  %2 = scf.for %i = %n to %n step %n iter_args(%x = %v) -> f32 {
    scf.yield %x : f32
  } {kept}
  scf.for unsigned %i = %i32 to %i32 step %i32 : i32 {
  }
  %3 = scf.while (%x = %v) : (f32) -> f32 {
    scf.condition(%c) %x : f32
  } do {
  ^bb0(%y: f32):
    scf.yield %y : f32
  } attributes {kept}
  scf.while : () -> () {
    scf.condition(%c)
  } do {
    scf.yield
  }
  %4:2 = scf.parallel (%i, %j) = (%n, %n) to (%n, %n) step (%n, %n) init (%v, %v) -> (f32, f32) {
    scf.reduce(%v, %v : f32, f32) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      scf.reduce.return %s : f32
    }, {
    ^bb0(%a: f32, %b: f32):
      %s = arith.mulf %a, %b : f32
      scf.reduce.return %s : f32
    }
  } {kept}
  scf.parallel (%i) = (%n) to (%n) step (%n) {
  }
  %5 = scf.forall (%i, %j) = (0, %n) to (%n, 4) step (1, 2) shared_outs(%o = %t) -> (tensor<4xf32>) {
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%i] [4] [1] {kept} : tensor<4xf32> into tensor<4xf32>
    }
  } {kept, mapping = [1 : i64]}
  scf.forall (%i) in (%n) {
  }
  %6 = scf.index_switch %n -> f32
  case 1 {
    scf.yield %v : f32
  }
  default {
    scf.yield %v : f32
  }
  %7 = scf.execute_region -> f32 {
    scf.yield %v : f32
  }
  return %5 : tensor<4xf32>
}
func.func @tensors(%t: tensor<8x6xf32>, %u: tensor<2x3x4x2xf32>, %n: index, %v: f32, %d: tensor<?x4xf32>, %at: tensor<2x1xi32>, %rows: tensor<2x6xf32>, %sizes: tensor<2xindex>) {
  %0 = tensor.generate %n {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } {kept} : tensor<?x4xf32>
  %1 = tensor.rank %t : tensor<8x6xf32>
  %2 = tensor.bitcast %t : tensor<8x6xf32> to tensor<8x6xi32>
  %3 = tensor.empty(%n) {kept} : tensor<?x4xf32>
  %4 = tensor.expand_shape %t [[0, 1], [2]] {kept} : tensor<8x6xf32> into tensor<2x4x6xf32>
  %5 = tensor.expand_shape %d [[0, 1], [2]] output_shape [%n, 2, 4] : tensor<?x4xf32> into tensor<?x2x4xf32>
  %6 = tensor.reshape %t(%sizes) : (tensor<8x6xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %7 = tensor.gather %t[%at] gather_dims([0]) unique {kept} : (tensor<8x6xf32>, tensor<2x1xi32>) -> tensor<2x6xf32>
  %8 = tensor.scatter %rows into %t[%at] scatter_dims([0]) unique : (tensor<2x6xf32>, tensor<8x6xf32>, tensor<2x1xi32>) -> tensor<8x6xf32>
  return
}
func.func @packs(%t: tensor<8x6xf32>, %u: tensor<2x3x4x2xf32>, %n: index, %v: f32) {
  %0 = tensor.pack %t inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %u {kept} : tensor<8x6xf32> -> tensor<2x3x4x2xf32>
  %1 = tensor.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %t : tensor<2x3x4x2xf32> -> tensor<8x6xf32>
  %2 = linalg.pack %t padding_value(%v : f32) outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %u : tensor<8x6xf32> -> tensor<2x3x4x2xf32>
  %3 = linalg.unpack %2 inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %t : tensor<2x3x4x2xf32> -> tensor<8x6xf32>
  return
}
func.func @structured(%a: tensor<4x8xi32>, %b: tensor<8x6xi32>, %c: tensor<4x6xi32>, %x: tensor<4x8xf32>, %y: tensor<4xf32>, %e: tensor<2x2x2x4x4xf32>, %f: tensor<2x3x2x5x4xf32>, %g: tensor<2x2x3x4x5xf32>, %z: tensor<4x1xf32>) {
  %0 = linalg.matmul_unsigned {kept} ins(%a, %b : tensor<4x8xi32>, tensor<8x6xi32>) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  %1 = linalg.div_unsigned ins(%a, %a : tensor<4x8xi32>, tensor<4x8xi32>) outs(%a : tensor<4x8xi32>) -> tensor<4x8xi32>
  %2 = linalg.copy ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = linalg.elemwise_unary {fun = #linalg.unary_fn<exp>, cast = #linalg.type_fn<cast_signed>} ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = linalg.elemwise_binary {fun = #linalg.binary_fn<add>} ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = linalg.elementwise kind = #linalg.elementwise_kind<add> ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = linalg.batch_mmt4d ins(%e, %f : tensor<2x2x2x4x4xf32>, tensor<2x3x2x5x4xf32>) outs(%g : tensor<2x2x3x4x5xf32>) -> tensor<2x2x3x4x5xf32>
  %7 = linalg.softmax {kept} dimension(1) ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = linalg.transpose ins(%z : tensor<4x1xf32>) outs(%z : tensor<4x1xf32>) permutation = [0, 1] {kept}
  %9 = linalg.broadcast ins(%y : tensor<4xf32>) outs(%x : tensor<4x8xf32>) dimensions = [1]
  %10 = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%y : tensor<4xf32>) dimensions = [1] {kept}
    (%p: f32, %q: f32) {
      %s = arith.addf %p, %q : f32
      linalg.yield %s : f32
    }
  %11 = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%y : tensor<4xf32>) dimensions = [1]
  %12 = linalg.map { math.exp } ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>)
  %13 = linalg.contract {kept} indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<4x8xi32>, tensor<8x6xi32>) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  %14 = linalg.generic {doc = "x", indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"], library_call = "y"} outs(%x : tensor<4x8xf32>) attrs = {kept} {
  ^bb0(%p: f32):
    %i = linalg.index 0 : index
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  return
}
