// Calls, loops, branches and switches in host code and in the bodies of generics.

func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = arith.addf %a, %a : tensor<4xf32>
  return %r : tensor<4xf32>
}
util.func private @two(%a: tensor<?xf32>, %k: f32) -> (tensor<?xf32>, f32) {
  %c2 = arith.constant 2.0 : f32
  %m = arith.mulf %k, %c2 : f32
  util.return %a, %m : tensor<?xf32>, f32
}
util.func private @rec(%a: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %r = arith.addi %a, %c1 : i32
  util.return %r : i32
}

func.func @calls() {
  %a = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %b = func.call @twice(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = call @twice(%b) : (tensor<4xf32>) -> tensor<4xf32>
  check.expect_eq_const(%c, dense<[4.0, 8.0, 12.0, 16.0]> : tensor<4xf32>) : tensor<4xf32>
  %d = tensor.cast %c : tensor<4xf32> to tensor<?xf32>
  %k = util.unfoldable_constant 1.5 : f32
  %e:2 = util.call @two(%d, %k) : (tensor<?xf32>, f32) -> (tensor<?xf32>, f32)
  %three = arith.constant 3.0 : f32
  %t = arith.cmpf oeq, %e#1, %three : f32
  check.expect_true(%t) : i1
  check.expect_eq(%e#0, %d) : tensor<?xf32>
  return
}

func.func @call_in_loop() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = util.unfoldable_constant 5 : index
  %z = arith.constant 0 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (i32) {
    %y = util.call @rec(%x) : (i32) -> i32
    scf.yield %y : i32
  }
  %five = arith.constant 5 : i32
  %e = arith.cmpi eq, %r, %five : i32
  check.expect_true(%e) : i1
  return
}

func.func @multi() -> (tensor<2xf32>, i32, f64, i1, index, tensor<2xf32>) {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %i = util.unfoldable_constant 3 : i32
  %f = util.unfoldable_constant 2.5 : f64
  %b = util.unfoldable_constant true
  %x = util.unfoldable_constant 9 : index
  return %a, %i, %f, %b, %x, %a : tensor<2xf32>, i32, f64, i1, index, tensor<2xf32>
}

func.func @while_scalar() {
  %init = util.unfoldable_constant 27 : i32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %r:2 = scf.while (%n = %init, %k = %c0) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %n, %c1 : i32
    scf.condition(%more) %n, %k : i32, i32
  } do {
  ^bb0(%n: i32, %k: i32):
    %odd = arith.remsi %n, %c2 : i32
    %is = arith.cmpi ne, %odd, %c0 : i32
    %next = scf.if %is -> (i32) {
      %m = arith.muli %n, %c3 : i32
      %p = arith.addi %m, %c1 : i32
      scf.yield %p : i32
    } else {
      %h = arith.divsi %n, %c2 : i32
      scf.yield %h : i32
    }
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %next, %k1 : i32, i32
  }
  %want = arith.constant 111 : i32
  %e = arith.cmpi eq, %r#1, %want : i32
  check.expect_true(%e) : i1
  return
}

func.func @switch() {
  %i = util.unfoldable_constant 2 : index
  %r = scf.index_switch %i -> tensor<2xi32>
  case 1 {
    %a = arith.constant dense<1> : tensor<2xi32>
    scf.yield %a : tensor<2xi32>
  }
  case 2 {
    %a = arith.constant dense<[20, 21]> : tensor<2xi32>
    scf.yield %a : tensor<2xi32>
  }
  default {
    %a = arith.constant dense<0> : tensor<2xi32>
    scf.yield %a : tensor<2xi32>
  }
  check.expect_eq_const(%r, dense<[20, 21]> : tensor<2xi32>) : tensor<2xi32>
  return
}

func.func @execute_region() {
  %i = util.unfoldable_constant 2 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %r = scf.execute_region -> i32 {
    %x = arith.addi %i, %c1 : i32
    scf.yield %x : i32
  }
  %e = arith.cmpi eq, %r, %c3 : i32
  check.expect_true(%e) : i1
  return
}

