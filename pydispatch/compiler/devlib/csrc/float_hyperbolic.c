// sinhf, coshf, tanhf, asinhf, acoshf, atanhf, and erff, erfcf.
#include "float_kernel.h"

// |x|, cut where the result has long overflowed or become constant.
PYD_INLINE double pyd_sizef(float x) {
  double size = __builtin_fabs((double)x);
  return size > 120.0 ? 120.0 : size;
}

PYD_HOT float sinhf(float x) {
  double e = pyd_expm1f_d(pyd_sizef(x));
  return __builtin_copysignf((float)(0.5 * (e + e / (e + 1.0))), x);
}

PYD_HOT float coshf(float x) {
  double e = pyd_expm1f_d(pyd_sizef(x)) + 1.0;
  return (float)(0.5 * (e + 1.0 / e));
}

PYD_HOT float tanhf(float x) {
  double e = pyd_expm1f_d(2.0 * pyd_sizef(x));
  return __builtin_copysignf((float)(e / (e + 2.0)), x);
}

PYD_HOT float asinhf(float x) {
  double size = __builtin_fabs((double)x), square = size * size;
  double t = size + square / (1.0 + __builtin_sqrt(square + 1.0));
  double y = size < PYD_INF ? pyd_log1pf_d(t) : size;  // infinity and NaN pass
  return __builtin_copysignf((float)y, x);
}

PYD_HOT float acoshf(float x) {
  double t = (double)x - 1.0;
  double y = pyd_log1pf_d(t + __builtin_sqrt(t * (t + 2.0)));
  y = x < 1.0f ? PYD_NAN : y;
  return (float)(x != x || (double)x == PYD_INF ? (double)x : y);
}

PYD_HOT float atanhf(float x) {
  double size = __builtin_fabs((double)x);
  double t = 2.0 * size / (1.0 - size);
  double y = 0.5 * pyd_log1pf_d(size < 1.0 ? t : 0.0);
  y = size == 1.0 ? PYD_INF : y;
  y = size > 1.0 || x != x ? PYD_NAN : y;
  return __builtin_copysignf((float)y, x);
}

// Below 7/8 an odd polynomial; beyond, 1 - exp(-x^2) G(x) with G a polynomial up to 4, where erf rounds to 1.
PYD_HOT float erff(float x) {
  double size = __builtin_fabs((double)x);
  size = size > 4.0 ? 4.0 : size;
  double z = size * size, z2 = z * z;
  double near = PYD_FMA(size, PYD_ERFF_P(z, z2), size);
  double far = 1.0 - pyd_expf_d(-z) * PYD_ERFCXF_P(size, z);
  return __builtin_copysignf((float)(size < 0.875 ? near : far), x);
}
