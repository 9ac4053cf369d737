// sinhf, coshf, tanhf, asinhf, acoshf, atanhf, and erff, erfcf.
#include "float_kernel.h"
#include "single.h"

// |x|, cut where the result has long overflowed or become constant.
PYD_INLINE double pyd_sizef(float x) {
  double size = __builtin_fabs((double)x);
  return size > 120.0 ? 120.0 : size;
}

// sinh x: below 1 an odd polynomial, from there on half - 1/(4 half) for half = e^x / 2, which overflows from 90 on.
// Without fused multiply-add (e + e/(e + 1)) / 2 for e = e^x - 1.
#if PYD_HAS_FMA
PYD_HOT float sinhf(float x) {
  float size = __builtin_fabsf(x), z = x * x;
  float half = pyd_half_exps(size > 90.0f ? 90.0f : size), far = half - 0.25f / half;
  float near = PYD_FMAF(size * z, PYD_SINHS_P(z), size);
  return __builtin_copysignf(size < 1.0f ? near : far, x);
}
#else
PYD_HOT float sinhf(float x) {
  double e = pyd_expm1f_d(pyd_sizef(x));
  return __builtin_copysignf((float)(0.5 * (e + e / (e + 1.0))), x);
}
#endif

// cosh x = half + 1/(4 half) for half = e^x / 2; without fused multiply-add (e + 1/e) / 2 for e = e^x.
#if PYD_HAS_FMA
PYD_HOT float coshf(float x) {
  float size = __builtin_fabsf(x), half = pyd_half_exps(size > 90.0f ? 90.0f : size);
  return half + 0.25f / half;
}
#else
PYD_HOT float coshf(float x) {
  double e = pyd_expm1f_d(pyd_sizef(x)) + 1.0;
  return (float)(0.5 * (e + 1.0 / e));
}
#endif

#if PYD_HAS_FMA
// Near zero an odd polynomial, then 1 - 2/(e^2x + 1), which is 1 from 9.1 on. Of e^2x = 2^(k + f) the last digit does
// not show; the shift leaves k + 127, an exponent, in the low bits.
PYD_HOT float tanhf(float x) {
  float size = __builtin_fabsf(x), z = x * x, bounded = size > 10.0f ? 10.0f : size;
  float shifted = PYD_FMAF(bounded, 2.0f * PYD_LOG2ES, PYD_SHIFTS + 127.0f), k = shifted - (PYD_SHIFTS + 127.0f);
  float f = PYD_FMAF(bounded, 2.0f * PYD_LOG2ES, -k), power = pyd_float(pyd_bitsf(shifted) << 23);
  float far = 1.0f - 2.0f / PYD_FMAF(power, PYD_EXP2S_P(f), 1.0f);
  float near = PYD_FMAF(size * z, PYD_TANHS_P(z), size);
  return __builtin_copysignf(size < 0.625f ? near : far, x);
}
#else
// e/(e + 2) for e = e^2x - 1.
PYD_HOT float tanhf(float x) {
  double e = pyd_expm1f_d(2.0 * pyd_sizef(x));
  return __builtin_copysignf((float)(e / (e + 2.0)), x);
}
#endif

// log(1 + x + x^2/(1 + sqrt(x^2 + 1))).
PYD_HOT float asinhf(float x) {
  double size = __builtin_fabs((double)x), square = size * size;
  double t = size + square / (1.0 + __builtin_sqrt(square + 1.0));
  double y = size < PYD_INF ? pyd_log1pf_d(t) : size;  // infinity and NaN pass
  return __builtin_copysignf((float)y, x);
}

// log(1 + t + sqrt(t (t + 2))), t = x - 1.
PYD_HOT float acoshf(float x) {
  double t = (double)x - 1.0;
  double y = pyd_log1pf_d(t + __builtin_sqrt(t * (t + 2.0)));
  y = x < 1.0f ? PYD_NAN : y;
  return (float)(x != x || (double)x == PYD_INF ? (double)x : y);
}

// log(1 + t) / 2, t = 2x/(1 - x).
PYD_HOT float atanhf(float x) {
  double size = __builtin_fabs((double)x);
  double t = 2.0 * size / (1.0 - size);
  double y = 0.5 * pyd_log1pf_d(size < 1.0 ? t : 0.0);
  y = size == 1.0 ? PYD_INF : y;
  y = size > 1.0 || x != x ? PYD_NAN : y;
  return __builtin_copysignf((float)y, x);
}

