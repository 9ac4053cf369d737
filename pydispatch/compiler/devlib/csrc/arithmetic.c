// Exponents, remainders, fma, cbrt, hypot in float and double.
#include "devlib.h"

// x * 2^n, rounded once. From the bounds of k on, every finite x other than 0 gives 0 or infinity.
static double pyd_scalbn(double x, int n) {
  int64_t k = n < -2099 ? -2099 : n > 2099 ? 2099 : n;
  // From the largest to the smallest number takes three steps; all but the last are exact.
  if (k > 1023) {
    x *= 0x1p1023;
    k -= 1023;
    if (k > 1023) x *= 0x1p1023, k -= 1023;
    k = k > 1023 ? 1023 : k;
  } else if (k < -1022) {
    x *= 0x1p-969;  // keeps 53 bits above the subnormal range, so that only the last step rounds
    k += 969;
    if (k < -1022) x *= 0x1p-969, k += 969;
    k = k < -1022 ? -1022 : k;
  }
  return x * pyd_power2(k);
}
double scalbn(double x, int n) { return pyd_scalbn(x, n); }
double ldexp(double x, int n) { return pyd_scalbn(x, n); }
// The same for float: the product is exact in double, and is rounded to float.
static float pyd_scalbnf(float x, int n) {
  int64_t k = n < -400 ? -400 : n > 400 ? 400 : n;
  return (float)((double)x * pyd_power2(k));
}
float scalbnf(float x, int n) { return pyd_scalbnf(x, n); }
float ldexpf(float x, int n) { return pyd_scalbnf(x, n); }
double scalbln(double x, long n) { return pyd_scalbn(x, n < -2099 ? -2099 : n > 2099 ? 2099 : (int)n); }
float scalblnf(float x, long n) { return pyd_scalbnf(x, n < -400 ? -400 : n > 400 ? 400 : (int)n); }

// x = y * 2^*out_exponent with 1/2 <= |y| < 1; returns y. Zero, infinity and NaN are returned as they are, with 0.
static double pyd_frexp(double x, int* out_exponent) {
  uint64_t bits = pyd_bits(x);
  int biased = (bits >> 52) & 2047, extra = 0;
  if (biased == 0 && x != 0.0) {
    bits = pyd_bits(x * 0x1p54);  // a subnormal number becomes a normal one
    biased = (bits >> 52) & 2047;
    extra = 54;
  }
  *out_exponent = biased == 2047 || x == 0.0 ? 0 : biased - 1022 - extra;
  return biased == 2047 || x == 0.0 ? x : pyd_double((bits & 0x800fffffffffffff) | 0x3fe0000000000000);
}
double frexp(double x, int* out_exponent) { return pyd_frexp(x, out_exponent); }
float frexpf(float x, int* out_exponent) { return (float)pyd_frexp((double)x, out_exponent); }

// floor(log2 |x|); the least int for 0 and NaN (FP_ILOGB0, FP_ILOGBNAN), the largest one for infinity.
static int pyd_ilogb(double x) {
  int exponent;
  if (x == 0.0) return -2147483647 - 1;
  if (!(__builtin_fabs(x) < PYD_INF)) return x != x ? -2147483647 - 1 : 2147483647;
  pyd_frexp(x, &exponent);
  return exponent - 1;
}
int ilogb(double x) { return pyd_ilogb(x); }
int ilogbf(float x) { return pyd_ilogb((double)x); }
static double pyd_logb(double x) {
  if (x == 0.0) return -PYD_INF;
  if (!(__builtin_fabs(x) < PYD_INF)) return x * x;
  return (double)pyd_ilogb(x);
}
double logb(double x) { return pyd_logb(x); }
float logbf(float x) { return (float)pyd_logb((double)x); }

// The bits of numbers of one sign are ordered as their magnitudes, so that neighbours differ by 1.
double nextafter(double x, double y) {
  uint64_t bits = pyd_bits(x);
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0.0) return __builtin_copysign(0x1p-1074, y);
  return pyd_double((x < y) == (x > 0.0) ? bits + 1 : bits - 1);
}
float nextafterf(float x, float y) {
  uint32_t bits = pyd_bitsf(x);
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0.0f) return __builtin_copysignf(0x1p-149f, y);
  return pyd_float((x < y) == (x > 0.0f) ? bits + 1 : bits - 1);
}

