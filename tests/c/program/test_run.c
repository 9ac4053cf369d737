// links: base platform sched memory program
// with: double.c
// tsan: 3
// Running: every workgroup exactly once, order of regions, fills and copies, scalars, local memory, failures, threads.
#include <pthread.h>
#include <stdatomic.h>

#include "program/builder.h"
#include "program/plan/plan.h"

static int32_t k_mul(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const float *a = d->binding_ptrs[0], *b = d->binding_ptrs[1];
  float* out = d->binding_ptrs[2];
  (void)e, (void)w;
  CHECK(d->binding_count == 3 && d->constant_count == 1 && d->binding_lengths[2] == d->constants[0] * 4);
  for (uint32_t i = 0; i < d->constants[0]; ++i) out[i] = a[i] * b[i];
  return 0;
}

// Counts each workgroup in a table of x * y * z bytes.
static int32_t k_mark(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  uint8_t* table = d->binding_ptrs[0];
  (void)e;
  CHECK((uintptr_t)w % 16 == 0 && (uintptr_t)d % 16 == 0);
  CHECK(w->workgroup_id_x < d->workgroup_count_x && w->workgroup_id_y < d->workgroup_count_y &&
        w->workgroup_id_z < d->workgroup_count_z && w->reserved == 0);
  CHECK(d->workgroup_size_x == 4 && d->workgroup_size_y == 1 && d->workgroup_size_z == 1);
  size_t at =
      ((size_t)w->workgroup_id_z * d->workgroup_count_y + w->workgroup_id_y) * d->workgroup_count_x + w->workgroup_id_x;
  ++table[at];
  return 0;
}

// Fails at the workgroup that its constants name.
static int32_t k_fail(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  bool is_it = w->workgroup_id_x == d->constants[0] && w->workgroup_id_y == d->constants[1] &&
               w->workgroup_id_z == d->constants[2];
  return is_it ? -77 : 0;
}

// Writes its constants into its buffer.
static int32_t k_store(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)w;
  memcpy(d->binding_ptrs[0], d->constants, d->constant_count * 4u);
  return 0;
}

// Its local memory belongs to it alone while it runs.
static int32_t k_local(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  CHECK(w->local_memory_size == 8192 && (uintptr_t)w->local_memory % 64 == 0 && w->processor_id < d->max_concurrency);
  memset(w->local_memory, (int)(w->workgroup_id_x & 0xFF), w->local_memory_size);
  const uint8_t* bytes = w->local_memory;
  for (uint32_t i = 0; i < w->local_memory_size; ++i) {
    if (bytes[i] != (w->workgroup_id_x & 0xFF)) return 1;
  }
  return 0;
}

