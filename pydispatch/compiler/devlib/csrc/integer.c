// 128-bit arithmetic, checked multiplication and bit counts, under the names that compilers call.
#include <stdint.h>

typedef __int128 ti_t;
typedef unsigned __int128 tu_t;

#define PYD_LOW(x) ((uint64_t)(x))
#define PYD_HIGH(x) ((uint64_t)((tu_t)(x) >> 64))
#define PYD_JOIN(high, low) ((tu_t)(high) << 64 | (low))

ti_t __multi3(ti_t a, ti_t b) {
  // Out of 32-bit halves: the compiler may expand a 64 x 64 product to a call of this very function.
  uint64_t x = PYD_LOW(a), y = PYD_LOW(b), mask = 0xffffffff;
  uint64_t ll = (x & mask) * (y & mask), lh = (x & mask) * (y >> 32), hl = (x >> 32) * (y & mask);
  uint64_t hh = (x >> 32) * (y >> 32), middle = (ll >> 32) + (lh & mask) + hl;
  uint64_t low = (middle << 32) | (ll & mask), high = hh + (lh >> 32) + (middle >> 32);
  return (ti_t)PYD_JOIN(high + x * PYD_HIGH(b) + PYD_HIGH(a) * y, low);
}
ti_t __ashlti3(ti_t a, int n) {
  if (n & 64) return (ti_t)PYD_JOIN(PYD_LOW(a) << (n & 63), 0);
  return n ? (ti_t)PYD_JOIN(PYD_HIGH(a) << n | PYD_LOW(a) >> (64 - n), PYD_LOW(a) << n) : a;
}
ti_t __lshrti3(ti_t a, int n) {
  if (n & 64) return (ti_t)PYD_JOIN(0, PYD_HIGH(a) >> (n & 63));
  return n ? (ti_t)PYD_JOIN(PYD_HIGH(a) >> n, PYD_HIGH(a) << (64 - n) | PYD_LOW(a) >> n) : a;
}
ti_t __ashrti3(ti_t a, int n) {
  int64_t high = (int64_t)PYD_HIGH(a);
  if (n & 64) return (ti_t)PYD_JOIN((uint64_t)(high >> 63), (uint64_t)(high >> (n & 63)));
  return n ? (ti_t)PYD_JOIN((uint64_t)(high >> n), PYD_HIGH(a) << (64 - n) | PYD_LOW(a) >> n) : a;
}

#if !defined(__x86_64__)
// The quotient of rest * 2^32 + next by divisor, which is below 2^32: rest < divisor, divisor >= 2^63 and next < 2^32.
// The remainder goes to rest.
static inline __attribute__((always_inline)) uint64_t pyd_quotient_digit(
    uint64_t* rest, uint64_t next, uint64_t divisor) {
  uint64_t top = divisor >> 32, bottom = divisor & 0xffffffff, guess = *rest / top, left = *rest % top;
  while (guess >> 32 || guess * bottom > (left << 32 | next)) {  // at most twice
    --guess;
    left += top;
    if (left >> 32) break;
  }
  *rest = (*rest << 32 | next) - guess * divisor;
  return guess;
}
#endif
// The quotient of high * 2^64 + low by divisor, high < divisor, so that it fits 64 bits; without an instruction, by two
// steps of 32 bits. The remainder goes to out_rest.
static uint64_t pyd_divide_step(uint64_t high, uint64_t low, uint64_t divisor, uint64_t* out_rest) {
#if defined(__x86_64__)
  uint64_t quotient;
  __asm__("divq %4" : "=a"(quotient), "=d"(*out_rest) : "a"(low), "d"(high), "r"(divisor) : "cc");
  return quotient;
#else
  int shift = __builtin_clzll(divisor);
  divisor <<= shift;
  tu_t value = PYD_JOIN(high, low) << shift;
  uint64_t rest = PYD_HIGH(value);
  uint64_t upper = pyd_quotient_digit(&rest, PYD_LOW(value) >> 32, divisor);
  uint64_t lower = pyd_quotient_digit(&rest, PYD_LOW(value) & 0xffffffff, divisor);
  *out_rest = rest >> shift;
  return upper << 32 | lower;
#endif
}

