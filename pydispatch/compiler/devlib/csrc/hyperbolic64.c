// sinh, cosh, tanh in double.
#include "kernel64.h"

// exp(size)/2 for size up to 711, where exp itself overflows.
PYD_INLINE double pyd_half_exp(double size) {
  pyd_exp_t e = pyd_exp_dd(size, 0.0);
  return pyd_scale(1.0 + e.m, e.k - 1);
}

// The polynomial for |x| < 1 and half - 1/(4 half), half = e^x / 2, for others are both computed, and one is chosen.
// From 712 on the exponential overflows; NaN stays NaN.
PYD_HOT double sinh(double x) {
  double size = __builtin_fabs(x);
  size = size > 712.0 ? 712.0 : size;
  double z = size * size, near = PYD_FMA(size, z * PYD_SINH_P(z, z * z), size);
  double half = pyd_half_exp(size), far = half - 0.25 / half;
  return __builtin_copysign(size < 1.0 ? near : far, x);
}

// half + 1/(4 half), half = e^x / 2.
PYD_HOT double cosh(double x) {
  double size = __builtin_fabs(x), half = pyd_half_exp(size > 712.0 ? 712.0 : size);
  return half + 0.25 / half;
}

// Below 0.55 an odd polynomial, from there on 1 - 2/(e^2x + 1), which is 1 from 22 on.
PYD_HOT double tanh(double x) {
  double size = __builtin_fabs(x);
  size = size > 22.0 ? 22.0 : size;
  double z = size * size, near = PYD_FMA(size, z * PYD_TANH_P(z, z * z), size);
  pyd_exp_t e = pyd_exp_dd(2.0 * size, 0.0);
  double far = 1.0 - 2.0 / (pyd_scale(1.0 + e.m, e.k) + 1.0);
  return __builtin_copysign(size < 0.55 ? near : far, x);
}
