// The exponential and the logarithm that all double functions are built on.
#ifndef PYD_DEVLIB_KERNEL64_H_
#define PYD_DEVLIB_KERNEL64_H_

#include "devlib.h"

// exp(x) = 2^k (1 + m), |m| < 0.42.
typedef struct { double m; int64_t k; } pyd_exp_t;

// e^(r + c) - 1 for |r| <= ln(2)/2 and c a correction below r's last place.
PYD_INLINE double pyd_expm1_reduced(double r, double c) {
  double r2 = r * r;
  return r + (r2 * PYD_FMA(r, PYD_EXP_P(r, r2), 0.5) + (c + c * r));
}
// exp(hi + lo), |hi| < 2000.
PYD_INLINE pyd_exp_t pyd_exp_dd(double hi, double lo) {
  double shifted = hi * PYD_LOG2E_1 + PYD_SHIFT, k = shifted - PYD_SHIFT;
  double head = hi - k * PYD_LN2_1;               // exact: k has 12 bits, LN2_1 has 32
  double tail = lo - k * PYD_LN2_2, r = head + tail;
  double c = (head - r) + tail;
  return (pyd_exp_t){pyd_expm1_reduced(r, c), pyd_shifted_int(shifted)};
}
// 2^k (1 + m) with overflow and underflow decided by x, of which it is the exponential.
PYD_INLINE double pyd_exp_finish(pyd_exp_t e, double x, double overflow, double underflow) {
  double y = pyd_scale(1.0 + e.m, e.k);
  y = x > overflow ? PYD_INF : y;
  return x < underflow ? 0.0 : y;
}
// x, limited to [low, high], so that its exponential has an exponent in range. NaN stays NaN.
PYD_INLINE double pyd_clamp(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

#define PYD_LEAST_Z_BITS 0x3fe6000000000000  // of 0.6875
#define PYD_UPPER_HALF 0xfffffffff8000000     // 26 bits of the mantissa: squares of such numbers are exact

static const double pyd_log_table[128][3] = PYD_LOG_TABLE;

// log(x) for finite x > 0, with a relative error near 2^-66.
//
// x = 2^k z, z in [0.6875, 1.375), and c near 1/z with few bits, so that z c - 1 is small and known exactly (z is taken
// in two halves). log x = k log 2 - log c + log1p(z c - 1); c is 1 around z = 1, where the first two terms vanish.
PYD_INLINE pyd_dd_t pyd_log_dd(double x) {
  int small = x < 0x1p-1022;
  uint64_t bits = pyd_bits(small ? x * 0x1p54 : x), offset = bits - PYD_LEAST_Z_BITS;
  uint64_t index = (offset >> 45) & 127;  // the 7 upper bits of the mantissa
  double k = pyd_exponent_of_offset(offset) - (small ? 54.0 : 0.0);
  double z = pyd_double(bits - (offset & PYD_SIGN_AND_EXPONENT));
  double head = pyd_double(pyd_bits(z) & PYD_UPPER_HALF);
  double inverse = pyd_log_table[index][0];
  pyd_dd_t f = pyd_two_sum(head * inverse - 1.0, (z - head) * inverse);
  pyd_dd_t square = pyd_two_prod(f.hi, f.hi);
  double base = k * PYD_LN2_1 + pyd_log_table[index][1];  // exact: both are multiples of 2^-42
  pyd_dd_t s = pyd_two_sum(base, f.hi), t = pyd_two_sum(s.hi, -0.5 * square.hi);
  double low = k * PYD_LN2_2 + pyd_log_table[index][2] + (f.lo - 0.5 * square.lo - f.hi * f.lo);
  low += square.hi * f.hi * PYD_LOG_P(f.hi, square.hi) + (s.lo + t.lo);
  return pyd_fast_sum(t.hi, low);
}
// sqrt(hi + lo) to twice the precision, 2^-900 < hi < 2^900.
PYD_INLINE pyd_dd_t pyd_sqrt_dd(double hi, double lo) {
  double root = __builtin_sqrt(hi);
  pyd_dd_t square = pyd_two_prod(root, root);
  return pyd_fast_sum(root, ((hi - square.hi) - square.lo + lo) / (2.0 * root));
}

#endif  // PYD_DEVLIB_KERNEL64_H_
