// sinh, cosh, tanh in double.
#include "kernel64.h"

// exp(size)/2 for size up to 711, where exp itself overflows.
PYD_INLINE double pyd_half_exp(double size) {
  pyd_exp_t e = pyd_exp_dd(size, 0.0);
  return pyd_scale(1.0 + e.m, e.k - 1);
}

double sinh(double x) {
  double size = __builtin_fabs(x), z = x * x;
  if (size < 0x1p-27) return x;
  if (size < 1.0) return PYD_FMA(x, z * PYD_SINH_P(z, z * z), x);
  if (!(size < 711.0)) return x != x ? x + x : __builtin_copysign(PYD_INF, x);
  double half = pyd_half_exp(size);
  return __builtin_copysign(half - 0.25 / half, x);
}

double cosh(double x) {
  double size = __builtin_fabs(x);
  if (!(size < 711.0)) return x != x ? x + x : PYD_INF;
  double half = pyd_half_exp(size);
  return half + 0.25 / half;
}

double tanh(double x) {
  double size = __builtin_fabs(x), z = x * x;
  if (size < 0x1p-27) return x;
  if (size < 0.55) return PYD_FMA(x, z * PYD_TANH_P(z, z * z), x);
  if (!(size < 22.0)) return x != x ? x + x : __builtin_copysign(1.0, x);
  pyd_exp_t e = pyd_exp_dd(2.0 * size, 0.0);
  return __builtin_copysign(1.0 - 2.0 / (pyd_scale(1.0 + e.m, e.k) + 1.0), x);
}
