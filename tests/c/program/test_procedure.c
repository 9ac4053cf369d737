// links: base platform sched memory program
// with: double.c
// tsan: 3
// Procedures: loops, branches, moves, read-back, views, results that take memory over, globals and their failures,
// checks, and threads that call one program.
#include <pthread.h>

#include "program/builder.h"
#include "program/procedure_builder.h"

static int32_t k_add_one(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)w;
  const float* in = d->binding_ptrs[0];
  float* out = d->binding_ptrs[1];
  for (size_t i = 0; i < d->binding_lengths[1] / 4; ++i) out[i] = in[i] + 1;
  return 0;
}
// Fails when the first element is 3.
static int32_t k_picky(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)w;
  const float* in = d->binding_ptrs[0];
  memcpy(d->binding_ptrs[1], in, d->binding_lengths[1]);
  return in[0] == 3 ? 9 : 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_add_one, k_picky};
static const pyd_library_export_attrs_t kAttrs[] = {{.binding_count = 2}, {.binding_count = 2}};
static const char* const kNames[] = {"add_one", "picky"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 2, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

enum { F_ADD_ONE, F_PICKY, F_NEXT, F_TIED };  // functions of every program below

static void add_map(builder_t* b, const char* name, uint32_t export, bool is_tied) {
  fn_t* f = add_function(b, name);
  add_tensor(b, f, F32, "x", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1), four = constant(f, 4);
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, four, 0), out = add_result(f, F32, 1, &n, bytes);
  if (is_tied) {
    f->results.data[7] = 1;  // result 0 may take over argument 0
    add_copy(f, 0, 0, NONE, out, NONE, bytes);
    add_fill(f, 1, out, NONE, four, constant(f, 0x41A00000), 4);  // element 0 = 20
    return;
  }
  add_dispatch(f, 0, constant(f, export), (uint32_t[]){one, one, one}, 0, NULL, 2,
               (uint32_t[]){0, NONE, NONE, out, NONE, NONE});
}

static void start(builder_t* b) {
  memset(b, 0, sizeof(*b));
  uint32_t e = add_executable(b, "exe");
  add_export(b, e, 0, "add_one", 0, 2);
  add_export(b, e, 1, "picky", 0, 2);
  add_map(b, "add_one", 0, false);
  add_map(b, "picky", 1, false);
  fn_t* f = add_function(b, "next");  // (i, n) -> (i + 1, i + 1 < n)
  add_scalar(b, f, "i");
  add_scalar(b, f, "n");
  uint32_t i = op(f, PYD_OP_ADD, 64, op(f, PYD_OP_SCALAR, 0, 0, 0, 0), constant(f, 1), 0);
  add_scalar_result(f, i);
  add_scalar_result(f, op(f, PYD_OP_CMP, 64 | 2 << 8, i, op(f, PYD_OP_SCALAR, 0, 1, 0, 0), 0));
  add_map(b, "tied", 0, true);
}

typedef struct world_s {
  pyd_program_t* program;
  pyd_pool_t* pool;
  pyd_state_t* state;
} world_t;

static void open_world(builder_t* b, world_t* w) {
  static const _Alignas(64) float kConstant[4] = {5, 6, 7, 8};
  w->program = decode(b);
  for (uint32_t i = 0; i < pyd_program_constant_count(w->program); ++i) {
    CHECK_OK(pyd_program_set_constant(w->program, i, (pyd_span_t){(const uint8_t*)kConstant, 16}));
  }
  CHECK_OK(pyd_program_set_executable(w->program, 0, &kExecutable, 0, 4));
  CHECK_OK(pyd_pool_create(1 << 20, &w->pool));
  CHECK_OK(pyd_state_create(w->program, NULL, w->pool, &w->state));
  CHECK_OK(pyd_state_initialize(w->state, NULL));
}
static void close_world(world_t* w) {
  pyd_state_free(w->state);
  pyd_pool_stats_t stats;
  pyd_pool_stats(w->pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_pool_destroy(w->pool);
  pyd_program_free(w->program);
}
static uint64_t live(const world_t* w) {
  pyd_pool_stats_t stats;
  pyd_pool_stats(w->pool, &stats);
  return stats.live_blocks;
}

static float first_of(const pyd_invocation_t* invocation, uint32_t result) {
  pyd_value_t value;
  CHECK(pyd_invocation_result(invocation, result, &value) && value.kind == 0 && value.bytes >= 4);
  return *(const float*)value.data;
}

// x + n by a loop of n runs; the element at index 1 of it is read back and branched on.
static proc_t* add_loop(builder_t* b, procs_t* s, uint32_t export_function) {
  proc_t* p = add_procedure(b, s, "loop");
  uint32_t x = add_port(b, p, 0, F32, 1, (int64_t[]){-1}), n = add_port(b, p, 1, I64, 0, NULL);
  uint32_t i = add_slot(p, 1, I64, 0), more = add_slot(p, 1, I64, 0);
  step(p, PYD_STEP_SCALAR, i, 0, 0, 0);
  uint32_t top = step(p, PYD_STEP_RUN, export_function, push_all(&p->pool, 2, x | PYD_LAST_USE, x), 0, 0);
  step(p, PYD_STEP_RUN, F_NEXT, push_all(&p->pool, 4, i, n, i, more), 0, 0);
  step(p, PYD_STEP_BRANCH, more, top, top + 3, 0);
  add_output(p, 0, F32, 1);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, x | PYD_LAST_USE, i), 0, 0, 0);
  return p;
}

