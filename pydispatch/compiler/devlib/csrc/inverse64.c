// asin, acos, atan, atan2 in double.
#include "kernel64.h"

// asin(s) for s = sqrt(z), 0 <= z <= 1/4, as s + tail; here the tail over s.
PYD_INLINE double pyd_asin_tail(double z) { return z * PYD_ASIN_P(z, z * z); }

double asin(double x) {
  double size = __builtin_fabs(x);
  if (size <= 0.5) return size < 0x1p-27 ? x : PYD_FMA(x, pyd_asin_tail(x * x), x);
  if (!(size <= 1.0)) return PYD_NAN;
  // pi/2 - 2 asin(sqrt((1 - x)/2)); the root keeps its low part.
  double z = 0.5 * (1.0 - size);
  pyd_dd_t s = z > 0.0 ? pyd_sqrt_dd(z, 0.0) : (pyd_dd_t){0.0, 0.0};
  pyd_dd_t y = pyd_fast_sum(PYD_PIO2_1, -2.0 * s.hi);
  return __builtin_copysign(y.hi + (y.lo + PYD_PIO2_2 - 2.0 * (s.lo + s.hi * pyd_asin_tail(z))), x);
}

double acos(double x) {
  double size = __builtin_fabs(x);
  if (size <= 0.5) {
    pyd_dd_t y = pyd_fast_sum(PYD_PIO2_1, -x);
    return y.hi + (y.lo + PYD_PIO2_2 - x * pyd_asin_tail(x * x));
  }
  if (!(size <= 1.0)) return PYD_NAN;
  double z = 0.5 * (1.0 - size);
  pyd_dd_t s = z > 0.0 ? pyd_sqrt_dd(z, 0.0) : (pyd_dd_t){0.0, 0.0};
  double tail = s.lo + s.hi * pyd_asin_tail(z);
  if (x > 0.0) return 2.0 * (s.hi + tail);
  pyd_dd_t y = pyd_fast_sum(2.0 * PYD_PIO2_1, -2.0 * s.hi);
  return y.hi + (y.lo + 2.0 * PYD_PIO2_2 - 2.0 * tail);
}

static const double pyd_atan_table[17][2] = PYD_ATAN_TABLE;

// The angle in [0, pi] of the point (x, y), y >= 0, both finite, not both zero. With c the nearest sixteenth to
// the smaller over the larger, the angle is atan(c) + atan((small - c large) / (large + c small)).
PYD_INLINE double pyd_angle(double y, double x) {
  double size = __builtin_fabs(x);
  double large = y > size ? y : size, small = y > size ? size : y;
  double by = large > 0x1p900 ? 0x1p-200 : large < 0x1p-700 ? 0x1p300 : 1.0;
  large *= by;
  small *= by;
  double shifted = small / large * 16.0 + PYD_SHIFT, c = (shifted - PYD_SHIFT) * 0.0625;
  int index = (int)(pyd_bits(shifted) & 31);
  pyd_dd_t product = pyd_two_prod(c, large);
  double t = ((small - product.hi) - product.lo) / PYD_FMA(c, small, large);
  double base = pyd_atan_table[index][0], base_low = pyd_atan_table[index][1];
  double tail = t * (t * t) * PYD_ATAN_P(t * t, (t * t) * (t * t));
  pyd_dd_t angle = pyd_fast_sum(base, t);
  double low = angle.lo + (base_low + tail);
  if (y > size) {  // measured from the y axis
    pyd_dd_t turned = pyd_fast_sum(PYD_PIO2_1, x < 0.0 ? angle.hi : -angle.hi);
    return turned.hi + (turned.lo + PYD_PIO2_2 + (x < 0.0 ? low : -low));
  }
  if (pyd_bits(x) >> 63) {
    pyd_dd_t turned = pyd_fast_sum(2.0 * PYD_PIO2_1, -angle.hi);
    return turned.hi + (turned.lo + 2.0 * PYD_PIO2_2 - low);
  }
  return angle.hi + low;
}

double atan(double x) {
  double size = __builtin_fabs(x);
  if (size < 0x1p-27) return x;
  if (!(size < 0x1p60)) return size >= 0x1p60 ? __builtin_copysign(PYD_PIO2_1, x) : x + x;
  return __builtin_copysign(pyd_angle(size, 1.0), x);
}

double atan2(double y, double x) {
  double size = __builtin_fabs(y);
  if (x != x || y != y) return x + y;
  if (__builtin_fabs(x) == PYD_INF) {  // the diagonal when both are infinite
    x = __builtin_copysign(size == PYD_INF ? 1.0 : 0.0, x);
    size = size == PYD_INF ? 1.0 : 0.0;
  } else if (size == PYD_INF) {
    x = 0.0;
    size = 1.0;
  }
  double angle;
  if (size == 0.0) {
    angle = pyd_bits(x) >> 63 ? 2.0 * PYD_PIO2_1 : 0.0;
  } else if (x > 0.0 && size < x * 0x1p-40 && x > 0x1p-900) {
    angle = size / x;  // may be subnormal
  } else {
    angle = pyd_angle(size, x);
  }
  return __builtin_copysign(angle, y);
}
