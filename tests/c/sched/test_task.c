// Tasks: many threads submit, cancel and wait while others close the scheduler; order, priorities, forks, failures.
//
// links: base platform sched
// tsan: 5
#include <fenv.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "pydispatch/task.h"
#include "sched/task.h"
#include "sched/tuning.h"

#ifdef UNDER_TSAN
const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "die_after_fork=0"; }
#endif

// A task of |steps| jobs of |count| indices each; one index of the last fails when |code| is not 0.
typedef struct work_s {
  uint32_t steps, count, step;
  int32_t code;
  bool is_open;
  _Atomic uint64_t* sum;
  _Atomic int* gate;   // the first index waits until it is 0
  _Atomic int* begun;  // chunks
  pyd_sched_cost_t cost;
} work_t;

static int32_t body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker;
  work_t* work = self;
  if (work->begun) atomic_fetch_add(work->begun, 1);
  while (work->gate && atomic_load(work->gate)) usleep(100);
  for (uint64_t i = begin; i < end; ++i) {
    if (work->code && work->step + 1 == work->steps && i == work->count / 2) {
      *out_failed = i;
      return work->code;
    }
    atomic_fetch_add_explicit(work->sum, 1, memory_order_relaxed);
  }
  return 0;
}

static pyd_status_t outcome(const pyd_sched_failure_t* failure) {
  if (failure->is_interrupted) return pyd_status_make(PYD_CODE_INTERRUPTED, "ended early");
  return failure->code ? pyd_status_make(PYD_CODE_KERNEL, "index %d", (int)failure->index) : PYD_STATUS_OK;
}

static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  work_t* work = self;
  for (;;) {
    if (work->is_open) {
      work->is_open = false;
      *out_status = outcome(pyd_task_failure(task));
      if (!pyd_ok(*out_status) || ++work->step == work->steps) return true;
    }
    const pyd_sched_job_t job = {body, work, work->count, &work->cost, NULL};
    work->is_open = true;
    if (!pyd_task_share(task, &job, worker)) return false;
  }
}

static pyd_sched_t* shared;

static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  work_t* work = self;
  for (; work->step < work->steps; ++work->step) {
    const pyd_sched_job_t job = {body, work, work->count, &work->cost, interrupt};
    pyd_sched_failure_t failure;
    pyd_sched_run(shared, &job, &failure);
    pyd_status_t status = outcome(&failure);
    if (!pyd_ok(status)) return status;
  }
  return PYD_STATUS_OK;
}

static _Atomic int dropped;
static void drop(void* self) {
  (void)self;
  atomic_fetch_add(&dropped, 1);
}
static _Atomic int ended;
static void end(void* self) {
  (void)self;
  atomic_fetch_add(&ended, 1);
}
static const pyd_task_kind_t kKind = {.advance = advance, .run = run, .drop = drop, .end = end};

static pyd_task_t* make(uint32_t steps, uint32_t count, _Atomic uint64_t* sum) {
  pyd_task_t* task;
  pyd_status_t status = pyd_task_create(shared, &kKind, sizeof(work_t), &task);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  *(work_t*)pyd_task_payload(task) =
      (work_t){.steps = steps, .count = count, .sum = sum, .cost = {.picoseconds = SURELY_SHARED}};
  return task;
}

static void submit(pyd_task_t* task, const pyd_submit_options_t* options) {
  pyd_status_t status = pyd_task_submit(task, options);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
}

// A waiter that gives up after a long time: it never takes the task out of the queue.
static void wait_without_running(pyd_task_t* task) {
  CHECK(pyd_task_wait(task, UINT64_C(60000000000), NULL) == PYD_WAIT_DONE, "a task does not end");
}

static _Atomic int called;
static void on_done(void* context, pyd_task_t* task) {
  CHECK(pyd_task_is_done(task), "called too early");
  atomic_fetch_add(&called, 1);
  if (context) atomic_fetch_add((_Atomic int*)context, 1);
}

