// links: base platform sched memory program
// with: double.c
// Every arithmetic instruction against 128-bit integers and the C library, over edge values and random ones.
#include <fenv.h>
#include <math.h>

#include "platform/cpu_inline.h"
#include "program/builder.h"

typedef __int128 wide_t;

static uint64_t state = 7;
static uint64_t random_word(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state ^ state >> 29;
}

static wide_t to_signed(uint64_t v, uint32_t w) {
  wide_t value = (wide_t)v & (((wide_t)1 << w) - 1);
  return value >> (w - 1) & 1 ? value - ((wide_t)1 << w) : value;
}
static wide_t to_unsigned(uint64_t v, uint32_t w) { return (wide_t)v & (((wide_t)1 << w) - 1); }
static uint64_t canonical(wide_t v, uint32_t w) { return (uint64_t)to_signed((uint64_t)v, w); }
static wide_t floor_div(wide_t a, wide_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// False when the instruction must refuse.
static bool integer_oracle(uint32_t op, uint32_t w, uint64_t a, uint64_t b, uint64_t* out) {
  wide_t sa = to_signed(a, w), sb = to_signed(b, w), ua = to_unsigned(a, w), ub = to_unsigned(b, w), r = 0;
  wide_t top = (wide_t)1 << (w - 1);
  if (op >= PYD_OP_DIVS && op <= PYD_OP_FLOORDIVS && ub == 0) return false;
  if (op == PYD_OP_MODS && ub == 0) return false;
  switch (op) {
    case PYD_OP_ADD: r = sa + sb; break;
    case PYD_OP_SUB: r = sa - sb; break;
    case PYD_OP_MUL: r = (wide_t)((unsigned __int128)sa * (unsigned __int128)sb); break;
    case PYD_OP_DIVS: r = sa / sb; break;
    case PYD_OP_DIVU: r = ua / ub; break;
    case PYD_OP_REMS: r = sa % sb; break;
    case PYD_OP_REMU: r = ua % ub; break;
    case PYD_OP_CEILDIVS: r = -floor_div(-sa, sb); break;
    case PYD_OP_CEILDIVU: r = (ua + ub - 1) / ub; break;
    case PYD_OP_FLOORDIVS: r = floor_div(sa, sb); break;
    case PYD_OP_MINS: r = sa < sb ? sa : sb; break;
    case PYD_OP_MAXS: r = sa < sb ? sb : sa; break;
    case PYD_OP_MINU: r = ua < ub ? ua : ub; break;
    case PYD_OP_MAXU: r = ua < ub ? ub : ua; break;
    case PYD_OP_AND: r = ua & ub; break;
    case PYD_OP_OR: r = ua | ub; break;
    case PYD_OP_XOR: r = ua ^ ub; break;
    case PYD_OP_SHL: r = ub >= w ? 0 : (wide_t)((unsigned __int128)ua << ub); break;
    case PYD_OP_SHRS: r = sa >> (ub >= w ? w - 1 : (uint32_t)ub); break;
    case PYD_OP_SHRU: r = ub >= w ? 0 : ua >> ub; break;
    case PYD_OP_MODS: r = sa - floor_div(sa, sb) * sb; break;
    default: r = -sa; break;
  }
  bool divides = op == PYD_OP_DIVS || op == PYD_OP_CEILDIVS || op == PYD_OP_FLOORDIVS;
  if (divides && (r >= top || r < -top)) return false;
  *out = canonical(r, w);
  return true;
}

// A function of two scalars with one instruction; the program is kept for all values.
static pyd_program_t* one_op(uint32_t opcode, uint32_t modifier, bool has_b, uint32_t b_word) {
  static builder_t b;
  fn_t* f = add_function(&b, "f");
  add_scalar(&b, f, "a");
  add_scalar(&b, f, "b");
  uint32_t x = op(f, PYD_OP_SCALAR, 0, 0, 0, 0), y = op(f, PYD_OP_SCALAR, 0, 1, 0, 0);
  add_scalar_result(f, op(f, opcode, modifier, x, has_b ? y : b_word, 0));
  return decode(&b);
}
static bool evaluate(const pyd_program_t* program, uint64_t a, uint64_t b, uint64_t* out, const char* text) {
  pyd_status_t status = pyd_program_evaluate(program, 0, (uint64_t[]){a, b}, out);
  if (pyd_ok(status)) return true;
  check_refused(status, PYD_CODE_INVALID_ARGUMENT, text, __FILE__, __LINE__);
  return false;
}

static const uint32_t kWidths[] = {1, 8, 16, 32, 64};
static uint64_t pick(uint32_t i) {
  static const uint64_t kEdges[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    63,
                                    64,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    1u << 7,
                                    (1u << 7) - 1,
                                    1u << 15,
                                    1u << 31,
                                    (1u << 31) - 1,
                                    UINT64_C(1) << 63,
                                    (UINT64_C(1) << 63) - 1};
  return i < 16 ? kEdges[i] : random_word() >> (random_word() % 64);
}

static void test_integers(void) {
  for (uint32_t opcode = PYD_OP_ADD; opcode <= PYD_OP_NEG; ++opcode) {
    for (uint32_t k = 0; k < 5; ++k) {
      uint32_t w = kWidths[k];
      pyd_program_t* program = one_op(opcode, w, opcode != PYD_OP_NEG, 0);
      for (uint32_t i = 0; i < 30; ++i) {
        for (uint32_t j = 0; j < 30; ++j) {
          uint64_t a = canonical(pick(i), w), b = canonical(pick(j), w), got = 0, expected = 0;
          bool accepts = integer_oracle(opcode, w, a, b, &expected);
          bool accepted = evaluate(program, a, b, &got, to_unsigned(b, w) ? "does not fit into" : "is divided by zero");
          if (accepts != accepted || (accepts && got != expected)) {
            fprintf(stderr, "op %u width %u: %lld, %lld: expected %d %lld, got %d %lld\n", opcode, w, (long long)a,
                    (long long)b, accepts, (long long)expected, accepted, (long long)got);
            exit(1);
          }
        }
      }
      pyd_program_free(program);
    }
  }
}

static void test_comparisons(void) {
  for (uint32_t k = 0; k < 5; ++k) {
    uint32_t w = kWidths[k];
    for (uint32_t predicate = 0; predicate < 10; ++predicate) {
      pyd_program_t* program = one_op(PYD_OP_CMP, w | predicate << 8, true, 0);
      for (uint32_t i = 0; i < 400; ++i) {
        uint64_t a = pick(i % 20), b = pick(i / 20), got;
        wide_t sa = to_signed(a, w), sb = to_signed(b, w), ua = to_unsigned(a, w), ub = to_unsigned(b, w);
        bool expected[] = {ua == ub, ua != ub, sa<sb, sa <= sb, sa> sb, sa >= sb, ua<ub, ua <= ub, ua> ub, ua >= ub};
        CHECK(evaluate(program, a, b, &got, "") && got == expected[predicate]);
      }
      pyd_program_free(program);
    }
    pyd_program_t *sext = one_op(PYD_OP_SEXT, w, false, 0), *zext = one_op(PYD_OP_ZEXT, w, false, 0);
    for (uint32_t i = 0; i < 100; ++i) {
      uint64_t a = pick(i), got;
      CHECK(evaluate(sext, a, 0, &got, "") && got == (uint64_t)to_signed(a, w));
      CHECK(evaluate(zext, a, 0, &got, "") && got == (uint64_t)to_unsigned(a, w));
    }
    pyd_program_free(sext);
    pyd_program_free(zext);
  }
}

static uint64_t f32_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}
static uint64_t f64_bits(double f) {
  uint64_t bits;
  memcpy(&bits, &f, 8);
  return bits;
}
static float f32_of(uint64_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static double f64_of(uint64_t bits) {
  double f;
  memcpy(&f, &bits, 8);
  return f;
}
static const double kFloats[] = {0.0,    -0.0,         1.0,  -1.5,  2.5, 1e30,     -1e-30,    3.7, 127.9,
                                 -128.5, 4294967296.0, 1e19, -1e19, 0.5, INFINITY, -INFINITY, NAN};
enum { FLOATS = sizeof(kFloats) / sizeof(double) };

static void expect_f32(uint64_t got, float expected) {
  CHECK(isnan(expected) ? isnan(f32_of(got)) && got >> 32 == 0 : got == f32_bits(expected));
}
static void expect_f64(uint64_t got, double expected) {
  CHECK(isnan(expected) ? isnan(f64_of(got)) : got == f64_bits(expected));
}
static double minimum(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  if (a == 0 && b == 0) return signbit(a) ? a : b;
  return a < b ? a : b;
}

static void test_floats(void) {
  for (uint32_t opcode = PYD_OP_FADD; opcode <= PYD_OP_FNEG; ++opcode) {
    if (opcode == PYD_OP_FCMP) continue;
    pyd_program_t *p32 = one_op(opcode, 32, opcode != PYD_OP_FNEG, 0),
                  *p64 = one_op(opcode, 64, opcode != PYD_OP_FNEG, 0);
    for (uint32_t i = 0; i < FLOATS * FLOATS; ++i) {
      double a = kFloats[i % FLOATS], b = kFloats[i / FLOATS];
      volatile float x = (float)a, y = (float)b;
      double r64[] = {a + b, a - b, a * b, a / b, fmod(a, b), 0, minimum(a, b), -minimum(-a, -b), -a};
      float r32[] = {x + y, x - y, x * y, x / y, fmodf(x, y), 0, (float)minimum(x, y), -(float)minimum(-x, -y), -x};
      uint64_t got;
      CHECK(evaluate(p32, f32_bits(x), f32_bits(y), &got, ""));
      expect_f32(got, r32[opcode - PYD_OP_FADD]);
      CHECK(evaluate(p64, f64_bits(a), f64_bits(b), &got, ""));
      expect_f64(got, r64[opcode - PYD_OP_FADD]);
    }
    pyd_program_free(p32);
    pyd_program_free(p64);
  }
  for (uint32_t predicate = 0; predicate < 16; ++predicate) {
    pyd_program_t *p32 = one_op(PYD_OP_FCMP, 32 | predicate << 8, true, 0),
                  *p64 = one_op(PYD_OP_FCMP, 64 | predicate << 8, true, 0);
    for (uint32_t i = 0; i < FLOATS * FLOATS; ++i) {
      double a = kFloats[i % FLOATS], b = kFloats[i / FLOATS];
      bool u = isunordered(a, b);
      // The numbers are masks: bit 0 equal, 1 greater, 2 less for ordered ones; 8 to 14 add unordered.
      bool o[] = {false, a == b,      a > b,      a >= b,      a < b,      a <= b,      islessgreater(a, b),
                  !u,    u || a == b, u || a > b, u || a >= b, u || a < b, u || a <= b, a != b,
                  u,     true};
      uint64_t got;
      CHECK(evaluate(p64, f64_bits(a), f64_bits(b), &got, "") && got == o[predicate]);
      if ((double)(float)a == a && (double)(float)b == b) {
        CHECK(evaluate(p32, f32_bits((float)a), f32_bits((float)b), &got, "") && got == o[predicate]);
      }
    }
    pyd_program_free(p32);
    pyd_program_free(p64);
  }
}

static void test_conversions(void) {
  uint64_t got;
  pyd_program_t *narrow = one_op(PYD_OP_FCVT, 32, false, 64), *widen = one_op(PYD_OP_FCVT, 64, false, 32);
  for (uint32_t i = 0; i < FLOATS; ++i) {
    CHECK(evaluate(narrow, f64_bits(kFloats[i]), 0, &got, ""));
    expect_f32(got, (float)kFloats[i]);
    CHECK(evaluate(widen, f32_bits((float)kFloats[i]), 0, &got, ""));
    expect_f64(got, (float)kFloats[i]);
  }
  pyd_program_free(narrow);
  pyd_program_free(widen);
  for (uint32_t k = 0; k < 5; ++k) {
    uint32_t w = kWidths[k];
    pyd_program_t* p[8] = {one_op(PYD_OP_SITOFP, 32, false, w), one_op(PYD_OP_SITOFP, 64, false, w),
                           one_op(PYD_OP_UITOFP, 32, false, w), one_op(PYD_OP_UITOFP, 64, false, w),
                           one_op(PYD_OP_FPTOSI, w, false, 32), one_op(PYD_OP_FPTOSI, w, false, 64),
                           one_op(PYD_OP_FPTOUI, w, false, 32), one_op(PYD_OP_FPTOUI, w, false, 64)};
    for (uint32_t i = 0; i < 100; ++i) {
      uint64_t a = pick(i);
      wide_t s = to_signed(a, w), u = to_unsigned(a, w);
      CHECK(evaluate(p[0], a, 0, &got, "") && got == f32_bits((float)s));
      CHECK(evaluate(p[1], a, 0, &got, "") && got == f64_bits((double)s));
      CHECK(evaluate(p[2], a, 0, &got, "") && got == f32_bits((float)u));
      CHECK(evaluate(p[3], a, 0, &got, "") && got == f64_bits((double)u));
    }
    for (uint32_t i = 0; i < FLOATS; ++i) {
      for (uint32_t is64 = 0; is64 < 2; ++is64) {
        double v = is64 ? kFloats[i] : (double)(float)kFloats[i];
        uint64_t bits = is64 ? f64_bits(v) : f32_bits((float)v);
        wide_t low = -((wide_t)1 << (w - 1)), high = ((wide_t)1 << (w - 1)) - 1, all = ((wide_t)1 << w) - 1;
        wide_t t = isnan(v) ? 0 : v > 1e25 ? (wide_t)1 << 80 : v < -1e25 ? -((wide_t)1 << 80) : (wide_t)v;
        wide_t s = t < low ? low : t > high ? high : t, u = t < 0 ? 0 : t > all ? all : t;
        CHECK(evaluate(p[4 + is64], bits, 0, &got, "") && got == canonical(s, w));
        CHECK(evaluate(p[6 + is64], bits, 0, &got, "") && got == canonical(u, w));
      }
    }
    for (uint32_t i = 0; i < 8; ++i) pyd_program_free(p[i]);
  }
  double (*const functions[])(double) = {sqrt, exp, log, floor, ceil, fabs, tanh, sin, cos};
  float (*const functions32[])(float) = {sqrtf, expf, logf, floorf, ceilf, fabsf, tanhf, sinf, cosf};
  for (uint32_t k = 0; k < 9; ++k) {
    pyd_program_t *p64 = one_op(PYD_OP_FMATH, 64, false, k), *p32 = one_op(PYD_OP_FMATH, 32, false, k);
    for (uint32_t i = 0; i < FLOATS; ++i) {
      CHECK(evaluate(p64, f64_bits(kFloats[i]), 0, &got, ""));
      expect_f64(got, functions[k](kFloats[i]));
      CHECK(evaluate(p32, f32_bits((float)kFloats[i]), 0, &got, ""));
      expect_f32(got, functions32[k]((float)kFloats[i]));
    }
    pyd_program_free(p64);
    pyd_program_free(p32);
  }
}

typedef struct rounded_s {
  uint32_t op, format, from;  // FCVT and SITOFP: |from| is the format or width of the operand
  uint64_t a, b, expected;
} rounded_t;

// Sets one of several floating-point modes of this thread. Returns false for the number after the last one.
static bool set_mode(uint32_t number) {
  static const int kRounding[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  if (number < 4) return fesetround(kRounding[number]) == 0;
#ifdef __x86_64__
  if (number == 4) {
    pyd_cpu_set_fp_mode(pyd_cpu_fp_mode() | 0x8040);  // flush subnormal results to zero, read subnormal numbers as zero
    return true;
  }
#endif
  return false;
}

// Results are rounded to nearest even and subnormal numbers are kept, in each mode of the caller, which stays as it is.
static void test_modes_of_callers(void) {
  static const rounded_t kCases[] = {
      {PYD_OP_FADD, 32, 0, 0x3F800000, 0x30800000, 0x3F800000},  // f32: 1 + 2^-30
      {PYD_OP_FADD, 32, 0, 0x3F800000, 0xB0800000, 0x3F800000},  // 1 - 2^-30
      {PYD_OP_FMUL, 32, 0, 0x00800000, 0x3F000000, 0x00400000},  // 2^-126 / 2, subnormal
      {PYD_OP_FADD, 32, 0, 0x00400000, 0x00400000, 0x00800000},
      {PYD_OP_FDIV, 64, 0, 0x3FF0000000000000, 0x4008000000000000, 0x3FD5555555555555},  // f64: 1 / 3
      {PYD_OP_FDIV, 64, 0, 0xC000000000000000, 0x4008000000000000, 0xBFE5555555555555},  // -2 / 3
      {PYD_OP_FADD, 16, 0, 0x3C00, 0x1000, 0x3C00},                                      // f16: 1 + 2^-11, a tie
      {PYD_OP_FADD, 16, 0, 0x3C01, 0x1000, 0x3C02},                                      // 1 + 2^-10 + 2^-11, a tie
      {PYD_OP_FADD, 17, 0, 0x3F80, 0x3B80, 0x3F80},                                      // bf16: 1 + 2^-8, a tie
      {PYD_OP_FADD, 17, 0, 0x0040, 0x0040, 0x0080},                                      // 2^-127 + 2^-127
      {PYD_OP_FCVT, 32, 64, 0x3FB999999999999A, 0, 0x3DCCCCCD},                          // 0.1
      {PYD_OP_FCVT, 16, 64, 0xBFB999999999999A, 0, 0xAE66},                              // -0.1
      {PYD_OP_SITOFP, 32, 64, (uint64_t)-16777217, 0, 0xCB800000},                       // -2^24 - 1, a tie
      {PYD_OP_SITOFP, 64, 64, INT64_MAX, 0, 0x43E0000000000000},                         // 2^63
      {PYD_OP_UITOFP, 16, 64, 2049, 0, 0x6800},                                          // 2048
      {PYD_OP_UITOFP, 16, 64, 2051, 0, 0x6802},                                          // 2052
  };
  const uint64_t own = pyd_cpu_fp_mode();
  for (uint32_t number = 0; set_mode(number); ++number) {
    const uint64_t mode = pyd_cpu_fp_mode();
    for (size_t i = 0; i < sizeof(kCases) / sizeof(*kCases); ++i) {
      const rounded_t* c = &kCases[i];
      pyd_program_t* program = one_op(c->op, c->format, c->op < PYD_OP_FCVT, c->from);
      uint64_t got = 0;
      CHECK(evaluate(program, c->a, c->b, &got, ""));
      if (got != c->expected) {
        fprintf(stderr, "mode %u, case %zu: expected %llx, got %llx\n", number, i, (unsigned long long)c->expected,
                (unsigned long long)got);
        exit(1);
      }
      pyd_program_free(program);
    }
    CHECK(pyd_cpu_fp_mode() == mode);
    CHECK(fesetround(FE_TONEAREST) == 0);
    pyd_cpu_set_fp_mode(own);
  }
}

// Every row of the table that computes a value does: no opcode is refused, and none is left out of the arithmetic.
static void test_every_opcode(void) {
  static const uint32_t kModifiers[] = {[PYD_FIELD_WIDTH] = 8,
                                        [PYD_FIELD_FORMAT] = 16,
                                        [PYD_FIELD_WIDTH_PREDICATE] = 64,
                                        [PYD_FIELD_FORMAT_PREDICATE] = 64,
                                        [PYD_FIELD_FUNCTION] = 10};
  uint32_t count = 0;
  for (uint32_t opcode = 0; opcode < PYD_OPCODE_COUNT; ++opcode) {
    const pyd_opcode_t* row = &pyd_opcodes[opcode];
    if (row->class != PYD_CLASS_INTEGER && row->class != PYD_CLASS_DIVISION && row->class != PYD_CLASS_FLOAT) continue;
    pyd_program_t* program =
        one_op(opcode, kModifiers[row->modifier], row->registers & PYD_OPERAND_B, kModifiers[row->b]);
    uint64_t got;
    CHECK(evaluate(program, 5, 3, &got, ""));
    pyd_program_free(program);
    ++count;
  }
  CHECK(count > 50);
}

int main(void) {
  test_every_opcode();
  test_integers();
  test_comparisons();
  test_floats();
  test_conversions();
  test_modes_of_callers();
  return 0;
}
