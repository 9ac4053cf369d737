// The scheduler while threads of it cannot start, while another thread or one of its own tasks closes it, and on lent
// threads whose donation ends; blocking sections.
//
// links: base platform sched
// flags: -Wl,--wrap=pthread_create
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sched/task.h"

static bool refuses_threads;
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  return refuses_threads ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}

static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

static pyd_sched_t* make(uint32_t workers, bool are_lent) {
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {
      .workers = workers, .spin_us = 0, .scopes = {get_scope, set_scope}, .threads = {.are_lent = are_lent}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  return sched;
}

static void check_refused(pyd_status_t status, pyd_code_t code, const char* text) {
  CHECK(pyd_status_code(status) == code && strstr(pyd_status_text(status), text), "not '%s': '%s'", text,
        pyd_status_text(status));
  pyd_status_free(status);
}

// ---- a task that says that it ran

static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)task, (void)worker;
  *(_Atomic int*)self = 1;
  *out_status = PYD_STATUS_OK;
  return true;
}
static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  (void)interrupt;
  *(_Atomic int*)self = 1;
  return PYD_STATUS_OK;
}

static pyd_task_t* make_task(pyd_sched_t* sched) {
  static const pyd_task_kind_t kKind = {.advance = advance, .run = run};
  pyd_task_t* task;
  CHECK(pyd_ok(pyd_task_create(sched, &kKind, sizeof(_Atomic int), &task)), "create");
  return task;
}

static void submit(pyd_task_t* task) {
  pyd_status_t status = pyd_task_submit(task, NULL);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
}

static void check_runs(pyd_task_t* task) {
  CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
  CHECK(pyd_ok(pyd_task_status(task)) && *(_Atomic int*)pyd_task_payload(task), "the task has not run");
  pyd_task_release(task);
}

// ---- threads that cannot start

static void test_refused_threads(void) {
  pyd_sched_t* sched = make(1, false);
  CHECK(!pyd_sched_ensure_started(sched) && !sched->started, "a thread without a task");
  pyd_task_t* task = make_task(sched);
  refuses_threads = true;
  check_refused(pyd_task_submit(task, NULL), PYD_CODE_SYSTEM, "submit: no thread could be started to run the call: ");
  refuses_threads = false;
  submit(task);
  check_runs(task);
  // Without a thread for tasks that may block, those that compute run such a task.
  refuses_threads = true;
  task = make_task(sched);
  pyd_task_set_blocking(task);
  submit(task);
  check_runs(task);
  CHECK(!sched->blocking.started && !sched->blocking.queued, "%u threads", (unsigned)sched->blocking.started);
  refuses_threads = false;
  pyd_sched_destroy(sched);
}

// ---- a scheduler that another thread closes

static void test_closing(void) {
  pyd_sched_t *sched = make(1, false), *lent = make(1, true);
  pyd_task_t* task = make_task(sched);
  atomic_store(&sched->closing, 1);
  check_refused(pyd_task_submit(task, NULL), PYD_CODE_INVALID_ARGUMENT,
                "submit: the device is being closed by another thread; submit the call when that has returned");
  pyd_task_lock(sched);
  sched->blocking.queued = 1;
  CHECK(!pyd_blocking_ensure_thread(sched) && !sched->blocking.started, "a thread of a scheduler that is closed");
  sched->blocking.queued = 0;
  pyd_task_unlock(sched);
  atomic_store(&sched->closing, 0);
  submit(task);
  check_runs(task);
  atomic_store(&lent->closing, 1);
  check_refused(pyd_sched_lend(lent, NULL), PYD_CODE_INVALID_ARGUMENT, "the device is being closed by another thread");
  CHECK(!lent->started, "%u threads", (unsigned)lent->started);
  atomic_store(&lent->closing, 0);
  pyd_sched_destroy(lent);
  pyd_sched_destroy(sched);
}

// ---- a task that closes its scheduler on a thread outside the pool

static int refused_closes;

