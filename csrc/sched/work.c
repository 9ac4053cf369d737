// Participation in an open job: claiming and stealing chunks of indices, failures, and handing over permits.
#include "platform/back_off.h"
#include "sched/placement.h"
#include "sched/task.h"

static bool has_failed(const pyd_sched_slot_t* slot) {
  return atomic_load_explicit(&slot->failure, memory_order_relaxed) != PYD_SCHED_NO_FAILURE;
}

// Records that |index| failed with |code|, unless a lower index has failed already. The index counts from |slot->base|.
static void record_failure(pyd_sched_slot_t* slot, uint32_t index, int32_t code) {
  // The index is in the upper half, so that words compare as their indices do. PYD_SCHED_NO_FAILURE is above all words.
  uint64_t failure = (uint64_t)index << 32 | (uint32_t)code;
  uint64_t lowest = atomic_load_explicit(&slot->failure, memory_order_relaxed);
  while (failure < lowest && !atomic_compare_exchange_weak_explicit(&slot->failure, &lowest, failure,
                                                                    memory_order_relaxed, memory_order_relaxed)) {
  }
}

// Marks the job as interrupted, unless it has failed.
void pyd_sched_interrupt(pyd_sched_slot_t* slot) {
  uint64_t none = PYD_SCHED_NO_FAILURE;
  atomic_compare_exchange_strong_explicit(&slot->failure, &none, PYD_SCHED_INTERRUPTED, memory_order_relaxed,
                                          memory_order_relaxed);
}

// Returns how many of the |left| indices of a thread's range to claim as the next chunk. |cost|: picoseconds per index,
// at least 1. |previous|: size of the last chunk. A chunk is at most twice as large as the last one, because after some
// inexpensive indices the next may be expensive.
static uint32_t chunk_size(uint64_t cost, uint32_t left, uint32_t previous) {
  uint64_t share = left / PYD_SCHED_CHUNK_DIVISOR;  // leaves most indices to thieves
  uint64_t minimum = UINT64_C(1000) * PYD_SCHED_CHUNK_MIN_TIME / cost;
  uint64_t maximum = UINT64_C(1000) * PYD_SCHED_CHUNK_TIME / cost;
  uint64_t size = share > minimum ? share : minimum;
  if (size > maximum) size = maximum;
  if (size > 2 * (uint64_t)previous) size = 2 * (uint64_t)previous;
  if (size > left) size = left;
  return size ? (uint32_t)size : 1;  // one index may cost more than the longest chunk should
}

// Moves half of the unclaimed indices of another participant, whose cell is |victim|, to |own_cell|, the cell of this
// thread. The theft count of |own_cell| is odd while the stolen range is in no cell. Returns false if |victim| is
// empty.
static bool steal_from(pyd_sched_cell_t* victim, pyd_sched_cell_t* own_cell) {
  const uint32_t thefts = atomic_load_explicit(&own_cell->thefts, memory_order_relaxed);
  atomic_store_explicit(&own_cell->thefts, thefts + 1, memory_order_relaxed);
  pyd_range_t stolen;
  const bool has_stolen = pyd_range_steal(&victim->range, &stolen);
  if (has_stolen) pyd_range_store(&own_cell->range, stolen);
  atomic_store_explicit(&own_cell->thefts, thefts + 2, memory_order_release);
  return has_stolen;
}

// Steals half of the unclaimed indices of another participant. Returns false when all indices are claimed or the job
// has failed.
//
// Empty cells alone do not prove that all indices are claimed: while a thief moves a range from one cell to another,
// the range is in no cell, and the thief may lose its CPU then. Each participant counts its thefts: by 1 before a
// theft, and by 1 after it. If two passes find all cells empty, all counts even and their sum unchanged, no theft was
// in progress between the passes, and all indices are claimed.
static bool steal(const pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker) {
  // With pinned workers, |near| lists the other workers, nearest first. Else they are visited in a circle from the next
  // number on.
  const uint16_t* near = sched->near ? sched->near + (size_t)worker * (sched->workers - 1) : NULL;
  pyd_sched_cell_t* own_cell = &slot->cells[worker];
  // If a thief has emptied this thread's own cell, the passes below see that the thief has counted the theft as begun.
  (void)atomic_load_explicit(&own_cell->range, memory_order_acquire);
  uint32_t previous_sum = 0;
  bool had_no_theft = false;
  for (uint32_t pass = 1;; ++pass) {
    uint32_t next = worker, theft_sum = 0, in_progress = 0;
    for (uint32_t i = 1; i < sched->workers; ++i) {
      if (++next == sched->workers) next = 0;
      pyd_sched_cell_t* victim = &slot->cells[near ? near[i - 1] : next];
      const uint32_t seen = atomic_load_explicit(&victim->thefts, memory_order_acquire);
      theft_sum += seen;
      in_progress |= seen & 1;
      if (pyd_range_is_empty(&victim->range)) continue;
      if (steal_from(victim, own_cell)) return true;
    }
    const bool are_all_claimed = had_no_theft && theft_sum == previous_sum;
    if (are_all_claimed || has_failed(slot)) return false;
    had_no_theft = !in_progress;
    previous_sum = theft_sum;
    pyd_back_off(pass, PYD_SCHED_STEAL_PASSES);  // later passes yield the CPU to a thief that holds a range
  }
}

