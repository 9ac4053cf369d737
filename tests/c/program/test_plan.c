// links: base platform sched memory program
// with: double.c
// Linking and specializing: sizes, keys, grids, ranges, alignment, descriptions, and every refusal with its text.
#include "program/builder.h"
#include "program/plan/plan.h"

static int32_t k_none(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  return 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_none, k_none};
static const pyd_library_export_attrs_t kAttrs[] = {{.constant_count = 1, .binding_count = 2}, {.binding_count = 1}};
static const char* const kNames[] = {"pair", "single"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 2, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

static void test_linking(void) {
  static builder_t b;
  uint32_t e = add_executable(&b, "exe"), other = add_executable(&b, "other");
  add_export(&b, e, 1, "pair", 1, 2);  // another ordinal: found by name
  add_export(&b, other, 1, "", 0, 1);  // without a name: by ordinal
  uint32_t q = add_query(&b, "hal.device.id", "cpu*", UINT64_C(0x500000007));
  fn_t* f = add_function(&b, "f");
  add_scalar_result(f, op(f, PYD_OP_QUERY, 0, q, 0, 0));
  add_scalar_result(f, op(f, PYD_OP_QUERY, 1, q, 0, 0));
  fn_t* g = add_function(&b, "g");
  add_scalar_result(g, op(g, PYD_OP_VARIANT, 0, other, 0, 0));
  fn_t* h = add_function(&b, "h");
  add_tensor(&b, h, F32, "", 0, NULL);
  pyd_program_t* p = decode(&b);
  CHECK(pyd_program_executable_count(p) == 2 && pyd_program_query_count(p) == 1 && pyd_program_function_count(p) == 3);
  CHECK(pyd_program_executable(p, 2) == NULL && pyd_program_query(p, 1) == NULL && pyd_program_constant(p, 0) == NULL);
  CHECK(memcmp(pyd_program_query(p, 0)->key.data, "cpu*", 4) == 0 && pyd_program_query(p, 0)->category.length == 13);
  CHECK(pyd_program_function(p, 0)->is_public && pyd_program_function(p, 3) == NULL);
  uint64_t out[2];
  CHECK_OK(pyd_program_evaluate(p, 0, NULL, out));
  CHECK(out[0] == UINT64_C(0x500000007) && out[1] == 0);
  pyd_program_set_query(p, 0, true, 42);
  CHECK_OK(pyd_program_evaluate(p, 0, NULL, out));
  CHECK(out[0] == 42 && out[1] == 1);
  CHECK_REFUSED(pyd_program_evaluate(p, 1, NULL, out), INVALID_ARGUMENT,
                "function 'g' asks for the variant of executable 'other', which is not linked");
  CHECK_REFUSED(pyd_program_evaluate(p, 2, NULL, out), INVALID_ARGUMENT, "function 'h' works on tensors");
  CHECK_REFUSED(pyd_program_evaluate(p, 3, NULL, out), INVALID_ARGUMENT,
                "function 3 does not exist, the program has 3");
  CHECK_OK(pyd_program_set_executable(p, 0, &kExecutable, 0, 4));
  CHECK_OK(pyd_program_set_executable(p, 1, &kExecutable, 3, 64));
  CHECK_OK(pyd_program_evaluate(p, 1, NULL, out));
  CHECK(out[0] == 3);
  CHECK_REFUSED(pyd_program_set_executable(p, 2, &kExecutable, 0, 4), INVALID_ARGUMENT, "executable 2 does not exist");
  CHECK_REFUSED(pyd_program_set_executable(p, 0, &kExecutable, 0, 128), UNSUPPORTED,
                "executable 'exe' wants its bindings aligned to 128 bytes");
  CHECK_REFUSED(pyd_program_set_executable(p, 0, &kExecutable, 0, 48), UNSUPPORTED, "aligned to 48 bytes");
  CHECK_REFUSED(pyd_program_set_constant(p, 0, (pyd_span_t){0}), INVALID_ARGUMENT, "constant 0 does not exist");
  pyd_program_free(p);

  e = add_executable(&b, "exe");
  add_export(&b, e, 0, "absent", 1, 2);
  p = decode(&b);
  CHECK_REFUSED(pyd_program_set_executable(p, 0, &kExecutable, 0, 4), CORRUPT,
                "executable 'exe' has no export 'absent': its library has 2 exports, number 0 is 'pair'");
  pyd_program_free(p);

  e = add_executable(&b, "exe");
  add_export(&b, e, 0, "pair and more", 1, 2);
  b.strings[b.string_bytes - 9] = 0;  // a zero inside, where the name of the library ends
  p = decode(&b);
  CHECK_REFUSED(pyd_program_set_executable(p, 0, &kExecutable, 0, 4), CORRUPT, "executable 'exe' has no export 'pair'");
  pyd_program_free(p);
  e = add_executable(&b, "exe");
  add_export(&b, e, 0, "pair", 2, 2);
  p = decode(&b);
  CHECK_REFUSED(pyd_program_set_executable(p, 0, &kExecutable, 0, 4), CORRUPT,
                "the program passes 2 constants and 2 bindings, the library takes 1 and 2");
  pyd_program_free(p);
  pyd_program_free(NULL);
}

// Dispatch 'pair' with everything from scalars: grid, offsets and lengths of its two bindings.
static pyd_program_t* open_dispatch(uint32_t alignment, bool is_linked) {
  static builder_t b;
  uint32_t e = add_executable(&b, "exe");
  add_export(&b, e, 0, "pair", 1, 2);
  add_export(&b, e, 1, "single", 0, 1);
  fn_t* f = add_function(&b, "f");
  const int64_t dims[] = {-1, 4};
  add_tensor(&b, f, F32, "a", 2, dims);
  uint32_t s[8];
  for (uint32_t i = 0; i < 8; ++i) s[i] = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "s"), 0, 0);
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), four = constant(f, 4);
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 16), 0);
  uint32_t r = add_result(f, F32, 2, (uint32_t[]){n, four}, bytes);
  add_dispatch(f, 0, s[7], s, 1, &n, 2, (uint32_t[]){0, s[3], s[4], r, s[5], s[6]});
  pyd_program_t* p = decode(&b);
  if (is_linked) CHECK_OK(pyd_program_set_executable(p, 0, &kExecutable, 0, alignment));
  return p;
}

