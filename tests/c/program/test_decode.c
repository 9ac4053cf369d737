// links: base platform sched program
// with: double.c
// Decoding: each refusal with its text; a valid program truncated at and spoilt in every word never does harm.
#include "program/decode/reader.h"
#include "program/sample.h"
#include "program/small_pool.h"

static void refuse(builder_t* b, pyd_code_t code, const char* text) {
  pyd_span_t bytes = encode(b);
  pyd_program_t* program = NULL;
  check_refused(pyd_program_decode(bytes, &program), code, text, __FILE__, __LINE__);
  CHECK(program == NULL);
  free((void*)bytes.data);
}
#define SPOILT(...)                     \
  do {                                  \
    static builder_t b;                 \
    fn_t* f = add_function(&b, "f");    \
    const char* text;                   \
    __VA_ARGS__;                        \
    refuse(&b, PYD_CODE_CORRUPT, text); \
  } while (0)

static void accept(builder_t* b) {
  pyd_span_t bytes = encode(b);
  pyd_program_t* program = NULL;
  CHECK_OK(pyd_program_decode(bytes, &program));
  pyd_program_free(program);
  free((void*)bytes.data);
}
#define VALID(...)                   \
  do {                               \
    static builder_t b;              \
    fn_t* f = add_function(&b, "f"); \
    __VA_ARGS__;                     \
    accept(&b);                      \
  } while (0)

