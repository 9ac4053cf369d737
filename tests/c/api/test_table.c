// links: base platform sched memory program api
// with: ../program/double.c
// tsan: 3
// The table of api.h without Python: calls from several threads, memory that has to be copied, hostile use, lifetime.
#include "api/table.h"

#include <pthread.h>
#include <stdatomic.h>

#include "program/builder.h"

static atomic_int is_entered, may_leave;  // of the kernel "wait"

static int32_t k_mul(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  const float *a = d->binding_ptrs[0], *b = d->binding_ptrs[1];
  float* out = d->binding_ptrs[2];
  (void)e;
  CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0 && (uintptr_t)out % 64 == 0);
  uint32_t n = d->constants[0], begin = w->workgroup_id_x * 16, end = begin + 16 < n ? begin + 16 : n;
  for (uint32_t i = begin; i < end; ++i) out[i] = a[i] * b[i];
  return 0;
}
static int32_t k_wait(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  atomic_store(&is_entered, 1);
  while (!atomic_load(&may_leave)) sched_yield();
  return 0;
}
static int32_t k_fail(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  return w->workgroup_id_x == d->constants[0] ? 77 : 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_mul, k_wait, k_fail};
static const pyd_library_export_attrs_t kAttrs[] = {
    {.constant_count = 1, .binding_count = 3}, {0}, {.constant_count = 1}};
static const char* const kNames[] = {"mul", "wait", "fail"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 3, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

// mul(a: ?xf32, b: ?xf32) -> ?xf32;  wait();  sized(n, k) -> n x f32 filled with k, and n + k;  fail(at);  hidden
static pyd_program_t* make_program(void) {
  static builder_t b;
  uint32_t e = add_executable(&b, "exe");
  for (uint32_t i = 0; i < 3; ++i) add_export(&b, e, i, kNames[i], kAttrs[i].constant_count, kAttrs[i].binding_count);
  fn_t* f = add_function(&b, "mul");
  add_tensor(&b, f, F32, "a", 1, (int64_t[]){-1});
  add_tensor(&b, f, F32, "b", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1);
  add_check(&b, f, PYD_OP_CHECK_EQ, n, op(f, PYD_OP_DIM, 0, 1, 0, 0), "sizes differ: {a} and {b}");
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0), r = add_result(f, F32, 1, &n, bytes);
  add_dispatch(f, 0, constant(f, 0), (uint32_t[]){op(f, PYD_OP_CEILDIVS, 64, n, constant(f, 16), 0), one, one}, 1, &n,
               3, (uint32_t[]){0, NONE, NONE, 1, NONE, NONE, r, NONE, NONE});
  f = add_function(&b, "wait");
  one = constant(f, 1);
  add_dispatch(f, 0, constant(f, 1), (uint32_t[]){one, one, one}, 0, NULL, 0, NULL);
  f = add_function(&b, "sized");
  n = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "n"), 0, 0);
  uint32_t k = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "k"), 0, 0);
  r = add_result(f, F32, 1, &n, op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0));
  add_fill(f, 0, r, NONE, NONE, k, 4);
  add_scalar_result(f, op(f, PYD_OP_ADD, 64, n, k, 0));
  f = add_function(&b, "fail");
  uint32_t at = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "at"), 0, 0);
  one = constant(f, 1);
  add_dispatch(f, 0, constant(f, 2), (uint32_t[]){constant(f, 4), one, one}, 1, &at, 0, NULL);
  pyd_program_t* program = decode(&b);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 64));
  return program;
}

static pyd_api_t pd;
static pyd_sched_t* sched;
static pyd_pool_t* pool;
static int dropped_devices, dropped_programs;
static void drop_device(void* self) { *(int*)self += self == &dropped_devices; }
static void drop_program(void* self) { *(int*)self += self == &dropped_programs; }

