// What the runtime itself costs: nanoseconds per call of a chain of three one-workgroup dispatches, per empty workgroup
// of large grids, per program, per plan, per key, per block of the pool, and what the pages of a fresh large block cost.
//
// Each figure is the median of 11 runs of about 20 ms.
#include <time.h>

#include "core/rows.h"
#include "platform/pages.h"
#include "program/builder.h"

// A kernel that does nothing: a call costs only what the runtime does.
static int32_t k_empty(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  return 0;
}
// The library with that kernel.
static const pyd_dispatch_fn_t kFunctions[] = {k_empty};
static const pyd_library_export_attrs_t kAttrs[] = {{.constant_count = 1, .binding_count = 3}};
static const char* const kNames[] = {"empty"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "bench"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 1, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

// Returns seconds.
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
// Compares two doubles, for qsort().
static int by_value(const void* a, const void* b) { return *(const double*)a < *(const double*)b ? -1 : 1; }

// Prints the seconds per unit of work of body(self), which does |units| of them. |name|, |size|: of the figure.
// |workers|: of the scheduler that the body uses.
static void measure(const char* name, const char* size, uint32_t workers, void (*body)(void*), void* self, double units) {
  enum { RUNS = 11 };
  double results[RUNS], once;
  body(self);  // warm-up
  body(self);
  once = now();
  body(self);
  once = now() - once;
  // A run takes about 20 ms. 1 ns: the clock may not have advanced.
  uint64_t repeats = once < 0.02 ? (uint64_t)(0.02 / (once + 1e-9)) + 1 : 1;
  for (int run = 0; run < RUNS; ++run) {
    double start = now();
    for (uint64_t i = 0; i < repeats; ++i) body(self);
    results[run] = (now() - start) / ((double)repeats * units);
  }
  qsort(results, RUNS, sizeof(double), by_value);
  row(name, size, workers, results[RUNS / 2], results[0], results[RUNS - 2], "s");
}

// Returns the bytes of a program whose function @chain(a, b) runs three dispatches of |grid| one after another, over
// tensors of a dynamic size. Larger grids than one workgroup have one dispatch, since they measure workgroups.
static pyd_span_t chain_bytes(const uint32_t grid[3]) {
  static builder_t b;
  add_export(&b, add_executable(&b, "exe"), 0, "empty", 1, 3);
  fn_t* f = add_function(&b, "chain");
  const int64_t dims[] = {-1};  // a dynamic size
  add_tensor(&b, f, F32, "a", 1, dims);
  add_tensor(&b, f, F32, "b", 1, dims);
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), nb = op(f, PYD_OP_DIM, 0, 1, 0, 0);
  add_check(&b, f, PYD_OP_CHECK_EQ, n, nb, "{a} and {b}");
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0);
  // Transient buffers: t is live in regions 0 and 1, u in 1 and 2. Regions, groups of commands, run one after another.
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 0, 1), u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 1, 2);
  uint32_t r = add_result(f, F32, 1, &n, bytes), export = constant(f, 0), g[3];
  for (uint32_t i = 0; i < 3; ++i) g[i] = constant(f, grid[i]);
  // One dispatch in each region, with n as its only constant. Of each binding: the buffer (0: a, 1: b), and NONE, NONE
  // for the whole of it.
  add_dispatch(f, 0, export, g, 1, &n, 3, (uint32_t[]){0, NONE, NONE, 1, NONE, NONE, t, NONE, NONE});
  if (grid[0] == 1) {
    add_dispatch(f, 1, export, g, 1, &n, 3, (uint32_t[]){t, NONE, NONE, 1, NONE, NONE, u, NONE, NONE});
    add_dispatch(f, 2, export, g, 1, &n, 3, (uint32_t[]){u, NONE, NONE, 0, NONE, NONE, r, NONE, NONE});
  } else {
    f->regions = 3;  // t and u refer to them
  }
  return encode(&b);
}

