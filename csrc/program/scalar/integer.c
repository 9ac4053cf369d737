// Integer arithmetic of host programs. Every result is defined: where MLIR has poison, it is the value stated in
// docs/program.md, so that no program causes undefined behaviour in this code.
#include "program/scalar/arith.h"

// Returns whether the predicate of arith.cmpi with this number (0 to 9) holds for the lower |width| bits of |a| and
// |b|.
static bool compare(uint32_t predicate, uint64_t a, uint64_t b, uint32_t width) {
  int64_t sa = sign_extend(a, width), sb = sign_extend(b, width);
  uint64_t ua = zero_extend(a, width), ub = zero_extend(b, width);
  switch (predicate) {
    case 0: return ua == ub;
    case 1: return ua != ub;
    case 2: return sa < sb;
    case 3: return sa <= sb;
    case 4: return sa > sb;
    case 5: return sa >= sb;
    case 6: return ua < ub;
    case 7: return ua <= ub;
    case 8: return ua > ub;
    default: return ua >= ub;
  }
}

// Computes a division or remainder of |sa| and |sb|, which are sign-extended from |width| bits. |*out| may have other
// bits above |width|. Returns a fault, without a result, for a divisor of 0 and a quotient that overflows.
static pyd_fault_t divide(uint32_t op, uint32_t width, int64_t sa, int64_t sb, uint64_t* out) {
  uint64_t ua = zero_extend((uint64_t)sa, width), ub = zero_extend((uint64_t)sb, width);
  if (ub == 0) return PYD_FAULT_ZERO_DIVISOR;
  switch (op) {
    case PYD_OP_DIVU: *out = ua / ub; return PYD_FAULT_NONE;
    case PYD_OP_REMU: *out = ua % ub; return PYD_FAULT_NONE;
    case PYD_OP_CEILDIVU: *out = ua / ub + (ua % ub != 0); return PYD_FAULT_NONE;
    default: break;
  }
  if (sb == -1) {  // the only divisor that can overflow; its remainders are 0
    if (op == PYD_OP_REMS || op == PYD_OP_MODS) {
      *out = 0;
      return PYD_FAULT_NONE;
    }
    if (sa == INT64_MIN >> (64 - width)) return PYD_FAULT_DIVISION_OVERFLOW;
  }
  int64_t quotient = sa / sb, remainder = sa % sb;
  bool was_rounded_up = remainder != 0 && (sa < 0) != (sb < 0);  // C rounds a negative quotient up: -7 / 2 is -3
  switch (op) {
    case PYD_OP_DIVS: *out = (uint64_t)quotient; return PYD_FAULT_NONE;
    case PYD_OP_REMS: *out = (uint64_t)remainder; return PYD_FAULT_NONE;
    case PYD_OP_CEILDIVS: *out = (uint64_t)(quotient + (remainder != 0 && !was_rounded_up)); return PYD_FAULT_NONE;
    case PYD_OP_FLOORDIVS: *out = (uint64_t)(quotient - was_rounded_up); return PYD_FAULT_NONE;
    case PYD_OP_MODS:  // has the sign of the divisor
      *out = (uint64_t)(was_rounded_up ? remainder + sb : remainder);
      return PYD_FAULT_NONE;
    default: return PYD_FAULT_NO_RULE;
  }
}

// Computes |*out|, the value of an integer division or remainder, sign-extended. Returns the fault of divide().
pyd_fault_t pyd_arith_divide(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out) {
  uint32_t width = insn->modifier;
  uint64_t result = 0;
  pyd_fault_t fault = divide(insn->op, width, sign_extend(a, width), sign_extend(b, width), &result);
  *out = (uint64_t)sign_extend(result, width);
  return fault;
}

// Computes a sum, difference, product or negation modulo 2^64. Returns whether the exact result does not fit.
static bool compute_wrapping(uint32_t op, int64_t a, int64_t b, int64_t* out) {
  switch (op) {
    case PYD_OP_ADD: return __builtin_add_overflow(a, b, out);
    case PYD_OP_SUB: return __builtin_sub_overflow(a, b, out);
    case PYD_OP_MUL: return __builtin_mul_overflow(a, b, out);
    default: return __builtin_sub_overflow((int64_t)0, a, out);  // NEG
  }
}

// Computes |*out|, the value of an integer instruction for its operands |a| and |b|; an operand that it does not have
// is 0. The lower byte of the modifier is the width in bits, the upper one the predicate of CMP. Returns WRAPPED, with
// the wrapped value, if a sum, difference, product or negation does not fit into 64 bits.
pyd_fault_t pyd_arith_integer(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out) {
  uint32_t width = insn->modifier & 0xFF, predicate = insn->modifier >> 8;
  int64_t sa = sign_extend(a, width), sb = sign_extend(b, width), signed_result;
  uint64_t ua = zero_extend(a, width), ub = zero_extend(b, width), result = 0;
  bool wrapped = false;  // the exact result does not fit into 64 bits; narrower ones may wrap unnoticed
  switch (insn->op) {
    case PYD_OP_ADD:
    case PYD_OP_SUB:
    case PYD_OP_MUL:
    case PYD_OP_NEG:
      wrapped = compute_wrapping(insn->op, sa, sb, &signed_result);
      result = (uint64_t)signed_result;
      break;
    case PYD_OP_MINS: result = (uint64_t)(sa < sb ? sa : sb); break;
    case PYD_OP_MAXS: result = (uint64_t)(sa > sb ? sa : sb); break;
    case PYD_OP_MINU: result = ua < ub ? ua : ub; break;
    case PYD_OP_MAXU: result = ua > ub ? ua : ub; break;
    case PYD_OP_AND: result = a & b; break;
    case PYD_OP_OR: result = a | b; break;
    case PYD_OP_XOR: result = a ^ b; break;
    // A shift by the width or more moves all bits out: only zeros, or copies of the sign bit, are left.
    case PYD_OP_SHL: result = ub >= width ? 0 : ua << ub; break;
    case PYD_OP_SHRS: result = (uint64_t)(sa >> (ub >= width ? width - 1 : ub)); break;
    case PYD_OP_SHRU: result = ub >= width ? 0 : ua >> ub; break;
    case PYD_OP_ABS: result = (uint64_t)(sa < 0 ? (int64_t) - (uint64_t)sa : sa); break;
    case PYD_OP_CTPOP: result = (uint64_t)__builtin_popcountll(ua); break;
    // The builtins for zeros are undefined for 0, where MLIR gives the width.
    case PYD_OP_CTLZ: result = ua ? (uint64_t)__builtin_clzll(ua) - (64 - width) : width; break;
    case PYD_OP_CTTZ: result = ua ? (uint64_t)__builtin_ctzll(ua) : width; break;
    // The upper |width| bits of the product, which has 2 * |width| bits.
    case PYD_OP_MULHS: result = (uint64_t)((__extension__(__int128) sa * sb) >> width); break;
    case PYD_OP_MULHU: result = (uint64_t)((__extension__(unsigned __int128) ua * ub) >> width); break;
    // The results of these three do not have the width: a truth value, and extensions to 64 bits.
    case PYD_OP_CMP: *out = compare(predicate, a, b, width); return PYD_FAULT_NONE;
    case PYD_OP_SEXT: *out = (uint64_t)sa; return PYD_FAULT_NONE;
    case PYD_OP_ZEXT: *out = ua; return PYD_FAULT_NONE;
    default: return PYD_FAULT_NO_RULE;
  }
  *out = (uint64_t)sign_extend(result, width);
  return wrapped ? PYD_FAULT_WRAPPED : PYD_FAULT_NONE;
}