static void test_order(uint32_t workers) {
  shared = make_sched(workers, -1);
  _Atomic uint64_t sum = 0;
  atomic_store(&dropped, 0);
  atomic_store(&ended, 0);
  atomic_store(&called, 0);
  enum { COUNT = 50 };
  pyd_task_t* tasks[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    tasks[i] = make(3, 40, &sum);
    pyd_submit_options_t options = {.priority = (uint32_t)i % 3, .on_done = on_done};
    if (i) options.after = &tasks[i - 1], options.after_count = 1;
    submit(tasks[i], &options);
  }
  wait_without_running(tasks[COUNT - 1]);
  CHECK(sum == COUNT * 120, "%d indices", (int)sum);
  for (int i = 0; i < COUNT; ++i) {
    CHECK(pyd_task_is_done(tasks[i]) && pyd_ok(pyd_task_status(tasks[i])), "task %d", i);
    CHECK(!pyd_task_cancel(tasks[i]), "it has ended");
    pyd_task_release(tasks[i]);
  }
  pyd_status_free(pyd_sched_stop(shared));
  CHECK(called == COUNT && dropped == COUNT && ended == COUNT, "%d called, %d dropped, %d ended", called, dropped,
        ended);
  pyd_sched_destroy(shared);
}

static void test_failure(void) {
  shared = make_sched(2, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1;
  pyd_task_t *first = make(2, 8, &sum), *second = make(1, 8, &sum), *third = make(1, 8, &sum),
             *behind = make(1, 5, &sum);
  ((work_t*)pyd_task_payload(first))->code = 7;
  ((work_t*)pyd_task_payload(first))->gate = &gate;
  submit(first, NULL);
  submit(second, &(pyd_submit_options_t){.after = &first, .after_count = 1});
  submit(third, &(pyd_submit_options_t){.after = (pyd_task_t*[]){second, first}, .after_count = 2});
  submit(behind, &(pyd_submit_options_t){.order_after = first});
  CHECK(!pyd_task_is_done(second) && pyd_task_wait(third, 1000, NULL) == PYD_WAIT_TIMEOUT, "the gate is closed");
  atomic_store(&gate, 0);
  wait_without_running(third);
  wait_without_running(behind);
  CHECK(pyd_status_code(pyd_task_status(first)) == PYD_CODE_KERNEL && !pyd_task_is_skipped(first), "it failed");
  CHECK(pyd_status_code(pyd_task_status(third)) == PYD_CODE_KERNEL && pyd_task_is_skipped(third), "it was skipped");
  CHECK(pyd_ok(pyd_task_status(behind)), "only the order matters to it");
  pyd_task_t* late = make(1, 8, &sum);
  submit(late, &(pyd_submit_options_t){.after = &first, .after_count = 1});
  CHECK(pyd_task_wait(late, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE && pyd_task_is_skipped(late), "after its end too");
  pyd_status_t status = pyd_task_submit(late, NULL);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT, "twice");
  pyd_status_free(status);
  pyd_task_t* all[] = {first, second, third, behind, late};
  for (int i = 0; i < 5; ++i) pyd_task_release(all[i]);
  pyd_sched_destroy(shared);
}

// The text of a task that was skipped names the failure at the root of its chain, however long the chain is.
static void test_chain_of_skipped(void) {
  shared = make_sched(2, -1);
  enum { COUNT = 300 };
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1;
  pyd_task_t* tasks[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    tasks[i] = make(1, 8, &sum);
    ((work_t*)pyd_task_payload(tasks[i]))->code = 7;
    ((work_t*)pyd_task_payload(tasks[i]))->gate = &gate;
    // The last ones are submitted when the first ones have ended.
    if (i == COUNT - 10) atomic_store(&gate, 0), wait_without_running(tasks[i - 1]);
    submit(tasks[i], &(pyd_submit_options_t){.after = &tasks[i ? i - 1 : 0], .after_count = i != 0});
  }
  wait_without_running(tasks[COUNT - 1]);
  for (int i = 0; i < COUNT; ++i) {
    char expected[100] = "index 4";
    if (i == 1) snprintf(expected, sizeof(expected), "a call that this one waits for has failed: index 4");
    if (i > 1)
      snprintf(expected, sizeof(expected), "a call that this one waits for, %d calls before it, has failed: index 4",
               i - 1);
    const char* text = pyd_status_text(pyd_task_status(tasks[i]));
    CHECK(strcmp(text, expected) == 0, "task %d: %s", i, text);
  }
  for (int i = 0; i < COUNT; ++i) pyd_task_release(tasks[i]);
  pyd_sched_destroy(shared);
}

// A task that has run does not end as cancelled because the scheduler is stopped meanwhile.
static bool advance_at_once(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)self, (void)task, (void)worker;
  *out_status = PYD_STATUS_OK;
  return true;
}
static void stop_meanwhile(void* self) {
  (void)self;
  pyd_task_cancel_all(shared);
}
static void note_success(void* context, pyd_task_t* task) {
  CHECK(pyd_ok(pyd_task_status(task)), "%s", pyd_status_text(pyd_task_status(task)));
  atomic_fetch_add((_Atomic int*)context, 1);
}
static void test_stop_after_its_run(void) {
  static const pyd_task_kind_t kind = {.advance = advance_at_once, .drop = stop_meanwhile};
  shared = make_sched(2, -1);
  _Atomic int succeeded = 0;
  pyd_task_t* task;
  CHECK(pyd_ok(pyd_task_create(shared, &kind, 16, &task)), "create");
  submit(task, &(pyd_submit_options_t){.on_done = note_success, .context = (void*)&succeeded});
  pyd_task_release(task);
  while (!atomic_load(&succeeded)) usleep(100);
  pyd_sched_destroy(shared);
}

