#include "platform/back_off.h"
#include "sched/placement.h"
#include "sched/task.h"

static bool has_failed(const pyd_sched_slot_t* slot) {
  return atomic_load_explicit(&slot->failure, memory_order_relaxed) != PYD_SCHED_NO_FAILURE;
}

static void record_failure(pyd_sched_slot_t* slot, uint32_t index, int32_t code) {
  uint64_t mine = (uint64_t)index << 32 | (uint32_t)code;
  uint64_t seen = atomic_load_explicit(&slot->failure, memory_order_relaxed);
  // One index fails at most once, so comparing the whole word compares indices. All ones cannot be made: an index is
  // below the window's size.
  while (mine < seen && !atomic_compare_exchange_weak_explicit(&slot->failure, &seen, mine, memory_order_relaxed,
                                                               memory_order_relaxed)) {
  }
}

void pyd_sched_interrupt(pyd_sched_slot_t* slot) {
  uint64_t none = PYD_SCHED_NO_FAILURE;
  atomic_compare_exchange_strong_explicit(&slot->failure, &none, PYD_SCHED_INTERRUPTED, memory_order_relaxed,
                                          memory_order_relaxed);
}

// How many of |left| indices to run in one go. |previous|: the last chunk's count; a chunk at most doubles, so that a
// cheap start does not hide expensive later indices.
static uint32_t chunk_size(uint64_t cost, uint32_t left, uint32_t previous) {
  uint64_t share = left / PYD_SCHED_CHUNK_DIVISOR;
  uint64_t least = UINT64_C(1000) * PYD_SCHED_CHUNK_MIN_TIME / cost;
  uint64_t most = UINT64_C(1000) * PYD_SCHED_CHUNK_TIME / cost;
  uint64_t size = share > least ? share : least;
  if (size > most) size = most;
  if (size > 2 * (uint64_t)previous) size = 2 * (uint64_t)previous;
  if (size > left) size = left;
  return size ? (uint32_t)size : 1;
}

// Takes half of what another participant has not claimed. False: all is claimed, by whomever, or the job has failed.
//
// A range is in no cell between a thief's compare-exchange and its store, and a thread may lose its CPU there. So
// nothing is left only when all cells were seen empty and then, in a second pass, the same numbers of thefts as in the
// first: between the two none was under way.
static bool steal(const pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker) {
  const uint16_t* near = sched->near ? sched->near + (size_t)worker * (sched->workers - 1) : NULL;
  pyd_sched_cell_t* own = &slot->cells[worker];
  (void)atomic_load_explicit(&own->range, memory_order_acquire);  // whoever emptied it has counted the theft before
  uint32_t thefts = atomic_load_explicit(&own->thefts, memory_order_relaxed), before = 0;
  bool was_quiet = false;
  for (uint32_t pass = 1;; ++pass) {
    uint32_t next = worker, sum = 0, odd = 0;
    for (uint32_t i = 1; i < sched->workers; ++i) {
      if (++next == sched->workers) next = 0;
      pyd_sched_cell_t* victim = &slot->cells[near ? near[i - 1] : next];
      const uint32_t seen = atomic_load_explicit(&victim->thefts, memory_order_acquire);
      sum += seen;
      odd |= seen & 1;
      if (pyd_range_is_empty(&victim->range)) continue;
      atomic_store_explicit(&own->thefts, ++thefts, memory_order_relaxed);
      pyd_range_t stolen;
      const bool has_stolen = pyd_range_steal(&victim->range, &stolen);
      if (has_stolen) pyd_range_store(&own->range, stolen);
      atomic_store_explicit(&own->thefts, ++thefts, memory_order_release);
      if (has_stolen) return true;
    }
    if ((was_quiet && sum == before) || has_failed(slot)) return false;
    was_quiet = !odd;
    before = sum;
    pyd_back_off(pass, PYD_SCHED_STEAL_PASSES);  // later passes let the thread run that holds a range
  }
}

bool pyd_sched_leave_early(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  atomic_store_explicit(&slot->has_left_early, 1, memory_order_relaxed);  // released by leaving
  if (slot->most > 1 && slot->most < sched->workers) {                    // there is room again
    atomic_fetch_or_explicit(&sched->open, 1u << (slot - sched->slots), memory_order_relaxed);
  }
  if (!slot->task) {
    pyd_sched_leave(slot);
    return true;
  }
  uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
  do {
    if ((state & PYD_SLOT_COUNT) == 1) return false;
  } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, state - 1, memory_order_acq_rel,
                                                  memory_order_relaxed));
  return true;
}

bool pyd_sched_has_leftovers(const pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  if (!atomic_load_explicit(&slot->has_left_early, memory_order_relaxed) || has_failed(slot)) return false;
  for (uint32_t i = 0; i < sched->workers; ++i) {
    if (pyd_range_size(pyd_range_load(&slot->cells[i].range))) return true;
  }
  return false;
}

