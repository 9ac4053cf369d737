// The main loop of a pool thread: runs tasks, joins open jobs, spins and parks.
#include "sched/placement.h"
#include "sched/task.h"

// Becomes a participant of the job of |slot|: increments the count in the low bits of its state. Returns false if the
// slot is closed or has no room.
static bool join(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
  while (state & PYD_SLOT_OPEN && pyd_slot_has_room(state)) {
    if (atomic_compare_exchange_weak_explicit(&slot->state, &state, state + 1, memory_order_acquire,
                                              memory_order_relaxed)) {
      if (!pyd_slot_has_room(state + 1)) pyd_sched_hide(sched, slot);  // the last one that may join
      return true;
    }
  }
  return false;
}

// Wakes up to two more threads for the job of |slot|. Each woken thread does that, as in a binary tree, so the caller
// pays for one wake only.
static void relay_wakes(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  for (int i = 0; i < 2; ++i) {
    uint32_t left = atomic_load_explicit(&slot->wakes_left, memory_order_relaxed);
    if (!left || !atomic_load_explicit(&sched->sleepers, memory_order_relaxed)) return;
    // If another thread wins the race, it wakes a thread in place of this one.
    if (!atomic_compare_exchange_strong_explicit(&slot->wakes_left, &left, left - 1, memory_order_relaxed,
                                                 memory_order_relaxed)) {
      continue;
    }
    if (!pyd_permit_is_free(sched->permits) || !pyd_sched_pool_wake(sched, pyd_sched_joiners(sched, slot), 1)) return;
  }
}

// Updates a break-even threshold of this thread, in picoseconds of work, from the one that a new measurement gives.
// Publishes it in |shared| only if the two differ enough, because other threads read |shared| often. |least_ns|:
// minimum of the threshold, in nanoseconds.
static void learn_threshold(uint64_t* threshold, _Atomic uint64_t* shared, uint64_t measured, uint64_t least_ns) {
  *threshold = pyd_delay_learned(*threshold, measured, UINT64_C(1000) * least_ns);
  if (pyd_delay_has_changed(atomic_load_explicit(shared, memory_order_relaxed), *threshold)) {
    atomic_store_explicit(shared, *threshold, memory_order_relaxed);
  }
}

// Returns whether this thread was idle when |slot| was opened, so that the time since then is the delay with which an
// idle thread joins a job. A thread that was busy joins later because of its own work.
static bool was_idle_at_opening(const pyd_sched_thread_t* self, const pyd_sched_slot_t* slot) {
  return self->has_idled && self->last_idle < slot->opened;
}

// Measures the delay with which this thread joined the job of |slot|, and updates a threshold: a multiple of the
// delay, at least PYD_SCHED_WORTH_*. A parked thread updates the threshold for waking threads, a spinning one that for
// sharing with spinning threads. Only worker 1 measures, so that the thresholds have a single writer.
static void measure_delay(pyd_sched_t* sched, pyd_sched_thread_t* self, const pyd_sched_slot_t* slot) {
  if (self->worker != 1 || !was_idle_at_opening(self, slot)) return;
  const uint64_t delay = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(slot->opened, pyd_cpu_ticks()));
  if (!delay) return;  // the clocks of the two CPUs differ
  if (self->has_slept) {
    learn_threshold(&self->worth_waking, &sched->worth_waking, delay * PYD_SCHED_DELAYS_WORTH_WAKING,
                    PYD_SCHED_WORTH_WAKING);
  } else {
    learn_threshold(&self->worth_spinning, &sched->worth_spinning, delay * PYD_SCHED_DELAYS_WORTH_SPINNING,
                    PYD_SCHED_WORTH_SPINNING);
  }
}

