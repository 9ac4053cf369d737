// Traces, schedulers and tasks when the n-th request for memory is refused, for every n: a status that says so,
// and nothing left behind (the address sanitizer counts).
//
// links: base platform sched
// flags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc
#include <errno.h>
#include <string.h>

#include "check.h"
#include "platform/affinity.h"
#include "pydispatch/task.h"
#include "sched/task.h"

// Only the thread that sets |refused| is refused memory.
static _Thread_local int requests, refused;
static bool is_refused(void) { return refused && ++requests == refused; }

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __wrap_malloc(size_t size);
void* __wrap_calloc(size_t count, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size);
void* __wrap_malloc(size_t size) { return is_refused() ? NULL : __real_malloc(size); }
void* __wrap_calloc(size_t count, size_t size) { return is_refused() ? NULL : __real_calloc(count, size); }
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return is_refused() ? NULL : __real_aligned_alloc(alignment, size);
}

static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)task, (void)worker;
  *(int*)self = 1;
  *out_status = PYD_STATUS_OK;
  return true;
}
static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  (void)interrupt;
  *(int*)self = 1;
  return PYD_STATUS_OK;
}
static const pyd_task_kind_t kKind = {.advance = advance, .run = run};

// Everything once. The status of the first step that is refused; a later try of that step succeeds.
static pyd_status_t scenario(void) {
  pyd_trace_t* trace = NULL;
  pyd_sched_t* sched = NULL;
  pyd_task_t* tasks[2] = {NULL, NULL};
  pyd_status_t status = pyd_trace_create(&trace);
  if (pyd_ok(status)) {
    status = pyd_trace_start(trace, 16, 4);
    CHECK(pyd_trace_is_on(trace) == pyd_ok(status), "a trace that could not start");
  }
  CHECK(pyd_sched_default_workers() > 0, "no worker");
  const pyd_sched_options_t options = {
      .workers = 2, .spin_us = 0, .has_affinity = pyd_affinity_is_supported(), .trace = trace};
  if (pyd_ok(status)) status = pyd_sched_create(&options, &sched);
  for (int i = 0; i < 2 && pyd_ok(status); ++i) {
    status = pyd_task_create(sched, &kKind, sizeof(int), &tasks[i]);
    CHECK(pyd_ok(status) == (tasks[i] != NULL), "a task that could not be created");
  }
  if (pyd_ok(status)) status = pyd_task_submit(tasks[0], NULL);
  const pyd_submit_options_t after = {.priority = PYD_PRIORITY_NORMAL, .after = tasks, .after_count = 1};
  if (pyd_ok(status)) {
    status = pyd_task_submit(tasks[1], &after);
    if (!pyd_ok(status)) {
      pyd_status_t again = pyd_task_submit(tasks[1], &after);
      CHECK(pyd_ok(again), "%s", pyd_status_text(again));
    }
    CHECK(pyd_task_wait(tasks[1], PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
    CHECK(*(int*)pyd_task_payload(tasks[0]) && *(int*)pyd_task_payload(tasks[1]), "both tasks run");
  }
  for (int i = 0; i < 2; ++i) pyd_task_release(tasks[i]);
  pyd_sched_destroy(sched);
  pyd_trace_destroy(trace);
  return status;
}

// A task that fails, one that waits for it, and one that waits for that: each says so, in as much text as there is
// memory for.
static pyd_status_t fail(void* self, const pyd_interrupt_t* interrupt) {
  (void)self, (void)interrupt;
  return pyd_status_make(PYD_CODE_KERNEL, "the kernel has failed");
}

static void test_skipped_tasks(void) {
  static const pyd_task_kind_t kFails = {.advance = advance, .run = fail};
  static const char kRoot[] = "the kernel has failed";
  const pyd_sched_options_t options = {.workers = 1, .threads = {.are_lent = true}};
  pyd_sched_t* sched = NULL;
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  bool is_short = true;
  for (int n = 1; is_short; ++n) {
    pyd_task_t* tasks[3] = {NULL};
    for (int i = 0; i < 3; ++i) {
      CHECK(pyd_ok(pyd_task_create(sched, i ? &kKind : &kFails, sizeof(int), &tasks[i])), "create");
      const pyd_submit_options_t after = {.after = &tasks[i - (i > 0)], .after_count = i > 0};
      CHECK(pyd_ok(pyd_task_submit(tasks[i], &after)), "submit");
    }
    requests = 0, refused = n;
    for (int i = 0; i < 3; ++i) CHECK(pyd_task_wait(tasks[i], PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
    refused = 0;
    is_short = false;
    for (int i = 0; i < 3; ++i) {
      const char* text = pyd_status_text(pyd_task_status(tasks[i]));
      const bool is_whole = strstr(text, kRoot) != NULL;
      CHECK(is_whole || strstr(text, "memory"), "request %d, task %d: '%s'", n, i, text);
      CHECK(!*(int*)pyd_task_payload(tasks[i]) && !pyd_ok(pyd_task_status(tasks[i])), "task %d has run", i);
      is_short |= !is_whole;
      pyd_task_release(tasks[i]);
    }
    CHECK(is_short || n > 3, "only %d requests", n - 1);
  }
  pyd_sched_destroy(sched);
}

int main(void) {
  refused = -1;  // counts only
  pyd_status_t status = scenario();
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  const int total = requests;
  CHECK(total > 8, "%d requests", total);
  int named = 0;  // the scheduler does without what it only starts ahead of need
  for (refused = 1; refused <= total; ++refused) {
    requests = 0;
    status = scenario();
    const char* text = pyd_status_text(status);
    const bool is_named = pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY ? strstr(text, "no memory") != NULL
                                                                            : strstr(text, strerror(ENOMEM)) != NULL;
    named += !pyd_ok(status);
    CHECK(pyd_ok(status) || is_named, "request %d of %d: '%s'", refused, total, text);
    pyd_status_free(status);
  }
  CHECK(named > 10, "only %d of %d requests were missed", named, total);
  test_skipped_tasks();
  printf("no memory: %d requests refused in turn, %d of them missed\n", total, named);
  return 0;
}
