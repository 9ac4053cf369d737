// sin, cos, tan, sincos in double, exact reduction for every finite argument.
#include "kernel64.h"

// x - n pi/2 in [-pi/4, pi/4] as a pair, and n mod 4.
typedef struct { pyd_dd_t r; uint64_t n; } pyd_quadrant_t;

#if PYD_HAS_FMA && !defined(__NVPTX__)
// One way for every argument and without branches, so that loops become vectors.
#define PYD_TRIG PYD_HOT

// The row of each 16 binades has a power of two times 2/pi, less the nearest multiple of 4, as a sum of four doubles.
static const double pyd_turns[68][4] = PYD_TURNS;

// `x` less the nearest multiple of 4; |x| < 2^52. Adding 1.5 * 2^54 rounds to a multiple of 4.
PYD_INLINE double pyd_mod4(double x) { return x - ((x + 0x1.8p54) - 0x1.8p54); }

// `sum` plus a term; the rounding errors of the upper parts are summed up in the lower one.
PYD_INLINE pyd_dd_t pyd_add_term(pyd_dd_t sum, double term) {
  pyd_dd_t s = pyd_two_sum(sum.hi, term);
  return (pyd_dd_t){s.hi, sum.lo + s.lo};
}

// x = m 2^e, m below 2^68 and an integer wherever whole turns were left out of 2^e 2/pi. So whole turns may be left out
// of the products too. What is left of these has so few bits that the nearest integer comes off exactly; then the terms
// are as small as their sum, to which 2^-62 of a turn is the least that doubles come to.
PYD_INLINE pyd_quadrant_t pyd_reduce(double x) {
  uint64_t row = (pyd_bits(x) >> 56) & 127;
  row = row < 60 ? 60 : row;
  const double* piece = pyd_turns[row - 60];
  double m = x * pyd_double((2098 - 16 * row) << 52);
  pyd_dd_t p = pyd_two_prod(m, piece[0]), q = pyd_two_prod(m, piece[1]), r = pyd_two_prod(m, piece[2]);
  double a = pyd_mod4(p.hi - ((p.hi + 0x1.8p72) - 0x1.8p72)), b = pyd_mod4(p.lo), c = pyd_mod4(q.hi);
  double shifted = ((a + b) + c) + PYD_SHIFT;
  pyd_dd_t turn = pyd_two_sum(a - (shifted - PYD_SHIFT), b);
  turn = pyd_add_term(pyd_add_term(pyd_add_term(turn, c), q.lo), r.hi);
  turn.lo += PYD_FMA(m, piece[3], r.lo);
  pyd_dd_t angle = pyd_two_prod(turn.hi, PYD_PIO2_1);
  double low = angle.lo + PYD_FMA(turn.hi, PYD_PIO2_2, turn.lo * PYD_PIO2_1);
  return (pyd_quadrant_t){pyd_fast_sum(angle.hi, low), pyd_bits(shifted)};
}
#else
#define PYD_TRIG

static const uint64_t pyd_two_over_pi[21] = PYD_TWO_OVER_PI;

// The product of m < 2^53 and the 192 bits of 2/pi from bit `first` of the table on, which have the weights 2^1 and
// less in the product: two integer and 126 fraction bits. Bits above wrap around.
static unsigned __int128 pyd_quarter_turns(uint64_t m, int first) {
  int word = first >> 6, shift = first & 63;
  uint64_t a[3];
  for (int i = 0; i < 3; ++i) {
    uint64_t low = shift ? pyd_two_over_pi[word + i + 1] >> (64 - shift) : 0;
    a[i] = pyd_two_over_pi[word + i] << shift | low;
  }
  unsigned __int128 high = (unsigned __int128)(a[0] * m) << 64;
  return high + (unsigned __int128)a[1] * m + (uint64_t)((unsigned __int128)a[2] * m >> 64);
}
// fraction 2^-128 as the sum of two doubles, of the highest 53 bits of its size and of the next 53.
static pyd_dd_t pyd_fraction(__int128 fraction) {
  double sign = fraction < 0 ? -1.0 : 1.0;
  unsigned __int128 size = fraction < 0 ? -(unsigned __int128)fraction : (unsigned __int128)fraction;
  uint64_t top = (uint64_t)(size >> 64);
  int zeros = top ? __builtin_clzll(top) : 64;  // in quarter turns, no large x is within 2^-62 of an integer: top > 0
  if (zeros < 64) size <<= zeros;
  uint64_t head = (uint64_t)(size >> 64) >> 11, tail = (uint64_t)(size >> 22) & 0x1fffffffffffff;
  double unit = pyd_power2(-zeros - 53) * sign;
  return (pyd_dd_t){(double)head * unit, (double)tail * (unit * 0x1p-53)};
}
// For |x| >= 2^20. With x = m 2^e, only 192 bits of 2/pi matter: higher ones add multiples of four quarter turns,
// lower ones are below 2^-137 of a quarter turn.
static __attribute__((noinline)) pyd_quadrant_t pyd_reduce_large(double x) {
  uint64_t bits = pyd_bits(x), m = (bits & PYD_MANTISSA) | PYD_LEADING_BIT;
  int first = (int)((bits >> 52) & 2047) - 1075 - 2 + 64;  // bit of the table with weight 2 after the product
  unsigned __int128 turn = pyd_quarter_turns(m, first);
  unsigned __int128 rounded = turn + ((unsigned __int128)1 << 125);
  int n = (int)(rounded >> 126);  // the nearest integer
  pyd_dd_t rest = pyd_fraction((__int128)(turn << 2));
  pyd_dd_t r = pyd_two_prod(rest.hi, PYD_PIO2_1);
  r = pyd_fast_sum(r.hi, r.lo + (rest.hi * PYD_PIO2_2 + rest.lo * PYD_PIO2_1));
  if (bits >> 63) {
    r.hi = -r.hi, r.lo = -r.lo;
    n = -n;
  }
  return (pyd_quadrant_t){r, (uint64_t)n};
}