// Leaves a job that may still have unclaimed indices, after pyd_sched_work() has returned true. Other participants may
// steal the indices; the caller of the job, or the last participant in the job of a task, runs the rest. Returns false
// if this thread must stay: it is that last participant, and no caller would run the indices that it leaves.
bool pyd_sched_leave_early(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  atomic_store_explicit(&slot->has_left_early, 1, memory_order_relaxed);  // leaving has release order
  // Leaving makes room for another participant: sets the slot's bit, which was cleared when the slot was full.
  if (slot->max_participants > 1) {
    atomic_fetch_or_explicit(&sched->open, 1u << (slot - sched->slots), memory_order_relaxed);
  }
  if (!slot->task) {
    pyd_sched_leave(slot);
    return true;
  }
  uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
  do {
    const bool is_last = (state & PYD_SLOT_COUNT) == 1;
    if (is_last) return false;
  } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, state - 1, memory_order_acq_rel,
                                                  memory_order_relaxed));
  return true;
}

// Returns, after all participants have left, whether indices are left that no participant has run.
bool pyd_sched_has_leftovers(const pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  if (!atomic_load_explicit(&slot->has_left_early, memory_order_relaxed) || has_failed(slot)) return false;
  for (uint32_t i = 0; i < sched->workers; ++i) {
    if (pyd_range_size(pyd_range_load(&slot->cells[i].range))) return true;
  }
  return false;
}

// Returns whether a pool thread spins or sleeps.
static bool has_idle_thread(const pyd_sched_t* sched) {
  return atomic_load_explicit(&sched->spinners, memory_order_relaxed) ||
         atomic_load_explicit(&sched->sleepers, memory_order_relaxed);
}

// Returns whether other threads need the permit of a pool thread, or a submitted task waits for a busy thread.
static bool has_waiting_work(const pyd_sched_t* sched) {
  if (pyd_permit_is_scarce(sched->permits)) return true;
  return atomic_load_explicit(&sched->queued, memory_order_relaxed) && !has_idle_thread(sched);
}

// Lets another thread that waits for a compute permit have one, at most once per time slice. In the job of a task, this
// thread hands over its own permit and waits for another one; if the interrupt of the job ends the wait, the job is
// marked as interrupted, and the thread releases a permit later as usual. In the job of a caller, the thread keeps its
// permit, and one more thread is admitted, unless its priority is low. |meter|: of this thread in the job.
void pyd_sched_yield(pyd_sched_t* sched, pyd_sched_slot_t* slot, pyd_sched_meter_t* meter) {
  if (!pyd_permit_is_wanted(sched->permits)) return;
  if (meter->picoseconds - meter->yielded_at < UINT64_C(1000) * PYD_SCHED_PERMIT_SLICE_NS) return;
  meter->yielded_at = meter->picoseconds;
  const bool has_caller = !slot->task;
  if (has_caller) {
    pyd_permit_admit(sched->permits);
    return;
  }
  const uint64_t start = pyd_cpu_ticks();
  pyd_permit_release(sched->permits);
  const bool is_uninterrupted =
      pyd_sched_permit_take(sched, slot->task->priority, /* is_for_tasks */ false, slot->job->interrupt);
  if (!is_uninterrupted) pyd_sched_interrupt(slot);
  meter->waited += pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks()));
}

// Wakes a sleeping thread for the job of |slot| if a compute permit is free and |left|, the picoseconds of work that
// this thread has left, are worth a wake-up. Called while |sched->lacks_permits| is set: a thread may sleep only
// because no permit was free. Clears |lacks_permits| if no thread sleeps.
static void wake_for_free_permit(pyd_sched_t* sched, const pyd_sched_slot_t* slot, uint64_t left) {
  if (!pyd_permit_is_free(sched->permits) || atomic_load_explicit(&sched->spinners, memory_order_relaxed)) return;
  if (!pyd_slot_has_room(atomic_load_explicit(&slot->state, memory_order_relaxed))) return;
  if (!atomic_load_explicit(&sched->sleepers, memory_order_relaxed)) {
    atomic_store_explicit(&sched->lacks_permits, 0, memory_order_relaxed);  // no thread is left to wake
  } else if (left >= atomic_load_explicit(&sched->wake_threshold, memory_order_relaxed)) {
    pyd_sched_pool_wake(sched, pyd_sched_joiners(sched, slot), /* count */ 1);
  }
}

