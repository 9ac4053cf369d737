// expf, exp2f, exp10f, expm1f, logf, log2f, log10f, log1pf, powf, without branches.
//
// With fused multiply-add, most compute in float (single.h), within 2 units in the last place. Without it, and in
// exp10f and powf, they compute in double (float_kernel.h) and round once: within 0.51 units in the last place.
#include "float_kernel.h"
#include "single.h"

#if PYD_HAS_FMA
PYD_HOT float expf(float x) { return pyd_exps(x); }
#else
PYD_HOT float expf(float x) { return (float)pyd_expf_d(x); }
#endif

#if PYD_HAS_FMA
PYD_HOT float exp2f(float x) {
  float t = pyd_clamps(x, -151.0f, 129.0f), shifted = t + PYD_SHIFTS;
  float m = pyd_expm1s_reduced((t - (shifted - PYD_SHIFTS)) * PYD_LN2S_HIGH);
  return pyd_scales(1.0f + m, pyd_shifted_ints(shifted));
}
#else
PYD_HOT float exp2f(float x) {
  double t = pyd_clampf(x, -200.0, 200.0), shifted = t + PYD_SHIFT, f = t - (shifted - PYD_SHIFT);
  return (float)pyd_expf_finish(f * PYD_LN2_FULL_1, pyd_shifted_int(shifted));
}
#endif

PYD_HOT float exp10f(float x) {
  double t = pyd_clampf(x, -60.0, 60.0), shifted = t * PYD_LOG2_10_1 + PYD_SHIFT, k = shifted - PYD_SHIFT;
  double f = (t - k * PYD_LOG10_2_1) - k * PYD_LOG10_2_2;
  return (float)pyd_expf_finish(f * PYD_LN10_1, pyd_shifted_int(shifted));
}

#if PYD_HAS_FMA
PYD_HOT float expm1f(float x) {
  float y = pyd_expm1s(x);
  return x == 0.0f ? x : y;
}
#else
PYD_HOT float expm1f(float x) {
  double y = pyd_expm1f_d(pyd_clampf(x, -100.0, 200.0));
  return x == 0.0f ? x : (float)y;
}
#endif

#if PYD_HAS_FMA
PYD_HOT float logf(float x) { return pyd_logs_special(x, pyd_logs_sum(pyd_logs_parts(x))); }
#else
PYD_HOT float logf(float x) { return (float)pyd_logf_special(x, pyd_logf_d(x)); }
#endif

// log x = k log 2 + f + tail. Logarithms to another base multiply f + tail by that of e, and k by that of 2, each the
// sum of two floats; `low` has the products that do not show in the high parts.
#if PYD_HAS_FMA
PYD_HOT float log2f(float x) {
  pyd_logs_t y = pyd_logs_parts(x);
  float low = PYD_FMAF(y.f, PYD_LOG2ES_LOW, y.tail * PYD_LOG2ES);
  return pyd_logs_special(x, y.k + PYD_FMAF(y.f, PYD_LOG2ES, low));
}
#else
PYD_HOT float log2f(float x) {
  pyd_logf_t y = pyd_logf_parts(x);
  return (float)pyd_logf_special(x, y.k + y.log * PYD_LOG2E_1);
}
#endif

#if PYD_HAS_FMA
PYD_HOT float log10f(float x) {
  pyd_logs_t y = pyd_logs_parts(x);
  float low = PYD_FMAF(y.f, PYD_LOG10ES_LOW, PYD_FMAF(y.tail, PYD_LOG10ES, y.k * PYD_LOG10_2S_2));
  return pyd_logs_special(x, PYD_FMAF(y.k, PYD_LOG10_2S_1, PYD_FMAF(y.f, PYD_LOG10ES, low)));
}
#else
PYD_HOT float log10f(float x) {
  pyd_logf_t y = pyd_logf_parts(x);
  return (float)pyd_logf_special(x, y.k * (PYD_LOG10_2_1 + PYD_LOG10_2_2) + y.log * PYD_LOG10E_1);
}
#endif

#if PYD_HAS_FMA
PYD_HOT float log1pf(float x) {
  float y = pyd_log1ps(x);
  y = x == PYD_INFS ? x : y;
  y = x == -1.0f ? -PYD_INFS : y;
  y = x < -1.0f ? PYD_NANS : y;
  return x == 0.0f || x != x ? x : y;
}
#else
PYD_HOT float log1pf(float x) {
  double y = pyd_logf_special(1.0 + x, pyd_log1pf_d(x));
  return x == 0.0f ? x : (float)y;
}
#endif

PYD_HOT float powf(float x, float y) {
  double size = __builtin_fabs((double)x), w = (double)y;
  // The logarithm needs 2^-42 of relative precision here; the exponent is below 2^8 where it matters.
  double product = w * pyd_logf_special(size, pyd_logf_d(size));
  double value = pyd_expf_d(product);
  // Adding 2^52 rounds to an integer. y is an integer if that does not change it, and odd if it changes half of it;
  // a float from 2^24 on is even.
  double whole = __builtin_fabs(w), half = whole * 0.5;
  double cut = (whole + 0x1p52) - 0x1p52, cut_half = (half + 0x1p52) - 0x1p52;
  int integer = cut == whole || whole >= 0x1p52, odd = integer && whole < 0x1p52 && cut_half != half;
  int negative = (int)(pyd_bitsf(x) >> 31);
  value = negative && odd ? -value : value;
  value = negative && !integer && size != 0.0 && size != PYD_INF ? PYD_NAN : value;
  value = size == 1.0 && whole == PYD_INF ? 1.0 : value;
  value = w != w || x != x ? PYD_NAN : value;
  return x == 1.0f || y == 0.0f ? 1.0f : (float)value;
}
