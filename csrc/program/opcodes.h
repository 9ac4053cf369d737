// The instruction set of functions, one row per instruction: verification, analysis, evaluation and printing read this
// table. docs/program.md describes each; pydispatch/formats/program/opcodes.py has the rows again, and a test
// compares the two.
#ifndef PYD_PROGRAM_OPCODES_H_
#define PYD_PROGRAM_OPCODES_H_

#include "pydispatch/program_device.h"

// X(NAME, number, REGISTERS, MODIFIER, B, CLASS)
//   REGISTERS  operands that are registers, of DST, A, B and C
//   MODIFIER   what the modifier has to be, see pyd_field_t
//   B          what operand b has to be where it is no register
//   CLASS      what evaluates it, see pyd_class_t
#define PYD_SCALAR_OPS(X)                            \
  X(CONST, 1, DST, ANY, ANY, SOURCE)                 \
  X(DIM, 2, DST, ANY, ANY, SOURCE)                   \
  X(SCALAR, 3, DST, ANY, ANY, SOURCE)                \
  X(QUERY, 4, DST, ANY, ANY, SOURCE)                 \
  X(VARIANT, 5, DST, ANY, ANY, SOURCE)               \
  X(SELECT, 6, DST_A_B_C, ANY, ANY, SELECT)          \
  X(CHECK_EQ, 7, A_B, ANY, ANY, CHECK)               \
  X(CHECK, 8, A, ANY, ANY, CHECK)                    \
  X(ADD, 16, DST_A_B, WIDTH, ANY, INTEGER)           \
  X(SUB, 17, DST_A_B, WIDTH, ANY, INTEGER)           \
  X(MUL, 18, DST_A_B, WIDTH, ANY, INTEGER)           \
  X(DIVS, 19, DST_A_B, WIDTH, ANY, DIVISION)         \
  X(DIVU, 20, DST_A_B, WIDTH, ANY, DIVISION)         \
  X(REMS, 21, DST_A_B, WIDTH, ANY, DIVISION)         \
  X(REMU, 22, DST_A_B, WIDTH, ANY, DIVISION)         \
  X(CEILDIVS, 23, DST_A_B, WIDTH, ANY, DIVISION)     \
  X(CEILDIVU, 24, DST_A_B, WIDTH, ANY, DIVISION)     \
  X(FLOORDIVS, 25, DST_A_B, WIDTH, ANY, DIVISION)    \
  X(MINS, 26, DST_A_B, WIDTH, ANY, INTEGER)          \
  X(MAXS, 27, DST_A_B, WIDTH, ANY, INTEGER)          \
  X(MINU, 28, DST_A_B, WIDTH, ANY, INTEGER)          \
  X(MAXU, 29, DST_A_B, WIDTH, ANY, INTEGER)          \
  X(AND, 30, DST_A_B, WIDTH, ANY, INTEGER)           \
  X(OR, 31, DST_A_B, WIDTH, ANY, INTEGER)            \
  X(XOR, 32, DST_A_B, WIDTH, ANY, INTEGER)           \
  X(SHL, 33, DST_A_B, WIDTH, ANY, INTEGER)           \
  X(SHRS, 34, DST_A_B, WIDTH, ANY, INTEGER)          \
  X(SHRU, 35, DST_A_B, WIDTH, ANY, INTEGER)          \
  X(MODS, 36, DST_A_B, WIDTH, ANY, DIVISION)         \
  X(NEG, 37, DST_A, WIDTH, ANY, INTEGER)             \
  X(CMP, 40, DST_A_B, WIDTH_PREDICATE, ANY, INTEGER) \
  X(SEXT, 41, DST_A, WIDTH, ANY, INTEGER)            \
  X(ZEXT, 42, DST_A, WIDTH, ANY, INTEGER)            \
  X(FADD, 48, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FSUB, 49, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FMUL, 50, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FDIV, 51, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FREM, 52, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FCMP, 53, DST_A_B, FORMAT_PREDICATE, ANY, FLOAT) \
  X(FMIN, 54, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FMAX, 55, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FNEG, 56, DST_A, FORMAT, ANY, FLOAT)             \
  X(FCVT, 57, DST_A, FORMAT, FORMAT, FLOAT)          \
  X(SITOFP, 58, DST_A, FORMAT, WIDTH, FLOAT)         \
  X(UITOFP, 59, DST_A, FORMAT, WIDTH, FLOAT)         \
  X(FPTOSI, 60, DST_A, WIDTH, FORMAT, FLOAT)         \
  X(FPTOUI, 61, DST_A, WIDTH, FORMAT, FLOAT)         \
  X(FMATH, 62, DST_A, FORMAT, FUNCTION, FLOAT)       \
  X(FPOW, 63, DST_A_B, FORMAT, ANY, FLOAT)           \
  X(FATAN2, 64, DST_A_B, FORMAT, ANY, FLOAT)         \
  X(FCOPYSIGN, 65, DST_A_B, FORMAT, ANY, FLOAT)      \
  X(FMINNUM, 66, DST_A_B, FORMAT, ANY, FLOAT)        \
  X(FMAXNUM, 67, DST_A_B, FORMAT, ANY, FLOAT)        \
  X(FMA, 68, DST_A_B_C, FORMAT, ANY, FLOAT)          \
  X(ABS, 69, DST_A, WIDTH, ANY, INTEGER)             \
  X(CTPOP, 70, DST_A, WIDTH, ANY, INTEGER)           \
  X(CTLZ, 71, DST_A, WIDTH, ANY, INTEGER)            \
  X(CTTZ, 72, DST_A, WIDTH, ANY, INTEGER)            \
  X(MULHS, 73, DST_A_B, WIDTH, ANY, INTEGER)         \
  X(MULHU, 74, DST_A_B, WIDTH, ANY, INTEGER)