func.func @execute_region_cf() {
  %i = util.unfoldable_constant 2 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %r = scf.execute_region -> i32 {
    %p = arith.cmpi eq, %i, %c1 : i32
    cf.cond_br %p, ^a, ^b
  ^a:
    scf.yield %c1 : i32
  ^b:
    scf.yield %c7 : i32
  }
  %e = arith.cmpi eq, %r, %c7 : i32
  check.expect_true(%e) : i1
  return
}

func.func @cf_switch() {
  %i = util.unfoldable_constant 43 : i32
  %a = arith.constant 1 : i32
  %b = arith.constant 2 : i32
  cf.switch %i : i32, [
    default: ^d(%a : i32),
    42: ^x(%a : i32),
    43: ^x(%b : i32)
  ]
^d(%u: i32):
  %f = arith.constant false
  check.expect_true(%f) : i1
  return
^x(%v: i32):
  %e = arith.cmpi eq, %v, %b : i32
  check.expect_true(%e) : i1
  return
}

func.func @affine() {
  %i = util.unfoldable_constant 17 : index
  %j = util.unfoldable_constant -5 : index
  %a = affine.apply affine_map<(d0)[s0] -> (d0 floordiv 4 + s0 * 2)>(%i)[%j]
  %m = affine.min affine_map<(d0) -> (d0, 10, d0 - 8)>(%i)
  %x = affine.max affine_map<(d0)[s0] -> (d0 mod 4, s0, d0 ceildiv 3)>(%i)[%j]
  %w = arith.constant -6 : index
  %w2 = arith.constant 9 : index
  %w3 = arith.constant 6 : index
  %e = arith.cmpi eq, %a, %w : index
  check.expect_true(%e) : i1
  %e2 = arith.cmpi eq, %m, %w2 : index
  check.expect_true(%e2) : i1
  %e3 = arith.cmpi eq, %x, %w3 : index
  check.expect_true(%e3) : i1
  %neg = affine.apply affine_map<(d0) -> (d0 mod 4)>(%j)

  %w4 = arith.constant 3 : index
  %e4 = arith.cmpi eq, %neg, %w4 : index
  check.expect_true(%e4) : i1
  return
}

func.func @scf_in_generic() {
  %a = util.unfoldable_constant dense<[0, 1, 5, 10]> : tensor<4xi32>
  %e = tensor.empty() : tensor<4xi32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %five = arith.constant 5 : i32
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%x: i32, %o: i32):
    %n = arith.index_cast %x : i32 to index
    %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (i32) {
      %ii = arith.index_cast %i : index to i32
      %t = arith.addi %acc, %ii : i32
      scf.yield %t : i32
    }
    %big = arith.cmpi sgt, %s, %five : i32
    %r = scf.if %big -> (i32) {
      scf.yield %s : i32
    } else {
      %neg = arith.subi %z, %x : i32
      scf.yield %neg : i32
    }
    linalg.yield %r : i32
  } -> tensor<4xi32>
  check.expect_eq_const(%g, dense<[0, -1, 10, 45]> : tensor<4xi32>) : tensor<4xi32>
  return
}

func.func @while_in_generic() {
  %a = util.unfoldable_constant dense<[1, 7, 27, 97]> : tensor<4xi32>
  %e = tensor.empty() : tensor<4xi32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%x: i32, %o: i32):
    %r:2 = scf.while (%n = %x, %k = %c0) : (i32, i32) -> (i32, i32) {
      %more = arith.cmpi sgt, %n, %c1 : i32
      scf.condition(%more) %n, %k : i32, i32
    } do {
    ^bb0(%n: i32, %k: i32):
      %odd = arith.andi %n, %c1 : i32
      %is = arith.cmpi eq, %odd, %c1 : i32
      %m = arith.muli %n, %c3 : i32
      %p = arith.addi %m, %c1 : i32
      %h = arith.shrui %n, %c1 : i32
      %next = arith.select %is, %p, %h : i32
      %k1 = arith.addi %k, %c1 : i32
      scf.yield %next, %k1 : i32, i32
    }
    linalg.yield %r#1 : i32
  } -> tensor<4xi32>
  check.expect_eq_const(%g, dense<[0, 16, 111, 118]> : tensor<4xi32>) : tensor<4xi32>
  return
}

