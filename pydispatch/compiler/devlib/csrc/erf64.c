// erf, erfc in double, without branches. Beyond the middle, erfc(x) = exp(-x^2) G(u) / (1 + 2x) with G smooth,
// u = (x - 4)/(x + 4).
#include "kernel64.h"

// erf(x) for |x| < 7/8.
PYD_INLINE double pyd_erf_middle(double x) {
  double z = x * x;
  return PYD_FMA(x, PYD_ERF_P(z, z * z), x);
}

PYD_HOT double erf(double x) {
  double size = __builtin_fabs(x);
  size = size > 6.0 ? 6.0 : size;
  double u = (size - 4.0) / (size + 4.0);
  pyd_exp_t e = pyd_exp_dd(-(size * size), 0.0);
  double far = 1.0 - pyd_scale(1.0 + e.m, e.k) * PYD_ERFCD_P(u, u * u) / (1.0 + 2.0 * size);
  double near = pyd_erf_middle(size);
  return __builtin_copysign(size < 0.875 ? near : far, x);
}

// For small results, relative errors count: G is a pair of doubles, and x^2 is the square of the upper half of x, which
// is exact, plus a correction.
PYD_HOT double erfc(double x) {
  double size = __builtin_fabs(x);
  size = size > 28.0 ? 28.0 : size;
  double u = (size - 4.0) / (size + 4.0);
  pyd_dd_t top = pyd_fast_sum(PYD_ERFC_1, u * PYD_ERFC_P(u, u * u)), bottom = pyd_two_sum(1.0, 2.0 * size);
  double inverse = 1.0 / bottom.hi, g = top.hi * inverse;
  pyd_dd_t back = pyd_two_prod(g, bottom.hi);
  double low = ((top.hi - back.hi) - back.lo + (top.lo + PYD_ERFC_2) - g * bottom.lo) * inverse;
  double upper = pyd_double(pyd_bits(size) & PYD_UPPER_HALF);
  pyd_exp_t e = pyd_exp_dd(-(upper * upper), -((size - upper) * (size + upper)));
  double far = pyd_scale(g + PYD_FMA(g, e.m, low + low * e.m), e.k), middle = 1.0 - pyd_erf_middle(x);
  far = x < 0.0 ? 2.0 - far : far;
  return size < 0.4375 ? middle : far;
}
