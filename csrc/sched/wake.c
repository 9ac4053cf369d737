// Wakes threads: parked pool threads for a job or a task, and the caller of a job that has ended.
#include "sched/placement.h"
#include "sched/task.h"

// Wakes up to |count| of the threads with index less than |among| that are parked, and returns how many.
uint32_t pyd_sched_pool_wake(pyd_sched_t* sched, uint32_t among, uint32_t count) {
  const uint64_t begin = pyd_sched_trace_begin(sched);
  uint32_t woken = 0;
  // Lowest first: the same few threads serve a light load and stay warm, the others sleep on.
  for (uint32_t i = 0; i < among && woken < count; ++i) {
    pyd_event_t* event = &sched->threads[i].wake;
    if (pyd_event_is_set(event)) continue;  // not parked
    pyd_placement_before_wake(&sched->threads[i]);
    if (!pyd_event_claim(event)) continue;  // another thread wakes it, or it has found work itself
    atomic_fetch_sub_explicit(&sched->sleepers, 1, memory_order_relaxed);
    pyd_event_notify(event);
    ++woken;
  }
  if (woken) pyd_sched_trace_end(sched, PYD_TRACE_WAKE, begin, woken);
  return woken;
}

// Wakes threads for new tasks. A thread that is counted as spinning needs no wake-up: it sees a task before it parks.
void pyd_sched_wake_for_tasks(pyd_sched_t* sched) {
  // A pool thread that waits for a permit to run an earlier task now waits with the priority of the most urgent task.
  if (pyd_permit_is_wanted(sched->permits)) pyd_permit_raise(sched->permits, sched, pyd_task_next_priority(sched));
  if (atomic_load_explicit(&sched->spinners, memory_order_seq_cst)) return;
  if (atomic_load_explicit(&sched->sleepers, memory_order_seq_cst)) pyd_sched_pool_wake(sched, sched->workers, 1);
}

// Leaves the job of a slot. The last participant wakes the caller if it sleeps. After the decrement the slot may belong
// to another job; its event lives as long as the scheduler.
void pyd_sched_leave(pyd_sched_slot_t* slot) {
  uint32_t before = atomic_fetch_sub_explicit(&slot->state, 1, memory_order_acq_rel);
  if ((before & PYD_SLOT_WAITING) && (before & PYD_SLOT_COUNT) == 1 && pyd_event_claim(&slot->done)) {
    pyd_event_notify(&slot->done);
  }
}