static void test_loop(void) {
  static builder_t b;
  static procs_t s;
  start(&b);
  add_loop(&b, &s, F_ADD_ONE);
  world_t w;
  finish_procs(&b, &s);
  open_world(&b, &w);
  const float x[5] = {1, 2, 3, 4, 5};
  pyd_invocation_t* invocation;
  for (int64_t size = 0; size < 5; ++size) {
    const pyd_input_t inputs[] = {{x, &size, 0}, {NULL, NULL, 100}};
    CHECK_OK(pyd_procedure_call(w.state, 0, inputs, NULL, &invocation));
    pyd_value_t value;
    CHECK(pyd_invocation_result(invocation, 0, &value) && value.rank == 1 && value.dims[0] == size);
    for (int64_t i = 0; i < size; ++i) CHECK(((const float*)value.data)[i] == x[i] + 100);
    CHECK(pyd_invocation_result(invocation, 1, &value) && value.kind == 1 && value.word == 100);
    CHECK(!pyd_invocation_result(invocation, 2, &value) && pyd_invocation_observation_count(invocation) == 0);
    void* block = pyd_invocation_take(invocation, 0);
    CHECK(block && !pyd_invocation_take(invocation, 0) && !pyd_invocation_take(invocation, 1));
    pyd_invocation_free(invocation);
    CHECK(size == 0 || *(float*)block == 101);
    pyd_pool_release(w.pool, block);
  }
  close_world(&w);
}

typedef struct seen_s {
  int runs;
  uint64_t last;  // end of the last command that was seen
} seen_t;

static void see(void* self, const pyd_plan_t* plan, const pyd_command_time_t* times) {
  seen_t* seen = self;
  ++seen->runs;
  for (uint32_t i = 0; i < pyd_plan_command_count(plan); ++i) CHECK(times[i].begin <= times[i].end);
  seen->last = times[0].end;
}

// Whoever wants the times is told of each run of a function that has commands, until one fails.
static void test_times(uint32_t export_function, float first, int expected) {
  static builder_t b;
  static procs_t s;
  start(&b);
  add_loop(&b, &s, export_function);
  world_t w;
  finish_procs(&b, &s);
  open_world(&b, &w);
  const float x[3] = {first, 2, 3};
  const int64_t size = 3;
  const pyd_input_t inputs[] = {{x, &size, 0}, {NULL, NULL, 100}};
  seen_t seen = {0, 0};
  pyd_procedure_observer_t observer = {see, &seen, 0};
  pyd_invocation_t* invocation;
  pyd_status_t status = pyd_procedure_call_timed(w.state, 0, inputs, NULL, &observer, &invocation);
  CHECK(seen.runs == expected);
  if (expected) {
    CHECK(pyd_ok(status) && seen.last > 0);
  } else {
    CHECK(pyd_status_code(status) == PYD_CODE_KERNEL && !invocation && observer.nanoseconds == 0);
  }
  pyd_status_free(status);
  pyd_invocation_free(invocation);
  close_world(&w);
}

