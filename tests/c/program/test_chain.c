// links: base platform sched memory program
// with: double.c
// tsan: 3
// Chains: results with and without them, ragged ends, which transients become tiles, failures, cancelling, refusals.
#include <stdatomic.h>

#include "platform/sanitizer.h"
#include "program/builder.h"
#include "program/plan/plan.h"
#include "pydispatch/submit.h"

// A workgroup has |size| elements, its first constant; the last one fewer. out = in + 1, or in the middle out = in * 2
// + a.
typedef struct part_s {
  uint32_t begin, end;
} part_t;
static part_t part_of(const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const uint32_t size = d->constants[0], count = (uint32_t)(d->binding_lengths[0] / 4),
                 begin = w->workgroup_id_x * size;
  return (part_t){begin, count - begin < size ? count : begin + size};
}
static int32_t k_next(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const float* in = d->binding_ptrs[0];
  float* out = d->binding_ptrs[1];
  (void)e;
  for (part_t p = part_of(d, w); p.begin < p.end; ++p.begin) {
    if (in[p.begin] == -1) return 5;
    out[p.begin] = in[p.begin] + 1;
  }
  return 0;
}
static int32_t k_mix(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const float *in = d->binding_ptrs[0], *a = d->binding_ptrs[2];
  double* out = d->binding_ptrs[1];
  (void)e;
  for (part_t p = part_of(d, w); p.begin < p.end; ++p.begin) {
    if (in[p.begin] == -7) return 6;
    out[p.begin] = (double)in[p.begin] * 2 + (double)a[p.begin];
  }
  return 0;
}
// In place where both bindings are one buffer. The second is of f64.
static int32_t k_end(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const double* in = d->binding_ptrs[1];
  float* out = d->binding_ptrs[0];
  (void)e;
  for (part_t p = part_of(d, w); p.begin < p.end; ++p.begin) out[p.begin] = (float)(in[p.begin] + 3);
  return 0;
}
enum { E_NEXT, E_MIX, E_END, E_COUNT };
static const pyd_dispatch_fn_t kFunctions[] = {k_next, k_mix, k_end};
static const pyd_library_export_attrs_t kAttrs[] = {{.constant_count = 1, .binding_count = 2},
                                                    {.constant_count = 1, .binding_count = 3},
                                                    {.constant_count = 1, .binding_count = 2}};
static const char* const kNames[] = {"next", "mix", "end"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader,
                .exports = {.count = E_COUNT, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

// Makes the last command of |f| a part of a chain.
static void set_tile(fn_t* f, uint32_t groups, bool follows) {
  uint32_t* insn = f->insns.data + f->insns.count - 5;
  insn[0] |= (uint32_t)follows << 16;
  insn[3] = groups;
}
static void set_buffer_tile(fn_t* f, uint32_t buffer, uint32_t bytes) { f->buffers.data[6 * buffer + 5] = bytes; }

enum { TILE = 64 };  // elements
typedef struct shape_s {
  uint32_t tile_groups[3];  // workgroups have TILE / tile_groups elements
  uint32_t tile_bytes[2];   // as the program says of its transients
  bool is_odd;              // the last dispatch has more workgroups than its tiles say
} shape_t;
static const shape_t kEven = {{1, 1, 1}, {4 * TILE, 8 * TILE}, false};

// t = a + 1; u = 2 t + a, in f64; r = u + 3
static pyd_program_t* make_program(const shape_t* shape, pyd_chain_options_t options) {
  static builder_t b;
  memset(&b, 0, sizeof(b));
  uint32_t e = add_executable(&b, "exe");
  for (uint32_t i = 0; i < E_COUNT; ++i)
    add_export(&b, e, i, kNames[i], kAttrs[i].constant_count, kAttrs[i].binding_count);
  fn_t* f = add_function(&b, "chain");
  add_tensor(&b, f, F32, "a", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1), sizes[3], grids[3][3];
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0), twice = op(f, PYD_OP_MUL, 64, n, constant(f, 8), 0);
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t elements = TILE / shape->tile_groups[i] / (shape->is_odd && i == 2 ? 2 : 1);
    sizes[i] = constant(f, elements);
    grids[i][0] = op(f, PYD_OP_CEILDIVS, 64, n, sizes[i], 0), grids[i][1] = grids[i][2] = one;
  }
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 0, 1),
           u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, twice, 1, 2);
  set_buffer_tile(f, t, shape->tile_bytes[0]);
  set_buffer_tile(f, u, shape->tile_bytes[1]);
  uint32_t r = add_result(f, F32, 1, &n, bytes);
  add_dispatch(f, 0, constant(f, E_NEXT), grids[0], 1, &sizes[0], 2, (uint32_t[]){0, NONE, NONE, t, NONE, NONE});
  set_tile(f, shape->tile_groups[0], false);
  add_dispatch(f, 1, constant(f, E_MIX), grids[1], 1, &sizes[1], 3,
               (uint32_t[]){t, NONE, NONE, u, NONE, NONE, 0, NONE, NONE});
  set_tile(f, shape->tile_groups[1], true);
  add_dispatch(f, 2, constant(f, E_END), grids[2], 1, &sizes[2], 2, (uint32_t[]){r, NONE, NONE, u, NONE, NONE});
  set_tile(f, shape->tile_groups[2], true);
  pyd_program_t* program = decode(&b);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  pyd_program_set_chains(program, options);
  return program;
}