// A finite positive double as mantissa * 2^(exponent - 1075), 2^52 <= mantissa < 2^53; exponent < 1 if it is subnormal.
typedef struct { uint64_t mantissa; int exponent; } pyd_number_t;

static pyd_number_t pyd_unpack(uint64_t bits) {
  int exponent = (int)(bits >> 52);
  uint64_t mantissa = bits & PYD_MANTISSA;
  if (exponent) return (pyd_number_t){mantissa | PYD_LEADING_BIT, exponent};
  int shift = __builtin_clzll(mantissa) - 11;
  return (pyd_number_t){mantissa << shift, 1 - shift};
}
// mantissa * 2^(exponent - 1075), which must be a double; mantissa < 2^53.
static double pyd_pack(uint64_t mantissa, int exponent) {
  if (mantissa == 0) return 0.0;
  int shift = __builtin_clzll(mantissa) - 11;
  mantissa <<= shift;
  exponent -= shift;
  if (exponent < 1) return pyd_double(mantissa >> (1 - exponent));
  return pyd_double((mantissa & PYD_MANTISSA) | (uint64_t)exponent << 52);
}

// |x| mod |y| for finite x and y, y not 0; the low 32 bits of the quotient, rounded down, go to out_quotient.
static double pyd_modulo(double x, double y, uint32_t* out_quotient) {
  uint64_t a = pyd_bits(x) & ~(UINT64_C(1) << 63), b = pyd_bits(y) & ~(UINT64_C(1) << 63);
  *out_quotient = 0;
  if (a < b) return pyd_double(a);
  pyd_number_t p = pyd_unpack(a), q = pyd_unpack(b);
  int left = p.exponent - q.exponent;
  uint32_t quotient = (uint32_t)(p.mantissa / q.mantissa);
  uint64_t rest = p.mantissa % q.mantissa;
  while (left > 0 && rest) {  // eleven bits of the quotient at a time: a shifted rest of 53 bits fits 64
    int step = left < 11 ? left : 11;
    rest <<= step;
    left -= step;
    quotient = quotient << step | (uint32_t)(rest / q.mantissa);
    rest %= q.mantissa;
  }
  *out_quotient = left < 32 ? quotient << left : 0;
  return pyd_pack(rest, q.exponent);
}
// Whether x is infinite or NaN, or y is NaN or 0.
static int pyd_modulo_is_special(double x, double y) {
  return !(__builtin_fabs(x) < PYD_INF) || y != y || y == 0.0;
}

// A float function never calls its double namesake by name: compilers turn that into a call of the float function.
static double pyd_fmod(double x, double y) {
  uint32_t quotient;
  if (pyd_modulo_is_special(x, y)) return x != x || y != y ? x + y : PYD_NAN;
  if (__builtin_fabs(y) == PYD_INF) return x;
  return __builtin_copysign(pyd_modulo(x, y, &quotient), x);
}
double fmod(double x, double y) { return pyd_fmod(x, y); }
float fmodf(float x, float y) { return (float)pyd_fmod((double)x, (double)y); }

// x minus y times the quotient x / y rounded to nearest even, of which the low 31 bits, with its sign, go to
// out_quotient.
static double pyd_remainder(double x, double y, int* out_quotient) {
  uint32_t quotient;
  *out_quotient = 0;
  if (pyd_modulo_is_special(x, y)) return x != x || y != y ? x + y : PYD_NAN;
  if (__builtin_fabs(y) == PYD_INF) return x;
  // `other` is exact where it is used, that is, where rest is at least half of size (Sterbenz).
  double size = __builtin_fabs(y), rest = pyd_modulo(x, y, &quotient), other = size - rest;
  if (rest > other || (rest == other && (quotient & 1))) {
    rest = -other;
    quotient += 1;
  }
  int whole = (int)(quotient & 0x7fffffff);
  *out_quotient = (pyd_bits(x) ^ pyd_bits(y)) >> 63 ? -whole : whole;
  return pyd_bits(x) >> 63 ? -rest : rest;
}
double remainder(double x, double y) {
  int quotient;
  return pyd_remainder(x, y, &quotient);
}
float remainderf(float x, float y) {
  int quotient;
  return (float)pyd_remainder((double)x, (double)y, &quotient);
}
double remquo(double x, double y, int* quotient) { return pyd_remainder(x, y, quotient); }
float remquof(float x, float y, int* quotient) { return (float)pyd_remainder((double)x, (double)y, quotient); }