static void test_cancel(void) {
  shared = make_sched(1, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1, ended = 0;
  pyd_task_t *runs = make(1000000, 40, &sum), *waits = make(1, 40, &sum);
  ((work_t*)pyd_task_payload(runs))->gate = &gate;
  submit(runs, &(pyd_submit_options_t){.on_done = on_done, .context = &ended});
  submit(waits, &(pyd_submit_options_t){.priority = PYD_PRIORITY_LOW, .on_done = on_done, .context = &ended});
  CHECK(pyd_task_cancel(waits) && pyd_task_is_done(waits), "one that is in the queue ends at once");
  CHECK(pyd_status_code(pyd_task_status(waits)) == PYD_CODE_INTERRUPTED, "cancelled");
  CHECK(pyd_task_cancel(runs), "one that runs is asked");
  atomic_store(&gate, 0);
  wait_without_running(runs);
  CHECK(pyd_status_code(pyd_task_status(runs)) == PYD_CODE_INTERRUPTED && pyd_task_is_cancelled(runs), "cancelled");
  pyd_task_release(runs);
  pyd_task_release(waits);
  pyd_sched_destroy(shared);
  CHECK(ended == 2, "%d callbacks", ended);
}

static void wait_for_step(_Atomic int* step, int wanted) {
  while (atomic_load(step) != wanted) usleep(100);
}

// A task that commits at step 2, and ends at step 4. At 1 it has begun, at 3 it has committed.
static bool advance_committing(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)worker;
  _Atomic int* step = *(_Atomic int**)self;
  atomic_store(step, 1);
  wait_for_step(step, 2);
  bool is_committed = pyd_task_commit(task);
  atomic_store(step, 3);
  wait_for_step(step, 4);
  *out_status = is_committed ? PYD_STATUS_OK : pyd_status_make(PYD_CODE_INTERRUPTED, "without effects");
  return true;
}

// A task is cancelled before its effects are final, or not at all.
static void test_commit(void) {
  static const pyd_task_kind_t kind = {.advance = advance_committing};
  for (int is_early = 0; is_early < 2; ++is_early) {
    shared = make_sched(2, -1);
    _Atomic int step = 0;
    pyd_task_t* task;
    CHECK(pyd_ok(pyd_task_create(shared, &kind, sizeof(void*), &task)), "create");
    *(_Atomic int**)pyd_task_payload(task) = &step;
    submit(task, NULL);
    wait_for_step(&step, 1);
    if (is_early) CHECK(pyd_task_cancel(task), "it can be cancelled");
    atomic_store(&step, 2);
    wait_for_step(&step, 3);
    CHECK(pyd_task_cancel(task) == is_early && pyd_task_is_cancelled(task) == is_early, "it is decided");
    atomic_store(&step, 4);
    wait_without_running(task);
    CHECK(pyd_ok(pyd_task_status(task)) != is_early, "%s", pyd_status_text(pyd_task_status(task)));
    pyd_task_release(task);
    pyd_sched_destroy(shared);
  }
}