static void test_dispatches(void) {
  pyd_program_t* p = open_dispatch(16, true);
  pyd_plan_t* plan = NULL;
  char text[200];
#define TRY(n, ...) pyd_plan_create(p, 0, (int64_t[]){n, 4}, (uint64_t[]){__VA_ARGS__}, &plan)
  CHECK_OK(TRY(10, 4, 3, 2, 16, 32, 64, 96, 0));
  CHECK(pyd_plan_command_count(plan) == 1);
  CHECK_OK(pyd_plan_describe(plan, 0, text, sizeof(text)));
  CHECK(strcmp(text, "region 0: dispatch @exe::@pair 4x3x2") == 0);
  CHECK_REFUSED(pyd_plan_describe(plan, 1, text, sizeof(text)), INVALID_ARGUMENT,
                "command 1 does not exist, the plan has 1");
  CHECK(pyd_plan_result_dims(plan, 0)[0] == 10 && pyd_plan_result_dims(plan, 0)[1] == 4 &&
        pyd_plan_result_bytes(plan, 0) == 160);
  CHECK(pyd_plan_arg_alignment(plan, 0) == 16 && pyd_plan_result_alignment(plan, 0) == 16 &&
        pyd_plan_arg_alignment(plan, 1) == 1);
  CHECK(plan->slots[0].offset == 16 && plan->slots[0].length == 32 && plan->slots[1].length == 96);
  CHECK(!pyd_plan_matches(plan, (int64_t[]){11, 4}, (uint64_t[]){4, 3, 2, 16, 32, 64, 96, 0}));
  CHECK(pyd_plan_matches(plan, (int64_t[]){10, 4}, (uint64_t[]){4, 3, 2, 16, 32, 64, 96, 0}));
  for (uint32_t i = 0; i < 8; ++i) {  // every one of them is part of the key
    uint64_t scalars[] = {4, 3, 2, 16, 32, 64, 96, 0};
    ++scalars[i];
    CHECK(!pyd_plan_matches(plan, (int64_t[]){10, 4}, scalars));
  }
  pyd_plan_free(plan);
  CHECK_OK(TRY(0, 0, 3, 2, 160, 32, 64, 96, 0));  // an empty grid: its ranges need not make sense
  CHECK(plan->step_count == 0);
  pyd_plan_free(plan);
  CHECK_OK(TRY(10, UINT32_MAX, 1, UINT16_MAX, 0, 160, 0, 160, 0));
  pyd_plan_free(plan);
  CHECK_REFUSED(
      TRY(10, UINT64_C(1) << 32, 1, 1, 0, 160, 0, 160, 0), INVALID_ARGUMENT,
      "function 'f', @exe::@pair: a grid of 4294967296 x 1 x 1 workgroups, at most 4294967295 x 4294967295 x 65535");
  CHECK_REFUSED(TRY(10, 1, UINT64_C(1) << 32, 1, 0, 160, 0, 160, 0), INVALID_ARGUMENT, "1 x 4294967296 x 1");
  CHECK_REFUSED(TRY(10, 1, 1, 65536, 0, 160, 0, 160, 0), INVALID_ARGUMENT, "1 x 1 x 65536");
  CHECK_REFUSED(TRY(10, (uint64_t)-1, 1, 1, 0, 160, 0, 160, 0), INVALID_ARGUMENT, "a grid of -1 x 1 x 1");
  CHECK_REFUSED(TRY(10, UINT32_MAX, UINT32_MAX, 2, 0, 160, 0, 160, 0), INVALID_ARGUMENT,
                "has more than 2^64 workgroups");
  CHECK_REFUSED(
      TRY(10, 1, 1, 1, 32, 144, 0, 160, 0), INVALID_ARGUMENT,
      "function 'f', @exe::@pair, binding 0: 144 bytes at offset 32 lie outside the 160 bytes of argument 0 'a'");
  CHECK_REFUSED(TRY(10, 1, 1, 1, 0, 160, 176, 0, 0), INVALID_ARGUMENT,
                "binding 1: 0 bytes at offset 176 lie outside the 160 bytes of result 0");
  CHECK_REFUSED(TRY(10, 1, 1, 1, (uint64_t)-16, 32, 0, 160, 0), INVALID_ARGUMENT, "32 bytes at offset -16 lie outside");
  CHECK_REFUSED(TRY(10, 1, 1, 1, 0, (uint64_t)-1, 0, 160, 0), INVALID_ARGUMENT, "-1 bytes at offset 0 lie outside");
  CHECK_OK(TRY(10, 1, 1, 1, 8, 32, 4, 100, 0));  // bindings that are not aligned: copied to the arena, the result back
  CHECK(plan->command_count == 4 && plan->step_count == 3 && plan->arena_bytes == 192 && plan->stage_offset == 0);
  static const char* const kStaged[] = {
      "region 0: copy 32 bytes at 8 of argument 0 'a' to 0 of the aligned copies",
      "region 0: copy 100 bytes at 4 of result 0 to 64 of the aligned copies",
      "region 1: dispatch @exe::@pair 1x1x1",
      "region 2: copy 100 bytes at 64 of the aligned copies to 4 of result 0",
  };
  for (uint32_t i = 0; i < 4; ++i) {
    CHECK_OK(pyd_plan_describe(plan, i, text, sizeof(text)));
    CHECK(strcmp(text, kStaged[i]) == 0);
  }
  CHECK(pyd_plan_arg_alignment(plan, 0) == 1 && pyd_plan_result_alignment(plan, 0) == 1);
  pyd_plan_free(plan);
  CHECK_REFUSED(TRY(10, 1, 1, 1, 0, 160, 0, 160, 2), INVALID_ARGUMENT, "command 0: export 2, the program has 2");
  CHECK_REFUSED(TRY(10, 1, 1, 1, 0, 160, 0, 160, 1), CORRUPT,
                "@exe::@single takes 0 constants and 1 bindings, got 1 and 2");
  CHECK_REFUSED(TRY(-2, 1, 1, 1, 0, 160, 0, 160, 0), INVALID_ARGUMENT,
                "@f: argument 0 'a': axis 0 has the negative size -2");
  CHECK_REFUSED(pyd_plan_create(p, 0, (int64_t[]){10, 5}, (uint64_t[8]){0}, &plan), INVALID_ARGUMENT,
                "@f: argument 0 'a': axis 1: expected 4 elements, got 5");
  CHECK_REFUSED(TRY(INT64_MAX / 8, 1, 1, 1, 0, 160, 0, 160, 0), INVALID_ARGUMENT,
                "@f: argument 0 'a': its sizes multiply to more than 2^63 bytes");
  CHECK_REFUSED(pyd_plan_create(p, 1, NULL, NULL, &plan), INVALID_ARGUMENT,
                "function 1 does not exist, the program has 1");
  CHECK(plan == NULL);
  pyd_program_free(p);
  p = open_dispatch(16, false);
  CHECK_REFUSED(TRY(10, 1, 1, 1, 0, 160, 0, 160, 0), INVALID_ARGUMENT,
                "function 'f', command 0: executable 'exe' is not linked");
  pyd_program_free(p);
#undef TRY
}

