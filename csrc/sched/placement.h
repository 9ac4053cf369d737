// Placement of the threads of a scheduler on CPUs: no two of them share a CPU while another CPU is idle.
#ifndef PYD_SCHED_PLACEMENT_H_
#define PYD_SCHED_PLACEMENT_H_

#include "platform/topology.h"
#include "sched/internal.h"

// Chooses the CPUs to which a thread should move, among those that it is |allowed| to use and that are not |occupied|.
// Prefers fast CPUs, and then cores without an occupied CPU. |machine|: the |count| CPUs of the process. Returns false
// if all allowed CPUs are occupied.
bool pyd_placement_choose(const pyd_topology_cpu_t* machine, uint32_t count, const pyd_cpu_set_t* allowed,
                          const pyd_cpu_set_t* occupied, pyd_cpu_set_t* out_cpus);

// In the following functions |self| is the calling thread, which is a pool thread.
// Registers the thread in the pool, and pins it if the scheduler has affinity.
void pyd_placement_enter(pyd_sched_thread_t* self);
// Removes the thread from the pool and restores its own affinity mask.
void pyd_placement_leave(pyd_sched_thread_t* self);
// Publishes the CPU on which the thread runs.
void pyd_placement_record(pyd_sched_thread_t* self);
// Must be called before the thread parks: it occupies no CPU any more.
void pyd_placement_sleep(pyd_sched_thread_t* self);
// Must be called after the thread was woken: restores its mask if the waker has changed it, and publishes its CPU.
void pyd_placement_awake(pyd_sched_thread_t* self);
// Moves the thread, which participates in the job of |slot|, away from a CPU that it shares with another thread.
void pyd_placement_check(pyd_sched_thread_t* self, const pyd_sched_slot_t* slot);

// Must be called before |thread| is woken: moves it away from the CPU of the calling thread if it could wake there.
void pyd_placement_before_wake(pyd_sched_thread_t* thread);

// Publishes the CPU of the calling thread, which opens |slot| for its job, and moves pool threads away from that CPU.
void pyd_placement_open(pyd_sched_t* sched, pyd_sched_slot_t* slot);
// Publishes the CPU of the calling thread, which is the caller of the job of |slot|.
static inline void pyd_placement_record_caller(const pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  if (!sched->places_threads) return;
  const uint32_t cpu = pyd_affinity_cpu();
  if (atomic_load_explicit(&slot->cpu, memory_order_relaxed) != cpu)
    atomic_store_explicit(&slot->cpu, cpu, memory_order_relaxed);
}

#endif  // PYD_SCHED_PLACEMENT_H_