// Works in the job of |slot|, which this thread has joined, and leaves it.
static void work_in(pyd_sched_t* sched, pyd_sched_thread_t* self, pyd_sched_slot_t* slot) {
  relay_wakes(sched, slot);
  measure_delay(sched, self, slot);
  self->has_idled = false;
  pyd_placement_check(self, slot);
  pyd_cpu_set_fp_mode(slot->fp_mode);
  pyd_scope_t scope = pyd_sched_scope_of(sched, slot);
  scope.permit = PYD_SCOPE_PERMIT_HELD;
  pyd_scope_set(sched->scopes, &scope);
  pyd_sched_meter_t meter = {0};
  bool has_left = false;
  while (!has_left && pyd_sched_work(sched, slot, self->worker, &meter)) {
    has_left = pyd_sched_leave_early(sched, slot);
    if (!has_left) pyd_sched_yield(sched, slot, &meter);
  }
  pyd_scope_set(sched->scopes, NULL);
  if (has_left) return;
  if (slot->task) {
    pyd_task_leave(sched, slot, self->worker, &meter);
  } else {
    pyd_sched_leave(slot);
  }
}

// Joins one of the jobs in the bit set |open| and works in it. The thread holds a permit. Returns false if no job could
// be joined.
static bool help(pyd_sched_t* sched, pyd_sched_thread_t* self, uint32_t open) {
  const uint32_t worker = self->worker;
  for (uint32_t i = 0; i < PYD_SCHED_SLOTS; ++i) {
    uint32_t index = (worker + i) % PYD_SCHED_SLOTS;  // different threads begin with different jobs
    if (!(open >> index & 1)) continue;
    pyd_sched_slot_t* slot = &sched->slots[index];
    if (!join(sched, slot)) continue;
    if (!worker && !slot->task) {  // the slot was reused for a job of a caller, which already has number 0
      pyd_sched_leave(slot);
      continue;
    }
    work_in(sched, self, slot);
    return true;
  }
  return false;
}

// Acquires a permit and then runs the next task. The task is chosen after the wait for the permit, as one of higher
// priority may be submitted meanwhile. Returns false when the queue is empty.
static bool run_task(pyd_sched_t* sched, pyd_sched_thread_t* self) {
  if (!atomic_load_explicit(&sched->queued, memory_order_relaxed)) return false;
  pyd_sched_permit_take(sched, pyd_task_next_priority(sched), /* is_for_tasks */ true, /* interrupt */ NULL);
  pyd_task_t* task = pyd_task_take(sched);
  if (task) {
    if (atomic_load_explicit(&sched->queued, memory_order_relaxed)) pyd_sched_wake_for_tasks(sched);
    self->has_idled = false;
    pyd_task_start(task, self->worker);
  }
  pyd_permit_release(sched->permits);
  return task != NULL;
}

// Returns the slots of open jobs that |worker| may join now, one bit each; 0 without a free permit. Worker 0 joins jobs
// of tasks only, because in other jobs the caller has that number.
static uint32_t joinable_jobs(const pyd_sched_t* sched, uint32_t worker, memory_order order) {
  uint32_t open = atomic_load_explicit(&sched->open, order);
  if (!open || !pyd_permit_is_free(sched->permits)) return 0;
  return worker ? open : open & ~atomic_load_explicit(&sched->callers, order);
}

// Returns whether |worker| must not park: there is a job or a task for it, or the scheduler is closing.
static bool has_work(const pyd_sched_t* sched, uint32_t worker, memory_order order) {
  return joinable_jobs(sched, worker, order) || atomic_load_explicit(&sched->queued, order) ||
         atomic_load_explicit(&sched->closing, order);
}

// Spins until there may be work, and returns true. Returns false after self->spin nanoseconds, or with |*out_preempted|
// when the system gave the CPU to another thread meanwhile: spinning on would take the CPU from that thread.
static bool spin_for_work(const pyd_sched_t* sched, pyd_sched_thread_t* self, bool* out_preempted) {
  const uint64_t limit = self->spin * 1000, preemption_gap = UINT64_C(1000) * PYD_SCHED_PREEMPTED;  // picoseconds
  uint64_t start = pyd_cpu_ticks(), previous = start;
  for (;;) {
    for (int i = 0; i < PYD_SCHED_PAUSES_PER_TICK; ++i) {
      if (has_work(sched, self->worker, memory_order_relaxed)) return true;
      pyd_cpu_relax();
    }
    uint64_t now = pyd_cpu_ticks();
    if (pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, now)) >= limit) return false;
    if (pyd_sched_picoseconds(sched, pyd_cpu_elapsed(previous, now)) >= preemption_gap) {
      *out_preempted = true;
      return false;
    }
    previous = now;
    pyd_placement_record(self);
  }
}