// Below 2^20, n times each of the first three pieces of pi/2 (33 bits each) is exact.
PYD_INLINE pyd_quadrant_t pyd_reduce(double x) {
  if (__builtin_fabs(x) < 0x1.921fb54442d18p-1) return (pyd_quadrant_t){{x, 0.0}, 0};
  if (__builtin_fabs(x) >= 0x1p20) return pyd_reduce_large(x);
  double shifted = x * PYD_TWO_OVER_PI_D_1 + PYD_SHIFT, n = shifted - PYD_SHIFT;
  pyd_dd_t b = pyd_two_sum(x - n * PYD_PIO2_CUT_1, -n * PYD_PIO2_CUT_2);
  pyd_dd_t c = pyd_two_sum(b.hi, -n * PYD_PIO2_CUT_3);
  pyd_dd_t d = pyd_two_sum(c.hi, (b.lo + c.lo) - n * PYD_PIO2_CUT_4);
  return (pyd_quadrant_t){d, pyd_bits(shifted)};
}
#endif

// The sine and the cosine of |r| <= pi/4.
PYD_INLINE pyd_dd_t pyd_sin_kernel(pyd_dd_t r) {
  double z = r.hi * r.hi;
  return pyd_fast_sum(r.hi, r.hi * z * PYD_SIN_P(z, z * z) + r.lo * (1.0 - 0.5 * z));
}
PYD_INLINE pyd_dd_t pyd_cos_kernel(pyd_dd_t r) {
  double z = r.hi * r.hi;
  pyd_dd_t w = pyd_fast_sum(1.0, -0.5 * z);
  return pyd_fast_sum(w.hi, w.lo + (z * z * PYD_COS_P(z, z * z) - r.hi * r.lo));
}

// The sine of r + n pi/2.
PYD_INLINE double pyd_sin_quadrant(pyd_dd_t r, uint64_t n) {
  double s = pyd_sin_kernel(r).hi, c = pyd_cos_kernel(r).hi, y = n & 1 ? c : s;
  return pyd_double(pyd_bits(y) ^ (n & 2) << 62);
}
// y, which is sin(x) or tan(x), but x itself where it is so small that both round to it, and NaN for infinity and NaN.
PYD_INLINE double pyd_trig_special(double x, double y) {
  double size = __builtin_fabs(x);
  y = size < 0x1p-27 ? x : y;
  return size < PYD_INF ? y : PYD_NAN;
}

PYD_TRIG double sin(double x) {
  pyd_quadrant_t q = pyd_reduce(x);
  return pyd_trig_special(x, pyd_sin_quadrant(q.r, q.n));
}

PYD_TRIG double cos(double x) {
  pyd_quadrant_t q = pyd_reduce(x);
  double y = pyd_sin_quadrant(q.r, q.n + 1);
  return __builtin_fabs(x) < PYD_INF ? y : PYD_NAN;
}

PYD_TRIG void sincos(double x, double* out_sin, double* out_cos) {
  pyd_quadrant_t q = pyd_reduce(x);
  double s = pyd_sin_quadrant(q.r, q.n), c = pyd_sin_quadrant(q.r, q.n + 1);
  *out_sin = pyd_trig_special(x, s);
  *out_cos = __builtin_fabs(x) < PYD_INF ? c : PYD_NAN;
}

PYD_TRIG double tan(double x) {
  pyd_quadrant_t q = pyd_reduce(x);
  pyd_dd_t s = pyd_sin_kernel(q.r), c = pyd_cos_kernel(q.r);
  int swapped = (int)(q.n & 1);
  double top = swapped ? c.hi : s.hi, top_low = swapped ? c.lo : s.lo;
  double bottom = swapped ? -s.hi : c.hi, bottom_low = swapped ? -s.lo : c.lo;
  double inverse = 1.0 / bottom, t = top * inverse;
  pyd_dd_t back = pyd_two_prod(t, bottom);
  return pyd_trig_special(x, t + ((top - back.hi) - back.lo + top_low - t * bottom_low) * inverse);
}