enum { E_MUL, E_MARK, E_FAIL, E_STORE, E_LOCAL, E_COUNT };
static const pyd_dispatch_fn_t kFunctions[] = {k_mul, k_mark, k_fail, k_store, k_local};
static const pyd_library_export_attrs_t kAttrs[] = {
    {.constant_count = 1, .binding_count = 3},
    {.binding_count = 1, .workgroup_size_x = 4},
    {.constant_count = 3},
    {.constant_count = 5, .binding_count = 1},
    {.local_memory_pages = 2},
};
static const char* const kNames[] = {"mul", "mark", "fail", "store", "local"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader,
                .exports = {.count = E_COUNT, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

static void add_exports(builder_t* b) {
  uint32_t e = add_executable(b, "exe");
  for (uint32_t i = 0; i < E_COUNT; ++i)
    add_export(b, e, i, kNames[i], kAttrs[i].constant_count, kAttrs[i].binding_count);
}
static pyd_program_t* link(builder_t* b) {
  pyd_program_t* program = decode(b);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  return program;
}
static pyd_sched_t* make_sched(uint32_t workers) {
  pyd_sched_options_t options = {.workers = workers, .spin_us = -1};
  pyd_sched_t* sched = NULL;
  CHECK_OK(pyd_sched_create(&options, &sched));
  return sched;
}

// t = a * b; u = t * b; r = u * a over 8 elements
static pyd_program_t* chain(bool is_dynamic) {
  static builder_t b;
  add_exports(&b);
  fn_t* f = add_function(&b, "chain");
  const int64_t dims[] = {is_dynamic ? -1 : 8};
  add_tensor(&b, f, F32, "a", 1, dims);
  add_tensor(&b, f, F32, "b", 1, dims);
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), nb = op(f, PYD_OP_DIM, 0, 1, 0, 0);
  add_check(&b, f, PYD_OP_CHECK_EQ, n, nb, "'a' has {a} elements and 'b' has {b}; they must agree");
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0), one = constant(f, 1);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 0, 1),
           u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 1, 2);
  uint32_t r = add_result(f, F32, 1, &n, bytes);
  const uint32_t grid[] = {one, one, one};
  uint32_t export = constant(f, E_MUL);
  add_dispatch(f, 0, export, grid, 1, &n, 3, (uint32_t[]){0, NONE, NONE, 1, NONE, NONE, t, NONE, NONE});
  add_dispatch(f, 1, export, grid, 1, &n, 3, (uint32_t[]){t, NONE, NONE, 1, NONE, NONE, u, NONE, NONE});
  add_dispatch(f, 2, export, grid, 1, &n, 3, (uint32_t[]){u, NONE, NONE, 0, NONE, NONE, r, NONE, NONE});
  return link(&b);
}

static void run_chain(const pyd_program_t* program, int64_t n, pyd_sched_t* sched, pyd_pool_t* pool, uint32_t repeats) {
  const int64_t dims[] = {n, n};
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_plan_create(program, 0, dims, NULL, &plan));
  CHECK_OK(pyd_call_create(plan, sched, pool, &call));
  float *a = malloc((size_t)n * 4 + 1), *b = malloc((size_t)n * 4 + 1), *r = malloc((size_t)n * 4 + 1);
  for (int64_t i = 0; i < n; ++i) a[i] = (float)(i % 7), b[i] = (float)(i % 5);
  pyd_call_bind_arg(call, 0, a);
  CHECK_REFUSED(pyd_call_run(call), INVALID_ARGUMENT, "@chain: argument 1 'b' has no memory");
  pyd_call_bind_arg(call, 1, b);
  pyd_call_bind_result(call, 0, r);
  for (uint32_t k = 0; k < repeats; ++k) CHECK_OK(pyd_call_run(call));
  for (int64_t i = 0; i < n; ++i) CHECK(r[i] == a[i] * b[i] * b[i] * a[i]);
  pyd_command_time_t times[3] = {0};
  memset(r, 0, (size_t)n * 4);
  for (uint32_t k = 0; k < repeats; ++k) CHECK_OK(pyd_call_run_timed(call, NULL, times));
  for (int64_t i = 0; i < n; ++i) CHECK(r[i] == a[i] * b[i] * b[i] * a[i]);
  for (uint32_t i = 0; i < 3; ++i) CHECK(times[i].begin <= times[i].end && (!i || times[i - 1].end <= times[i].begin));
  free(a), free(b), free(r);
  pyd_call_free(call);
  pyd_plan_free(plan);
}

static void test_chain(void) {
  pyd_sched_t* sched = make_sched(2);
  pyd_pool_t* pool = NULL;
  CHECK_OK(pyd_pool_create(1 << 30, &pool));
  pyd_program_t* program = chain(true);
  const int64_t sizes[] = {0, 1, 8, 1000, 40000, 100000};  // the last two need an arena from the pool
  for (uint32_t i = 0; i < 6; ++i) run_chain(program, sizes[i], i % 2 ? sched : NULL, pool, 3);
  pyd_plan_t* plan = NULL;
  CHECK_REFUSED(pyd_plan_create(program, 0, (int64_t[]){8, 9}, NULL, &plan), INVALID_ARGUMENT,
                "function 'chain': 'a' has 8 elements and 'b' has 9; they must agree");
  for (uint32_t i = 0; i < 1000; ++i) run_chain(program, 8, sched, pool, 1);
  pyd_pool_stats_t stats;
  pyd_pool_stats(pool, &stats);
  CHECK(stats.live_blocks == 0 && stats.live_bytes == 0 && stats.free_bytes > 0);
  pyd_program_free(program);
  pyd_pool_destroy(pool);
  pyd_sched_destroy(sched);
}