// Sizes from scalars: results, transients, fills and copies.
static void test_sizes(void) {
  static builder_t b;
  fn_t* f = add_function(&b, "f");
  for (uint32_t i = 0; i < 5; ++i) add_scalar(&b, f, "");
  uint32_t s[5];
  for (uint32_t i = 0; i < 5; ++i) s[i] = op(f, PYD_OP_SCALAR, 0, i, 0, 0);
  uint32_t square = op(f, PYD_OP_MUL, 64, s[1], s[1], 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, square, 0, 0), r = add_result(f, F32, 1, s, s[2]);
  add_fill(f, 0, t, s[3], s[4], s[0], 4);
  add_copy(f, 0, t, s[3], r, NONE, s[4]);
  add_check(&b, f, PYD_OP_CHECK, s[2], 0, "a buffer of {a} is {not} enough {");
  pyd_program_t* p = decode(&b);
  pyd_plan_t* plan = NULL;
  char text[200];
#define TRY(...) pyd_plan_create(p, 0, NULL, (uint64_t[]){__VA_ARGS__}, &plan)
  CHECK_OK(TRY(2, 10, 8, 4, 8));
  CHECK(pyd_plan_arena_bytes(plan) == 128);
  CHECK_OK(pyd_plan_describe(plan, 0, text, sizeof(text)));
  CHECK(strcmp(text, "region 0: fill 8 bytes at 4 of transient buffer 0 with 0x00000002") == 0);
  CHECK_OK(pyd_plan_describe(plan, 1, text, sizeof(text)));
  CHECK(strcmp(text, "region 0: copy 8 bytes at 4 of transient buffer 0 to 0 of result 0") == 0);
  CHECK_OK(pyd_plan_describe(plan, 1, text, 10));
  CHECK(strcmp(text, "region 0:") == 0);
  pyd_plan_free(plan);
  CHECK_REFUSED(TRY(2, 10, 0, 4, 8), INVALID_ARGUMENT, "function 'f': a buffer of 0 is {not} enough {");
  CHECK_REFUSED(TRY(3, 10, 8, 4, 8), INVALID_ARGUMENT, "result 0: a buffer of 8 bytes for a tensor of 12");
  CHECK_REFUSED(TRY((uint64_t)-3, 10, 8, 4, 8), INVALID_ARGUMENT, "result 0: axis 0 would have -3 elements");
  CHECK_REFUSED(TRY(UINT64_C(1) << 62, 10, 8, 4, 8), INVALID_ARGUMENT,
                "result 0: its sizes multiply to more than 2^63 bytes");
  CHECK_REFUSED(TRY(2, UINT64_C(1) << 32, 8, 4, 8), INVALID_ARGUMENT,
                "instruction 5: a size computed as 4294967296 * 4294967296 does not fit into 64 bits");
  CHECK_REFUSED(TRY(2, 10, (uint64_t)-8, 4, 8), INVALID_ARGUMENT, "result 0 would have -8 bytes");
  CHECK_REFUSED(TRY(2, 10, 8, 2, 8), INVALID_ARGUMENT,
                "command 0 (fill): 8 bytes at offset 2 are not whole patterns of 4 bytes");
  CHECK_REFUSED(TRY(2, 10, 8, 4, 6), INVALID_ARGUMENT, "6 bytes at offset 4 are not whole patterns");
  CHECK_REFUSED(TRY(2, 10, 8, 96, 8), INVALID_ARGUMENT,
                "command 0 (fill): 8 bytes at offset 96 lie outside the 100 bytes of transient buffer 0");
  CHECK_REFUSED(TRY(2, 10, 8, 4, 12), INVALID_ARGUMENT,
                "command 1 (copy), target: 12 bytes at offset 0 lie outside the 8 bytes of result 0");
#undef TRY
  pyd_program_free(p);
}

