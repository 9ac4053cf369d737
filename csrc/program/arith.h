// The arithmetic of host programs: integers in arith.c, floats in arith_float.c.
#ifndef PYD_PROGRAM_ARITH_H_
#define PYD_PROGRAM_ARITH_H_

#include "program/internal.h"

// Float formats besides 32 and 64, which are their widths.
enum { PYD_F16 = 16, PYD_BF16 = 17 };
enum { PYD_MATH_COUNT = 30 };

static inline int64_t sign(uint64_t value, uint32_t width) {
  return width == 64 ? (int64_t)value : (int64_t)(value << (64 - width)) >> (64 - width);
}
static inline uint64_t zero(uint64_t value, uint32_t width) {
  return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}

// Opcodes 48 to 68.
uint64_t pyd_arith_float(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t c);

#endif  // PYD_PROGRAM_ARITH_H_