static void test_refusals(void) {
  uint32_t g[3] = {0, 0, 0}, d = 0;
  (void)d;
  SPOILT(op(f, PYD_OP_ADD, 64, 0, 0, 0);
         text = "function 0 ('f'): instruction 0: register 0 is read before it is written");
  SPOILT(constant(f, 1); f->registers = 0; constant(f, 1); text = "instruction 1: register 0 is written twice");
  SPOILT(constant(f, 1); op(f, PYD_OP_ADD, 64, 0, 7, 0); text = "instruction 1: register 7, the function has 2");
  SPOILT(constant(f, 1); op(f, PYD_OP_ADD, 65, 0, 0, 0); text = "opcode 16 with modifier 65 does not exist");
  SPOILT(op(f, 99, 0, 0, 0, 0); text = "opcode 99 with modifier 0 does not exist");
  SPOILT(op(f, 0, 0, 0, 0, 0); text = "opcode 0 with modifier 0");
  SPOILT(constant(f, 1); op(f, PYD_OP_CMP, 64 | 10 << 8, 0, 0, 0); text = "opcode 40 with modifier");
  SPOILT(constant(f, 1); op(f, PYD_OP_FCVT, 32, 0, 18, 0); text = "opcode 57 with modifier 32");
  SPOILT(constant(f, 1); op(f, PYD_OP_FMATH, 32, 0, 30, 0); text = "opcode 62 with modifier 32");
  VALID(constant(f, 1); op(f, PYD_OP_FNEG, 17, 0, 0, 0); op(f, PYD_OP_FCMP, 17 | 15 << 8, 0, 0, 0));
  SPOILT(constant(f, 1); op(f, PYD_OP_FCMP, 18, 0, 0, 0); text = "opcode 53 with modifier 18");
  SPOILT(constant(f, 1); op(f, PYD_OP_FCMP, 32 | 16 << 8, 0, 0, 0); text = "opcode 53 with modifier 4128");
  SPOILT(op(f, PYD_OP_DIM, 0, 0, 0, 0); text = "axis 0 of argument 0 does not exist");
  SPOILT(op(f, PYD_OP_SCALAR, 0, 0, 0, 0); text = "argument 0 is no scalar");
  SPOILT(op(f, PYD_OP_QUERY, 0, 0, 0, 0); text = "query 0, the program has 0");
  SPOILT(op(f, PYD_OP_VARIANT, 0, 3, 0, 0); text = "executable 3, the program has 0");
  SPOILT(constant(f, 1); push_all(&f->insns, 5, PYD_OP_CHECK, NONE, 0, 0, 5);
         text = "2 words at pool word 5 lie outside");
  SPOILT(constant(f, 1); push_all(&f->pool, 2, 1000, 1); push_all(&f->insns, 5, PYD_OP_CHECK, NONE, 0, 0, 0);
         text = "a message of 1 bytes at 1000 lies outside the strings");
  SPOILT(constant(f, 1); add_dispatch(f, 0, 0, g, 0, NULL, 1, (uint32_t[]){0, NONE, NONE});
         text = "buffer 0, the function has 0");
  SPOILT(constant(f, 1); add_dispatch(f, 0, 3, g, 0, NULL, 0, NULL); text = "register 3, the function has 1");
  SPOILT(constant(f, 1); add_command(f, PYD_OP_DISPATCH, 0, 0);
         text = "6 words at pool word 0 lie outside the pool of 0 words");
  SPOILT(constant(f, 1); push_all(&f->pool, 6, 0, 0, 0, 0, 65, 0); add_command(f, PYD_OP_DISPATCH, 0, 0);
         text = "65 constants, the limit is 64");
  SPOILT(constant(f, 1); push_all(&f->pool, 6, 0, 0, 0, 0, 0, 65); add_command(f, PYD_OP_DISPATCH, 0, 0);
         text = "65 bindings, the limit is 64");
  SPOILT(constant(f, 1); push_all(&f->pool, 6, 0, 0, 0, 0, 0, 2); add_command(f, PYD_OP_DISPATCH, 0, 0);
         text = "12 words at pool word 0 lie outside");
  SPOILT(constant(f, 1); add_dispatch(f, 1, 0, g, 0, NULL, 0, NULL); add_dispatch(f, 0, 0, g, 0, NULL, 0, NULL);
         text = "region 0 comes after region 1");
  SPOILT(constant(f, 1); add_dispatch(f, 1, 0, g, 0, NULL, 0, NULL); f->regions = 1;
         text = "region 1, the function has 1");
  SPOILT(constant(f, 1); d = add_buffer(f, 2, 0, 0, 1, 1); add_fill(f, 0, d, NONE, NONE, 0, 1); f->regions = 2;
         text = "region 0 uses buffer 0, which lives in regions 1 to 1");
  SPOILT(constant(f, 1); add_tensor(&b, f, F32, "", 0, NULL); add_fill(f, 0, 0, NONE, NONE, 0, 1);
         text = "buffer 0 is an argument and cannot be written");
  SPOILT(constant(f, 1); add_constant(&b, "m", 0, 4); d = add_buffer(f, 3, 0, NONE, 0, 0);
         add_copy(f, 0, d, NONE, d, NONE, 0); text = "buffer 0 is a constant and cannot be written");
  SPOILT(constant(f, 1); d = add_buffer(f, 2, 0, 0, 0, 0); add_fill(f, 0, d, NONE, NONE, 0, 3);
         text = "a fill pattern of 3 bytes, it has 1, 2, 4 or 8");
  SPOILT(add_buffer(f, 4, 0, 0, 0, 0); text = "buffer 0: kind 4");
  SPOILT(constant(f, 1); add_buffer(f, 2, 0, 0, 1, 0);
         text = "buffer 0: kind 2, index 0, size register 0, regions 1 to 0");
  SPOILT(add_buffer(f, 2, 0, 0, 0, 0); text = "buffer 0: kind 2");
  SPOILT(add_buffer(f, 3, 0, NONE, 0, 0); text = "buffer 0: kind 3");
  SPOILT(add_buffer(f, 0, 0, NONE, 0, 0); text = "buffer 0: kind 0");
  SPOILT(add_scalar_result(f, 0); text = "result 0: its register or the registers of its sizes");
  SPOILT(constant(f, 1); add_result(f, F32, 1, (uint32_t[]){4}, 0);
         text = "result 0: its buffer or the registers of its sizes");
  SPOILT(push_all(&f->args, 8, 2, F32, 0, 0, 0, 0, NONE, 0); text = "argument 0: kind 2 with rank 0");
  SPOILT(push_all(&f->args, 8, 0, F32, 33, 0, 0, 0, NONE, 0); text = "argument 0: kind 0 with rank 33");
  SPOILT(push_all(&f->args, 8, 0, 0x21000000u, 0, 0, 0, 0, NONE, 0); text = "argument 0: an element type of 0 bits");
  SPOILT(push_all(&f->args, 8, 0, F32, 1, 0, 0, 0, NONE, 0);
         text = "argument 0: its 1 sizes at pool word 0 lie outside the pool of 0 words");
  SPOILT(add_tensor(&b, f, F32, "", 1, (int64_t[]){-2}); text = "argument 0: axis 0 has size -2");
  SPOILT(push_all(&f->args, 8, 0, F32, 0, 0, 0, 0, 3, 0); text = "argument 0: buffer 3, the function has 0");
  SPOILT(f->registers = 1; text = "1 registers and 1 regions are too many for 0 instructions");
  SPOILT(f->regions = 2; text = "0 registers and 2 regions are too many");
  SPOILT((void)f; add_export(&b, 0, 0, "x", 0, 0); text = "export 0 belongs to executable 0, the program has 0");
  SPOILT((void)f; add_executable(&b, "e"); add_export(&b, 0, 0, "x", 65, 0);
         text = "export 0 has 65 constants and 0 bindings");
  SPOILT((void)f; add_executable(&b, "e"); b.executables.data[2] = 0;
         text = "executable 0: the constants are function 0, which must take one scalar and return scalars");
  SPOILT((void)f; add_executable(&b, "e"); push(&b.conditions, 1); b.executables.data[4] = 1;
         text = "executable 0: the conditions are function 1, which must take no arguments and return one scalar");
}

