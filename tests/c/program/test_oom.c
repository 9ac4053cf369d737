// links: base platform sched memory program
// with: double.c
// The n-th allocation fails, for every n: each entry point refuses with OUT_OF_MEMORY and leaves nothing behind. Under
// a sanitizer, which has an allocator of its own, nothing fails and only the good path runs.
#include "program/sample.h"

static long live, until_failure = -1;

#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)
enum { IS_FAILING = 1 };
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void __libc_free(void*);
static size_t failed;  // bytes of the allocation that failed; another try of it fails too
static bool fails(size_t size) {
  const bool is_retry = failed && failed == size, is_chosen = !is_retry && until_failure >= 0 && until_failure-- == 0;
  failed = is_chosen ? size : is_retry ? 0 : failed;
  return is_retry || is_chosen;
}
void* malloc(size_t size) {
  if (fails(size)) return NULL;
  void* block = __libc_malloc(size);
  live += block != NULL;
  return block;
}
void* calloc(size_t count, size_t size) {
  if (fails(count * size)) return NULL;
  void* block = __libc_calloc(count, size);
  live += block != NULL;
  return block;
}
void* __libc_realloc(void*, size_t);
void* realloc(void* block, size_t size) {
  if (fails(size)) return NULL;
  void* moved = __libc_realloc(block, size);
  live += moved && !block;
  return moved;
}
void free(void* block) {
  live -= block != NULL;
  __libc_free(block);
}
#else
enum { IS_FAILING = 0 };
static size_t failed;
#endif

static float buffers[3][64];

// Everything once. The status of the first step that is refused.
static pyd_status_t whole_life(pyd_span_t bytes) {
  pyd_program_t* program = NULL;
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  pyd_pool_t* pool = NULL;
  void* block = NULL;
  _Alignas(64) static const uint8_t constants[64];
  pyd_status_t status = pyd_program_decode(bytes, &program);
  if (pyd_ok(status)) status = pyd_program_set_constant(program, 0, (pyd_span_t){constants, 64});
  if (pyd_ok(status)) status = pyd_program_set_executable(program, 0, &kSampleExecutable, 0, 4);
  uint64_t result;
  if (pyd_ok(status)) status = pyd_program_evaluate(program, 0, NULL, &result);
  if (pyd_ok(status)) status = pyd_plan_create(program, 1, (int64_t[]){2, 4}, (uint64_t[]){7}, &plan);
  if (pyd_ok(status)) status = pyd_pool_create(1 << 20, &pool);
  if (pyd_ok(status)) status = pyd_pool_acquire(pool, 100, &block);
  if (pyd_ok(status)) status = pyd_call_create(plan, NULL, pool, &call);
  if (pyd_ok(status)) {
    pyd_call_bind_arg(call, 0, buffers[0]);
    pyd_call_bind_result(call, 0, buffers[1]);
    status = pyd_call_run(call);
  }
  pyd_state_t* state = NULL;
  pyd_invocation_t* invocation = NULL;
  if (pyd_ok(status)) status = pyd_program_set_constant(program, 1, (pyd_span_t){constants, 16});
  if (pyd_ok(status)) status = pyd_state_create(program, NULL, pool, &state);
  if (pyd_ok(status)) status = pyd_state_initialize(state, NULL);
  const int64_t size = 4;
  const pyd_input_t input = {constants, &size, 0};
  if (pyd_ok(status)) status = pyd_procedure_call(state, 1, &input, NULL, &invocation);
  pyd_invocation_free(invocation);
  pyd_state_free(state);
  pyd_call_free(call);
  if (pool) pyd_pool_release(pool, block);
  pyd_pool_destroy(pool);
  pyd_plan_free(plan);
  pyd_program_free(program);
  return status;
}

// A constant that is a copy of another one, and a function that returns it.
static pyd_span_t make_derived(void) {
  static builder_t b;
  add_constant(&b, "c.bin", 0, 64);
  add_constant(&b, "", 0, 64);
  for (uint32_t i = 0; i < 2; ++i) {
    fn_t* f = add_function(&b, i ? "f" : "d");
    uint32_t size = constant(f, 64);
    uint32_t source = add_buffer(f, PYD_BUFFER_CONSTANT, i, NONE, 0, 0), result = add_result(f, I8, 1, &size, size);
    add_copy(f, 0, source, NONE, result, NONE, size);
  }
  add_derived(&b, 0, 1);
  return encode(&b);
}