static bool has_idle_thread(const pyd_sched_t* sched) {
  return atomic_load_explicit(&sched->spinners, memory_order_relaxed) ||
         atomic_load_explicit(&sched->sleepers, memory_order_relaxed);
}

// Whether a thread waits for a permit, or a submitted task for a thread that is busy.
static bool is_demanded(const pyd_sched_t* sched) {
  if (pyd_permit_is_wanted(sched->permits)) return true;
  return atomic_load_explicit(&sched->queued, memory_order_relaxed) && !has_idle_thread(sched);
}

void pyd_sched_yield(pyd_sched_t* sched, pyd_sched_slot_t* slot, pyd_sched_meter_t* meter) {
  if (!pyd_permit_is_wanted(sched->permits)) return;
  if (meter->picoseconds - meter->yielded_at < UINT64_C(1000) * PYD_SCHED_PERMIT_SLICE_NS) return;
  const uint64_t start = pyd_cpu_ticks();
  pyd_permit_release(sched->permits);
  const uint32_t priority = slot->task ? slot->task->priority : PYD_PRIORITY_NORMAL;
  if (!pyd_sched_permit_take(sched, priority, false, slot->job->interrupt)) pyd_sched_interrupt(slot);
  meter->yielded_at = meter->picoseconds;
  meter->waited += pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks()));
}

// Wakes a thread that lacked a permit when one is free, if |left| picoseconds of work are worth that.
static void use_free_permit(pyd_sched_t* sched, const pyd_sched_slot_t* slot, uint64_t left) {
  if (!pyd_permit_is_free(sched->permits) || atomic_load_explicit(&sched->spinners, memory_order_relaxed)) return;
  if (!pyd_slot_has_room(atomic_load_explicit(&slot->state, memory_order_relaxed))) return;
  if (!atomic_load_explicit(&sched->sleepers, memory_order_relaxed)) {
    atomic_store_explicit(&sched->lacks_permits, 0, memory_order_relaxed);
  } else if (left >= atomic_load_explicit(&sched->wake_threshold, memory_order_relaxed)) {
    pyd_sched_pool_wake(sched, pyd_sched_joiners(sched, slot), 1);
  }
}

static void check_placement(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker) {
  if (!worker && !slot->task) {
    pyd_placement_record_caller(sched, slot);
  } else {
    pyd_placement_check(&sched->threads[worker ? worker - 1 : sched->workers - 1], slot);
  }
}

bool pyd_sched_work(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter) {
  const pyd_sched_job_t* job = slot->job;
  const bool may_leave = slot->task || worker;
  pyd_range_cell_t* cell = &slot->cells[worker].range;
  uint64_t cost = slot->cost;
  uint32_t chunk = chunk_size(cost, UINT32_MAX, UINT32_MAX);
  uint64_t before = pyd_cpu_ticks(), asked = before, placed = before;
  while (!has_failed(slot)) {
    pyd_range_t range = pyd_range_load(cell);
    if (range.begin == range.end) {
      if (!steal(sched, slot, worker)) break;
      before = pyd_cpu_ticks();
      continue;
    }
    chunk = chunk_size(cost, pyd_range_size(range), chunk);
    if (!pyd_range_take(cell, range, chunk)) continue;

    uint64_t begin = slot->base + range.begin, failed = begin;
    int32_t code = job->body(job->self, worker, begin, begin + chunk, &failed);
    uint64_t after = pyd_cpu_ticks();
    uint64_t spent = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(before, after));
    before = after;
    if (code) {
      uint64_t offset = failed - begin;
      record_failure(slot, range.begin + (offset < chunk ? (uint32_t)offset : 0), code);
      break;
    }
    meter->indices += chunk;
    meter->picoseconds += spent;
    cost = spent / chunk + 1;
    // Only the caller: the interrupt is its own. That of a task is asked by whoever takes part.
    if (job->interrupt && (worker == 0 || slot->task) &&
        pyd_sched_picoseconds(sched, pyd_cpu_elapsed(asked, after)) >= UINT64_C(1000) * PYD_SCHED_ASK_TIME) {
      asked = after;
      if (pyd_sched_is_interrupted(job)) pyd_sched_interrupt(slot);
    }
    if (pyd_sched_picoseconds(sched, pyd_cpu_elapsed(placed, after)) >= UINT64_C(1000) * PYD_SCHED_PLACEMENT_CHECK_NS) {
      placed = after;
      check_placement(sched, slot, worker);
    }
    if (atomic_load_explicit(&sched->lacks_permits, memory_order_relaxed)) {
      use_free_permit(sched, slot, cost * (pyd_range_size(range) - chunk));
    }
    if (may_leave) {
      if (is_demanded(sched) && !has_failed(slot)) return true;
    } else if (slot->has_permit && pyd_permit_is_wanted(sched->permits)) {
      pyd_sched_yield(sched, slot, meter);
      before = pyd_cpu_ticks();
    }
  }
  pyd_sched_hide(sched, slot);  // all work is claimed
  return false;
}
