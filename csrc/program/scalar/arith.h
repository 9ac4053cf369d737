// The arithmetic of host programs: integers in integer.c, floats in float.c.
#ifndef PYD_PROGRAM_ARITH_H_
#define PYD_PROGRAM_ARITH_H_

#include "program/internal.h"

// Faults of an instruction. With any of them but WRAPPED the instruction has no result.
typedef enum pyd_fault_e {
  PYD_FAULT_NONE = 0,
  PYD_FAULT_ZERO_DIVISOR,
  PYD_FAULT_DIVISION_OVERFLOW,
  PYD_FAULT_WRAPPED,  // the exact result does not fit into 64 bits; the value is correct modulo 2^width
  PYD_FAULT_NO_RULE,  // opcodes.h has the opcode, but no code computes it
} pyd_fault_t;

// Compute |*out|, the value of |insn| for its operands; an operand that it does not have is 0. There is one function
// for each class of opcodes.h.
pyd_fault_t pyd_arith_integer(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out);
pyd_fault_t pyd_arith_divide(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out);
pyd_fault_t pyd_arith_float(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t c, uint64_t* out);

// Sign-extends an integer of |width| bits to 64 bits.
static inline int64_t sign_extend(uint64_t value, uint32_t width) {
  return width == 64 ? (int64_t)value : (int64_t)(value << (64 - width)) >> (64 - width);
}
// Zero-extends an integer of |width| bits to 64 bits.
static inline uint64_t zero_extend(uint64_t value, uint32_t width) {
  return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}

#endif  // PYD_PROGRAM_ARITH_H_