// Division by zero gives zero and the dividend: the hardware of two of the three targets does not trap either.
tu_t __udivmodti4(tu_t a, tu_t b, tu_t* out_rest) {
  tu_t quotient = 0, rest = a;
  if (PYD_HIGH(b) == 0 && PYD_LOW(b) != 0) {
    uint64_t divisor = PYD_LOW(b), left, high = PYD_HIGH(a) / divisor;
    uint64_t low = divisor > PYD_HIGH(a) ? PYD_HIGH(a) : PYD_HIGH(a) % divisor;
    quotient = PYD_JOIN(high, pyd_divide_step(low, PYD_LOW(a), divisor, &left));
    rest = left;
  } else if (b != 0 && a >= b) {
    // The quotient has at most 64 bits: guess it from the leading 64 bits of the divisor, one too large at most.
    int shift = __builtin_clzll(PYD_HIGH(b));
    uint64_t left, lead = PYD_HIGH(b << shift);
    tu_t half = a >> 1;
    uint64_t guess = pyd_divide_step(PYD_HIGH(half), PYD_LOW(half), lead, &left);
    guess = shift == 63 ? guess : guess >> (63 - shift);
    if (guess) --guess;
    rest = a - b * guess;
    while (rest >= b) rest -= b, ++guess;
    quotient = guess;
  }
  if (out_rest) *out_rest = rest;
  return quotient;
}
tu_t __udivti3(tu_t a, tu_t b) { return __udivmodti4(a, b, 0); }
tu_t __umodti3(tu_t a, tu_t b) {
  tu_t rest;
  __udivmodti4(a, b, &rest);
  return rest;
}
// |a|, also of the least number.
static tu_t pyd_size(ti_t a) { return a < 0 ? -(tu_t)a : (tu_t)a; }
ti_t __divti3(ti_t a, ti_t b) {
  tu_t quotient = __udivmodti4(pyd_size(a), pyd_size(b), 0);
  return (ti_t)((a < 0) != (b < 0) ? -quotient : quotient);
}
ti_t __modti3(ti_t a, ti_t b) {
  tu_t rest;
  __udivmodti4(pyd_size(a), pyd_size(b), &rest);
  return (ti_t)(a < 0 ? -rest : rest);
}
ti_t __divmodti4(ti_t a, ti_t b, ti_t* out_rest) {
  tu_t rest, quotient = __udivmodti4(pyd_size(a), pyd_size(b), &rest);
  *out_rest = (ti_t)(a < 0 ? -rest : rest);
  return (ti_t)((a < 0) != (b < 0) ? -quotient : quotient);
}

int64_t __mulodi4(int64_t a, int64_t b, int* out_overflow) {
  ti_t product = (ti_t)a * b;
  *out_overflow = product != (int64_t)product;
  return (int64_t)product;
}
ti_t __muloti4(ti_t a, ti_t b, int* out_overflow) {
  tu_t x = pyd_size(a), y = pyd_size(b), limit = ((tu_t)1 << 127) - ((a < 0) == (b < 0));
  *out_overflow = x != 0 && y > __udivmodti4(limit, x, 0);
  return __multi3(a, b);
}

// Hides from the compiler how |x| was computed. Otherwise it recognizes that a loop or a formula counts bits, and
// replaces it by a call of the library function that it implements: an endless recursion.
#define PYD_OPTIMIZER_HIDE(x) __asm__("" : "+r"(x))
// Adds the bits of pairs, then of groups of four, of eight, and at last of the eight bytes.
int __popcountdi2(int64_t a) {
  uint64_t x = (uint64_t)a;
  x -= (x >> 1) & 0x5555555555555555;
  PYD_OPTIMIZER_HIDE(x);  // else the compiler calls __popcountdi2 for this formula
  x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
  PYD_OPTIMIZER_HIDE(x);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return (int)((x * 0x0101010101010101) >> 56);
}
int __popcountsi2(int32_t a) { return __popcountdi2((int64_t)(uint32_t)a); }
int __popcountti2(ti_t a) { return __popcountdi2((int64_t)PYD_LOW(a)) + __popcountdi2((int64_t)PYD_HIGH(a)); }
int __paritydi2(int64_t a) { return __popcountdi2(a) & 1; }
int __paritysi2(int32_t a) { return __popcountsi2(a) & 1; }
// Number of leading zeros; 63 for 0.
static int pyd_leading(uint64_t x) {
  int n = 0;
  for (int step = 32; step; step >>= 1) {
    if (!(x >> (64 - step))) n += step, x <<= step;
    PYD_OPTIMIZER_HIDE(x);  // else the compiler may call __clzdi2 for this loop
  }
  return n;
}
int __clzdi2(int64_t a) { return pyd_leading((uint64_t)a); }
int __clzsi2(int32_t a) { return pyd_leading((uint64_t)(uint32_t)a) - 32; }
int __clzti2(ti_t a) { return PYD_HIGH(a) ? pyd_leading(PYD_HIGH(a)) : 64 + pyd_leading(PYD_LOW(a)); }
static int pyd_trailing(uint64_t x) { return 63 - pyd_leading(x & -x); }
int __ctzdi2(int64_t a) { return pyd_trailing((uint64_t)a); }
int __ctzsi2(int32_t a) { return pyd_trailing((uint64_t)(uint32_t)a); }
int __ctzti2(ti_t a) { return PYD_LOW(a) ? pyd_trailing(PYD_LOW(a)) : 64 + pyd_trailing(PYD_HIGH(a)); }
int __ffsdi2(int64_t a) { return a ? pyd_trailing((uint64_t)a) + 1 : 0; }
int __ffssi2(int32_t a) { return a ? pyd_trailing((uint64_t)(uint32_t)a) + 1 : 0; }
uint32_t __bswapsi2(uint32_t a) { return __builtin_bswap32(a); }
uint64_t __bswapdi2(uint64_t a) { return __builtin_bswap64(a); }
