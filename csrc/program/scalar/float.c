// Floating-point arithmetic of host programs, in the mode that interpret.c sets: to nearest even, with subnormal
// numbers. f16 and bf16 are computed in f32 and rounded. For sums, products, quotients and roots that equals rounding
// the exact result once, as f32 has more than twice their digits.
#include <math.h>
#include <string.h>

#include "program/scalar/arith.h"

// Returns the f32 whose bits are in the lower half of a register.
static float f32_of_bits(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float f;
  memcpy(&f, &low, sizeof(f));
  return f;
}
// Returns the f64 whose bits a register has.
static double f64_of_bits(uint64_t bits) {
  double f;
  memcpy(&f, &bits, sizeof(f));
  return f;
}
// Returns the bits of an f32; the upper half of the register is zero.
static uint64_t bits_of_f32(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}
// Returns the bits of an f64.
static uint64_t bits_of_f64(double f) {
  uint64_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

// Decodes 1 bit of sign, 5 of exponent (biased by 15) and 10 of mantissa.
static double as_f16(uint64_t bits) {
  uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  // Subnormal: mantissa * 2^-24. Normal: (1024 + mantissa) * 2^(exponent - 25). The exponent 31: infinity, or a NaN.
  double value = exponent == 0    ? ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                  : ldexp(1024 + mantissa, (int)exponent - 25);
  return bits & 0x8000 ? -value : value;
}

// Rounds to nearest even and encodes a 16-bit float with |digits| mantissa bits after the binary point and the smallest
// normal exponent |min_exponent|. |infinity| and |nan|: the encodings of these values.
static uint64_t narrow(double value, int digits, int min_exponent, uint32_t infinity, uint32_t nan) {
  uint64_t negative = signbit(value) ? UINT64_C(0x8000) : 0;
  double magnitude = fabs(value);
  if (isnan(value)) return negative | nan;
  if (isinf(value)) return negative | infinity;
  if (magnitude == 0) return negative;
  int exponent;
  frexp(magnitude, &exponent);                                   // magnitude = [0.5, 1) * 2^exponent
  if (exponent - 1 < min_exponent) exponent = min_exponent + 1;  // subnormal: steps as of the smallest normal number
  // In units of the last mantissa bit; exact before it is rounded. A normal number has 2^digits steps or more, as its
  // leading 1 is among them; a subnormal one has fewer.
  double steps = nearbyint(ldexp(magnitude, digits - exponent + 1));
  // The leading 1, and a carry out of the mantissa, add 1 to the exponent field: so this field is 0 for a subnormal
  // number, and 1 for the smallest normal one.
  double code = (double)(exponent - 1 - min_exponent) * ldexp(1, digits) + steps;
  return negative | (code >= infinity ? infinity : (uint64_t)code);
}

// Decodes a register with a float of |format|, exactly.
static double load(uint32_t format, uint64_t bits) {
  switch (format) {
    case PYD_F16: return as_f16(bits);
    case PYD_BF16: return f32_of_bits((bits & 0xFFFF) << 16);
    case PYD_F32: return f32_of_bits(bits);
    default: return f64_of_bits(bits);
  }
}
// Rounds |value| to |format| and encodes it for a register.
static uint64_t store(uint32_t format, double value) {
  switch (format) {
    // narrow(value, digits, min_exponent, infinity, nan)
    case PYD_F16: return narrow(value, 10, -14, 0x7C00, 0x7E00);
    case PYD_BF16: return narrow(value, 7, -126, 0x7F80, 0x7FC0);
    case PYD_F32: return bits_of_f32((float)value);
    default: return bits_of_f64(value);
  }
}

// Converts an integer, signed if |negative|, to a double, rounding to odd: bits that do not fit set the lowest bit that
// does. Rounding the result to a narrower format then equals rounding the integer once.
static double round_to_odd(bool negative, uint64_t bits) {
  uint64_t magnitude = negative ? 0 - bits : bits;
  // A double holds 53 bits, 11 fewer than an integer: bit 11 is set in place of the lower bits that are cleared.
  if (magnitude >> 53) magnitude = (magnitude & ~UINT64_C(2047)) | (magnitude & 2047 ? 2048 : 0);
  return negative ? -(double)magnitude : (double)magnitude;
}

// Returns whether the predicate of arith.cmpf with this number (0 to 15) holds: 1 to 6 are ordered, false for a NaN; 8
// to 13 are unordered, true for a NaN; 7 is true without a NaN, 14 with one.
static bool compare(uint32_t predicate, double a, double b) {
  bool unordered = isnan(a) || isnan(b);
  switch (predicate) {
    case 0: return false;
    // Ordered predicates; comparisons of C are false for a NaN, but for !=.
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

// Returns the minimum or maximum of IEEE 754-2019: -0 is less than +0. A NaN operand makes the result NaN, or with
// |skips_nan| is ignored in favour of a number.
static double extreme(double a, double b, bool want_max, bool skips_nan) {
  if (skips_nan && isnan(a) != isnan(b)) return isnan(a) ? b : a;
  if (isnan(a) || isnan(b)) return a + b;  // a NaN
  // Equal: the same number, or zeros, of which the maximum is the one without a sign.
  if (a == b) return (signbit(a) != 0) == want_max ? b : a;
  return (a < b) == want_max ? b : a;
}

// Rounds to the nearest integer, ties to even.
static double round_even(double x) {
  double integer = floor(x), fraction = x - integer;
  if (fraction > 0.5 || (fraction == 0.5 && fmod(integer, 2) != 0)) integer += 1;
  return copysign(integer, x);  // -0.3 becomes -0
}

static float round_evenf(float x) { return (float)round_even(x); }

static double inverse_root(double x) { return 1 / sqrt(x); }
static float inverse_rootf(float x) { return (float)(1 / sqrt((double)x)); }

// Computes the function of the opcode FMATH with the number |function| (PYD_MATH_FUNCTIONS) in f64.
static double math_f64(uint32_t function, double x) {
  switch (function) {
#define X(number, name, f64, f32) \
  case number: return f64(x);
    PYD_MATH_FUNCTIONS(X)
#undef X
    default: return x;  // does not exist, see pyd_insn_is_valid
  }
}
// Computes the function of the opcode FMATH with the number |function| (PYD_MATH_FUNCTIONS) in f32.
static float math_f32(uint32_t function, float x) {
  switch (function) {
#define X(number, name, f64, f32) \
  case number: return f32(x);
    PYD_MATH_FUNCTIONS(X)
#undef X
    default: return x;  // does not exist, see pyd_insn_is_valid
  }
}

// Converts to a signed integer of |width| bits, towards zero; saturates, and converts NaN to 0. The limits are powers
// of two, which are exact in a double, so the comparisons decide every case.
static uint64_t to_signed(double value, uint32_t width) {
  double limit = ldexp(1.0, (int)width - 1);
  if (isnan(value)) return 0;
  if (value >= limit) return (uint64_t)(INT64_MAX >> (64 - width));
  if (value <= -limit) return (uint64_t)(INT64_MIN >> (64 - width));
  return (uint64_t)(int64_t)value;
}
// Converts to an unsigned integer of |width| bits, towards zero; saturates, so that negative values become 0, and
// converts NaN to 0. The result is sign-extended, as registers hold integers.
static uint64_t to_unsigned(double value, uint32_t width) {
  if (isnan(value) || value <= 0) return 0;
  uint64_t result = value >= ldexp(1.0, (int)width) ? UINT64_MAX : (uint64_t)value;
  return (uint64_t)sign_extend(result, width);
}

// Computes opcode |op| of up to three operands in f32. Returns false for an opcode that is not listed.
static bool compute_f32(uint32_t op, float x, float y, float z, float* out) {
  switch (op) {
    case PYD_OP_FADD: *out = x + y; return true;
    case PYD_OP_FSUB: *out = x - y; return true;
    case PYD_OP_FMUL: *out = x * y; return true;
    case PYD_OP_FDIV: *out = x / y; return true;
    case PYD_OP_FREM: *out = fmodf(x, y); return true;
    case PYD_OP_FPOW: *out = powf(x, y); return true;
    case PYD_OP_FATAN2: *out = atan2f(x, y); return true;
    case PYD_OP_FMA: *out = fmaf(x, y, z); return true;
    default: return false;
  }
}
// Computes opcode |op| of up to three operands in f64. Returns false for an opcode that is not listed.
static bool compute_f64(uint32_t op, double x, double y, double z, double* out) {
  switch (op) {
    case PYD_OP_FADD: *out = x + y; return true;
    case PYD_OP_FSUB: *out = x - y; return true;
    case PYD_OP_FMUL: *out = x * y; return true;
    case PYD_OP_FDIV: *out = x / y; return true;
    case PYD_OP_FREM: *out = fmod(x, y); return true;
    case PYD_OP_FPOW: *out = pow(x, y); return true;
    case PYD_OP_FATAN2: *out = atan2(x, y); return true;
    case PYD_OP_FMA: *out = fma(x, y, z); return true;
    default: return false;
  }
}

// Returns the mask of the sign bit of a float of |format|: the highest of its 16, 32 or 64 bits.
static uint64_t bit_of_sign(uint32_t format) { return UINT64_C(1) << (format <= PYD_BF16 ? 15 : format - 1); }
// Returns the bits of a float in a register, without bits above its width. The format of f32 and f64 is their width.
static uint64_t bits_of(uint32_t format, uint64_t word) {
  return format == 64 ? word : zero_extend(word, format <= PYD_BF16 ? 16 : format);
}

// Computes a * b + c of 16-bit floats for a single final rounding. The product is exact in f64. Its sum with c is
// rounded to odd, so that rounding it again to 16 bits gives the correctly rounded result.
static double fma_exact(double a, double b, double c) {
  double product = a * b, sum = product + c;
  // What the addition rounded away, exactly (Knuth's two-sum).
  double error = isfinite(sum) ? (product - (sum - (sum - product))) + (c - (sum - product)) : 0;
  uint64_t bits = bits_of_f64(sum);
  // Rounding to odd: an inexact sum whose lowest bit is even becomes the neighbour on the side of the exact value.
  if (error == 0 || !isfinite(sum) || bits & 1) return sum;
  bool is_larger = (error > 0) == !signbit(sum);  // the exact value is farther from zero
  return f64_of_bits(is_larger ? bits + 1 : bits - 1);
}

// Converts an integer, signed if |negative|, to a float of |format|, rounded once.
static uint64_t from_integer(uint32_t format, bool negative, uint64_t bits) {
  // Directly from the integer to f32, as large integers would be rounded twice by way of f64.
  if (format == PYD_F32) return bits_of_f32(negative ? (float)(int64_t)bits : (float)bits);
  if (format == PYD_F64) return bits_of_f64(negative ? (double)(int64_t)bits : (double)bits);
  return store(format, round_to_odd(negative, bits));
}

// Computes an operation whose operands and result all have the format of its modifier. Returns PYD_FAULT_NO_RULE if it
// is none of those that this file computes.
static pyd_fault_t compute(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t c, uint64_t* out) {
  const uint32_t format = insn->modifier;
  if (insn->op == PYD_OP_FMA && format <= PYD_BF16) {
    *out = store(format, fma_exact(load(format, a), load(format, b), load(format, c)));
    return PYD_FAULT_NONE;
  }
  double wide = 0;
  float single = 0;
  bool is_known = format == PYD_F64 ? compute_f64(insn->op, f64_of_bits(a), f64_of_bits(b), f64_of_bits(c), &wide)
                                    : compute_f32(insn->op, (float)load(format, a), (float)load(format, b),
                                                  (float)load(format, c), &single);
  *out = format == PYD_F64 ? bits_of_f64(wide) : store(format, single);
  return is_known ? PYD_FAULT_NONE : PYD_FAULT_NO_RULE;
}

// Computes |*out|, the value of a float instruction for its operands; an operand that it does not have is 0.
pyd_fault_t pyd_arith_float(const pyd_insn_t* insn, uint64_t a, uint64_t b, uint64_t c, uint64_t* out) {
  // |format|: of the result, or of the operands of FCMP; of FPTOSI and FPTOUI the width of the result. |from|: format
  // or width of the operand of a conversion; of FMATH the number of the function.
  const uint32_t format = insn->modifier & 0xFF, from = insn->b;
  switch (insn->op) {
    case PYD_OP_FCMP: *out = compare(insn->modifier >> 8, load(format, a), load(format, b)); break;
    // extreme(a, b, want_max, skips_nan)
    case PYD_OP_FMIN: *out = store(format, extreme(load(format, a), load(format, b), false, false)); break;
    case PYD_OP_FMAX: *out = store(format, extreme(load(format, a), load(format, b), true, false)); break;
    case PYD_OP_FMINNUM: *out = store(format, extreme(load(format, a), load(format, b), false, true)); break;
    case PYD_OP_FMAXNUM: *out = store(format, extreme(load(format, a), load(format, b), true, true)); break;
    case PYD_OP_FNEG: *out = bits_of(format, a) ^ bit_of_sign(format); break;
    case PYD_OP_FCOPYSIGN: *out = (bits_of(format, a) & ~bit_of_sign(format)) | (b & bit_of_sign(format)); break;
    case PYD_OP_FCVT: *out = format == from ? bits_of(format, a) : store(format, load(from, a)); break;
    case PYD_OP_SITOFP: *out = from_integer(format, sign_extend(a, from) < 0, (uint64_t)sign_extend(a, from)); break;
    case PYD_OP_UITOFP: *out = from_integer(format, false, zero_extend(a, from)); break;
    case PYD_OP_FPTOSI: *out = to_signed(load(from, a), format); break;
    case PYD_OP_FPTOUI: *out = to_unsigned(load(from, a), format); break;
    case PYD_OP_FMATH:
      *out = format == PYD_F64 ? bits_of_f64(math_f64(from, f64_of_bits(a)))
                               : store(format, math_f32(from, (float)load(format, a)));
      break;
    default: return compute(insn, a, b, c, out);
  }
  return PYD_FAULT_NONE;
}