static uint32_t add_bare(fn_t* f) {  // a tensor argument that no command uses
  push_all(&f->args, 8, 0, F32, 0, 0, 0, 0, NONE, 0);
  return f->args.count / 8 - 1;
}

// A tensor argument of 4 bytes, and a result that may take over its memory. |*out_size|: the register of their size.
static void add_tied(builder_t* b, fn_t* f, uint32_t* out_size, uint32_t* out_result) {
  add_tensor(b, f, F32, "", 0, NULL);
  *out_size = constant(f, 4);
  *out_result = add_result(f, F32, 0, NULL, *out_size);
  f->results.data[7] = 1;
}
// A copy of argument 0 to a new buffer.
static void add_read(fn_t* f, uint32_t region, uint32_t size) {
  add_copy(f, region, 0, NONE, add_buffer(f, PYD_BUFFER_TRANSIENT, 0, size, region, region), NONE, size);
}

// What belongs together names each other, and sizes are registers that were written.
static void test_owners(void) {
  uint32_t n = 0, out = 0;
  VALID(op(f, PYD_OP_CTLZ, 64, constant(f, 1), 0, 0));
  VALID(add_bare(f); n = constant(f, 4); add_result(f, F32, 0, NULL, n));
  SPOILT(add_tensor(&b, f, F32, "", 0, NULL); push_all(&f->args, 8, 0, F32, 0, 0, 0, 0, 0, 0);
         text = "argument 1: buffer 0 is not its own");
  SPOILT(n = constant(f, 4); add_result(f, F32, 0, NULL, n); push_all(&f->results, 8, 0, F32, 0, 0, 0, 0, 0, 0);
         text = "result 1: its buffer");
  SPOILT(n = constant(f, 4); out = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, n, 0, 0);
         push_all(&f->results, 8, 0, F32, 0, 0, 0, 0, out, 0); text = "result 0: its buffer");
  SPOILT(n = constant(f, 4); add_check(&b, f, PYD_OP_CHECK, n, 0, "m"); f->registers = 2;
         add_result(f, F32, 0, NULL, 1); text = "buffer 0: kind 1, index 0, size register 1");
  SPOILT(n = constant(f, 4); add_check(&b, f, PYD_OP_CHECK, n, 0, "m"); f->registers = 2;
         add_result(f, F32, 1, (uint32_t[]){1}, n); text = "result 0: its buffer or the registers of its sizes");
  SPOILT(add_bare(f); n = constant(f, 4); add_result(f, F32, 0, NULL, n); f->results.data[7] = 1;
         text = "result 0 cannot take over the memory of argument 0");
  // Another argument may be copied to another place of it.
  VALID(add_tensor(&b, f, F32, "", 0, NULL); add_tensor(&b, f, F32, "", 0, NULL); n = constant(f, 4);
        out = add_result(f, F32, 0, NULL, n); f->results.data[7] = 1; add_copy(f, 0, 1, NONE, out, n, n));
  SPOILT(add_tensor(&b, f, F32, "", 0, NULL); n = constant(f, 4); out = add_result(f, F32, 0, NULL, n);
         f->results.data[7] = 1; add_copy(f, 0, 0, NONE, out, n, n);
         text = "result 0 cannot take over the memory of argument 0: region 0 writes the result, region 0 reads the");
  // The argument may be read before the result is written, which a copy onto itself does not; not after that.
  VALID(add_tied(&b, f, &n, &out); add_copy(f, 0, 0, NONE, out, NONE, n); add_read(f, 1, n);
        add_fill(f, 2, out, NONE, NONE, n, 4));
  SPOILT(add_tied(&b, f, &n, &out); add_copy(f, 0, 0, NONE, out, NONE, n); add_fill(f, 1, out, NONE, NONE, n, 4);
         add_fill(f, 2, out, NONE, NONE, n, 4); add_read(f, 3, n);
         text = "result 0 cannot take over the memory of argument 0: region 1 writes the result, region 3 reads the");
  SPOILT(add_tied(&b, f, &n, &out); add_fill(f, 0, out, NONE, NONE, n, 4); add_copy(f, 1, 0, NONE, out, NONE, n);
         text = "region 0 writes the result, region 1 reads the argument");
  // Two faults: the first is said.
  SPOILT((void)f; add_executable(&b, "e"); push(&b.conditions, 0); b.executables.data[2] = 0; b.executables.data[4] = 1;
         add_executable(&b, "e"); text = "executable 0: the constants are function 0");
  SPOILT((void)f; push_all(&f->args, 8, 0, F32, 1, 9, 0, 0, NONE, 0); add_bare(f);
         text = "argument 0: its 1 sizes at pool word 9");
}