static pyd_sched_t* make_sched(uint32_t workers) {
  pyd_sched_t* sched = NULL;
  CHECK_OK(pyd_sched_create(&(pyd_sched_options_t){.workers = workers, .spin_us = -1}, &sched));
  return sched;
}

typedef struct run_s {
  pyd_plan_t* plan;
  pyd_call_t* call;
  float *in, *out;
  uint32_t n;
} run_t;

static void open_run(run_t* run, const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool, uint32_t n) {
  const int64_t dims = n;
  *run = (run_t){.n = n, .in = malloc(4 * (size_t)n + 4), .out = calloc((size_t)n + 1, 4)};
  for (uint32_t i = 0; i < n; ++i) run->in[i] = (float)(i % 1000);
  CHECK_OK(pyd_plan_create(program, 0, &dims, NULL, &run->plan));
  CHECK_OK(pyd_call_create(run->plan, sched, pool, &run->call));
  pyd_call_bind_arg(run->call, 0, run->in);
  pyd_call_bind_result(run->call, 0, run->out);
}
static void close_run(run_t* run) {
  pyd_call_free(run->call);
  pyd_plan_free(run->plan);
  free(run->in), free(run->out);
}
static void check_run(run_t* run) {
  for (uint32_t i = 0; i < run->n; ++i) CHECK(run->out[i] == 3 * run->in[i] + 5);
}

// Every size around whole tiles, small and large chunks; ratios of workgroups; on one thread and on several.
static void test_results(void) {
  static const shape_t shapes[] = {{{1, 1, 1}, {4 * TILE, 8 * TILE}, false},
                                   {{4, 1, 16}, {4 * TILE, 8 * TILE}, false},
                                   {{1, 64, 2}, {0, 0}, false},
                                   {{2, 2, 2}, {0, 8 * TILE}, false}};
  static const uint32_t sizes[] = {0, 1, 64, 127, 128, 129, 640, 6401, 200000};
  pyd_pool_t* pool = NULL;
  CHECK_OK(pyd_pool_create(1 << 24, &pool));
  for (uint32_t workers = PYD_HAS_TSAN ? 2 : 0; workers <= 3; ++workers) {  // TSAN finds nothing in one thread
    pyd_sched_t* sched = workers ? make_sched(workers) : NULL;
    for (uint32_t s = 0; s < sizeof(shapes) / sizeof(*shapes); ++s) {
      for (uint64_t cache = 4000; cache <= 400000; cache *= 10) {
        pyd_program_t* program = make_program(&shapes[s], (pyd_chain_options_t){cache, 2});
        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
          run_t run;
          open_run(&run, program, sched, pool, sizes[i]);
          for (uint32_t k = 0; k < 3; ++k) {
            memset(run.out, 0, 4 * (size_t)run.n);
            CHECK_OK(pyd_call_run(run.call));
            check_run(&run);
          }
          pyd_command_time_t times[3] = {{0}};
          memset(run.out, 0, 4 * (size_t)run.n);
          CHECK_OK(pyd_call_run_timed(run.call, NULL, times));  // a chain is measured as one
          check_run(&run);
          CHECK(run.plan->steps[0].chunk == 0 || (times[0].end && times[2].begin == times[0].begin));
          close_run(&run);
        }
        pyd_program_free(program);
      }
    }
    pyd_sched_destroy(sched);
  }
  pyd_pool_destroy(pool);
}

static pyd_plan_t* plan_of(const pyd_program_t* program, int64_t n) {
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_plan_create(program, 0, &n, NULL, &plan));
  return plan;
}

