// Names of the machines that code can be for. Here, below the loader, because whoever opens a library asks for them.
#include <stddef.h>

#include "pydispatch/elf.h"

const char* pyd_elf_machine_name(uint32_t machine) {
  switch (machine) {
    case PYD_ELF_MACHINE_X86_64: return "x86_64";
    case PYD_ELF_MACHINE_AARCH64: return "aarch64";
    case PYD_ELF_MACHINE_RISCV64: return "riscv64";
  }
  return NULL;
}

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