static pyd_api_device_t* open_device(void) {
  pyd_api_device_t* device = NULL;
  CHECK_OK(pyd_api_device_make(sched, pool, (pyd_api_owner_t){&dropped_devices, drop_device}, &device));
  return device;
}
static pyd_api_program_t* open_program(pyd_api_device_t* device, const pyd_program_t* c_program) {
  pyd_api_program_t* program = NULL;
  CHECK_OK(pyd_api_program_make(device, c_program, NULL, (pyd_api_owner_t){&dropped_programs, drop_program}, &program));
  return program;
}
static const pyd_api_function_t* find(const pyd_api_program_t* program, const char* name) {
  const pyd_api_function_t* function = NULL;
  CHECK_OK(pd.program_find(program, name, &function));
  return function;
}
static pyd_api_call_t* prepare_mul(const pyd_api_program_t* program, int64_t n) {
  pyd_api_call_t* call = NULL;
  CHECK_OK(pd.call_prepare(find(program, "mul"), (int64_t[]){n, n}, 2, NULL, 0, &call));
  return call;
}

static void test_layout(void) {
  const void* const* slots = (const void* const*)((const char*)&pd + 8);
  int missing = 0;
  for (size_t i = 0; i < (sizeof(pd) - 8) / sizeof(void*); ++i) missing += !slots[i];
  CHECK(pd.version == PYD_API_VERSION && pd.size == sizeof(pd));
  CHECK(missing == 12 && !pd.program_load && !pd.device_create && !pd.device_add_command && !pd.is_signalled &&
        !pd.device_add_import && !pd.device_add_plugin && !pd.device_remove_provider && !pd.device_open &&
        !pd.device_from_python && !pd.program_load_file && !pd.program_load_bytes &&
        !pd.program_from_python);  // those that need Python
  CHECK(pyd_api_accept(&pd, 1, sizeof(pd)) == &pd && pyd_api_accept(&pd, 1, 40) == &pd);
  CHECK(!pyd_api_accept(&pd, 2, sizeof(pd)) && !pyd_api_accept(&pd, 0, 8) && !pyd_api_accept(&pd, 1, sizeof(pd) + 8));
  CHECK(!pyd_api_accept(NULL, 1, 0));
  pyd_api_t older = pd;
  older.size -= sizeof(void*);
  CHECK(PYD_API_HAS(&pd, program_load) && !PYD_API_HAS(&older, program_load) && PYD_API_HAS(&older, call_take_result));
}

static void test_description(pyd_api_program_t* program) {
  CHECK(pd.program_function_count(program) == 4 && !pd.program_function(program, 4));
  const pyd_api_function_t* f = pd.program_function(program, 0);
  CHECK(f == find(program, "mul") && !strcmp(f->name, "mul") && f->argument_count == 2 && f->result_count == 1);
  CHECK(f->dims_count == 2 && f->scalar_count == 0);
  const pyd_api_value_t* a = f->arguments[0];
  CHECK(a->kind == PYD_API_TENSOR && a->dtype == PYD_API_F32 && a->element_bytes == 4 && a->rank == 1 &&
        a->dims[0] == -1);
  CHECK(!strcmp(a->name, "a") && !strcmp(f->arguments[1]->name, "b") && !f->results[0]->dims && !*f->results[0]->name);
  f = find(program, "sized");
  CHECK(f->dims_count == 0 && f->scalar_count == 2 && f->arguments[1]->kind == PYD_API_SCALAR &&
        f->arguments[1]->rank == 0);
  CHECK(f->results[0]->kind == PYD_API_TENSOR && f->results[1]->kind == PYD_API_SCALAR);
}