// Returns whether the donation of this thread should end.
static bool is_donation_over(const pyd_sched_thread_t* self) {
  return self->until && self->until->is_wanted(self->until->self);
}

// Sleeps until another thread wakes this one or, for a donated thread, until the donation ends.
static void park(pyd_sched_t* sched, pyd_sched_thread_t* self) {
  atomic_fetch_add_explicit(&sched->sleepers, 1, memory_order_seq_cst);
  pyd_event_reset(&self->wake);  // from here on, a thread can claim the event, and then has to wake this one
  // Checked after announcing the sleeper, so that a publisher sees the sleeper or this thread sees the work. If the
  // claim fails, another thread is waking this one, and the wait below returns at once.
  if (has_work(sched, self->worker, memory_order_seq_cst) && pyd_event_claim(&self->wake)) {
    atomic_fetch_sub_explicit(&sched->sleepers, 1, memory_order_relaxed);
    return;
  }
  if (atomic_load_explicit(&sched->open, memory_order_relaxed)) {
    // This thread may only lack a permit for the open job: participants of the job wake it when one becomes free.
    atomic_store_explicit(&sched->lacks_permits, 1, memory_order_relaxed);
  }
  while (self->until && !pyd_event_wait_for(&self->wake, PYD_SCHED_ASK_ASLEEP)) {  // a donated thread
    if (!is_donation_over(self) || !pyd_event_claim(&self->wake)) continue;
    atomic_fetch_sub_explicit(&sched->sleepers, 1, memory_order_relaxed);
    return;
  }
  pyd_event_wait(&self->wake);
}

// Spins, then sleeps, until there may be work. Adapts how long the thread spins next time.
static void idle(pyd_sched_t* sched, pyd_sched_thread_t* self) {
  const uint64_t start = self->last_idle = pyd_cpu_ticks();
  bool preempted = false;
  atomic_store_explicit(&self->idle_since, start, memory_order_relaxed);
  self->has_idled = true;
  self->has_slept = false;
  if (self->spin) {
    atomic_fetch_add_explicit(&sched->spinners, 1, memory_order_relaxed);
    const bool found = spin_for_work(sched, self, &preempted);
    atomic_fetch_sub_explicit(&sched->spinners, 1, memory_order_seq_cst);
    if (found) return;
  }
  self->has_slept = true;
  pyd_placement_sleep(self);
  park(sched, self);
  pyd_placement_awake(self);
  if (sched->spin_us >= 0 || sched->oversubscribed || !self->worker) return;  // the spin time is fixed
  // If the longest spin would have lasted until this job, spin that long next time; otherwise half as long as this
  // time.
  uint64_t gap = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks()));
  if (!preempted && gap <= UINT64_C(1000) * PYD_SCHED_SPIN_MAX) {
    self->spin = PYD_SCHED_SPIN_MAX;
  } else {
    self->spin = self->spin / 2 > PYD_SCHED_SPIN_MIN ? self->spin / 2 : PYD_SCHED_SPIN_MIN;
  }
}

// Runs the loop of a pool thread: tasks, then open jobs, then idle, until the scheduler closes or the donation ends.
void pyd_sched_pool_main(void* argument) {
  pyd_sched_thread_t* self = argument;
  pyd_sched_t* sched = self->sched;
  const pyd_sched_threads_t* options = &sched->options;
  pyd_placement_enter(self);
  if (options->on_start) options->on_start(options->context, self->worker);
  while (!atomic_load_explicit(&sched->closing, memory_order_acquire) && !is_donation_over(self)) {
    if (run_task(sched, self)) continue;
    uint32_t open = joinable_jobs(sched, self->worker, memory_order_relaxed);
    if (open == 0) {
      idle(sched, self);
      pyd_sched_trace_idle(self);
    } else if (pyd_permit_try(sched->permits)) {
      bool has_helped = help(sched, self, open);
      pyd_permit_release(sched->permits);
      if (!has_helped)
        pyd_cpu_relax();  // the job was full or closed, and its bit in sched->open is about to be cleared
    }
  }
  pyd_placement_leave(self);
  pyd_sched_trace_exit(self);
  if (options->on_stop) options->on_stop(options->context, self->worker);
}
