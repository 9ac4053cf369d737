// Features of the host CPU. Functions query the machine at each call, keep no state and may be called from any thread.
#ifndef PYDISPATCH_CPU_H_
#define PYDISPATCH_CPU_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PYD_CPU_WORDS 8

// The processor data that kernels receive: 8 words of feature bits whose meaning per architecture never changes; 0 is
// "no" or "unknown". Word 0 holds the bits of x86-64, AArch64 or RISC-V, the others are 0. A bit is set only when both
// the CPU has the feature and the operating system saves its registers.
void pyd_cpu_query(uint64_t out_words[PYD_CPU_WORDS]);

// The features of this architecture that are known here, by LLVM's names: more than word 0 has, including all of the
// x86-64-v2, v3 and v4 levels. |index| starts at 0; NULL past the last. The text is constant.
const char* pyd_cpu_feature_name(size_t index);

// Bit i of the result (word i / 64): the host has feature i. |words| is the number of words to write; further features
// are omitted, further words are zero.
void pyd_cpu_features(uint64_t* out_bits, size_t words);
#define PYD_CPU_FEATURE_WORDS 2

// The bit of word 0 of the feature called |name|, -1 when it has none on this architecture.
int pyd_cpu_feature_bit(const char* name);

// Bytes of the first CPU's level 1 data and level 2 cache; 0 when the system does not report it.
void pyd_cpu_cache_sizes(uint64_t* out_l1_data, uint64_t* out_l2);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_CPU_H_