// Add the records of |count| operands of host commands; returns the word of the first in the file.
static uint32_t add_operands(builder_t* b, uint32_t count, uint32_t kind, uint32_t rank) {
  uint32_t sizes = 32 + b->extra.count;
  for (uint32_t i = 0; i < 2 * rank * count; ++i) push(&b->extra, NONE);
  uint32_t operands = 32 + b->extra.count;
  for (uint32_t i = 0; i < count; ++i)
    push_all(&b->extra, 6, kind, PYD_HOST_READ, kind ? I64 : F32, rank, sizes + 2 * rank * i, 0);
  return operands;
}
// Declare the next host command. Records of commands follow one another: add all operands first.
static void declare(builder_t* b, const char* name, uint32_t operands, uint32_t count) {
  uint32_t s[2];
  add_string(b, name, s);
  uint32_t at = 32 + push_all(&b->extra, 6, s[0], s[1], operands, count, 0, 0);
  if (b->extra_tables[28 - 15]++ == 0) b->extra_tables[27 - 15] = at;
}

static void test_host_commands(void) {
  uint32_t at = 0;
  VALID((void)f; at = add_operands(&b, 64, 0, 0); add_operands(&b, 32, 1, 0); declare(&b, "c", at, 96));
  SPOILT((void)f; at = add_operands(&b, 97, 0, 0); declare(&b, "c", at, 97);
         text = "host command 0 ('c'): 97 operands, the limit is 96");
  SPOILT((void)f; at = add_operands(&b, 65, 0, 0); declare(&b, "c", at, 65);
         text = "65 tensors with 0 dimensions and 0 scalars, the limits are 64, 128 and 32");
  SPOILT((void)f; at = add_operands(&b, 33, 1, 0); declare(&b, "c", at, 33);
         text = "0 tensors with 0 dimensions and 33 scalars");
  VALID((void)f; at = add_operands(&b, 64, 0, 2); declare(&b, "c", at, 64));
  SPOILT((void)f; at = add_operands(&b, 43, 0, 3); declare(&b, "c", at, 43); text = "43 tensors with 129 dimensions");
  SPOILT((void)f; declare(&b, "c", 1 << 20, 1); text = "host command 0 ('c'): operands: 1 records at word 1048576");
  // Two faults: the first is said.
  SPOILT((void)f; at = add_operands(&b, 2, 2, 0); declare(&b, "c", at, 1); declare(&b, "d", at + 6, 1);
         text = "host command 0 ('c'): operand 0: kind 2");
  // A name outside the strings is not shown.
  SPOILT((void)f; declare(&b, "c", 0, 0); b.extra.data[1] = NONE;
         text = "host command 0 (''): the name of a host command: a string of 4294967295 bytes");
  SPOILT(f->name[1] = 1 << 20; text = "function 0 (''): the name of a function: a string of 1048576 bytes at 0");
}

