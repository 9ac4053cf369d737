// CPU features of the host by their names in LLVM.
#include "platform/cpu_features.h"

#include <string.h>

#include "pydispatch/cpu.h"

// Returns whether the CPU has the feature, by its bit in the |sources|, and the system saves the register sets that it
// needs, by the mask |states| of those that the system saves.
static bool is_present(const pyd_cpu_feature_t* feature, const uint64_t* sources, uint32_t states) {
  return (sources[feature->source] >> feature->bit & 1) && (feature->state & ~states) == 0;
}

// Fills the words that kernels get about the CPU. Word 0: the features with an |abi_bit|. The other words are 0.
void pyd_cpu_query(uint64_t out_words[PYD_CPU_WORDS]) {
  uint64_t sources[PYD_CPU_SOURCES] = {0};
  uint32_t states = pyd_cpu_read_sources(sources);
  memset(out_words, 0, PYD_CPU_WORDS * sizeof(*out_words));
  for (size_t i = 0; i < pyd_cpu_feature_count; ++i) {
    const pyd_cpu_feature_t* feature = &pyd_cpu_feature_table[i];
    if (feature->abi_bit >= 0 && is_present(feature, sources, states)) out_words[0] |= UINT64_C(1) << feature->abi_bit;
  }
}

const char* pyd_cpu_feature_name(size_t index) {
  return index < pyd_cpu_feature_count ? pyd_cpu_feature_table[index].name : NULL;
}

// Fills a bit set with the features of the CPU. Bit i: feature i of the table, in |words| words.
void pyd_cpu_features(uint64_t* out_bits, size_t words) {
  uint64_t sources[PYD_CPU_SOURCES] = {0};
  uint32_t states = pyd_cpu_read_sources(sources);
  memset(out_bits, 0, words * sizeof(*out_bits));
  for (size_t i = 0; i < pyd_cpu_feature_count && i / 64 < words; ++i) {
    if (is_present(&pyd_cpu_feature_table[i], sources, states)) out_bits[i / 64] |= UINT64_C(1) << i % 64;
  }
}

// Returns the bit of a feature in word 0 of pyd_cpu_query(); -1 if it has none.
int pyd_cpu_feature_bit(const char* name) {
  for (size_t i = 0; i < pyd_cpu_feature_count; ++i) {
    if (strcmp(pyd_cpu_feature_table[i].name, name) == 0) return pyd_cpu_feature_table[i].abi_bit;  // or -1
  }
  return -1;
}
