// A device with a program for tests of calls in flight:
//   next(x: ?xf32) -> x + 3, in three dispatches of a workgroup for each element; fails at an element of -1
//   hold(n)        -> n workgroups that end when |may_leave| is set, or when they are asked not to wait
//   pair(x: ?xf32) -> x + 1, x + 1
//   roomy(x: ?xf32) -> as many ones, in memory for twice as many, all of which it fills
//   same(x: ?xf32) -> x, x: a procedure
//   tally(x: ?xf32) -> x + 3, and how often it was called: a procedure with a mutable global
#ifndef PYD_TESTS_API_WORLD_H_
#define PYD_TESTS_API_WORLD_H_

#include <pthread.h>
#include <stdatomic.h>

#include "api/table.h"
#include "program/procedure_builder.h"

static pyd_api_t pd;

static atomic_int entered, may_leave;  // of the kernel of `hold`

static int32_t k_next(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  const float* in = d->binding_ptrs[0];
  uint32_t x = w->workgroup_id_x;
  if (in[x] == -1) return 5;
  ((float*)d->binding_ptrs[1])[x] = in[x] + 1;
  return 0;
}
static int32_t k_hold(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  atomic_fetch_add(&entered, 1);
  while (!atomic_load(&may_leave)) sched_yield();
  return 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_next, k_hold};
static const pyd_library_export_attrs_t kAttrs[] = {{.binding_count = 2}, {0}};
static const char* const kNames[] = {"next", "hold"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 2, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

typedef struct world_s {
  pyd_program_t* c_program;
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_state_t* state;
  pyd_api_device_t* device;
  pyd_api_program_t* program;
  const pyd_api_function_t *next, *hold, *tally;
  atomic_int dropped;  // owners of handles that have gone
} world_t;

static void build(builder_t* b, procs_t* s) {
  uint32_t e = add_executable(b, "exe");
  add_export(b, e, 0, "next", 0, 2);
  add_export(b, e, 1, "hold", 0, 0);
  fn_t* f = add_function(b, "next");
  add_tensor(b, f, F32, "x", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 0, 1),
           u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 1, 2);
  uint32_t out = add_result(f, F32, 1, &n, bytes), export = constant(f, 0);
  const uint32_t grid[] = {n, one, one};
  add_dispatch(f, 0, export, grid, 0, NULL, 2, (uint32_t[]){0, NONE, NONE, t, NONE, NONE});
  add_dispatch(f, 1, export, grid, 0, NULL, 2, (uint32_t[]){t, NONE, NONE, u, NONE, NONE});
  add_dispatch(f, 2, export, grid, 0, NULL, 2, (uint32_t[]){u, NONE, NONE, out, NONE, NONE});
  f = add_function(b, "hold");
  n = op(f, PYD_OP_SCALAR, 0, add_scalar(b, f, "n"), 0, 0), one = constant(f, 1);
  add_dispatch(f, 0, constant(f, 1), (uint32_t[]){n, one, one}, 0, NULL, 0, NULL);
  f = add_function(b, "increase");
  add_scalar(b, f, "i");
  add_scalar_result(f, op(f, PYD_OP_ADD, 64, op(f, PYD_OP_SCALAR, 0, 0, 0, 0), constant(f, 1), 0));
  f = add_function(b, "pair");
  add_tensor(b, f, F32, "x", 1, (int64_t[]){-1});
  n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0);
  for (uint32_t i = 0; i < 2; ++i) {
    out = add_result(f, F32, 1, &n, bytes);
    add_dispatch(f, i, constant(f, 0), (uint32_t[]){n, one, one}, 0, NULL, 2,
                 (uint32_t[]){0, NONE, NONE, out, NONE, NONE});
  }
  f = add_function(b, "roomy");
  add_tensor(b, f, F32, "x", 1, (int64_t[]){-1});
  n = op(f, PYD_OP_DIM, 0, 0, 0, 0), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 8), 0);
  out = add_result(f, F32, 1, &n, bytes);
  add_fill(f, 0, out, NONE, NONE, constant(f, 0x3F800000), 4);
  uint32_t number = add_global(b, s, "number", 1, I64, 0, NULL, NONE, 0, true);
  proc_t* p = add_procedure(b, s, "same");
  uint32_t x = add_port(b, p, 0, F32, 1, (int64_t[]){-1});
  add_output(p, 0, F32, 1);
  add_output(p, 0, F32, 1);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, x, x), 0, 0, 0);
  p = add_procedure(b, s, "tally");
  x = add_port(b, p, 0, F32, 1, (int64_t[]){-1});
  uint32_t k = add_slot(p, 1, I64, 0);
  step(p, PYD_STEP_LOAD, k, number, 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 2, x, x), 0, 0);
  step(p, PYD_STEP_RUN, 2, push_all(&p->pool, 2, k, k), 0, 0);
  step(p, PYD_STEP_STORE, number, k, 0, 0);
  add_output(p, 0, F32, 1);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, x, k), 0, 0, 0);
  finish_procs(b, s);
}

