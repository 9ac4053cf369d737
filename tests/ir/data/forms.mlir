// Attributes of arguments, parallel affine loops, gathers, fast casts.
func.func private @f(i8 {llvm.zeroext}, f32) -> (i32 {llvm.signext}, i8)
func.func private @g(%x: i8 {a.b = 1 : i32}, %y: i8) -> i8
func.func private @h(i8)
func.func @k(%x: i8 {a.b}, %y: i8) -> (i8 {c.d}) {
  return %x : i8
}

func.func @parallel(%m: memref<100x100xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  affine.parallel (%i) = (0) to (100) {
    %1 = affine.load %m[%i, %i] : memref<100x100xf32>
    affine.store %1, %m[%i, 0] : memref<100x100xf32>
  }
  affine.parallel (%i, %j) = (0, %c0) to (symbol(%n) * 2, min(%n, 10)) step (4, 1) {
    affine.parallel (%k) = (max(%i, %j)) to (%i + 4) {
    }
  }
  %r = affine.parallel (%i) = (0) to (10) reduce ("addf") -> (f32) {
    %1 = affine.load %m[%i, %i] : memref<100x100xf32>
    affine.yield %1 : f32
  }
  return
}

func.func @gather(%s: tensor<4x4x4xf32>, %i: tensor<1x2x3xindex>, %x: tensor<1x2x1x4xf32>, %f: f32) -> tensor<1x2x1x4xf32> {
  %ii = tensor.generate {
   ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %a : index
  } : tensor<1x2x2xindex>
  %0 = tensor.gather %s[%ii] gather_dims([0, 1]) unique : (tensor<4x4x4xf32>, tensor<1x2x2xindex>) -> tensor<1x2x1x1x4xf32>
  %q = tensor.gather %s[%ii] gather_dims([0, 1]) unique : (tensor<4x4x4xf32>, tensor<1x2x2xindex>) -> tensor<1x2x4xf32>
  %1 = tensor.scatter %q into %s[%ii] scatter_dims([0, 1]) unique : (tensor<1x2x4xf32>, tensor<4x4x4xf32>, tensor<1x2x2xindex>) -> tensor<4x4x4xf32>
  return %x : tensor<1x2x1x4xf32>
}

func.func @truncate(%f: f32, %v: vector<4xf32>) {
  %0 = arith.truncf %f fastmath<fast> : f32 to f16
  %2 = arith.extf %f fastmath<nnan> : f32 to f64
  %3 = arith.truncf %v : vector<4xf32> to vector<4xf16>
  return
}

func.func @tiles(%a: tensor<3x2xf32>, %s: f32, %o: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %r = iree_linalg_ext.custom_op {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#iree_linalg_ext.iterator_type<parallel>, #iree_linalg_ext.iterator_type<parallel>]} ins(%a, %s : tensor<3x2xf32>, f32) outs(%o : tensor<3x2xf32>) {
  ^bb0(%t: tensor<?x?xf32>, %n: f32, %u: tensor<?x?xf32>):
    %1 = linalg.fill ins(%n : f32) outs(%u : tensor<?x?xf32>) -> tensor<?x?xf32>
    iree_linalg_ext.yield %1 : tensor<?x?xf32>
  } -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}
