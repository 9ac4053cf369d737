// The machines that code can be compiled for. Not part of the ELF loader, because code that only opens a library needs
// their names, too.
#include <stddef.h>

#include "pydispatch/elf.h"

// Returns the name of an ELF machine, such as "x86_64"; NULL if it is not known.
const char* pyd_elf_machine_name(uint32_t machine) {
  switch (machine) {
    case PYD_ELF_MACHINE_X86_64: return "x86_64";
    case PYD_ELF_MACHINE_AARCH64: return "aarch64";
    case PYD_ELF_MACHINE_RISCV64: return "riscv64";
  }
  return NULL;
}

// Returns the machine (e_machine of ELF) that this code is compiled for; 0 if it is none that the loader knows: x32 and
// big-endian AArch64 have the same e_machine as a known one, but another ABI.
uint32_t pyd_elf_machine_host(void) {
#if defined(__x86_64__) && !defined(__ILP32__)
  return PYD_ELF_MACHINE_X86_64;
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
  return PYD_ELF_MACHINE_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
  return PYD_ELF_MACHINE_RISCV64;
#else
  return 0;
#endif
}
