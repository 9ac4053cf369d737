// links: base platform sched memory program api
// with: ../program/double.c
// Procedures through the table: sizes that a run gives, memory that is bound or the call's own, scalars, failures.
#include "api/table.h"
#include "program/procedure_builder.h"

static pyd_api_t pd;

// (x: ?xf32, n: i64) -> (element n of x and what follows it, n)
static void build(builder_t* b) {
  static procs_t s;
  memset(b, 0, sizeof(*b));
  fn_t* f = add_function(b, "sizes");  // (n, size) -> (4n, size - n)
  add_scalar(b, f, "n");
  add_scalar(b, f, "size");
  uint32_t n = op(f, PYD_OP_SCALAR, 0, 0, 0, 0), size = op(f, PYD_OP_SCALAR, 0, 1, 0, 0);
  add_scalar_result(f, op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0));
  add_scalar_result(f, op(f, PYD_OP_SUB, 64, size, n, 0));
  proc_t* p = add_procedure(b, &s, "tail");
  uint32_t x = add_port(b, p, 0, F32, 1, (int64_t[]){-1}), from = add_port(b, p, 1, I64, 0, NULL);
  uint32_t offset = add_slot(p, 1, I64, 0), rest = add_slot(p, 1, I64, 0), t = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_DIM, rest, x, 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 4, from, rest, offset, rest), 0, 0);
  step(p, PYD_STEP_VIEW, t, x, push_all(&p->pool, 2, offset, rest), 0);
  add_output(p, 0, F32, 1);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, t, from), 0, 0, 0);
  finish_procs(b, &s);
}

int main(void) {
  static builder_t b;
  pyd_pool_t* pool;
  pyd_sched_t* sched;
  pyd_state_t* state;
  pyd_api_device_t* device;
  pyd_api_program_t* handle;
  const pyd_api_function_t* function;
  pyd_api_call_t* call;
  build(&b);
  pyd_program_t* program = decode(&b);
  pyd_api_fill(&pd);
  CHECK_OK(pyd_pool_create(1 << 20, &pool));
  CHECK_OK(pyd_sched_create(&(pyd_sched_options_t){.workers = 1}, &sched));
  CHECK_OK(pyd_state_create(program, sched, pool, &state));
  CHECK_OK(pyd_api_device_make(sched, pool, (pyd_api_owner_t){NULL, NULL}, &device));
  CHECK_OK(pyd_api_program_make(device, program, state, (pyd_api_owner_t){NULL, NULL}, &handle));
  CHECK(pd.program_function_count(handle) == 2);
  CHECK_OK(pd.program_find(handle, "tail", &function));
  CHECK(function->argument_count == 2 && function->dims_count == 1 && function->scalar_count == 1);
  CHECK_REFUSED(pd.call_prepare(function, (int64_t[]){-5}, 1, (uint64_t[]){2}, 1, &call), INVALID_ARGUMENT,
                "negative size -5");
  CHECK_REFUSED(pd.call_prepare(function, (int64_t[]){INT64_MAX}, 1, (uint64_t[]){2}, 1, &call), INVALID_ARGUMENT,
                "2^63 bytes");
  CHECK_OK(pd.call_prepare(function, (int64_t[]){5}, 1, (uint64_t[]){2}, 1, &call));
  CHECK(pd.call_argument_bytes(call, 0) == 20 && pd.call_result_bytes(call, 0) == 0 && !pd.call_result_dims(call, 0));
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "argument 0 'x' has no memory");
  float x[5] = {1, 2, 3, 4, 5}, out[3] = {0};
  uint64_t word;
  CHECK_REFUSED(pd.call_bind_argument(call, 0, x, 19), INVALID_ARGUMENT, "has 20 bytes; got 19");
  CHECK_OK(pd.call_bind_argument(call, 0, x, sizeof(x)));
  CHECK_OK(pd.call_run(call));
  CHECK(pd.call_result_bytes(call, 0) == 12 && pd.call_result_dims(call, 0)[0] == 3);
  CHECK(((const float*)pd.call_result_data(call, 0))[2] == 5 && !pd.call_result_data(call, 1));
  CHECK_OK(pd.call_scalar_result(call, 1, &word));
  CHECK(word == 2);
  CHECK_OK(pd.call_bind_result(call, 0, out, sizeof(out)));
  CHECK_OK(pd.call_set_scalars(call, (uint64_t[]){3}, 1));
  x[3] = 7;
  CHECK_OK(pd.call_run(call));
  CHECK(out[0] == 7 && out[1] == 5 && out[2] == 0 && pd.call_result_dims(call, 0)[0] == 2);
  CHECK_OK(pd.call_set_scalars(call, (uint64_t[]){1}, 1));
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "result 0 of 'tail' has 16 bytes, 12 were bound");
  CHECK_OK(pd.call_bind_result(call, 0, NULL, 64));  // no memory, whatever size is stated
  CHECK_OK(pd.call_set_scalars(call, (uint64_t[]){3}, 1));
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "result 0 of 'tail' has 8 bytes, 0 were bound");
  CHECK_OK(pd.call_set_scalars(call, (uint64_t[]){6}, 1));
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "negative size -1");
  CHECK(pd.call_result_dims(call, 0)[0] == 2);  // of the last run that ended well
  pd.call_release(call);
  pd.program_release(handle);
  pd.device_release(device);
  pyd_state_free(state);
  pyd_sched_destroy(sched);
  pyd_pool_stats_t stats;
  pyd_pool_stats(pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_pool_destroy(pool);
  pyd_program_free(program);
  return 0;
}
