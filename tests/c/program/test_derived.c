// links: base platform sched memory process program
// with: double.c
// tsan: 3
// Derived constants: what the table may say, and when its functions run, with several threads at once.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program/builder.h"
#include "program/procedure_builder.h"
#include "pydispatch/process.h"
#include "pydispatch/submit.h"

enum { BYTES = 64, THREADS = 8 };

static uint32_t groups = 1;  // workgroups of each dispatch, which all do the same
static atomic_int runs;
static atomic_bool fails, waits, has_begun;  // |waits|: a workgroup waits as long as it is set
static const pyd_plan_t* nested;             // that the kernel runs a call of
static pyd_pool_t* pool;

// y = x + 1, by bytes; of many, the first and the last one
static int32_t add_one(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)w;
  atomic_fetch_add(&runs, 1);
  if (nested) {
    pyd_call_t* call = NULL;
    uint8_t result[BYTES];
    CHECK_OK(pyd_call_create(nested, NULL, pool, &call));
    pyd_call_bind_result(call, 0, result);
    CHECK_REFUSED(pyd_call_run(call), INVALID_ARGUMENT, "called by a kernel that computes one of");
    pyd_call_free(call);
    return 7;
  }
  if (atomic_load(&fails)) return 5;
  atomic_store(&has_begun, true);
  while (atomic_load(&waits)) sched_yield();
  const uint8_t* x = d->binding_ptrs[0];
  uint8_t* y = d->binding_ptrs[1];
  const size_t length = d->binding_lengths[1], step = length > 4096 ? length - 1 : 1;
  for (size_t i = 0; i < length; i += step) y[i] = (uint8_t)(x[i] + 1);
  return 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {add_one};
static const pyd_library_export_attrs_t kAttrs[] = {{.binding_count = 2}};
static const char* const kNames[] = {"add_one"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "exe"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 1, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

// A function whose result is one more than constant |source|.
static uint32_t add_more(builder_t* b, const char* name, uint32_t source, uint32_t bytes) {
  fn_t* f = add_function(b, name);
  uint32_t size = constant(f, bytes), one = constant(f, 1), export = constant(f, 0);
  uint32_t in = add_buffer(f, PYD_BUFFER_CONSTANT, source, NONE, 0, 0), out = add_result(f, I8, 1, &size, size);
  add_dispatch(f, 0, export, (uint32_t[]){constant(f, groups), one, one}, 0, NULL, 2,
               (uint32_t[]){in, NONE, NONE, out, NONE, NONE});
  return b->function_count - 1;
}

// c0 is given; d0: c1 = c0 + 1; d1: c2 = c1 + 1; d2: c3 = c0 + 1, of |odd| bytes; f: c2 + 1
static void build(builder_t* b, uint32_t odd) {
  add_export(b, add_executable(b, "exe"), 0, "add_one", 0, 2);
  add_constant(b, "c.bin", 0, BYTES);
  add_constant(b, "", 0, BYTES);
  add_constant(b, "", 0, BYTES);
  add_constant(b, "", 0, BYTES);
  uint32_t d0 = add_more(b, "d0", 0, BYTES), d1 = add_more(b, "d1", 1, BYTES), d2 = add_more(b, "d2", 0, odd);
  add_more(b, "f", 2, BYTES);
  add_more(b, "g", 3, BYTES);
  add_derived(b, d0, 1);
  add_derived(b, d1, 2);
  add_derived(b, d2, 3);
}

static const _Alignas(64) uint8_t kGiven[BYTES] = {10, 20};

static pyd_program_t* linked(uint32_t odd) {
  static builder_t b;
  build(&b, odd);
  pyd_program_t* program = decode(&b);
  CHECK(pyd_program_derivation_count(program) == 3 && pyd_program_derivation(program, 3) == NULL);
  CHECK(pyd_program_derivation(program, 1)->function == 1 && pyd_program_derivation(program, 1)->first_constant == 2);
  CHECK(pyd_program_constant(program, 0)->derivation == NONE && pyd_program_constant(program, 3)->derivation == 2);
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){kGiven, BYTES}));
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 16));
  return program;
}

