func.func @k(%m: memref<?x16xf32, strided<[?, 1], offset: ?>>, %n: index, %v: memref<8xf32>, %t: tensor<?x16xf32>, %b: i1, %d: memref<?xf32>) -> index {
  %c0 = arith.constant 0 : index
  %i32 = arith.constant 1 : i32
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %f = arith.constant 0x7F800000 : f32
  %fn = arith.constant -1.5 : f32
  %k1 = arith.constant dense<[1.0, -2.0, 0.5, 1.0e+10]> : tensor<4xf32>
  %k2 = arith.constant dense<"0x0000803F00000040"> : tensor<2xf32>
  %k3 = arith.constant dense<true> : tensor<4xi1>
  %k4 = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %k5 = arith.constant dense<0.0> : vector<4xf32>
  %k6 = arith.constant true
  %base, %off, %sz:2, %st:2 = memref.extract_strided_metadata %m : memref<?x16xf32, strided<[?, 1], offset: ?>> -> memref<f32>, index, index, index, index, index
  %b1, %o1, %s1, %t1 = iree_codegen.extract_strided_metadata %v : memref<8xf32> -> memref<f32>, index, index, index
  %sub = memref.subview %m[%c0, 4] [%n, 8] [1, 1] : memref<?x16xf32, strided<[?, 1], offset: ?>> to memref<?x8xf32, strided<[?, 1], offset: ?>>
  %al = memref.assume_alignment %v, 64 : memref<8xf32>
  %rc = memref.reinterpret_cast %v to offset: [%c0], sizes: [%n], strides: [1] : memref<8xf32> to memref<?xf32, strided<[1], offset: ?>>
  %cast = memref.cast %v : memref<8xf32> to memref<?xf32>
  %dim = memref.dim %m, %c0 : memref<?x16xf32, strided<[?, 1], offset: ?>>
  %wg = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %alc = memref.alloca(%n) : memref<?xf32>
  %ld = memref.load %m[%c0, %c1] : memref<?x16xf32, strided<[?, 1], offset: ?>>
  memref.store %ld, %v[%c0] : memref<8xf32>
  memref.copy %cast, %d : memref<?xf32> to memref<?xf32>
  %exp = memref.expand_shape %d [[0, 1]] output_shape [%n, 4] : memref<?xf32> into memref<?x4xf32>
  %col = memref.collapse_shape %exp [[0, 1]] : memref<?x4xf32> into memref<?xf32>
  %rmw = memref.atomic_rmw addf %ld, %v[%c0] : (f32, memref<8xf32>) -> f32
  %ptr = memref.extract_aligned_pointer_as_index %v : memref<8xf32> -> index
  %ms = memref.memory_space_cast %v : memref<8xf32> to memref<8xf32, 1>
  %a1 = affine.apply affine_map<(d0)[s0] -> (d0 * 4 + s0 mod 3 + d0 floordiv 2)>(%n)[%c1]
  %a2 = affine.min affine_map<(d0)[s0] -> (s0 - d0, 64)>(%n)[%c8]
  %a3 = affine.max affine_map<(d0)[s0] -> (s0 - d0, 64)>(%n)[%c8]
  %a4:2 = affine.delinearize_index %n into (%c8, 4) : index, index
  %a5 = affine.linearize_index [%c0, %c1] by (%c8, 4) : index
  %a6 = affine.linearize_index disjoint [%c0, %c1] by (8, 4) : index
  affine.for %i = 0 to %n step 2 { affine.store %ld, %v[%i] : memref<8xf32> }
  %al2 = affine.load %v[%c0 + 3] : memref<8xf32>
  affine.for %i = 0 to min affine_map<(d0) -> (d0, 8)>(%n) { %q = affine.load %v[%i] : memref<8xf32> }
  affine.if affine_set<(d0) : (d0 - 1 >= 0)>(%n) { affine.store %ld, %v[0] : memref<8xf32> } else { affine.store %fn, %v[0] : memref<8xf32> }
  scf.for %i = %c0 to %n step %c1 { memref.store %ld, %v[%i] : memref<8xf32> }
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %f) -> (f32) { %s = arith.addf %acc, %ld : f32 scf.yield %s : f32 }
  scf.parallel (%i, %j) = (%c0, %c0) to (%n, %c8) step (%c1, %c1) { scf.reduce }
  %red = scf.parallel (%i) = (%c0) to (%n) step (%c1) init (%f) -> f32 { scf.reduce(%ld : f32) { ^bb0(%x: f32, %y: f32): %s = arith.addf %x, %y : f32 scf.reduce.return %s : f32 } }
  scf.forall (%i) in (%n) { memref.store %ld, %v[%i] : memref<8xf32> }
  scf.forall (%i, %j) in (%n, 4) { memref.store %ld, %v[%i] : memref<8xf32> } {mapping = [#gpu.thread<y>, #gpu.thread<x>]}
  scf.forall (%i) = (%c0) to (%n) step (%c1) { memref.store %ld, %v[%i] : memref<8xf32> scf.forall.in_parallel {} }
  %ifr = scf.if %b -> (f32) { scf.yield %f : f32 } else { scf.yield %fn : f32 }
  scf.if %b { memref.store %ld, %v[%c0] : memref<8xf32> }
  %w = scf.while (%x = %c0) : (index) -> index { %cmp = arith.cmpi slt, %x, %n : index scf.condition(%cmp) %x : index } do { ^bb0(%x: index): %nx = arith.addi %x, %c1 : index scf.yield %nx : index }
  %sw = scf.index_switch %n -> index case 2 { scf.yield %c1 : index } default { scf.yield %c0 : index }
  %ex = scf.execute_region -> index { scf.yield %c1 : index }
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %td = tensor.dim %t, %c0 : tensor<?x16xf32>
  %te = tensor.extract %t[%c0, %c1] : tensor<?x16xf32>
  %ti = tensor.insert %te into %t[%c0, %c1] : tensor<?x16xf32>
  %ts = tensor.extract_slice %t[%c0, 0] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %tis = tensor.insert_slice %ts into %t[%c0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x16xf32>
  %tc = tensor.cast %t : tensor<?x16xf32> to tensor<?x?xf32>
  %tcs = tensor.collapse_shape %t [[0, 1]] : tensor<?x16xf32> into tensor<?xf32>
  %tes = tensor.expand_shape %tcs [[0, 1]] output_shape [%n, 16] : tensor<?xf32> into tensor<?x16xf32>
  %tf = tensor.from_elements %te, %te : tensor<2xf32>
  %tsp = tensor.splat %te : tensor<4xf32>
  %tspd = tensor.splat %te[%n] : tensor<?x4xf32>
  %tg = tensor.generate %n { ^bb0(%i: index): tensor.yield %te : f32 } : tensor<?xf32>
  %tp = tensor.pad %t low[0, %c1] high[1, 2] { ^bb0(%i: index, %j: index): tensor.yield %te : f32 } : tensor<?x16xf32> to tensor<?x?xf32>
  %tcc = tensor.concat dim(0) %t, %t : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %tr = tensor.rank %t : tensor<?x16xf32>
  %tb = tensor.bitcast %t : tensor<?x16xf32> to tensor<?x16xi32>
  %lf = linalg.fill ins(%f : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %lg = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%ts : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) { ^bb0(%in: f32, %out: f32): %ix = linalg.index 0 : index %z = arith.mulf %in, %in : f32 linalg.yield %z : f32 } -> tensor<?x4xf32>
  %k7 = arith.constant dense<0.0> : tensor<4x4xf32>
  %mm = linalg.matmul ins(%ts, %k7 : tensor<?x4xf32>, tensor<4x4xf32>) outs(%lf : tensor<?x4xf32>) -> tensor<?x4xf32>
  gpu.barrier
  %gt = gpu.thread_id x
  %vl = vector.load %v[%c0] : memref<8xf32>, vector<4xf32>
  vector.store %vl, %v[%c0] : memref<8xf32>, vector<4xf32>
  %vb = vector.broadcast %f : f32 to vector<4xf32>
  %vf = vector.fma %vb, %vl, %vl : vector<4xf32>
  %vr = vector.reduction <add>, %vf : vector<4xf32> into f32
  cf.assert %b, "must hold"
  cf.cond_br %b, ^a(%c0 : index), ^c
^a(%x1: index):
  cf.br ^c
^c:
  cf.switch %i32 : i32, [default: ^e, 1: ^e]
^e:
  return %a1 : index
}
