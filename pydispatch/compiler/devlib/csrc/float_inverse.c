// asinf, acosf, atanf, atan2f.
#include "float_kernel.h"

// asin(s) of 0 <= s <= 1/2 over s, less 1.
PYD_INLINE double pyd_asinf_tail(double z) { return z * PYD_ASINF_P(z, z * z); }

PYD_HOT float asinf(float x) {
  double size = __builtin_fabs((double)x), z = 0.5 * (1.0 - size);
  int outer = size > 0.5;
  z = outer ? z : size * size;
  double s = outer ? __builtin_sqrt(z) : size;  // of a negative z beyond 1: NaN, as it must be
  double y = PYD_FMA(s, pyd_asinf_tail(z), s);
  y = outer ? PYD_PIO2_1 - 2.0 * y : y;
  return __builtin_copysignf((float)y, x);
}

PYD_HOT float acosf(float x) {
  double size = __builtin_fabs((double)x), z = 0.5 * (1.0 - size);
  int outer = size > 0.5;
  z = outer ? z : size * size;
  double s = outer ? __builtin_sqrt(z) : size;
  double y = PYD_FMA(s, pyd_asinf_tail(z), s);
  double near_one = x < 0.0f ? 2.0 * PYD_PIO2_1 - 2.0 * y : 2.0 * y;
  double middle = x < 0.0f ? PYD_PIO2_1 + y : PYD_PIO2_1 - y;
  return (float)(outer ? near_one : middle);
}

// The angle of (x, y) in [0, pi/2], x and y >= 0 and finite, not both 0.
PYD_INLINE double pyd_anglef(double y, double x) {
  int steep = y > x;
  double t = (steep ? x : y) / (steep ? y : x), z = t * t;
  double angle = PYD_FMA(t * z, PYD_ATANF_P(z, z * z), t);
  return steep ? PYD_PIO2_1 - angle : angle;
}

PYD_HOT float atanf(float x) {
  double size = __builtin_fabs((double)x);
  double y = pyd_anglef(size, 1.0);
  return __builtin_copysignf((float)y, x);
}

PYD_HOT float atan2f(float y, float x) {
  double a = __builtin_fabs((double)y), b = __builtin_fabs((double)x);
  int both = a == PYD_INF && b == PYD_INF;
  a = both ? 1.0 : a;
  b = both || (a == 0.0 && b == 0.0) ? 1.0 : b;
  double angle = pyd_anglef(a, b);
  angle = pyd_bitsf(x) >> 31 ? 2.0 * PYD_PIO2_1 - angle : angle;
  return x != x || y != y ? __builtin_nanf("") : __builtin_copysignf((float)angle, y);
}
