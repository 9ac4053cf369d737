// sinf, cosf, tanf, sincosf: one path for every argument, without branches.
#include "float_kernel.h"

static const double pyd_two_over_pi_f[155][3] = PYD_TWO_OVER_PI_F;

typedef struct { double r; uint64_t n; } pyd_quadrantf_t;

// x = m 2^e with a 24-bit m. The table has 2^e * 2/pi mod 4 in pieces so short that m times a piece is exact.
PYD_INLINE pyd_quadrantf_t pyd_reducef(float x) {
  int64_t biased = (pyd_bitsf(x) >> 23) & 255;
  biased = biased < 100 ? 100 : biased > 254 ? 254 : biased;
  const double* piece = pyd_two_over_pi_f[biased - 100];
  double m = (double)x * pyd_double((uint64_t)(1023 + 150 - biased) << 52);
  double a = m * piece[0], b = m * piece[1], c = m * piece[2];
  a -= 4.0 * ((a * 0.25 + PYD_SHIFT) - PYD_SHIFT);
  double shifted = (a + b) + PYD_SHIFT;
  double turn = ((a - (shifted - PYD_SHIFT)) + b) + c;
  return (pyd_quadrantf_t){turn * PYD_PIO2_1, pyd_bits(shifted)};
}
PYD_INLINE double pyd_sinf_kernel(double r) {
  double z = r * r;
  return PYD_FMA(r * z, PYD_SINF_P(z, z * z), r);
}
PYD_INLINE double pyd_cosf_kernel(double r) {
  double z = r * r;
  return PYD_FMA(z, PYD_COSF_P(z, z * z), 1.0);
}
PYD_INLINE double pyd_sinf_quadrant(double r, uint64_t n) {
  double y = n & 1 ? pyd_cosf_kernel(r) : pyd_sinf_kernel(r);
  return pyd_double(pyd_bits(y) ^ (n & 2) << 62);
}
PYD_INLINE int pyd_is_infinite(float x) { return __builtin_fabsf(x) == __builtin_inff(); }

PYD_HOT float sinf(float x) {
  pyd_quadrantf_t q = pyd_reducef(x);
  double y = pyd_sinf_quadrant(q.r, q.n);
  y = pyd_is_infinite(x) ? PYD_NAN : y;
  return x == 0.0f ? x : (float)y;
}

PYD_HOT float cosf(float x) {
  pyd_quadrantf_t q = pyd_reducef(x);
  double y = pyd_sinf_quadrant(q.r, q.n + 1);
  return (float)(pyd_is_infinite(x) ? PYD_NAN : y);
}

PYD_HOT void sincosf(float x, float* out_sin, float* out_cos) {
  pyd_quadrantf_t q = pyd_reducef(x);
  double s = pyd_sinf_quadrant(q.r, q.n), c = pyd_sinf_quadrant(q.r, q.n + 1);
  *out_sin = pyd_is_infinite(x) ? __builtin_nanf("") : x == 0.0f ? x : (float)s;
  *out_cos = pyd_is_infinite(x) ? __builtin_nanf("") : (float)c;
}

PYD_HOT float tanf(float x) {
  pyd_quadrantf_t q = pyd_reducef(x);
  double s = pyd_sinf_kernel(q.r), c = pyd_cosf_kernel(q.r);
  double y = (q.n & 1 ? -c : s) / (q.n & 1 ? s : c);
  y = pyd_is_infinite(x) ? PYD_NAN : y;
  return x == 0.0f ? x : (float)y;
}