// A plan for other sizes expects of an export what the first run of another plan has shown, for about as much memory
// per workgroup.
static void test_costs_of_other_sizes(void) {
  static builder_t b;
  add_exports(&b);
  fn_t* f = add_function(&b, "marks");
  add_tensor(&b, f, F32, "a", 1, (const int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0);
  uint32_t one = constant(f, 1), four = constant(f, 4), r = add_result(f, F32, 1, &n, bytes);
  const uint32_t grid[] = {four, one, one};
  add_dispatch(f, 0, constant(f, E_MARK), grid, 0, NULL, 1, (uint32_t[]){r, NONE, NONE});
  pyd_program_t* program = link(&b);
  pyd_sched_t* sched = make_sched(2);
  pyd_plan_t *first = NULL, *near = NULL, *far = NULL;
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_plan_create(program, 0, (int64_t[]){1000}, NULL, &first));
  CHECK(first->costs[0].picoseconds == 0);
  CHECK_OK(pyd_call_create(first, sched, NULL, &call));
  float *a = calloc(1000, 4), *out = malloc(4000);
  pyd_call_bind_arg(call, 0, a);
  pyd_call_bind_result(call, 0, out);
  CHECK_OK(pyd_call_run(call));
  const uint32_t cost = first->costs[0].picoseconds;
  CHECK(cost != 0);
  CHECK_OK(pyd_call_run(call));  // what later runs learn is the plan's own
  CHECK_OK(pyd_plan_create(program, 0, (int64_t[]){900}, NULL, &near));
  CHECK(near->costs[0].picoseconds == cost);
  CHECK_OK(pyd_plan_create(program, 0, (int64_t[]){100000}, NULL, &far));
  CHECK(far->costs[0].picoseconds == 0);
  free(a), free(out);
  pyd_call_free(call);
  pyd_plan_free(first), pyd_plan_free(near), pyd_plan_free(far);
  pyd_sched_destroy(sched);
  pyd_program_free(program);
}

// One region of several grids, and a fill and a copy between them: everything exactly once.
static void test_grids(void) {
  static const uint32_t grids[][3] = {{1, 1, 1},   {7, 1, 1},    {1, 7, 1},    {1, 1, 7}, {3, 5, 2},
                                      {64, 64, 3}, {1, 1000, 1}, {1000, 1, 2}, {0, 5, 5}, {13, 1, 11}};
  enum { GRIDS = sizeof(grids) / sizeof(grids[0]) };
  static builder_t b;
  add_exports(&b);
  fn_t* f = add_function(&b, "grids");
  uint32_t export = constant(f, E_MARK), two = constant(f, 2), odd = constant(f, 700001);
  for (uint32_t i = 0; i < GRIDS; ++i) {
    uint32_t g[3], count = grids[i][0] * grids[i][1] * grids[i][2];
    for (uint32_t k = 0; k < 3; ++k) g[k] = constant(f, grids[i][k]);
    uint32_t size = constant(f, count);
    uint32_t r = add_result(f, I8, 1, &size, size);
    add_fill(f, 0, r, NONE, NONE, two, 1);
    add_dispatch(f, 1, export, g, 0, NULL, 1, (uint32_t[]){r, NONE, NONE});
    if (i == 4) {  // large, between the grids
      uint32_t big = add_result(f, I8, 1, &odd, odd);
      add_fill(f, 0, big, NONE, NONE, constant(f, 0x55), 1);
      uint32_t target = add_result(f, I8, 1, &odd, odd);
      add_copy(f, 1, big, NONE, target, NONE, odd);
    }
  }
  sort_commands(f);
  pyd_program_t* program = link(&b);
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_plan_create(program, 0, NULL, NULL, &plan));
  for (uint32_t workers = 1; workers <= 4; ++workers) {
    pyd_sched_t* sched = make_sched(workers);
    pyd_call_t* call = NULL;
    CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
    uint8_t* results[GRIDS + 2];
    for (uint32_t i = 0; i < GRIDS + 2; ++i) {
      results[i] = malloc(pyd_plan_result_bytes(plan, i) + 1);
      pyd_call_bind_result(call, i, results[i]);
    }
    for (uint32_t k = 0; k < 5; ++k) CHECK_OK(pyd_call_run(call));
    for (uint32_t i = 0; i < GRIDS + 2; ++i) {
      uint8_t expected = i == 5 || i == 6 ? 0x55 : 3;
      for (uint64_t at = 0; at < pyd_plan_result_bytes(plan, i); ++at) CHECK(results[i][at] == expected);
      free(results[i]);
    }
    pyd_call_free(call);
    pyd_sched_destroy(sched);
  }
  pyd_plan_free(plan);
  pyd_program_free(program);
}