static void test_moves_views_and_results(void) {
  static builder_t b;
  static procs_t s;
  start(&b);
  uint32_t k = add_constant(&b, "k", 0, 16);
  proc_t* p = add_procedure(&b, &s, "f");
  uint32_t x = add_port(&b, p, 0, F32, 1, (int64_t[]){-1}), c = add_slot(p, 0, F32, 1), v = add_slot(p, 0, F32, 2);
  uint32_t two = add_slot(p, 1, I64, 0), eight = add_slot(p, 1, I64, 0), one = add_slot(p, 1, I64, 0);
  uint32_t t = add_slot(p, 0, F32, 1), axis = add_slot(p, 1, I64, 0), element = add_slot(p, 1, I64, 0);
  step(p, PYD_STEP_CONSTANT, c, k, push_all(&p->pool, 2, 4, 0), 0);
  step(p, PYD_STEP_SCALAR, two, 2, 0, 0);
  step(p, PYD_STEP_SCALAR, one, 1, 0, 0);
  step(p, PYD_STEP_SCALAR, eight, 8, 0, 0);
  step(p, PYD_STEP_VIEW, v, c, push_all(&p->pool, 3, eight, one, two), 0);          // [[7, 8]]
  step(p, PYD_STEP_MOVE, push_all(&p->pool, 5, 2, x, c, c, x), 0, 0, 0);            // swap
  step(p, PYD_STEP_RUN, F_TIED, push_all(&p->pool, 2, x, t), 0, 0);                 // a constant is not taken over
  step(p, PYD_STEP_RUN, F_TIED, push_all(&p->pool, 2, t | PYD_LAST_USE, t), 0, 0);  // this is
  step(p, PYD_STEP_DIM, axis, v, 1, 0);
  step(p, PYD_STEP_READ, element, x, push_all(&p->pool, 2, 1, two), NONE);
  for (uint32_t i = 0; i < 3; ++i) add_output(p, 0, F32, 1);
  add_output(p, 0, F32, 2);
  for (uint32_t i = 0; i < 2; ++i) add_output(p, 1, I64, 0);
  add_output(p, 0, F32, 1);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 7, x, c, t, v, axis, element, t | PYD_LAST_USE), 0, 0, 0);
  world_t w;
  finish_procs(&b, &s);
  open_world(&b, &w);
  const float in[3] = {1, 2, 3};
  const int64_t size = 3;
  const pyd_input_t input = {in, &size, 0};
  pyd_invocation_t* invocation;
  CHECK_OK(pyd_procedure_call(w.state, 0, &input, NULL, &invocation));
  pyd_value_t value[7];
  for (uint32_t i = 0; i < 7; ++i) CHECK(pyd_invocation_result(invocation, i, &value[i]));
  const float* data[7];
  for (uint32_t i = 0; i < 7; ++i) data[i] = value[i].data;
  CHECK(value[0].dims[0] == 4 && data[0][0] == 5 && value[1].dims[0] == 3 && data[1][2] == 3);
  CHECK(data[2][0] == 20 && data[2][1] == 6 && data[6][0] == 20 && data[6][3] == 8);
  CHECK(value[3].rank == 2 && value[3].dims[1] == 2 && data[3][0] == 7 && data[3][1] == 8);
  CHECK(value[4].word == 2 && value[5].word == 0x40E00000);  // 7.0f
  CHECK(data[1] != in && data[2] != data[6]);                // every result has memory of its own
  void* blocks[7];
  for (uint32_t i = 0; i < 7; ++i) blocks[i] = pyd_invocation_take(invocation, i);
  pyd_invocation_free(invocation);
  for (uint32_t i = 0; i < 7; ++i) {
    CHECK((blocks[i] != NULL) == (i != 4 && i != 5));
    if (blocks[i]) memset(blocks[i], 0xFF, 4);
    pyd_pool_release(w.pool, blocks[i]);
  }
  CHECK(live(&w) == 0);
  close_world(&w);
}

// state: a counter, an array; step(x) stores both and then runs a kernel that fails when x[0] is 3.
static void add_stateful(builder_t* b, procs_t* s) {
  uint32_t counter = add_global(b, s, "counter", 1, I64, 0, NULL, NONE, 40, true);
  uint32_t last = add_global(b, s, "last", 0, F32, 1, (int64_t[]){-1}, NONE, 0, true);
  proc_t* p = add_procedure(b, s, "step");
  uint32_t x = add_port(b, p, 0, F32, 1, (int64_t[]){-1}), i = add_slot(p, 1, I64, 0), more = add_slot(p, 1, I64, 0);
  step(p, PYD_STEP_LOAD, i, counter, 0, 0);
  step(p, PYD_STEP_RUN, F_NEXT, push_all(&p->pool, 4, i, i, i, more), 0, 0);
  step(p, PYD_STEP_STORE, counter, i, 0, 0);
  step(p, PYD_STEP_STORE, last, x, 0, 0);
  step(p, PYD_STEP_LOAD, i, counter, 0, 0);  // sees what was stored
  step(p, PYD_STEP_RUN, F_PICKY, push_all(&p->pool, 2, x, NONE), 0, 0);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 1, i), 0, 0, 0);
  p = add_procedure(b, s, "get");
  uint32_t t = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_LOAD, t, last, 0, 0);
  add_output(p, 0, F32, 1);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 1, t), 0, 0, 0);
}

