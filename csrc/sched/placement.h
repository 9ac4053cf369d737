// The CPUs that threads of a scheduler run on while it works: no two of them on one CPU while another one is idle.
#ifndef PYD_SCHED_PLACEMENT_H_
#define PYD_SCHED_PLACEMENT_H_

#include "platform/topology.h"
#include "sched/internal.h"

// Chooses, among the CPUs that a thread is |allowed| to use, those to move it to: none that is |occupied|, a fast one
// if there is any, and of a core without an occupied CPU if there is any. |machine|: the CPUs of the process. False:
// all are occupied.
bool pyd_placement_choose(const pyd_topology_cpu_t* machine, uint32_t count, const pyd_cpu_set_t* allowed,
                          const pyd_cpu_set_t* occupied, pyd_cpu_set_t* out_cpus);

// The calling thread is |self| in the functions with |self|.
// Begins its work in the pool: pins it if the scheduler has affinity.
void pyd_placement_enter(pyd_sched_thread_t* self);
// Ends its work in the pool, with its own mask.
void pyd_placement_leave(pyd_sched_thread_t* self);
// Publishes on which CPU it is.
void pyd_placement_record(pyd_sched_thread_t* self);
// Before it parks.
void pyd_placement_sleep(pyd_sched_thread_t* self);
// After it was woken.
void pyd_placement_awake(pyd_sched_thread_t* self);
// It takes part in the job of |slot|: moves it away from a CPU that it shares.
void pyd_placement_check(pyd_sched_thread_t* self, const pyd_sched_slot_t* slot);

// |thread| is about to be woken by the calling thread.
void pyd_placement_before_wake(pyd_sched_thread_t* thread);

// The calling thread opens |slot| for its job: publishes on which CPU it is, and moves threads of the pool away from
// there.
void pyd_placement_open(pyd_sched_t* sched, pyd_sched_slot_t* slot);
// It takes part in that job: publishes on which CPU it is.
static inline void pyd_placement_record_caller(const pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  if (!sched->places_threads) return;
  const uint32_t cpu = pyd_affinity_cpu();
  if (atomic_load_explicit(&slot->cpu, memory_order_relaxed) != cpu)
    atomic_store_explicit(&slot->cpu, cpu, memory_order_relaxed);
}

#endif  // PYD_SCHED_PLACEMENT_H_