static void test_failure(void) {
  static builder_t b;
  add_exports(&b);
  fn_t* f = add_function(&b, "failing");
  for (uint32_t i = 0; i < 3; ++i) add_scalar(&b, f, "id");
  uint32_t ids[3], grid[3], one = constant(f, 1), export = constant(f, E_FAIL), never = constant(f, 99999);
  for (uint32_t i = 0; i < 3; ++i) ids[i] = op(f, PYD_OP_SCALAR, 0, i, 0, 0);
  grid[0] = constant(f, 50), grid[1] = constant(f, 40), grid[2] = constant(f, 3);
  add_dispatch(f, 0, export, (uint32_t[]){one, one, one}, 3, (uint32_t[]){never, never, never}, 0, NULL);
  add_dispatch(f, 1, export, grid, 3, (uint32_t[]){never, never, never}, 0, NULL);
  add_dispatch(f, 1, export, grid, 3, ids, 0, NULL);
  pyd_program_t* program = link(&b);
  pyd_plan_t* plan = NULL;
  pyd_sched_t* sched = make_sched(2);
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_plan_create(program, 0, NULL, (uint64_t[]){0, 0, 0}, &plan));
  CHECK(pyd_plan_matches(plan, NULL, (uint64_t[]){1, 2, 3}));  // they reach constants only
  CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
  const uint64_t tries[][3] = {{0, 0, 0}, {49, 39, 2}, {7, 11, 1}, {0, 39, 0}};
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t* id = tries[i];
    char text[100];
    pyd_call_set_scalars(call, id);
    pyd_status_t status = pyd_call_run(call);
    const int64_t* values = pyd_status_values(status);
    CHECK(values[0] == 2 && values[4] == -77);
    for (uint32_t k = 0; k < 3; ++k) CHECK(values[k + 1] == (int64_t)id[k]);
    snprintf(text, sizeof(text), "@exe::@fail: workgroup (%d, %d, %d) returned -77", (int)id[0], (int)id[1],
             (int)id[2]);
    CHECK_REFUSED(status, KERNEL, text);
    pyd_command_time_t times[3] = {0};
    CHECK_REFUSED(pyd_call_run_timed(call, NULL, times), KERNEL, text);
  }
  pyd_call_set_scalars(call, (uint64_t[]){50, 0, 0});
  CHECK_OK(pyd_call_run(call));  // a failed call may be run again
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_sched_destroy(sched);
}

