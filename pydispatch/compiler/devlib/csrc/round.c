// Rounding to integers, and the functions that only move or compare bits, in float and double.
//
// Where the target rounds in one instruction the compiler uses it; on plain SSE2 and on RISC-V without Zfa the sums
// with 2^52 (2^23) do, which leave a select and no branch.
#include "devlib.h"

#if defined(__SSE4_1__) || defined(__aarch64__) || defined(__riscv_zfa)
#define PYD_HAS_ROUND 1
#else
#define PYD_HAS_ROUND 0
#endif

#define PYD_ABS_double __builtin_fabs
#define PYD_ABS_float __builtin_fabsf
#define PYD_COPYSIGN_double __builtin_copysign
#define PYD_COPYSIGN_float __builtin_copysignf

// `limit` is 2^52 for double and 2^23 for float: from there on every number is an integer, and below, adding it rounds
// to an integer. NaN is not below `limit`, and is returned.
#define PYD_DEFINE_ROUND(type, suffix, limit)                                                       \
  PYD_INLINE type pyd_nearest_##type(type x) {                                                      \
    type size = PYD_ABS_##type(x), r = (size + limit) - limit;                                      \
    return PYD_COPYSIGN_##type(size < limit ? r : size, x);                                         \
  }                                                                                                 \
  PYD_INLINE type pyd_floor_##type(type x) {                                                        \
    type r = pyd_nearest_##type(x);                                                                 \
    return PYD_COPYSIGN_##type(r > x ? r - (type)1 : r, x);                                         \
  }                                                                                                 \
  PYD_INLINE type pyd_ceil_##type(type x) { return -pyd_floor_##type(-x); }                         \
  PYD_INLINE type pyd_trunc_##type(type x) {                                                        \
    return PYD_COPYSIGN_##type(pyd_floor_##type(PYD_ABS_##type(x)), x);                             \
  }                                                                                                 \
  PYD_INLINE type pyd_round_##type(type x) {                                                        \
    type size = PYD_ABS_##type(x), r = pyd_floor_##type(size);                                      \
    return PYD_COPYSIGN_##type(size - r >= (type)0.5 ? r + (type)1 : r, x);                         \
  }
PYD_DEFINE_ROUND(double, , 0x1p52)
PYD_DEFINE_ROUND(float, f, 0x1p23f)

// own: name of the function above for targets without an instruction.
#if PYD_HAS_ROUND
#define PYD_ROUND_BODY(name, type, suffix, own) \
  PYD_HOT type name##suffix(type x) { return __builtin_##name##suffix(x); }
#else
#define PYD_ROUND_BODY(name, type, suffix, own) \
  PYD_HOT type name##suffix(type x) { return pyd_##own##_##type(x); }
#endif
#define PYD_ROUND_PAIR(name, own) \
  PYD_ROUND_BODY(name, double, , own) PYD_ROUND_BODY(name, float, f, own)
PYD_ROUND_PAIR(floor, floor)
PYD_ROUND_PAIR(ceil, ceil)
PYD_ROUND_PAIR(trunc, trunc)
PYD_ROUND_PAIR(rint, nearest)
PYD_ROUND_PAIR(nearbyint, nearest)
PYD_ROUND_PAIR(roundeven, nearest)
// x86 has no instruction for ties away from zero.
PYD_HOT double round(double x) { return pyd_round_double(x); }
PYD_HOT float roundf(float x) { return pyd_round_float(x); }

PYD_HOT long lrint(double x) { return (long)pyd_nearest_double(x); }
PYD_HOT long lrintf(float x) { return (long)pyd_nearest_float(x); }
PYD_HOT long lround(double x) { return (long)pyd_round_double(x); }
PYD_HOT long lroundf(float x) { return (long)pyd_round_float(x); }
PYD_HOT long long llrint(double x) { return (long long)pyd_nearest_double(x); }
PYD_HOT long long llrintf(float x) { return (long long)pyd_nearest_float(x); }
PYD_HOT long long llround(double x) { return (long long)pyd_round_double(x); }
PYD_HOT long long llroundf(float x) { return (long long)pyd_round_float(x); }

PYD_HOT double fabs(double x) { return __builtin_fabs(x); }
PYD_HOT float fabsf(float x) { return __builtin_fabsf(x); }
PYD_HOT double copysign(double x, double y) { return __builtin_copysign(x, y); }
PYD_HOT float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
PYD_HOT double sqrt(double x) { return __builtin_sqrt(x); }
PYD_HOT float sqrtf(float x) { return __builtin_sqrtf(x); }
// A NaN gives the other argument; of zeros of either sign, the smaller (larger) by sign.
#define PYD_DEFINE_MINMAX(type, suffix, bits, shift)                                                \
  PYD_HOT type fmin##suffix(type x, type y) {                                                       \
    type least = x < y || (x == y && bits(x) >> shift) ? x : y;                                     \
    return x != x ? y : y != y ? x : least;                                                         \
  }                                                                                                 \
  PYD_HOT type fmax##suffix(type x, type y) {                                                       \
    type most = x > y || (x == y && !(bits(x) >> shift)) ? x : y;                                   \
    return x != x ? y : y != y ? x : most;                                                          \
  }                                                                                                 \
  PYD_HOT type fdim##suffix(type x, type y) { return x != x || y != y ? x + y : x > y ? x - y : 0; }
PYD_DEFINE_MINMAX(double, , pyd_bits, 63)
PYD_DEFINE_MINMAX(float, f, pyd_bitsf, 31)

PYD_HOT int __isnan(double x) { return x != x; }
PYD_HOT int __isnanf(float x) { return x != x; }
PYD_HOT int __isinf(double x) { return __builtin_fabs(x) == PYD_INF; }
PYD_HOT int __isinff(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
PYD_HOT int __finite(double x) { return __builtin_fabs(x) < PYD_INF; }
PYD_HOT int __finitef(float x) { return __builtin_fabsf(x) < __builtin_inff(); }

// NaN, infinity, zero, subnormal and other numbers are 0 to 4, as FP_NAN and its like.
static int pyd_class(int exponent, int highest, int is_zero, int is_infinite) {
  if (exponent == highest) return is_infinite;
  return exponent ? 4 : is_zero ? 2 : 3;
}
int __fpclassify(double x) {
  return pyd_class((int)(pyd_bits(x) >> 52) & 2047, 2047, x == 0.0, __builtin_fabs(x) == PYD_INF);
}
int __fpclassifyf(float x) {
  return pyd_class((int)(pyd_bitsf(x) >> 23) & 255, 255, x == 0.0f, __builtin_fabsf(x) == __builtin_inff());
}
double nan(const char* text) { return (void)text, PYD_NAN; }
float nanf(const char* text) { return (void)text, __builtin_nanf(""); }

double modf(double x, double* out_whole) {
  double whole = PYD_HAS_ROUND ? __builtin_trunc(x) : pyd_trunc_double(x);
  *out_whole = whole;
  return __builtin_copysign(__builtin_fabs(x) == PYD_INF ? 0.0 : x - whole, x);
}
float modff(float x, float* out_whole) {
  float whole = PYD_HAS_ROUND ? __builtin_truncf(x) : pyd_trunc_float(x);
  *out_whole = whole;
  return __builtin_copysignf(__builtin_fabsf(x) == __builtin_inff() ? 0.0f : x - whole, x);
}
