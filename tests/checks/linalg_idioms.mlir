// Shapes of programs that models and their compilers write.
#id1 = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>

// -- captured values
func.func @embedding_lookup() {
  %table = util.unfoldable_constant dense<[[1, 0, 3, 0], [0, 2, 0, 4]]> : tensor<2x4xi64>
  %rows = util.unfoldable_constant dense<[0, 1, 1]> : tensor<3xi64>
  %out = tensor.empty() : tensor<3x4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<3xi64>) outs(%out : tensor<3x4xi64>) {
  ^bb0(%row: i64, %o: i64):
    %j = linalg.index 1 : index
    %i = arith.index_cast %row : i64 to index
    %e = tensor.extract %table[%i, %j] : tensor<2x4xi64>
    linalg.yield %e : i64
  } -> tensor<3x4xi64>
  check.expect_eq_const(%r, dense<[[1, 0, 3, 0], [0, 2, 0, 4], [0, 2, 0, 4]]> : tensor<3x4xi64>) : tensor<3x4xi64>
  return
}
func.func @captured_scalar_and_rank0() {
  %s = util.unfoldable_constant 3 : i32
  %t = util.unfoldable_constant dense<10> : tensor<i32>
  %x = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  %o = tensor.empty() : tensor<3xi32>
  %r = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<3xi32>) outs(%o : tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %e = tensor.extract %t[] : tensor<i32>
    %m = arith.muli %a, %s : i32
    %y = arith.addi %m, %e : i32
    linalg.yield %y : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[13, 16, 19]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @captured_computed_tensor() {
  %x = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  %y = arith.muli %x, %x : tensor<3xi32>
  %o = tensor.empty() : tensor<3x3xi32>
  %r = linalg.generic {indexing_maps = [#id2], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<3x3xi32>) {
  ^bb0(%b: i32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %p = tensor.extract %y[%i] : tensor<3xi32>
    %q = tensor.extract %y[%j] : tensor<3xi32>
    %d = arith.subi %p, %q : i32
    linalg.yield %d : i32
  } -> tensor<3x3xi32>
  check.expect_eq_const(%r, dense<[[0, -3, -8], [3, 0, -5], [8, 5, 0]]> : tensor<3x3xi32>) : tensor<3x3xi32>
  return
}
// -- argmax
func.func @argmax_rows_two_results() {
  %x = util.unfoldable_constant dense<[[1.0, 5.0, 2.0], [7.0, -1.0, 7.0], [-3.0, -2.0, -1.0]]> : tensor<3x3xf32>
  %ninf = arith.constant 0xFF800000 : f32
  %z = arith.constant 0 : i64
  %ev = tensor.empty() : tensor<3xf32>
  %ei = tensor.empty() : tensor<3xi64>
  %v0 = linalg.fill ins(%ninf : f32) outs(%ev : tensor<3xf32>) -> tensor<3xf32>
  %i0 = linalg.fill ins(%z : i64) outs(%ei : tensor<3xi64>) -> tensor<3xi64>
  %r:2 = linalg.generic {indexing_maps = [#id2, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x3xf32>) outs(%v0, %i0 : tensor<3xf32>, tensor<3xi64>) {
  ^bb0(%a: f32, %v: f32, %i: i64):
    %j = linalg.index 1 : index
    %jj = arith.index_cast %j : index to i64
    %m = arith.maximumf %a, %v : f32
    %c = arith.cmpf ogt, %a, %v : f32
    %s = arith.select %c, %jj, %i : i64
    linalg.yield %m, %s : f32, i64
  } -> (tensor<3xf32>, tensor<3xi64>)
  check.expect_eq_const(%r#0, dense<[5.0, 7.0, -1.0]> : tensor<3xf32>) : tensor<3xf32>
  check.expect_eq_const(%r#1, dense<[1, 0, 2]> : tensor<3xi64>) : tensor<3xi64>
  return
}
func.func @argmax_only_index_used_large() {
  %seven = arith.constant 7.0 : f32
  %big = arith.constant 53.0 : f32
  %e = tensor.empty() : tensor<131072xf32>
  %f = linalg.fill ins(%seven : f32) outs(%e : tensor<131072xf32>) -> tensor<131072xf32>
  %at = arith.constant 70001 : index
  %x = tensor.insert %big into %f[%at] : tensor<131072xf32>
  %ninf = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : i32
  %ev = tensor.empty() : tensor<f32>
  %ei = tensor.empty() : tensor<i32>
  %v0 = linalg.fill ins(%ninf : f32) outs(%ev : tensor<f32>) -> tensor<f32>
  %i0 = linalg.fill ins(%c0 : i32) outs(%ei : tensor<i32>) -> tensor<i32>
  %r:2 = linalg.generic {indexing_maps = [#id1, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<131072xf32>) outs(%v0, %i0 : tensor<f32>, tensor<i32>) {
  ^bb0(%a: f32, %v: f32, %i: i32):
    %j = linalg.index 0 : index
    %jj = arith.index_cast %j : index to i32
    %m = arith.maximumf %a, %v : f32
    %c = arith.cmpf ogt, %a, %v : f32
    %s = arith.select %c, %jj, %i : i32
    linalg.yield %m, %s : f32, i32
  } -> (tensor<f32>, tensor<i32>)
  check.expect_eq_const(%r#1, dense<70001> : tensor<i32>) : tensor<i32>
  return
}
// -- rank 0
func.func @rank0_chain() {
  %a = arith.constant dense<1.0> : tensor<f32>
  %b = util.unfoldable_constant dense<2.0> : tensor<f32>
  %o = tensor.empty() : tensor<f32>
  %r = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%a, %b : tensor<f32>, tensor<f32>) outs(%o : tensor<f32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %v = tensor.extract %r[] : tensor<f32>
  %w = arith.mulf %v, %v : f32
  %t = tensor.from_elements %w : tensor<f32>
  %e = tensor.expand_shape %t [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %c = tensor.collapse_shape %e [] : tensor<1x1xf32> into tensor<f32>
  check.expect_eq_const(%c, dense<9.0> : tensor<f32>) : tensor<f32>
  check.expect_almost_eq_const(%e, dense<9.0> : tensor<1x1xf32>, 1.0e-4) : tensor<1x1xf32>
  return
}
// -- several dims, odd maps
func.func @reduce_middle_and_outer() {
  %x = util.unfoldable_constant dense<[[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]> : tensor<2x3x2xi32>
  %z = arith.constant 0 : i32
  %e = tensor.empty() : tensor<2xi32>
  %f = linalg.fill ins(%z : i32) outs(%e : tensor<2xi32>) -> tensor<2xi32>
  %r = linalg.reduce { arith.addi } ins(%x : tensor<2x3x2xi32>) outs(%f : tensor<2xi32>) dimensions = [0, 1]
  check.expect_eq_const(%r, dense<[36, 42]> : tensor<2xi32>) : tensor<2xi32>
  return
}
func.func @diagonal() {
  %x = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi32>
  %e = tensor.empty() : tensor<3xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0, d0)>, #id1], iterator_types = ["parallel"]} ins(%x : tensor<3x3xi32>) outs(%e : tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    linalg.yield %a : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[1, 5, 9]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @named_dims_and_constant_map() {
  %x = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %e = tensor.empty() : tensor<3xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(Col) -> (1, Col)>, affine_map<(Col) -> (Col)>], iterator_types = ["parallel"]} ins(%x : tensor<2x3xi32>) outs(%e : tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    linalg.yield %a : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[4, 5, 6]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @init_is_read() {
  %x = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  %y = util.unfoldable_constant dense<[10, 20, 30]> : tensor<3xi32>
  %r = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<3xi32>) outs(%y : tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.subi %b, %a : i32
    linalg.yield %s : i32
  } -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[9, 18, 27]> : tensor<3xi32>) : tensor<3xi32>
  check.expect_eq_const(%y, dense<[10, 20, 30]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @strided_slices_meet_and_go_into_a_constant() {
  %c15 = arith.constant 15 : i32
  %e = tensor.empty() : tensor<12x15xi32>
  %x = linalg.generic {indexing_maps = [#id2], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<12x15xi32>) {
  ^bb0(%b: i32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %ii = arith.index_cast %i : index to i32
    %jj = arith.index_cast %j : index to i32
    %m = arith.muli %c15, %ii : i32
    %s = arith.addi %m, %jj : i32
    linalg.yield %s : i32
  } -> tensor<12x15xi32>
  %a = tensor.extract_slice %x[2, 3] [3, 3] [2, 3] : tensor<12x15xi32> to tensor<3x3xi32>
  %b = tensor.extract_slice %x[0, 0] [3, 3] [3, 2] : tensor<12x15xi32> to tensor<3x3xi32>
  %c = arith.addi %a, %b : tensor<3x3xi32>
  %bg = arith.constant dense<42> : tensor<6x9xi32>
  %r = tensor.insert_slice %c into %bg[1, 2] [3, 3] [2, 3] : tensor<3x3xi32> into tensor<6x9xi32>
  check.expect_eq_const(%r, dense<[
    [42, 42, 42, 42, 42, 42, 42, 42, 42],
    [42, 42, 33, 42, 42, 38, 42, 42, 43],
    [42, 42, 42, 42, 42, 42, 42, 42, 42],
    [42, 42, 108, 42, 42, 113, 42, 42, 118],
    [42, 42, 42, 42, 42, 42, 42, 42, 42],
    [42, 42, 183, 42, 42, 188, 42, 42, 193]]> : tensor<6x9xi32>) : tensor<6x9xi32>
  return
}
func.func @slice_bounds_computed() {
  %c0 = arith.constant 0 : index
  %c0_i64 = arith.constant 0 : i64
  %c3 = arith.constant 3 : i64
  %c2 = arith.constant 2 : i64
  %x = arith.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32>
  %n = tensor.dim %x, %c0 : tensor<4xf32>
  %n64 = arith.index_cast %n : index to i64
  %wrapped = arith.addi %c2, %n64 : i64
  %pos = arith.cmpi sge, %c2, %c0_i64 : i64
  %begin = arith.select %pos, %c2, %wrapped : i64
  %b = arith.index_cast %begin : i64 to index
  %len = arith.subi %n, %b : index
  %s = tensor.extract_slice %x[%b] [%len] [1] : tensor<4xf32> to tensor<?xf32>
  %e = tensor.empty(%len) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%s : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %f = arith.sitofp %c3 : i64 to f32
    %m = arith.mulf %a, %f : f32
    linalg.yield %m : f32
  } -> tensor<?xf32>
  %k = tensor.cast %r : tensor<?xf32> to tensor<2xf32>
  check.expect_almost_eq_const(%k, dense<[6.0, 9.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func private @iota(%h: index, %w: index) -> tensor<?x?xi32> {
  %e = tensor.empty(%h, %w) : tensor<?x?xi32>
  %s = linalg.generic {indexing_maps = [#id2], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x?xi32>) {
  ^bb0(%b: i32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %m = arith.muli %i, %w : index
    %l = arith.addi %j, %m : index
    %c = arith.index_cast %l : index to i32
    linalg.yield %c : i32
  } -> tensor<?x?xi32>
  %o = util.optimization_barrier %s : tensor<?x?xi32>
  %t = flow.tensor.tie_shape %o : tensor<?x?xi32>{%h, %w}
  return %t : tensor<?x?xi32>
}
func.func @pack_fully_dynamic_against_pad_and_transpose() {
  %h = util.unfoldable_constant 100 : index
  %w = util.unfoldable_constant 250 : index
  %src = call @iota(%h, %w) : (index, index) -> tensor<?x?xi32>
  %pv = arith.constant 42 : i32
  %t16 = util.unfoldable_constant 16 : index
  %t32 = util.unfoldable_constant 32 : index
  %oh = arith.ceildivui %h, %t32 : index
  %ow = arith.ceildivui %w, %t16 : index
  %e = tensor.empty(%ow, %oh, %t16, %t32) : tensor<?x?x?x?xi32>
  %p = linalg.pack %src padding_value(%pv : i32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [%t16, %t32] into %e
      : tensor<?x?xi32> -> tensor<?x?x?x?xi32>
  %pc = tensor.cast %p : tensor<?x?x?x?xi32> to tensor<16x4x16x32xi32>
  %c100 = arith.constant 100 : index
  %c250 = arith.constant 250 : index
  %src2 = call @iota(%c100, %c250) : (index, index) -> tensor<?x?xi32>
  %st = tensor.cast %src2 : tensor<?x?xi32> to tensor<100x250xi32>
  %pad = tensor.pad %st low[0, 0] high[28, 6] {
  ^bb0(%i: index, %j: index):
    tensor.yield %pv : i32
  } : tensor<100x250xi32> to tensor<128x256xi32>
  %x = tensor.expand_shape %pad [[0, 1], [2, 3]] output_shape [4, 32, 16, 16] : tensor<128x256xi32> into tensor<4x32x16x16xi32>
  %te = tensor.empty() : tensor<16x4x16x32xi32>
  %tr = linalg.transpose ins(%x : tensor<4x32x16x16xi32>) outs(%te : tensor<16x4x16x32xi32>) permutation = [2, 0, 3, 1]
  check.expect_eq(%pc, %tr) : tensor<16x4x16x32xi32>
  return
}
func.func @unpack_cropped_dynamic() {
  %d0 = util.unfoldable_constant 4 : index
  %d1 = util.unfoldable_constant 48 : index
  %src = call @iota(%d0, %d1) : (index, index) -> tensor<?x?xi32>
  %st = tensor.cast %src : tensor<?x?xi32> to tensor<4x48xi32>
  %x = tensor.expand_shape %st [[0, 1], [2, 3]] output_shape [2, 2, 4, 12] : tensor<4x48xi32> into tensor<2x2x4x12xi32>
  %hid = tensor.cast %x : tensor<2x2x4x12xi32> to tensor<?x?x4x12xi32>
  %h = util.unfoldable_constant 7 : index
  %w = util.unfoldable_constant 21 : index
  %e = tensor.empty(%h, %w) : tensor<?x?xi32>
  %u = linalg.unpack %hid outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, 12] into %e : tensor<?x?x4x12xi32> -> tensor<?x?xi32>
  %uc = tensor.cast %u : tensor<?x?xi32> to tensor<7x21xi32>
  %te = tensor.empty() : tensor<2x4x2x12xi32>
  %tr = linalg.transpose ins(%x : tensor<2x2x4x12xi32>) outs(%te : tensor<2x4x2x12xi32>) permutation = [1, 2, 0, 3]
  %co = tensor.collapse_shape %tr [[0, 1], [2, 3]] : tensor<2x4x2x12xi32> into tensor<8x24xi32>
  %sl = tensor.extract_slice %co[0, 0] [7, 21] [1, 1] : tensor<8x24xi32> to tensor<7x21xi32>
  check.expect_eq(%uc, %sl) : tensor<7x21xi32>
  return
}
func.func @fill_converts() {
  %c = arith.constant 3 : i32
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.fill ins(%c : i32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const(%r, dense<3.0> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func @same_value_twice_and_unused() {
  %x = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  %unused = arith.addi %x, %x : tensor<3xi32>
  %e = tensor.empty() : tensor<3xi32>
  %r = linalg.add ins(%x, %x : tensor<3xi32>, tensor<3xi32>) outs(%e : tensor<3xi32>) -> tensor<3xi32>
  %q = linalg.add ins(%r, %x : tensor<3xi32>, tensor<3xi32>) outs(%r : tensor<3xi32>) -> tensor<3xi32>
  check.expect_eq_const(%r, dense<[2, 4, 6]> : tensor<3xi32>) : tensor<3xi32>
  check.expect_eq_const(%q, dense<[3, 6, 9]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @matmuls_onto_one_accumulator_dynamic() {
  %a = flow.tensor.dynamic_constant dense<[[1, 2], [3, -4]]> : tensor<2x2xi8> -> tensor<?x?xi8>
  %b = flow.tensor.dynamic_constant dense<[[5, 6], [7, 8]]> : tensor<2x2xi8> -> tensor<?x?xi8>
  %c = flow.tensor.dynamic_constant dense<[[100, 200], [300, 400]]> : tensor<2x2xi32> -> tensor<?x?xi32>
  %r1 = linalg.matmul ins(%a, %b : tensor<?x?xi8>, tensor<?x?xi8>) outs(%c : tensor<?x?xi32>) -> tensor<?x?xi32>
  %r2 = linalg.matmul ins(%a, %b : tensor<?x?xi8>, tensor<?x?xi8>) outs(%r1 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %r3 = linalg.matmul ins(%a, %b : tensor<?x?xi8>, tensor<?x?xi8>) outs(%r2 : tensor<?x?xi32>) -> tensor<?x?xi32>
  %s = tensor.cast %r3 : tensor<?x?xi32> to tensor<2x2xi32>
  check.expect_eq_const(%s, dense<[[157, 266], [261, 358]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  return
}
func.func @matmul_unsigned_cast() {
  %a = util.unfoldable_constant dense<[[-1, 2]]> : tensor<1x2xi8>
  %b = util.unfoldable_constant dense<[[3], [-4]]> : tensor<2x1xi8>
  %z = arith.constant dense<0> : tensor<1x1xi32>
  %r = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%a, %b : tensor<1x2xi8>, tensor<2x1xi8>) outs(%z : tensor<1x1xi32>) -> tensor<1x1xi32>
  check.expect_eq_const(%r, dense<1269> : tensor<1x1xi32>) : tensor<1x1xi32>
  return
}
func.func @matmul_with_maps() {
  %a = util.unfoldable_constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  %b = util.unfoldable_constant dense<[[1, 0, 2], [0, 1, 1]]> : tensor<2x3xi32>
  %z = arith.constant dense<0> : tensor<2x2xi32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<3x2xi32>, tensor<2x3xi32>) outs(%z : tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const(%r, dense<[[11, 8], [14, 10]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  %c = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (n, m)>]
      ins(%a, %b : tensor<3x2xi32>, tensor<2x3xi32>) outs(%z : tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const(%c, dense<[[11, 14], [8, 10]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  return
}
func.func @conv_spellings() {
  %x = util.unfoldable_constant dense<1.0> : tensor<1x25x25x3xf32>
  %k = util.unfoldable_constant dense<1.0> : tensor<3x3x3x16xf32>
  %bias = util.unfoldable_constant dense<1.0> : tensor<16xf32>
  %e = tensor.empty() : tensor<1x12x12x16xf32>
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32>
  %c = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %k : tensor<1x25x25x3xf32>, tensor<3x3x3x16xf32>) outs(%f : tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %bias : tensor<1x12x12x16xf32>, tensor<16xf32>) outs(%e : tensor<1x12x12x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1x12x12x16xf32>
  check.expect_eq_const(%r, dense<28.0> : tensor<1x12x12x16xf32>) : tensor<1x12x12x16xf32>
  return
}
func.func @elementwise_large_reduction_with_attributes() {
  %norm = arith.constant 4096.0 : f32
  %e = tensor.empty() : tensor<8x4096xf32>
  %x = linalg.generic {indexing_maps = [#id2], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x4096xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %s = arith.addi %i, %j : index
    %c = arith.index_cast %s : index to i32
    %u = arith.uitofp %c : i32 to f32
    %d = arith.divf %u, %norm : f32
    linalg.yield %d : f32
  } -> (tensor<8x4096xf32>)
  %o = util.optimization_barrier %x : tensor<8x4096xf32>
  %zero = arith.constant 0.0 : f32
  %v = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%v : tensor<8xf32>) -> tensor<8xf32>
  %n = linalg.generic {indexing_maps = [#id2, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"], iree_linalg_ext.split_reduction = [128]}
      ins(%o : tensor<8x4096xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  check.expect_almost_eq_const(%n, dense<[2047.5, 2048.5, 2049.5, 2050.5, 2051.5, 2052.5, 2053.5, 2054.5]> : tensor<8xf32>, atol 0.01) : tensor<8xf32>
  return
}
func.func @i1_tensors() {
  %a = util.unfoldable_constant dense<[true, false, true, false]> : tensor<4xi1>
  %b = util.unfoldable_constant dense<[true, true, false, false]> : tensor<4xi1>
  %c = arith.xori %a, %b : tensor<4xi1>
  %e = arith.extui %c : tensor<4xi1> to tensor<4xi8>
  %t = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %u = arith.negf %t : tensor<4xf32>
  %s = arith.select %c, %t, %u : tensor<4xi1>, tensor<4xf32>
  check.expect_eq_const(%e, dense<[0, 1, 1, 0]> : tensor<4xi8>) : tensor<4xi8>
  check.expect_eq_const(%s, dense<[-1.0, 2.0, 3.0, -4.0]> : tensor<4xf32>) : tensor<4xf32>
  check.expect_eq_const(%c, dense<[false, true, true, false]> : tensor<4xi1>) : tensor<4xi1>
  %n = arith.cmpf olt, %t, %u : tensor<4xf32>
  %nn = arith.cmpf oge, %t, %u : tensor<4xf32>
  check.expect_all_true(%nn) : tensor<4xi1>
  check.expect_eq_const(%n, dense<false> : tensor<4xi1>) : tensor<4xi1>
  return
}
func.func @flow_constant_dynamic() {
  %c = flow.tensor.constant dense<[[6, 7], [8, 9]]> : tensor<2x2xi32> -> tensor<?x?xi32>
  %k = flow.tensor.constant dense<[1, 0]> : tensor<2xi32> -> tensor<?xi32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %c, %c0 : tensor<?x?xi32>
  %n = tensor.dim %c, %c1 : tensor<?x?xi32>
  %kk = tensor.dim %k, %c0 : tensor<?xi32>
  %e = tensor.empty(%m, %kk) : tensor<?x?xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, #id2], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<?xi32>) outs(%e : tensor<?x?xi32>) {
  ^bb0(%a: i32, %o: i32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %a : i32 to index
    %v = tensor.extract %c[%i, %j] : tensor<?x?xi32>
    linalg.yield %v : i32
  } -> tensor<?x?xi32>
  %s = tensor.cast %r : tensor<?x?xi32> to tensor<2x2xi32>
  check.expect_eq_const(%s, dense<[[7, 6], [9, 8]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  return
}
func.func @zero_sized() {
  %x = util.unfoldable_constant dense<> : tensor<0x4xf32>
  %y = util.unfoldable_constant dense<1.0> : tensor<4x3xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<0x3xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<0x3xf32>) -> tensor<0x3xf32>
  %m = linalg.matmul ins(%x, %y : tensor<0x4xf32>, tensor<4x3xf32>) outs(%f : tensor<0x3xf32>) -> tensor<0x3xf32>
  %o = util.unfoldable_constant dense<2.0> : tensor<2x3xf32>
  %c = tensor.concat dim(0) %m, %o, %m : (tensor<0x3xf32>, tensor<2x3xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const(%c, dense<2.0> : tensor<2x3xf32>) : tensor<2x3xf32>
  %e4 = tensor.empty() : tensor<4xf32>
  %f4 = linalg.fill ins(%z : f32) outs(%e4 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<0x4xf32>) outs(%f4 : tensor<4xf32>) dimensions = [0]
  check.expect_eq_const(%s, dense<0.0> : tensor<4xf32>) : tensor<4xf32>
  check.expect_eq_const(%m, dense<> : tensor<0x3xf32>) : tensor<0x3xf32>
  return
}
func.func @negative_stride() {
  %a = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %r = tensor.extract_slice %a[3] [4] [-1] : tensor<4xf32> to tensor<4xf32>
  check.expect_eq_const(%r, dense<[4.0, 3.0, 2.0, 1.0]> : tensor<4xf32>) : tensor<4xf32>
  return
}
