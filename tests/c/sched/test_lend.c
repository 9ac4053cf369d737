// Threads that an embedder lends: they run tasks, end when they are asked to or the scheduler is stopped, and a thread
// that cannot be lent is told why.
//
// links: base platform sched
// tsan: 5
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "sched/task.h"

typedef struct lent_s {
  pthread_t thread;
  pyd_sched_t* sched;
  _Atomic int is_over, has_returned;
} lent_t;

static int32_t is_over(void* self) { return atomic_load(&((lent_t*)self)->is_over); }
static void* lend(void* self) {
  lent_t* lent = self;
  pyd_status_t status = pyd_sched_lend(lent->sched, &(pyd_interrupt_t){is_over, lent});
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  atomic_store(&lent->has_returned, 1);
  return NULL;
}

// Returns once |count| threads are lent.
static void start_lending(lent_t* lent, pyd_sched_t* sched, uint32_t count) {
  *lent = (lent_t){.sched = sched};
  CHECK(!pthread_create(&lent->thread, NULL, lend, lent), "thread");
  while (atomic_load(&sched->started) != count) usleep(100);
}

static void refuse(pyd_status_t status, const char* text) {
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT && strstr(pyd_status_text(status), text), "not '%s': '%s'",
        text, pyd_status_text(status));
  pyd_status_free(status);
}

typedef struct payload_s {
  pyd_sched_t* sched;
  pthread_t thread;  // that ran it
} payload_t;

static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  (void)interrupt;
  ((payload_t*)self)->thread = pthread_self();
  return PYD_STATUS_OK;
}
static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  payload_t* payload = self;
  (void)task, (void)worker;
  refuse(pyd_sched_lend(payload->sched, NULL), "this thread works for a call; lend it when that has ended");
  *out_status = run(self, NULL);
  return true;
}

// Runs a task to its end, and returns the thread that ran it.
static pthread_t thread_of_task(pyd_sched_t* sched, bool is_blocking, uint64_t nanoseconds) {
  static const pyd_task_kind_t kKind = {.advance = advance, .run = run};
  pyd_task_t* task;
  CHECK(pyd_ok(pyd_task_create(sched, &kKind, sizeof(payload_t), &task)), "create");
  payload_t* payload = pyd_task_payload(task);
  payload->sched = sched;
  if (is_blocking) pyd_task_set_blocking(task);
  pyd_status_t status = pyd_task_submit(task, NULL);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  CHECK(pyd_task_wait(task, nanoseconds, NULL) == PYD_WAIT_DONE, "a task does not end");
  const pthread_t thread = payload->thread;
  pyd_task_release(task);
  return thread;
}
static void check_runs_on(pyd_sched_t* sched, uint64_t nanoseconds, pthread_t expected) {
  CHECK(pthread_equal(thread_of_task(sched, false, nanoseconds), expected), "another thread ran the task");
}

int main(void) {
  const uint64_t long_ns = UINT64_C(60000000000);  // a waiter with a limit runs no tasks
  pyd_sched_t *own = make_sched(1, -1), *sched = NULL;
  refuse(pyd_sched_lend(own, NULL), "the device has threads of its own; create one whose threads are lent");
  pyd_sched_destroy(own);
  const pyd_sched_options_t options = {.workers = 2, .spin_us = 0, .threads = {.are_lent = true}};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  lent_t first, second;
  check_runs_on(sched, PYD_WAIT_FOREVER, pthread_self());  // nobody else could
  start_lending(&first, sched, 1);
  check_runs_on(sched, long_ns, first.thread);
  // No threads of their own exist for blocking tasks: whoever comes first runs them, the waiter or the lent thread.
  const pthread_t thread = thread_of_task(sched, true, PYD_WAIT_FOREVER);
  CHECK(pthread_equal(thread, pthread_self()) || pthread_equal(thread, first.thread), "a third thread ran the task");
  start_lending(&second, sched, 2);
  refuse(pyd_sched_lend(sched, NULL), "the device has as many threads as workers");
  atomic_store(&first.is_over, 1);
  pthread_join(first.thread, NULL);
  CHECK(!second.has_returned, "the lending of another thread has ended");
  check_runs_on(sched, long_ns, second.thread);
  CHECK(pyd_ok(pyd_sched_stop(sched)), "stop");
  pthread_join(second.thread, NULL);
  start_lending(&first, sched, 1);  // again
  check_runs_on(sched, long_ns, first.thread);
  atomic_store(&first.is_over, 1);
  pthread_join(first.thread, NULL);
  pyd_sched_destroy(sched);
  puts("lend: ok");
  return 0;
}
