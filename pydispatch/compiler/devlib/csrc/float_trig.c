// sinf, cosf, tanf, sincosf: one path for every argument, without branches.
#include "float_kernel.h"
#include "single.h"

static const double pyd_two_over_pi_f[155][3] = PYD_TWO_OVER_PI_F;

// x = r + n pi/2, |r| <= pi/4; of n only the low two bits are right.
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
// sin r and cos r, |r| <= pi/4.
PYD_INLINE double pyd_sinf_kernel(double r) {
  double z = r * r;
  return PYD_FMA(r * z, PYD_SINF_P(z, z * z), r);
}
PYD_INLINE double pyd_cosf_kernel(double r) {
  double z = r * r;
  return PYD_FMA(z, PYD_COSF_P(z, z * z), 1.0);
}
// The sine of r + n pi/2.
PYD_INLINE double pyd_sinf_quadrant(double r, uint64_t n) {
  double y = n & 1 ? pyd_cosf_kernel(r) : pyd_sinf_kernel(r);
  return pyd_double(pyd_bits(y) ^ (n & 2) << 62);
}
PYD_INLINE int pyd_is_infinite(float x) { return __builtin_fabsf(x) == __builtin_inff(); }

#if PYD_HAS_FMA
// The quadrant without tables, which vectors would have to gather. Up to 2^45, n pi/2 is taken off (`near`). Beyond, x
// is 2^22, 2^51 or 2^80 times an integer m below 2^52. So whole turns may be left out of the power times 2/pi, of whose
// pieces the products with m are exact, and then out of the products: a, b and c count quarter turns, and the nearest
// multiples of 4 are taken off a and b.
PYD_INLINE pyd_quadrantf_t pyd_reduces_d(float x) {
  double shifted = PYD_FMA((double)x, PYD_TWO_OVER_PI_D_1, PYD_SHIFT), n = shifted - PYD_SHIFT;
  double size = __builtin_fabs((double)x);
  double near = PYD_FMA(-n, PYD_PIO2_2, PYD_FMA(-n, PYD_PIO2_1, (double)x));
  int large = size >= 0x1p74, huge = size >= 0x1p103;
  double m = (double)x * (huge ? 0x1p-80 : large ? 0x1p-51 : 0x1p-22);
  double a = m * (huge ? PYD_TURN80_1 : large ? PYD_TURN51_1 : PYD_TURN22_1);
  double b = m * (huge ? PYD_TURN80_2 : large ? PYD_TURN51_2 : PYD_TURN22_2);
  double c = m * (huge ? PYD_TURN80_3 : large ? PYD_TURN51_3 : PYD_TURN22_3);
  double d = huge ? PYD_TURN80_4 : large ? PYD_TURN51_4 : PYD_TURN22_4;
  a = PYD_FMA(-4.0, PYD_FMA(a, 0.25, PYD_SHIFT) - PYD_SHIFT, a);
  b = PYD_FMA(-4.0, PYD_FMA(b, 0.25, PYD_SHIFT) - PYD_SHIFT, b);
  double turned = (a + b) + PYD_SHIFT;
  double turn = ((a - (turned - PYD_SHIFT)) + b) + PYD_FMA(m, d, c);
  int far = size >= 0x1p45;
  return (pyd_quadrantf_t){far ? turn * PYD_PIO2_1 : near, pyd_bits(far ? turned : shifted)};
}
typedef struct { float r; uint32_t n; } pyd_quadrants_t;

PYD_INLINE pyd_quadrants_t pyd_reduces(float x) {
  pyd_quadrantf_t q = pyd_reduces_d(x);
  return (pyd_quadrants_t){(float)q.r, (uint32_t)q.n};
}
// sin r and cos r, |r| <= pi/4, in float.
PYD_INLINE float pyd_sins_kernel(float r) {
  float z = r * r;
  return PYD_FMAF(r * z, PYD_SINS_P(z), r);
}
PYD_INLINE float pyd_coss_kernel(float r) {
  float z = r * r, half = 0.5f * z, one = 1.0f - half;
  return one + PYD_FMAF(z * z, PYD_COSS_P(z), (1.0f - one) - half);
}
// The sine of r + n pi/2.
PYD_INLINE float pyd_sins_quadrant(float r, uint32_t n) {
  float y = n & 1 ? pyd_coss_kernel(r) : pyd_sins_kernel(r);
  return pyd_float(pyd_bitsf(y) ^ (n & 2) << 30);
}

PYD_HOT float sinf(float x) {
  pyd_quadrants_t q = pyd_reduces(x);
  float y = pyd_sins_quadrant(q.r, q.n);
  y = pyd_is_infinite(x) ? PYD_NANS : y;
  return x == 0.0f ? x : y;
}

PYD_HOT float cosf(float x) {
  pyd_quadrants_t q = pyd_reduces(x);
  return pyd_is_infinite(x) ? PYD_NANS : pyd_sins_quadrant(q.r, q.n + 1);
}

PYD_HOT void sincosf(float x, float* out_sin, float* out_cos) {
  pyd_quadrants_t q = pyd_reduces(x);
  float s = pyd_sins_quadrant(q.r, q.n), c = pyd_sins_quadrant(q.r, q.n + 1);
  *out_sin = pyd_is_infinite(x) ? PYD_NANS : x == 0.0f ? x : s;
  *out_cos = pyd_is_infinite(x) ? PYD_NANS : c;
}

// The quotient of two float kernels would be off by three units: it is formed in double.
PYD_HOT float tanf(float x) {
  pyd_quadrantf_t q = pyd_reduces_d(x);
  double s = pyd_sinf_kernel(q.r), c = pyd_cosf_kernel(q.r);
  double y = (q.n & 1 ? -c : s) / (q.n & 1 ? s : c);
  y = pyd_is_infinite(x) ? PYD_NAN : y;
  return x == 0.0f ? x : (float)y;
}
#else
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
#endif