// The functions of FMATH: X(number, name in MLIR, function of C for f64, for f32).
#define PYD_MATH_FUNCTIONS(X)               \
  X(0, sqrt, sqrt, sqrtf)                   \
  X(1, exp, exp, expf)                      \
  X(2, log, log, logf)                      \
  X(3, floor, floor, floorf)                \
  X(4, ceil, ceil, ceilf)                   \
  X(5, absf, fabs, fabsf)                   \
  X(6, tanh, tanh, tanhf)                   \
  X(7, sin, sin, sinf)                      \
  X(8, cos, cos, cosf)                      \
  X(9, tan, tan, tanf)                      \
  X(10, asin, asin, asinf)                  \
  X(11, acos, acos, acosf)                  \
  X(12, atan, atan, atanf)                  \
  X(13, sinh, sinh, sinhf)                  \
  X(14, cosh, cosh, coshf)                  \
  X(15, asinh, asinh, asinhf)               \
  X(16, acosh, acosh, acoshf)               \
  X(17, atanh, atanh, atanhf)               \
  X(18, erf, erf, erff)                     \
  X(19, erfc, erfc, erfcf)                  \
  X(20, exp2, exp2, exp2f)                  \
  X(21, expm1, expm1, expm1f)               \
  X(22, log2, log2, log2f)                  \
  X(23, log10, log10, log10f)               \
  X(24, log1p, log1p, log1pf)               \
  X(25, cbrt, cbrt, cbrtf)                  \
  X(26, rsqrt, inverse_root, inverse_rootf) \
  X(27, round, round, roundf)               \
  X(28, roundeven, round_even, round_evenf) \
  X(29, trunc, trunc, truncf)

// Opcodes of functions: scalar operations, then commands.
typedef enum pyd_op_e {
#define X(name, number, ...) PYD_OP_##name = number,
  PYD_SCALAR_OPS(X)
#undef X
#define X(name, number) PYD_OP_##name = number,
      PYD_COMMANDS(X)
#undef X
} pyd_op_t;