// Publishes the CPU of this thread if it is the caller of the job of |slot|; moves a pool thread away from a CPU that
// it shares. |worker|: the number of this thread in the job.
static void check_placement(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker) {
  const bool is_caller = worker == 0 && !slot->task;
  if (is_caller) {
    pyd_placement_record_caller(sched, slot);
  } else {
    const uint32_t entry = worker ? worker - 1 : sched->workers - 1;  // the last entry of the pool is worker 0
    pyd_placement_check(&sched->threads[entry], slot);
  }
}

// Returns whether |nanoseconds| have passed between the times |since| and |now|, in CPU ticks.
static bool has_passed(const pyd_sched_t* sched, uint64_t since, uint64_t now, uint64_t nanoseconds) {
  return pyd_sched_picoseconds(sched, pyd_cpu_elapsed(since, now)) >= UINT64_C(1000) * nanoseconds;
}

// Runs the first |chunk| indices of |range|, which this thread has claimed. Indices of ranges count from |slot->base|,
// an index of the job. Returns false, and records the failure, if an index failed.
static bool run_claimed(pyd_sched_slot_t* slot, uint32_t worker, pyd_range_t range, uint32_t chunk) {
  const pyd_sched_job_t* job = slot->job;
  uint64_t begin = slot->base + range.begin, failed = begin;
  int32_t code = job->body(job->self, worker, begin, begin + chunk, &failed);
  if (!code) return true;
  uint64_t offset = failed - begin;
  const bool is_in_chunk = offset < chunk;  // the body is not trusted to store an index of its chunk
  record_failure(slot, range.begin + (is_in_chunk ? (uint32_t)offset : 0), code);
  return false;
}

// Runs chunks of an open job on this thread, which has the number |worker| in it, until none can be claimed or stolen,
// or the job has failed or is interrupted. Adds the number of indices and their time to |meter|. Returns true earlier
// if other work waits for this thread or its permit: then it should leave with pyd_sched_leave_early(). Never returns
// true to the caller of the job, which only hands its permit over for a while.
bool pyd_sched_work(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter) {
  const pyd_sched_job_t* job = slot->job;
  const bool may_leave = slot->task || worker;  // not the caller of the job, which waits for its end anyway
  // A caller's interrupt may only be polled on the caller's thread, a task's interrupt by any participant.
  const bool polls = job->interrupt && (worker == 0 || slot->task);
  pyd_range_cell_t* cell = &slot->cells[worker].range;
  uint64_t cost = slot->cost;  // picoseconds per index, of the last chunk or, at first, an estimate
  uint32_t chunk = chunk_size(cost, /* left */ UINT32_MAX, /* previous */ UINT32_MAX);  // bounds the first chunk
  uint64_t chunk_start = pyd_cpu_ticks(), last_poll = chunk_start, last_placement = chunk_start;
  while (!has_failed(slot)) {
    // Claim a chunk of this thread's own range, or steal a range.
    pyd_range_t range = pyd_range_load(cell);
    if (range.begin == range.end) {
      if (!steal(sched, slot, worker)) break;
      chunk_start = pyd_cpu_ticks();  // the time of the search is not work
      continue;
    }
    chunk = chunk_size(cost, pyd_range_size(range), chunk);
    if (!pyd_range_take(cell, range, chunk)) continue;  // a thief has taken the upper half: read the range again

    // Run and measure it.
    if (!run_claimed(slot, worker, range, chunk)) break;
    uint64_t chunk_end = pyd_cpu_ticks();
    uint64_t spent = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(chunk_start, chunk_end));
    chunk_start = chunk_end;
    meter->indices += chunk;
    meter->picoseconds += spent;
    cost = spent / chunk + 1;  // never 0, as chunk_size() divides by it

    // Between chunks: poll the interrupt, check the CPU, wake a thread, and make room for other work.
    if (polls && has_passed(sched, last_poll, chunk_end, PYD_SCHED_ASK_TIME)) {
      last_poll = chunk_end;
      if (pyd_sched_is_interrupted(job)) pyd_sched_interrupt(slot);
    }
    if (has_passed(sched, last_placement, chunk_end, PYD_SCHED_PLACEMENT_CHECK_NS)) {
      last_placement = chunk_end;
      check_placement(sched, slot, worker);
    }
    if (atomic_load_explicit(&sched->lacks_permits, memory_order_relaxed)) {
      wake_for_free_permit(sched, slot, cost * (pyd_range_size(range) - chunk));
    }
    if (may_leave) {
      if (has_waiting_work(sched) && !has_failed(slot)) return true;
    } else if (slot->has_permit && pyd_permit_is_wanted(sched->permits)) {
      pyd_sched_yield(sched, slot, meter);
      chunk_start = pyd_cpu_ticks();
    }
  }
  pyd_sched_hide(sched, slot);  // all work is claimed
  return false;
}