static void check_call(pyd_program_t* program, pyd_sched_t* sched) {
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  _Alignas(64) uint8_t result[BYTES];
  CHECK_OK(pyd_plan_create(program, 3, NULL, NULL, &plan));
  CHECK_OK(pyd_call_create(plan, sched, pool, &call));
  pyd_call_bind_result(call, 0, result);
  CHECK_OK(pyd_call_run(call));
  CHECK(result[0] == 13 && result[1] == 23 && result[2] == 3);
  pyd_call_free(call);
  pyd_plan_free(plan);
}

// The first run of a call of |plan| fails so.
static void refuse_run(const pyd_plan_t* plan, pyd_code_t code, const char* text) {
  _Alignas(64) uint8_t result[BYTES];
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_call_create(plan, NULL, pool, &call));
  pyd_call_bind_result(call, 0, result);
  pyd_status_t status = pyd_call_run(call);
  CHECK(pyd_status_code(status) == code && strstr(pyd_status_text(status), text));
  pyd_status_free(status);
  pyd_call_free(call);
}

static uint64_t live_bytes(void) {
  pyd_pool_stats_t stats;
  pyd_pool_stats(pool, &stats);
  return stats.live_bytes;
}

static void test_runs_once(void) {
  pyd_program_t *program = linked(BYTES), *other = linked(BYTES);
  pyd_derived_t* derived = NULL;
  pyd_plan_t* plan = NULL;
  CHECK_REFUSED(pyd_plan_create(program, 3, NULL, NULL, &plan), INVALID_ARGUMENT, "constant 2 ('') is not linked");
  CHECK_OK(pyd_derived_create(program, NULL, pool, &derived));
  CHECK_OK(pyd_program_set_derived(program, derived));
  CHECK_OK(pyd_program_set_derived(other, derived));
  atomic_store(&runs, 0);
  CHECK(live_bytes() == 0);
  check_call(program, NULL);
  CHECK(atomic_load(&runs) == 3 && live_bytes() != 0);  // c1, c2 and f itself
  check_call(program, NULL);
  check_call(other, NULL);
  CHECK(atomic_load(&runs) == 5);
  pyd_program_free(program);
  check_call(other, NULL);
  pyd_program_free(other);
  pyd_derived_free(derived);
  CHECK(live_bytes() == 0);
}

static void test_faults(void) {
  pyd_program_t* program = linked(BYTES + 1);
  pyd_derived_t* derived = NULL;
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_derived_create(program, NULL, pool, &derived));
  CHECK_OK(pyd_program_set_derived(program, derived));
  CHECK_OK(pyd_plan_create(program, 4, NULL, NULL, &plan));
  refuse_run(plan, PYD_CODE_CORRUPT, "derived constant 3, by function 'd2': result 0 has 65 bytes, constant 3 has 64");
  CHECK(live_bytes() == 0);
  pyd_plan_free(plan);
  CHECK_OK(pyd_plan_create(program, 3, NULL, NULL, &plan));
  atomic_store(&fails, true);
  refuse_run(plan, PYD_CODE_KERNEL, "derived constant 1, by function 'd0': ");
  atomic_store(&fails, false);
  nested = plan;
  refuse_run(plan, PYD_CODE_KERNEL, "derived constant 1, by function 'd0': ");
  nested = NULL;
  CHECK(live_bytes() == 0);
  check_call(program, NULL);  // the next one tries again
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_derived_free(derived);
  static builder_t b;
  add_constant(&b, "c.bin", 0, BYTES);
  program = decode(&b);
  pyd_program_t* other = linked(BYTES);
  CHECK_OK(pyd_derived_create(program, NULL, pool, &derived));
  CHECK_REFUSED(pyd_program_set_derived(other, derived), INVALID_ARGUMENT,
                "of a program with 1 constants do not fit one with 4");
  pyd_derived_free(derived);
  pyd_program_free(program), pyd_program_free(other);
}

