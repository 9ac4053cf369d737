// Tasks that may sleep: the pool stays free for calls that compute, as many run as there are workers and sleeping ones,
// and every way out of a task works on their threads. Nothing here depends on time: what must not wait would wait
// forever.
//
// links: base platform sched
// tsan: 5
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "permits.h"
#include "sched/task.h"

static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

static pyd_sched_t* make(uint32_t workers) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = workers, .spin_us = 0, .scopes = {get_scope, set_scope}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  sched->permits->handover_timeout = UINT64_MAX;
  atomic_store(&sched->permits->free_count, (int32_t)workers);
  return sched;
}

// What the tasks of a test share, which is their payload's only member.
typedef struct host_s {
  pyd_sched_t* sched;
  _Atomic int begun, running, most, asleep, may_end, ended, started;
  int sections;  // in which a task sleeps, one in the other; 0: it does not sleep
} host_t;

static void enter(host_t* host) {
  int running = ++host->running, most = host->most;
  while (running > most && !atomic_compare_exchange_weak(&host->most, &most, running)) {
  }
  ++host->begun;
}

static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  host_t* host = *(host_t**)self;
  enter(host);
  pyd_blocking_t blocking[2];
  for (int i = 0; i < host->sections; ++i) pyd_sched_block_begin(host->sched, &blocking[i]);
  if (host->sections) {
    --host->running;
    ++host->asleep;
  }
  while (!host->may_end && !interrupt->is_wanted(interrupt->self)) usleep(100);
  for (int i = host->sections; i-- > 0;) pyd_sched_block_end(&blocking[i]);
  if (host->sections) ++host->running;
  --host->running;
  ++host->ended;
  return PYD_STATUS_OK;
}

static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)worker;
  *out_status = run(self, pyd_task_interrupt(task));
  return true;
}

static const pyd_task_kind_t kKind = {.advance = advance, .run = run};

static pyd_task_t* submit(host_t* host, pyd_submit_options_t options) {
  pyd_task_t* task = NULL;
  CHECK(pyd_ok(pyd_task_create(host->sched, &kKind, sizeof(host_t*), &task)), "task");
  *(host_t**)pyd_task_payload(task) = host;
  pyd_task_set_blocking(task);
  CHECK(pyd_ok(pyd_task_submit(task, &options)), "submit");
  return task;
}

static pyd_task_t* submit_normal(host_t* host) {
  return submit(host, (pyd_submit_options_t){.priority = PYD_PRIORITY_NORMAL});
}

static void finish(pyd_task_t* task, pyd_code_t code) {
  while (!pyd_task_is_done(task)) usleep(100);
  CHECK(pyd_status_code(pyd_task_status(task)) == code, "%s", pyd_status_text(pyd_task_status(task)));
  pyd_task_release(task);
}

static void await(const _Atomic int* count, int least) {
  while (*count < least) usleep(100);
}

// Ends when as many threads work as the job has indices.
static int32_t meet(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  _Atomic int* missing = self;
  --*missing;
  while (*missing > 0) usleep(10);
  return 0;
}

static void check_pool_is_free(pyd_sched_t* sched) {
  _Atomic int missing = (int)sched->workers;
  CHECK(run_job(sched, meet, &missing, sched->workers, SURELY_SHARED).code == 0, "job");
}

static void destroy(pyd_sched_t* sched) {
  await_released(sched->permits, (int32_t)sched->workers);
  pyd_sched_destroy(sched);
}

// All workers' tasks sleep, and more than these: jobs still have the whole pool, and each task begins. A section in a
// section, such as a wait in a host command, lets no further task begin.
static void test_sleeping_tasks(uint32_t workers, int count, int sections) {
  host_t host = {.sched = make(workers), .sections = sections};
  pyd_task_t* tasks[PYD_SCHED_BLOCKING_THREADS];
  for (int i = 0; i < count; ++i) tasks[i] = submit_normal(&host);
  await(&host.asleep, count);
  check_pool_is_free(host.sched);
  host.may_end = 1;
  for (int i = 0; i < count; ++i) finish(tasks[i], PYD_CODE_OK);
  CHECK(host.most <= count && host.ended == count, "%d of %d", host.ended, count);
  destroy(host.sched);
}

// Without a call of pyd_sched_block_begin no more than |workers| run at once.
static void test_others_wait(void) {
  host_t host = {.sched = make(2)};
  pyd_task_t* tasks[6];
  for (int i = 0; i < 6; ++i) tasks[i] = submit_normal(&host);
  await(&host.begun, 2);
  check_pool_is_free(host.sched);
  CHECK(host.begun == 2, "%d tasks of 2 workers run at once", host.begun);
  host.may_end = 1;
  for (int i = 0; i < 6; ++i) finish(tasks[i], PYD_CODE_OK);
  CHECK(host.most == 2, "%d", host.most);
  destroy(host.sched);
}

// A task in the queue is cancelled there, one that sleeps by its interrupt.
static void test_cancel(void) {
  host_t host = {.sched = make(1)};
  pyd_task_t *running = submit_normal(&host), *queued = submit_normal(&host);
  await(&host.begun, 1);
  CHECK(pyd_task_cancel(queued) && pyd_task_is_done(queued), "queued");
  CHECK(pyd_task_cancel(running), "running");
  finish(queued, PYD_CODE_INTERRUPTED);
  finish(running, PYD_CODE_INTERRUPTED);
  CHECK(host.begun == 1, "%d", host.begun);
  destroy(host.sched);
}

