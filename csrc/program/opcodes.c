// The instruction set of host programs as a table.
#include "program/opcodes.h"

const pyd_opcode_t pyd_opcodes[PYD_OPCODE_COUNT] = {
#define X(name, number, registers, modifier, b, class) \
  [number] = {PYD_CLASS_##class, PYD_REGISTERS_##registers, PYD_FIELD_##modifier, PYD_FIELD_##b},
    PYD_SCALAR_OPS(X)
#undef X
#define X(name, number) [number] = {.class = PYD_CLASS_COMMAND},
        PYD_COMMANDS(X)
#undef X
};

static bool is_width(uint32_t width) { return width >= 1 && width <= 64; }

static bool is_format(uint32_t format) {
  return format == PYD_F16 || format == PYD_BF16 || format == PYD_F32 || format == PYD_F64;
}

// Returns whether the instruction FMATH has a function with this number.
static bool is_function(uint32_t number) {
  switch (number) {
#define X(number, ...) case number:
    PYD_MATH_FUNCTIONS(X)
#undef X
    return true;
    default: return false;
  }
}

// Returns whether |value| of a modifier or of operand b is valid for |field|, its row in the table of opcodes.
static bool fits(pyd_field_t field, uint32_t value) {
  switch (field) {
    case PYD_FIELD_ANY: return true;
    case PYD_FIELD_WIDTH: return is_width(value);
    case PYD_FIELD_FORMAT: return is_format(value);
    case PYD_FIELD_WIDTH_PREDICATE: return is_width(value & 0xFF) && value >> 8 <= 9;     // of arith.cmpi
    case PYD_FIELD_FORMAT_PREDICATE: return is_format(value & 0xFF) && value >> 8 <= 15;  // of arith.cmpf
    case PYD_FIELD_FUNCTION: return is_function(value);
  }
  return false;
}

// Returns whether the opcode and the modifier of an instruction exist.
bool pyd_insn_is_valid(const pyd_insn_t* insn) {
  if (insn->op >= PYD_OPCODE_COUNT) return false;
  const pyd_opcode_t* op = pyd_opcode(insn);
  return op->class != PYD_CLASS_NONE && fits(op->modifier, insn->modifier) && fits(op->b, insn->b);
}
