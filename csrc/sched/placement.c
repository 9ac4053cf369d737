// Keeps threads of one scheduler off CPUs on which others of its threads, or its callers, compute.
//
// After a pause the system may wake a pool thread on the CPU of its caller. Both then share that CPU for tens of
// milliseconds while other CPUs are idle. So occupied CPUs are removed from the affinity mask of a pool thread:
//   - by its waker, before it is woken, if it has slept for a while or was last on an occupied CPU;
//   - by a caller that opens a job, if the thread spins or works for another caller on the CPU of that caller;
//   - by itself, if it finds another thread on its CPU when it joins a job, or later in the job.
// The thread restores its mask when it runs next. A mask that the program has changed meanwhile stays as it is.
#include "platform/back_off.h"
#include "sched/placement.h"

// Removes the CPUs |unwanted| from |cpus|, unless that would leave none.
static void remove_unless_all(pyd_cpu_set_t* cpus, const pyd_cpu_set_t* unwanted) {
  pyd_cpu_set_t rest = *cpus;
  const bool has_cpus = pyd_cpu_set_subtract(&rest, unwanted);
  if (has_cpus) *cpus = rest;
}

// Chooses the CPUs to which a thread should move: those of |allowed| that are not |occupied|, if possible fast ones,
// and then those whose core has no occupied CPU. |machine|: the |count| CPUs of the process. Returns false if all
// allowed CPUs are occupied.
bool pyd_placement_choose(const pyd_topology_cpu_t* machine, uint32_t count, const pyd_cpu_set_t* allowed,
                          const pyd_cpu_set_t* occupied, pyd_cpu_set_t* out_cpus) {
  *out_cpus = *allowed;
  if (!pyd_cpu_set_subtract(out_cpus, occupied)) return false;
  // A core is identified by the lowest number of its CPUs (SMT siblings), so that a CPU set holds cores, too.
  pyd_cpu_set_t busy_cores = {{0}}, siblings = {{0}}, slow = {{0}};
  for (uint32_t i = 0; i < count; ++i) {
    if (pyd_cpu_set_has(occupied, machine[i].number)) pyd_cpu_set_add(&busy_cores, machine[i].core);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (pyd_cpu_set_has(&busy_cores, machine[i].core)) pyd_cpu_set_add(&siblings, machine[i].number);
    if (!machine[i].is_fast) pyd_cpu_set_add(&slow, machine[i].number);
  }
  remove_unless_all(out_cpus, &slow);  // first: a fast CPU with a busy sibling is preferred to a slow CPU
  remove_unless_all(out_cpus, &siblings);
  return true;
}

// Removes all CPUs but the lowest from |cpus|, which must not be empty.
static void keep_first(pyd_cpu_set_t* cpus) {
  uint32_t first = 0;
  while (!pyd_cpu_set_has(cpus, first)) ++first;
  *cpus = (pyd_cpu_set_t){{0}};
  pyd_cpu_set_add(cpus, first);
}

// ---- which CPUs are occupied

// Returns the index of a pool thread in sched->threads and sched->occupied; its worker number is another one.
static uint32_t index_of(const pyd_sched_thread_t* thread) { return (uint32_t)(thread - thread->sched->threads); }

// Publishes |cpu|, or PYD_PLACEMENT_NONE, as the CPU that the thread occupies.
static void occupy(pyd_sched_thread_t* self, uint32_t cpu) {
  atomic_store_explicit(&self->sched->occupied[index_of(self)], (uint16_t)cpu, memory_order_relaxed);
}

// Calls |visit| with the CPU of each awake pool thread other than |thread|, and with the CPU of each caller whose job
// runs, until |visit| returns true. Returns whether |visit| returned true.
static bool any_occupied(const pyd_sched_thread_t* thread, bool (*visit)(void* context, uint32_t cpu), void* context) {
  const pyd_sched_t* sched = thread->sched;
  for (uint32_t i = 0; i < sched->workers; ++i) {
    const uint32_t cpu = atomic_load_explicit(&sched->occupied[i], memory_order_relaxed);
    if (cpu != PYD_PLACEMENT_NONE && i != index_of(thread) && visit(context, cpu)) return true;
  }
  // One bit per slot that is in use by a job with a caller:
  uint32_t slots = atomic_load_explicit(&sched->used, memory_order_relaxed) &
                   atomic_load_explicit(&sched->callers, memory_order_relaxed);
  for (; slots; slots &= slots - 1) {
    const uint32_t cpu = atomic_load_explicit(&sched->slots[__builtin_ctz(slots)].cpu, memory_order_relaxed);
    if (cpu != PYD_PLACEMENT_NONE && visit(context, cpu)) return true;
  }
  return false;
}

// A visitor for any_occupied(): returns whether |occupied_cpu| is the CPU |*cpu|, a uint32_t.
static bool is_same(void* cpu, uint32_t occupied_cpu) { return *(uint32_t*)cpu == occupied_cpu; }

// A visitor for any_occupied(): adds |cpu| to |set|, a pyd_cpu_set_t. Returns false, so that all CPUs are visited.
static bool add_to_set(void* set, uint32_t cpu) {
  pyd_cpu_set_add(set, cpu);
  return false;
}

