// sin, cos, tan, sincos in double, exact reduction for every finite argument.
#include "kernel64.h"

static const uint64_t pyd_two_over_pi[21] = PYD_TWO_OVER_PI;

// x - n pi/2 in [-pi/4, pi/4] as a pair, and n mod 4.
typedef struct { pyd_dd_t r; int n; } pyd_quadrant_t;

// For |x| >= 2^20. With x = m 2^e, only 192 bits of 2/pi matter: higher ones add multiples of four quarter turns,
// lower ones are below 2^-137 of a quarter turn.
static __attribute__((noinline)) pyd_quadrant_t pyd_reduce_large(double x) {
  uint64_t bits = pyd_bits(x), m = (bits & 0x000fffffffffffff) | 0x0010000000000000;
  int first = (int)((bits >> 52) & 2047) - 1075 - 2 + 64;  // bit of the table with weight 2 after the product
  int word = first >> 6, shift = first & 63;
  uint64_t a[3];
  for (int i = 0; i < 3; ++i) {
    uint64_t low = shift ? pyd_two_over_pi[word + i + 1] >> (64 - shift) : 0;
    a[i] = pyd_two_over_pi[word + i] << shift | low;
  }
  unsigned __int128 high = (unsigned __int128)(a[0] * m) << 64;
  unsigned __int128 turn = high + (unsigned __int128)a[1] * m + (uint64_t)((unsigned __int128)a[2] * m >> 64);
  // turn has two integer and 126 fraction bits; take the nearest integer off.
  unsigned __int128 rounded = turn + ((unsigned __int128)1 << 125);
  int n = (int)(rounded >> 126);
  __int128 fraction = (__int128)(turn << 2);  // signed, in units of 2^-128
  double sign = fraction < 0 ? -1.0 : 1.0;
  unsigned __int128 size = fraction < 0 ? -(unsigned __int128)fraction : (unsigned __int128)fraction;
  uint64_t top = (uint64_t)(size >> 64);
  int zeros = top ? __builtin_clzll(top) : 64;  // the nearest double is 2^-62 of a turn away, so top keeps some bits
  if (zeros < 64) size <<= zeros;
  uint64_t head = (uint64_t)(size >> 64) >> 11, tail = (uint64_t)(size >> 22) & 0x1fffffffffffff;
  double unit = pyd_double((uint64_t)(1023 - zeros - 53) << 52) * sign;
  double hi = (double)head * unit, lo = (double)tail * (unit * 0x1p-53);
  pyd_dd_t r = pyd_two_prod(hi, PYD_PIO2_1);
  r = pyd_fast_sum(r.hi, r.lo + (hi * PYD_PIO2_2 + lo * PYD_PIO2_1));
  if (bits >> 63) {
    r.hi = -r.hi, r.lo = -r.lo;
    n = -n;
  }
  return (pyd_quadrant_t){r, n & 3};
}

// x is finite. Below 2^20, n times each of the first three pieces of pi/2 (33 bits each) is exact.
PYD_INLINE pyd_quadrant_t pyd_reduce(double x) {
  if (__builtin_fabs(x) < 0x1.921fb54442d18p-1) return (pyd_quadrant_t){{x, 0.0}, 0};
  if (__builtin_fabs(x) >= 0x1p20) return pyd_reduce_large(x);
  double shifted = x * PYD_TWO_OVER_PI_D_1 + PYD_SHIFT, n = shifted - PYD_SHIFT;
  pyd_dd_t b = pyd_two_sum(x - n * PYD_PIO2_CUT_1, -n * PYD_PIO2_CUT_2);
  pyd_dd_t c = pyd_two_sum(b.hi, -n * PYD_PIO2_CUT_3);
  pyd_dd_t d = pyd_two_sum(c.hi, (b.lo + c.lo) - n * PYD_PIO2_CUT_4);
  return (pyd_quadrant_t){d, (int)(pyd_bits(shifted) & 3)};
}

PYD_INLINE pyd_dd_t pyd_sin_kernel(pyd_dd_t r) {
  double z = r.hi * r.hi;
  return pyd_fast_sum(r.hi, r.hi * z * PYD_SIN_P(z, z * z) + r.lo * (1.0 - 0.5 * z));
}
PYD_INLINE pyd_dd_t pyd_cos_kernel(pyd_dd_t r) {
  pyd_dd_t z = pyd_two_prod(r.hi, r.hi), w = pyd_fast_sum(1.0, -0.5 * z.hi);
  double low = w.lo - 0.5 * z.lo + (z.hi * z.hi * PYD_COS_P(z.hi, z.hi * z.hi) - r.hi * r.lo);
  return pyd_fast_sum(w.hi, low);
}

PYD_INLINE double pyd_sin_quadrant(pyd_quadrant_t q) {
  double y = q.n & 1 ? pyd_cos_kernel(q.r).hi : pyd_sin_kernel(q.r).hi;
  return q.n & 2 ? -y : y;
}

double sin(double x) {
  if (__builtin_fabs(x) < 0x1p-27) return x;
  if (!(__builtin_fabs(x) < PYD_INF)) return PYD_NAN;
  return pyd_sin_quadrant(pyd_reduce(x));
}

double cos(double x) {
  if (!(__builtin_fabs(x) < PYD_INF)) return PYD_NAN;
  pyd_quadrant_t q = pyd_reduce(x);
  q.n += 1;
  return pyd_sin_quadrant(q);
}

void sincos(double x, double* out_sin, double* out_cos) {
  if (!(__builtin_fabs(x) < PYD_INF)) {
    *out_sin = *out_cos = PYD_NAN;
    return;
  }
  pyd_quadrant_t q = pyd_reduce(x);
  double s = pyd_sin_kernel(q.r).hi, c = pyd_cos_kernel(q.r).hi;
  if (__builtin_fabs(x) < 0x1p-27) s = x;
  double a = q.n & 1 ? c : s, b = q.n & 1 ? s : c;
  *out_sin = q.n & 2 ? -a : a;
  *out_cos = (q.n + 1) & 2 ? -b : b;
}

double tan(double x) {
  if (__builtin_fabs(x) < 0x1p-27) return x;
  if (!(__builtin_fabs(x) < PYD_INF)) return PYD_NAN;
  pyd_quadrant_t q = pyd_reduce(x);
  pyd_dd_t s = pyd_sin_kernel(q.r), c = pyd_cos_kernel(q.r);
  pyd_dd_t top = q.n & 1 ? c : s, bottom = q.n & 1 ? (pyd_dd_t){-s.hi, -s.lo} : c;
  double t = top.hi / bottom.hi;
  pyd_dd_t back = pyd_two_prod(t, bottom.hi);
  return t + ((top.hi - back.hi) - back.lo + top.lo - t * bottom.lo) / bottom.hi;
}