static pyd_status_t derived_life(pyd_span_t bytes) {
  pyd_program_t* program = NULL;
  pyd_derived_t* derived = NULL;
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  pyd_pool_t* pool = NULL;
  _Alignas(64) static const uint8_t constants[64] = {1, 2, 3};
  pyd_status_t status = pyd_program_decode(bytes, &program);
  if (pyd_ok(status)) status = pyd_program_set_constant(program, 0, (pyd_span_t){constants, 64});
  if (pyd_ok(status)) status = pyd_pool_create(0, &pool);
  if (pyd_ok(status)) status = pyd_derived_create(program, NULL, pool, &derived);
  if (pyd_ok(status)) status = pyd_program_set_derived(program, derived);
  if (pyd_ok(status)) status = pyd_plan_create(program, 1, NULL, NULL, &plan);
  if (pyd_ok(status)) status = pyd_call_create(plan, NULL, pool, &call);
  if (pyd_ok(status)) {
    pyd_call_bind_result(call, 0, buffers[0]);
    status = pyd_call_run(call);
  }
  CHECK(!pyd_ok(status) || memcmp(buffers[0], constants, 64) == 0);
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_derived_free(derived);
  pyd_pool_destroy(pool);
  return status;
}

// A dispatch whose export has a contract, function 1 of the same program, and a declaration of a host command.
static pyd_span_t make_contracted(void) {
  static builder_t b;
  uint32_t name[2];
  add_executable(&b, "exe");
  add_export(&b, 0, 0, "touch", 0, 1);
  fn_t* f = add_function(&b, "f");
  uint32_t zero = constant(f, 0), one = constant(f, 1), size = constant(f, 64);
  uint32_t result = add_result(f, I8, 1, &size, size);
  add_dispatch(f, 0, zero, (uint32_t[]){one, one, one}, 0, NULL, 1, (uint32_t[]){result, NONE, NONE});
  f = add_function(&b, "contract");
  one = constant(f, 1), size = constant(f, 64);
  for (uint32_t i = 0; i < 5; ++i) add_scalar_result(f, i < 4 ? one : size);
  add_string(&b, "command", name);
  uint32_t operand = 32 + push_all(&b.extra, 6, 0, PYD_HOST_READ, I8, 0, 0, 0);
  b.extra_tables[27 - 15] = 32 + push_all(&b.extra, 6, name[0], name[1], operand, 1, 0, 0);
  b.extra_tables[28 - 15] = 1;
  return encode(&b);
}

static pyd_status_t contracted_life(pyd_span_t bytes) {
  pyd_program_t* program = NULL;
  pyd_plan_t* plan = NULL;
  pyd_status_t status = pyd_program_decode(bytes, &program);
  if (pyd_ok(status)) status = pyd_program_set_executable(program, 0, &kSampleExecutable, 0, 4);
  if (pyd_ok(status)) status = pyd_program_set_contracts(program, 0, program, (uint32_t[]){NONE, 1}, 2);
  if (pyd_ok(status)) status = pyd_program_apply_contracts(program);
  if (pyd_ok(status)) status = pyd_plan_create(program, 0, NULL, NULL, &plan);
  CHECK(!pyd_ok(status) || (program->has_contracts && pyd_program_command_count(program) == 1));
  pyd_plan_free(plan);
  pyd_program_free(program);
  return status;
}

static void fail_in_turn(pyd_status_t (*life)(pyd_span_t), pyd_span_t bytes, long at_least) {
  CHECK_OK(life(bytes));
  long before = live, refused = 0;
  for (long n = 0; IS_FAILING; ++n, ++refused) {
    until_failure = n;
    pyd_status_t status = life(bytes);
    bool ran_through = until_failure >= 0;
    until_failure = -1, failed = 0;
    if (ran_through) {
      CHECK_OK(status);
      break;
    }
    CHECK(pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY);
    pyd_status_free(status);
    CHECK(live == before);
  }
  CHECK(!IS_FAILING || refused > at_least);
  printf("%ld allocations failed in turn\n", refused);
  free((void*)bytes.data);
}

int main(void) {
  fail_in_turn(whole_life, make_sample(), 20);
  fail_in_turn(derived_life, make_derived(), 12);
  fail_in_turn(contracted_life, make_contracted(), 12);
  return 0;
}
