// Places: how many threads compute at once, however many call. Whoever computes for longer than moments has one: a caller with a
// job that is not small, a pool thread with a job or a task. Those that find none free wait in a queue, by priority and
// then in the order of their arrival, asleep: they take no CPU from those that have one.
#ifndef PYD_SCHED_PLACE_H_
#define PYD_SCHED_PLACE_H_

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "platform/cpu_inline.h"
#include "platform/thread.h"
#include "pydispatch/task.h"

// On the stack of the thread that waits.
typedef struct pyd_place_waiter_s {
  struct pyd_place_waiter_s *next, *previous;
  uint32_t priority;
  bool is_for_tasks;  // for whichever is the first of the queue of tasks then
  pyd_event_t has_place;
} pyd_place_waiter_t;

typedef struct pyd_places_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic int32_t free;  // negative: some went on without one
  _Atomic uint32_t waiting;
  int32_t total;
  uint64_t patience;  // nanoseconds without any handover after which a waiting thread goes on without a place
  // Of callers that call again at once: nanoseconds between two handovers, until when none takes place, whether callers were like
  // that lately, and when one left.
  uint64_t quantum;
  _Atomic uint64_t quantum_ends, last_left;
  _Atomic uint32_t come_back;
  _Atomic uint32_t handovers;
  pthread_mutex_t mutex;  // of the queue; held for moments
  pyd_place_waiter_t *first[PYD_PRIORITIES], *last[PYD_PRIORITIES];
} pyd_places_t;

// No thread has a place, or waits.
void pyd_places_reset(pyd_places_t* places);
void pyd_places_deinit(pyd_places_t* places);

// Whether a place is free and nobody waits for it.
static inline bool pyd_place_is_free(const pyd_places_t* places) {
  return atomic_load_explicit(&places->free, memory_order_relaxed) > 0 &&
         !atomic_load_explicit(&places->waiting, memory_order_relaxed);
}

// Whether somebody waits for one.
static inline bool pyd_place_is_wanted(const pyd_places_t* places) {
  return atomic_load_explicit(&places->waiting, memory_order_relaxed) != 0;
}

// Takes a place that is free. False: there is none, or others wait.
bool pyd_place_try(pyd_places_t* places);
// Takes a place, perhaps after waiting. When nobody has handed one over for |patience|, one more thread computes: those that have
// the places may themselves be waiting for what this thread does, and then go on. False: |interrupt|, which may be NULL, ended the
// waiting, and there is one more too, so that a place is always given back.
bool pyd_place_take(pyd_places_t* places, uint32_t priority, bool is_for_tasks, const pyd_interrupt_t* interrupt);
// A task of |priority| came: a thread that waits for the sake of tasks waits as one for this.
void pyd_place_raise(pyd_places_t* places, uint32_t priority);
// Gives it to the first that waits.
void pyd_place_give(pyd_places_t* places);
// The same at the end of a caller's job. When callers call again at once, the place is theirs until the quantum ends.
void pyd_place_leave(pyd_places_t* places);

#endif  // PYD_SCHED_PLACE_H_
