// Waiting for a submitted task.
#include "sched/task.h"

// Spins for at most PYD_SCHED_WAIT_SPIN nanoseconds. Returns whether the task is done.
static bool spin_until_done(const pyd_task_t* task) {
  const pyd_sched_t* sched = task->sched;
  // With more workers than CPUs, or a single worker, spinning could take the CPU of the thread that runs the task.
  const bool may_spin = !sched->oversubscribed && sched->workers > 1;
  const uint64_t limit = may_spin ? UINT64_C(1000) * PYD_SCHED_WAIT_SPIN : 0;  // picoseconds
  uint64_t start = pyd_cpu_ticks();
  while (pyd_task_state(task) != PYD_TASK_DONE) {
    if (pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks())) >= limit) return false;
    pyd_cpu_relax();
  }
  return true;
}

// Sleeps until |waiter| is notified, at most |nanoseconds|. Wakes every PYD_SCHED_ASK_ASLEEP nanoseconds to poll
// |interrupt| (may be NULL).
static pyd_wait_t park_until_done(pyd_task_waiter_t* waiter, uint64_t nanoseconds, const pyd_interrupt_t* interrupt) {
  const uint64_t start = pyd_cpu_nanoseconds();
  for (;;) {
    uint64_t passed = pyd_cpu_elapsed(start, pyd_cpu_nanoseconds());
    if (passed >= nanoseconds) return PYD_WAIT_TIMEOUT;
    uint64_t left = nanoseconds - passed;
    uint32_t pause = left < PYD_SCHED_ASK_ASLEEP ? (uint32_t)left : PYD_SCHED_ASK_ASLEEP;  // nanoseconds
    const bool is_done = pyd_event_wait_for(&waiter->event, pause);
    if (is_done) return PYD_WAIT_DONE;
    if (interrupt && interrupt->is_wanted(interrupt->self)) return PYD_WAIT_INTERRUPTED;
  }
}

// Removes |waiter| from the list of threads that wait for |task|. The caller holds the mutex.
static void unlink_waiter(pyd_task_t* task, pyd_task_waiter_t* waiter) {
  if (waiter->previous) {
    waiter->previous->next = waiter->next;
  } else {
    task->waiters = waiter->next;
  }
  if (waiter->next) waiter->next->previous = waiter->previous;
}

// Sleeps until |task| is done, |nanoseconds| have passed, or |interrupt| is wanted. An interrupt is reported even if
// the task is done by then. Registers a waiter on the stack of this thread, which the end of the task notifies.
static pyd_wait_t sleep_until_ended(pyd_task_t* task, uint64_t nanoseconds, const pyd_interrupt_t* interrupt) {
  pyd_sched_t* sched = task->sched;
  pyd_task_waiter_t waiter = {.previous = NULL};
  pyd_event_init(&waiter.event);
  pyd_wait_t outcome = PYD_WAIT_DONE;
  pyd_task_lock(sched);
  if (pyd_task_state(task) != PYD_TASK_DONE) {
    waiter.next = task->waiters;
    if (waiter.next) waiter.next->previous = &waiter;
    task->waiters = &waiter;
    pyd_task_unlock(sched);
    outcome = park_until_done(&waiter, nanoseconds, interrupt);
    pyd_task_lock(sched);
    if (pyd_task_state(task) == PYD_TASK_DONE) {  // its end has removed the waiter
      if (outcome == PYD_WAIT_TIMEOUT) outcome = PYD_WAIT_DONE;
    } else {
      unlink_waiter(task, &waiter);
    }
  }
  pyd_task_unlock(sched);
  pyd_event_deinit(&waiter.event);
  return outcome;
}

// Waits until the task has ended, for |nanoseconds| at most; runs it on this thread if no other has begun it.
pyd_wait_t pyd_task_wait(pyd_task_t* task, uint64_t nanoseconds, const pyd_interrupt_t* interrupt) {
  if (pyd_task_is_done(task)) return PYD_WAIT_DONE;
  if (nanoseconds == 0) return PYD_WAIT_TIMEOUT;
  // A queued task is run on this thread, without a switch of threads; but not with a time limit, which would not end
  // the run.
  if (nanoseconds == PYD_WAIT_FOREVER && pyd_task_claim(task)) {
    pyd_task_run_here(task, interrupt);
    return PYD_WAIT_DONE;
  }
  pyd_sched_t* sched = task->sched;
  const uint64_t begin = pyd_sched_trace_begin(sched);
  pyd_wait_t outcome = PYD_WAIT_DONE;
  if (!spin_until_done(task)) {
    pyd_blocking_t blocking;  // the task may need the permit of this thread
    pyd_sched_block_begin(sched, &blocking);
    outcome = sleep_until_ended(task, nanoseconds, interrupt);
    pyd_sched_block_end(&blocking);
  }
  pyd_sched_trace_end(sched, PYD_TRACE_WAIT, begin, 0);
  return outcome;
}
