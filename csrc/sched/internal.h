// What the files of the task system share. Nothing here is public.
//
//   scheduler.c  create, destroy, fork     pool.c  the life of a pool thread: look, spin, park, be woken
//   job.c        pyd_sched_run             work.c  taking part in a published job: chunks, stealing, failures
//
// How threads meet. A caller fills a slot, opens it (slot.state, release) and shows it in sched.open. A pool thread sees
// the bit, joins (slot.state, acquire), works, leaves (release). The caller closes the slot and waits until the count of
// participants is zero (acquire). Parking and publishing are the two sides of a store-then-load race, and both sides use
// sequentially consistent operations for it: publish is "open |= bit; read spinners and sleepers; claim the wake event",
// parking "spinners -= 1; sleepers += 1; reset the wake event; read open".
#ifndef PYD_SCHED_INTERNAL_H_
#define PYD_SCHED_INTERNAL_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "platform/cpu_inline.h"
#include "platform/thread.h"
#include "pydispatch/sched.h"
#include "sched/range.h"
#include "sched/tuning.h"

#define PYD_SLOT_OPEN 0x80000000u     // may be joined
#define PYD_SLOT_WAITING 0x40000000u  // the caller sleeps on |done|
#define PYD_SLOT_COUNT 0x0000FFFFu    // participating pool threads

// No failure yet. Otherwise the index within the window in the upper half (so that less is lower) and the code.
#define PYD_SCHED_NO_FAILURE UINT64_MAX
// No failure, and the interrupt ended the job. No index is that large, so that every failure is lower.
#define PYD_SCHED_INTERRUPTED (UINT64_MAX - 1)

// A participant's cell on a cache line of its own.
typedef struct pyd_sched_cell_s {
  alignas(PYD_CPU_CACHE_LINE) pyd_range_cell_t range;
} pyd_sched_cell_t;

typedef struct pyd_sched_slot_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t state;
  _Atomic uint32_t wakes_left;  // threads that joining threads should still wake
  // Written by the caller while the slot is closed.
  const pyd_sched_job_t* job;
  const pyd_scope_t* scope;  // what the caller works for
  uint64_t base;  // the job's index of the window's 0
  uint64_t fp_mode;
  uint64_t cost;  // estimate, picoseconds per index, at least 1
  pyd_sched_cell_t* cells;  // one per worker number, allocated with the scheduler
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t failure;
  pyd_event_t done;
} pyd_sched_slot_t;

typedef struct pyd_sched_thread_s {
  alignas(PYD_CPU_CACHE_LINE) pyd_event_t wake;  // clear: parked
  struct pyd_sched_s* sched;
  uint32_t worker;  // 1 and up
  pyd_thread_t thread;
  uint64_t spin;  // nanoseconds, the thread's own
} pyd_sched_thread_t;

struct pyd_sched_s {
  uint32_t workers;
  bool oversubscribed;  // more workers than CPUs: no thread spins
  int32_t spin_us;
  uint64_t tick;  // picoseconds in 1/256
  pyd_sched_slot_t* slots;
  pyd_sched_thread_t* threads;  // workers - 1
  pyd_scope_access_t scopes;
  pthread_mutex_t lifecycle;    // of |started| and |closing|, and fork; never held while waiting for a thread
  pthread_cond_t stopped;       // |closing| is 0 again
  _Atomic uint32_t started;     // pool threads that exist
  _Atomic uint32_t start_failed;
  _Atomic uint32_t closing;

  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t open;  // bit per slot that is worth looking at; spun on
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t used;  // bit per slot that has an owner
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t sleepers;
  _Atomic uint32_t spinners;
  // Recent work run by the caller alone because no thread was awake, in picoseconds, and until when. Approximate.
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t alone;
  _Atomic uint64_t alone_until;
  _Atomic uint64_t price;  // picoseconds of work from which waking a thread is worth it, learned
};

// What one participant learns about the job while it works.
typedef struct pyd_sched_meter_s {
  uint64_t indices;
  uint64_t picoseconds;
} pyd_sched_meter_t;

static inline uint64_t pyd_sched_picoseconds(const pyd_sched_t* sched, uint64_t ticks) {
  return ticks < UINT64_C(1) << 40 ? ticks * sched->tick >> 8 : (ticks >> 8) * sched->tick;
}

static inline bool pyd_sched_is_interrupted(const pyd_sched_job_t* job) {
  return job->interrupt && job->interrupt->is_wanted(job->interrupt->self) != 0;
}

// work.c: ends the job because its interrupt requests it.
void pyd_sched_interrupt(pyd_sched_slot_t* slot);

// work.c: claims and steals chunks until none are left. |worker| must participate in the slot (the caller always
// does). Clears the slot's bit in sched->open, as no other thread would find work.
void pyd_sched_work(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter);

// pool.c
void pyd_sched_pool_main(void* thread);
// Wakes up to |count| parked threads; returns how many.
uint32_t pyd_sched_pool_wake(pyd_sched_t* sched, uint32_t count);

// scheduler.c: restarts the threads that a fork removed. False when there are none.
bool pyd_sched_ensure_started(pyd_sched_t* sched);

#endif  // PYD_SCHED_INTERNAL_H_
