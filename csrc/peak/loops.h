// Loops over f32 for each width of vectors: multiply-adds in registers, and a triad over arrays. The multiply-adds
// update independent sums, as many as hide the latency of an operation. Their total is returned, so that the compiler
// does not remove them.
#ifndef PYD_PEAK_LOOPS_H_
#define PYD_PEAK_LOOPS_H_

#include <stdint.h>

#include "pydispatch/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// The loops for one width of vectors. |multiply_add|: runs multiply-adds in registers, and returns their total.
// |triad|: a[i] = b[i] + c[i] / 2 for |count| elements. |operations|: floating-point operations of one repeat of
// |multiply_add|, two per multiply-add and lane.
typedef struct pyd_loops_s {
  float (*multiply_add)(uint64_t repeats);
  void (*triad)(float* restrict a, const float* restrict b, const float* restrict c, uint64_t count);
  uint32_t operations;
} pyd_loops_t;

// Defines the pyd_loops_t |NAME| with |SUMS| sums of type |VECTOR|, which has |LANES| elements. |ATTRIBUTE|: selects
// the instruction set. |SET|(x): a vector of x. |FMA|(a, b, c): a * b + c. |FIRST|(v): the first element. Sums tend to
// 1 and thus never become denormal or infinite.
#define PYD_LOOPS(NAME, ATTRIBUTE, VECTOR, LANES, SUMS, SET, FMA, FIRST)                                  \
  ATTRIBUTE static void NAME##_triad(float* restrict a, const float* restrict b, const float* restrict c, \
                                     uint64_t count) {                                                    \
    for (uint64_t i = 0; i < count; ++i) a[i] = b[i] + 0.5f * c[i];                                       \
  }                                                                                                       \
  ATTRIBUTE static float NAME##_sums(uint64_t repeats) {                                                  \
    VECTOR sums[SUMS];                                                                                    \
    const VECTOR factor = SET(0.999f), summand = SET(0.001f);                                             \
    for (int i = 0; i < (SUMS); ++i) sums[i] = SET((float)i);                                             \
    for (uint64_t r = 0; r < repeats; ++r) {                                                              \
      _Pragma("GCC unroll 32") for (int i = 0; i < (SUMS); ++i) sums[i] = FMA(sums[i], factor, summand);  \
    }                                                                                                     \
    float total = 0;                                                                                      \
    for (int i = 0; i < (SUMS); ++i) total += FIRST(sums[i]);                                             \
    return total;                                                                                         \
  }                                                                                                       \
  static const pyd_loops_t NAME = {NAME##_sums, NAME##_triad, 2 * (LANES) * (SUMS)};

#if defined(__x86_64__)

#define PYD_SSE_MULTIPLY_ADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
PYD_LOOPS(pyd_loops_512, __attribute__((target("avx512f"))), __m512, 16, 24, _mm512_set1_ps, _mm512_fmadd_ps,
          _mm512_cvtss_f32)
PYD_LOOPS(pyd_loops_256, __attribute__((target("avx2,fma"))), __m256, 8, 12, _mm256_set1_ps, _mm256_fmadd_ps,
          _mm256_cvtss_f32)
PYD_LOOPS(pyd_loops_128, , __m128, 4, 12, _mm_set1_ps, PYD_SSE_MULTIPLY_ADD, _mm_cvtss_f32)

// Returns whether the CPU has the feature that LLVM calls |name|, and the system saves its registers. False for a
// feature without a bit in word 0 of pyd_cpu_query().
static inline bool pyd_has_feature(const char* name) {
  uint64_t words[PYD_CPU_WORDS];
  int bit = pyd_cpu_feature_bit(name);
  pyd_cpu_query(words);
  return bit >= 0 && words[0] >> bit & 1;
}

// Returns the loops with the widest vectors that this CPU has.
static inline const pyd_loops_t* pyd_loops(void) {
  if (pyd_has_feature("avx512f")) return &pyd_loops_512;
  return pyd_has_feature("avx2") && pyd_has_feature("fma") ? &pyd_loops_256 : &pyd_loops_128;
}

#else

#define PYD_SAME(x) (x)
#if defined(__aarch64__)
#define PYD_NEON_MULTIPLY_ADD(a, b, c) vfmaq_f32(c, a, b)
#define PYD_NEON_FIRST(x) vgetq_lane_f32(x, 0)
PYD_LOOPS(pyd_loops_here, , float32x4_t, 4, 24, vdupq_n_f32, PYD_NEON_MULTIPLY_ADD, PYD_NEON_FIRST)
#elif defined(__FP_FAST_FMAF)
PYD_LOOPS(pyd_loops_here, , float, 1, 16, PYD_SAME, __builtin_fmaf, PYD_SAME)
#else
#define PYD_PLAIN_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
PYD_LOOPS(pyd_loops_here, , float, 1, 16, PYD_SAME, PYD_PLAIN_MULTIPLY_ADD, PYD_SAME)
#endif

static inline const pyd_loops_t* pyd_loops(void) { return &pyd_loops_here; }

#endif

#endif  // PYD_PEAK_LOOPS_H_
