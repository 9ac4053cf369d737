// Bits that eight share a byte: how they lie in bytes of another type, and that everything else is as for other i1.

#bits = #iree_encoding.packed_storage
#id = affine_map<(d0) -> (d0)>

func.func @apart() {
  %a = util.unfoldable_constant dense<[19, -128]> : tensor<2xi8>
  %b = flow.tensor.bitcast %a : tensor<2xi8> -> tensor<16xi1, #bits>
  %e = tensor.empty() : tensor<16xi32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%b : tensor<16xi1, #bits>) outs(%e : tensor<16xi32>) {
  ^bb0(%x: i1, %o: i32):
    %w = arith.extui %x : i1 to i32
    linalg.yield %w : i32
  } -> tensor<16xi32>
  check.expect_eq_const(%r, dense<[1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]> : tensor<16xi32>) : tensor<16xi32>
  return
}

func.func @together() {
  %a = util.unfoldable_constant dense<[[9, 0, 0, 4], [0, 0, 7, 0], [1, 1, 1, 1], [0, 0, 0, 3]]> : tensor<4x4xi8>
  %zero = arith.constant 0 : i8
  %e = tensor.empty() : tensor<4x4xi1, #bits>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x4xi8>) outs(%e : tensor<4x4xi1, #bits>) {
  ^bb0(%x: i8, %o: i1):
    %c = arith.cmpi sgt, %x, %zero : i8
    linalg.yield %c : i1
  } -> tensor<4x4xi1, #bits>
  %p = flow.tensor.bitcast %r : tensor<4x4xi1, #bits> -> tensor<2xi8>
  check.expect_eq_const(%p, dense<[73, -113]> : tensor<2xi8>) : tensor<2xi8>
  return
}

func.func @there_and_back() {
  %a = util.unfoldable_constant dense<[0x12345678, 0xFEDCBA98, 7]> : tensor<3xi32>
  %b = flow.tensor.bitcast %a : tensor<3xi32> -> tensor<12x8xi1, #iree_encoding.packed_storage>
  %h = util.optimization_barrier %b : tensor<12x8xi1, #iree_encoding.packed_storage>
  %c = flow.tensor.bitcast %h : tensor<12x8xi1, #iree_encoding.packed_storage> -> tensor<4x24xi1, #bits>
  %r = flow.tensor.bitcast %c : tensor<4x24xi1, #bits> -> tensor<3xi32>
  check.expect_eq(%r, %a) : tensor<3xi32>
  return
}

func.func @slice_inside_a_byte() {
  %a = util.unfoldable_constant dense<[-16, 15, 0]> : tensor<3xi8>
  %b = flow.tensor.bitcast %a : tensor<3xi8> -> tensor<24xi1, #bits>
  %s = tensor.extract_slice %b[4] [8] [1] : tensor<24xi1, #bits> to tensor<8xi1, #bits>
  %r = flow.tensor.bitcast %s : tensor<8xi1, #bits> -> tensor<1xi8>
  check.expect_eq_const(%r, dense<-1> : tensor<1xi8>) : tensor<1xi8>
  return
}

func.func @both_sides() {
  %a = util.unfoldable_constant dense<[51, 15]> : tensor<2xi8>
  %b = util.unfoldable_constant dense<[85, -1]> : tensor<2xi8>
  %p = flow.tensor.bitcast %a : tensor<2xi8> -> tensor<16xi1, #bits>
  %q = flow.tensor.bitcast %b : tensor<2xi8> -> tensor<16xi1, #bits>
  %x = arith.xori %p, %q : tensor<16xi1, #bits>
  %r = flow.tensor.bitcast %x : tensor<16xi1, #bits> -> tensor<2xi8>
  check.expect_eq_const(%r, dense<[102, -16]> : tensor<2xi8>) : tensor<2xi8>
  return
}

func.func @from_a_size_that_is_not_known() {
  %a = flow.tensor.dynamic_constant dense<[5, 0]> : tensor<2xi8> -> tensor<?xi8>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xi8>
  %b = flow.tensor.bitcast %a : tensor<?xi8>{%n} -> tensor<2x8xi1, #bits>
  %r = flow.tensor.bitcast %b : tensor<2x8xi1, #bits> -> tensor<?xi8>{%n}
  %s = tensor.cast %r : tensor<?xi8> to tensor<2xi8>
  check.expect_eq_const(%s, dense<[5, 0]> : tensor<2xi8>) : tensor<2xi8>
  return
}
