// Every form of CHLO's operations.
func.func @f(%a: tensor<4x6xf32>, %b: tensor<6xf32>, %p: tensor<i1>, %n: tensor<2xi32>, %g: tensor<2xi32>, %w: tensor<2x6x5xf32>) {
  %0 = chlo.erf_inv %a : tensor<4x6xf32> -> tensor<4x6xf32>
  %1 = chlo.next_after %a, %a : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  %2 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 1>} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %3 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xi1>
  %4 = chlo.broadcast_select %p, %a, %b : (tensor<i1>, tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %5 = "chlo.constant_like"(%a) <{value = 1.000000e+00 : f32}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %values, %indices = chlo.top_k(%a, k = 3) : tensor<4x6xf32> -> (tensor<4x3xf32>, tensor<4x3xi32>)
  %6 = chlo.is_inf %a : tensor<4x6xf32> -> tensor<4x6xi1>
  %7 = "chlo.ragged_dot"(%a, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<4x6xf32>, tensor<2x6x5xf32>, tensor<2xi32>) -> tensor<4x5xf32>
  return
}
sdy.mesh @mesh = <["a"=2]>
func.func @sharded(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"a"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @all(%a: tensor<4xf32>, %i: tensor<4xi32>, %n: tensor<2xi32>) {
  %e0 = chlo.acos %a : tensor<4xf32> -> tensor<4xf32>
  %e1 = chlo.acosh %a : tensor<4xf32> -> tensor<4xf32>
  %e2 = chlo.asin %a : tensor<4xf32> -> tensor<4xf32>
  %e3 = chlo.asinh %a : tensor<4xf32> -> tensor<4xf32>
  %e4 = chlo.atan %a : tensor<4xf32> -> tensor<4xf32>
  %e5 = chlo.atanh %a : tensor<4xf32> -> tensor<4xf32>
  %e6 = chlo.bessel_i1e %a : tensor<4xf32> -> tensor<4xf32>
  %e7 = chlo.conj %a : tensor<4xf32> -> tensor<4xf32>
  %e8 = chlo.cosh %a : tensor<4xf32> -> tensor<4xf32>
  %e9 = chlo.digamma %a : tensor<4xf32> -> tensor<4xf32>
  %e10 = chlo.erf %a : tensor<4xf32> -> tensor<4xf32>
  %e11 = chlo.erfc %a : tensor<4xf32> -> tensor<4xf32>
  %e12 = chlo.is_neg_inf %a : tensor<4xf32> -> tensor<4xi1>
  %e13 = chlo.is_pos_inf %a : tensor<4xf32> -> tensor<4xi1>
  %e14 = chlo.lgamma %a : tensor<4xf32> -> tensor<4xf32>
  %e15 = chlo.sinh %a : tensor<4xf32> -> tensor<4xf32>
  %e16 = chlo.square %a : tensor<4xf32> -> tensor<4xf32>
  %e17 = chlo.tan %a : tensor<4xf32> -> tensor<4xf32>
  %e18 = chlo.polygamma %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %e19 = chlo.zeta %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %e20 = chlo.broadcast_and %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %e21 = chlo.broadcast_atan2 %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e22 = chlo.broadcast_complex %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %e23 = chlo.broadcast_divide %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e24 = chlo.broadcast_maximum %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e25 = chlo.broadcast_minimum %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e26 = chlo.broadcast_multiply %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e27 = chlo.broadcast_next_after %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e28 = chlo.broadcast_or %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %e29 = chlo.broadcast_polygamma %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e30 = chlo.broadcast_power %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e31 = chlo.broadcast_remainder %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e32 = chlo.broadcast_shift_left %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %e33 = chlo.broadcast_shift_right_arithmetic %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %e34 = chlo.broadcast_shift_right_logical %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %e35 = chlo.broadcast_subtract %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e36 = chlo.broadcast_xor %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %e37 = chlo.broadcast_zeta %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @scans(%a: tensor<4x6xf32>, %c: tensor<6xf32>, %n: tensor<4xi32>) {
  %0 = chlo.mulhi %n, %n : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %1, %2 = chlo.scan(%a) inits(%c) dimension=0 attributes {is_reverse = true} {
  ^bb0(%x: tensor<6xf32>, %s: tensor<6xf32>):
    stablehlo.return %s, %x : tensor<6xf32>, tensor<6xf32>
  } : (tensor<4x6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
  %3 = chlo.scan(%a) inits() dimension=1 {
  ^bb1(%y: tensor<4xf32>):
    stablehlo.return %y : tensor<4xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}
