// log, log2, log10, log1p, asinh, acosh, atanh in double.
#include "kernel64.h"

// log, log2, log10 and log1p without branches and tables, so that loops of them become vectors:
// log(1 + f) = f - f^2/2 + s (f^2/2 + R), s = f / (2 + f), R = 2 atanh(s)/s - 2, f in [sqrt(1/2) - 1, sqrt(2) - 1].
typedef struct { double k, f, half, tail; } pyd_log64_t;  // log x = k log 2 + (f - (half - tail))

// The parts of log x = k log 2 + log(1 + f).
PYD_INLINE pyd_log64_t pyd_log64_of(double k, double f) {
  double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  return (pyd_log64_t){k, f, half, s * (half + z * PYD_LOGF_P(z, z * z))};
}
// The parts of log x for positive finite x. A subnormal x is multiplied by 2^54 first.
PYD_INLINE pyd_log64_t pyd_log64_parts(double x) {
  int small = x < 0x1p-1022;
  uint64_t bits = pyd_bits(small ? x * 0x1p54 : x), offset = bits - PYD_SQRT_HALF_BITS;
  double m = pyd_double(bits - (offset & PYD_SIGN_AND_EXPONENT));
  double k = pyd_exponent_of_offset(offset);
  return pyd_log64_of(k - (small ? 54.0 : 0.0), m - 1.0);
}
// The natural logarithm.
PYD_INLINE double pyd_log64_sum(pyd_log64_t y) {
  return y.k * PYD_LN2_1 - ((y.half - (y.tail + y.k * PYD_LN2_2)) - y.f);
}
// y, which is a logarithm of positive finite x and anything for another x, with the right value for that.
PYD_INLINE double pyd_log64_special(double x, double y) {
  y = x == PYD_INF ? x : y;
  y = x == 0.0 ? -PYD_INF : y;
  y = x < 0.0 ? PYD_NAN : y;
  return x != x ? x : y;
}
// The logarithm to a base b: k (whole + whole_tail) + (f - (half - tail)) (hi + lo), where whole + whole_tail is
// log_b 2 and hi + lo is log_b e.
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

// log(1 + hi + lo), finite, positive: f = hi 2^-k + (2^-k - 1); where hi is large the 1 does not matter.
PYD_INLINE double pyd_log1p_dd(double hi, double lo) {
  double u = 1.0 + hi;
  uint64_t bits = pyd_bits(u), offset = bits - PYD_SQRT_HALF_BITS, exponent = offset & PYD_SIGN_AND_EXPONENT;
  double k = pyd_exponent_of_offset(offset);
  int far = k > 100.0;  // where hi is large
  double back = pyd_double(PYD_ONE_BITS - (far ? 0 : exponent));
  double product = hi * back, one = back - 1.0, near = product + one;  // the product is exact
  double lost = (product - (near - one)) + (one - (near - (near - one)));
  if (lo != 0.0) lost += lo * back;
  double f = far ? pyd_double(bits - exponent) - 1.0 : near;
  pyd_log64_t y = pyd_log64_of(k, f);
  y.tail += far ? 0.0 : lost / (1.0 + f);
  return pyd_log64_sum(y);
}

PYD_HOT double log1p(double x) {
  double value = pyd_log1p_dd(x, 0.0);
  value = x == PYD_INF ? x : value;
  value = x == -1.0 ? -PYD_INF : value;
  value = x < -1.0 ? PYD_NAN : value;
  return x == 0.0 || x != x ? x : value;
}

// log(1 + x + x^2/(1 + sqrt(1 + x^2))); from 2^60 on log(2x).
PYD_HOT double asinh(double x) {
  double size = __builtin_fabs(x), square = size * size;
  int large = size > 0x1p60;
  pyd_dd_t sum = pyd_fast_sum(size, large ? 0.0 : square / (1.0 + __builtin_sqrt(1.0 + square)));
  double y = pyd_log1p_dd(sum.hi, sum.lo) + (large ? PYD_LN2_FULL_1 : 0.0);
  y = __builtin_copysign(y, x);
  return (size >= 0x1p-28) & (size < PYD_INF) ? y : x;
}

// log(1 + z + sqrt(z (z + 2))), z = x - 1; from 2^60 on log(2x).
PYD_HOT double acosh(double x) {
  double z = x - 1.0, square = z * (z + 2.0);
  int large = x > 0x1p60;
  pyd_dd_t sum = pyd_two_sum(z, large ? 0.0 : __builtin_sqrt(square));
  double y = pyd_log1p_dd(sum.hi, sum.lo) + (large ? PYD_LN2_FULL_1 : 0.0);
  y = x < 1.0 ? PYD_NAN : y;
  return x < PYD_INF ? y : x;
}

// (1 + x)/(1 - x) = 2^k (1 + f), of which half the logarithm is k log(2)/2 + atanh(s), s = f/(2 + f): x where k is 0.
PYD_HOT double atanh(double x) {
  double size = __builtin_fabs(x), t = size < 1.0 ? size : 0.5;
  uint64_t offset = pyd_bits((1.0 + t) / (1.0 - t)) - PYD_SQRT_HALF_BITS;
  double power = pyd_double(PYD_ONE_BITS + (offset & PYD_SIGN_AND_EXPONENT));
  double k = pyd_exponent_of_offset(offset);
  double one = 1.0 - power, one_tail = 1.0 - (one + power), product = t * power;  // the product is exact
  double s = ((product + one) + (t + one_tail)) / ((power - product) + (1.0 + t)), z = s * s;
  double tail = 0.5 * (s * z * PYD_LOGF_P(z, z * z) + k * PYD_LN2_2), y = 0.5 * k * PYD_LN2_1 + (s + tail);
  y = size == 1.0 ? PYD_INF : y;
  return __builtin_copysign(size <= 1.0 ? y : PYD_NAN, x);
}
