// log, log2, log10, log1p, asinh, acosh, atanh in double: one precise logarithm, then one rounding.
#include "kernel64.h"

// The value of a logarithm where x is not finite and positive.
PYD_INLINE double pyd_log_special(double x) {
  if (x == 0.0) return -PYD_INF;
  return x < 0.0 ? PYD_NAN : x + x;  // +inf and NaN
}
PYD_INLINE int pyd_log_is_special(double x) { return !(x > 0.0 && x < PYD_INF); }

PYD_INLINE double pyd_log_times(double x, double hi, double lo) {
  pyd_dd_t y = pyd_log_dd(x), p = pyd_two_prod(y.hi, hi);
  return p.hi + (p.lo + (y.hi * lo + y.lo * hi));
}

double log(double x) { return pyd_log_is_special(x) ? pyd_log_special(x) : pyd_log_dd(x).hi; }

double log2(double x) {
  return pyd_log_is_special(x) ? pyd_log_special(x) : pyd_log_times(x, PYD_LOG2E_1, PYD_LOG2E_2);
}

double log10(double x) {
  return pyd_log_is_special(x) ? pyd_log_special(x) : pyd_log_times(x, PYD_LOG10E_1, PYD_LOG10E_2);
}

double log1p(double x) {
  if (__builtin_fabs(x) < 0x1p-54) return x;
  if (!(x > -1.0 && x < PYD_INF)) return pyd_log_special(1.0 + x);
  pyd_dd_t u = pyd_two_sum(1.0, x);
  return pyd_log_of_dd(u.hi, u.lo).hi;
}

double asinh(double x) {
  double size = __builtin_fabs(x), y;
  if (!(size < PYD_INF) || size < 0x1p-28) return size < 0x1p-28 ? x : x + x;
  if (size > 0x1p60) {
    pyd_dd_t big = pyd_log_dd(size);
    y = big.hi + (big.lo + PYD_LN2_FULL_1);
  } else {
    pyd_dd_t square = pyd_two_prod(size, size), sum = pyd_two_sum(1.0, square.hi);
    pyd_dd_t root = pyd_sqrt_dd(sum.hi, sum.lo + square.lo), arg = pyd_two_sum(root.hi, size);
    pyd_dd_t u = pyd_fast_sum(arg.hi, arg.lo + root.lo);
    y = pyd_log_of_dd(u.hi, u.lo).hi;
  }
  return __builtin_copysign(y, x);
}

double acosh(double x) {
  if (!(x > 1.0 && x < PYD_INF)) return x == 1.0 ? 0.0 : x < 1.0 ? PYD_NAN : x + x;
  if (x > 0x1p60) {
    pyd_dd_t big = pyd_log_dd(x);
    return big.hi + (big.lo + PYD_LN2_FULL_1);
  }
  pyd_dd_t square = pyd_two_prod(x, x), sum = pyd_two_sum(square.hi, -1.0);
  pyd_dd_t less = pyd_two_sum(sum.hi, sum.lo + square.lo);
  pyd_dd_t root = pyd_sqrt_dd(less.hi, less.lo), arg = pyd_two_sum(x, root.hi);
  pyd_dd_t u = pyd_fast_sum(arg.hi, arg.lo + root.lo);
  return pyd_log_of_dd(u.hi, u.lo).hi;
}

double atanh(double x) {
  double size = __builtin_fabs(x);
  if (size < 0x1p-28) return x;
  if (!(size < 1.0)) return size == 1.0 ? __builtin_copysign(PYD_INF, x) : PYD_NAN;
  pyd_dd_t top = pyd_two_sum(1.0, size), bottom = pyd_two_sum(1.0, -size);
  double q = top.hi / bottom.hi;
  pyd_dd_t back = pyd_two_prod(q, bottom.hi);
  double low = ((top.hi - back.hi) - back.lo + top.lo - q * bottom.lo) / bottom.hi;
  return __builtin_copysign(0.5 * pyd_log_of_dd(q, low).hi, x);
}
