// erf, erfc in double. Beyond the middle, erfc(x) = exp(-x^2) G(x) with G smooth: one polynomial of degree 11 for each
// eighth of a binade from 1/4 to 32.
#include "kernel64.h"

static const double pyd_erfcx_table[56][12] = PYD_ERFCX_TABLE;

PYD_INLINE double pyd_erf_middle(double x) {
  double z = x * x;
  return PYD_FMA(x, PYD_ERF_P(z, z * z), x);
}

// 1/4 <= x < 28.
static double pyd_erfc_tail(double x) {
  uint64_t bits = pyd_bits(x);
  const double* c = pyd_erfcx_table[(bits >> 49) - (0x3fd0000000000000 >> 49)];
  uint64_t low = bits & 0xfffe000000000000;  // the step's lower end; its width is one bit of the sixth place
  double width = pyd_double(((bits >> 52) - 3) << 52), t = (x - pyd_double(low)) / width - 0.5, t2 = t * t;
  double even = c[10], odd = c[11];
  for (int i = 8; i >= 2; i -= 2) even = PYD_FMA(even, t2, c[i]);
  for (int i = 9; i >= 1; i -= 2) odd = PYD_FMA(odd, t2, c[i]);
  pyd_dd_t g = pyd_fast_sum(c[0], PYD_FMA(t2, even, t * odd));
  pyd_dd_t square = pyd_two_prod(x, x);
  pyd_exp_t e = pyd_exp_dd(-square.hi, -square.lo);
  return pyd_scale(g.hi + (g.hi * e.m + g.lo), e.k);
}

// Without branches; 1 - exp(-x^2) G(u) / (1 + 2x), u = (x - 4)/(x + 4), beyond the middle.
PYD_HOT double erf(double x) {
  double size = __builtin_fabs(x);
  size = size > 6.0 ? 6.0 : size;
  double u = (size - 4.0) / (size + 4.0);
  pyd_exp_t e = pyd_exp_dd(-(size * size), 0.0);
  double far = 1.0 - pyd_scale(1.0 + e.m, e.k) * PYD_ERFCD_P(u, u * u) / (1.0 + 2.0 * size);
  double near = pyd_erf_middle(size);
  return __builtin_copysign(size < 0.875 ? near : far, x);
}

double erfc(double x) {
  double size = __builtin_fabs(x);
  if (size < 0.4375) return 1.0 - pyd_erf_middle(x);
  if (x != x) return x + x;
  if (x < 0.0) return x > -6.0 ? (x > -0.875 ? 1.0 + pyd_erf_middle(size) : 2.0 - pyd_erfc_tail(size)) : 2.0;
  return x < 27.5 ? pyd_erfc_tail(x) : 0.0;
}
