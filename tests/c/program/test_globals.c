// links: base platform sched memory program
// with: double.c
// tsan: 5
// Globals: callers that only read them wait for nobody, and see what one call has stored, or none of it.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "program/builder.h"
#include "program/procedure_builder.h"

enum { SIZE = 64, ROW = 4 };

// Fills the result with one more than the first element, when |g_may_go_on|.
static atomic_bool g_is_inside, g_may_go_on, g_fails;
static const void* _Atomic g_address;  // of the argument
static int32_t k_slow_next(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)w;
  atomic_store(&g_is_inside, true);
  while (!atomic_load(&g_may_go_on)) sched_yield();
  const float* in = d->binding_ptrs[0];
  float* out = d->binding_ptrs[1];
  for (size_t i = 0; i < SIZE; ++i) out[i] = in[0] + 1;
  atomic_store(&g_address, in);
  return atomic_load(&g_fails) ? 9 : 0;
}
// Sets a row, whose number is in the first binding, of the second one to the constant.
static int32_t k_put_row(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)w;
  const int64_t* row = d->binding_ptrs[0];
  float* out = d->binding_ptrs[1];
  for (size_t i = 0; i < ROW; ++i) memcpy(&out[(size_t)*row * ROW + i], &d->constants[0], sizeof(*out));
  return 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_slow_next, k_put_row};