// Making and submitting a call derive nothing. Its run does, and an interrupt of the run ends it.
static void test_first_run(void) {
  const pyd_sched_options_t options = {.workers = 2,
                                       .threads = {.are_lent = true}};  // none is: whoever waits runs the call
  pyd_sched_t* sched = NULL;
  pyd_derived_t* derived = NULL;
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  pyd_task_t* task = NULL;
  _Alignas(64) uint8_t result[BYTES];
  pyd_program_t* program = linked(BYTES);
  CHECK_OK(pyd_sched_create(&options, &sched));
  CHECK_OK(pyd_derived_create(program, sched, pool, &derived));
  CHECK_OK(pyd_program_set_derived(program, derived));
  CHECK_OK(pyd_plan_create(program, 3, NULL, NULL, &plan));
  atomic_store(&runs, 0);
  for (int round = 0; round < 2; ++round) {
    CHECK_OK(pyd_call_create(plan, sched, pool, &call));
    pyd_call_bind_result(call, 0, result);
    CHECK_OK(pyd_call_submit(call, NULL, &task));
    CHECK(atomic_load(&runs) == 3 * round);
    CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE);
    CHECK_OK(pyd_task_status(task));
    CHECK(atomic_load(&runs) == 3 + round && result[0] == 13);
    pyd_task_release(task);
    pyd_call_free(call);
  }
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_derived_free(derived);
  pyd_sched_destroy(sched);
}

// The interrupt of a run ends the deriving in it.
static int32_t is_wanted(void* asked) { return ++*(int*)asked; }
static void test_interrupt(void) {
  const pyd_sched_options_t options = {.workers = 1};
  pyd_sched_t* sched = NULL;
  pyd_derived_t* derived = NULL;
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  _Alignas(64) uint8_t result[BYTES];
  int asked = 0;
  groups = 5000;  // more than run between two questions
  pyd_program_t* program = linked(BYTES);
  CHECK_OK(pyd_sched_create(&options, &sched));
  CHECK_OK(pyd_derived_create(program, sched, pool, &derived));
  CHECK_OK(pyd_program_set_derived(program, derived));
  CHECK_OK(pyd_plan_create(program, 3, NULL, NULL, &plan));
  CHECK_OK(pyd_call_create(plan, sched, pool, &call));
  pyd_call_bind_result(call, 0, result);
  atomic_store(&runs, 0);
  CHECK_REFUSED(pyd_call_run_until(call, &(pyd_interrupt_t){is_wanted, &asked}), INTERRUPTED,
                "derived constant 1, by function 'd0': ");
  CHECK(asked == 1 && atomic_load(&runs) < 5000);
  CHECK_OK(pyd_call_run(call));
  CHECK(result[0] == 13);
  groups = 1;
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_derived_free(derived);
  pyd_sched_destroy(sched);
}