// What becomes of a plan: |steps|, the bytes of its arena, and of its tiles for each worker.
static void check_plan(const shape_t* shape, pyd_chain_options_t options, int64_t n, uint32_t steps, uint64_t arena,
                       uint64_t tiles) {
  pyd_program_t* program = make_program(shape, options);
  pyd_plan_t* plan = plan_of(program, n);
  CHECK(plan->step_count == steps && plan->arena_bytes == arena && plan->tile_area == tiles);
  pyd_plan_free(plan);
  pyd_program_free(program);
}

static void test_plans(void) {
  enum { N = 64000 };  // 1000 tiles of 36 bytes an element, and one for each of 7 bindings
  const pyd_chain_options_t ten = {10 * (36 * TILE + 7), 2}, none = {0, 0}, all = {1 << 22, 2}, few = {36 * TILE, 2};
  const uint64_t full = 12 * N;
  check_plan(&kEven, ten, N, 1, 0, 10 * 12 * TILE);
  check_plan(&kEven, none, N, 3, full, 0);
  check_plan(&kEven, all, N, 3, full, 0);  // everything stays in the cache anyway
  check_plan(&kEven, few, N, 3, full, 0);  // not one tile fits
  check_plan(&kEven, (pyd_chain_options_t){ten.cache_bytes, 1001}, N, 3, full, 0);
  shape_t shape = kEven;
  shape.tile_bytes[0] = 0;  // something else uses it
  check_plan(&shape, ten, N, 1, 4 * N, 10 * 8 * TILE);
  shape.tile_bytes[0] = 8 * TILE;  // of which there are not as many as tiles
  check_plan(&shape, ten, N, 1, 4 * N, 10 * 8 * TILE);
  shape = kEven;
  shape.is_odd = true;  // the last dispatch runs by itself, and the chunk of the others is longer
  check_plan(&shape, ten, N, 2, 8 * N, 14 * 4 * TILE);
}

// The workgroup that failed is named as without chains.
static void test_failure(void) {
  static const shape_t shape = {{4, 1, 16}, {4 * TILE, 8 * TILE}, false};
  pyd_program_t* program = make_program(&shape, (pyd_chain_options_t){40000, 2});
  for (uint32_t workers = 1; workers <= 2; ++workers) {
    pyd_sched_t* sched = make_sched(workers);
    run_t run;
    open_run(&run, program, sched, NULL, 200000);
    CHECK(run.plan->step_count == 1);
    const uint32_t at = 100000;
    run.in[at] = -1;
    CHECK_REFUSED(pyd_call_run(run.call), KERNEL, "@exe::@next: workgroup (6250, 0, 0) returned 5");
    run.in[at] = -8;
    CHECK_REFUSED(pyd_call_run(run.call), KERNEL, "@exe::@mix: workgroup (1562, 0, 0) returned 6");
    pyd_task_t* task = NULL;
    CHECK_OK(pyd_call_submit(run.call, &(pyd_submit_options_t){0}, &task));
    CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE);
    const int64_t* values = pyd_status_values(pyd_task_status(task));
    CHECK(values[0] == 1 && values[1] == 1562 && values[4] == 6);
    pyd_task_release(task);
    run.in[at] = 0;
    CHECK_OK(pyd_call_run(run.call));
    check_run(&run);
    close_run(&run);
    pyd_sched_destroy(sched);
  }
  pyd_program_free(program);
}

static int32_t is_wanted(void* self) { return atomic_fetch_add((atomic_int*)self, 1) >= 1; }

// An interrupted call may be run again.
static void test_interrupt(void) {
  pyd_program_t* program = make_program(&kEven, (pyd_chain_options_t){20000, 2});
  pyd_sched_t* sched = make_sched(2);
  run_t run;
  open_run(&run, program, sched, NULL, 4000000);
  atomic_int asked = 1;
  const pyd_interrupt_t interrupt = {is_wanted, &asked};
  pyd_status_t status = pyd_call_run_until(run.call, &interrupt);
  if (!pyd_ok(status)) CHECK_REFUSED(status, INTERRUPTED, "the call was interrupted");
  CHECK_OK(pyd_call_run(run.call));
  check_run(&run);
  close_run(&run);
  pyd_sched_destroy(sched);
  pyd_program_free(program);
}