static void test_scalars(pyd_api_program_t* program) {
  pyd_api_call_t* call = NULL;
  uint32_t out[3] = {0};
  uint64_t word = 1;
  CHECK_OK(pd.call_prepare(find(program, "sized"), NULL, 0, (uint64_t[]){3, 7}, 2, &call));
  CHECK(pd.call_result_bytes(call, 0) == 12 && pd.call_result_dims(call, 0)[0] == 3 && !pd.call_result_dims(call, 1));
  CHECK(pd.call_argument_bytes(call, 0) == 0 && pd.call_result_bytes(call, 1) == 0);
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "has no memory");
  CHECK_OK(pd.call_bind_result(call, 0, out, sizeof(out)));
  CHECK_OK(pd.call_run(call));
  CHECK_OK(pd.call_scalar_result(call, 1, &word));
  CHECK(word == 10 && out[0] == 7 && out[2] == 7);
  CHECK_OK(pd.call_set_scalars(call, (uint64_t[]){3, 9}, 2));
  CHECK_OK(pd.call_run(call));
  CHECK_OK(pd.call_scalar_result(call, 1, &word));
  CHECK(out[1] == 9);
  CHECK_REFUSED(pd.call_set_scalars(call, (uint64_t[]){4, 9}, 2), INVALID_ARGUMENT, "decides a size");
  CHECK_REFUSED(pd.call_set_scalars(call, (uint64_t[]){3}, 1), INVALID_ARGUMENT, "takes 2 scalars, got 1");
  CHECK_REFUSED(pd.call_set_scalars(call, NULL, 2), INVALID_ARGUMENT, "scalars is NULL");
  CHECK_REFUSED(pd.call_scalar_result(call, 0, &word), INVALID_ARGUMENT, "is a tensor");
  CHECK_REFUSED(pd.call_scalar_result(call, 2, &word), INVALID_ARGUMENT, "does not exist");
  CHECK_REFUSED(pd.call_bind_result(call, 1, out, 8), INVALID_ARGUMENT, "is a scalar");
  pd.call_release(call);
  CHECK(pyd_api_to_f32(pyd_api_from_f32(-1.5f)) == -1.5f && pyd_api_to_f64(pyd_api_from_f64(-1e300)) == -1e300);
  CHECK(pyd_api_from_f32(1.0f) == 0x3F800000u);
}

static void test_detours(pyd_api_program_t* program) {
  enum { kN = 50 };
  _Alignas(64) float memory[4 * kN + 64];
  pyd_api_call_t* call = prepare_mul(program, kN);
  CHECK(pd.call_argument_alignment(call, 0) == 64 && pd.call_result_alignment(call, 0) == 64);
  CHECK(pd.call_argument_alignment(call, 2) == 1 && pd.call_result_alignment(call, 1) == 1);  // "does not matter"
  // aligned; misaligned; the result over an argument; the result across both
  const struct {
    int a, b, out;
  } places[] = {{0, 64, 128}, {1, 65, 131}, {0, 64, 0}, {0, 64, 40}, {3, 3, 3}, {0, 64, 128}};
  for (size_t p = 0; p < sizeof(places) / sizeof(*places); ++p) {
    float *a = memory + places[p].a, *b = memory + places[p].b, *out = memory + places[p].out, expected[kN];
    for (int i = 0; i < 4 * kN + 64; ++i) memory[i] = (float)(i % 19);
    for (int i = 0; i < kN; ++i) expected[i] = a[i] * b[i];
    CHECK_OK(pd.call_bind_argument(call, 0, a, kN * 4));
    CHECK_OK(pd.call_bind_argument(call, 1, b, kN * 4));
    CHECK_OK(pd.call_bind_result(call, 0, out, kN * 4));
    CHECK_OK(pd.call_run(call));
    CHECK(!memcmp(out, expected, sizeof(expected)));
  }
  pd.call_release(call);
  call = prepare_mul(program, 0);
  CHECK_OK(pd.call_bind_argument(call, 0, NULL, 0));
  CHECK_OK(pd.call_bind_argument(call, 1, (char*)memory + 1, 0));
  CHECK_OK(pd.call_bind_result(call, 0, NULL, 0));
  CHECK_OK(pd.call_run(call));
  pd.call_release(call);
}