func.func @switch_in_generic() {
  %a = util.unfoldable_constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  %e = tensor.empty() : tensor<4xi32>
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%x: i32, %o: i32):
    %n = arith.index_cast %x : i32 to index
    %r = scf.index_switch %n -> i32
    case 1 {
      %c = arith.constant 11 : i32
      scf.yield %c : i32
    }
    case 3 {
      %c = arith.constant 33 : i32
      scf.yield %c : i32
    }
    default {
      %c = arith.constant -1 : i32
      scf.yield %c : i32
    }
    %i = linalg.index 0 : index
    %ap = affine.apply affine_map<(d0) -> (d0 * 100)>(%i)
    %ai = arith.index_cast %ap : index to i32
    %rr = arith.addi %r, %ai : i32
    linalg.yield %rr : i32
  } -> tensor<4xi32>
  check.expect_eq_const(%g, dense<[-1, 111, 199, 333]> : tensor<4xi32>) : tensor<4xi32>
  return
}

func.func @nested_loops() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = util.unfoldable_constant 3 : index
  %z = arith.constant dense<0> : tensor<3x3xi32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> (tensor<3x3xi32>) {
    %q = scf.for %j = %c0 to %n step %c1 iter_args(%u = %t) -> (tensor<3x3xi32>) {
      %ii = arith.index_cast %i : index to i32
      %jj = arith.index_cast %j : index to i32
      %ten = arith.constant 10 : i32
      %m = arith.muli %ii, %ten : i32
      %v = arith.addi %m, %jj : i32
      %w = tensor.insert %v into %u[%i, %j] : tensor<3x3xi32>
      scf.yield %w : tensor<3x3xi32>
    }
    scf.yield %q : tensor<3x3xi32>
  }
  check.expect_eq_const(%r, dense<[[0, 1, 2], [10, 11, 12], [20, 21, 22]]> : tensor<3x3xi32>) : tensor<3x3xi32>
  return
}

func.func @while_tensor_shrinks() {
  %init = flow.tensor.dynamic_constant dense<[1, 2, 3, 4, 5, 6, 7, 8]> : tensor<8xi32> -> tensor<?xi32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.while (%t = %init) : (tensor<?xi32>) -> (tensor<?xi32>) {
    %d = tensor.dim %t, %c0 : tensor<?xi32>
    %more = arith.cmpi ugt, %d, %c1 : index
    scf.condition(%more) %t : tensor<?xi32>
  } do {
  ^bb0(%t: tensor<?xi32>):
    %d = tensor.dim %t, %c0 : tensor<?xi32>
    %h = arith.divui %d, %c2 : index
    %a = tensor.extract_slice %t[0] [%h] [1] : tensor<?xi32> to tensor<?xi32>
    %b = tensor.extract_slice %t[%h] [%h] [1] : tensor<?xi32> to tensor<?xi32>
    %s = arith.addi %a, %b : tensor<?xi32>
    scf.yield %s : tensor<?xi32>
  }
  %s = tensor.cast %r : tensor<?xi32> to tensor<1xi32>
  check.expect_eq_const(%s, dense<36> : tensor<1xi32>) : tensor<1xi32>
  return
}

func.func @swap() {
  %a = util.unfoldable_constant dense<[1, 2]> : tensor<2xi32>
  %b = util.unfoldable_constant dense<[3, 4]> : tensor<2xi32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = util.unfoldable_constant 7 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (tensor<2xi32>, tensor<2xi32>) {
    scf.yield %y, %x : tensor<2xi32>, tensor<2xi32>
  }
  check.expect_eq(%r#0, %b) : tensor<2xi32>
  check.expect_eq(%r#1, %a) : tensor<2xi32>
  return
}