// A text that hundreds of records name would be copied for each of them.
static void test_strings(void) {
  static builder_t b;
  static char text[60001];
  uint32_t s[2];
  memset(text, 'x', sizeof(text) - 1);
  add_string(&b, text, s);
  for (uint32_t i = 0; i < 200; ++i) push_all(&b.queries, 8, s[0], s[1], s[0], s[1], 0, 0, 0, 0);
  refuse(&b, PYD_CODE_CORRUPT, "strings are named again and again, 60000 bytes at 0 this time");
  pyd_program_t empty = {0};
  CHECK(!pyd_program_allocate(&empty, SIZE_MAX, 16) && !pyd_program_allocate(&empty, SIZE_MAX / 2, 2));
}

static pyd_span_t words_of(uint32_t count, uint32_t* words) { return (pyd_span_t){(const uint8_t*)words, count * 4}; }

static void test_headers(void) {
  pyd_program_t* program;
  uint32_t h[32] = {PYD_PROGRAM_MAGIC, PYD_PROGRAM_VERSION, 32};
  CHECK_OK(pyd_program_decode(words_of(32, h), &program));
  pyd_program_free(program);
  CHECK_REFUSED(pyd_program_decode(words_of(31, h), &program), CORRUPT, "a host program of 124 bytes");
  CHECK_REFUSED(pyd_program_decode((pyd_span_t){(const uint8_t*)h, 127}, &program), CORRUPT,
                "a host program of 127 bytes");
  CHECK_REFUSED(pyd_program_decode((pyd_span_t){NULL, 0}, &program), CORRUPT, "a host program of 0 bytes");
  CHECK_REFUSED(pyd_program_decode((pyd_span_t){(const uint8_t*)h, 130}, &program), CORRUPT,
                "a host program of 130 bytes");
  CHECK_REFUSED(pyd_program_decode((pyd_span_t){(const uint8_t*)h, (size_t)1 << 30}, &program), CORRUPT,
                "a host program of 1073741824 bytes");
  h[0] = 1;
  CHECK_REFUSED(pyd_program_decode(words_of(32, h), &program), CORRUPT,
                "starts with 0x50584450, this one with 0x00000001");
  h[0] = PYD_PROGRAM_MAGIC, h[1] = 1;
  CHECK_REFUSED(pyd_program_decode(words_of(32, h), &program), UNSUPPORTED,
                "version 1; this pydispatch reads versions 2 to 3");
  h[1] = 2, h[2] = 33;
  CHECK_REFUSED(pyd_program_decode(words_of(32, h), &program), CORRUPT, "of 32 words, but its header says 33");
  h[2] = 32, h[3] = 124, h[4] = 5;
  CHECK_REFUSED(pyd_program_decode(words_of(32, h), &program), CORRUPT,
                "strings: 5 bytes at 124 lie outside the 128 bytes");
  h[4] = 4, h[13] = 32, h[14] = 1;
  CHECK_REFUSED(pyd_program_decode(words_of(32, h), &program), CORRUPT, "functions: 1 records at word 32 do not fit");
  h[13] = 0;
  CHECK_REFUSED(pyd_program_decode(words_of(32, h), &program), CORRUPT, "functions: 1 records at word 0 do not fit");
  // Two functions that claim the same instructions.
  uint32_t big[32 + 40 + 5 * 10] = {PYD_PROGRAM_MAGIC, PYD_PROGRAM_VERSION, 122, [13] = 32, 2};
  for (uint32_t i = 0; i < 2; ++i) big[32 + 20 * i + 11] = 72, big[32 + 20 * i + 12] = 10, big[32 + 20 * i + 15] = 10;
  for (uint32_t i = 0; i < 10; ++i) big[72 + 5 * i] = PYD_OP_CONST, big[73 + 5 * i] = i;
  CHECK_REFUSED(pyd_program_decode(words_of(122, big), &program), CORRUPT,
                "10 records at word 72 overlap other tables");
}

