// Compute permits: how many pool threads compute at once, who gets the next permit, that callers do not wait, and that
// no thread waits for a permit that cannot come. Nothing here depends on time: a wrong wait lasts forever, and the
// handover timeout of waiting threads has no end unless a test sets one.
//
// links: base platform sched
// tsan: 20
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "permits.h"
#include "sched/task.h"

static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

static pyd_sched_t* make_limited(uint32_t workers, int32_t permits, uint64_t handover_timeout) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = workers, .spin_us = 0, .scopes = {get_scope, set_scope}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  sched->permits->handover_timeout = handover_timeout;
  atomic_store(&sched->permits->free_count, permits);
  return sched;
}

static void check_all_released(pyd_sched_t* sched, int32_t permits) {
  await_released(sched->permits, permits);
  pyd_sched_destroy(sched);
}

typedef struct load_s {
  pyd_sched_t* sched;
  uint32_t picoseconds;  // that an index is said to take
  _Atomic int inside, most, done;
  _Atomic int may_end;  // for the bodies that wait for it
} load_t;

// ---- how many

static load_t* shared;  // counts for all loads, when a test sets it

static int32_t count_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  load_t* load = shared ? shared : self;
  (void)worker, (void)begin, (void)end, (void)out_failed;
  int inside = ++load->inside, most = load->most;
  while (inside > most && !atomic_compare_exchange_weak(&load->most, &most, inside)) {
  }
  for (int i = 0; i < 100; ++i) pyd_cpu_relax();
  --load->inside;
  return 0;
}

static bool compute(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)task, (void)out_status;
  count_body(*(load_t**)self, worker, 0, 1, NULL);
  return true;
}

enum { TASKS = 200 / SLOWER };

// Submits tasks that compute.
static void submit_tasks(load_t* load, pyd_task_t** tasks) {
  static const pyd_task_kind_t kKind = {.advance = compute};
  for (int i = 0; i < TASKS; ++i) {
    CHECK(pyd_ok(pyd_task_create(load->sched, &kKind, sizeof(load_t*), &tasks[i])), "task");
    *(load_t**)pyd_task_payload(tasks[i]) = load;
    CHECK(pyd_ok(pyd_task_submit(tasks[i], NULL)), "submit");
  }
}

// Waits for tasks without running them on this thread.
static void end_tasks(pyd_task_t** tasks) {
  for (int i = 0; i < TASKS; ++i) {
    while (!pyd_task_is_done(tasks[i])) usleep(100);
    pyd_task_release(tasks[i]);
  }
}

static void test_never_more(uint32_t workers, int32_t permits) {
  load_t load = {.sched = make_limited(workers, permits, UINT64_MAX)};
  pyd_task_t* tasks[TASKS];
  submit_tasks(&load, tasks);
  end_tasks(tasks);
  CHECK(load.most <= permits, "%d threads computed at once, with %d permits", load.most, (int)permits);
  check_all_released(load.sched, permits);
}

// Schedulers that share permits have together as many as the largest of them.
static void test_shared_by_schedulers(void) {
  pyd_permits_t* permits = pyd_permits_create();
  pyd_sched_t* scheds[3];
  load_t loads[3];
  pyd_task_t* tasks[3][TASKS];
  const int32_t cpus = (int32_t)pyd_sched_available_cpus(), most = cpus > 3 ? cpus : 3;
  for (uint32_t i = 0; i < 3; ++i) {
    pyd_sched_options_t options = {
        .workers = i + 1, .spin_us = 0, .scopes = {get_scope, set_scope}, .permits = permits};
    CHECK(pyd_ok(pyd_sched_create(&options, &scheds[i])), "create");
    loads[i] = (load_t){.sched = scheds[i]};
  }
  CHECK(permits->total == most && permits->free_count == most, "%d permits", (int)permits->total);
  permits->handover_timeout = UINT64_MAX;
  load_t all = {0};
  shared = &all;
  atomic_fetch_sub(&permits->free_count, most - 2);
  for (int i = 0; i < 3; ++i) submit_tasks(&loads[i], tasks[i]);
  for (int i = 0; i < 3; ++i) end_tasks(tasks[i]);
  shared = NULL;
  CHECK(all.most <= 2, "%d threads computed at once, with 2 permits", all.most);
  while (permits->free_count < 2) usleep(100);
  atomic_fetch_add(&permits->free_count, most - 2);
  pyd_sched_destroy(scheds[2]);
  CHECK(permits->total == (cpus > 2 ? cpus : 2), "%d permits", (int)permits->total);
  pyd_sched_destroy(scheds[0]);
  pyd_sched_destroy(scheds[1]);
  CHECK(permits->total == 0 && permits->free_count == 0, "%d of %d permits", (int)permits->free_count,
        (int)permits->total);
  pyd_permits_destroy(permits);
}

// ---- who waits, and for whom

static void* call_briefly(void* argument) {
  load_t* load = argument;
  load_t own = {.sched = load->sched};
  run_job(load->sched, count_body, &own, 4, SURELY_SHARED);
  load->may_end = 1;
  return NULL;
}

