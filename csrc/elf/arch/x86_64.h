// Dynamic relocations of x86_64. Source: System V psABI for AMD64, table "Relocation Types".
// X(number, name, meaning, bits, range): see reloc.c.
#ifndef PYD_ELF_ARCH_X86_64_H_
#define PYD_ELF_ARCH_X86_64_H_

// Applies X(number, name, meaning, bits, range) to each kind of relocation, see reloc.c.
#define PYD_ELF_RELOCS_X86_64(X)                  \
  X(0, R_X86_64_NONE, NONE, 0, ANY)               \
  X(1, R_X86_64_64, SYMBOL_ADDEND, 64, ANY)       \
  X(2, R_X86_64_PC32, SYMBOL_PC, 32, SIGNED)      \
  X(5, R_X86_64_COPY, COPY, 0, ANY)               \
  X(6, R_X86_64_GLOB_DAT, SYMBOL, 64, ANY)        \
  X(7, R_X86_64_JUMP_SLOT, SYMBOL, 64, ANY)       \
  X(8, R_X86_64_RELATIVE, BASE, 64, ANY)          \
  X(10, R_X86_64_32, SYMBOL_ADDEND, 32, UNSIGNED) \
  X(11, R_X86_64_32S, SYMBOL_ADDEND, 32, SIGNED)  \
  X(12, R_X86_64_16, SYMBOL_ADDEND, 16, EITHER)   \
  X(13, R_X86_64_PC16, SYMBOL_PC, 16, SIGNED)     \
  X(14, R_X86_64_8, SYMBOL_ADDEND, 8, EITHER)     \
  X(15, R_X86_64_PC8, SYMBOL_PC, 8, SIGNED)       \
  X(16, R_X86_64_DTPMOD64, THREAD, 0, ANY)        \
  X(17, R_X86_64_DTPOFF64, THREAD, 0, ANY)        \
  X(18, R_X86_64_TPOFF64, THREAD, 0, ANY)         \
  X(23, R_X86_64_TPOFF32, THREAD, 0, ANY)         \
  X(24, R_X86_64_PC64, SYMBOL_PC, 64, ANY)        \
  X(36, R_X86_64_TLSDESC, THREAD, 0, ANY)         \
  X(37, R_X86_64_IRELATIVE, INDIRECT, 0, ANY)     \
  X(38, R_X86_64_RELATIVE64, BASE, 64, ANY)

#endif  // PYD_ELF_ARCH_X86_64_H_