static void refuse(pyd_status_t status, pyd_code_t code, const char* text) {
  CHECK(pyd_status_code(status) == code && strstr(pyd_status_text(status), text), "not \"%s\": %s", text,
        pyd_status_text(status));
  pyd_status_free(status);
}

static void test_refusals(void) {
  pyd_sched_t* other = make_sched(1, -1);
  shared = other;
  _Atomic uint64_t sum = 0;
  pyd_task_t *elsewhere = make(1, 1, &sum), *none = elsewhere;
  shared = make_sched(1, -1);
  pyd_task_t* task = make(1, 40, &sum);
  refuse(pyd_task_create(shared, &kKind, SIZE_MAX, &none), PYD_CODE_OUT_OF_MEMORY, "no memory for a task");
  CHECK(!none, "a task that was not created");
  refuse(pyd_task_submit(task, &(pyd_submit_options_t){.priority = PYD_PRIORITIES}), PYD_CODE_INVALID_ARGUMENT,
         "submit: the priority is 0 (high), 1 (normal) or 2 (low)");
  refuse(pyd_task_submit(task, &(pyd_submit_options_t){.after = &elsewhere, .after_count = 1}),
         PYD_CODE_INVALID_ARGUMENT, "call 0 of those that this one waits for is of another device");
  submit(task, NULL);
  refuse(pyd_task_submit(task, NULL), PYD_CODE_INVALID_ARGUMENT, "submit: this call was submitted already");
  wait_without_running(task);
  CHECK(sum == 40, "%d indices ran", (int)sum);
  pyd_task_release(task);
  pyd_sched_destroy(shared);
  pyd_task_release(elsewhere);
  pyd_sched_destroy(other);
}

