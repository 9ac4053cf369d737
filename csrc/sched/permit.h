// Compute permits: a counting semaphore with a priority queue that bounds how many threads compute at once.
//
// A caller with a job that is not small, a pool thread in a job, and a pool thread with a task each hold one permit.
// Threads that find none free sleep in a queue, by priority and then by arrival. Schedulers of one process share a
// semaphore (process.h), so that several devices together do not run more threads than there are CPUs.
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

// A thread that waits for a permit. On its stack.
typedef struct pyd_permit_waiter_s {
  struct pyd_permit_waiter_s *next, *previous;
  const pyd_sched_t* sched;  // of the tasks that a pool thread waits for; NULL: the thread waits for a job
  uint32_t priority;
  pyd_event_t is_granted;
} pyd_permit_waiter_t;

// What one scheduler contributes to the count of permits. In the scheduler.
typedef struct pyd_permit_share_s {
  struct pyd_permit_share_s *next, *previous;
  uint32_t total;  // permits that this scheduler alone would have
} pyd_permit_share_t;

struct pyd_permits_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic int32_t free_count;  // negative: threads went on without a permit
  _Atomic uint32_t waiting;
  uint64_t handover_timeout;  // nanoseconds without a handover after which a waiting thread goes on without a permit
  // For callers that call again at once: nanoseconds between two handovers, until when none takes place, whether
  // callers returned like that lately, and when one last released its permit.
  _Atomic uint64_t quantum;
  _Atomic uint64_t quantum_ends, released_at;
  _Atomic uint32_t callers_return;
  _Atomic uint32_t handovers;
  pthread_mutex_t mutex;  // of the queue and of the shares; held for moments
  pyd_permit_waiter_t *head[PYD_PRIORITIES], *tail[PYD_PRIORITIES];
  pyd_permit_share_t* shares;
  int32_t total;  // the largest share
};

// Adds a scheduler: the count of permits becomes at least |total|, its CPUs or its workers where these are more.
void pyd_permits_add(pyd_permits_t* permits, pyd_permit_share_t* share, uint32_t total);
void pyd_permits_remove(pyd_permits_t* permits, pyd_permit_share_t* share);
// Return whether a permit is free and no thread waits for it.
static inline bool pyd_permit_is_free(const pyd_permits_t* permits) {
  return atomic_load_explicit(&permits->free_count, memory_order_relaxed) > 0 &&
         !atomic_load_explicit(&permits->waiting, memory_order_relaxed);
}

// Return whether a thread waits for a permit.
static inline bool pyd_permit_is_wanted(const pyd_permits_t* permits) {
  return atomic_load_explicit(&permits->waiting, memory_order_relaxed) != 0;
}

// Return whether the current thread holds a permit.
static inline bool pyd_permit_is_held(pyd_scope_access_t scopes) {
  const pyd_scope_t* scope = pyd_scope_now(scopes);
  while (scope && scope->permit == PYD_SCOPE_PERMIT_INHERITED) scope = scope->outer;
  return scope && scope->permit == PYD_SCOPE_PERMIT_HELD;
}

// Take a free permit. False: there is none, or other threads wait.
bool pyd_permit_try(pyd_permits_t* permits);
// Take a permit, perhaps after waiting. |sched|: the pool thread waits for the sake of its submitted tasks; else NULL.
// After |handover_timeout| without a handover the thread goes on without a permit, because the holders may be waiting
// for what it does. False: |interrupt|, which may be NULL, ended the waiting. In all cases the count is decremented, so
// that a release always follows.
bool pyd_permit_take(pyd_permits_t* permits, uint32_t priority, const pyd_sched_t* sched,
                     const pyd_interrupt_t* interrupt);
// A task of |priority| was submitted to |sched|: a pool thread that waits for the tasks of |sched| gets at least this
// priority.
void pyd_permit_raise(pyd_permits_t* permits, const pyd_sched_t* sched, uint32_t priority);
// Release a permit and hand it to the first waiter.
void pyd_permit_release(pyd_permits_t* permits);
// Release a permit at the end of a caller's job. When callers call again at once, the permit stays theirs until the
// quantum ends.
void pyd_permit_release_after_call(pyd_permits_t* permits);

#endif  // PYD_SCHED_PERMIT_H_
