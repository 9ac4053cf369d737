// log, log2, log10, log1p, asinh, acosh, atanh in double: one precise logarithm, then one rounding.
#include "kernel64.h"

// log, log2, log10 and log1p without branches and tables, so that loops of them become vectors:
// log(1 + f) = f - f^2/2 + s (f^2/2 + R), s = f / (2 + f), R = 2 atanh(s)/s - 2, f in [sqrt(1/2) - 1, sqrt(2) - 1].
typedef struct { double k, f, half, tail; } pyd_log64_t;  // log x = k log 2 + (f - (half - tail))

PYD_INLINE pyd_log64_t pyd_log64_of(double k, double f) {
  double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  return (pyd_log64_t){k, f, half, s * (half + z * PYD_LOGF_P(z, z * z))};
}
// x is positive and finite.
PYD_INLINE pyd_log64_t pyd_log64_parts(double x) {
  int small = x < 0x1p-1022;
  uint64_t bits = pyd_bits(small ? x * 0x1p54 : x), offset = bits - 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  double m = pyd_double(bits - (offset & 0xfff0000000000000));
  double k = pyd_double(0x4338000000000000 + (uint64_t)((int64_t)offset >> 52)) - PYD_SHIFT;
  return pyd_log64_of(k - (small ? 54.0 : 0.0), m - 1.0);
}
PYD_INLINE double pyd_log64_sum(pyd_log64_t y) {
  return y.k * PYD_LN2_1 - ((y.half - (y.tail + y.k * PYD_LN2_2)) - y.f);
}
// The value of a logarithm of x given that of positive finite x.
PYD_INLINE double pyd_log64_special(double x, double y) {
  y = x == PYD_INF ? x : y;
  y = x == 0.0 ? -PYD_INF : y;
  y = x < 0.0 ? PYD_NAN : y;
  return x != x ? x : y;
}
// (k whole) + (whole's tail) + (the logarithm of the rest) * (hi + lo), whole = log 2 in the base.
PYD_INLINE double pyd_log64_times(pyd_log64_t y, double hi, double lo, double whole, double whole_tail) {
  double high = y.f - y.half, low = (y.f - high) - y.half + y.tail;
  pyd_dd_t p = pyd_two_prod(high, hi);
  double rest = p.lo + (low * hi + high * lo) + y.k * whole_tail, base = y.k * whole;
  pyd_dd_t sum = pyd_two_sum(base, p.hi);
  return sum.hi + (sum.lo + rest);
}

PYD_HOT double log(double x) { return pyd_log64_special(x, pyd_log64_sum(pyd_log64_parts(x))); }

PYD_HOT double log2(double x) {
  return pyd_log64_special(x, pyd_log64_times(pyd_log64_parts(x), PYD_LOG2E_1, PYD_LOG2E_2, 1.0, 0.0));
}

PYD_HOT double log10(double x) {
  pyd_log64_t y = pyd_log64_parts(x);
  return pyd_log64_special(x, pyd_log64_times(y, PYD_LOG10E_1, PYD_LOG10E_2, PYD_LOG10_2_1, PYD_LOG10_2_2));
}

// f = x 2^-k + (2^-k - 1); where x is large the 1 does not matter.
PYD_HOT double log1p(double x) {
  double u = 1.0 + x;
  uint64_t bits = pyd_bits(u), offset = bits - 0x3fe6a09e667f3bcd, exponent = offset & 0xfff0000000000000;
  double k = pyd_double(0x4338000000000000 + (uint64_t)((int64_t)offset >> 52)) - PYD_SHIFT;
  int far = k > 100.0;
  double back = pyd_double(0x3ff0000000000000 - (far ? 0 : exponent));
  double product = x * back, one = back - 1.0, near = product + one;  // the product is exact
  double lost = (product - (near - one)) + (one - (near - (near - one)));
  double f = far ? pyd_double(bits - exponent) - 1.0 : near;
  pyd_log64_t y = pyd_log64_of(k, f);
  y.tail += far ? 0.0 : lost / (1.0 + f);
  double value = pyd_log64_sum(y);
  value = x == PYD_INF ? x : value;
  value = x == -1.0 ? -PYD_INF : value;
  value = x < -1.0 ? PYD_NAN : value;
  return x == 0.0 || x != x ? x : value;
}

// From 2^60 on the argument of the logarithm is 2x.
PYD_INLINE double pyd_log_of_sum(pyd_dd_t u, double x, int large) {
  pyd_dd_t y = pyd_log_of_dd(large ? x : u.hi, large ? 0.0 : u.lo);
  return y.hi + (y.lo + (large ? PYD_LN2_FULL_1 : 0.0));
}

PYD_HOT double asinh(double x) {
  double size = __builtin_fabs(x), t = size > 0x1p60 ? 1.0 : size;
  pyd_dd_t square = pyd_two_prod(t, t), sum = pyd_two_sum(1.0, square.hi);
  pyd_dd_t root = pyd_sqrt_dd(sum.hi, sum.lo + square.lo), arg = pyd_two_sum(root.hi, t);
  double y = pyd_log_of_sum(pyd_fast_sum(arg.hi, arg.lo + root.lo), size, size > 0x1p60);
  y = __builtin_copysign(y, x);
  return (size >= 0x1p-28) & (size < PYD_INF) ? y : x;
}

PYD_HOT double acosh(double x) {
  double t = x > 0x1p60 ? 2.0 : x;
  pyd_dd_t square = pyd_two_prod(t, t), sum = pyd_two_sum(square.hi, -1.0);
  pyd_dd_t less = pyd_two_sum(sum.hi, sum.lo + square.lo);
  pyd_dd_t root = pyd_sqrt_dd(less.hi, less.lo), arg = pyd_two_sum(t, root.hi);
  double y = pyd_log_of_sum(pyd_fast_sum(arg.hi, arg.lo + root.lo), x, x > 0x1p60);
  y = x < 1.0 ? PYD_NAN : y;
  y = x == 1.0 ? 0.0 : y;
  return x < PYD_INF ? y : x;
}

PYD_HOT double atanh(double x) {
  double size = __builtin_fabs(x), t = size < 1.0 ? size : 0.5;
  pyd_dd_t top = pyd_two_sum(1.0, t), bottom = pyd_two_sum(1.0, -t);
  double q = top.hi / bottom.hi;
  pyd_dd_t back = pyd_two_prod(q, bottom.hi);
  double low = ((top.hi - back.hi) - back.lo + top.lo - q * bottom.lo) / bottom.hi;
  double y = 0.5 * pyd_log_of_dd(q, low).hi;
  y = size == 1.0 ? PYD_INF : y;
  y = __builtin_copysign(size <= 1.0 ? y : PYD_NAN, x);
  return size < 0x1p-28 ? x : y;
}