#if PYD_HAS_FMA
PYD_HOT double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
PYD_HOT float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
#else
// (-1)^sign bits 2^(exponent - 1075); bits < 2^127.
typedef struct { unsigned __int128 bits; int exponent, sign; } pyd_wide_t;

// x, which is finite and not 0, and the product of two such numbers; bits < 2^126.
static pyd_wide_t pyd_wide(double x) {
  pyd_number_t n = pyd_unpack(pyd_bits(__builtin_fabs(x)));
  return (pyd_wide_t){(unsigned __int128)n.mantissa << 73, n.exponent - 73, (int)(pyd_bits(x) >> 63)};
}
static pyd_wide_t pyd_wide_product(double x, double y) {
  pyd_number_t a = pyd_unpack(pyd_bits(__builtin_fabs(x))), b = pyd_unpack(pyd_bits(__builtin_fabs(y)));
  int sign = (int)((pyd_bits(x) ^ pyd_bits(y)) >> 63);
  return (pyd_wide_t){(unsigned __int128)a.mantissa * b.mantissa << 20, a.exponent + b.exponent - 1075 - 20, sign};
}
// bits >> distance, with the lowest bit set if a bit that is cut off is 1 (a sticky bit).
PYD_INLINE unsigned __int128 pyd_shift_sticky(unsigned __int128 bits, int distance) {
  if (distance > 127) return bits != 0;
  unsigned __int128 lost = bits & (((unsigned __int128)1 << distance) - 1);
  return bits >> distance | (lost != 0);
}
// a + b; bits that are shifted out of the number with the lower exponent set its lowest bit.
static pyd_wide_t pyd_add_wide(pyd_wide_t a, pyd_wide_t b) {
  int distance = a.exponent - b.exponent, exponent = distance < 0 ? b.exponent : a.exponent;
  pyd_wide_t* small = distance < 0 ? &a : &b;
  small->bits = pyd_shift_sticky(small->bits, distance < 0 ? -distance : distance);
  if (a.sign == b.sign) return (pyd_wide_t){a.bits + b.bits, exponent, a.sign};
  if (a.bits >= b.bits) return (pyd_wide_t){a.bits - b.bits, exponent, a.sign};
  return (pyd_wide_t){b.bits - a.bits, exponent, b.sign};
}
// The nearest double of a number that is not 0, ties to even.
static double pyd_round_wide(pyd_wide_t x) {
  uint64_t top = (uint64_t)(x.bits >> 64);
  int zeros = top ? __builtin_clzll(top) : 64 + __builtin_clzll((uint64_t)x.bits);
  unsigned __int128 p = x.bits << zeros;
  int exponent = x.exponent - zeros + 75;  // biased, were 53 bits taken from the top
  int drop = exponent < 1 ? 75 + (1 - exponent) : 75;
  uint64_t kept = drop > 127 ? 0 : (uint64_t)(p >> drop);
  if (drop <= 128) {
    unsigned __int128 half = (unsigned __int128)1 << (drop - 1), rest = drop == 128 ? p : p & ((half << 1) - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  // A carry out of the mantissa moves into the exponent, from subnormal to normal as well.
  uint64_t normal = exponent > 2046 ? 0x7ff0000000000000 : kept + ((uint64_t)(exponent - 1) << 52);
  return pyd_double((exponent < 1 ? kept : normal) | (uint64_t)x.sign << 63);
}
// The sum is formed in 128 bits and rounded once.
double fma(double x, double y, double z) {
  if (!(__builtin_fabs(x) < PYD_INF && __builtin_fabs(y) < PYD_INF) || x == 0.0 || y == 0.0) return x * y + z;
  if (!(__builtin_fabs(z) < PYD_INF)) return z + z;
  pyd_wide_t product = pyd_wide_product(x, y);
  if (z == 0.0) return pyd_round_wide(product);
  pyd_wide_t sum = pyd_add_wide(product, pyd_wide(z));
  return sum.bits == 0 ? 0.0 : pyd_round_wide(sum);
}
float fmaf(float x, float y, float z) {
  double product = (double)x * (double)y;  // exact
  pyd_dd_t s = pyd_two_sum(product, (double)z);
  // Round to odd: then rounding once more, to float, is as if from the exact sum.
  uint64_t bits = pyd_bits(s.hi);
  if (s.lo != 0.0 && __builtin_fabs(s.hi) < PYD_INF && !(bits & 1)) bits += (s.lo > 0.0) == (s.hi > 0.0) ? 1 : -1;
  return (float)pyd_double(bits);
}
#endif

PYD_HOT double cbrt(double x) {
  double size = __builtin_fabs(x);
  int small = size < 0x1p-1022;
  uint64_t bits = pyd_bits(small ? size * 0x1p54 : size);
  double z = pyd_double((bits & PYD_MANTISSA) | PYD_ONE_BITS);  // [1, 2)
  // The exponent is 3 third + rest; 54 is a multiple of 3.
  double exponent = pyd_double(PYD_SHIFT_BITS + (bits >> 52)) - PYD_SHIFT - 1023.0;
  double shifted = exponent * 0x1.5555555555555p-2 + PYD_SHIFT, rest = exponent - 3.0 * (shifted - PYD_SHIFT);
  // r near the inverse of the root, within 2^-14, then by the series of (1 - h)^(-1/3), h = 1 - z r^3, without
  // divisions.
  double r = PYD_RCBRT_P(z, z * z) * (rest == 0.0 ? 1.0 : rest > 0.0 ? 0.5 * PYD_CBRT4_1 : PYD_CBRT2_1);
  z *= rest == 0.0 ? 1.0 : rest > 0.0 ? 2.0 : 0.5;
  double h = PYD_FMA(-(z * r), r * r, 1.0);
  r = PYD_FMA(r * h, PYD_FMA(h, PYD_FMA(h, 0x1.61f9add3c0ca4p-3, 0x1.c71c71c71c71cp-3), 0x1.5555555555555p-2), r);
  // The root z r^2, and what is left of z beside its cube, to twice the precision.
  double square = r * r, y = z * square;
  pyd_dd_t of_y = pyd_two_prod(y, y), cube = pyd_two_prod(of_y.hi, y);
  y = PYD_FMA(((z - cube.hi) - cube.lo) - of_y.lo * y, square * 0x1.5555555555555p-2, y);
  y *= pyd_double((uint64_t)(pyd_shifted_int(shifted) + 1023 - (small ? 18 : 0)) << 52);
  y = __builtin_copysign(y, x);
  return (size > 0.0) & (size < PYD_INF) ? y : x + x;
}

PYD_HOT float cbrtf(float x) {
  double size = __builtin_fabs((double)x);
  uint64_t bits = pyd_bits(size);
  // A third of the upper 32 bits, exponent and mantissa, plus about two thirds of the bias: within 4 %. Then Halley's
  // rule, which triples the number of right bits: 2^-15, 2^-45.
  double y = pyd_double((uint64_t)((uint32_t)(bits >> 32) / 3 + 715094163) << 32);
  for (int i = 0; i < 2; ++i) {
    double cube = y * y * y;
    y -= y * ((cube - size) / (2.0 * cube + size));
  }
  return x == 0.0f || !(size < PYD_INF) ? x + x : __builtin_copysignf((float)y, x);
}

PYD_HOT double hypot(double x, double y) {
  double a = __builtin_fabs(x), b = __builtin_fabs(y), large = a > b ? a : b, small = a > b ? b : a;
  // Scaled so that squares neither overflow nor lose digits; a product with the power of two and its inverse is exact.
  double by = large > 0x1p500 ? 0x1p-600 : small < 0x1p-450 ? 0x1p600 : 1.0;
  double back = large > 0x1p500 ? 0x1p600 : small < 0x1p-450 ? 0x1p-600 : 1.0, h = large * by, l = small * by;
  pyd_dd_t p = pyd_two_prod(h, h), q = pyd_two_prod(l, l), s = pyd_fast_sum(p.hi, q.hi);
  double root = __builtin_sqrt(s.hi);
  pyd_dd_t r = pyd_two_prod(root, root);
  double value = (root + ((s.hi - r.hi) - r.lo + (s.lo + p.lo + q.lo)) / (2.0 * root)) * back;
  value = small <= large * 0x1p-54 ? large + small : value;  // where the square of `small` does not count
  value = (x != x) | (y != y) ? PYD_NAN : value;
  return (a == PYD_INF) | (b == PYD_INF) ? PYD_INF : value;
}
// Squares of floats are exact in double and do not overflow there.
PYD_HOT float hypotf(float x, float y) {
  double a = (double)x, b = (double)y;
  double h = __builtin_sqrt(a * a + b * b);
  return __builtin_fabs(a) == PYD_INF || __builtin_fabs(b) == PYD_INF ? __builtin_inff() : (float)h;
}