// Fields of an instruction that may be registers, one bit each.
enum { PYD_OPERAND_DST = 1, PYD_OPERAND_A = 2, PYD_OPERAND_B = 4, PYD_OPERAND_C = 8 };
// Sets of PYD_OPERAND_*, for the column REGISTERS of PYD_SCALAR_OPS: all fields of an opcode that are registers.
enum {
  PYD_REGISTERS_A = PYD_OPERAND_A,
  PYD_REGISTERS_A_B = PYD_OPERAND_A | PYD_OPERAND_B,
  PYD_REGISTERS_DST = PYD_OPERAND_DST,
  PYD_REGISTERS_DST_A = PYD_OPERAND_DST | PYD_REGISTERS_A,
  PYD_REGISTERS_DST_A_B = PYD_OPERAND_DST | PYD_REGISTERS_A_B,
  PYD_REGISTERS_DST_A_B_C = PYD_REGISTERS_DST_A_B | PYD_OPERAND_C,
};

// Content of a field of an instruction that is no register.
typedef enum pyd_field_e {
  PYD_FIELD_ANY,
  PYD_FIELD_WIDTH,             // of an integer: 1 to 64 bits
  PYD_FIELD_FORMAT,            // of a float: see pyd_format_t
  PYD_FIELD_WIDTH_PREDICATE,   // a width, and a predicate of arith.cmpi in the upper byte
  PYD_FIELD_FORMAT_PREDICATE,  // a format, and a predicate of arith.cmpf in the upper byte
  PYD_FIELD_FUNCTION,          // one of PYD_MATH_FUNCTIONS
} pyd_field_t;

// The widths of f32 and f64, and numbers for the two formats of 16 bits.
typedef enum pyd_format_e { PYD_F16 = 16, PYD_BF16 = 17, PYD_F32 = 32, PYD_F64 = 64 } pyd_format_t;

// Kinds of opcodes.
typedef enum pyd_class_e {
  PYD_CLASS_NONE,    // no instruction
  PYD_CLASS_SOURCE,  // a value that comes from no register
  PYD_CLASS_SELECT,
  PYD_CLASS_CHECK,     // refuses the call
  PYD_CLASS_INTEGER,   // of integers of one width; may wrap
  PYD_CLASS_DIVISION,  // of integers of one width; impossible for some operands
  PYD_CLASS_FLOAT,     // to or from floats
  PYD_CLASS_COMMAND,   // see commands/command.h
} pyd_class_t;

// Properties of an opcode, by which the verifier checks instructions.
typedef struct pyd_opcode_s {
  uint8_t class;        // pyd_class_t
  uint8_t registers;    // set of PYD_OPERAND_*: the fields that are registers
  uint8_t modifier, b;  // pyd_field_t: valid values of the modifier, and of operand b where that is no register
} pyd_opcode_t;

// Entries of the table, by opcode; numbers without an instruction have the class NONE.
enum { PYD_OPCODE_COUNT = 128 };
extern const pyd_opcode_t pyd_opcodes[PYD_OPCODE_COUNT];

// An instruction of a function: |dst|, |a|, |b| and |c| are registers, or fields that the opcode's entry describes.
typedef struct pyd_insn_s {
  uint16_t op;
  uint16_t modifier;
  uint32_t dst, a, b, c;
} pyd_insn_t;

// Returns the region of a command, its operand c. Commands of one region are independent of each other.
static inline uint32_t pyd_command_region(const pyd_insn_t* insn) { return insn->c; }

// Returns whether the opcode exists, and its modifier, and b where that is no register, are valid for it.
bool pyd_insn_is_valid(const pyd_insn_t* insn);

// Returns the row of a valid instruction.
static inline const pyd_opcode_t* pyd_opcode(const pyd_insn_t* insn) { return &pyd_opcodes[insn->op]; }

#endif  // PYD_PROGRAM_OPCODES_H_