static void test_hostile(pyd_api_device_t* device, pyd_api_program_t* program) {
  const pyd_api_function_t *mul = find(program, "mul"), *none = mul;
  pyd_api_call_t* call = (pyd_api_call_t*)device;
  float a[8];
  CHECK_REFUSED(pd.program_find(program, "mull", &none), INVALID_ARGUMENT,
                "no function 'mull'. It has: mul, wait, sized, fail");
  CHECK(!none);
  CHECK_REFUSED(pd.program_find(NULL, "mul", &none), INVALID_ARGUMENT, "program is NULL");
  CHECK_REFUSED(pd.program_find(program, NULL, &none), INVALID_ARGUMENT, "name is NULL");
  CHECK_REFUSED(pd.program_find(program, "mul", NULL), INVALID_ARGUMENT, "out_function is NULL");
  CHECK_REFUSED(pd.call_prepare(NULL, NULL, 0, NULL, 0, &call), INVALID_ARGUMENT, "function is NULL");
  CHECK(!call);
  CHECK_REFUSED(pd.call_prepare(mul, (int64_t[]){1, 1}, 2, NULL, 0, NULL), INVALID_ARGUMENT, "out_call is NULL");
  CHECK_REFUSED(pd.call_prepare(mul, (int64_t[]){1}, 1, NULL, 0, &call), INVALID_ARGUMENT, "takes 2 sizes");
  CHECK_REFUSED(pd.call_prepare(mul, NULL, 2, NULL, 0, &call), INVALID_ARGUMENT, "dims is NULL");
  CHECK_REFUSED(pd.call_prepare(mul, (int64_t[]){1, 1}, 2, NULL, 1, &call), INVALID_ARGUMENT, "takes 0 scalars, got 1");
  CHECK_REFUSED(pd.call_prepare(find(program, "fail"), NULL, 0, NULL, 1, &call), INVALID_ARGUMENT, "scalars is NULL");
  CHECK_REFUSED(pd.call_prepare(mul, (int64_t[]){3, 4}, 2, NULL, 0, &call), INVALID_ARGUMENT, "sizes differ: 3 and 4");
  CHECK_REFUSED(pd.call_prepare(mul, (int64_t[]){-1, -1}, 2, NULL, 0, &call), INVALID_ARGUMENT, "negative size -1");
  CHECK_REFUSED(pd.call_prepare(mul, (int64_t[]){INT64_MAX, INT64_MAX}, 2, NULL, 0, &call), INVALID_ARGUMENT, "2^63");
  CHECK(!call);
  call = prepare_mul(program, 8);
  CHECK_REFUSED(pd.call_bind_argument(call, 0, a, 31), INVALID_ARGUMENT, "argument 0 of 'mul' has 32 bytes; got 31");
  CHECK_REFUSED(pd.call_bind_argument(call, 0, NULL, 32), INVALID_ARGUMENT, "has 32 bytes");
  CHECK_REFUSED(pd.call_bind_argument(call, 2, a, 32), INVALID_ARGUMENT, "argument 2 of 'mul' does not exist");
  CHECK_REFUSED(pd.call_bind_result(call, 1, a, 32), INVALID_ARGUMENT, "result 1 of 'mul' does not exist");
  CHECK_REFUSED(pd.call_bind_result(NULL, 0, a, 32), INVALID_ARGUMENT, "call is NULL");
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "has no memory");
  CHECK_REFUSED(pd.call_run(NULL), INVALID_ARGUMENT, "call is NULL");
  CHECK_REFUSED(pd.call_set_scalars(NULL, NULL, 0), INVALID_ARGUMENT, "call is NULL");
  CHECK_REFUSED(pd.call_scalar_result(call, 0, NULL), INVALID_ARGUMENT, "out_word is NULL");
  CHECK_REFUSED(pd.call_scalar_result(NULL, 0, &(uint64_t){0}), INVALID_ARGUMENT, "call is NULL");
  CHECK_REFUSED(pd.pool_acquire(NULL, 8, &(void*){NULL}), INVALID_ARGUMENT, "device is NULL");
  CHECK_REFUSED(pd.pool_acquire(device, 8, NULL), INVALID_ARGUMENT, "out_block is NULL");
  CHECK_REFUSED(pd.pool_acquire(device, SIZE_MAX / 2, &(void*){NULL}), OUT_OF_MEMORY, "");
  CHECK(!pd.call_result_dims(NULL, 0) && !pd.call_result_bytes(NULL, 0) && !pd.call_argument_bytes(NULL, 0));
  CHECK(!pd.device_workers(NULL) && !pd.program_function_count(NULL) && !pd.program_function(NULL, 0) &&
        !pd.program_device(NULL));
  CHECK(pd.status_code(NULL) == 0 && !*pd.status_text(NULL) && pd.status_values(NULL)[4] == 0);
  pd.status_free(NULL), pd.call_release(NULL), pd.program_release(NULL), pd.device_release(NULL);
  pd.pool_release(NULL, NULL), pd.pool_release(device, NULL);
  pd.call_release(call);
  CHECK_OK(pd.call_prepare(find(program, "fail"), NULL, 0, (uint64_t[]){2}, 1, &call));
  pyd_status_t status = pd.call_run(call);
  CHECK(pd.status_code(status) == PYD_CODE_KERNEL &&
        strstr(pd.status_text(status), "@exe::@fail: workgroup (2, 0, 0)"));
  CHECK(pd.status_values(status)[1] == 2 && pd.status_values(status)[4] == 77);
  pd.status_free(status);
  CHECK_OK(pd.call_set_scalars(call, (uint64_t[]){9}, 1));
  CHECK_OK(pd.call_run(call));
  pd.call_release(call);
}