// Scalars that are patched: constants, their high words, a pattern and a scalar result.
static void test_late(void) {
  static builder_t b;
  add_exports(&b);
  fn_t* f = add_function(&b, "late");
  add_scalar(&b, f, "n");  // keyed: a size
  add_scalar(&b, f, "x");
  uint32_t n = op(f, PYD_OP_SCALAR, 0, 0, 0, 0), x = op(f, PYD_OP_SCALAR, 0, 1, 0, 0);
  uint32_t sum = op(f, PYD_OP_ADD, 64, n, x, 0), one = constant(f, 1), seven = constant(f, 7);
  uint32_t quotient = op(f, PYD_OP_DIVS, 64, constant(f, 1000), x, 0);
  uint32_t r = add_result(f, I8, 1, &n, n), words = constant(f, 20);
  uint32_t s = add_result(f, I8, 1, &words, words);
  const uint32_t constants[] = {x, x | 1u << 31, sum, seven, quotient};
  add_fill(f, 0, r, NONE, NONE, sum, 1);
  add_dispatch(f, 0, constant(f, E_STORE), (uint32_t[]){one, one, one}, 5, constants, 1, (uint32_t[]){s, NONE, NONE});
  add_scalar_result(f, sum);
  add_scalar_result(f, n);
  pyd_program_t* program = link(&b);
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_plan_create(program, 0, NULL, (uint64_t[]){5, 10}, &plan));
  CHECK(pyd_plan_matches(plan, NULL, (uint64_t[]){5, 11}) && !pyd_plan_matches(plan, NULL, (uint64_t[]){6, 10}));
  CHECK(pyd_plan_hash(program, 0, NULL, (uint64_t[]){5, 11}) == pyd_plan_hash(program, 0, NULL, (uint64_t[]){5, 10}));
  CHECK(pyd_plan_hash(program, 0, NULL, (uint64_t[]){6, 10}) != pyd_plan_hash(program, 0, NULL, (uint64_t[]){5, 10}));
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  uint8_t bytes[5];
  uint32_t stored[5];
  pyd_call_bind_result(call, 0, bytes);
  pyd_call_bind_result(call, 1, stored);
  for (uint64_t k = 0; k < 4; ++k) {
    uint64_t value = 10 + k * UINT64_C(0x100000001);
    if (k) pyd_call_set_scalars(call, (uint64_t[]){5, value});
    CHECK_OK(pyd_call_run(call));
    for (uint32_t i = 0; i < 5; ++i) CHECK(bytes[i] == (uint8_t)(value + 5));
    CHECK(stored[0] == (uint32_t)value && stored[1] == value >> 32 && stored[2] == (uint32_t)(value + 5) &&
          stored[3] == 7);
    CHECK(stored[4] == 1000 / value);
    CHECK(pyd_call_scalar_result(call, 2) == value + 5 && pyd_call_scalar_result(call, 3) == 5);
  }
  pyd_call_set_scalars(call, (uint64_t[]){5, 0});
  CHECK_REFUSED(pyd_call_run(call), INVALID_ARGUMENT, "1000 is divided by zero");
  pyd_call_set_scalars(call, (uint64_t[]){5, 1});
  CHECK_OK(pyd_call_run(call));
  CHECK(stored[4] == 1000);
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(program);
}

