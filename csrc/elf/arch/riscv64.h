// Dynamic relocations of riscv64. Source: RISC-V ELF psABI, table "Relocation types".
// X(number, name, meaning, bits, range): see reloc.c.
#ifndef PYD_ELF_ARCH_RISCV64_H_
#define PYD_ELF_ARCH_RISCV64_H_

// Applies X(number, name, meaning, bits, range) to each kind of relocation, see reloc.c.
#define PYD_ELF_RELOCS_RISCV64(X)                \
  X(0, R_RISCV_NONE, NONE, 0, ANY)               \
  X(1, R_RISCV_32, SYMBOL_ADDEND, 32, EITHER)    \
  X(2, R_RISCV_64, SYMBOL_ADDEND, 64, ANY)       \
  X(3, R_RISCV_RELATIVE, BASE, 64, ANY)          \
  X(4, R_RISCV_COPY, COPY, 0, ANY)               \
  X(5, R_RISCV_JUMP_SLOT, SYMBOL, 64, ANY)       \
  X(6, R_RISCV_TLS_DTPMOD32, THREAD, 0, ANY)     \
  X(7, R_RISCV_TLS_DTPMOD64, THREAD, 0, ANY)     \
  X(8, R_RISCV_TLS_DTPREL32, THREAD, 0, ANY)     \
  X(9, R_RISCV_TLS_DTPREL64, THREAD, 0, ANY)     \
  X(10, R_RISCV_TLS_TPREL32, THREAD, 0, ANY)     \
  X(11, R_RISCV_TLS_TPREL64, THREAD, 0, ANY)     \
  X(12, R_RISCV_TLSDESC, THREAD, 0, ANY)         \
  X(57, R_RISCV_32_PCREL, SYMBOL_PC, 32, SIGNED) \
  X(58, R_RISCV_IRELATIVE, INDIRECT, 0, ANY)

#endif  // PYD_ELF_ARCH_RISCV64_H_