static void drop_owner(void* self) { atomic_fetch_add(&((world_t*)self)->dropped, 1); }

static void open_world_with(world_t* w, const pyd_sched_options_t* options, const pyd_allocator_t* allocator) {
  static builder_t b;
  static procs_t s;
  memset(&b, 0, sizeof(b));
  memset(&s, 0, sizeof(s));
  memset(w, 0, sizeof(*w));
  build(&b, &s);
  atomic_store(&entered, 0);
  atomic_store(&may_leave, 0);
  pyd_api_fill(&pd);
  w->c_program = decode(&b);
  CHECK_OK(pyd_program_set_executable(w->c_program, 0, &kExecutable, 0, 64));
  CHECK_OK(pyd_sched_create(options, &w->sched));
  CHECK_OK(pyd_pool_create_with(1 << 20, allocator, &w->pool));
  pyd_program_set_allocator(w->c_program, pyd_pool_allocator(w->pool));
  CHECK_OK(pyd_state_create(w->c_program, w->sched, w->pool, &w->state));
  CHECK_OK(pyd_api_device_make(w->sched, w->pool, (pyd_api_owner_t){w, drop_owner}, &w->device));
  CHECK_OK(pyd_api_program_make(w->device, w->c_program, w->state, (pyd_api_owner_t){w, drop_owner}, &w->program));
  CHECK_OK(pd.program_find(w->program, "next", &w->next));
  CHECK_OK(pd.program_find(w->program, "hold", &w->hold));
  CHECK_OK(pd.program_find(w->program, "tally", &w->tally));
}

static inline void open_world(world_t* w, const pyd_sched_options_t* options) { open_world_with(w, options, NULL); }

// What the owners of the handles do in the end. Everything that was made must have been released.
static inline void close_world(world_t* w) {
  pd.program_release(w->program);
  pd.device_release(w->device);
  pyd_state_free(w->state);
  CHECK(w->dropped == 2);
  pyd_sched_destroy(w->sched);
  pyd_program_free(w->c_program);
  pyd_pool_stats_t stats;
  pyd_pool_stats(w->pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_pool_destroy(w->pool);
}

static pyd_api_call_t* prepare(const pyd_api_function_t* function, int64_t n) {
  pyd_api_call_t* call = NULL;
  if (function->dims_count) {
    CHECK_OK(pd.call_prepare(function, &n, 1, NULL, 0, &call));
  } else {
    CHECK_OK(pd.call_prepare(function, NULL, 0, (uint64_t[]){(uint64_t)n}, 1, &call));
  }
  return call;
}

// A call of a function of one tensor, bound. |out| may be NULL.
static pyd_api_call_t* prepare_bound(const pyd_api_function_t* function, const float* in, float* out, int64_t n) {
  pyd_api_call_t* call = prepare(function, n);
  CHECK_OK(pd.call_bind_argument(call, 0, in, (size_t)n * 4));
  if (out) CHECK_OK(pd.call_bind_result(call, 0, out, (size_t)n * 4));
  return call;
}

static inline pyd_api_event_t* submit(pyd_api_call_t* call, const pyd_api_submit_t* options) {
  pyd_api_event_t* event = NULL;
  CHECK_OK(pd.call_submit(call, options, &event));
  CHECK(event);
  return event;
}

// Waits as a thread that does not run the call itself, when |is_bystander|.
static inline uint32_t wait_for(pyd_api_event_t* event, bool is_bystander) {
  uint32_t outcome;
  CHECK_OK(pd.event_wait(event, is_bystander ? UINT64_C(600000000000) : PYD_API_FOREVER, NULL, &outcome));
  CHECK(outcome != PYD_API_PENDING && outcome == pd.event_outcome(event));
  return outcome;
}

#endif  // PYD_TESTS_API_WORLD_H_
