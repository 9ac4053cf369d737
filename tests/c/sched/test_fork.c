// Fork while the pool is idle and while other threads run jobs: parent and child both go on.
//
// links: base platform sched
// tsan: 20
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "after_fork.h"
#include "check.h"
#include "sched/task.h"

static _Atomic int stop;

static int32_t add_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  _Atomic uint64_t* sum = self;
  for (uint64_t i = begin; i < end; ++i) atomic_fetch_add_explicit(sum, i, memory_order_relaxed);
  return 0;
}

static void check_works(pyd_sched_t* sched) {
  for (int i = 0; i < 20; ++i) {
    _Atomic uint64_t sum = 0;
    pyd_sched_failure_t failure = run_job(sched, add_body, &sum, 200, SURELY_SHARED);
    CHECK(failure.code == 0 && sum == 19900, "sum %d", (int)sum);
  }
}

// Ends only when two threads work, so the child's pool is really there.
static int32_t meet_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  atomic_fetch_add((_Atomic int*)self, 1);
  while (atomic_load((_Atomic int*)self) < 2) sched_yield();
  return 0;
}

static void* keep_busy(void* sched) {
  while (!atomic_load(&stop)) check_works(sched);
  return NULL;
}

static void fork_once(pyd_sched_t* sched, int how) {
  pyd_sched_fork_prepare(sched);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    alarm(300);
    pyd_sched_fork_child(sched);
    if (!CHILD_MAY_ALLOCATE) _exit(0);
    if (how == 0) check_works(sched);
    if (how == 1) {
      _Atomic int here = 0;
      run_job(sched, meet_body, &here, 2, SURELY_SHARED);
      CHECK(here == 2, "%d", here);
    }
    pyd_sched_destroy(sched);  // how == 2: never started again
    _exit(0);
  }
  pyd_sched_fork_parent(sched);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
  check_works(sched);
}

// The child sees a thread of the parent in the middle of a theft, for ever.
static void test_fork_during_theft(void) {
  pyd_sched_t* sched = make_sched(3, -1);
  pyd_sched_fork_prepare(sched);
  for (uint32_t i = 0; i < PYD_SCHED_SLOTS; ++i) atomic_store(&sched->slots[i].cells[1].thefts, 1);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    alarm(300);
    pyd_sched_fork_child(sched);
    if (CHILD_MAY_ALLOCATE) check_works(sched);
    _exit(0);
  }
  pyd_sched_fork_parent(sched);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x",
        status);
  for (uint32_t i = 0; i < PYD_SCHED_SLOTS; ++i) atomic_store(&sched->slots[i].cells[1].thefts, 0);
  pyd_sched_destroy(sched);
}

// The child sees a task whose payload another thread of the parent is ending: it is done there, and not ended once
// more.
static _Atomic int ended, dropped, may_end;
static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)self, (void)task, (void)worker, (void)out_status;
  return true;
}
static void drop_payload(void* self) {
  (void)self;
  ++dropped;
}
static void end_payload_late(void* self) {
  (void)self;
  ++ended;
  while (!may_end) usleep(100);
}

static void test_fork_during_end(void) {
  static const pyd_task_kind_t kKind = {.advance = advance, .drop = drop_payload, .end = end_payload_late};
  pyd_sched_t* sched = make_sched(2, -1);
  pyd_task_t* task = NULL;
  CHECK(pyd_ok(pyd_task_create(sched, &kKind, 16, &task)) && pyd_ok(pyd_task_submit(task, NULL)), "task");
  while (!ended) usleep(100);
  pyd_sched_fork_prepare(sched);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    alarm(300);
    pyd_sched_fork_child(sched);
    if (!CHILD_MAY_ALLOCATE) _exit(0);
    CHECK(pyd_task_is_done(task) && pyd_status_code(pyd_task_status(task)) == PYD_CODE_INTERRUPTED, "lost");
    CHECK(ended == 1 && dropped == 0, "ended %d times, dropped %d times while there is a reference", ended, dropped);
    _exit(0);
  }
  pyd_sched_fork_parent(sched);
  may_end = 1;
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x",
        status);
  while (!pyd_task_is_done(task)) usleep(100);
  pyd_task_release(task);
  pyd_sched_destroy(sched);
  CHECK(ended == 1 && dropped == 1, "ended %d times, dropped %d times", ended, dropped);
}

