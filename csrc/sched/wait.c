// Waiting for a submitted task.
#include "sched/task.h"

// Spins for at most PYD_SCHED_WAIT_SPIN nanoseconds. Returns whether the task is done.
static bool spin_until_done(const pyd_task_t* task) {
  const pyd_sched_t* sched = task->sched;
  // Picoseconds. No spinning where it would take the CPU of the thread that runs the task.
  const uint64_t limit = sched->oversubscribed || sched->workers == 1 ? 0 : UINT64_C(1000) * PYD_SCHED_WAIT_SPIN;
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
    if (pyd_event_wait_for(&waiter->event, left < PYD_SCHED_ASK_ASLEEP ? (uint32_t)left : PYD_SCHED_ASK_ASLEEP)) {
      return PYD_WAIT_DONE;
    }
    if (interrupt && interrupt->is_wanted(interrupt->self)) return PYD_WAIT_INTERRUPTED;
  }
}

// Removes |waiter| from the list of threads that wait for |task|. The caller holds the mutex.
static void unlink_waiter(pyd_task_t* task, pyd_task_waiter_t* waiter) {
  *(waiter->previous ? &waiter->previous->next : &task->waiters) = waiter->next;
  if (waiter->next) waiter->next->previous = waiter->previous;
}

// Registers a waiter on this stack and sleeps until |task| is done, the time is over, or |interrupt| is wanted. An
// interrupt is reported even if the task is done by then.
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
    if (pyd_task_state(task) == PYD_TASK_DONE) {
      outcome = outcome == PYD_WAIT_INTERRUPTED ? outcome : PYD_WAIT_DONE;
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
  // A queued task is run here, without a switch of threads. With a time limit it is not: running cannot be given up.
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