// A task that was refused while the scheduler was closing can be submitted again.
static void test_submit_after_refusal(void) {
  const pyd_sched_options_t options = {.workers = 1, .threads = {.are_lent = true}};  // only waiters run tasks
  CHECK(pyd_ok(pyd_sched_create(&options, &shared)), "create");
  _Atomic uint64_t sum = 0;
  pyd_task_t* tasks[2] = {make(1, 10, &sum), make(1, 10, &sum)};
  const pyd_submit_options_t after = {.priority = PYD_PRIORITY_NORMAL, .after = tasks, .after_count = 1};
  submit(tasks[0], NULL);
  atomic_store(&shared->closing, 1);
  pyd_status_t status = pyd_task_submit(tasks[1], &after);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT, "%s", pyd_status_text(status));
  CHECK(strstr(pyd_status_text(status), "the device is being closed by another thread"), "%s", pyd_status_text(status));
  pyd_status_free(status);
  atomic_store(&shared->closing, 0);
  submit(tasks[1], &after);
  for (int i = 0; i < 2; ++i) {
    CHECK(pyd_task_wait(tasks[i], PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
    CHECK(pyd_ok(pyd_task_status(tasks[i])), "%s", pyd_status_text(pyd_task_status(tasks[i])));
    pyd_task_release(tasks[i]);
  }
  CHECK(sum == 20, "%d", (int)sum);
  pyd_sched_destroy(shared);
}

// A callback that is set after the task was submitted, and one that comes too late.
static void test_late_callback(void) {
  shared = make_sched(2, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1, first = 0, late = 0;
  pyd_task_t* task = make(1, 40, &sum);
  ((work_t*)pyd_task_payload(task))->gate = &gate;
  submit(task, NULL);
  CHECK(pyd_task_set_on_done(task, on_done, &first), "the task runs");
  atomic_store(&gate, 0);
  wait_without_running(task);
  CHECK(!pyd_task_set_on_done(task, on_done, &late), "the task has ended");
  pyd_task_release(task);
  pyd_sched_destroy(shared);
  CHECK(first == 1 && late == 0, "%d and %d callbacks", first, late);
}

typedef struct waiter_s {
  pthread_t thread;
  pyd_task_t* task;
  _Atomic int asked, is_wanted;
  pyd_wait_t outcome;
} waiter_t;

static int32_t ask_waiter(void* self) {
  waiter_t* waiter = self;
  atomic_fetch_add(&waiter->asked, 1);
  return atomic_load(&waiter->is_wanted);
}
static void* wait_interruptibly(void* self) {
  waiter_t* waiter = self;
  waiter->outcome = pyd_task_wait(waiter->task, UINT64_C(60000000000), &(pyd_interrupt_t){ask_waiter, waiter});
  return NULL;
}

// Waiters leave from the middle and the end of the list of those that sleep, and the one that is left is woken.
static void test_waiters_leave(void) {
  shared = make_sched(2, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1;
  pyd_task_t* task = make(1, 40, &sum);
  ((work_t*)pyd_task_payload(task))->gate = &gate;
  submit(task, NULL);
  CHECK(pyd_task_wait(task, 0, NULL) == PYD_WAIT_TIMEOUT && pyd_task_wait(task, 1, NULL) == PYD_WAIT_TIMEOUT,
        "it runs");
  waiter_t waiters[3] = {{.task = task}, {.task = task}, {.task = task}};
  for (int i = 0; i < 3; ++i) {
    CHECK(!pthread_create(&waiters[i].thread, NULL, wait_interruptibly, &waiters[i]), "thread");
    while (!atomic_load(&waiters[i].asked)) usleep(100);  // it sleeps in slices, between which it asks
  }
  static const int kLeave[] = {1, 0};
  for (int i = 0; i < 2; ++i) {
    waiter_t* waiter = &waiters[kLeave[i]];
    atomic_store(&waiter->is_wanted, 1);
    pthread_join(waiter->thread, NULL);
    CHECK(waiter->outcome == PYD_WAIT_INTERRUPTED, "outcome %d", (int)waiter->outcome);
  }
  atomic_store(&gate, 0);
  pthread_join(waiters[2].thread, NULL);
  CHECK(waiters[2].outcome == PYD_WAIT_DONE && sum == 40, "outcome %d", (int)waiters[2].outcome);
  pyd_task_release(task);
  pyd_sched_destroy(shared);
}

// The floating-point mode and the interrupt that a task sees when its waiter runs it.
typedef struct seen_s {
  uint64_t fp_mode;
  bool is_wanted;
} seen_t;
static pyd_status_t look(void* self, const pyd_interrupt_t* interrupt) {
  *(seen_t*)self = (seen_t){pyd_cpu_fp_mode(), interrupt->is_wanted(interrupt->self) != 0};
  return PYD_STATUS_OK;
}
static void test_run_by_waiter(void) {
  static const pyd_task_kind_t kLook = {.advance = advance_at_once, .run = look};
  shared = make_sched(1, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1, begun = 0;
  pyd_task_t *busy = make(1, 1, &sum), *task;
  ((work_t*)pyd_task_payload(busy))->gate = &gate, ((work_t*)pyd_task_payload(busy))->begun = &begun;
  submit(busy, NULL);
  while (!atomic_load(&begun)) usleep(100);  // the only thread of the pool is taken
  const uint64_t nearest = pyd_cpu_fp_mode();
  for (int is_upward = 0; is_upward < 2; ++is_upward) {
    waiter_t waiter = {.is_wanted = is_upward};
    CHECK(pyd_ok(pyd_task_create(shared, &kLook, sizeof(seen_t), &task)), "create");
    fesetround(is_upward ? FE_UPWARD : FE_TONEAREST);
    const uint64_t fp_mode = pyd_cpu_fp_mode();  // the same for both on unknown systems
    submit(task, NULL);
    fesetround(FE_TONEAREST);
    CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, &(pyd_interrupt_t){ask_waiter, &waiter}) == PYD_WAIT_DONE, "wait");
    const seen_t* seen = pyd_task_payload(task);
    CHECK(pyd_cpu_fp_mode() == nearest, "the waiter has another mode than before");
    CHECK(seen->fp_mode == fp_mode, "the task has another mode than its submitter");
    CHECK(seen->is_wanted == is_upward && waiter.asked == 1, "the interrupt of the waiter");
    pyd_task_release(task);
  }
  atomic_store(&gate, 0);
  wait_without_running(busy);
  pyd_task_release(busy);
  pyd_sched_destroy(shared);
}

// A job of more indices than one window has, which is shared window after window.
typedef struct long_s {
  uint64_t count, bad;
  _Atomic uint64_t ran;
  bool is_open;
  pyd_sched_cost_t cost;
} long_t;
static int32_t long_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  long_t* job = self;
  (void)worker;
  atomic_fetch_add(&job->ran, end - begin);
  if (job->bad < begin || job->bad >= end) return 0;
  *out_failed = job->bad;
  return 9;
}
static bool advance_long(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  long_t* work = self;
  const pyd_sched_job_t job = {long_body, work, work->count, &work->cost, NULL};
  if (!work->is_open) {
    work->is_open = true;
    if (!pyd_task_share(task, &job, worker)) return false;
  }
  const pyd_sched_failure_t* failure = pyd_task_failure(task);
  *out_status = failure->code ? pyd_status_make(PYD_CODE_KERNEL, "%llx", (unsigned long long)failure->index) : NULL;
  return true;
}
static void test_windows(uint32_t workers) {
  static const pyd_task_kind_t kLong = {.advance = advance_long};
  static const uint64_t kCount = UINT64_C(0x280000007), kBad = UINT64_C(0x180000003);
  shared = make_sched(workers, -1);
  for (int fails = 0; fails < 2; ++fails) {
    pyd_task_t* task;
    CHECK(pyd_ok(pyd_task_create(shared, &kLong, sizeof(long_t), &task)), "create");
    long_t* work = pyd_task_payload(task);
    work->count = kCount, work->bad = fails ? kBad : UINT64_MAX, work->cost.picoseconds = 1000;
    submit(task, NULL);
    wait_without_running(task);
    const pyd_status_t status = pyd_task_status(task);
    CHECK(pyd_ok(status) == !fails, "%s", pyd_status_text(status));
    CHECK(!fails || strcmp(pyd_status_text(status), "180000003") == 0, "index %s", pyd_status_text(status));
    CHECK(fails ? work->ran < kCount : work->ran == kCount, "%llx ran", (unsigned long long)work->ran);
    pyd_task_release(task);
  }
  pyd_sched_destroy(shared);
}

// ---- closing

static void* stop(void* unused) {
  pyd_status_t status = pyd_sched_stop(shared);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  return unused;
}

// Closing waits for the chunks that are running, and for nothing else: however much was submitted, no other one begins.
static void test_close_begins_nothing(uint32_t workers) {
  enum { TASKS = 1000, STEPS = 50, INDICES = 5000 };
  shared = make_sched(workers, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1, begun = 0, calls = 0;
  pyd_task_t* tasks[TASKS];
  for (int i = 0; i < TASKS; ++i) {
    tasks[i] = make(STEPS, INDICES, &sum);
    work_t* work = pyd_task_payload(tasks[i]);
    work->gate = &gate, work->begun = &begun;
    const pyd_submit_options_t options = {
        .on_done = on_done, .context = &calls, .after = &tasks[i - (i != 0)], .after_count = i % 2};
    submit(tasks[i], &options);
  }
  const int threads = (int)workers;
  while (atomic_load(&begun) < threads) usleep(100);
  pthread_t closer;
  CHECK(!pthread_create(&closer, NULL, stop, NULL), "thread");
  for (int i = 0; i < TASKS; ++i) {
    while (!pyd_task_is_cancelled(tasks[i])) usleep(100);
  }
  usleep(2 * PYD_SCHED_ASK_TIME / 1000);  // every thread asks after its chunk whether it should go on
  atomic_store(&gate, 0);
  pthread_join(closer, NULL);
  CHECK(begun == threads, "%d chunks were begun, by %d threads", begun, threads);
  CHECK(calls == TASKS, "%d of %d were ended", calls, TASKS);
  for (int i = 0; i < TASKS; ++i) {
    CHECK(pyd_task_is_done(tasks[i]) && pyd_status_code(pyd_task_status(tasks[i])) == PYD_CODE_INTERRUPTED, "task %d",
          i);
    pyd_task_release(tasks[i]);
  }
  pyd_sched_destroy(shared);
}

// ---- stress

static _Atomic int is_over;
static _Atomic uint64_t total;

static void* use(void* seed) {
  unsigned random = (unsigned)(uintptr_t)seed;
  pyd_task_t* previous = NULL;
  for (int i = 0; !atomic_load(&is_over); ++i) {
    random = random * 1103515245u + 12345u;
    pyd_task_t* task = make(1 + (random >> 16) % 4, 1 + (random >> 20) % 60, &total);
    work_t* work = pyd_task_payload(task);
    if ((random >> 8) % 7 == 0) work->code = 3;
    if ((random >> 12) % 3 == 0) work->cost.picoseconds = 0;
    pyd_submit_options_t options = {.priority = (random >> 9) % 3, .on_done = (random >> 11) % 2 ? on_done : NULL};
    if (previous && (random >> 13) % 2) options.after = &previous, options.after_count = 1;
    if (previous && (random >> 14) % 2) options.order_after = previous;
    pyd_status_t status = pyd_task_submit(task, &options);
    if (!pyd_ok(status)) {  // it is being closed
      CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT, "%s", pyd_status_text(status));
      pyd_status_free(status);
      pyd_task_release(task);
      continue;
    }
    if ((random >> 17) % 5 == 0) pyd_task_cancel(task);
    if ((random >> 18) % 3 == 0) wait_without_running(task);
    if ((random >> 19) % 3 == 0) pyd_task_wait(task, PYD_WAIT_FOREVER, NULL);
    if ((random >> 21) % 4 == 0)
      run_job(shared, body, &(work_t){.steps = 1, .count = 30, .sum = &total}, 30, SURELY_SHARED);
    pyd_task_release(previous);
    previous = task;
  }
  if (previous) wait_without_running(previous);
  pyd_task_release(previous);
  return NULL;
}

static void test_stress(uint32_t workers, int rounds) {
  shared = make_sched(workers, -1);
  atomic_store(&is_over, 0);
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, use, (void*)(i * 7919 + workers));
  for (int i = 0; i < rounds; ++i) {
    usleep(3000);
    pyd_status_t status = pyd_sched_stop(shared);
    CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  }
  atomic_store(&is_over, 1);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  pyd_sched_destroy(shared);
}

