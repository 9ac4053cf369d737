// Kernels in float alone, for targets with fused multiply-add: twice as many elements to a vector as in double, within
// 2 units in the last place. Free of branches. Without fused multiply-add, float_kernel.h computes in double.
#ifndef PYD_DEVLIB_SINGLE_H_
#define PYD_DEVLIB_SINGLE_H_

#include "devlib.h"

#define PYD_SHIFTS 0x1.8p23f  // adding it rounds to an integer, which is then in the low bits
#define PYD_SHIFTS_BITS 0x4b400000
#define PYD_TWO_THIRDS_BITS 0x3f2aaaab
#define PYD_SIGN_AND_EXPONENT_S 0xff800000  // of the bits of a float
#define PYD_INFS __builtin_inff()
#define PYD_NANS __builtin_nanf("")
#define PYD_LN2S_1 0x1.62e4p-1f  // 15 bits
#define PYD_LN2S_2 0x1.7f7d1cp-20f
#define PYD_LN2S_HIGH 0x1.62e430p-1f  // to the nearest float, and what is missing
#define PYD_LN2S_LOW -0x1.05c610p-29f
#define PYD_LOG2ES 0x1.715476p+0f
#define PYD_LOG2ES_LOW 0x1.4ae0c0p-26f
#define PYD_LOG10ES 0x1.bcb7b20000000p-2f
#define PYD_LOG10ES_LOW -0x1.5b235e0000000p-27f
#define PYD_PIO2S 0x1.921fb60000000p+0f
#define PYD_PIO2S_LOW -0x1.777a5c0000000p-25f
#define PYD_LOG10_2S_1 0x1.3440000000000p-2f  // 15 bits
#define PYD_LOG10_2S_2 0x1.3509f80000000p-18f

// e^x = 2^k (1 + m), m being e^r - 1 for x = k log 2 + r; m is NaN for NaN.
typedef struct { float m; int32_t k; } pyd_exps_t;