// A constant whose bytes lie less aligned than the executable needs; a region of too many workgroups; many transients.
static void test_limits(void) {
  static builder_t b;
  add_executable(&b, "exe");
  add_export(&b, 0, 1, "single", 0, 1);
  fn_t* f = add_function(&b, "f");
  uint32_t x = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "x"), 0, 0), one = constant(f, 1), export = constant(f, 0);
  uint32_t k = add_buffer(f, PYD_BUFFER_CONSTANT, add_constant(&b, "constants/k.npy", 0, 64), NONE, 0, 0);
  const uint32_t binding[] = {k, NONE, NONE};
  for (uint32_t i = 0; i < 2; ++i) add_dispatch(f, 0, export, (uint32_t[]){x, x, one}, 0, NULL, 1, binding);
  pyd_program_t* p = decode(&b);
  _Alignas(64) static const uint8_t bytes[128];
  CHECK_OK(pyd_program_set_constant(p, 0, (pyd_span_t){bytes + 4, 64}));
  CHECK_OK(pyd_program_set_executable(p, 0, &kExecutable, 0, 64));
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  CHECK_REFUSED(pyd_plan_create(p, 0, NULL, (uint64_t[]){UINT32_MAX}, &plan), INVALID_ARGUMENT,
                "function 'f': region 0 has more than 2^64 workgroups");
  CHECK_OK(pyd_plan_create(p, 0, NULL, (uint64_t[]){3}, &plan));
  CHECK(plan->step_count == 1 && plan->steps[0].total == 18 && plan->commands[1].start == 9);
  CHECK_REFUSED(pyd_call_create(plan, NULL, NULL, &call), INVALID_ARGUMENT, "is not aligned to 64 bytes");
  CHECK(call == NULL);
  CHECK_OK(pyd_program_set_constant(p, 0, (pyd_span_t){bytes + 64, 64}));
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  CHECK_OK(pyd_call_run(call));
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(p);

  enum { MANY = 17000 };  // more than are compared with each other
  pyd_arena_block_t* blocks = calloc(MANY, sizeof(*blocks));
  for (uint32_t i = 0; i < MANY; ++i) blocks[i] = (pyd_arena_block_t){64, i, i + 1, 0};
  uint64_t total;
  CHECK_OK(pyd_arena_place(blocks, MANY, &total));
  CHECK(total == 64 * (2 + (uint64_t)MANY - (1 << 14)));
  free(blocks);
}

int main(void) {
  test_limits();
  test_linking();
  test_dispatches();
  test_sizes();
  return 0;
}