// ---- threads

static void* run_wait(void* call) {
  CHECK_OK(pd.call_run(call));
  return NULL;
}

static void test_busy(pyd_api_program_t* program) {
  pyd_api_call_t* call = NULL;
  pthread_t thread;
  CHECK_OK(pd.call_prepare(find(program, "wait"), NULL, 0, NULL, 0, &call));
  CHECK(!pthread_create(&thread, NULL, run_wait, call));
  while (!atomic_load(&is_entered)) sched_yield();
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "is running in another thread");
  atomic_store(&may_leave, 1);
  pthread_join(thread, NULL);
  CHECK_OK(pd.call_run(call));
  pd.call_release(call);
}

enum { kThreads = 4, kRounds = 40, kRuns = 25 };

static void* use_program(void* argument) {
  pyd_api_program_t* program = argument;
  for (int round = 1; round <= kRounds; ++round) {
    const int64_t n = round * 7 % 300;
    pyd_api_call_t* call = prepare_mul(program, n);
    pyd_api_device_t* device = pd.program_device(program);
    void* blocks[3];
    for (int i = 0; i < 3; ++i) CHECK_OK(pd.pool_acquire(device, (size_t)n * 4, &blocks[i]));
    for (int64_t i = 0; i < n; ++i) ((float*)blocks[0])[i] = (float)i, ((float*)blocks[1])[i] = (float)round;
    CHECK_OK(pd.call_bind_argument(call, 0, blocks[0], (size_t)n * 4));
    CHECK_OK(pd.call_bind_argument(call, 1, blocks[1], (size_t)n * 4));
    CHECK_OK(pd.call_bind_result(call, 0, blocks[2], (size_t)n * 4));
    for (int run = 0; run < kRuns; ++run) CHECK_OK(pd.call_run(call));
    for (int64_t i = 0; i < n; ++i) CHECK(((float*)blocks[2])[i] == (float)(i * round));
    for (int i = 0; i < 3; ++i) pd.pool_release(device, blocks[i]);
    pd.call_release(call);
  }
  return NULL;
}

static void test_threads(pyd_api_program_t* program) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) CHECK(!pthread_create(&threads[i], NULL, use_program, program));
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

// ---- loops

enum { kX = 13, kY = 5, kZ = 9 };
static atomic_uchar marks[kZ][kY][kX];

static int32_t mark(void* context, uint32_t x, uint32_t y, uint32_t z) {
  CHECK(context == marks && x < kX && y < kY && z < kZ);
  atomic_fetch_add(&marks[z][y][x], 1);
  return 0;
}
static int32_t stop(void* context, uint32_t x, uint32_t y, uint32_t z) {
  const uint32_t* at = context;
  return x == at[0] && y == at[1] && z == at[2] ? -5 : 0;
}
static int32_t count_range(void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  CHECK(worker < pyd_sched_workers(sched));
  if (!context) {
    *out_failed = begin;
    return 3;
  }
  atomic_fetch_add((atomic_ullong*)context, end - begin);
  return 0;
}
static int32_t nest(void* context, uint32_t x, uint32_t y, uint32_t z) {
  (void)x, (void)y, (void)z;
  atomic_ullong sum = 0;
  CHECK_OK(pd.parallel_range(context, 100, count_range, &sum, NULL));
  return sum == 100 ? 0 : 1;
}