// The thread that waits for a task in the queue runs it by itself.
static void test_waiter_runs(void) {
  host_t host = {.sched = make(1)}, other = {.sched = host.sched, .may_end = 1};
  pyd_task_t *running = submit_normal(&host), *queued = submit_normal(&other);
  await(&host.begun, 1);
  CHECK(pyd_task_wait(queued, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE && other.ended == 1, "%d", other.ended);
  host.may_end = 1;
  finish(running, PYD_CODE_OK);
  finish(queued, PYD_CODE_OK);
  destroy(host.sched);
}

static _Atomic int order;
static int kOrder[3];
static void note(void* context, pyd_task_t* task) {
  (void)task;
  *(int*)context = order++;
}

static void test_priorities(void) {
  host_t host = {.sched = make(1)};
  pyd_task_t* first = submit_normal(&host);
  await(&host.begun, 1);
  pyd_task_t* tasks[3];
  for (uint32_t i = 0; i < 3; ++i)
    tasks[i] = submit(&host, (pyd_submit_options_t){.priority = 2 - i, .on_done = note, .context = &kOrder[i]});
  host.may_end = 1;
  finish(first, PYD_CODE_OK);
  for (int i = 0; i < 3; ++i) finish(tasks[i], PYD_CODE_OK);
  while (order < 3) usleep(100);  // |on_done| comes after the task is seen done
  CHECK(kOrder[2] == 0 && kOrder[1] == 1 && kOrder[0] == 2, "%d %d %d", kOrder[0], kOrder[1], kOrder[2]);
  destroy(host.sched);
}

// Stopping cancels what runs and what is queued, on whichever thread; the next task starts threads again.
static void test_stop(void) {
  host_t host = {.sched = make(2), .sections = 1};
  pyd_task_t* tasks[5];
  for (int i = 0; i < 5; ++i)
    tasks[i] = submit(&host, (pyd_submit_options_t){.priority = 1, .after = tasks, .after_count = i > 3});
  await(&host.asleep, 4);
  CHECK(pyd_ok(pyd_sched_stop(host.sched)), "stop");
  for (int i = 0; i < 5; ++i) {
    CHECK(pyd_task_is_done(tasks[i]), "%d", i);
    finish(tasks[i], PYD_CODE_INTERRUPTED);
  }
  host.may_end = 1;
  finish(submit_normal(&host), PYD_CODE_OK);
  destroy(host.sched);
}

static pyd_status_t stop_inside(void* self, const pyd_interrupt_t* interrupt) {
  (void)interrupt;
  return pyd_sched_stop((*(host_t**)self)->sched);
}

static void test_stop_inside(void) {
  static const pyd_task_kind_t kStops = {.run = stop_inside};
  host_t host = {.sched = make(1)};
  pyd_task_t* task = NULL;
  CHECK(pyd_ok(pyd_task_create(host.sched, &kStops, sizeof(host_t*), &task)), "task");
  *(host_t**)pyd_task_payload(task) = &host;
  pyd_task_set_blocking(task);
  CHECK(pyd_ok(pyd_task_submit(task, NULL)), "submit");
  finish(task, PYD_CODE_INVALID_ARGUMENT);
  destroy(host.sched);
}

// The last owner of the scheduler destroys it on one of these threads.
static void destroy_sched(void* context, pyd_task_t* task) {
  host_t* host = context;
  pyd_task_release(task);
  pyd_sched_destroy(host->sched);
}

static void on_start(void* context, uint32_t worker) {
  if (worker == 2) ++((host_t*)context)->started;  // the first of these threads, before its first task
}
static void on_stop(void* context, uint32_t worker) {
  if (worker == 2) ++((host_t*)context)->ended;  // the first of these threads, after its last task
}

static void test_destroy_inside(void) {
  host_t host = {.may_end = 0};
  pyd_sched_options_t options = {.workers = 2,
                                 .scopes = {get_scope, set_scope},
                                 .threads = {.on_start = on_start, .on_stop = on_stop, .context = &host}};
  CHECK(pyd_ok(pyd_sched_create(&options, &host.sched)), "create");
  submit(&host, (pyd_submit_options_t){.priority = 1, .on_done = destroy_sched, .context = &host});
  host.may_end = 1;  // this thread, which is no owner, has left the scheduler
  await(&host.ended, 2);
  CHECK(host.started == 1, "%d threads", host.started);
}

// A body that sleeps in a job releases its permit: a caller with another job gets it.
static int32_t sleep_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  host_t* host = self;
  pyd_blocking_t blocking;
  pyd_sched_block_begin(host->sched, &blocking);
  ++host->asleep;
  while (!host->may_end) usleep(100);
  pyd_sched_block_end(&blocking);
  return 0;
}

static void* call_sleeping(void* self) {
  run_job(((host_t*)self)->sched, sleep_body, self, 1, SURELY_SHARED);
  return NULL;
}

static void test_permit_is_released(void) {
  host_t host = {.sched = make(1)};
  pthread_t sleeper;
  pthread_create(&sleeper, NULL, call_sleeping, &host);
  await(&host.asleep, 1);
  check_pool_is_free(host.sched);
  host.may_end = 1;
  pthread_join(sleeper, NULL);
  destroy(host.sched);
}

int main(void) {
  for (int sections = 1; sections <= 2; ++sections) {
    test_sleeping_tasks(1, 2, sections);
    test_sleeping_tasks(2, 5, sections);
    test_sleeping_tasks(3, PYD_SCHED_BLOCKING_THREADS, sections);
  }
  test_others_wait();
  test_cancel();
  test_waiter_runs();
  test_priorities();
  test_stop();
  test_stop_inside();
  test_destroy_inside();
  test_permit_is_released();
  puts("blocking: ok");
  return 0;
}