// In the child everything that was submitted is over, and new tasks run.
static void test_fork(void) {
#if !defined(UNDER_TSAN) && !defined(__SANITIZE_ADDRESS__)
  shared = make_sched(2, -1);
  _Atomic uint64_t sum = 0;
  _Atomic int gate = 1;
  pyd_task_t *runs = make(1, 8, &sum), *waits = make(1, 8, &sum);
  ((work_t*)pyd_task_payload(runs))->gate = &gate;
  submit(runs, NULL);
  submit(waits, &(pyd_submit_options_t){.order_after = runs});
  pyd_sched_fork_prepare(shared);
  pid_t child = fork();
  if (child == 0) {
    pyd_sched_fork_child(shared);
    bool is_lost = pyd_task_wait(runs, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE && !pyd_ok(pyd_task_status(runs)) &&
                   pyd_task_is_done(waits) && !pyd_task_cancel(waits);
    pyd_task_t* fresh = make(2, 8, &sum);
    submit(fresh, &(pyd_submit_options_t){.order_after = waits});
    wait_without_running(fresh);
    _exit(is_lost && pyd_ok(pyd_task_status(fresh)) ? 0 : 1);
  }
  pyd_sched_fork_parent(shared);
  int how = -1;
  waitpid(child, &how, 0);
  CHECK(how == 0, "the child ended with %d", how);
  atomic_store(&gate, 0);
  wait_without_running(waits);
  CHECK(pyd_ok(pyd_task_status(runs)) && pyd_ok(pyd_task_status(waits)), "the parent goes on");
  pyd_task_release(runs);
  pyd_task_release(waits);
  pyd_sched_destroy(shared);
#endif
}

int main(int argc, char** argv) {
  test_fork();
  test_cancel();
  test_commit();
  test_failure();
  test_chain_of_skipped();
  test_stop_after_its_run();
  test_refusals();
  test_submit_after_refusal();
  test_late_callback();
  test_waiters_leave();
  test_run_by_waiter();
  for (uint32_t workers = 1; workers <= 3; workers += 2) test_windows(workers);
  for (uint32_t workers = 1; workers <= 4; ++workers) {
    test_order(workers);
    test_close_begins_nothing(workers);
    test_stress(workers, rounds_of(argc, argv, 60));
  }
  return 0;
}