// Below 7/8 an odd polynomial; beyond, up to 4, where erf rounds to 1, 1 - erfc(x).
#if PYD_HAS_FMA
// erfc(x) = 2^P, P from -2 to -26: what rounding P costs is a fifth of that in the result, or less. The shift leaves
// k + 127, an exponent, in the low bits.
PYD_HOT float erff(float x) {
  float size = __builtin_fabsf(x);
  size = size > 4.0f ? 4.0f : size;
  float z = size * size;
  // x 2/sqrt(pi) + x z P: the constant is 1 and a part that is small, so that its rounding does not show.
  float near = PYD_FMAF(size, PYD_FMAF(z, PYD_ERFS_P(z), 0x1.06eba8p-3f), size);
  float power = size * PYD_ERFCS_LOG2_P(size), shifted = power + (PYD_SHIFTS + 127.0f);
  float f = power - (shifted - (PYD_SHIFTS + 127.0f));
  float far = PYD_FMAF(-PYD_EXP2S_P(f), pyd_float(pyd_bitsf(shifted) << 23), 1.0f);
  return __builtin_copysignf(size < 0.875f ? near : far, x);
}
// exp(-x^2) y Q with y = 1 / (1 + x/2), a polynomial Q of y - 3/8, and e^-x^2 = 2^k (1 + m); from 10.1 on it is 0.
// x^2, Q and y Q are sums of two floats, and `error` is what y lacks, relative to it; what each of them adds is in
// `low`. The result grows by 1 + 1.256 y times the relative growth of y. The error is at most 1.87 units in the last
// place, of all floats.
PYD_HOT float erfcf(float x) {
  float size = __builtin_fabsf(x);
  size = size > 10.2f ? 10.2f : size;
  float square = size * size;
  pyd_exps_t e = pyd_exps_parts_of_sum(-square, PYD_FMAF(-size, size, square));
  float divisor = PYD_FMAF(0.5f, size, 1.0f), y = 1.0f / divisor;
  float error = PYD_FMAF(-y, PYD_FMAF(0.5f, size, 1.0f - divisor), PYD_FMAF(-y, divisor, 1.0f));
  float v = y - 0.375f;
  float p = PYD_ERFCS_P(v), vp = v * p, q = 0x1.bbb4b8p-2f + vp;  // Q at v = 0 is this constant and the next one
  float q_low = PYD_FMAF(v, p, -vp) + (-0x1.a80f1ep-27f + (vp - (q - 0x1.bbb4b8p-2f)));
  float g = y * q;
  float low = PYD_FMAF(y, q_low, PYD_FMAF(y, q, -g));
  low = PYD_FMAF(g, error * PYD_FMAF(1.256f, y, 1.0f), low);
  float result = pyd_scales(g + PYD_FMAF(g, e.m, PYD_FMAF(low, e.m, low)), e.k);
  return x < 0.0f ? 2.0f - result : result;
}
#else
// Below 7/8 x + x P, P = PYD_ERFF_P; beyond, 1 - exp(-x^2) Q, Q = PYD_ERFCXF_P, up to 4, where erf rounds to 1.
PYD_HOT float erff(float x) {
  double size = __builtin_fabs((double)x);
  size = size > 4.0 ? 4.0 : size;
  double z = size * size, z2 = z * z;
  double near = PYD_FMA(size, PYD_ERFF_P(z, z2), size);
  double far = 1.0 - pyd_expf_d(-z) * PYD_ERFCXF_P(size, z);
  return __builtin_copysignf((float)(size < 0.875 ? near : far), x);
}
// exp(-x^2) G(u) / (1 + 2x), u = (x - 4)/(x + 4), in double; beyond 12 nothing is left.
PYD_HOT float erfcf(float x) {
  double size = __builtin_fabs((double)x);
  size = size > 12.0 ? 12.0 : size;
  double u = (size - 4.0) / (size + 4.0);
  double y = pyd_expf_d(-(size * size)) * PYD_ERFCF_P(u, u * u) / (1.0 + 2.0 * size);
  return (float)(x < 0.0f ? 2.0 - y : y);
}
#endif
