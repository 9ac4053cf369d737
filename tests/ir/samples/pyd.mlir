// What pydispatch itself writes into programs.
func.func @recurrence(%n: index, %zero: f32, %x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xi1>) {
  %0:2 = pyd.recurrence (%n) dimension(0) first {
  ^bb0(%column: index):
    linalg.yield %zero : f32
  } next {
  ^bb0(%row: index, %column: index, %sum: f32):
    %value = tensor.extract %x[%row, %column] : tensor<?x4xf32>
    %next = arith.addf %sum, %value : f32
    %grows = arith.cmpf ogt, %next, %sum : f32
    linalg.yield %next, %next, %grows : f32, f32, i1
  } : tensor<?x4xf32>, tensor<?x4xi1>
  return %0#0, %0#1 : tensor<?x4xf32>, tensor<?x4xi1>
}

func.func @top_k(%x: tensor<?x9xf32>, %y: tensor<?x9xi8>) -> (tensor<?x4xf32>, tensor<?x4xi8>, tensor<?x4xi64>) {
  %0:3 = pyd.top_k %x, %y before {
  ^bb0(%a: f32, %b: f32, %c: i8, %d: i8):
    %greater = arith.cmpf ogt, %a, %b : f32
    linalg.yield %greater : i1
  } : tensor<?x9xf32>, tensor<?x9xi8> -> tensor<?x4xf32>, tensor<?x4xi8>, tensor<?x4xi64>
  return %0#0, %0#1, %0#2 : tensor<?x4xf32>, tensor<?x4xi8>, tensor<?x4xi64>
}

func.func @save_rows(%old: tensor<8x16xf32>, %positions: tensor<2xi64>, %saved: tensor<2x16xf32>) -> tensor<8x16xf32> {
  %new = pyd.save_rows %old rows %positions are %saved : tensor<8x16xf32>, tensor<2xi64>, tensor<2x16xf32>
      -> tensor<8x16xf32>
  return %new : tensor<8x16xf32>
}

func.func @custom(%x: tensor<?x4xf32>, %n: index) -> tensor<?x4xf32> {
  %beta = arith.constant 2.0 : f32
  %y = pyd.custom "mylib::swish"(%x, %beta, %n) ["x", "beta", "count"] [["n", "4"], [], [], ["n", "4"]]
    : (tensor<?x4xf32>, f32, index) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

func.func @tiles(%view: memref<?x?xf16>, %i: index, %a: memref<4x8xf16>, %b: memref<8x16xf16>, %c: memref<4x16xf32>) {
  pyd.read_tile %view[%i, %i], %a {kept} : memref<?x?xf16>, memref<4x8xf16>
  pyd.read_tile %view[%i, %i], %b turned : memref<?x?xf16>, memref<8x16xf16>
  pyd.matmul %a, %b, %c {kept} : memref<4x8xf16>, memref<8x16xf16>, memref<4x16xf32>
  return
}

func.func @copies(%view: memref<1x4xf32, strided<[4, 1], offset: ?>>, %tile: memref<1x4xf32, strided<[4, 1]>, 3>) {
  pyd.copy_async %view, %tile {kept} : memref<1x4xf32, strided<[4, 1], offset: ?>>, memref<1x4xf32, strided<[4, 1]>, 3>
  pyd.commit_copies pending = 2 : i64 {kept}
  return
}

func.func @subgroups(%floats: memref<64xf32, 3>, %conditions: memref<64xi1, 3>, %own: index) -> (f32, f32, i32) {
  %0 = pyd.subgroup_shuffle %floats[%own], %own : memref<64xf32, 3> -> f32
  %1 = pyd.subgroup_reduce maximumf %floats[%own] : memref<64xf32, 3> -> f32
  %2 = pyd.subgroup_ballot %conditions[%own] : memref<64xi1, 3> -> i32
  return %0, %1, %2 : f32, f32, i32
}

func.func @unpacked(%w: memref<3x24x8xi4>, %terms: memref<2x24xf32>, %y: memref<24x24xf32>, %b: memref<6x24x4xi8>) {
  pyd.unpack %w, %y scaled %terms {kept} : memref<3x24x8xi4>, memref<24x24xf32>, memref<2x24xf32>
  pyd.unpack %w, %b : memref<3x24x8xi4>, memref<6x24x4xi8>
  return
}

func.func @scanned(%start: i32, %block: memref<16xi32>) -> i32 {
  %last = pyd.prefix_scan "arith.addi" %start, %block : i32, memref<16xi32>
  pyd.splice %block, %block, %block first = 3 : i64 : memref<16xi32>, memref<16xi32>, memref<16xi32>
  return %last : i32
}