// x, limited to [low, high]. NaN stays NaN.
PYD_INLINE float pyd_clamps(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
// 2^k for -127 < k < 128.
PYD_INLINE float pyd_power2s(int32_t k) { return pyd_float((uint32_t)(k + 127) << 23); }
// x 2^k for -252 < k < 254, rounded once.
PYD_INLINE float pyd_scales(float x, int32_t k) {
#ifdef __AVX512F__
  return __builtin_ldexpf(x, k);  // vscalefps
#else
  int32_t first = k >> 1;
  return x * pyd_power2s(first) * pyd_power2s(k - first);
#endif
}
// e^r - 1, |r| <= ln(2)/2.
PYD_INLINE float pyd_expm1s_reduced(float r) {
  return PYD_FMAF(r * r, PYD_FMAF(r, PYD_EXPS_P(r), 0.5f), r);
}
// The integer k, given k + PYD_SHIFTS, whose bits are those of PYD_SHIFTS plus k.
PYD_INLINE int32_t pyd_shifted_ints(float shifted) { return (int32_t)(pyd_bitsf(shifted) - PYD_SHIFTS_BITS); }
// r and k of x = k log 2 + r, |x| < 110.
typedef struct { float r; int32_t k; } pyd_reduced_exps_t;
PYD_INLINE pyd_reduced_exps_t pyd_reduced_exps(float x) {
  float shifted = PYD_FMAF(x, PYD_LOG2ES, PYD_SHIFTS), k = shifted - PYD_SHIFTS;
  float r = PYD_FMAF(-k, PYD_LN2S_HIGH, x);
  return (pyd_reduced_exps_t){PYD_FMAF(-k, PYD_LN2S_LOW, r), pyd_shifted_ints(shifted)};
}
// e^x for |x| < 110.
PYD_INLINE pyd_exps_t pyd_exps_parts(float x) {
  pyd_reduced_exps_t reduced = pyd_reduced_exps(x);
  return (pyd_exps_t){pyd_expm1s_reduced(reduced.r), reduced.k};
}
// e^(x + low) for |x| < 110, where low is much less than x.
PYD_INLINE pyd_exps_t pyd_exps_parts_of_sum(float x, float low) {
  pyd_reduced_exps_t reduced = pyd_reduced_exps(x);
  return (pyd_exps_t){pyd_expm1s_reduced(reduced.r + low), reduced.k};
}
// e^x = 2^k (1 + m), m being e^r - 1 for x = k log 2 + r. Beyond the bounds it is 0 or infinity.
PYD_INLINE float pyd_exps(float x) {
  pyd_exps_t e = pyd_exps_parts(pyd_clamps(x, -104.0f, 89.0f));
  return pyd_scales(1.0f + e.m, e.k);
}
// e^x / 2 for 0 <= x < 90, where e^x itself overflows.
PYD_INLINE float pyd_half_exps(float x) {
  pyd_exps_t e = pyd_exps_parts(x);
  return pyd_scales(1.0f + e.m, e.k - 1);
}
// e^x - 1. Below -18 it is -1, beyond 89 infinity.
PYD_INLINE float pyd_expm1s(float x) {
  pyd_exps_t e = pyd_exps_parts(pyd_clamps(x, -18.0f, 89.0f));
  float half = pyd_power2s(e.k - 1);  // so that 2^128 does not overflow
  return 2.0f * PYD_FMAF(half, e.m, half - 0.5f);
}

// log x = k log 2 + f + tail: x is 2^k m with m in [2/3, 4/3), and f + tail is the logarithm of m = 1 + f.
typedef struct { float k, f, tail; } pyd_logs_t;

// The parts of log x = k log 2 + log(1 + f).
PYD_INLINE pyd_logs_t pyd_logs_of(float k, float f) {
  float square = f * f;
  return (pyd_logs_t){k, f, square * PYD_FMAF(f, PYD_LOGS_P(f), -0.5f)};
}
// The parts of log x for positive finite x. A subnormal x is multiplied by 2^23 first.
PYD_INLINE pyd_logs_t pyd_logs_parts(float x) {
  int small = x < 0x1p-126f;
  uint32_t bits = pyd_bitsf(small ? x * 0x1p23f : x);
  uint32_t exponent = (bits - PYD_TWO_THIRDS_BITS) & PYD_SIGN_AND_EXPONENT_S;  // k, as the exponent bits of a float
  float k = (float)((int32_t)exponent >> 23) - (small ? 23.0f : 0.0f);
  return pyd_logs_of(k, pyd_float(bits - exponent) - 1.0f);
}
// The natural logarithm. log 2 is the sum of two floats, so that the product with k loses no digit that counts: k has 8
// bits and PYD_LN2S_1 has 15.
PYD_INLINE float pyd_logs_sum(pyd_logs_t y) {
  return PYD_FMAF(y.k, PYD_LN2S_1, y.f + PYD_FMAF(y.k, PYD_LN2S_2, y.tail));
}
// y, which is a logarithm of positive finite x and anything for another x, with the right value for that.
PYD_INLINE float pyd_logs_special(float x, float y) {
  y = x == PYD_INFS ? x : y;
  y = x == 0.0f ? -PYD_INFS : y;
  y = x < 0.0f ? PYD_NANS : y;
  return x != x ? x : y;
}
// log(1 + x), x > -1 and finite. 1 + x is 2^k (1 + f) with 1 + f in [2/3, 4/3). f = x 2^-k + (2^-k - 1) is rounded
// once; where x is large (`far`) the 1 does not matter, and f is that of the rounded sum.
PYD_INLINE float pyd_log1ps(float x) {
  uint32_t bits = pyd_bitsf(1.0f + x), exponent = (bits - PYD_TWO_THIRDS_BITS) & PYD_SIGN_AND_EXPONENT_S;
  int32_t k = (int32_t)exponent >> 23;
  int far = k > 60;
  float back = pyd_power2s(far ? -60 : -k);
  float f = far ? pyd_float(bits - exponent) - 1.0f : PYD_FMAF(x, back, back - 1.0f);
  return pyd_logs_sum(pyd_logs_of((float)k, f));
}

#endif  // PYD_DEVLIB_SINGLE_H_
