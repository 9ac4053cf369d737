// Dynamic relocations of aarch64. Source: ELF for the Arm 64-bit Architecture, sections "Static data relocations" and
// "Dynamic relocations". X(number, name, meaning, bits, range): see reloc.c.
#ifndef PYD_ELF_ARCH_AARCH64_H_
#define PYD_ELF_ARCH_AARCH64_H_

// Applies X(number, name, meaning, bits, range) to each kind of relocation, see reloc.c.
#define PYD_ELF_RELOCS_AARCH64(X)                      \
  X(0, R_AARCH64_NONE, NONE, 0, ANY)                   \
  X(256, R_AARCH64_NONE_OLD, NONE, 0, ANY)             \
  X(257, R_AARCH64_ABS64, SYMBOL_ADDEND, 64, ANY)      \
  X(258, R_AARCH64_ABS32, SYMBOL_ADDEND, 32, EITHER)   \
  X(259, R_AARCH64_ABS16, SYMBOL_ADDEND, 16, EITHER)   \
  X(260, R_AARCH64_PREL64, SYMBOL_PC, 64, ANY)         \
  X(261, R_AARCH64_PREL32, SYMBOL_PC, 32, EITHER)      \
  X(262, R_AARCH64_PREL16, SYMBOL_PC, 16, EITHER)      \
  X(1024, R_AARCH64_COPY, COPY, 0, ANY)                \
  X(1025, R_AARCH64_GLOB_DAT, SYMBOL_ADDEND, 64, ANY)  \
  X(1026, R_AARCH64_JUMP_SLOT, SYMBOL_ADDEND, 64, ANY) \
  X(1027, R_AARCH64_RELATIVE, BASE, 64, ANY)           \
  X(1028, R_AARCH64_TLS_DTPMOD, THREAD, 0, ANY)        \
  X(1029, R_AARCH64_TLS_DTPREL, THREAD, 0, ANY)        \
  X(1030, R_AARCH64_TLS_TPREL, THREAD, 0, ANY)         \
  X(1031, R_AARCH64_TLSDESC, THREAD, 0, ANY)           \
  X(1032, R_AARCH64_IRELATIVE, INDIRECT, 0, ANY)

#endif  // PYD_ELF_ARCH_AARCH64_H_
