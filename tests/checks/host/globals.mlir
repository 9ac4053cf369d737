// State of a loaded program: tensors and scalars, initial values, initializers with code, both dialects.

util.global private mutable @counter = dense<2.0> : tensor<f32>
util.global private mutable @s = 5 : i32
util.global private @frozen = dense<[1, 2, 3]> : tensor<3xi32>
util.global private mutable @late : tensor<2xf32>
util.global private @init_code : tensor<4xf32>
util.global private mutable @f = 1.5 : f32
util.global private mutable @b = true
util.global private mutable @ix = 7 : index
util.initializer {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %d = arith.addf %c, %c : tensor<4xf32>
  util.global.store %d, @init_code : tensor<4xf32>
  util.return
}
ml_program.global private mutable @mlc(dense<2.0> : tensor<f32>) : tensor<f32>
ml_program.global private @mlconst(dense<[7, 8]> : tensor<2xi32>) : tensor<2xi32>
ml_program.global public mutable @mlscalar(42 : i64) : i64

func.func @inc() {
  %0 = util.global.load @counter : tensor<f32>
  %c1 = arith.constant dense<1.0> : tensor<f32>
  %1 = arith.addf %0, %c1 : tensor<f32>
  util.global.store %1, @counter : tensor<f32>
  %2 = util.global.load @counter : tensor<f32>
  check.expect_eq_const(%2, dense<3.0> : tensor<f32>) : tensor<f32>
  return
}

func.func @inc_s() {
  %0 = util.global.load @s : i32
  %c1 = arith.constant 1 : i32
  %1 = arith.addi %0, %c1 : i32
  util.global.store %1, @s : i32
  %2 = util.global.load @s : i32
  %six = arith.constant 6 : i32
  %e = arith.cmpi eq, %2, %six : i32
  check.expect_true(%e) : i1
  return
}

func.func @frozen_f() {
  %0 = util.global.load immutable @frozen : tensor<3xi32>
  check.expect_eq_const(%0, dense<[1,2,3]> : tensor<3xi32>) : tensor<3xi32>
  return
}

func.func @late_f() {
  %c = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  util.global.store %c, @late : tensor<2xf32>
  %0 = util.global.load @late : tensor<2xf32>
  check.expect_eq_const(%0, dense<[1.0,2.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}

func.func @init_f() {
  %0 = util.global.load @init_code : tensor<4xf32>
  check.expect_eq_const(%0, dense<[2.0, 4.0, 6.0, 8.0]> : tensor<4xf32>) : tensor<4xf32>
  return
}

func.func @scalars() {
  %f = util.global.load @f : f32
  %b = util.global.load @b : i1
  %ix = util.global.load @ix : index
  %c = arith.constant 1.5 : f32
  %e = arith.cmpf oeq, %f, %c : f32
  check.expect_true(%e) : i1
  check.expect_true(%b) : i1
  %c7 = arith.constant 7 : index
  %e7 = arith.cmpi eq, %ix, %c7 : index
  check.expect_true(%e7) : i1
  return
}

func.func @ml() {
  %0 = ml_program.global_load @mlc : tensor<f32>
  %1 = arith.addf %0, %0 : tensor<f32>
  ml_program.global_store @mlc = %1 : tensor<f32>
  %2 = ml_program.global_load @mlc : tensor<f32>
  check.expect_eq_const(%2, dense<4.0> : tensor<f32>) : tensor<f32>
  %3 = ml_program.global_load_const @mlconst : tensor<2xi32>
  check.expect_eq_const(%3, dense<[7,8]> : tensor<2xi32>) : tensor<2xi32>
  %4 = ml_program.global_load @mlscalar : i64
  %c = arith.constant 42 : i64
  %e = arith.cmpi eq, %4, %c : i64
  check.expect_true(%e) : i1
  return
}
