// asinf, acosf, atanf, atan2f.
#include "float_kernel.h"
#include "single.h"

// asin(s) / s - 1 for z = s^2, 0 <= s <= 1/2.
PYD_INLINE double pyd_asinf_tail(double z) { return z * PYD_ASINF_P(z, z * z); }

// asin x = pi/2 - 2 asin(sqrt((1 - x)/2)) from 1/2 on (`outer`); z is the square of the argument of the polynomial.
#if PYD_HAS_FMA
PYD_HOT float asinf(float x) {
  float size = __builtin_fabsf(x), z = PYD_FMAF(-0.5f, size, 0.5f);
  int outer = size > 0.5f;
  z = outer ? z : size * size;
  float s = outer ? __builtin_sqrtf(z) : size;
  float tail = s * z * PYD_ASINS_P(z);
  float y = outer ? PYD_FMAF(-2.0f, s, PYD_PIO2S) - PYD_FMAF(2.0f, tail, -PYD_PIO2S_LOW) : s + tail;
  return __builtin_copysignf(y, x);
}
#else
PYD_HOT float asinf(float x) {
  double size = __builtin_fabs((double)x), z = 0.5 * (1.0 - size);
  int outer = size > 0.5;
  z = outer ? z : size * size;
  double s = outer ? __builtin_sqrt(z) : size;  // of a negative z beyond 1: NaN, as it must be
  double y = PYD_FMA(s, pyd_asinf_tail(z), s);
  y = outer ? PYD_PIO2_1 - 2.0 * y : y;
  return __builtin_copysignf((float)y, x);
}
#endif

// acos x: from 1/2 on 2 asin(sqrt((1 - x)/2)), below -1/2 pi minus that for -x, between them pi/2 - asin x.
#if PYD_HAS_FMA
PYD_HOT float acosf(float x) {
  float size = __builtin_fabsf(x), z = PYD_FMAF(-0.5f, size, 0.5f);
  int outer = size > 0.5f;
  z = outer ? z : size * size;
  float s = outer ? __builtin_sqrtf(z) : size;
  float tail = s * z * PYD_ASINS_P(z), y = s + tail;
  float far = x < 0.0f ? PYD_FMAF(-2.0f, y, 2.0f * PYD_PIO2S_LOW) + 2.0f * PYD_PIO2S : 2.0f * y;
  float signed_s = __builtin_copysignf(s, x), signed_tail = __builtin_copysignf(tail, x);
  float high = PYD_PIO2S - signed_s, low = (PYD_PIO2S - high) - signed_s;
  return outer ? far : high + ((low + PYD_PIO2S_LOW) - signed_tail);
}
#else
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
#endif

// The angle of (x, y) in [0, pi/2], x and y >= 0 and finite, not both 0.
PYD_INLINE double pyd_anglef(double y, double x) {
  int steep = y > x;
  double t = (steep ? x : y) / (steep ? y : x), z = t * t;
  double angle = PYD_FMA(t * z, PYD_ATANF_P(z, z * z), t);
  return steep ? PYD_PIO2_1 - angle : angle;
}

#if PYD_HAS_FMA
// The angle of (x, y) in float. pi/2 has a second part, so that its rounding error does not count.
PYD_INLINE float pyd_angles(float y, float x) {
  int steep = y > x;
  float top = steep ? x : y, bottom = steep ? y : x, t = top / bottom, z = t * t;
  float angle = PYD_FMAF(t * z, PYD_ATANS_P(z), t);
  return steep ? PYD_PIO2S - (angle - PYD_PIO2S_LOW) : angle;
}
#endif

#if PYD_HAS_FMA
PYD_HOT float atanf(float x) {
  float size = __builtin_fabsf(x);
  return __builtin_copysignf(pyd_angles(size, 1.0f), x);
}
#else
PYD_HOT float atanf(float x) {
  double size = __builtin_fabs((double)x);
  double y = pyd_anglef(size, 1.0);
  return __builtin_copysignf((float)y, x);
}
#endif

// Two infinities are the diagonal (1, 1), and (0, 0) is (1, 0), so that the quotient of the angle exists.
#if PYD_HAS_FMA
PYD_HOT float atan2f(float y, float x) {
  float a = __builtin_fabsf(y), b = __builtin_fabsf(x);
  int both = a == PYD_INFS && b == PYD_INFS;
  a = both ? 1.0f : a;
  b = both || (a == 0.0f && b == 0.0f) ? 1.0f : b;
  // Scaled so that a quotient of subnormal numbers keeps its digits.
  float by = a + b < 0x1p-60f ? 0x1p60f : 1.0f;
  float angle = pyd_angles(a * by, b * by);
  angle = pyd_bitsf(x) >> 31 ? (2.0f * PYD_PIO2S - angle) + 2.0f * PYD_PIO2S_LOW : angle;
  return x != x || y != y ? PYD_NANS : __builtin_copysignf(angle, y);
}
#else
PYD_HOT float atan2f(float y, float x) {
  double a = __builtin_fabs((double)y), b = __builtin_fabs((double)x);
  int both = a == PYD_INF && b == PYD_INF;
  a = both ? 1.0 : a;
  b = both || (a == 0.0 && b == 0.0) ? 1.0 : b;
  double angle = pyd_anglef(a, b);
  angle = pyd_bitsf(x) >> 31 ? 2.0 * PYD_PIO2_1 - angle : angle;
  return x != x || y != y ? __builtin_nanf("") : __builtin_copysignf((float)angle, y);
}
#endif
