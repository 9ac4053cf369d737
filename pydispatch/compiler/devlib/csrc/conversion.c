// Conversions that compilers call: half and bfloat16 to and from float and double, 128-bit integers to and from
// floating point; and integer powers. A half is passed as _Float16, in a floating-point register, on all targets.
#include "devlib.h"

typedef __int128 ti_t;
typedef unsigned __int128 tu_t;

// The bits of x rounded to nearest, ties to even, in a format with `mantissa` stored bits and `exponent` bits: 10 and 5
// for half, 7 and 8 for bfloat16. A float is passed as the double of the same value.
PYD_INLINE uint32_t pyd_narrow(double x, int mantissa, int exponent) {
  uint64_t bits = pyd_bits(x), size = bits & ~(UINT64_C(1) << 63);
  uint32_t sign = (uint32_t)(bits >> 63) << (mantissa + exponent);
  uint32_t infinity = ((1u << exponent) - 1) << mantissa;
  int bias = (1 << (exponent - 1)) - 1, drop = 52 - mantissa;
  if (size > 0x7ff0000000000000) {  // a quiet NaN with the payload's leading bits
    return sign | infinity | 1u << (mantissa - 1) | ((uint32_t)(size >> drop) & ((1u << mantissa) - 1));
  }
  int e = (int)(size >> 52) - 1023 + bias;  // biased as in the narrow format; below 1 for its subnormal numbers
  if (e >= (1 << exponent) - 1) return sign | infinity;
  uint64_t m = (size & PYD_MANTISSA) | PYD_LEADING_BIT;
  if (e < 1) {
    if (e < -mantissa) return sign;  // below half of the smallest
    drop += 1 - e;
    e = 1;
  }
  uint64_t kept = m >> drop, rest = m & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
  kept += rest > half || (rest == half && (kept & 1));
  // `kept` has the leading bit of the mantissa, which adds 1 to e - 1; so does a carry that rounding caused.
  return sign | (uint32_t)(kept + ((uint64_t)(e - 1) << mantissa));
}
// The value of a half of which `h` has the bits; a signalling NaN becomes quiet.
PYD_INLINE double pyd_widen(uint32_t h) {
  uint32_t size = h & 0x7fff;
  double y = (double)(int32_t)(size & 0x3ff) * 0x1p-24;  // subnormal
  if (size >= 0x400) y = pyd_double(((uint64_t)size << 42) + ((uint64_t)(1023 - 15) << 52));
  if (size >= 0x7c00) {
    y = pyd_double(0x7ff0000000000000 | (uint64_t)(size & 0x3ff) << 42 | (size > 0x7c00 ? UINT64_C(1) << 51 : 0));
  }
  return pyd_double(pyd_bits(y) | (uint64_t)(h & 0x8000) << 48);
}

typedef union { uint16_t u; _Float16 f; } pyd_half_t;
PYD_INLINE _Float16 pyd_to_half(uint32_t u) {
  pyd_half_t v = {(uint16_t)u};
  return v.f;
}
PYD_INLINE uint32_t pyd_of_half(_Float16 f) {
  pyd_half_t v;
  v.f = f;
  return v.u;
}
// A signalling NaN must not pass through arithmetic of the target's own, hence bits in, bits out for float to double.
PYD_INLINE double pyd_exact(float x) { return (double)x; }

_Float16 __truncsfhf2(float x) { return pyd_to_half(pyd_narrow(pyd_exact(x), 10, 5)); }
_Float16 __truncdfhf2(double x) { return pyd_to_half(pyd_narrow(x, 10, 5)); }
float __extendhfsf2(_Float16 x) { return (float)pyd_widen(pyd_of_half(x)); }
double __extendhfdf2(_Float16 x) { return pyd_widen(pyd_of_half(x)); }
uint16_t __gnu_f2h_ieee(float x) { return (uint16_t)pyd_narrow(pyd_exact(x), 10, 5); }
float __gnu_h2f_ieee(uint16_t x) { return (float)pyd_widen(x); }

typedef union { uint16_t u; __bf16 f; } pyd_bfloat_t;
__bf16 __truncsfbf2(float x) {
  pyd_bfloat_t v = {(uint16_t)pyd_narrow(pyd_exact(x), 7, 8)};
  return v.f;
}
__bf16 __truncdfbf2(double x) {
  pyd_bfloat_t v = {(uint16_t)pyd_narrow(x, 7, 8)};
  return v.f;
}
float __extendbfsf2(__bf16 x) {
  pyd_bfloat_t v;
  v.f = x;
  return pyd_float((uint32_t)v.u << 16);
}

// Toward zero; out of range gives the nearest bound, NaN zero.
tu_t __fixunsdfti(double x) {
  uint64_t bits = pyd_bits(x);
  int e = (int)(bits >> 52) - 1075;  // of the mantissa's lowest bit; with the sign bit set, huge
  tu_t m = (bits & PYD_MANTISSA) | PYD_LEADING_BIT;
  if (!(x >= 1.0)) return 0;
  if (e > 75) return ~(tu_t)0;
  return e < 0 ? m >> -e : m << e;
}
tu_t __fixunssfti(float x) { return __fixunsdfti((double)x); }
ti_t __fixdfti(double x) {
  tu_t size = __fixunsdfti(__builtin_fabs(x));  // from 2^127 on, the bound of x's sign
  if (size >> 127) return (ti_t)(((tu_t)1 << 127) - (x > 0.0));
  return x < 0.0 ? -(ti_t)size : (ti_t)size;
}
ti_t __fixsfti(float x) { return __fixdfti((double)x); }

// `a` cut to at most 62 bits: a >> *out_shift, with the lowest bit set if a bit that was cut off is 1 (a sticky bit),
// so that it rounds to a float or double as `a` does.
PYD_INLINE uint64_t pyd_squeeze(tu_t a, int* out_shift) {
  uint64_t high = (uint64_t)(a >> 64);
  int length = high ? 128 - __builtin_clzll(high) : (uint64_t)a ? 64 - __builtin_clzll((uint64_t)a) : 0;
  int shift = length > 62 ? length - 62 : 0;
  *out_shift = shift;
  return (uint64_t)(a >> shift) | ((a & (((tu_t)1 << shift) - 1)) != 0);
}
double __floatuntidf(tu_t a) {
  int shift;
  uint64_t top = pyd_squeeze(a, &shift);
  return (double)(int64_t)top * pyd_double((uint64_t)(shift + 1023) << 52);
}
float __floatuntisf(tu_t a) {
  int shift;
  uint64_t top = pyd_squeeze(a, &shift);
  return (float)(int64_t)top * pyd_float((uint32_t)(shift + 127) << 23);
}
double __floattidf(ti_t a) { return a < 0 ? -__floatuntidf(-(tu_t)a) : __floatuntidf((tu_t)a); }
float __floattisf(ti_t a) { return a < 0 ? -__floatuntisf(-(tu_t)a) : __floatuntisf((tu_t)a); }

#define PYD_POWI(type, name)                                     \
  type name(type x, int n) {                                     \
    unsigned left = n < 0 ? -(unsigned)n : (unsigned)n;          \
    type y = 1;                                                  \
    for (; left; left >>= 1, x *= x) {                           \
      if (left & 1) y *= x;                                      \
    }                                                            \
    return n < 0 ? 1 / y : y;                                    \
  }
PYD_POWI(double, __powidf2)
PYD_POWI(float, __powisf2)
