// CPU features of x86-64: the registers that cpuid returns, and the register states that the system has enabled.
#include "platform/cpu_features.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdbool.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Sources: the CPUID registers that hold feature bits. L: basic leaf (L71: leaf 7, subleaf 1; LD1: leaf 0xD, subleaf
// 1), X1: extended leaf 0x80000001.
enum { L1_ECX, L1_EDX, L7_EBX, L7_ECX, L7_EDX, L71_EAX, L71_EDX, LD1_EAX, X1_ECX, X1_EDX };

// Register sets that the system must have enabled in XCR0.
enum { NONE = 0, AVX = 1, AVX512 = 2, AMX = 4 };

// Bits of XCR0 ("Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, section 13.3).
enum {
  kXcr0Avx = 0x6,      // XMM and YMM registers
  kXcr0Avx512 = 0xE6,  // also mask registers and ZMM registers
  kXcr0Amx = 3 << 17,  // tile configuration and tile data
};

// CPUID leaves.
#define LEAF_FEATURES 1u
#define LEAF_EXTENDED_FEATURES 7u
#define LEAF_XSAVE 0xDu
#define LEAF_AMD_FEATURES 0x80000001u

// Columns: LLVM's name, its bit in the processor data or -1, the CPUID register, the bit in it, the register sets that
// the system must have enabled.
const pyd_cpu_feature_t pyd_cpu_feature_table[] = {
    {"sse3", 0, L1_ECX, 0, NONE},
    {"ssse3", 1, L1_ECX, 9, NONE},
    {"sse4.1", 2, L1_ECX, 19, NONE},
    {"sse4.2", 3, L1_ECX, 20, NONE},
    {"sse4a", 4, X1_ECX, 6, NONE},
    {"avx", 10, L1_ECX, 28, AVX},
    {"fma", 11, L1_ECX, 12, AVX},
    {"fma4", 12, X1_ECX, 16, AVX},
    {"xop", 13, X1_ECX, 11, AVX},
    {"f16c", 14, L1_ECX, 29, AVX},
    {"avx2", 15, L7_EBX, 5, AVX},
    {"avx512f", 20, L7_EBX, 16, AVX | AVX512},
    {"avx512cd", 21, L7_EBX, 28, AVX | AVX512},
    {"avx512vl", 22, L7_EBX, 31, AVX | AVX512},
    {"avx512dq", 23, L7_EBX, 17, AVX | AVX512},
    {"avx512bw", 24, L7_EBX, 30, AVX | AVX512},
    {"avx512ifma", 25, L7_EBX, 21, AVX | AVX512},
    {"avx512vbmi", 26, L7_ECX, 1, AVX | AVX512},
    {"avx512vpopcntdq", 27, L7_ECX, 14, AVX | AVX512},
    {"avx512vnni", 28, L7_ECX, 11, AVX | AVX512},
    {"avx512vbmi2", 29, L7_ECX, 6, AVX | AVX512},
    {"avx512bitalg", 30, L7_ECX, 12, AVX | AVX512},
    {"avx512bf16", 31, L71_EAX, 5, AVX | AVX512},
    {"avx512fp16", 32, L7_EDX, 23, AVX | AVX512},
    {"amx-tile", 50, L7_EDX, 24, AMX},
    {"amx-int8", 51, L7_EDX, 25, AMX},
    {"amx-bf16", 52, L7_EDX, 22, AMX},
    // Not in the processor data; what the CPU levels and code generation need besides.
    {"cx8", -1, L1_EDX, 8, NONE},
    {"cmov", -1, L1_EDX, 15, NONE},
    {"mmx", -1, L1_EDX, 23, NONE},
    {"fxsr", -1, L1_EDX, 24, NONE},
    {"sse", -1, L1_EDX, 25, NONE},
    {"sse2", -1, L1_EDX, 26, NONE},
    {"pclmul", -1, L1_ECX, 1, NONE},
    {"cx16", -1, L1_ECX, 13, NONE},
    {"movbe", -1, L1_ECX, 22, NONE},
    {"popcnt", -1, L1_ECX, 23, NONE},
    {"aes", -1, L1_ECX, 25, NONE},
    {"xsave", -1, L1_ECX, 27, NONE},  // OSXSAVE: there and switched on
    {"sahf", -1, X1_ECX, 0, NONE},
    {"lzcnt", -1, X1_ECX, 5, NONE},
    {"prfchw", -1, X1_ECX, 8, NONE},
    {"bmi", -1, L7_EBX, 3, NONE},
    {"bmi2", -1, L7_EBX, 8, NONE},
    {"adx", -1, L7_EBX, 19, NONE},
    {"sha", -1, L7_EBX, 29, NONE},
    {"gfni", -1, L7_ECX, 8, NONE},
    {"vaes", -1, L7_ECX, 9, AVX},
    {"vpclmulqdq", -1, L7_ECX, 10, AVX},
    {"avx512vp2intersect", -1, L7_EDX, 8, AVX | AVX512},
    {"avxvnni", -1, L71_EAX, 4, AVX},
    {"amx-fp16", -1, L71_EAX, 21, AMX},
    {"avxifma", -1, L71_EAX, 23, AVX},
    {"avxvnniint8", -1, L71_EDX, 4, AVX},
    {"avxneconvert", -1, L71_EDX, 5, AVX},
    {"avxvnniint16", -1, L71_EDX, 10, AVX},
    {"xsaveopt", -1, LD1_EAX, 0, NONE},
    {"xsavec", -1, LD1_EAX, 1, NONE},
};
const size_t pyd_cpu_feature_count = sizeof(pyd_cpu_feature_table) / sizeof(pyd_cpu_feature_table[0]);

