// exp, exp2, exp10, expm1, pow in double, without branches. Arguments are clamped to where the result is 0 or infinity,
// so that k fits an exponent. The last two arguments of pyd_exp_finish are the x above which it is infinity, and below
// which it is 0.
#include "kernel64.h"

PYD_HOT double exp(double x) {
  return pyd_exp_finish(pyd_exp_dd(pyd_clamp(x, -800.0, 800.0), 0.0), x, 0x1.62e42fefa39efp+9, -746.0);
}

PYD_HOT double exp2(double x) {
  double t = pyd_clamp(x, -1100.0, 1100.0), shifted = t + PYD_SHIFT, f = t - (shifted - PYD_SHIFT);
  pyd_dd_t r = pyd_two_prod(f, PYD_LN2_FULL_1);
  pyd_exp_t e = {pyd_expm1_reduced(r.hi, r.lo + f * PYD_LN2_FULL_2), pyd_shifted_int(shifted)};
  return pyd_exp_finish(e, x, 0x1.fffffffffffffp+9, -1075.0);
}

// 10^x = 2^k e^r with k = round(x log2(10)) and r = (x - k log10(2)) ln(10), the pair (r.hi, c). Constants are the sums
// of _1 and _2.
PYD_HOT double exp10(double x) {
  double t = pyd_clamp(x, -330.0, 330.0), shifted = t * PYD_LOG2_10_1 + PYD_SHIFT, k = shifted - PYD_SHIFT;
  pyd_dd_t f = pyd_two_sum(t - k * PYD_LOG10_2_1, -k * PYD_LOG10_2_2);
  pyd_dd_t r = pyd_two_prod(f.hi, PYD_LN10_1);
  double c = r.lo + (f.hi * PYD_LN10_2 + f.lo * PYD_LN10_1);
  pyd_exp_t e = {pyd_expm1_reduced(r.hi, c), pyd_shifted_int(shifted)};
  return pyd_exp_finish(e, x, 0x1.34413509f79fep+8, -324.0);
}

PYD_HOT double expm1(double x) {
  pyd_exp_t e = pyd_exp_dd(pyd_clamp(x, -100.0, 800.0), 0.0);
  // 2^k m + (2^k - 1), computed in halves, as k may be 1024; the rounding error of the difference, `lo`, is added, too.
  double half = pyd_power2(e.k - 1);
  pyd_dd_t sum = pyd_two_sum(half, -0.5);
  double y = (sum.hi + (half * e.m + sum.lo)) * 2.0;
  y = x > 0x1.62e42fefa39efp+9 ? PYD_INF : y;
  y = x < -60.0 ? -1.0 : y;
  return __builtin_fabs(x) < 0x1p-54 ? x : y;
}

// Without branches: the ordinary case is computed for every pair, then others are put in its place.
PYD_HOT double pow(double x, double y) {
  double size = __builtin_fabs(x), whole = __builtin_fabs(y), half = whole * 0.5;
  int ordinary = (size > 0.0) & (size < PYD_INF), negative = (int)(pyd_bits(x) >> 63);
  // Adding 2^52 rounds to an integer. y is an integer if that does not change it, and odd if it changes half of it;
  // from 2^53 on all doubles are even.
  int integer = ((whole + 0x1p52) - 0x1p52 == whole) | (whole >= 0x1p52);
  int odd = integer & (whole < 0x1p53) & ((half + 0x1p52) - 0x1p52 != half);
  // |log| >= 2^-53 or 0, so that beyond 2^66 the result is 0, 1 or infinity for every y; factors stay below 2^996.
  double bounded = pyd_clamp(y, -0x1p66, 0x1p66);
  pyd_dd_t log = pyd_log_dd(ordinary ? size : 1.0), product = pyd_two_prod(bounded, log.hi);
  pyd_exp_t e = pyd_exp_dd(pyd_clamp(product.hi, -800.0, 800.0), product.lo + bounded * log.lo);
  double value = pyd_exp_finish(e, product.hi, 720.0, -760.0);
  value = ordinary ? value : (size == 0.0) == (y > 0.0) ? 0.0 : PYD_INF;
  value = negative & odd ? -value : value;
  value = negative & ordinary & !integer ? PYD_NAN : value;
  value = (x != x) | (y != y) ? PYD_NAN : value;
  return (x == 1.0) | (y == 0.0) ? 1.0 : value;
}