static void test_globals(void) {
  static builder_t b;
  static procs_t s;
  start(&b);
  add_stateful(&b, &s);
  proc_t* init = add_procedure(&b, &s, "init");
  uint32_t i = add_slot(init, 1, I64, 0);
  step(init, PYD_STEP_SCALAR, i, 50, 0, 0);
  step(init, PYD_STEP_STORE, 0, i, 0, 0);
  step(init, PYD_STEP_RETURN, 0, 0, 0, 0);
  push(&s.initializers, 2);
  world_t w;
  finish_procs(&b, &s);
  open_world(&b, &w);
  pyd_invocation_t* invocation;
  CHECK_REFUSED(pyd_procedure_call(w.state, 1, NULL, NULL, &invocation), INVALID_ARGUMENT,
                "'@last' is loaded before anything");
  int64_t size = 2;
  float x[2] = {1, 2};
  const pyd_input_t input = {x, &size, 0};
  pyd_value_t value;
  for (uint64_t n = 1; n < 6; ++n) {
    x[0] = (float)n;
    if (n == 3) {
      CHECK_REFUSED(pyd_procedure_call(w.state, 0, &input, NULL, &invocation), KERNEL,
                    "@exe::@picky: workgroup (0, 0, 0) returned 9");
      CHECK(!invocation);
    } else {
      CHECK_OK(pyd_procedure_call(w.state, 0, &input, NULL, &invocation));
      CHECK(pyd_invocation_result(invocation, 0, &value) && value.word == 50 + n - (n > 3));
      pyd_invocation_free(invocation);
    }
    CHECK_OK(pyd_procedure_call(w.state, 1, NULL, NULL, &invocation));
    CHECK(first_of(invocation, 0) ==
          (n == 3 ? 2 : (float)n));  // the caller's memory was copied; a failure stores nothing
    pyd_value_t shared;
    CHECK(pyd_invocation_result(invocation, 0, &shared));
    *(float*)(uintptr_t)shared.data = -1;  // what a caller gets is his own
    pyd_invocation_free(invocation);
  }
  close_world(&w);
}

typedef struct shared_s {
  world_t* w;
  uint32_t procedure;
} shared_t;

static void* call_often(void* arg) {
  const shared_t* shared = arg;
  const float x[3] = {1, 2, 3};
  for (int64_t i = 0; i < 200; ++i) {
    int64_t size = 1 + i % 3;
    const pyd_input_t inputs[] = {{x, &size, 0}, {NULL, NULL, 5}};
    pyd_invocation_t* invocation;
    CHECK_OK(pyd_procedure_call(shared->w->state, shared->procedure, inputs, NULL, &invocation));
    if (shared->procedure == 2) CHECK(first_of(invocation, 0) == 6);
    pyd_invocation_free(invocation);
  }
  return NULL;
}

static void test_threads(void) {
  static builder_t b;
  static procs_t s;
  start(&b);
  add_stateful(&b, &s);
  add_loop(&b, &s, F_ADD_ONE);
  world_t w;
  finish_procs(&b, &s);
  open_world(&b, &w);
  pthread_t threads[4];
  shared_t shared[2] = {{&w, 0}, {&w, 2}};
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, call_often, &shared[i % 2]) == 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  pyd_invocation_t* invocation;
  pyd_value_t value;
  const int64_t size = 1;
  const pyd_input_t input = {(float[]){0}, &size, 0};
  CHECK_OK(pyd_procedure_call(w.state, 0, &input, NULL, &invocation));
  CHECK(pyd_invocation_result(invocation, 0, &value) && value.word == 441);  // 40 + 2 * 200 + 1
  pyd_invocation_free(invocation);
  close_world(&w);
}

static int32_t stop_after(void* self) { return --*(int*)self < 0; }

