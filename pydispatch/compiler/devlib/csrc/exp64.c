// exp, exp2, exp10, expm1, pow in double.
#include "kernel64.h"

double exp(double x) {
  return pyd_exp_finish(pyd_exp_dd(pyd_clamp(x, -800.0, 800.0), 0.0), x, 0x1.62e42fefa39efp+9, -746.0);
}

double exp2(double x) {
  double t = pyd_clamp(x, -1100.0, 1100.0), shifted = t + PYD_SHIFT, f = t - (shifted - PYD_SHIFT);
  pyd_dd_t r = pyd_two_prod(f, PYD_LN2_FULL_1);
  pyd_exp_t e = {pyd_expm1_reduced(r.hi, r.lo + f * PYD_LN2_FULL_2), pyd_shifted_int(shifted)};
  return pyd_exp_finish(e, x, 0x1.fffffffffffffp+9, -1075.0);
}

double exp10(double x) {
  double t = pyd_clamp(x, -330.0, 330.0), shifted = t * PYD_LOG2_10_1 + PYD_SHIFT, k = shifted - PYD_SHIFT;
  pyd_dd_t f = pyd_two_sum(t - k * PYD_LOG10_2_1, -k * PYD_LOG10_2_2);
  pyd_dd_t r = pyd_two_prod(f.hi, PYD_LN10_1);
  double c = r.lo + (f.hi * PYD_LN10_2 + f.lo * PYD_LN10_1);
  pyd_exp_t e = {pyd_expm1_reduced(r.hi, c), pyd_shifted_int(shifted)};
  return pyd_exp_finish(e, x, 0x1.34413509f79fep+8, -324.0);
}

double expm1(double x) {
  pyd_exp_t e = pyd_exp_dd(pyd_clamp(x, -100.0, 800.0), 0.0);
  // 2^k m + (2^k - 1); the sum in brackets is exact or harmless. k may be 1024, hence the half.
  double half = pyd_double((uint64_t)(e.k + 1022) << 52);
  pyd_dd_t sum = pyd_two_sum(half, -0.5);
  double y = (sum.hi + (half * e.m + sum.lo)) * 2.0;
  y = x > 0x1.62e42fefa39efp+9 ? PYD_INF : y;
  y = x < -60.0 ? -1.0 : y;
  return __builtin_fabs(x) < 0x1p-54 ? x : y;
}

// 0: y is not an integer, 1: odd, 2: even. y is finite and not zero.
static int pyd_integer_kind(double y) {
  double size = __builtin_fabs(y);
  if (size >= 0x1p53) return 2;
  if (size < 1.0) return 0;
  uint64_t whole = (uint64_t)size;
  if ((double)whole != size) return 0;
  return whole & 1 ? 1 : 2;
}

double pow(double x, double y) {
  double size = __builtin_fabs(x), sign = 1.0;
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y) return x + y;
  if (__builtin_fabs(y) == PYD_INF) {
    if (size == 1.0) return 1.0;
    return (size > 1.0) == (y > 0.0) ? PYD_INF : 0.0;
  }
  if (pyd_bits(x) >> 63) {
    int kind = pyd_integer_kind(y);
    if (kind == 1) sign = -1.0;
    if (kind == 0 && size != 0.0 && size != PYD_INF) return PYD_NAN;
  }
  if (size == 0.0) return y > 0.0 ? sign * 0.0 : sign * PYD_INF;
  if (size == PYD_INF) return y > 0.0 ? sign * PYD_INF : sign * 0.0;
  pyd_dd_t log = pyd_log_dd(size);
  double estimate = y * log.hi;
  if (estimate > 720.0) return sign * PYD_INF;
  if (estimate < -760.0) return sign * 0.0;
  if (__builtin_fabs(estimate) < 0x1p-60) return sign + sign * estimate;
  // |log| >= 2^-53 or 0, so y < 2^64 here and the product splits safely.
  pyd_dd_t product = pyd_two_prod(y, log.hi);
  pyd_exp_t e = pyd_exp_dd(product.hi, product.lo + y * log.lo);
  return sign * pyd_scale(1.0 + e.m, e.k);
}