static const pyd_library_export_attrs_t kAttrs[] = {{.binding_count = 2}, {.constant_count = 1, .binding_count = 2}};
static const char* const kNames[] = {"slow_next", "put_row"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 2, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

typedef struct world_s {
  pyd_program_t* program;
  pyd_pool_t* pool;
  pyd_state_t* state;
} world_t;

enum { P_ADVANCE, P_READ, P_PUT, P_PUT_ROW, P_SET, P_READ_LATE };

// advance: stores the next of @a, and a copy of it in @b. read: both. put: updates 4 elements of @a in place, the first
// of them first. put_row: the same as an update of row 0, which is saved. set: stores @a in @c, which is empty before.
// read_late: the next of @a, and then @c.
static void open_world(world_t* w) {
  static const _Alignas(64) float kZeros[SIZE];
  static const _Alignas(64) int64_t kRow = 0;
  static builder_t b;
  static procs_t s;
  memset(&b, 0, sizeof(b));
  memset(&s, 0, sizeof(s));
  uint32_t executable = add_executable(&b, "exe"), zeros = add_constant(&b, "zeros", 0, sizeof(kZeros));
  uint32_t row = add_constant(&b, "row", 0, sizeof(kRow));
  add_export(&b, executable, 0, "slow_next", 0, 2);
  add_export(&b, executable, 1, "put_row", 1, 2);
  fn_t* f = add_function(&b, "next");
  add_tensor(&b, f, F32, "x", 1, (int64_t[]){SIZE});
  uint32_t one = constant(f, 1), size = constant(f, SIZE), bytes = constant(f, sizeof(kZeros));
  uint32_t out = add_result(f, F32, 1, &size, bytes);
  add_dispatch(f, 0, constant(f, 0), (uint32_t[]){one, one, one}, 0, NULL, 2,
               (uint32_t[]){0, NONE, NONE, out, NONE, NONE});
  f = add_function(&b, "put");
  add_tensor(&b, f, F32, "x", 1, (int64_t[]){SIZE});
  size = constant(f, SIZE), bytes = constant(f, sizeof(kZeros));
  out = add_result(f, F32, 1, &size, bytes);
  f->results.data[7] = 1;  // may take over argument 0
  add_copy(f, 0, 0, NONE, out, NONE, bytes);
  add_scalar(&b, f, "value");
  add_fill(f, 1, out, NONE, constant(f, 16), op(f, PYD_OP_SCALAR, 0, 1, 0, 0), 4);
  f = add_function(&b, "old_row");
  add_tensor(&b, f, F32, "x", 1, (int64_t[]){SIZE});
  size = constant(f, ROW), bytes = constant(f, ROW * sizeof(float));
  out = add_result(f, F32, 1, &size, bytes);
  add_copy(f, 0, 0, NONE, out, NONE, bytes);
  f = add_function(&b, "put_row");
  add_tensor(&b, f, F32, "x", 1, (int64_t[]){SIZE});
  add_tensor(&b, f, I64, "row", 1, (int64_t[]){1});
  size = constant(f, SIZE), bytes = constant(f, sizeof(kZeros)), one = constant(f, 1);
  out = add_result(f, F32, 1, &size, bytes);
  f->results.data[7] = 1;  // may take over argument 0
  add_copy(f, 0, 0, NONE, out, NONE, bytes);
  add_scalar(&b, f, "value");
  uint32_t word = op(f, PYD_OP_SCALAR, 0, 2, 0, 0);
  add_dispatch(f, 1, constant(f, 1), (uint32_t[]){one, one, one}, 1, &word, 2,
               (uint32_t[]){1, NONE, NONE, out, NONE, NONE});
  uint32_t globals[2];
  for (int i = 0; i < 2; ++i) {
    globals[i] = add_global(&b, &s, i ? "b" : "a", 0, F32, 1, (int64_t[]){SIZE}, zeros, 0, true);
  }
  proc_t* p = add_procedure(&b, &s, "advance");
  uint32_t x = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_LOAD, x, globals[0], 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 2, x | PYD_LAST_USE, x), 0, 0);
  step(p, PYD_STEP_STORE, globals[0], x, 0, 0);
  step(p, PYD_STEP_STORE, globals[1], x | PYD_LAST_USE, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  p = add_procedure(&b, &s, "read");
  uint32_t slots[2];
  for (int i = 0; i < 2; ++i) {
    slots[i] = add_slot(p, 0, F32, 1);
    step(p, PYD_STEP_LOAD, slots[i], globals[i], 0, 0);
    add_output(p, 0, F32, 1);
  }
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, slots[0], slots[1]), 0, 0, 0);
  p = add_procedure(&b, &s, "put");
  uint32_t value = add_port(&b, p, 1, I64, 0, NULL), t = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_LOAD, t, globals[0], 0, 0);
  step(p, PYD_STEP_RUN, 1, push_all(&p->pool, 3, t | PYD_LAST_USE, value, t), 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 2, t, NONE), 0, 0);
  step(p, PYD_STEP_STORE, globals[0], t | PYD_LAST_USE, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  p = add_procedure(&b, &s, "put_row");
  value = add_port(&b, p, 1, I64, 0, NULL), t = add_slot(p, 0, F32, 1);
  uint32_t at = add_slot(p, 0, I64, 1), saved = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_LOAD, t, globals[0], 0, 0);
  step(p, PYD_STEP_RUN, 2, push_all(&p->pool, 2, t, saved), 0, 0);
  step(p, PYD_STEP_CONSTANT, at, row, push_all(&p->pool, 2, 1, 0), 0);
  step(p, PYD_STEP_SAVE, t, t | PYD_LAST_USE, push_all(&p->pool, 2, at, saved | PYD_LAST_USE), 0);
  step(p, PYD_STEP_RUN, 3, push_all(&p->pool, 4, t | PYD_LAST_USE, at, value, t), 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 2, t, NONE), 0, 0);
  step(p, PYD_STEP_STORE, globals[0], t | PYD_LAST_USE, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  uint32_t empty = add_global(&b, &s, "c", 0, F32, 1, (int64_t[]){SIZE}, NONE, 0, true);
  p = add_procedure(&b, &s, "set");
  x = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_LOAD, x, globals[0], 0, 0);
  step(p, PYD_STEP_STORE, empty, x | PYD_LAST_USE, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  p = add_procedure(&b, &s, "read_late");
  x = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_LOAD, x, globals[0], 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 2, x | PYD_LAST_USE, x), 0, 0);
  step(p, PYD_STEP_LOAD, x, empty, 0, 0);
  add_output(p, 0, F32, 1);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 1, x), 0, 0, 0);
  finish_procs(&b, &s);
  w->program = decode(&b);
  CHECK_OK(pyd_program_set_constant(w->program, zeros, (pyd_span_t){(const uint8_t*)kZeros, sizeof(kZeros)}));
  CHECK_OK(pyd_program_set_constant(w->program, row, (pyd_span_t){(const uint8_t*)&kRow, sizeof(kRow)}));
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

static uint32_t g_update;  // the procedure that updates: P_PUT or P_PUT_ROW