// Patterns of each size over odd ranges, copies within a buffer, constants.
static void test_fills_and_copies(void) {
  enum { SIZE = 600000 };
  static builder_t b;
  fn_t* f = add_function(&b, "moves");
  uint32_t k = add_constant(&b, "constants/0.npy", 128, 1000);
  uint32_t size = constant(f, SIZE), pattern = constant(f, UINT64_C(0x1122334455667788)), c1000 = constant(f, 1000);
  uint32_t r[6], constants = add_buffer(f, PYD_BUFFER_CONSTANT, k, NONE, 0, 0);
  for (uint32_t i = 0; i < 6; ++i) r[i] = add_result(f, I8, 1, &size, size);
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t bytes = 1u << i;
    add_fill(f, 0, r[i], NONE, NONE, constant(f, 0xEE), 1);
    add_fill(f, 1, r[i], constant(f, 3 * bytes), constant(f, SIZE - 8 * bytes), pattern, bytes);
  }
  for (uint32_t i = 4; i < 6; ++i) {
    add_copy(f, 2, constants, NONE, r[i], NONE, c1000);
    for (uint32_t at = 1000; at < SIZE; at += 1000) {  // doubling by hand keeps the regions apart
      add_copy(f, 2 + at / 1000, r[i], constant(f, at - 1000), r[i], constant(f, at), c1000);
    }
  }
  uint32_t last = f->regions;
  add_copy(f, last, r[5], NONE, r[5], constant(f, 300), constant(f, SIZE - 300));  // forwards over itself
  sort_commands(f);
  pyd_program_t* program = decode(&b);
  uint8_t data[1000];
  for (uint32_t i = 0; i < 1000; ++i) data[i] = (uint8_t)(i * 7);
  CHECK_REFUSED(pyd_program_set_constant(program, 0, (pyd_span_t){data, 999}), INVALID_ARGUMENT,
                "constant 0 ('constants/0.npy') has 1000 bytes, got 999");
  pyd_plan_t* plan = NULL;
  CHECK_REFUSED(pyd_plan_create(program, 0, NULL, NULL, &plan), INVALID_ARGUMENT,
                "constant 0 ('constants/0.npy') is not linked");
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){data, 1000}));
  CHECK_OK(pyd_plan_create(program, 0, NULL, NULL, &plan));
  pyd_sched_t* sched = make_sched(2);
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
  uint8_t* out[6];
  for (uint32_t i = 0; i < 6; ++i) pyd_call_bind_result(call, i, out[i] = malloc(SIZE));
  CHECK_OK(pyd_call_run(call));
  const uint8_t bytes[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t n = 1u << i;
    for (uint32_t at = 0; at < SIZE; ++at) {
      bool inside = at >= 3 * n && at < SIZE - 5 * n;
      CHECK(out[i][at] == (inside ? bytes[(at - 3 * n) % n] : 0xEE));
    }
  }
  for (uint32_t at = 0; at < SIZE; ++at) {
    CHECK(out[4][at] == data[at % 1000]);
    CHECK(out[5][at] == data[(at < 300 ? at : at - 300) % 1000]);
  }
  for (uint32_t i = 0; i < 6; ++i) free(out[i]);
  pyd_call_free(call);
  pyd_sched_destroy(sched);
  pyd_plan_free(plan);
  pyd_program_free(program);
}

static void test_local_memory(void) {
  static builder_t b;
  add_exports(&b);
  fn_t* f = add_function(&b, "local");
  uint32_t one = constant(f, 1), n = constant(f, 500), export = constant(f, E_LOCAL);
  add_dispatch(f, 0, export, (uint32_t[]){n, one, one}, 0, NULL, 0, NULL);
  add_dispatch(f, 1, export, (uint32_t[]){one, one, one}, 0, NULL, 0, NULL);
  pyd_program_t* program = link(&b);
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_plan_create(program, 0, NULL, NULL, &plan));
  pyd_sched_t* sched = make_sched(4);
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
  for (uint32_t i = 0; i < 20; ++i) CHECK_OK(pyd_call_run(call));
  pyd_call_free(call);
  pyd_sched_destroy(sched);
  pyd_plan_free(plan);
  pyd_program_free(program);
}

// Several threads plan, call and run one program over one scheduler and one pool.
typedef struct shared_s {
  const pyd_program_t* program;
  pyd_sched_t* sched;
  pyd_pool_t* pool;
} shared_t;
static void* run_thread(void* argument) {
  shared_t* shared = argument;
  for (int64_t i = 0; i < 30; ++i) run_chain(shared->program, i % 3 ? i : 50000 + i, shared->sched, shared->pool, 2);
  return NULL;
}
static void test_threads(void) {
  shared_t shared = {chain(true), make_sched(2), NULL};
  CHECK_OK(pyd_pool_create(1 << 20, &shared.pool));
  pthread_t threads[4];
  for (uint32_t i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, run_thread, &shared) == 0);
  for (uint32_t i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  pyd_program_free((pyd_program_t*)shared.program);
  pyd_pool_destroy(shared.pool);
  pyd_sched_destroy(shared.sched);
}

int main(void) {
  test_chain();
  test_costs_of_other_sizes();
  test_grids();
  test_failure();
  test_late();
  test_fills_and_copies();
  test_local_memory();
  test_threads();
  return 0;
}
