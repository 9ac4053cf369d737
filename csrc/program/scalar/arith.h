// The arithmetic of host programs: integers in integer.c, floats in float.c.
#ifndef PYD_PROGRAM_ARITH_H_
#define PYD_PROGRAM_ARITH_H_

#include "program/internal.h"

// Why an instruction has no value.
typedef enum pyd_fault_e {
  PYD_FAULT_NONE = 0,
  PYD_FAULT_ZERO_DIVISOR,
  PYD_FAULT_DIVISION_OVERFLOW,
  PYD_FAULT_WRAPPED,  // the value is right modulo 2^64
  PYD_FAULT_NO_RULE,  // nothing computes the opcode, though opcodes.h has it
} pyd_fault_t;

// One for each class of opcodes.h: |out| = the value of |insn| for its operands, which are 0 where it has none.
pyd_fault_t pyd_arith_integer(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out);
pyd_fault_t pyd_arith_divide(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out);
pyd_fault_t pyd_arith_float(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t c, uint64_t* out);

static inline int64_t sign(uint64_t value, uint32_t width) {
  return width == 64 ? (int64_t)value : (int64_t)(value << (64 - width)) >> (64 - width);
}
static inline uint64_t zero(uint64_t value, uint32_t width) {
  return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}

#endif  // PYD_PROGRAM_ARITH_H_