// Requests AMX and returns whether this process may use its registers. Linux saves these 8 KiB only for processes that
// have asked; it refuses where a thread has too small a signal stack for them.
static bool amx_is_permitted(void) {
#if defined(__linux__)
  const long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

// Returns the set of AVX, AVX512 and AMX whose registers the system saves, from XCR0. CPUID alone only states what the
// CPU supports: where the system has switched AVX-512 or AMX off, their instructions still trap.
static uint32_t enabled_states(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  uint32_t states = NONE;
  if ((low & kXcr0Avx) == kXcr0Avx) states |= AVX;
  if ((low & kXcr0Avx512) == kXcr0Avx512) states |= AVX512;
  if ((low & kXcr0Amx) == kXcr0Amx && amx_is_permitted()) states |= AMX;
  return states;
}

// Stores the CPUID registers with feature bits in |sources|, at L1_ECX and so on. The caller has zeroed |sources|: the
// word of a CPUID leaf that the CPU does not have stays 0. Returns the set of AVX, AVX512 and AMX whose registers the
// system saves.
uint32_t pyd_cpu_read_sources(uint64_t sources[PYD_CPU_SOURCES]) {
  uint32_t eax, ebx, ecx, edx;
  uint32_t states = NONE;
  if (__get_cpuid(LEAF_FEATURES, &eax, &ebx, &ecx, &edx)) {
    const uint32_t osxsave = UINT32_C(1) << 27, xsave = UINT32_C(1) << 26;
    if (ecx & osxsave && ecx & xsave) states = enabled_states();  // else xgetbv would trap
    sources[L1_ECX] = ecx;
    sources[L1_EDX] = edx;
  }
  if (__get_cpuid_count(LEAF_EXTENDED_FEATURES, 0, &eax, &ebx, &ecx, &edx)) {
    uint32_t subleaves = eax;  // the highest one
    sources[L7_EBX] = ebx;
    sources[L7_ECX] = ecx;
    sources[L7_EDX] = edx;
    if (subleaves >= 1 && __get_cpuid_count(LEAF_EXTENDED_FEATURES, 1, &eax, &ebx, &ecx, &edx)) {
      sources[L71_EAX] = eax;
      sources[L71_EDX] = edx;
    }
  }
  if (__get_cpuid_count(LEAF_XSAVE, 1, &eax, &ebx, &ecx, &edx)) sources[LD1_EAX] = eax;
  if (__get_cpuid(LEAF_AMD_FEATURES, &eax, &ebx, &ecx, &edx)) {
    sources[X1_ECX] = ecx;
    sources[X1_EDX] = edx;
  }
  return states;
}

#else
typedef int pyd_cpu_x86_is_empty_t;
#endif