// What is spoilt below does run when it is not.
static void test_sample(void) {
  pyd_span_t sample = make_sample();
  pyd_program_t* program = NULL;
  pyd_state_t* state = NULL;
  pyd_invocation_t* invocation = NULL;
  pyd_value_t value;
  _Alignas(64) static const uint8_t memory[64];
  CHECK_OK(pyd_program_decode(sample, &program));
  CHECK(pyd_program_constant(program, 0)->parameter == NONE && pyd_program_constant(program, 1)->parameter == 0);
  CHECK(pyd_program_parameter_count(program) == 1 && pyd_program_parameter(program, 0)->dims[0] == 4);
  CHECK(pyd_program_check_count(program) == 1 && pyd_program_check(program, 0)->location.length == 10);
  CHECK_REFUSED(pyd_state_create(program, NULL, sample_pool(), &state), INVALID_ARGUMENT,
                "global 'fixed': constant 1 is not linked");
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){memory, 64}));
  CHECK_OK(pyd_program_set_constant(program, 1, (pyd_span_t){memory, 16}));
  CHECK_OK(pyd_state_create(program, NULL, sample_pool(), &state));
  CHECK_OK(pyd_state_initialize(state, NULL));
  const int64_t size = 4;
  const pyd_input_t input = {memory, &size, 0};
  CHECK_OK(pyd_procedure_call(state, 1, &input, NULL, &invocation));
  CHECK(pyd_invocation_result(invocation, 0, &value) && value.dims[0] == 4 && ((const float*)value.data)[3] == 1);
  pyd_invocation_free(invocation);
  pyd_state_free(state);
  pyd_program_free(program);
  free((void*)sample.data);
}

static void test_spoilt(void) {
  pyd_span_t sample = make_sample();
  CHECK(try_program(sample, false) && try_program(sample, true));
  uint32_t count = (uint32_t)(sample.size / 4), accepted = 0, tried = 0;
  uint32_t* words = malloc(sample.size);
  for (uint32_t i = 0; i < count; ++i) {  // memory of exactly that size, so that ASAN sees a step beyond
    uint32_t* shorter = malloc((size_t)i * 4 + 1);
    memcpy(shorter, sample.data, (size_t)i * 4);
    CHECK(!try_program(words_of(i, shorter), true));
    if (i >= 16) {  // and once more with a header that agrees
      shorter[2] = i;
      try_program(words_of(i, shorter), true);
    }
    free(shorter);
  }
  for (uint32_t i = 0; i < count; ++i) {
    memcpy(words, sample.data, sample.size);
    uint32_t was = words[i];
    const uint32_t values[] = {0,
                               1,
                               2,
                               3,
                               5,
                               16,
                               64,
                               255,
                               was + 1,
                               was - 1,
                               was ^ 0x80000000u,
                               was ^ 0x10000u,
                               was * 2,
                               count,
                               count - 1,
                               0x7FFFFFFF,
                               0x80000000u,
                               0xFFFFFFFE,
                               0xFFFFFFFF};
    for (uint32_t k = 0; k < sizeof(values) / sizeof(values[0]); ++k, ++tried) {
      words[i] = values[k];
      accepted += try_program(words_of(count, words), true);
    }
  }
  printf("%u of %u spoilt programs were still valid\n", accepted, tried);
  CHECK(accepted > 0 && accepted < tried);
  free(words);
  free((void*)sample.data);
}

int main(void) {
  test_headers();
  test_refusals();
  test_owners();
  test_host_commands();
  test_strings();
  test_sample();
  test_spoilt();
  return 0;
}