// Runs until another caller's job has run. |self|: a load.
static int32_t until_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  load_t* load = self;
  (void)begin, (void)end;
  load->inside |= 1 << worker;
  usleep(50);
  *out_failed = begin;
  return load->may_end;
}

static void* call_until(void* argument) {
  load_t* load = argument;
  pyd_sched_failure_t failure = run_job(load->sched, until_body, load, 0x40000000, SURELY_SHARED);
  CHECK(failure.code == 1, "%d", failure.code);
  return NULL;
}

static void* call_often(void* argument) {
  load_t* load = argument;
  for (load_t own = {.sched = load->sched}; !load->may_end;) run_job(load->sched, count_body, &own, 4, SURELY_SHARED);
  return NULL;
}

static bool end_load(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)task, (void)worker, (void)out_status;
  (*(load_t**)self)->may_end = 1;
  return true;
}

// Submits a task that lets |load| end, and waits until a pool thread has run it.
static void end_by_task(load_t* load) {
  static const pyd_task_kind_t kKind = {.advance = end_load};
  pyd_task_t* task;
  CHECK(pyd_ok(pyd_task_create(load->sched, &kKind, sizeof(load_t*), &task)), "task");
  *(load_t**)pyd_task_payload(task) = load;
  CHECK(pyd_ok(pyd_task_submit(task, NULL)), "submit");
  while (!pyd_task_is_done(task)) usleep(100);
  pyd_task_release(task);
}

// Callers, more than there are permits, let a task in: after a slice of a long job, or between short ones.
static void test_callers_let_a_task_in(void* (*call)(void*), int callers) {
  load_t load = {.sched = make_limited(2, 1, UINT64_MAX)};
  pthread_t threads[4];
  for (int i = 0; i < callers; ++i) pthread_create(&threads[i], NULL, call, &load);
  end_by_task(&load);
  for (int i = 0; i < callers; ++i) pthread_join(threads[i], NULL);
  check_all_released(load.sched, 1);
}

// Another caller does not wait for a long job.
static void test_another_caller(uint32_t workers, int32_t permits, int inside) {
  load_t load = {.sched = make_limited(workers, permits, UINT64_MAX)};
  pthread_t longer;
  pthread_create(&longer, NULL, call_until, &load);
  while (load.inside != inside) usleep(100);
  call_briefly(&load);
  pthread_join(longer, NULL);
  check_all_released(load.sched, permits);
}

// A pool thread joins when a permit gets free, though there was none when the job was published.
static void test_helper_comes_later(void) {
  load_t load = {.sched = make_limited(2, 2, UINT64_MAX)};
  pyd_permit_take(load.sched->permits, PYD_PRIORITY_NORMAL, NULL, NULL);
  pthread_t longer;
  pthread_create(&longer, NULL, call_until, &load);
  while (load.inside != 1) usleep(100);
  usleep(1000);
  CHECK(load.inside == 1, "a pool thread without a permit");
  pyd_permit_release(load.sched->permits);
  while (load.inside != 3) usleep(100);
  load.may_end = 1;
  pthread_join(longer, NULL);
  check_all_released(load.sched, 2);
}

// ---- who does not wait

static int32_t nest_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  load_t own = {.sched = self};
  return run_job(self, count_body, &own, 4, SURELY_SHARED).code;
}

static void test_job_in_a_job(void) {
  for (uint32_t workers = 1; workers <= 3; ++workers) {
    pyd_sched_t* sched = make_limited(workers, 1, UINT64_MAX);
    CHECK(run_job(sched, nest_body, sched, 4, SURELY_SHARED).code == 0, "%u", workers);
    check_all_released(sched, 1);
  }
}

static void test_small_job(void) {
  load_t load = {.sched = make_limited(2, 0, UINT64_MAX)};
  run_job(load.sched, count_body, &load, 4, 1000);
  CHECK(load.most == 1, "%d", load.most);
  check_all_released(load.sched, 0);
}

// A caller holds the only permit and waits for a task: that one runs without a permit.
static int32_t blocked_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  load_t* load = self;
  (void)worker, (void)begin, (void)end, (void)out_failed;
  load->inside = 1;
  while (!load->may_end) usleep(100);
  return 0;
}

static void* call_blocked(void* argument) {
  load_t* load = argument;
  run_job(load->sched, blocked_body, load, 2, SURELY_SHARED);
  return NULL;
}

static void test_handover_timeout(void) {
  load_t load = {.sched = make_limited(1, 1, 1000000)};
  pthread_t blocked;
  pthread_create(&blocked, NULL, call_blocked, &load);
  while (!load.inside) usleep(100);
  end_by_task(&load);
  pthread_join(blocked, NULL);
  check_all_released(load.sched, 1);
}

// ---- in which order

static _Atomic uint32_t order;

typedef struct waiter_s {
  pyd_permits_t* permits;
  uint32_t priority, at;
  const pyd_sched_t* sched;  // for whose tasks it waits
  pthread_t thread;
} waiter_t;