// Whether @a is |first| four times, and then |rest|.
static void check_a(const world_t* w, float first, float rest) {
  pyd_invocation_t* invocation;
  pyd_value_t value;
  CHECK_OK(pyd_procedure_call(w->state, P_READ, NULL, NULL, &invocation));
  CHECK(pyd_invocation_result(invocation, 0, &value));
  for (uint32_t i = 0; i < SIZE; ++i) CHECK(((const float*)value.data)[i] == (i < 4 ? first : rest));
  pyd_invocation_free(invocation);
}

// What both globals are filled with, which is the same number.
static float read_both(const world_t* w) {
  pyd_invocation_t* invocation;
  CHECK_OK(pyd_procedure_call(w->state, P_READ, NULL, NULL, &invocation));
  float found = -1;
  for (uint32_t i = 0; i < 2; ++i) {
    pyd_value_t value;
    CHECK(pyd_invocation_result(invocation, i, &value) && value.bytes == SIZE * sizeof(float));
    const float* data = value.data;
    if (i == 0) found = data[0];
    for (uint32_t k = 0; k < SIZE; ++k) CHECK(data[k] == found);
  }
  pyd_invocation_free(invocation);
  return found;
}

static void* advance(void* arg) {
  const world_t* w = arg;
  pyd_invocation_t* invocation;
  CHECK_OK(pyd_procedure_call(w->state, P_ADVANCE, NULL, NULL, &invocation));
  pyd_invocation_free(invocation);
  return NULL;
}

typedef struct put_s {
  const world_t* w;
  float value;
} put_t;

static void* put_from(void* arg) {
  const put_t* what = arg;
  uint32_t bits;
  memcpy(&bits, &what->value, sizeof(bits));
  const pyd_input_t input = {NULL, NULL, bits};
  pyd_invocation_t* invocation;
  pyd_status_t status = pyd_procedure_call(what->w->state, g_update, &input, NULL, &invocation);
  CHECK(pyd_ok(status) == !atomic_load(&g_fails));
  pyd_status_free(status);
  pyd_invocation_free(invocation);
  return NULL;
}

// Where @a is, as the kernel sees it that runs after the update.
static const void* put(const world_t* w, float value) {
  put_t what = {w, value};
  put_from(&what);
  return atomic_load(&g_address);
}

// The same with a reader in the middle, who sees |first| and |rest|.
static const void* put_slowly(const world_t* w, float value, float first, float rest) {
  put_t what = {w, value};
  atomic_store(&g_is_inside, false);
  atomic_store(&g_may_go_on, false);
  pthread_t writer;
  CHECK(pthread_create(&writer, NULL, put_from, &what) == 0);
  while (!atomic_load(&g_is_inside)) sched_yield();
  check_a(w, first, rest);
  atomic_store(&g_may_go_on, true);
  pthread_join(writer, NULL);
  return atomic_load(&g_address);
}

static void test_updates_in_place(void) {
  world_t w;
  open_world(&w);
  atomic_store(&g_may_go_on, true);
  const void* place = put(&w, 3);  // a copy of the constant
  for (int i = 0; i < 5; ++i) {
    CHECK(put(&w, (float)i) == place);
    check_a(&w, (float)i, 0);
  }
  advance(&w);  // @b has the memory of @a
  check_a(&w, 5, 5);
  const void* other = put(&w, 6);
  check_a(&w, 6, 5);
  CHECK(put(&w, 7) == other);
  pyd_invocation_t* invocation;
  CHECK_OK(pyd_procedure_call(w.state, P_READ, NULL, NULL, &invocation));
  pyd_value_t value;
  CHECK(pyd_invocation_result(invocation, 1, &value) && ((const float*)value.data)[0] == 5);  // @b is as it was
  pyd_invocation_free(invocation);
  close_world(&w);
}

static void test_old_values(void) {
  world_t w;
  open_world(&w);
  atomic_store(&g_may_go_on, true);
  const void* place = put(&w, 1);
  atomic_store(&g_fails, true);
  CHECK(put_slowly(&w, 2, 1, 0) == place);
  atomic_store(&g_fails, false);
  check_a(&w, 1, 0);  // undone
  CHECK(put_slowly(&w, 3, 1, 0) == place);
  check_a(&w, 3, 0);
  CHECK(put_slowly(&w, 4, 3, 0) == place);
  close_world(&w);
}

enum { WRITERS = 2, READERS = 3, ROUNDS = 300 };
static atomic_int g_writing;