static void refuse_close(pyd_sched_t* sched) {
  CHECK(pyd_sched_is_inside(sched), "this thread works for a task");
  check_refused(pyd_sched_stop(sched), PYD_CODE_INVALID_ARGUMENT, "cannot be ended by a call that runs on them");
  ++refused_closes;
}
static pyd_status_t close_in_run(void* self, const pyd_interrupt_t* interrupt) {
  (void)interrupt;
  refuse_close(*(pyd_sched_t**)self);
  return PYD_STATUS_OK;
}
static void close_in_on_done(void* sched, pyd_task_t* task) {
  (void)task;
  refuse_close(sched);
}

// It would wait for itself: in its run on the thread that waits for it, and in its on_done, which is also called on the
// thread that cancels it, or on the one that closes the scheduler.
static void test_close_in_a_task(void) {
  static const pyd_task_kind_t kKind = {.advance = advance, .run = close_in_run};
  pyd_sched_t* sched = make(1, true);
  const pyd_submit_options_t options = {.priority = PYD_PRIORITY_NORMAL, .on_done = close_in_on_done, .context = sched};
  for (int way = 0; way < 3; ++way) {
    pyd_task_t* task;
    CHECK(pyd_ok(pyd_task_create(sched, &kKind, sizeof(sched), &task)), "create");
    *(pyd_sched_t**)pyd_task_payload(task) = sched;
    CHECK(pyd_ok(pyd_task_submit(task, &options)), "submit");
    refused_closes = 0;
    if (way == 0) CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
    if (way == 1) CHECK(pyd_task_cancel(task), "cancel");
    if (way == 2) CHECK(pyd_ok(pyd_sched_stop(sched)), "stop");
    CHECK(pyd_task_is_done(task) && refused_closes == (way == 0 ? 2 : 1), "%d were refused", refused_closes);
    CHECK(!innermost && !pyd_sched_is_inside(sched), "the scope has remained");
    pyd_task_release(task);
  }
  pyd_sched_destroy(sched);
}

// ---- what a lent thread does when it is asked whether its donation is over

typedef struct lent_s {
  pyd_sched_t* sched;
  int queries, queries_until_over;
  pid_t child;
  void (*act)(struct lent_s* self);
} lent_t;

static int32_t is_over(void* self) {
  lent_t* lent = self;
  if (lent->act && !lent->queries) lent->act(lent);
  return ++lent->queries > lent->queries_until_over;
}

static void lend(lent_t* lent) {
  pyd_status_t status = pyd_sched_lend(lent->sched, &(pyd_interrupt_t){is_over, lent});
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
}

// A thread that sleeps queries again and again, and ends only when the donation is over.
static void test_sleeping_lent_thread(void) {
  lent_t lent = {.sched = make(1, true), .queries_until_over = 3};
  lend(&lent);
  CHECK(lent.queries == 5 && !lent.sched->sleepers && !lent.sched->started, "%d queries", lent.queries);
  pyd_sched_destroy(lent.sched);
}

// The donation is over just when this thread was woken for a task: it wakes another one, here an entry that looks
// asleep.
static void test_task_for_a_thread_that_leaves(void) {
  lent_t lent = {.sched = make(2, true)};
  pyd_task_t* task = make_task(lent.sched);
  submit(task);
  pyd_event_t* wake = &lent.sched->threads[1].wake;
  pyd_event_reset(wake);
  atomic_store(&lent.sched->sleepers, 1);
  lend(&lent);
  CHECK(lent.sched->queued == 1, "the task has run");
  CHECK(pyd_event_is_set(wake) && !lent.sched->sleepers, "no other thread was woken for the task");
  check_runs(task);
  pyd_sched_destroy(lent.sched);
}

