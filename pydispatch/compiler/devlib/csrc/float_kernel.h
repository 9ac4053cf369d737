// Double kernels with just enough precision to round to float.
#ifndef PYD_DEVLIB_FLOAT_KERNEL_H_
#define PYD_DEVLIB_FLOAT_KERNEL_H_

#include "devlib.h"

// x, limited to [low, high]. NaN stays NaN.
PYD_INLINE double pyd_clampf(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

// e^r - 1, |r| <= ln(2)/2.
PYD_INLINE double pyd_expm1f_reduced(double r) {
  double r2 = r * r;
  return PYD_FMA(r2, PYD_FMA(r, PYD_EXPF_P(r, r2), 0.5), r);
}
// 2^k e^r. |k| < 1000, so that rounding to float does the overflow and the underflow.
PYD_INLINE double pyd_expf_finish(double r, int64_t k) {
  return (1.0 + pyd_expm1f_reduced(r)) * pyd_power2(k);
}
// e^x. Beyond the bounds the result rounds to a float of 0 or infinity.
PYD_INLINE double pyd_expf_d(double x) {
  double t = pyd_clampf(x, -200.0, 200.0), shifted = t * PYD_LOG2E_1 + PYD_SHIFT, k = shifted - PYD_SHIFT;
  return pyd_expf_finish((t - k * PYD_LN2_1) - k * PYD_LN2_2, pyd_shifted_int(shifted));
}
// e^x - 1 for |x| <= 400, keeping the relative precision near zero.
PYD_INLINE double pyd_expm1f_d(double x) {
  double shifted = x * PYD_LOG2E_1 + PYD_SHIFT, k = shifted - PYD_SHIFT;
  double m = pyd_expm1f_reduced((x - k * PYD_LN2_1) - k * PYD_LN2_2);
  double power = pyd_power2(pyd_shifted_int(shifted));
  return power * m + (power - 1.0);
}

// log x = k log 2 + log; k is 0 for x in [sqrt(1/2), sqrt(2)).
typedef struct { double k, log; } pyd_logf_t;

// 2 atanh(s)
PYD_INLINE double pyd_atanhf_twice(double s) {
  double z = s * s, z2 = z * z;
  return PYD_FMA(s * z, PYD_LOGF_P(z, z2), 2.0 * s);
}
// The parts of log x for a positive normal double (every positive float is one).
PYD_INLINE pyd_logf_t pyd_logf_parts(double x) {
  uint64_t bits = pyd_bits(x), offset = bits - PYD_SQRT_HALF_BITS;
  double m = pyd_double(bits - (offset & PYD_SIGN_AND_EXPONENT));
  double k = pyd_exponent_of_offset(offset);
  return (pyd_logf_t){k, pyd_atanhf_twice((m - 1.0) / (m + 1.0))};
}
// log x for a positive normal x.
PYD_INLINE double pyd_logf_d(double x) {
  pyd_logf_t y = pyd_logf_parts(x);
  return PYD_FMA(y.k, PYD_LN2_FULL_1, y.log);
}
// log(1 + x) for 1 + x > 0: near 0 the quotient is formed from x itself.
PYD_INLINE double pyd_log1pf_d(double x) {
  pyd_logf_t y = pyd_logf_parts(1.0 + x);
  double near = pyd_atanhf_twice(x / (2.0 + x));
  return y.k == 0.0 ? near : PYD_FMA(y.k, PYD_LN2_FULL_1, y.log);
}
// y, which is log x for positive finite x and anything for another x, with the right value for that.
PYD_INLINE double pyd_logf_special(double x, double y) {
  y = x == PYD_INF ? x : y;
  y = x == 0.0 ? -PYD_INF : y;
  y = x < 0.0 ? PYD_NAN : y;
  return x != x ? x : y;
}

#endif  // PYD_DEVLIB_FLOAT_KERNEL_H_