// Chooses CPUs for |thread| among |allowed|: neither |here| nor another occupied CPU. Returns false if none is left.
static bool find_cpus(const pyd_sched_thread_t* thread, uint32_t here, const pyd_cpu_set_t* allowed,
                      pyd_cpu_set_t* out_cpus) {
  const pyd_sched_t* sched = thread->sched;
  pyd_cpu_set_t occupied = {{0}};
  pyd_cpu_set_add(&occupied, here);
  any_occupied(thread, add_to_set, &occupied);
  if (!pyd_placement_choose(sched->machine, sched->machine_count, allowed, &occupied, out_cpus)) return false;
  if (sched->cpus) keep_first(out_cpus);  // a pinned thread has exactly one CPU
  return true;
}

// ---- affinity masks

// Changes the affinity mask of |thread| so that it leaves CPU |here| and avoids other occupied CPUs. The caller has
// locked the mask with begin_change(). A thread that its scheduler has pinned to one CPU is pinned to another CPU of
// the scheduler, for good. Returns whether the thread has to restore its mask later: false for a pinned thread, and if
// nothing was changed.
static bool change_mask(pyd_sched_thread_t* thread, uint32_t here) {
  pyd_placement_t* placement = &thread->placement;
  const bool is_pinned = thread->sched->cpus != NULL;
  if (!pyd_affinity_get(&placement->thread, &placement->allowed)) return false;
  // A pinned thread with another mask than its CPU got that mask from the program, whose choice is respected.
  if (is_pinned && !pyd_cpu_set_is_equal(&placement->allowed, &placement->moved_to)) return false;
  const pyd_cpu_set_t* candidates = is_pinned ? &thread->sched->pinned : &placement->allowed;
  pyd_cpu_set_t chosen;
  if (!find_cpus(thread, here, candidates, &chosen)) return false;
  if (!pyd_affinity_set(&placement->thread, &chosen)) return false;
  placement->moved_to = chosen;
  return !is_pinned;
}

// Locks the mask of a thread: sets its state from OWN_MASK to CHANGING. Returns false in any other state: another
// thread is changing the mask or has moved the thread already, or the thread has left the pool.
static bool begin_change(pyd_placement_t* placement) {
  uint32_t expected = PYD_PLACEMENT_OWN_MASK;
  return atomic_compare_exchange_strong_explicit(&placement->state, &expected, PYD_PLACEMENT_CHANGING,
                                                 memory_order_acquire, memory_order_relaxed);
}

// Unlocks the mask of a thread. |is_moved|: the mask is a temporary one, which the thread replaces by its own mask when
// it runs next.
static void end_change(pyd_placement_t* placement, bool is_moved) {
  atomic_store_explicit(&placement->state, is_moved ? PYD_PLACEMENT_MOVED : PYD_PLACEMENT_OWN_MASK,
                        memory_order_release);
}

// Changes the affinity mask of |thread| so that it leaves CPU |here|, on which the calling thread runs. Does nothing if
// another thread is changing the mask or has changed it already.
static void move_away(pyd_sched_thread_t* thread, uint32_t here) {
  pyd_placement_t* placement = &thread->placement;
  if (!begin_change(placement)) return;
  // A pool thread that opens a job is itself on CPU |here|, and stays. Its handle may be read only under this lock.
  const bool is_self = pthread_equal(placement->thread.handle, pthread_self());
  const bool is_moved = !is_self && change_mask(thread, here);
  end_change(placement, is_moved);
}

// Restores the mask of the calling thread if another thread has changed it.
static void restore_mask(pyd_placement_t* placement) {
  if (atomic_load_explicit(&placement->state, memory_order_acquire) != PYD_PLACEMENT_MOVED) return;
  pyd_cpu_set_t now;  // differs from |moved_to| if the program has set a mask meanwhile, which is then left alone
  if (pyd_affinity_get(&placement->thread, &now) && pyd_cpu_set_is_equal(&now, &placement->moved_to))
    pyd_affinity_set(&placement->thread, &placement->allowed);
  end_change(placement, /* is_moved */ false);
}

// ---- called by pool threads

// Registers this thread in the pool. If the scheduler pins its workers, pins the thread to the CPU of its worker.
void pyd_placement_enter(pyd_sched_thread_t* self) {
  pyd_sched_t* sched = self->sched;
  self->placement.thread = pyd_thread_self();
  if (sched->cpus) {
    self->placement.moved_to = (pyd_cpu_set_t){{0}};
    pyd_cpu_set_add(&self->placement.moved_to, sched->cpus[self->worker]);
    // Fails if the process may no longer use the CPU: then the thread runs on any CPU.
    pyd_affinity_set(&self->placement.thread, &self->placement.moved_to);
  }
  end_change(&self->placement, /* is_moved */ false);  // from here on other threads may change the mask
  pyd_placement_record(self);
}