static void test_loops(pyd_api_device_t* device) {
  pyd_api_cost_t cost = {{0}};
  enum { kTimes = 50 };
  for (int i = 0; i < kTimes; ++i) CHECK_OK(pd.parallel_for(device, kX, kY, kZ, mark, marks, i % 2 ? &cost : NULL));
  for (int i = 0; i < kX * kY * kZ; ++i) CHECK(marks[i / kX / kY][i / kX % kY][i % kX] == kTimes);
  CHECK_OK(pd.parallel_for(device, 0, 5, 5, mark, marks, NULL));
  CHECK_OK(pd.parallel_for(device, 5, 0, UINT32_MAX, mark, marks, NULL));
  CHECK_OK(pd.parallel_for(device, 6, 2, 2, nest, device, NULL));
  uint32_t at[3] = {12, 4, 8};
  pyd_status_t status = pd.parallel_for(device, kX, kY, kZ, stop, at, NULL);
  CHECK(pd.status_code(status) == PYD_CODE_KERNEL && strstr(pd.status_text(status), "returned -5 at (12, 4, 8)"));
  const int64_t* values = pd.status_values(status);
  CHECK(values[1] == 12 && values[2] == 4 && values[3] == 8 && values[4] == -5);
  pd.status_free(status);
  CHECK_REFUSED(pd.parallel_for(device, UINT32_MAX, UINT32_MAX, UINT32_MAX, mark, marks, NULL), INVALID_ARGUMENT,
                "2^64");
  CHECK_REFUSED(pd.parallel_for(NULL, 1, 1, 1, mark, marks, NULL), INVALID_ARGUMENT, "device is NULL");
  CHECK_REFUSED(pd.parallel_for(device, 1, 1, 1, NULL, marks, NULL), INVALID_ARGUMENT, "body is NULL");
  atomic_ullong sum = 0;
  CHECK_OK(pd.parallel_range(device, 100000, count_range, &sum, &cost));
  CHECK_OK(pd.parallel_range(device, 0, count_range, &sum, NULL));
  CHECK(sum == 100000);
  CHECK_REFUSED(pd.parallel_range(device, 10, count_range, NULL, NULL), KERNEL, "returned 3 at 0");
  CHECK_REFUSED(pd.parallel_range(NULL, 10, count_range, &sum, NULL), INVALID_ARGUMENT, "device is NULL");
  CHECK_REFUSED(pd.parallel_range(device, 10, NULL, &sum, NULL), INVALID_ARGUMENT, "body is NULL");
}

// ---- lifetime: what is still used stays, in whatever order handles are released

static void test_lifetime(const pyd_program_t* c_program) {
  pyd_api_device_t* device = open_device();
  pyd_api_program_t* program = open_program(device, c_program);
  pyd_api_call_t* call = prepare_mul(program, 4);
  void* block = NULL;
  float a[4] = {1, 2, 3, 4}, out[4];
  CHECK_OK(pd.pool_acquire(device, 0, &block));
  CHECK(block);
  pd.device_release(device);
  pd.program_release(program);
  CHECK(dropped_devices == 0 && dropped_programs == 0);
  CHECK_OK(pd.call_bind_argument(call, 0, a, 16));
  CHECK_OK(pd.call_bind_argument(call, 1, a, 16));
  CHECK_OK(pd.call_bind_result(call, 0, out, 16));
  CHECK_OK(pd.call_run(call));
  CHECK(out[3] == 16);
  pd.call_release(call);
  CHECK(dropped_devices == 0 && dropped_programs == 1);
  pd.pool_release(device, block);
  CHECK(dropped_devices == 1);
  device = open_device();
  pd.device_release(device);
  CHECK(dropped_devices == 2);
}

int main(void) {
  pyd_sched_options_t options = {.workers = 3, .spin_us = -1};
  pyd_pool_stats_t stats;
  CHECK_OK(pyd_sched_create(&options, &sched));
  CHECK_OK(pyd_pool_create(1 << 20, &pool));
  pyd_program_t* c_program = make_program();
  pyd_api_fill(&pd);
  test_layout();
  test_lifetime(c_program);
  pyd_api_device_t* device = open_device();
  pyd_api_program_t* program = open_program(device, c_program);
  CHECK(pd.device_workers(device) == 3 && pd.program_device(program) == device);
  test_description(program);
  test_scalars(program);
  test_detours(program);
  test_hostile(device, program);
  test_busy(program);
  test_threads(program);
  test_loops(device);
  pd.program_release(program);
  pd.device_release(device);
  CHECK(dropped_devices == 3 && dropped_programs == 2);
  pyd_pool_stats(pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_program_free(c_program);
  pyd_pool_destroy(pool);
  pyd_sched_destroy(sched);
  return 0;
}
