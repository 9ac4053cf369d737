// A program whose functions are known to other runtimes by number.
#ifndef PYD_TESTS_TARGET_SAMPLE_H_
#define PYD_TESTS_TARGET_SAMPLE_H_

#include "api/table.h"
#include "program/procedure_builder.h"
#include "pydispatch/process.h"
#include "target/target.h"

static int32_t k_mul(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const float *a = d->binding_ptrs[0], *b = d->binding_ptrs[1];
  float* out = d->binding_ptrs[2];
  (void)e;
  uint32_t n = d->constants[0], begin = w->workgroup_id_x * 16, end = begin + 16 < n ? begin + 16 : n;
  for (uint32_t i = begin; i < end; ++i) out[i] = a[i] * b[i];
  return 0;
}
static int32_t k_fail(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  return 77;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_mul, k_fail};
static const pyd_library_export_attrs_t kAttrs[] = {{.constant_count = 1, .binding_count = 3}, {0}};
static const char* const kNames[] = {"mul", "fail"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 2, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

// mul(a: ?xf32, b: ?xf32) -> ?xf32;  sized(n, k: i64) -> n x f32 filled with k, and n + k;  fail();
// tail(x: ?xf32, n: i64) -> x from n on, n: a procedure
static pyd_program_t* make_program(void) {
  static builder_t b;
  static procs_t s;
  uint32_t e = add_executable(&b, "exe");
  for (uint32_t i = 0; i < 2; ++i) add_export(&b, e, i, kNames[i], kAttrs[i].constant_count, kAttrs[i].binding_count);
  fn_t* f = add_function(&b, "mul");
  add_tensor(&b, f, F32, "a", 1, (int64_t[]){-1});
  add_tensor(&b, f, F32, "b", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1);
  add_check(&b, f, PYD_OP_CHECK_EQ, n, op(f, PYD_OP_DIM, 0, 1, 0, 0), "sizes differ: {a} and {b}");
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0), r = add_result(f, F32, 1, &n, bytes);
  add_dispatch(f, 0, constant(f, 0), (uint32_t[]){op(f, PYD_OP_CEILDIVS, 64, n, constant(f, 16), 0), one, one}, 1, &n,
               3, (uint32_t[]){0, NONE, NONE, 1, NONE, NONE, r, NONE, NONE});
  f = add_function(&b, "sized");
  n = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "n"), 0, 0);
  uint32_t k = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "k"), 0, 0);
  r = add_result(f, F32, 1, &n, op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0));
  add_fill(f, 0, r, NONE, NONE, k, 4);
  add_scalar_result(f, op(f, PYD_OP_ADD, 64, n, k, 0));
  f = add_function(&b, "fail");
  one = constant(f, 1);
  add_dispatch(f, 0, constant(f, 1), (uint32_t[]){one, one, one}, 0, NULL, 0, NULL);
  f = add_function(&b, "sizes");  // (n, size) -> (4n, size - n)
  add_scalar(&b, f, "n");
  add_scalar(&b, f, "size");
  n = op(f, PYD_OP_SCALAR, 0, 0, 0, 0);
  uint32_t size = op(f, PYD_OP_SCALAR, 0, 1, 0, 0);
  add_scalar_result(f, op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0));
  add_scalar_result(f, op(f, PYD_OP_SUB, 64, size, n, 0));
  proc_t* p = add_procedure(&b, &s, "tail");
  uint32_t x = add_port(&b, p, 0, F32, 1, (int64_t[]){-1}), from = add_port(&b, p, 1, I64, 0, NULL);
  uint32_t offset = add_slot(p, 1, I64, 0), rest = add_slot(p, 1, I64, 0), t = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_DIM, rest, x, 0, 0);
  step(p, PYD_STEP_RUN, 3, push_all(&p->pool, 4, from, rest, offset, rest), 0, 0);
  step(p, PYD_STEP_VIEW, t, x, push_all(&p->pool, 2, offset, rest), 0);
  add_output(p, 0, F32, 1);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, t, from), 0, 0, 0);
  finish_procs(&b, &s);
  pyd_program_t* program = decode(&b);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 64));
  return program;
}

static pyd_target_t* publish(const pyd_api_program_t* program, const char* name, uint64_t number) {
  const pyd_api_function_t* function = NULL;
  pyd_target_t* target = NULL;
  pyd_api_t pd;
  pyd_api_fill(&pd);
  CHECK_OK(pd.program_find(program, name, &function));
  CHECK_OK(pyd_target_create(function, &target));
  CHECK_OK(pyd_process_number_add(number, target, pyd_target_retain));
  return target;
}
static void withdraw(pyd_target_t* target, uint64_t number) {
  pyd_process_number_remove(number);
  pyd_target_release(target);
}

typedef struct published_s {
  const char* name;
  uint64_t number;
} published_t;

// Runs |tests| with four functions published, and then lets the program go before them.
static void with_program(const published_t published[4], void (*tests)(pyd_api_program_t* program)) {
  pyd_sched_options_t options = {.workers = 3, .spin_us = -1};
  pyd_pool_stats_t stats;
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_state_t* state;
  pyd_api_device_t* device;
  pyd_api_program_t* program;
  pyd_target_t* targets[4];
  pyd_api_t pd;
  pyd_api_fill(&pd);
  CHECK_OK(pyd_sched_create(&options, &sched));
  CHECK_OK(pyd_pool_create(1 << 20, &pool));
  pyd_program_t* c_program = make_program();
  CHECK_OK(pyd_state_create(c_program, sched, pool, &state));
  CHECK_OK(pyd_api_device_make(sched, pool, (pyd_api_owner_t){NULL, NULL}, &device));
  CHECK_OK(pyd_api_program_make(device, c_program, state, (pyd_api_owner_t){NULL, NULL}, &program));
  for (int i = 0; i < 4; ++i) targets[i] = publish(program, published[i].name, published[i].number);
  tests(program);
  pd.program_release(program);
  pd.device_release(device);  // the targets hold both
  for (int i = 0; i < 4; ++i) withdraw(targets[i], published[i].number);
  pyd_state_free(state);
  pyd_pool_stats(pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_program_free(c_program);
  pyd_pool_destroy(pool);
  pyd_sched_destroy(sched);
}

#endif  // PYD_TESTS_TARGET_SAMPLE_H_