// Removes the thread from the pool: sets its state to GONE, after which no other thread changes its affinity mask.
// Restores the thread's own mask first if another thread has changed it.
void pyd_placement_leave(pyd_sched_thread_t* self) {
  occupy(self, PYD_PLACEMENT_NONE);
  pyd_placement_t* placement = &self->placement;
  for (uint32_t pass = 1;; ++pass) {
    uint32_t state = PYD_PLACEMENT_OWN_MASK;
    if (atomic_compare_exchange_weak_explicit(&placement->state, &state, PYD_PLACEMENT_GONE, memory_order_acquire,
                                              memory_order_relaxed)) {
      return;
    }
    // A fork has reset the state in the child, where the thread does not exist.
    if (state == PYD_PLACEMENT_GONE) return;
    restore_mask(placement);            // if the state is MOVED
    pyd_back_off(pass, /* spins */ 1);  // if the state is CHANGING: another thread has locked the mask
  }
}

// Publishes the CPU on which the calling thread |self| runs, so that other threads avoid it.
void pyd_placement_record(pyd_sched_thread_t* self) {
  if (!self->sched->places_threads) return;
  const uint32_t cpu = pyd_affinity_cpu();
  const bool is_published = atomic_load_explicit(&self->sched->occupied[index_of(self)], memory_order_relaxed) == cpu;
  if (is_published) return;
  atomic_store_explicit(&self->placement.cpu, cpu, memory_order_relaxed);  // stays while the thread sleeps
  occupy(self, cpu);
  self->placement.is_checked = false;  // another thread may compute on the new CPU: pyd_placement_check() looks
}

// Records that this thread is about to park, so that it occupies no CPU. Restores its affinity mask if it was changed.
void pyd_placement_sleep(pyd_sched_thread_t* self) {
  restore_mask(&self->placement);
  occupy(self, PYD_PLACEMENT_NONE);
}

// Restores the affinity mask of this woken thread if the waker has changed it, and publishes the CPU on which it runs.
void pyd_placement_awake(pyd_sched_thread_t* self) {
  restore_mask(&self->placement);
  pyd_placement_record(self);
}

// Moves the thread, which participates in the job of |slot|, away from a CPU that it shares with another thread.
void pyd_placement_check(pyd_sched_thread_t* self, const pyd_sched_slot_t* slot) {
  if (!self->sched->places_threads) return;
  pyd_placement_awake(self);
  uint32_t here = atomic_load_explicit(&self->placement.cpu, memory_order_relaxed);
  bool is_shared = atomic_load_explicit(&slot->cpu, memory_order_relaxed) == here;
  // The CPU of the job's caller is compared at each check, those of all other threads once after each migration.
  if (!is_shared && !self->placement.is_checked) is_shared = any_occupied(self, is_same, &here);
  self->placement.is_checked = true;
  if (!is_shared || !begin_change(&self->placement)) return;
  const bool is_moved = change_mask(self, here);  // migrates this thread at once
  end_change(&self->placement, is_moved);
  restore_mask(&self->placement);  // the thread stays on its new CPU, which its own mask contains
  pyd_placement_record(self);
  self->placement.is_checked = true;  // if another thread has moved to the same CPU, that thread moves away by itself
}

// ---- called by wakers and callers

// Returns whether |thread| has slept so long that the system may wake it on the CPU of its waker, even if the CPU on
// which the thread ran last is idle.
static bool may_wake_at_waker(const pyd_sched_thread_t* thread) {
  if (thread->sched->cpus) return false;  // pinned: it wakes on its own CPU
  const uint64_t idle_since = atomic_load_explicit(&thread->idle_since, memory_order_relaxed);  // in ticks
  if (!idle_since) return false;                                                                // it works
  const uint64_t idle_ticks = pyd_cpu_elapsed(idle_since, pyd_cpu_ticks());
  return pyd_sched_picoseconds(thread->sched, idle_ticks) >= UINT64_C(1000) * PYD_SCHED_PLACEMENT_SLEEP_NS;
}

// Moves |thread|, which is about to be woken, away from the CPU of the calling thread if it could wake there.
void pyd_placement_before_wake(pyd_sched_thread_t* thread) {
  if (!thread->sched->places_threads) return;
  const uint32_t here = pyd_affinity_cpu();
  if (here == PYD_AFFINITY_UNKNOWN) return;
  uint32_t last_cpu = atomic_load_explicit(&thread->placement.cpu, memory_order_relaxed);
  // Without a long sleep the thread wakes on the CPU on which it ran last. It may stay there if that CPU is idle.
  bool must_move = may_wake_at_waker(thread);
  if (!must_move) must_move = last_cpu == here || any_occupied(thread, is_same, &last_cpu);
  if (must_move) move_away(thread, here);
}

// Publishes the CPU of the calling thread, which opens |slot| for its job, and moves pool threads away from that CPU.
void pyd_placement_open(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  if (!sched->places_threads) return;
  pyd_placement_record_caller(sched, slot);
  const uint32_t here = atomic_load_explicit(&slot->cpu, memory_order_relaxed);
  for (uint32_t i = 0; i < sched->workers; ++i) {
    if (atomic_load_explicit(&sched->occupied[i], memory_order_relaxed) == here) move_away(&sched->threads[i], here);
  }
}