static void test_refusals(void) {
  static builder_t b;
  static procs_t s;
  start(&b);
  uint32_t check = add_check_record(&b, &s, 3, "m.mlir:1:2");
  proc_t* p = add_procedure(&b, &s, "spin");
  step(p, PYD_STEP_JUMP, 0, 0, 0, 0);
  p = add_procedure(&b, &s, "unset");
  uint32_t x = add_slot(p, 1, I64, 0);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 1, x), 0, 0, 0);
  p = add_procedure(&b, &s, "read");
  uint32_t t = add_port(&b, p, 0, F32, 2, (int64_t[]){-1, 4}), i = add_port(&b, p, 1, I64, 0, NULL);
  uint32_t location[2];
  add_string(&b, "m.mlir:7:9", location);
  step(p, PYD_STEP_READ, i, t, push_all(&p->pool, 3, 2, i, i), push_all(&p->pool, 2, location[0], location[1]));
  step(p, PYD_STEP_OBSERVE, check, push_all(&p->pool, 3, 2, t, i), 0, 0);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 1, i), 0, 0, 0);
  p = add_procedure(&b, &s, "view");
  t = add_port(&b, p, 0, F32, 1, (int64_t[]){-1}), i = add_port(&b, p, 1, I64, 0, NULL);
  step(p, PYD_STEP_VIEW, t, t, push_all(&p->pool, 2, NONE, i), 0);
  step(p, PYD_STEP_DROP, t, 0, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  world_t w;
  finish_procs(&b, &s);
  open_world(&b, &w);
  pyd_invocation_t* invocation;
  int left = 1000;
  const pyd_interrupt_t interrupt = {stop_after, &left};
  CHECK_REFUSED(pyd_procedure_call(w.state, 0, NULL, &interrupt, &invocation), INTERRUPTED,
                "procedure 'spin', step 0: the call was interrupted");
  CHECK_REFUSED(pyd_procedure_call(w.state, 1, NULL, NULL, &invocation), INVALID_ARGUMENT,
                "'unset', step 0: slot 0 is read but holds nothing");
  const float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  pyd_input_t inputs[] = {{data, (int64_t[]){2, 4}, 0}, {NULL, NULL, 1}};
  CHECK_OK(pyd_procedure_call(w.state, 2, inputs, NULL, &invocation));
  uint32_t number, count;
  pyd_value_t value;
  CHECK(pyd_invocation_observation(invocation, 0, &number, &count) && number == check && count == 2);
  CHECK(pyd_invocation_observed(invocation, 0, 0, &value) && value.rank == 2 && ((const float*)value.data)[7] == 7);
  CHECK(pyd_invocation_observed(invocation, 0, 1, &value) && value.kind == 1 && value.word == 0x40A00000);  // 5.0f
  CHECK(!pyd_invocation_observed(invocation, 0, 2, &value) &&
        !pyd_invocation_observation(invocation, 1, &number, &count));
  pyd_invocation_free(invocation);
  inputs[1].word = 2;
  CHECK_REFUSED(pyd_procedure_call(w.state, 2, inputs, NULL, &invocation), INVALID_ARGUMENT,
                "m.mlir:7:9: index 2 is outside the 2 elements of axis 0");
  inputs[1].word = UINT64_MAX;
  CHECK_REFUSED(pyd_procedure_call(w.state, 2, inputs, NULL, &invocation), INVALID_ARGUMENT, "index -1 is outside");
  inputs[0].dims = (int64_t[]){2, 3};
  CHECK_REFUSED(pyd_procedure_call(w.state, 2, inputs, NULL, &invocation), INVALID_ARGUMENT,
                "axis 1: expected 4 elements, got 3");
  inputs[0].dims = (int64_t[]){8};
  for (uint64_t size = 0; size < 20; ++size) {
    inputs[1].word = size;
    pyd_status_t status = pyd_procedure_call(w.state, 3, inputs, NULL, &invocation);
    CHECK(pyd_ok(status) == (size == 8));
    pyd_status_free(status);
    pyd_invocation_free(invocation);
  }
  inputs[1].word = (uint64_t)-1;
  CHECK_REFUSED(pyd_procedure_call(w.state, 3, inputs, NULL, &invocation), INVALID_ARGUMENT, "negative size -1");
  CHECK_REFUSED(pyd_procedure_call(w.state, 9, inputs, NULL, &invocation), INVALID_ARGUMENT,
                "procedure 9 does not exist");
  CHECK(live(&w) == 0);
  close_world(&w);
}

int main(void) {
  test_loop();
  test_times(F_ADD_ONE, 1, 100);
  test_times(F_PICKY, 3, 0);
  test_moves_views_and_results();
  test_globals();
  test_threads();
  test_refusals();
  return 0;
}
