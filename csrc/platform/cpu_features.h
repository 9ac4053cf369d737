// A feature that the host may have: LLVM's name, its bit in word 0 of the processor data (-1: none), and where this
// architecture's detection finds it. The detection is one file per architecture, of which one is compiled.
#ifndef PYD_PLATFORM_CPU_FEATURES_H_
#define PYD_PLATFORM_CPU_FEATURES_H_

#include <stddef.h>
#include <stdint.h>

// A row of the table of features.
typedef struct pyd_cpu_feature_s {
  const char* name;  // LLVM's
  int8_t abi_bit;    // in word 0 of the processor data that kernels receive (pyd_cpu_query); -1: none
  uint8_t source;    // an index into the words that pyd_cpu_read_sources fills
  uint8_t bit;       // in that word
  uint8_t state;     // x86-64: mask of the register sets that the system must save; else 0
} pyd_cpu_feature_t;

// Number of words that pyd_cpu_read_sources() fills, at most.
#define PYD_CPU_SOURCES 16

extern const pyd_cpu_feature_t pyd_cpu_feature_table[];
extern const size_t pyd_cpu_feature_count;

// Reads what the features of the table refer to. Returns the mask of |state| bits that the system supports.
uint32_t pyd_cpu_read_sources(uint64_t sources[PYD_CPU_SOURCES]);

#endif  // PYD_PLATFORM_CPU_FEATURES_H_