// Constants share blocks and do not overlap, whatever their sizes, and blocks have few bytes besides. A device without
// memory for all of them derives those that fit.
static void test_memory(void) {
  enum { MIB = 1 << 20, COUNT = 7 };
  static const uint32_t kSizes[COUNT] = {3 * MIB, 33 * MIB, 64, 128, 17 * MIB, 17 * MIB, 17 * MIB};
  static const uint64_t kLimits[] = {UINT64_MAX, 96 * MIB, 8 * MIB};
  static uint8_t given[33 * MIB];
  pyd_pool_t* shared = pool;
  for (uint32_t limit = 0; limit < 3; ++limit) {
    static builder_t b;
    uint32_t functions[COUNT];
    const uint8_t* data[COUNT];
    uint64_t sum = 0;
    pyd_derived_t* derived = NULL;
    add_export(&b, add_executable(&b, "exe"), 0, "add_one", 0, 2);
    add_constant(&b, "c.bin", 0, sizeof(given));
    for (uint32_t i = 0; i < COUNT; ++i) add_constant(&b, "", 0, kSizes[i]);
    for (uint32_t i = 0; i < COUNT; ++i) functions[i] = add_more(&b, "d", 0, kSizes[i]);
    for (uint32_t i = 0; i < COUNT; ++i) add_derived(&b, functions[i], i + 1);
    pyd_program_t* program = decode(&b);
    CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){given, sizeof(given)}));
    CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 16));
    CHECK_OK(pyd_pool_create(0, &pool));
    pyd_pool_set_limit(pool, kLimits[limit]);
    CHECK_OK(pyd_derived_create(program, NULL, pool, &derived));
    CHECK_OK(pyd_program_set_derived(program, derived));
    for (uint32_t i = 0; i < COUNT; ++i) {
      if (kSizes[i] > kLimits[limit]) {
        CHECK_REFUSED(pyd_program_constant_data(program, i + 1, &data[i]), OUT_OF_MEMORY, "no memory for a buffer of");
        continue;
      }
      CHECK_OK(pyd_program_constant_data(program, i + 1, &data[i]));
      CHECK((uintptr_t)data[i] % PYD_POOL_ALIGNMENT == 0 && data[i][0] == 1 && data[i][kSizes[i] - 1] == 1);
      for (uint32_t k = 0; k < i; ++k)
        CHECK(!data[k] || data[k] + kSizes[k] <= data[i] || data[i] + kSizes[i] <= data[k]);
      sum += kSizes[i];
    }
    CHECK(live_bytes() < sum + 6 * MIB);
    pyd_program_free(program);
    pyd_derived_free(derived);
    CHECK(live_bytes() == 0);
    pyd_pool_destroy(pool);
  }
  pool = shared;
}

typedef struct {
  pyd_program_t* program;
  pyd_sched_t* sched;
} work_t;

static void* in_thread(void* data) {
  work_t* work = data;
  check_call(work->program, work->sched);
  return NULL;
}

static void test_threads(void) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = 2, .scopes = {pyd_process_scope_get, pyd_process_scope_set}};
  CHECK_OK(pyd_sched_create(&options, &sched));
  work_t work = {linked(BYTES), sched};
  pyd_derived_t* derived = NULL;
  CHECK_OK(pyd_derived_create(work.program, sched, pool, &derived));
  CHECK_OK(pyd_program_set_derived(work.program, derived));
  atomic_store(&runs, 0);
  pthread_t threads[THREADS];
  for (uint32_t i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, in_thread, &work);
  for (uint32_t i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&runs) == 2 + THREADS);
  pyd_program_free(work.program);
  pyd_derived_free(derived);
  pyd_sched_destroy(sched);
  CHECK(live_bytes() == 0);
}

static void* derive_in_thread(void* program) {
  const uint8_t* data = NULL;
  CHECK_OK(pyd_program_constant_data(program, 0, &data));
  CHECK(data);
  return NULL;
}

