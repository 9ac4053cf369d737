util.global private @g : tensor<4xf32> = dense<[1.0, 2.0, 3.0, 0x7FC00000]> : tensor<4xf32>
util.global private mutable @h = 5 : i32
util.global private @lazy : tensor<?xf32>
util.initializer {
  %c = arith.constant 7 : i32
  util.global.store %c, @h : i32
  util.return
}
util.func private @ext(%a: tensor<?xf32>, %b: i32) -> %a
util.func private @two(tensor<4xf32>, i32) -> (tensor<4xf32>, i32)
util.func public @f(%a: tensor<?x4xf32> {iree.abi.name = "x"}, %d: index, %v: f32) -> (tensor<?x4xf32>, %a as tensor<4x?xf32>, f32 {iree.abi.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = flow.tensor.reshape %a : tensor<?x4xf32>{%d} -> tensor<4x?xf32>{%d}
  %1 = flow.tensor.bitcast %a : tensor<?x4xf32>{%d} -> tensor<?x4xi32>{%d}
  %2 = flow.tensor.splat %v : tensor<?x4xf32>{%d}
  %3 = flow.tensor.empty : tensor<?x4xf32>{%d}
  %4 = flow.tensor.clone %2 : tensor<?x4xf32>{%d}
  %5 = flow.tensor.load %4[%c0, %c1] : tensor<?x4xf32>{%d}
  %6 = flow.tensor.store %5, %4[%c0, %c1] : tensor<?x4xf32>{%d}
  %7 = flow.tensor.slice %6[%c0, %c0 for %c1, %c1] : tensor<?x4xf32>{%d} -> tensor<1x1xf32>
  %8 = flow.tensor.update %7, %6[%c0, %c1] : tensor<1x1xf32> -> %6 as tensor<?x4xf32>{%d}
  %9 = flow.tensor.tie_shape %8 : tensor<?x4xf32>{%d}
  %10 = flow.tensor.constant dense<1.0> : tensor<4xf32>
  %11 = flow.tensor.dynamic_constant dense<1.0> : tensor<4xf32> -> tensor<?xf32>
  %12 = util.global.load @h : i32
  %13 = util.global.load immutable @g : tensor<4xf32>
  %14:2 = util.call @two(%13, %12) : (tensor<4xf32>, i32) -> (tensor<4xf32>, i32)
  %15 = util.call @ext(%11, %12) : (tensor<?xf32>, i32) -> %11
  %16 = util.optimization_barrier %12 : i32
  %17 = util.unfoldable_constant 4 : index
  %18 = util.align %d, %17 : index
  %19 = util.assume.int %18<umin = 0, umax = 64, udiv = 8> : index
  %20:2 = util.assume.int %18[<umin = 0, umax = 64>, <udiv = 8>], %d[<umin = 1>, <>] : index, index
  %21 = util.sizeof f32
  %22, %23 = util.optimization_barrier %12, %v : i32, f32
  util.return %9, %0, %23 : tensor<?x4xf32>, tensor<4x?xf32>, f32
}