static void* put_often(void* arg) {
  for (int i = 1; i <= ROUNDS; ++i) put(arg, (float)i);
  atomic_fetch_sub(&g_writing, 1);
  return NULL;
}

static void* read_first_often(void* arg) {
  const world_t* w = arg;
  while (atomic_load(&g_writing)) {
    pyd_invocation_t* invocation;
    CHECK_OK(pyd_procedure_call(w->state, P_READ, NULL, NULL, &invocation));
    pyd_value_t value;
    CHECK(pyd_invocation_result(invocation, 0, &value));
    const float* data = value.data;
    for (uint32_t i = 0; i < SIZE; ++i) CHECK(data[i] == (i < 4 ? data[0] : 0));
    pyd_invocation_free(invocation);
  }
  return NULL;
}

static void run_threads(world_t* w, void* (*write)(void*), void* (*read)(void*)) {
  atomic_store(&g_may_go_on, true);
  atomic_store(&g_writing, WRITERS);
  pthread_t threads[WRITERS + READERS];
  for (int i = 0; i < WRITERS + READERS; ++i)
    CHECK(pthread_create(&threads[i], NULL, i < WRITERS ? write : read, w) == 0);
  for (int i = 0; i < WRITERS + READERS; ++i) pthread_join(threads[i], NULL);
}

static void test_readers_see_updates_whole(void) {
  world_t w;
  open_world(&w);
  run_threads(&w, put_often, read_first_often);
  check_a(&w, ROUNDS, 0);
  close_world(&w);
}

static void test_a_reader_does_not_wait(void) {
  world_t w;
  open_world(&w);
  for (int round = 0; round < 3; ++round) {
    atomic_store(&g_is_inside, false);
    atomic_store(&g_may_go_on, false);
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, advance, &w) == 0);
    while (!atomic_load(&g_is_inside)) sched_yield();
    CHECK(read_both(&w) == (float)round);  // the writer is inside, and stays there
    atomic_store(&g_may_go_on, true);
    pthread_join(writer, NULL);
    CHECK(read_both(&w) == (float)(round + 1));
  }
  close_world(&w);
}

static void* read_late(void* arg) {
  pyd_invocation_t* invocation;
  CHECK_REFUSED(pyd_procedure_call(((world_t*)arg)->state, P_READ_LATE, NULL, NULL, &invocation), INVALID_ARGUMENT,
                "global '@c' is loaded before anything was stored to it");
  return NULL;
}

// What was empty when a reader began is empty for it.
static void test_a_reader_sees_nothing_later(void) {
  world_t w;
  pthread_t reader;
  pyd_invocation_t* invocation;
  open_world(&w);
  atomic_store(&g_is_inside, false);
  atomic_store(&g_may_go_on, false);
  CHECK(pthread_create(&reader, NULL, read_late, &w) == 0);
  while (!atomic_load(&g_is_inside)) sched_yield();
  CHECK_OK(pyd_procedure_call(w.state, P_SET, NULL, NULL, &invocation));
  pyd_invocation_free(invocation);
  atomic_store(&g_may_go_on, true);
  pthread_join(reader, NULL);
  CHECK_OK(pyd_procedure_call(w.state, P_READ_LATE, NULL, NULL, &invocation));
  pyd_invocation_free(invocation);
  close_world(&w);
}

static void* advance_often(void* arg) {
  for (int i = 0; i < ROUNDS; ++i) advance(arg);
  atomic_fetch_sub(&g_writing, 1);
  return NULL;
}

static void* read_often(void* arg) {
  float last = 0;
  while (atomic_load(&g_writing)) {
    float found = read_both(arg);
    CHECK(found >= last);
    last = found;
  }
  return NULL;
}

static void test_readers_see_one_call_whole(void) {
  world_t w;
  open_world(&w);
  run_threads(&w, advance_often, read_often);
  CHECK(read_both(&w) == WRITERS * ROUNDS);
  close_world(&w);
}

int main(void) {
  for (g_update = P_PUT; g_update <= P_PUT_ROW; ++g_update) {
    test_updates_in_place();
    test_old_values();
    test_readers_see_updates_whole();
  }
  test_a_reader_does_not_wait();
  test_a_reader_sees_nothing_later();
  test_readers_see_one_call_whole();
  return 0;
}