// A child that is forked while another thread derives has nothing of that derivation, and derives by itself.
static void test_fork(void) {
  static builder_t b;
  pyd_derived_t* derived = NULL;
  pthread_t thread;
  add_export(&b, add_executable(&b, "exe"), 0, "add_one", 0, 2);
  add_constant(&b, "", 0, BYTES);  // the only one: its table has room for one block
  fn_t* f = add_function(&b, "d");
  uint32_t size = constant(f, BYTES), one = constant(f, 1), export = constant(f, 0);
  uint32_t out = add_result(f, I8, 1, &size, size);
  add_dispatch(f, 0, export, (uint32_t[]){one, one, one}, 0, NULL, 2, (uint32_t[]){out, NONE, NONE, out, NONE, NONE});
  add_derived(&b, 0, 0);
  pyd_program_t* program = decode(&b);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 16));
  CHECK_OK(pyd_derived_create(program, NULL, pool, &derived));
  CHECK_OK(pyd_program_set_derived(program, derived));
  atomic_store(&has_begun, false), atomic_store(&waits, true);
  CHECK(pthread_create(&thread, NULL, derive_in_thread, program) == 0);
  while (!atomic_load(&has_begun)) sched_yield();
  pyd_derived_fork_prepare(derived), pyd_pool_fork_prepare(pool);
  pid_t child = fork();
  pyd_pool_fork_done(pool);
  if (child == 0) {
    pyd_derived_fork_child(derived);
    atomic_store(&waits, false);
    derive_in_thread(program);
    pyd_program_free(program);
    pyd_derived_free(derived);
    _exit(0);
  }
  pyd_derived_fork_done(derived);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  atomic_store(&waits, false);
  pthread_join(thread, NULL);
  derive_in_thread(program);
  pyd_program_free(program);
  pyd_derived_free(derived);
  CHECK(live_bytes() == 0);
}

static void refused(void (*spoil)(builder_t*), const char* text) {
  static builder_t b;
  build(&b, BYTES);
  spoil(&b);
  pyd_span_t bytes = encode(&b);
  pyd_program_t* program = NULL;
  CHECK_REFUSED(pyd_program_decode(bytes, &program), CORRUPT, text);
  free((void*)bytes.data);
}

static void no_function(builder_t* b) { b->derived.data[4] = 5; }
static void no_constant(builder_t* b) { b->derived.data[5] = 4; }
static void far_constant(builder_t* b) { b->derived.data[5] = NONE; }
static void given_constant(builder_t* b) { b->derived.data[5] = 0; }
static void parameter_constant(builder_t* b) { b->constants.data[8 * 2 + 6] = 0; }
static void same_constant(builder_t* b) { b->derived.data[5] = 1; }
static void same_function(builder_t* b) { b->derived.data[4] = 0; }
static void has_argument(builder_t* b) { add_tensor(b, &b->functions[2], I8, "x", 1, (int64_t[]){1}); }
static void has_scalar(builder_t* b) { add_scalar_result(&b->functions[2], 0); }
static void has_no_result(builder_t* b) { b->derived.data[0] = b->function_count, add_function(b, "nothing"); }
static void reads_itself(builder_t* b) { b->functions[1].buffers.data[1] = 2; }
static void reads_later(builder_t* b) { b->functions[0].buffers.data[1] = 2; }

static void test_hostile(void) {
  refused(no_function, "derivation 1: function 5 does not exist, the program has 5");
  refused(no_constant, "derivation 1: 1 constants from number 4 on, the program has 4");
  refused(far_constant, "derivation 1: 1 constants from number 4294967295 on, the program has 4");
  refused(given_constant, "derivation 1: constant 0 has its bytes from elsewhere already");
  refused(parameter_constant, "derivation 1: constant 2 has its bytes from elsewhere already");
  refused(same_constant, "derivation 1: constant 1 has its bytes from elsewhere already");
  refused(same_function, "derivation 1: function 0 belongs to an earlier one");
  refused(has_argument, "derivation 2: function 2 must take no arguments and return tensors");
  refused(has_scalar, "derivation 2: function 2 must take no arguments and return tensors");
  refused(has_no_result, "derivation 0: function 5 must take no arguments and return tensors");
  refused(reads_itself, "derivation 1: its function reads constant 2, which derivation 1 computes");
  refused(reads_later, "derivation 0: its function reads constant 2, which derivation 1 computes");
}

int main(void) {
  CHECK_OK(pyd_pool_create(1 << 20, &pool));
  test_runs_once();
  test_faults();
  test_first_run();
  test_interrupt();
  test_memory();
  test_threads();
  test_fork();
  test_hostile();
  pyd_pool_destroy(pool);
  return 0;
}
