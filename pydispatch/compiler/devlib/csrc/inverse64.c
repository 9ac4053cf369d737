// asin, acos, atan, atan2 in double, without branches.
#include "kernel64.h"

// asin(s) / s - 1 for s = sqrt(z), 0 <= z <= 1/4.
PYD_INLINE double pyd_asin_tail(double z) { return z * PYD_ASIN_P(z, z * z); }

// The root of z as a pair, 0 <= z <= 1/4; 0 is excepted, as the correction would be 0 / 0.
PYD_INLINE pyd_dd_t pyd_asin_root(double z) {
  pyd_dd_t s = pyd_sqrt_dd(z, 0.0);
  return z == 0.0 ? (pyd_dd_t){0.0, 0.0} : s;
}

// asin x = pi/2 - 2 asin(sqrt((1 - x)/2)) from 1/2 on; the root keeps its low part.
PYD_HOT double asin(double x) {
  double size = __builtin_fabs(x), far = 0.5 * (1.0 - size);
  int outer = size > 0.5;
  pyd_dd_t s = pyd_asin_root(far), y = pyd_fast_sum(PYD_PIO2_1, -2.0 * s.hi);
  double tail = pyd_asin_tail(outer ? far : size * size), near = PYD_FMA(size, tail, size);
  double low = y.lo + PYD_PIO2_2 - 2.0 * (s.lo + s.hi * tail), value = outer ? y.hi + low : near;
  return __builtin_copysign(size <= 1.0 ? value : PYD_NAN, x);
}

// acos x: from 1/2 on 2 asin(sqrt((1 - x)/2)), below -1/2 pi minus that for -x, between them pi/2 - asin x.
PYD_HOT double acos(double x) {
  double size = __builtin_fabs(x), far = 0.5 * (1.0 - size);
  int outer = size > 0.5;
  pyd_dd_t s = pyd_asin_root(far), y = pyd_fast_sum(PYD_PIO2_1, -x), z = pyd_fast_sum(2.0 * PYD_PIO2_1, -2.0 * s.hi);
  double over = pyd_asin_tail(outer ? far : x * x), tail = s.lo + s.hi * over;
  double near = y.hi + (y.lo + PYD_PIO2_2 - x * over);
  double right = 2.0 * (s.hi + tail), left = z.hi + (z.lo + 2.0 * PYD_PIO2_2 - 2.0 * tail);
  double value = x > 0.0 ? right : left;
  value = outer ? value : near;
  return size <= 1.0 ? value : PYD_NAN;
}

// The angle in [0, pi] of the point (x, y), y >= 0, both finite, not both zero. It is the arc tangent of a ratio of at
// most tan(pi/8): of the smaller to the larger, or, measured from the diagonal, of their difference to their sum.
PYD_INLINE double pyd_angle(double y, double x) {
  double size = __builtin_fabs(x);
  double large = y > size ? y : size, small = y > size ? size : y;
  double by = large > 0x1p900 ? 0x1p-200 : large < 0x1p-700 ? 0x1p300 : 1.0;
  large *= by;
  small *= by;
  int diagonal = small > 0x1.a827999fcef32p-2 * large;  // above tan(pi/8)
  double t = (diagonal ? small - large : small) / (diagonal ? small + large : large), z = t * t;
  pyd_dd_t angle = pyd_fast_sum(diagonal ? 0.5 * PYD_PIO2_1 : 0.0, t);
  double low = angle.lo + ((diagonal ? 0.5 * PYD_PIO2_2 : 0.0) + t * z * PYD_ATAN_P(z, z * z));
  // Measured from the y axis, from the negative x axis or from the positive one.
  int steep = y > size, negative = (int)(pyd_bits(x) >> 63), backward = steep != negative;
  double base = steep ? PYD_PIO2_1 : negative ? 2.0 * PYD_PIO2_1 : 0.0;
  pyd_dd_t turned = pyd_fast_sum(base, backward ? -angle.hi : angle.hi);
  double rest = steep ? PYD_PIO2_2 : negative ? 2.0 * PYD_PIO2_2 : 0.0;
  return turned.hi + (turned.lo + rest + (backward ? -low : low));
}

PYD_HOT double atan(double x) {
  double size = __builtin_fabs(x);
  double value = __builtin_copysign(pyd_angle(size < 0x1p60 ? size : 0x1p60, 1.0), x);
  return (size < 0x1p-27) | (x != x) ? x : value;
}

PYD_HOT double atan2(double y, double x) {
  double height = __builtin_fabs(y), width = __builtin_fabs(x);
  int nan = (x != x) | (y != y), far = height == PYD_INF, wide = width == PYD_INF;
  // Infinity is 1 beside any number, which is 0 then; the diagonal when both are infinite. NaN is (1, 1), and (0, 0) is
  // (1, 0), so that the quotient exists.
  double a = wide ? 0.0 : height, b = far ? 0.0 : width;
  a = nan | far ? 1.0 : a;
  int zero = (height == 0.0) & (width == 0.0);
  b = nan | wide | zero ? 1.0 : b;
  double angle = pyd_angle(a, __builtin_copysign(b, x)), quotient = a / b;  // which may be subnormal
  // An arc tangent below 2^-40 is its argument, rounded. b 2^-40 is a normal number, so that the comparison is exact.
  int flat = (x > 0.0) & (a < b * 0x1p-40) & (b > 0x1p-900);
  angle = flat ? quotient : angle;
  return __builtin_copysign(nan ? PYD_NAN : angle, y);
}
