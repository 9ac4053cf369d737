// CPU features of RISC-V, from hwprobe and getauxval.
#include "platform/cpu_features.h"

#if defined(__riscv) && __riscv_xlen == 64

#if defined(__linux__)
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Sources: the extension words of the kernel's hardware probe, and the vector length in bytes, one bit per power of
// two.
enum { EXTENSIONS, VENDOR, VECTOR_BYTES };

// Columns: LLVM's name, its bit in the processor data or -1, the source, the bit in that source, no register state.
const pyd_cpu_feature_t pyd_cpu_feature_table[] = {
    {"v", 0, EXTENSIONS, 2, 0},
    {"zvfhmin", 1, EXTENSIONS, 31, 0},
    {"zvfh", 2, EXTENSIONS, 30, 0},
    {"zvfbfwma", 3, EXTENSIONS, 54, 0},
    {"xsmtvdot", 4, VENDOR, 0, 0},  // no kernel reports it yet
    {"zvl256b", 5, VECTOR_BYTES, 5, 0},
    {"zvl1024b", 6, VECTOR_BYTES, 7, 0},
    {"zvl4096b", 7, VECTOR_BYTES, 9, 0},
    // Not in the processor data.
    {"zvl512b", -1, VECTOR_BYTES, 6, 0},
    {"zvl2048b", -1, VECTOR_BYTES, 8, 0},
    {"f", -1, EXTENSIONS, 0, 0},
    {"d", -1, EXTENSIONS, 0, 0},
    {"c", -1, EXTENSIONS, 1, 0},
    {"zba", -1, EXTENSIONS, 3, 0},
    {"zbb", -1, EXTENSIONS, 4, 0},
    {"zbs", -1, EXTENSIONS, 5, 0},
    {"zbc", -1, EXTENSIONS, 7, 0},
    {"zfh", -1, EXTENSIONS, 27, 0},
    {"zfhmin", -1, EXTENSIONS, 28, 0},
    {"zfa", -1, EXTENSIONS, 32, 0},
    {"zicond", -1, EXTENSIONS, 35, 0},
};
const size_t pyd_cpu_feature_count = sizeof(pyd_cpu_feature_table) / sizeof(pyd_cpu_feature_table[0]);

#if defined(__linux__)
// struct riscv_hwprobe of the kernel: the caller sets |key|, the kernel |value|.
typedef struct probe_s {
  int64_t key;
  uint64_t value;
} probe_t;

// Returns the extensions that every CPU has, as bits that the Linux kernel numbers: RISCV_HWPROBE_IMA_EXT_0. Returns 0
// if the kernel does not have the system call, or does not know the key; then it sets the key to -1.
static uint64_t read_extensions(void) {
  enum { SYSCALL_HWPROBE = 258, KEY_EXTENSIONS = 4 };
  probe_t probe = {.key = KEY_EXTENSIONS, .value = 0};
  if (syscall(SYSCALL_HWPROBE, &probe, 1, 0, NULL, 0) != 0 || probe.key != KEY_EXTENSIONS) return 0;
  return probe.value;
}

// Returns whether this thread may execute vector instructions, which are illegal ones if the kernel has disabled them
// (sysctl abi.riscv_v_default_allow, prctl). A kernel without this control executes them.
static bool may_use_vectors(void) {
  enum { PRCTL_V_GET_CONTROL = 70, CURRENT = 3, OFF = 1 };  // CURRENT: mask of the state before the next exec
  int control = prctl(PRCTL_V_GET_CONTROL, 0, 0, 0, 0);
  return control < 0 || (control & CURRENT) != OFF;
}
#endif

// Stores the words with feature bits in |sources|, which the caller has zeroed. A word that the system does not report
// stays 0. Returns 0, the empty set of register states: RISC-V features depend on none.
uint32_t pyd_cpu_read_sources(uint64_t sources[PYD_CPU_SOURCES]) {
#if defined(__linux__)
  const uint64_t has_v = UINT64_C(1) << 2;
  const uint64_t has_others = UINT64_C(1) << 30 | UINT64_C(1) << 31 | UINT64_C(1) << 54;  // that need V
  sources[EXTENSIONS] = read_extensions();
  if (!may_use_vectors()) sources[EXTENSIONS] &= ~(has_v | has_others);  // hwprobe reports the hardware
  if (sources[EXTENSIONS] & has_v) {
    uint64_t bytes;
    __asm__ volatile("csrr %0, 0xC22" : "=r"(bytes));  // register vlenb: bytes of a vector; it exists if V does
    // Bit n: vectors have at least 2^n bytes. |bytes| is a power of two, so this sets its bit and all below it.
    sources[VECTOR_BYTES] = (bytes << 1) - 1;
  }
#else
  (void)sources;
#endif
  return 0;
}

#elif !defined(__x86_64__) && !defined(__aarch64__)

// An architecture without a feature list: none.
const pyd_cpu_feature_t pyd_cpu_feature_table[] = {{"", -1, 0, 0, 0}};
const size_t pyd_cpu_feature_count = 0;

// Reads no words with feature bits, as no feature of the table refers to them. Returns no register states.
uint32_t pyd_cpu_read_sources(uint64_t sources[PYD_CPU_SOURCES]) {
  (void)sources;
  return 0;
}

#else
typedef int pyd_cpu_riscv_is_empty_t;
#endif
