// Compute permits: a counting semaphore with a priority queue that bounds how many pool threads compute.
//
// A caller with a job that is not small, a pool thread in a job, and a pool thread with a task each hold one permit.
// Callers never wait for one: they are threads of the program, and the system shares the CPUs among them. They take the
// count below zero if need be. A pool thread takes a free permit only; one with a task sleeps in a queue until it gets
// one, by priority and then by arrival. So pool threads use the CPUs that callers leave over. Schedulers of one process
// share a semaphore (process.h), so that the pools of several devices together do not use more CPUs than there are.
#ifndef PYD_SCHED_PERMIT_H_
#define PYD_SCHED_PERMIT_H_

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "platform/cpu_inline.h"
#include "platform/thread.h"
#include "pydispatch/task.h"

// A thread that waits for a permit; on its stack.
typedef struct pyd_permit_waiter_s {
  struct pyd_permit_waiter_s *next, *previous;
  const pyd_sched_t* sched;  // whose task the pool thread is going to run; NULL: the thread waits for a job
  uint32_t priority;         // pyd_priority_t
  pyd_event_t is_granted;    // set by the thread that hands its permit over
} pyd_permit_waiter_t;

// The contribution of one scheduler to the count of permits; stored in the scheduler. The semaphore has as many permits
// as the largest of its shares.
typedef struct pyd_permit_share_s {
  struct pyd_permit_share_s *next, *previous;
  uint32_t total;  // permits that this scheduler alone would have
} pyd_permit_share_t;

// The semaphore: a count of free permits, and a queue of threads by priority.
struct pyd_permits_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic int32_t free_count;  // negative: so many threads compute without a permit
  _Atomic uint32_t waiting;                                // number of threads in the queue
  _Atomic uint32_t handovers;  // how many there have been: shows waiting threads that permits still move
  uint64_t handover_timeout;   // nanoseconds without a handover after which a waiting thread goes on without a permit
  pthread_mutex_t mutex;       // guards the queue and the shares; never held while waiting
  pyd_permit_waiter_t *head[PYD_PRIORITIES], *tail[PYD_PRIORITIES];  // by priority: waiting threads, oldest first
  pyd_permit_share_t* shares;                                        // of all schedulers that use this semaphore
  int32_t total;                                                     // number of permits: the largest share
};

// Adds |share| of a scheduler. The count of permits becomes at least |total|: the number of CPUs, or of its workers if
// that is more.
void pyd_permits_add(pyd_permits_t* permits, pyd_permit_share_t* share, uint32_t total);
void pyd_permits_remove(pyd_permits_t* permits, pyd_permit_share_t* share);
// Returns whether a permit is free and no thread waits for it.
static inline bool pyd_permit_is_free(const pyd_permits_t* permits) {
  return atomic_load_explicit(&permits->free_count, memory_order_relaxed) > 0 &&
         !atomic_load_explicit(&permits->waiting, memory_order_relaxed);
}

// Returns whether a thread waits for a permit.
static inline bool pyd_permit_is_wanted(const pyd_permits_t* permits) {
  return atomic_load_explicit(&permits->waiting, memory_order_relaxed) != 0;
}

// Returns whether the current thread holds a permit.
static inline bool pyd_permit_is_held(pyd_scope_access_t scopes) {
  const pyd_scope_t* scope = pyd_scope_now(scopes);
  // The innermost scope that states whether the thread holds a permit decides.
  while (scope && scope->permit == PYD_SCOPE_PERMIT_INHERITED) scope = scope->outer;
  return scope && scope->permit == PYD_SCOPE_PERMIT_HELD;
}

// Returns whether pool threads should give up permits: a thread waits for one, or callers have taken the count below 0.
static inline bool pyd_permit_is_scarce(const pyd_permits_t* permits) {
  return pyd_permit_is_wanted(permits) || atomic_load_explicit(&permits->free_count, memory_order_relaxed) < 0;
}

// Acquires a free permit. Returns false if there is none or other threads wait.
bool pyd_permit_try(pyd_permits_t* permits);
// Acquires a permit for a caller, below zero if none is free. Never waits.
void pyd_permit_take_as_caller(pyd_permits_t* permits);
// Acquires a permit for a pool thread, waiting if necessary. |sched|: the scheduler whose tasks the thread is going to
// run, else NULL. After |handover_timeout| nanoseconds without a handover the thread continues without a permit,
// because the holders may depend on its work. Returns false if |interrupt|, which may be NULL, ended the wait. The
// count is decremented in all cases, so a release must always follow.
bool pyd_permit_take(pyd_permits_t* permits, uint32_t priority, const pyd_sched_t* sched,
                     const pyd_interrupt_t* interrupt);
// Raises the priority of one pool thread that waits for tasks of |sched| to the |priority| of a newly submitted task.
void pyd_permit_raise(pyd_permits_t* permits, const pyd_sched_t* sched, uint32_t priority);
// Releases a permit of a pool thread: hands it to the first waiter if callers have not taken it already.
void pyd_permit_release(pyd_permits_t* permits);
// Hands a permit to the first waiter that is not of low priority, even if none is free. For a caller that goes on.
void pyd_permit_admit(pyd_permits_t* permits);
// Releases the permit of a caller: hands it to the first waiter that is not of low priority, even if callers have taken
// the count below zero, so that callers who call without a break do not keep tasks waiting.
void pyd_permit_release_as_caller(pyd_permits_t* permits);

#endif  // PYD_SCHED_PERMIT_H_