// Returns the program of chain_bytes, linked with the empty kernel.
static pyd_program_t* chain(const uint32_t grid[3]) {
  pyd_span_t bytes = chain_bytes(grid);
  pyd_program_t* program;
  CHECK_OK(pyd_program_decode(bytes, &program));
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  free((void*)bytes.data);
  return program;
}

static const int64_t kDims[] = {8, 8};  // sizes of both arguments, one dimension each
// Memory of both arguments and of the result.
static float buffers[3][64];
// Bodies of measure(), whose |self| is named by their parameter: runs a prepared call, and one that is bound anew.
static void run_call(void* call) { CHECK(pyd_ok(pyd_call_run(call))); }
static void bind_and_run(void* call) {
  pyd_call_bind_arg(call, 0, buffers[0]);
  pyd_call_bind_arg(call, 1, buffers[1]);
  pyd_call_bind_result(call, 0, buffers[2]);
  CHECK(pyd_ok(pyd_call_run(call)));
}
// Decodes a program, and frees it.
static void decode_bytes(void* bytes) {
  pyd_program_t* program;
  CHECK_OK(pyd_program_decode(*(const pyd_span_t*)bytes, &program));
  pyd_program_free(program);
}
// Returns the bytes of a program with 8 functions of 500 instructions, most of them arithmetic.
static pyd_span_t arithmetic(void) {
  static builder_t b;
  for (uint32_t i = 0; i < 8; ++i) {
    fn_t* f = add_function(&b, "f");
    add_scalar(&b, f, "x");
    uint32_t x = op(f, PYD_OP_SCALAR, 0, 0, 0, 0), y = constant(f, 3);
    for (uint32_t k = 0; k < 498; ++k) {  // 500 with the two instructions above
      uint32_t opcode = k % 3 ? PYD_OP_XOR + k % 4 : PYD_OP_MAXS, z = op(f, opcode, 64, x, y, 0);
      x = y;
      y = z;
    }
    add_scalar_result(f, y);
  }
  return encode(&b);
}
// Runs function 0 of a program, which has scalars only.
static void evaluate(void* program) {
  uint64_t x = 5, result;
  CHECK_OK(pyd_program_evaluate(program, 0, &x, &result));
}
// Creates a plan, and frees it.
static void make_plan(void* program) {
  pyd_plan_t* plan;
  CHECK_OK(pyd_plan_create(program, 0, kDims, NULL, &plan));
  pyd_plan_free(plan);
}
static volatile uint64_t sink;  // keeps results alive, so that computing them is not optimized away
// Computes the hash of a plan's key 100 times.
static void hash_key(void* program) {
  for (int i = 0; i < 100; ++i) sink += pyd_plan_hash(program, 0, kDims, NULL);
}
// Compares a plan's key with sizes 100 times.
static void match_key(void* plan) {
  for (int i = 0; i < 100; ++i) sink += pyd_plan_matches(plan, kDims, NULL);
}
// Creates a call of a plan, and frees it.
static void make_call(void* plan) {
  pyd_call_t* call;
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  pyd_call_free(call);
}
static size_t pool_size;  // bytes of a block in use_pool
// Acquires and releases a block of |pool_size| bytes 100 times.
static void use_pool(void* pool) {
  void* block;
  for (int i = 0; i < 100; ++i) {
    CHECK(pyd_ok(pyd_pool_acquire(pool, pool_size, &block)));
    pyd_pool_release(pool, block);
  }
}
// Maps 64 MiB and writes one byte in each 4 KiB. |is_huge|: NULL for pages of 4 KiB, any other pointer for huge pages.
static void touch_pages(void* is_huge) {
  enum { BYTES = 64 << 20 };
  void* memory;
  CHECK_OK(pyd_pages_map(BYTES, is_huge ? BYTES : 0, &memory));
  for (size_t i = 0; i < BYTES; i += 4096) ((volatile char*)memory)[i] = 1;
  pyd_pages_unmap(memory, BYTES);
}