// Permits that schedulers share have fork handlers of their own. A task that the parent had not submitted is not lost.
static void test_fork_with_shared_permits(void) {
  static const pyd_task_kind_t kKind = {.advance = advance};
  pyd_permits_t* permits = pyd_permits_create();
  pyd_sched_t* sched = NULL;
  pyd_task_t* task = NULL;
  const pyd_sched_options_t options = {.workers = 2, .spin_us = -1, .permits = permits};
  CHECK(permits && pyd_ok(pyd_sched_create(&options, &sched)), "scheduler");
  CHECK(pyd_ok(pyd_task_create(sched, &kKind, 16, &task)), "task");
  pyd_sched_fork_prepare(sched);
  pyd_permits_fork_prepare(permits);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    alarm(300);
    atomic_store(&permits->free_count, -7);
    pyd_sched_fork_child(sched);
    CHECK(permits->free_count == -7, "the scheduler has freed permits that are not its own");
    pyd_permits_fork_child(permits);
    CHECK(permits->free_count == permits->total, "%d permits are free", (int)permits->free_count);
    CHECK(!pyd_task_is_done(task), "a task that was not submitted is done");
    if (CHILD_MAY_ALLOCATE) check_works(sched);
    _exit(0);
  }
  pyd_permits_fork_parent(permits);
  pyd_sched_fork_parent(sched);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x",
        status);
  check_works(sched);
  pyd_task_release(task);
  pyd_sched_destroy(sched);
  pyd_permits_destroy(permits);
}

// A task that was skipped before the fork, and waits for another one, is lost in the child as that is.
static pyd_status_t fail_at_once(void* self, const pyd_interrupt_t* interrupt) {
  (void)self, (void)interrupt;
  return pyd_status_make(PYD_CODE_KERNEL, "it fails");
}
static void test_fork_with_skipped_task(void) {
  static const pyd_task_kind_t kFails = {.run = fail_at_once};
  const pyd_sched_options_t options = {.workers = 1, .threads = {.are_lent = true}};  // only waiters run tasks
  pyd_sched_t* sched = NULL;
  pyd_task_t* tasks[3];
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "scheduler");
  for (int i = 0; i < 3; ++i) {
    const pyd_submit_options_t after = {.priority = PYD_PRIORITY_NORMAL, .after = tasks, .after_count = i == 2 ? 2 : 0};
    CHECK(pyd_ok(pyd_task_create(sched, &kFails, 0, &tasks[i])), "task");
    CHECK(pyd_ok(pyd_task_submit(tasks[i], &after)), "submit");
    if (i == 0) CHECK(pyd_task_wait(tasks[0], PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
  }
  pyd_sched_fork_prepare(sched);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    alarm(300);
    pyd_sched_fork_child(sched);
    for (int i = 0; i < 3; ++i) {
      const pyd_code_t code = i == 0 ? PYD_CODE_KERNEL : PYD_CODE_INTERRUPTED;
      CHECK(pyd_task_is_done(tasks[i]) && pyd_status_code(pyd_task_status(tasks[i])) == code, "task %d", i);
    }
    for (int i = 0; i < 3; ++i) pyd_task_release(tasks[i]);
    exit(0);  // not _exit: the address sanitizer looks for leaks
  }
  pyd_sched_fork_parent(sched);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x",
        status);
  for (int i = 1; i < 3; ++i) {
    CHECK(pyd_task_wait(tasks[i], PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE, "wait");
    CHECK(pyd_status_code(pyd_task_status(tasks[i])) == PYD_CODE_KERNEL, "task %d", i);
  }
  for (int i = 0; i < 3; ++i) pyd_task_release(tasks[i]);
  pyd_sched_destroy(sched);
}

int main(int argc, char** argv) {
  int rounds = rounds_of(argc, argv, 5);
  test_fork_with_skipped_task();  // before any other thread exists, so that the child may allocate
  pyd_sched_t* sched = make_sched(3, -1);
  for (int i = 0; i < 3 * rounds; ++i) {
    if (i % 2) usleep(1000);  // parked, and still spinning
    fork_once(sched, i % 3);
  }
  pthread_t busy[2];
  for (int i = 0; i < 2; ++i) pthread_create(&busy[i], NULL, keep_busy, sched);
  for (int i = 0; i < 3 * rounds; ++i) fork_once(sched, i % 3);
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; ++i) pthread_join(busy[i], NULL);
  pyd_sched_destroy(sched);
  test_fork_during_theft();
  test_fork_during_end();
  test_fork_with_shared_permits();
  puts("fork: ok");
  return 0;
}
