// Scalars and elements: `arith`, `math`, `check`, `ml_program` and `pyd`.
ml_program.global private mutable @g(dense<1.0> : tensor<4xf32>) : tensor<4xf32> {kept}
ml_program.global public @h : tensor<?xf32>
func.func @scalars(%a: i32, %b: i32, %x: f32, %y: f32, %c: i1, %v: vector<4xi1>, %t: tensor<4xf32>, %u: tensor<4xf32>, %n: index) {
  %0, %1 = arith.addui_extended %a, %b : i32, i1
  %2, %3 = arith.mului_extended %a, %b : i32
  %4, %5 = arith.mulsi_extended %a, %b : i32
  %6 = arith.floordivsi %a, %b : i32
  %7 = arith.ceildivsi %a, %b : i32
  %8 = arith.maxui %a, %b : i32
  %9 = arith.shrsi %a, %b exact {kept} : i32
  %10 = arith.shrui %a, %b : i32
  %11 = arith.divsi %a, %b exact : i32
  %12 = arith.divui %a, %b : i32
  %13 = arith.minnumf %x, %y : f32
  %14 = arith.fptosi %x : f32 to i32
  %15 = arith.fptoui %t : tensor<4xf32> to tensor<4xi32>
  %16 = arith.select %c, %a, %b {kept} : i32
  %17 = arith.cmpf oge, %t, %u fastmath<nnan,ninf> : tensor<4xf32>
  %18 = arith.select %17, %t, %u : tensor<4xi1>, tensor<4xf32>
  %19 = arith.cmpi "slt", %a, %b {kept} : i32
  %20 = arith.cmpf "une", %x, %y : f32
  %21 = arith.truncf %x to_nearest_even fastmath<fast> : f32 to f16
  %22 = arith.extf %21 {kept} : f16 to f64
  %23 = arith.remf %x, %y : f32
  %24 = arith.index_castui %a {kept} : i32 to index
  %25 = arith.index_cast %24 : index to i32
  %26 = arith.truncf %x : f32 to f8E8M0FNU
  %27 = arith.scaling_extf %21, %26 : f16, f8E8M0FNU to f32
  %28 = arith.scaling_truncf %x, %26 : f32, f8E8M0FNU to f16
  %29 = arith.bitcast %t : tensor<4xf32> to tensor<4xi32>
  %30 = arith.extsi %a : i32 to i64
  %31 = arith.extui %a : i32 to i64
  %32 = arith.trunci %30 : i64 to i8
  %33 = arith.sitofp %a : i32 to f32
  %34 = arith.uitofp %a : i32 to f32
  %40 = math.absi %a : i32
  %41 = math.ctlz %a : i32
  %42 = math.cttz %a : i32
  %43 = math.ctpop %a : i32
  %44 = math.fpowi %x, %a : f32, i32
  %45 = math.fma %x, %y, %x : f32
  %46 = math.ipowi %a, %b : i32
  %47 = math.round %x : f32
  %48 = math.isnan %x : f32
  %49 = math.isinf %t fastmath<fast> {kept} : tensor<4xf32>
  %50 = math.isfinite %x : f32
  %51 = math.isnormal %t : tensor<4xf32>
  %52 = math.clampf %x to [%y, %y] fastmath<fast> {kept} : f32
  %53, %54 = math.sincos %t {kept} : tensor<4xf32>
  %55 = math.erfc %x fastmath<fast> : f32
  %60 = ml_program.global_load @g : tensor<4xf32>
  %61 = ml_program.global_load_const @h : tensor<?xf32>
  ml_program.global_store @g = %60 : tensor<4xf32>
  check.expect_true(%c) {kept} : i1
  check.expect_false(%a) : i32
  check.expect_all_true(%29) : tensor<4xi32>
  check.expect_eq(%t, %u) : tensor<4xf32>
  check.expect_eq_const(%t, dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  check.expect_almost_eq(%t, %u, atol 1.0e-2, rtol 0.5) : tensor<4xf32>
  check.expect_almost_eq(%t, %u) : tensor<4xf32>
  check.expect_almost_eq_const(%t, dense<1.0> : tensor<4xf32>, rtol 1.0e-3) {kept} : tensor<4xf32>
  %70 = pyd.import.available @scalars {kept} : i1
  %71 = pyd.rematerialize %n : index
  return
}
func.func @blocks(%a: memref<4x8xf32>, %b: memref<8x16xf32>, %c: memref<4x16xf32>, %d: memref<8x4xf32>, %lane: index, %p: memref<16x16xf16>, %q: memref<16x8xf16>, %r: memref<4xf32>, %e: i32, %counters: memref<4xi32>) {
  pyd.contract %a, %b, %c accumulate {kept} : memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>
  pyd.contract %a, %b, %c : memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>
  pyd.contract %a, %b, %c prefetch 64 : memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>
  pyd.contract %a, %b, %c prefetch 64 into_l2 : memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>
  pyd.configure_tiles 4, 16, 8 {kept}
  pyd.release_tiles {kept}
  pyd.prefetch %a {kept} : memref<4x8xf32>
  pyd.transpose %a, %d {kept} : memref<4x8xf32>, memref<8x4xf32>
  %cas = pyd.compare_exchange %e, %e, %counters[%lane] {kept} : i32, memref<4xi32>
  return
}
func.func @device(%t: tensor<4xf32>, %d: !hal.device) {
  check.expect_eq<%d>(%t, %t) : tensor<4xf32>
  return
}
func.func @products(%lane: index, %a: memref<16x16xf16>, %b: memref<16x16xf16>, %c: memref<8xf32>) {
  pyd.mma %lane, %a, %b, %c tensor {kept} : memref<16x16xf16>, memref<16x16xf16>, memref<8xf32>
  return
}
func.func @functions(%x: f32, %i: i32) {
  %u0 = math.acos %x : f32
  %u1 = math.acosh %x : f32
  %u2 = math.asin %x : f32
  %u3 = math.asinh %x : f32
  %u4 = math.atan %x : f32
  %u5 = math.atanh %x : f32
  %u6 = math.cbrt %x : f32
  %u7 = math.ceil %x : f32
  %u8 = math.cos %x : f32
  %u9 = math.cosh %x : f32
  %u10 = math.exp2 %x : f32
  %u11 = math.expm1 %x : f32
  %u12 = math.floor %x : f32
  %u13 = math.log %x : f32
  %u14 = math.log10 %x : f32
  %u15 = math.log1p %x : f32
  %u16 = math.log2 %x : f32
  %u17 = math.roundeven %x : f32
  %u18 = math.rsqrt %x : f32
  %u19 = math.sin %x : f32
  %u20 = math.sinh %x : f32
  %u21 = math.tan %x : f32
  %u22 = math.tanh %x : f32
  %u23 = math.trunc %x : f32
  %v0 = math.atan2 %x, %x : f32
  %v1 = math.copysign %x, %x : f32
  %v2 = math.powf %x, %x : f32
  %w0 = arith.maxnumf %x, %x : f32
  %w1 = arith.minimumf %x, %x : f32
  %w9 = arith.minsi %i, %i : i32
  return
}