static void refuse(void (*spoil)(fn_t*), const char* text) {
  static builder_t b;
  memset(&b, 0, sizeof(b));
  fn_t* f = add_function(&b, "f");
  uint32_t one = constant(f, 1);
  const uint32_t grid[] = {one, one, one};
  add_buffer(f, PYD_BUFFER_TRANSIENT, 0, one, 0, 1);
  add_dispatch(f, 0, one, grid, 0, NULL, 0, NULL);
  set_tile(f, 1, false);
  add_dispatch(f, 1, one, grid, 0, NULL, 0, NULL);
  set_tile(f, 1, true);
  spoil(f);
  pyd_span_t bytes = encode(&b);
  pyd_program_t* program = NULL;
  CHECK_REFUSED(pyd_program_decode(bytes, &program), CORRUPT, text);
  free((void*)bytes.data);
}
static uint32_t* insn_of(fn_t* f, uint32_t command) { return f->insns.data + f->insns.count - 5 * (2 - command); }
static void spoil_modifier(fn_t* f) { insn_of(f, 1)[0] |= 2 << 16; }
static void spoil_groups(fn_t* f) { insn_of(f, 0)[3] = 1u << 24; }
static void spoil_first(fn_t* f) { insn_of(f, 0)[0] |= 1 << 16; }
static void spoil_previous(fn_t* f) { insn_of(f, 0)[3] = 0; }
static void spoil_own(fn_t* f) { insn_of(f, 1)[3] = 0; }
static void spoil_region(fn_t* f) { insn_of(f, 1)[4] = 0; }
static void spoil_tile(fn_t* f) { set_buffer_tile(f, 0, 65); }

static void test_refusals(void) {
  const char* follows = "it continues a chain, but no dispatch of an earlier region with tiles precedes it";
  refuse(spoil_modifier, "a place 3 in a chain with tiles of 1 workgroups");
  refuse(spoil_groups, "a place 0 in a chain with tiles of 16777216 workgroups");
  refuse(spoil_first, follows);
  refuse(spoil_previous, follows);
  refuse(spoil_own, follows);
  refuse(spoil_region, follows);
  refuse(spoil_tile, "65 bytes of a tile do not fit the function");
}

// Two dispatches of |groups| workgroups, tile by tile, over two transients of |bytes|, as an artifact may say.
static pyd_program_t* make_pair(uint32_t groups, uint64_t bytes, pyd_chain_options_t options) {
  static builder_t b;
  memset(&b, 0, sizeof(b));
  add_export(&b, add_executable(&b, "exe"), 0, "next", 0, 2);
  fn_t* f = add_function(&b, "pair");
  const uint32_t one = constant(f, 1), grid[] = {constant(f, groups), one, one}, export = constant(f, 0);
  const uint32_t size = op(f, PYD_OP_CONST, 0, 0, (uint32_t)bytes, (uint32_t)(bytes >> 32));
  const uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, size, 0, 1),
                 u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, size, 0, 1);
  for (uint32_t i = 0; i < 2; ++i) {
    add_dispatch(f, i, export, grid, 0, NULL, 2, (uint32_t[]){t, NONE, NONE, u, NONE, NONE});
    set_tile(f, 1, i);
  }
  pyd_program_t* program = decode(&b);
  static const pyd_library_export_attrs_t attrs[] = {{.binding_count = 2}};
  static const pyd_executable_t executable = {
      .library = {.header = &kHeader, .exports = {.count = 1, .ptrs = kFunctions, .attrs = attrs, .names = kNames}}};
  CHECK_OK(pyd_program_set_executable(program, 0, &executable, 0, 4));
  pyd_program_set_chains(program, options);
  return program;
}

// The bytes of a tile are 4 * (2^62 - 1 + 1), more than 2^64: no tile fits a cache. One that is a little less does not
// either.
static void test_tiles_beyond_memory(void) {
  for (uint64_t less = 0; less < 3; ++less) {
    pyd_program_t* program = make_pair(2, (UINT64_C(1) << 63) - 2 - 2 * less, (pyd_chain_options_t){1 << 20, 2});
    pyd_plan_t* plan = NULL;
    pyd_status_t status = pyd_plan_create(program, 0, NULL, NULL, &plan);
    CHECK(pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY);  // the two transients together
    pyd_status_free(status);
    pyd_program_free(program);
  }
}

// Workgroups of 3 ms each, of which a tile has two: more picoseconds than the cost of an index can say.
static void test_cost_beyond_its_range(void) {
  pyd_program_t* program = make_pair(64, 1 << 20, (pyd_chain_options_t){1 << 19, 2});
  for (int i = 0; i < PYD_EXPORT_COST_CLASSES; ++i) program->exports[0].costs[i] = 3000000000u;
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_plan_create(program, 0, NULL, NULL, &plan));
  CHECK(plan->steps[0].chunk && plan->costs[0].picoseconds == UINT32_MAX);
  pyd_plan_free(plan);
  pyd_program_free(program);
}

int main(void) {
  test_results();
  test_plans();
  test_failure();
  test_interrupt();
  test_refusals();
  test_tiles_beyond_memory();
  test_cost_beyond_its_range();
  return 0;
}