static void* wait_for_permit(void* argument) {
  waiter_t* waiter = argument;
  pyd_permit_take(waiter->permits, waiter->priority, waiter->sched, NULL);
  waiter->at = order++;
  pyd_permit_release(waiter->permits);
  return NULL;
}

static void test_order(bool is_raised) {
  pyd_sched_t* sched = make_limited(1, 1, UINT64_MAX);
  static const uint32_t kPriorities[] = {2, 1, 1, 0, 2}, kOrder[] = {3, 1, 2, 0, 4};
  waiter_t waiters[5];
  order = 0;
  pyd_permit_take(sched->permits, PYD_PRIORITY_NORMAL, NULL, NULL);
  for (uint32_t i = 0; i < 5; ++i) {
    waiters[i] =
        (waiter_t){.permits = sched->permits, .priority = kPriorities[i], .sched = i == 0 || i == 4 ? sched : NULL};
    pthread_create(&waiters[i].thread, NULL, wait_for_permit, &waiters[i]);
    while (atomic_load(&sched->permits->waiting) != i + 1) usleep(100);
  }
  if (is_raised) {
    pyd_permit_raise(sched->permits, sched, PYD_PRIORITY_NORMAL);  // thread 0 comes after 1 and 2
    pyd_permit_raise(sched->permits, sched, PYD_PRIORITY_HIGH);    // thread 4 comes after 3
  }
  pyd_permit_release(sched->permits);
  for (uint32_t i = 0; i < 5; ++i) pthread_join(waiters[i].thread, NULL);
  static const uint32_t kExpected[] = {4, 2, 3, 0, 1};
  for (uint32_t i = 0; i < 5; ++i) {
    uint32_t expected = is_raised ? kExpected[i] : kOrder[i];
    CHECK(waiters[i].at == expected, "thread %u came as number %u instead of %u", i, waiters[i].at, expected);
  }
  check_all_released(sched, 1);
}

// A caller runs although no permit is free, then a task of high priority, then one of low priority.
static bool note_order(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)task, (void)worker, (void)out_status;
  **(uint32_t**)self = order++;
  return true;
}

static int32_t note_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)end, (void)out_failed;
  if (begin == 0) *(uint32_t*)self = order++;
  return 0;
}

typedef struct noter_s {
  pyd_sched_t* sched;
  uint32_t at;
} noter_t;

static void* call_noting(void* argument) {
  noter_t* noter = argument;
  run_job(noter->sched, note_body, &noter->at, 2, SURELY_SHARED);
  return NULL;
}

static void test_tasks_and_callers(void) {
  static const pyd_task_kind_t kKind = {.advance = note_order};
  noter_t noter = {.sched = make_limited(1, 1, UINT64_MAX)};
  pyd_permits_t* permits = noter.sched->permits;
  uint32_t at[2];
  pyd_task_t* tasks[2];
  order = 0;
  pyd_permit_take(permits, PYD_PRIORITY_NORMAL, NULL, NULL);
  for (int i = 0; i < 2; ++i) {  // first the one of low priority, for which the only thread then waits
    pyd_submit_options_t options = {.priority = i ? PYD_PRIORITY_HIGH : PYD_PRIORITY_LOW};
    CHECK(pyd_ok(pyd_task_create(noter.sched, &kKind, sizeof(uint32_t*), &tasks[i])), "task");
    *(uint32_t**)pyd_task_payload(tasks[i]) = &at[i];
    CHECK(pyd_ok(pyd_task_submit(tasks[i], &options)), "submit");
    while (atomic_load(&permits->waiting) != 1) usleep(100);
  }
  pthread_t caller;
  pthread_create(&caller, NULL, call_noting, &noter);
  pthread_join(caller, NULL);
  while (!pyd_task_is_done(tasks[1])) usleep(100);
  pyd_permit_release(permits);
  for (int i = 0; i < 2; ++i) {
    while (!pyd_task_is_done(tasks[i])) usleep(100);
    pyd_task_release(tasks[i]);
  }
  CHECK(noter.at == 0 && at[1] == 1 && at[0] == 2, "high %u, caller %u, low %u", at[1], noter.at, at[0]);
  check_all_released(noter.sched, 1);
}

int main(void) {
  test_never_more(1, 2);
  test_never_more(2, 2);
  test_never_more(4, 3);
  test_never_more(4, 1);
  test_shared_by_schedulers();
  test_callers_let_a_task_in(call_until, 1);
  test_callers_let_a_task_in(call_until, 3);
  test_callers_let_a_task_in(call_often, 1);
  test_callers_let_a_task_in(call_often, 3);
  test_another_caller(2, 2, 3);
  test_another_caller(2, 1, 1);
  test_helper_comes_later();
  test_job_in_a_job();
  test_small_job();
  test_handover_timeout();
  test_order(false);
  test_order(true);
  test_tasks_and_callers();
  puts("permit: ok");
  return 0;
}
