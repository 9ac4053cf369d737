// links: base platform sched memory program
// with: double.c dispatch_across.c
// Calls of embedded kernels whose convention is not the host's (here that of Windows) beside calls of kernels that
// share it: alone, in a grid, and on several threads.
#if defined(__x86_64__) && !defined(_WIN32)
#define PYD_EMBEDDED_CALL __attribute__((ms_abi))
#define pyd_call_run run_across
#define pyd_call_run_on_device run_across_on_device
#define pyd_call_begin begin_across
#define pyd_call_check_bound check_bound_across
#define pyd_call_interrupted interrupted_across
#define pyd_step_outcome step_outcome_across
#define pyd_step_run step_run_across
#define pyd_step_run_single step_run_single_across
#define pyd_step_run_whole step_run_whole_across
#define pyd_call_run_until run_across_until
#include "program/call/run.c"

#include <stdatomic.h>

#include "program/builder.h"

extern const pyd_command_type_t dispatch_across;

static _Atomic uint32_t counts[2], sums[2];

static int32_t count(int which, const pyd_environment_t* e, const pyd_dispatch_state_t* d,
                     const pyd_workgroup_state_t* w) {
  bool is_whole = e->processor.data[0] == 77u + (unsigned)which && d->binding_count == 0 && d->constant_count == 1;
  if (!is_whole) return -5;
  if (w->workgroup_id_x == d->constants[0]) return 1000 + which;
  atomic_fetch_add(&counts[which], 1);
  atomic_fetch_add(&sums[which], w->workgroup_id_x);
  return 0;
}
static int32_t k_plain(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  return count(0, e, d, w);
}
static __attribute__((ms_abi)) int32_t k_across(const pyd_environment_t* e, const pyd_dispatch_state_t* d,
                                                const pyd_workgroup_state_t* w) {
  return count(1, e, d, w);
}

static const pyd_library_export_attrs_t kAttrs[] = {{.constant_count = 1}};
static const char* const kNames[] = {"count"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static pyd_dispatch_fn_t functions[2];
static pyd_executable_t executables[2];

// |grid| workgroups of either executable; the one that is called |failing| fails in it.
static void run(uint32_t grid, uint32_t workers, int failing) {
  static builder_t b;
  b = (builder_t){0};
  fn_t* f = add_function(&b, "main");
  uint32_t one = constant(f, 1), never = constant(f, 1 << 30), last = constant(f, grid - 1), x = constant(f, grid);
  for (uint32_t i = 0; i < 2; ++i) {
    uint32_t export = add_export(&b, add_executable(&b, i ? "across" : "plain"), 0, "count", 1, 0);
    const uint32_t size[] = {x, one, one};
    add_dispatch(f, i, constant(f, export), size, 1, failing == (int)i ? &last : &never, 0, NULL);
  }
  pyd_program_t* program = decode(&b);
  for (uint32_t i = 0; i < 2; ++i) CHECK_OK(pyd_program_set_executable(program, i, &executables[i], 0, 4));
  pyd_sched_options_t options = {.workers = workers, .spin_us = -1};
  pyd_sched_t* sched = NULL;
  pyd_plan_t* plan = NULL;
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_sched_create(&options, &sched));
  CHECK_OK(pyd_plan_create(program, 0, NULL, NULL, &plan));
  CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
  for (uint32_t i = 0; i < 2; ++i) call->commands[i].run = dispatch_across.run;
  for (int i = 0; i < 2; ++i) counts[i] = sums[i] = 0;
  pyd_status_t status = run_across(call);
  if (failing < 0) {
    CHECK_OK(status);
    for (int i = 0; i < 2; ++i) CHECK(counts[i] == grid && sums[i] == grid * (grid - 1) / 2);
  } else {
    CHECK_REFUSED(status, KERNEL, failing ? "@across::@count: workgroup" : "@plain::@count: workgroup");
  }
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_sched_destroy(sched);
  pyd_program_free(program);
}

int main(void) {
  functions[0] = k_plain;
  functions[1] = (pyd_dispatch_fn_t)(void (*)(void))k_across;
  for (unsigned i = 0; i < 2; ++i) {
    executables[i].library = (pyd_library_t){
        .header = &kHeader, .exports = {.count = 1, .ptrs = &functions[i], .attrs = kAttrs, .names = kNames}};
    executables[i].environment.processor.data[0] = 77 + i;
  }
  executables[1].image = (pyd_span_t){(const uint8_t*)kNames, sizeof(kNames)};
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    for (int failing = -1; failing < 2; ++failing) {
      run(1, workers, failing);
      run(5000, workers, failing);
    }
  }
  return 0;
}
#else
int main(void) { return 0; }
#endif
