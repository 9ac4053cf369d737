// What every source of the device library shares: types, bit views, error-free sums and products.
//
// The library is freestanding (no libc, no errno, no floating-point environment: round to nearest is assumed and status
// flags are not promised), position independent, without writable data, and safe to call from any thread. Sums and
// products never fuse by themselves (-ffp-contract=off); PYD_FMA fuses where the target has the instruction. So all
// targets with fused multiply-add give one set of bits, and all without give another.
#ifndef PYD_DEVLIB_H_
#define PYD_DEVLIB_H_

#include <stddef.h>
#include <stdint.h>

#include "coefficients.h"

#if defined(__FMA__) || defined(__aarch64__) || defined(__riscv) || defined(__NVPTX__)
#define PYD_HAS_FMA 1
#define PYD_FMAF(a, b, c) __builtin_fmaf((a), (b), (c))
#define PYD_FMA(a, b, c) __builtin_fma((a), (b), (c))
#else
#define PYD_HAS_FMA 0
#define PYD_FMAF(a, b, c) ((a) * (b) + (c))
#define PYD_FMA(a, b, c) ((a) * (b) + (c))
#endif

// Small enough, and free of branches, to become part of the caller's loop and be vectorised there.
#define PYD_HOT __attribute__((always_inline))
#define PYD_INLINE static inline __attribute__((always_inline, unused))

#define PYD_INF __builtin_inf()
#define PYD_NAN __builtin_nan("")
#define PYD_SHIFT 0x1.8p52  // adding it rounds to an integer, which is then in the low bits
#define PYD_SHIFT_BITS 0x4338000000000000

// Bits of a double.
#define PYD_MANTISSA 0x000fffffffffffff
#define PYD_LEADING_BIT 0x0010000000000000  // of the mantissa of a normal number, which is not stored
#define PYD_SIGN_AND_EXPONENT 0xfff0000000000000
#define PYD_ONE_BITS 0x3ff0000000000000
#define PYD_SQRT_HALF_BITS 0x3fe6a09e667f3bcd

PYD_INLINE uint64_t pyd_bits(double x) {
  union { double f; uint64_t u; } v = {x};
  return v.u;
}
PYD_INLINE double pyd_double(uint64_t u) {
  union { uint64_t u; double f; } v = {u};
  return v.f;
}
PYD_INLINE uint32_t pyd_bitsf(float x) {
  union { float f; uint32_t u; } v = {x};
  return v.u;
}
PYD_INLINE float pyd_float(uint32_t u) {
  union { uint32_t u; float f; } v = {u};
  return v.f;
}

// The integer k, given k + PYD_SHIFT, whose bits are those of PYD_SHIFT plus k; any value for NaN.
PYD_INLINE int64_t pyd_shifted_int(double shifted) { return (int64_t)(pyd_bits(shifted) - PYD_SHIFT_BITS); }

// 2^k for -1023 < k < 1024.
PYD_INLINE double pyd_power2(int64_t k) { return pyd_double((uint64_t)(k + 1023) << 52); }

// Logarithms reduce x to m = x 2^-k in [c, 2c) for a constant c: for the bits of x less those of c, which are `offset`,
// k is in the exponent bits, `offset & PYD_SIGN_AND_EXPONENT`, and the bits of m are those of x less these.

// k as a double, without a 64-bit conversion, which SSE2 and AVX2 lack.
PYD_INLINE double pyd_exponent_of_offset(uint64_t offset) {
  return pyd_double(PYD_SHIFT_BITS + (uint64_t)((int64_t)offset >> 52)) - PYD_SHIFT;
}

// A number as an unevaluated sum; |lo| is at most half a unit in the last place of |hi|.
typedef struct { double hi, lo; } pyd_dd_t;

// The exact sum.
PYD_INLINE pyd_dd_t pyd_two_sum(double a, double b) {
  double s = a + b, t = s - a;
  return (pyd_dd_t){s, (a - (s - t)) + (b - t)};
}
// The exact sum, in fewer operations; requires |a| >= |b| or a == 0.
PYD_INLINE pyd_dd_t pyd_fast_sum(double a, double b) {
  double s = a + b;
  return (pyd_dd_t){s, b - (s - a)};
}
// The exact product; without fused multiply-add, factors must stay below 2^996.
PYD_INLINE pyd_dd_t pyd_two_prod(double a, double b) {
  double p = a * b;
#if PYD_HAS_FMA
  return (pyd_dd_t){p, __builtin_fma(a, b, -p)};
#else
  double ta = a * 0x1.0000002p27, tb = b * 0x1.0000002p27;
  double ah = ta - (ta - a), bh = tb - (tb - b), al = a - ah, bl = b - bh;
  return (pyd_dd_t){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}
// x * 2^k for -2044 <= k <= 2046, so that both powers of two are normal. It is rounded once where x * 2^(k >> 1) is
// normal: callers clamp their arguments, so that |k| < 1200 and |x|, if it is not 0, is between 2^-501 and 2^61.
PYD_INLINE double pyd_scale(double x, int64_t k) {
  int64_t first = k >> 1;
  return x * pyd_power2(first) * pyd_power2(k - first);
}

#endif  // PYD_DEVLIB_H_
