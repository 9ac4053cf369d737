// The arithmetic of host programs. Everything is defined: MLIR's poison becomes the value stated in docs/program.md, so
// that a hostile program is no undefined behaviour of ours.
#include <math.h>
#include <string.h>

#include "program/internal.h"

static int64_t sign(uint64_t value, uint32_t width) {
  return width == 64 ? (int64_t)value : (int64_t)(value << (64 - width)) >> (64 - width);
}
static uint64_t zero(uint64_t value, uint32_t width) {
  return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}
static float as_f32(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float f;
  memcpy(&f, &low, sizeof(f));
  return f;
}
static double as_f64(uint64_t bits) {
  double f;
  memcpy(&f, &bits, sizeof(f));
  return f;
}
static uint64_t of_f32(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}
static uint64_t of_f64(double f) {
  uint64_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

static bool is_int_width(uint32_t width) {
  return width == 1 || width == 8 || width == 16 || width == 32 || width == 64;
}
static bool is_float_width(uint32_t width) { return width == 32 || width == 64; }

bool pyd_arith_is_valid(const pyd_insn_t* insn) {
  uint32_t modifier = insn->modifier;
  switch (insn->op) {
    case PYD_OP_CMP:
      return is_int_width(modifier & 0xFF) && modifier >> 8 <= 9;
    case PYD_OP_FCMP:
      return is_float_width(modifier & 0xFF) && modifier >> 8 <= 15;
    case PYD_OP_SEXT:
    case PYD_OP_ZEXT:
      return is_int_width(modifier);
    case PYD_OP_FCVT:
      return is_float_width(modifier) && is_float_width(insn->b);
    case PYD_OP_SITOFP:
    case PYD_OP_UITOFP:
      return is_float_width(modifier) && is_int_width(insn->b);
    case PYD_OP_FPTOSI:
    case PYD_OP_FPTOUI:
      return is_int_width(modifier) && is_float_width(insn->b);
    case PYD_OP_FMATH:
      return is_float_width(modifier) && insn->b <= 8;
    default:
      if (insn->op >= PYD_OP_ADD && insn->op <= PYD_OP_NEG) return is_int_width(modifier);
      return insn->op >= PYD_OP_FADD && insn->op <= PYD_OP_FNEG && is_float_width(modifier);
  }
}

static bool compare(uint32_t predicate, uint64_t a, uint64_t b, uint32_t width) {
  int64_t sa = sign(a, width), sb = sign(b, width);
  uint64_t ua = zero(a, width), ub = zero(b, width);
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

static bool compare_float(uint32_t predicate, double a, double b) {
  bool unordered = isnan(a) || isnan(b);
  switch (predicate) {
    case 0: return false;
    case 1: return a == b;
    case 2: return a > b;
    case 3: return a >= b;
    case 4: return a < b;
    case 5: return a <= b;
    case 6: return !unordered && a != b;
    case 7: return !unordered;
    case 8: return unordered || a == b;
    case 9: return unordered || a > b;
    case 10: return unordered || a >= b;
    case 11: return unordered || a < b;
    case 12: return unordered || a <= b;
    case 13: return unordered || a != b;
    case 14: return unordered;
    default: return true;
  }
}

// Minimum and maximum of IEEE 754-2019: NaN wins, -0 is below +0.
static double extreme(double a, double b, bool want_max) {
  if (isnan(a) || isnan(b)) return a + b;
  if (a == b) return (signbit(a) != 0) == want_max ? b : a;
  return (a < b) == want_max ? b : a;
}

static double math(uint32_t function, double x) {
  switch (function) {
    case 0: return sqrt(x);
    case 1: return exp(x);
    case 2: return log(x);
    case 3: return floor(x);
    case 4: return ceil(x);
    case 5: return fabs(x);
    case 6: return tanh(x);
    case 7: return sin(x);
    default: return cos(x);
  }
}
static float math_f32(uint32_t function, float x) {
  switch (function) {
    case 0: return sqrtf(x);
    case 1: return expf(x);
    case 2: return logf(x);
    case 3: return floorf(x);
    case 4: return ceilf(x);
    case 5: return fabsf(x);
    case 6: return tanhf(x);
    case 7: return sinf(x);
    default: return cosf(x);
  }
}

// Towards zero, saturating, NaN to 0. 2^63 and 2^64 are exact in a double, so the comparisons decide every case.
static uint64_t to_signed(double value, uint32_t width) {
  double limit = ldexp(1.0, (int)width - 1);
  if (isnan(value)) return 0;
  if (value >= limit) return (uint64_t)(INT64_MAX >> (64 - width));
  if (value <= -limit) return (uint64_t)(INT64_MIN >> (64 - width));
  return (uint64_t)(int64_t)value;
}
static uint64_t to_unsigned(double value, uint32_t width) {
  if (isnan(value) || value <= 0) return 0;
  uint64_t result = value >= ldexp(1.0, (int)width) ? UINT64_MAX : (uint64_t)value;
  return (uint64_t)sign(result, width);
}

static uint64_t float_binary(uint32_t op, uint32_t width, uint64_t a, uint64_t b) {
  if (width == 32) {
    float x = as_f32(a), y = as_f32(b);
    switch (op) {
      case PYD_OP_FADD: return of_f32(x + y);
      case PYD_OP_FSUB: return of_f32(x - y);
      case PYD_OP_FMUL: return of_f32(x * y);
      case PYD_OP_FDIV: return of_f32(x / y);
      case PYD_OP_FREM: return of_f32(fmodf(x, y));
      case PYD_OP_FMIN: return of_f32((float)extreme(x, y, false));
      case PYD_OP_FMAX: return of_f32((float)extreme(x, y, true));
      default: return zero(a, 32) ^ UINT64_C(0x80000000);
    }
  }
  double x = as_f64(a), y = as_f64(b);
  switch (op) {
    case PYD_OP_FADD: return of_f64(x + y);
    case PYD_OP_FSUB: return of_f64(x - y);
    case PYD_OP_FMUL: return of_f64(x * y);
    case PYD_OP_FDIV: return of_f64(x / y);
    case PYD_OP_FREM: return of_f64(fmod(x, y));
    case PYD_OP_FMIN: return of_f64(extreme(x, y, false));
    case PYD_OP_FMAX: return of_f64(extreme(x, y, true));
    default: return a ^ UINT64_C(0x8000000000000000);
  }
}

static uint64_t float_convert(const pyd_insn_t* insn, uint64_t a) {
  uint32_t width = insn->modifier;
  switch (insn->op) {
    case PYD_OP_FCVT: {
      if (width == insn->b) return zero(a, width);
      return width == 32 ? of_f32((float)as_f64(a)) : of_f64(as_f32(a));
    }
    case PYD_OP_SITOFP:
      return width == 32 ? of_f32((float)sign(a, insn->b)) : of_f64((double)sign(a, insn->b));
    case PYD_OP_UITOFP:
      return width == 32 ? of_f32((float)zero(a, insn->b)) : of_f64((double)zero(a, insn->b));
    case PYD_OP_FPTOSI:
      return to_signed(insn->b == 32 ? as_f32(a) : as_f64(a), width);
    case PYD_OP_FPTOUI:
      return to_unsigned(insn->b == 32 ? as_f32(a) : as_f64(a), width);
    default:
      return width == 32 ? of_f32(math_f32(insn->b, as_f32(a))) : of_f64(math(insn->b, as_f64(a)));
  }
}

static pyd_fault_t divide(uint32_t op, uint32_t width, int64_t sa, int64_t sb, uint64_t* out) {
  uint64_t ua = zero((uint64_t)sa, width), ub = zero((uint64_t)sb, width);
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
  int64_t quotient = sa / sb, rest = sa % sb;
  bool below = rest != 0 && (sa < 0) != (sb < 0);  // the exact quotient is negative and was rounded up
  switch (op) {
    case PYD_OP_DIVS: *out = (uint64_t)quotient; break;
    case PYD_OP_REMS: *out = (uint64_t)rest; break;
    case PYD_OP_CEILDIVS: *out = (uint64_t)(quotient + (rest != 0 && !below)); break;
    case PYD_OP_FLOORDIVS: *out = (uint64_t)(quotient - below); break;
    default: *out = (uint64_t)(below ? rest + sb : rest); break;  // MODS: the sign of the divisor
  }
  return PYD_FAULT_NONE;
}

static pyd_fault_t integer(uint32_t op, uint32_t width, uint64_t a, uint64_t b, uint64_t* out) {
  int64_t sa = sign(a, width), sb = sign(b, width), exact = 0;
  uint64_t ua = zero(a, width), ub = zero(b, width), result = 0;
  pyd_fault_t fault = PYD_FAULT_NONE;
  bool wrapped = false;
  switch (op) {
    case PYD_OP_ADD: wrapped = __builtin_add_overflow(sa, sb, &exact); result = (uint64_t)exact; break;
    case PYD_OP_SUB: wrapped = __builtin_sub_overflow(sa, sb, &exact); result = (uint64_t)exact; break;
    case PYD_OP_MUL: wrapped = __builtin_mul_overflow(sa, sb, &exact); result = (uint64_t)exact; break;
    case PYD_OP_NEG: wrapped = __builtin_sub_overflow((int64_t)0, sa, &exact); result = (uint64_t)exact; break;
    case PYD_OP_MINS: result = (uint64_t)(sa < sb ? sa : sb); break;
    case PYD_OP_MAXS: result = (uint64_t)(sa > sb ? sa : sb); break;
    case PYD_OP_MINU: result = ua < ub ? ua : ub; break;
    case PYD_OP_MAXU: result = ua > ub ? ua : ub; break;
    case PYD_OP_AND: result = a & b; break;
    case PYD_OP_OR: result = a | b; break;
    case PYD_OP_XOR: result = a ^ b; break;
    case PYD_OP_SHL: result = ub >= width ? 0 : ua << ub; break;
    case PYD_OP_SHRS: result = (uint64_t)(sa >> (ub >= width ? width - 1 : ub)); break;
    case PYD_OP_SHRU: result = ub >= width ? 0 : ua >> ub; break;
    default: fault = divide(op, width, sa, sb, &result); break;
  }
  *out = (uint64_t)sign(result, width);
  if (fault == PYD_FAULT_NONE && wrapped) fault = PYD_FAULT_WRAPPED;
  return fault;
}

pyd_fault_t pyd_arith_compute(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t* out) {
  uint32_t width = insn->modifier & 0xFF, predicate = insn->modifier >> 8;
  switch (insn->op) {
    case PYD_OP_CMP:
      *out = compare(predicate, a, b, width);
      return PYD_FAULT_NONE;
    case PYD_OP_FCMP:
      *out = width == 32 ? compare_float(predicate, as_f32(a), as_f32(b)) : compare_float(predicate, as_f64(a), as_f64(b));
      return PYD_FAULT_NONE;
    case PYD_OP_SEXT:
      *out = (uint64_t)sign(a, width);
      return PYD_FAULT_NONE;
    case PYD_OP_ZEXT:
      *out = zero(a, width);
      return PYD_FAULT_NONE;
    case PYD_OP_FCVT:
    case PYD_OP_SITOFP:
    case PYD_OP_UITOFP:
    case PYD_OP_FPTOSI:
    case PYD_OP_FPTOUI:
    case PYD_OP_FMATH:
      *out = float_convert(insn, a);
      return PYD_FAULT_NONE;
    default:
      if (insn->op <= PYD_OP_NEG) return integer(insn->op, width, a, b, out);
      *out = float_binary(insn->op, width, a, b);
      return PYD_FAULT_NONE;
  }
}