// Returns a call of the program's function 0 that has its buffers, and its plan.
static pyd_call_t* prepare(const pyd_program_t* program, pyd_sched_t* sched, pyd_plan_t** out_plan) {
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_plan_create(program, 0, kDims, NULL, out_plan));
  CHECK_OK(pyd_call_create(*out_plan, sched, NULL, &call));
  pyd_call_bind_arg(call, 0, buffers[0]);
  pyd_call_bind_arg(call, 1, buffers[1]);
  pyd_call_bind_result(call, 0, buffers[2]);
  return call;
}

int main(void) {
  static const uint32_t kOne[] = {1, 1, 1};
  static const struct {
    const char* name;
    uint32_t grid[3];
  } kGrids[] = {{"10000000x1x1", {10000000, 1, 1}}, {"1000x1000x10", {1000, 1000, 10}}, {"2x1000000x5", {2, 1000000, 5}},
                {"4096x1x1", {4096, 1, 1}},         {"8x1x1", {8, 1, 1}}};
  pyd_program_t* program = chain(kOne);
  pyd_plan_t* plan;
  for (uint32_t workers = 1; workers <= 2; ++workers) {
    pyd_sched_options_t options = {.workers = workers, .spin_us = -1};
    pyd_sched_t* sched;
    CHECK_OK(pyd_sched_create(&options, &sched));
    pyd_call_t* call = prepare(program, sched, &plan);
    measure("3 dispatches of 1 workgroup", "a call", workers, run_call, call, 1);
    measure("3 dispatches of 1 workgroup", "a call that binds 3 buffers", workers, bind_and_run, call, 1);
    pyd_call_free(call);
    pyd_plan_free(plan);
    for (uint32_t i = 0; i < sizeof(kGrids) / sizeof(kGrids[0]); ++i) {
      pyd_program_t* big = chain(kGrids[i].grid);
      call = prepare(big, sched, &plan);
      measure("an empty workgroup", kGrids[i].name, workers, run_call, call, (double)kGrids[i].grid[0] * kGrids[i].grid[1] * kGrids[i].grid[2]);
      pyd_call_free(call);
      pyd_plan_free(plan);
      pyd_program_free(big);
    }
    pyd_sched_destroy(sched);
  }
  pyd_span_t bytes = chain_bytes(kOne), many = arithmetic();
  pyd_program_t* computes;
  CHECK_OK(pyd_program_decode(many, &computes));
  measure("program", "decode and free", 1, decode_bytes, &bytes, 1);
  measure("program of 4,000 instructions", "decode one", 1, decode_bytes, &many, 4000);
  measure("program of 4,000 instructions", "evaluate one", 1, evaluate, computes, 500);
  pyd_program_free(computes);
  free((void*)bytes.data);
  free((void*)many.data);
  CHECK_OK(pyd_plan_create(program, 0, kDims, NULL, &plan));
  measure("plan", "create and free", 1, make_plan, program, 1);
  measure("call", "create and free", 1, make_call, plan, 1);
  measure("key of a plan", "hash", 1, hash_key, program, 100);
  measure("key of a plan", "compare", 1, match_key, plan, 100);
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_pool_t* pool;
  CHECK_OK(pyd_pool_create((uint64_t)1 << 30, &pool));
  const size_t sizes[] = {32, 4096, 1 << 20, 64 << 20};
  for (uint32_t i = 0; i < 4; ++i) {
    char size[64];
    pool_size = sizes[i];
    snprintf(size, sizeof(size), "%zu bytes", sizes[i]);
    measure("acquire and release a block of the pool", size, 1, use_pool, pool, 100);
  }
  pyd_pool_destroy(pool);
  // 64 MiB are 65536 KiB; `buffers` stands for any pointer but NULL.
  measure("a KiB of 64 MiB of fresh memory", "small pages", 1, touch_pages, NULL, 65536);
  measure("a KiB of 64 MiB of fresh memory", "huge pages", 1, touch_pages, buffers, 65536);
  return 0;
}
