// flow.tensor.*, barriers, blobs and resources.

func.func @dynamic_constant() {
  %a = flow.tensor.dynamic_constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> -> tensor<?xf32>
  %b = arith.addf %a, %a : tensor<?xf32>
  %s = tensor.cast %b : tensor<?xf32> to tensor<3xf32>
  check.expect_eq_const(%s, dense<[2.0, 4.0, 6.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}

func.func @dynamic_2d() {
  %a = flow.tensor.dynamic_constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32> -> tensor<?x3xi32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?x3xi32>
  %t = flow.tensor.tie_shape %a : tensor<?x3xi32>{%d}
  %r = flow.tensor.reshape %t : tensor<?x3xi32>{%d} -> tensor<3x?xi32>{%d}
  %s = tensor.cast %r : tensor<3x?xi32> to tensor<3x2xi32>
  check.expect_eq_const(%s, dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>) : tensor<3x2xi32>
  return
}

func.func @bitcast() {
  %a = util.unfoldable_constant dense<[1.0, -2.0]> : tensor<2xf32>
  %b = flow.tensor.bitcast %a : tensor<2xf32> -> tensor<2xi32>
  check.expect_eq_const(%b, dense<[0x3F800000, 0xC0000000]> : tensor<2xi32>) : tensor<2xi32>
  %c = flow.tensor.bitcast %a : tensor<2xf32> -> tensor<8xi8>
  check.expect_eq_const(%c, dense<[0, 0, 128, 63, 0, 0, 0, 192]> : tensor<8xi8>) : tensor<8xi8>
  return
}

func.func @slice_update() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %a = util.unfoldable_constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi32>
  %s = flow.tensor.slice %a[%c1, %c0 for %c2, %c2] : tensor<3x3xi32> -> tensor<2x2xi32>
  check.expect_eq_const(%s, dense<[[4, 5], [7, 8]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  %u = flow.tensor.update %s, %a[%c0, %c1] : tensor<2x2xi32> -> %a as tensor<3x3xi32>
  check.expect_eq_const(%u, dense<[[1, 4, 5], [4, 7, 8], [7, 8, 9]]> : tensor<3x3xi32>) : tensor<3x3xi32>
  check.expect_eq_const(%a, dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi32>) : tensor<3x3xi32>
  return
}

func.func @splat_load_store() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = util.unfoldable_constant 3 : index
  %v = util.unfoldable_constant 7 : i32
  %w = util.unfoldable_constant -9 : i32
  %a = flow.tensor.splat %v : tensor<?x2xi32>{%n}
  %b = flow.tensor.store %w, %a[%c1, %c1] : tensor<?x2xi32>{%n}
  %l = flow.tensor.load %b[%c1, %c1] : tensor<?x2xi32>{%n}
  %e = arith.cmpi eq, %l, %w : i32
  check.expect_true(%e) : i1
  %s = tensor.cast %b : tensor<?x2xi32> to tensor<3x2xi32>
  check.expect_eq_const(%s, dense<[[7, 7], [7, -9], [7, 7]]> : tensor<3x2xi32>) : tensor<3x2xi32>
  %cl = flow.tensor.clone %b : tensor<?x2xi32>{%n}
  check.expect_eq(%cl, %b) : tensor<?x2xi32>
  %em = flow.tensor.empty : tensor<?x2xi32>{%n}
  %d = tensor.dim %em, %c0 : tensor<?x2xi32>
  %e2 = arith.cmpi eq, %d, %n : index
  check.expect_true(%e2) : i1
  %k = flow.tensor.constant dense<[1, 2]> : tensor<2xi32>
  check.expect_eq_const(%k, dense<[1, 2]> : tensor<2xi32>) : tensor<2xi32>
  return
}

func.func @transfer() {
  %a = util.unfoldable_constant dense<[1.0, -2.0]> : tensor<2xf32>
  %b = flow.tensor.transfer %a : tensor<2xf32> to #hal.device.affinity<@dev>
  check.expect_eq(%a, %b) : tensor<2xf32>
  return
}

func.func @barrier() {
  %a = arith.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %s = arith.constant 2.0 : f32
  %b, %t = util.optimization_barrier %a, %s : tensor<2xf32>, f32
  %i = tensor.splat %t : tensor<2xf32>
  %r = arith.mulf %b, %i : tensor<2xf32>
  check.expect_eq_const(%r, dense<[2.0, -4.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}

func.func @alloca_named() {
  %a = util.unfoldable_constant dense<"0x0000803F00000040"> : tensor<2xf32>
  check.expect_eq_const(%a, dense<[1.0, 2.0]> : tensor<2xf32>) : tensor<2xf32>
  %e = arith.constant dense<> : tensor<0x3xf32>
  %z = util.optimization_barrier %e : tensor<0x3xf32>
  check.expect_eq(%z, %e) : tensor<0x3xf32>
  %res = arith.constant dense_resource<blob> : tensor<3xi16>
  check.expect_eq_const(%res, dense<[1, 2, -1]> : tensor<3xi16>) : tensor<3xi16>
  return
}
{-#
  dialect_resources: {
    builtin: {
      blob: "0x0200000001000200FFFF"
    }
  }
#-}

func.func @trace() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = flow.tensor.dynamic_constant dense<[3.0, 4.0]> : tensor<2xf32> -> tensor<?xf32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %b, %c0 : tensor<?xf32>
  flow.tensor.trace "both" = [%a : tensor<2xf32>, %b : tensor<?xf32>{%d}]
  %s = tensor.cast %b : tensor<?xf32> to tensor<2xf32>
  %r = arith.addf %a, %s : tensor<2xf32>
  flow.tensor.trace "sum" = [%r : tensor<2xf32>]
  check.expect_eq_const(%r, dense<[4.0, 6.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
