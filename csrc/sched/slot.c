// Slots, in which a job is open to participants: claiming one, opening it and waking threads for it, releasing it.
#include "sched/placement.h"
#include "sched/task.h"

// Claims a free slot; returns NULL when all are in use.
static pyd_sched_slot_t* take_slot(pyd_sched_t* sched) {
  uint32_t used = atomic_load_explicit(&sched->used, memory_order_relaxed);
  while (~used) {
    uint32_t bit = ~used & (used + 1);  // the lowest bit that is clear
    // Acquire pairs with pyd_sched_release_slot: the last owner's writes to the slot precede ours.
    if (atomic_compare_exchange_weak_explicit(&sched->used, &used, used | bit, memory_order_acquire,
                                              memory_order_relaxed)) {
      return &sched->slots[__builtin_ctz(bit)];
    }
  }
  return NULL;
}

// Acquires a slot for |job|, through which threads share it; the slot is not open yet. |task|: that the job belongs to;
// NULL for the job of a caller. |cost|: picoseconds per index, 0 if unknown. Returns NULL if all slots are in use or
// there is no thread to share with.
pyd_sched_slot_t* pyd_sched_acquire_slot(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t cost,
                                         pyd_task_t* task) {
  pyd_sched_slot_t* slot = pyd_sched_ensure_started(sched) ? take_slot(sched) : NULL;
  if (!slot) return NULL;
  // The slot's bit in sched->callers says whether its job has a caller, i.e. belongs to no task. It is written only
  // when it changes, as pool threads read it often.
  uint32_t bit = 1u << (slot - sched->slots), callers = atomic_load_explicit(&sched->callers, memory_order_relaxed);
  if (!task && !(callers & bit)) atomic_fetch_or_explicit(&sched->callers, bit, memory_order_relaxed);
  if (task && callers & bit) atomic_fetch_and_explicit(&sched->callers, ~bit, memory_order_relaxed);
  slot->job = job;
  slot->task = task;
  slot->scope = task ? NULL : pyd_scope_now(sched->scopes);
  // 0: no worker limit.
  const uint32_t limit = task ? task->workers : pyd_scope_workers(slot->scope);
  slot->max_participants = limit && limit < sched->workers ? limit : sched->workers;
  slot->fp_mode = pyd_cpu_fp_mode();
  slot->cost = cost ? cost : PYD_SCHED_GUESS;
  slot->is_guess = !cost;
  slot->has_permit = false;
  atomic_store_explicit(&slot->cpu, PYD_PLACEMENT_NONE, memory_order_relaxed);
  return slot;
}

void pyd_sched_release_slot(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  atomic_fetch_and_explicit(&sched->used, ~(1u << (slot - sched->slots)), memory_order_release);
}

// Returns how many threads should help the thread that opens the slot with its |count| indices: one, and one more for
// each 1/PYD_SCHED_PART_PER_HELPER of the work that justifies waking a thread. At most one for each index but the
// first, and within the worker limit of the job.
static uint32_t useful_helpers(const pyd_sched_t* sched, const pyd_sched_slot_t* slot, uint32_t count) {
  const uint64_t work_per_helper =
      atomic_load_explicit(&sched->worth_waking, memory_order_relaxed) / PYD_SCHED_PART_PER_HELPER;
  uint64_t useful = pyd_sched_multiply(slot->cost, count) / work_per_helper + 1;  // both in picoseconds
  uint64_t others = slot->max_participants - 1;  // without the caller, or the first participant in the job of a task
  uint64_t limit = others < count - 1 ? others : count - 1;
  return (uint32_t)(useful < limit ? useful : limit);
}

// Gives |count| indices to |worker|, opens the slot for other threads, and wakes some if that pays. Returns whether it
// woke one. |state|: initial number of participants: 0 for the job of a caller, which is not counted, and 1 for the job
// of a task.
bool pyd_sched_publish(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, uint32_t count, uint32_t state) {
  atomic_store_explicit(&slot->failure, PYD_SCHED_NO_FAILURE, memory_order_relaxed);
  atomic_store_explicit(&slot->wakes_left, 0, memory_order_relaxed);
  atomic_store_explicit(&slot->has_left_early, 0, memory_order_relaxed);
  pyd_range_store(&slot->cells[worker].range, (pyd_range_t){.begin = 0, .end = count});
  if (!slot->task) pyd_placement_open(sched, slot);
  // |joiners|: pool threads that may join. |room| bounds the participants that are counted in the state: a caller is
  // not, the first one of a task's job is.
  const uint32_t joiners = pyd_sched_joiners(sched, slot),
                 room = slot->task ? slot->max_participants : slot->max_participants - 1;
  atomic_store_explicit(&slot->state, PYD_SLOT_OPEN | room << PYD_SLOT_ROOM_SHIFT | state, memory_order_release);
  if (slot->max_participants == 1) return false;
  atomic_fetch_or_explicit(&sched->open, 1u << (slot - sched->slots), memory_order_seq_cst);
  // A thread counted as spinning now will see the bit, at the latest in its last check before it parks; a count read
  // before the bit was set would not guarantee that.
  uint32_t helpers = useful_helpers(sched, slot, count);
  uint32_t spinners = atomic_load_explicit(&sched->spinners, memory_order_seq_cst);
  if (helpers <= spinners || !atomic_load_explicit(&sched->sleepers, memory_order_seq_cst)) return false;
  if (!pyd_permit_is_free(sched->permits)) {  // a woken thread would find no permit
    atomic_store_explicit(&sched->lacks_permits, 1, memory_order_relaxed);
    return false;
  }
  atomic_store_explicit(&sched->serial_work, 0, memory_order_relaxed);
  // This thread wakes one; woken threads wake the others (pool.c).
  atomic_store_explicit(&slot->wakes_left, helpers - spinners - 1, memory_order_relaxed);
  return pyd_sched_pool_wake(sched, joiners, 1) != 0;
}
