// CPU features of AArch64, from getauxval and system registers.
#include "platform/cpu_features.h"

#if defined(__aarch64__)

#if defined(__linux__)
#include <sys/auxv.h>
#ifndef AT_HWCAP2
#define AT_HWCAP2 26
#endif
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#include <sys/types.h>
#endif

// Sources: the two words of CPU features in the auxiliary vector, AT_HWCAP and AT_HWCAP2.
enum { CAP, CAP2 };

// {LLVM's name, bit of the processor data or -1, word, bit of that word, 0: no register set needs the system's support}
const pyd_cpu_feature_t pyd_cpu_feature_table[] = {
    {"fp-armv8", 0, CAP, 0, 0},
    {"lse", 1, CAP, 8, 0},
    {"lse128", 2, CAP2, 47, 0},
    {"fullfp16", 10, CAP, 10, 0},
    {"fp16fml", 11, CAP, 23, 0},
    {"dotprod", 12, CAP, 20, 0},
    {"i8mm", 13, CAP2, 13, 0},
    {"bf16", 14, CAP2, 14, 0},
    {"sve", 20, CAP, 22, 0},
    {"sve2", 21, CAP2, 1, 0},
    {"sve2p1", 22, CAP2, 36, 0},
    {"sve2-bitperm", 23, CAP2, 4, 0},
    {"f32mm", 24, CAP2, 10, 0},
    {"f64mm", 25, CAP2, 11, 0},
    {"sme", 30, CAP2, 23, 0},
    {"sme2", 31, CAP2, 37, 0},
    {"sme2p1", 32, CAP2, 38, 0},
    {"sme-f16f16", 33, CAP2, 42, 0},
    {"sme-f64f64", 34, CAP2, 25, 0},
    {"sme-i16i64", 35, CAP2, 24, 0},
    // Not in the processor data.
    {"neon", -1, CAP, 1, 0},
    {"aes", -1, CAP, 3, 0},
    {"sha2", -1, CAP, 6, 0},
    {"crc", -1, CAP, 7, 0},
    {"rdm", -1, CAP, 12, 0},
    {"rcpc", -1, CAP, 15, 0},
    {"sha3", -1, CAP, 17, 0},
    {"rcpc-immo", -1, CAP, 26, 0},
};
const size_t pyd_cpu_feature_count = sizeof(pyd_cpu_feature_table) / sizeof(pyd_cpu_feature_table[0]);

#if defined(__APPLE__)
// Sets |bit| of |*word| if macOS reports the feature |key|.
static void read_key(const char* key, uint64_t* word, int bit) {
  int value = 0;
  size_t size = sizeof(value);
  if (sysctlbyname(key, &value, &size, NULL, 0) == 0 && value) *word |= UINT64_C(1) << bit;
}
#endif

// Fills the words with feature bits, which are 0 before. On macOS, sets the bits that Linux has in AT_HWCAP and
// AT_HWCAP2 for the features that sysctl reports, so that one table fits both. Returns 0, an empty mask of register
// sets: no feature of the table needs one, as the system reports only features whose registers it saves.
uint32_t pyd_cpu_read_sources(uint64_t sources[PYD_CPU_SOURCES]) {
#if defined(__linux__)
  sources[CAP] = getauxval(AT_HWCAP);
  sources[CAP2] = getauxval(AT_HWCAP2);
#elif defined(__APPLE__)
  sources[CAP] = 0x3;  // every such machine has floating point and Advanced SIMD
  read_key("hw.optional.arm.FEAT_LSE", &sources[CAP], 8);
  read_key("hw.optional.arm.FEAT_FP16", &sources[CAP], 10);
  read_key("hw.optional.arm.FEAT_DotProd", &sources[CAP], 20);
  read_key("hw.optional.arm.FEAT_FHM", &sources[CAP], 23);
  read_key("hw.optional.arm.FEAT_I8MM", &sources[CAP2], 13);
  read_key("hw.optional.arm.FEAT_BF16", &sources[CAP2], 14);
  read_key("hw.optional.arm.FEAT_SME", &sources[CAP2], 23);
  read_key("hw.optional.arm.FEAT_SME2", &sources[CAP2], 37);
#else
  (void)sources;
#endif
  return 0;
}

#else
typedef int pyd_cpu_arm64_is_empty_t;
#endif