static void fork_in_query(lent_t* lent) {
  pyd_sched_fork_prepare(lent->sched);
  lent->child = fork();
  if (lent->child) {
    pyd_sched_fork_parent(lent->sched);
  } else {
    pyd_sched_fork_child(lent->sched);
  }
}
static void test_fork_of_a_lent_thread(void) {
  lent_t lent = {.sched = make(1, true), .act = fork_in_query};
  lend(&lent);
  CHECK(!lent.sched->started, "%u threads", (unsigned)lent.sched->started);  // not one less than none in the child
  if (!lent.child) _exit(0);
  int status = -1;
  CHECK(waitpid(lent.child, &status, 0) == lent.child && status == 0, "status %d of the child", status);
  pyd_sched_destroy(lent.sched);
}

// A waiter whose query runs the task reports that it was interrupted, although the task is done by then.
static int32_t run_in_query(void* task) {
  CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
  return 1;
}
static void test_interrupted_waiter(void) {
  pyd_sched_t* sched = make(1, true);
  pyd_task_t* task = make_task(sched);
  submit(task);
  const pyd_interrupt_t interrupt = {run_in_query, task};
  CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER - 1, &interrupt) == PYD_WAIT_INTERRUPTED, "the interrupt is lost");
  check_runs(task);
  pyd_sched_destroy(sched);
}

// ---- blocking sections, and threads that are told apart

static void test_blocking_sections(void) {
  pyd_sched_t* sched = make(2, true);
  const int32_t total = sched->permits->total;
  pyd_blocking_t section, inner;
  pyd_scope_t of_blocking = {.owner = &sched->blocking, .permit = PYD_SCOPE_PERMIT_NONE};
  pyd_scope_t of_job = {.outer = &of_blocking, .owner = sched, .permit = PYD_SCOPE_PERMIT_INHERITED};
  sched->blocking.active = 1;
  innermost = &of_job;  // a job that a blocking thread runs
  pyd_sched_block_begin(sched, &section);
  CHECK(section.was_active && !section.has_released_permit && !sched->blocking.active, "a blocking thread");
  pyd_sched_block_begin(sched, &inner);
  CHECK(!inner.was_active && !sched->blocking.active, "a section in a section");
  pyd_sched_block_end(&inner);
  CHECK(innermost == &section.scope && !sched->blocking.active, "after the inner section");
  pyd_sched_block_end(&section);
  CHECK(sched->blocking.active == 1 && sched->permits->free_count == total, "after a section");
  of_job.permit = PYD_SCOPE_PERMIT_HELD;  // a pool thread that helps with it
  atomic_fetch_sub(&sched->permits->free_count, 1);
  pyd_sched_block_begin(sched, &section);
  CHECK(!section.was_active && section.has_released_permit && sched->permits->free_count == total, "a pool thread");
  pyd_sched_block_end(&section);
  CHECK(innermost == &of_job && sched->permits->free_count == total - 1, "after a section");
  atomic_fetch_add(&sched->permits->free_count, 1);
  innermost = NULL;
  sched->blocking.active = 0;
  pyd_sched_destroy(sched);
}

static void test_own_blocking_thread(void) {
  pyd_sched_t* sched = make(1, true);
  CHECK(!pyd_blocking_own_thread(sched), "no thread is started");
  sched->blocking.started = 2;
  sched->blocking.threads[0].thread.handle = pthread_self();
  CHECK(pyd_blocking_own_thread(sched) == &sched->blocking.threads[0], "not the thread's own entry");
  sched->blocking.started = 0;
  pyd_sched_destroy(sched);
}

// Threads of an embedder are where it wants them.
static void test_lent_threads_are_not_pinned(void) {
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {.workers = 2, .has_affinity = true, .threads = {.are_lent = true}};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  CHECK(!sched->cpus, "lent threads are pinned");
  pyd_sched_destroy(sched);
}

int main(void) {
  test_refused_threads();
  test_closing();
  test_close_in_a_task();
  test_sleeping_lent_thread();
  test_task_for_a_thread_that_leaves();
  test_fork_of_a_lent_thread();
  test_interrupted_waiter();
  test_blocking_sections();
  test_own_blocking_thread();
  test_lent_threads_are_not_pinned();
  puts("lifecycle: ok");
  return 0;
}
