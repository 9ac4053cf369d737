// What the files of the task system share. Nothing here is public.
//
// Order of the files. Each calls those above it alone:
//   permit.c      how many threads compute at once; owns pyd_permits_t
//   trace.c       the recorder of pydispatch/trace.h; owns pyd_trace_t
//   events.c      what the task system records
//   placement.c   no two threads on one CPU while another one is idle; owns pyd_placement_t
//   affinity.c    workers and the CPUs of the machine
//   queue.c       tasks that wait for a thread; owns pyd_task_queue_t
//   wake.c        waking pool threads, and the caller of a job
//   start.c       starting pool threads
//   work.c        taking part in a published job: chunks, stealing, failures; owns pyd_sched_cell_t
//   job.c         pyd_sched_run; owns pyd_sched_slot_t
//   blocking.c    threads for tasks that may sleep; owns pyd_blocking_pool_t
//   task.c        submitted tasks: dependencies, waiting, end; owns pyd_task_t
//   share.c       the jobs of tasks, which have no caller
//   pool.c        the life of a pool thread: look, spin, park
//   destroy.c     destruction by one of the scheduler's own threads
//   lend.c        threads of an embedder in the pool
//   scheduler.c   create, stop, destroy, fork; owns pyd_sched_t
//
// Calls against the order, all of them by threads or for new ones:
//   start.c -> destroy.c        the function that a pool thread runs
//   queue.c -> blocking.c       a queued task that may sleep needs a thread
//   blocking.c -> task.c        such a thread runs tasks
//   blocking.c -> scheduler.c   the thread that released the last reference frees the scheduler
//   destroy.c -> scheduler.c    the same for a pool thread
//   lend.c -> scheduler.c       the same for a thread of an embedder
//
// How threads meet. A caller fills a slot, opens it (slot.state, release) and shows it in sched.open. A pool thread
// sees the bit, joins (slot.state, acquire), works, leaves (release). The caller closes the slot and waits until the
// count of participants is zero (acquire). Parking and publishing are the two sides of a store-then-load race, and both
// sides use sequentially consistent operations for it (a submitted task is published as a job is, |queued| in place of
// |open|): publish is "open |= bit; read spinners and sleepers; claim the wake event", parking "spinners -= 1; sleepers
// += 1; reset the wake event; read open".
#ifndef PYD_SCHED_INTERNAL_H_
#define PYD_SCHED_INTERNAL_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "platform/affinity.h"
#include "platform/cpu_inline.h"
#include "platform/thread.h"
#include "platform/topology.h"
#include "pydispatch/sched.h"
#include "pydispatch/task.h"
#include "sched/delay.h"
#include "sched/permit.h"
#include "sched/range.h"
#include "sched/tuning.h"

#define PYD_SLOT_OPEN 0x80000000u     // may be joined
#define PYD_SLOT_WAITING 0x40000000u  // the caller sleeps on |done|
#define PYD_SLOT_COUNT 0x0000FFFFu    // participating pool threads
#define PYD_SLOT_ROOM_SHIFT 16        // and how many there may be
#define PYD_SLOT_ROOM (0xFFFu << PYD_SLOT_ROOM_SHIFT)

// No failure yet. Otherwise the index within the window in the upper half (so that less is lower) and the code.
#define PYD_SCHED_NO_FAILURE UINT64_MAX
// No failure, and the interrupt ended the job. No index is that large, so that every failure is lower.
#define PYD_SCHED_INTERRUPTED (UINT64_MAX - 1)

// A participant's cell on a cache line of its own.
typedef struct pyd_sched_cell_s {
  alignas(PYD_CPU_CACHE_LINE) pyd_range_cell_t range;
  _Atomic uint32_t thefts;  // by this participant, counted when one begins and when it has ended: odd between
} pyd_sched_cell_t;

typedef struct pyd_sched_slot_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t state;
  _Atomic uint32_t wakes_left;      // threads that joining threads should still wake
  _Atomic uint32_t has_left_early;  // a participant, perhaps with indices in its cell
  _Atomic uint32_t cpu;             // of the caller, PYD_PLACEMENT_NONE without one
  // Written by the caller while the slot is closed.
  const pyd_sched_job_t* job;
  const pyd_scope_t* scope;  // what the caller works for
  pyd_task_t* task;          // whose job it is; NULL: a caller's, who waits
  uint64_t base;             // the job's index of the window's 0
  uint64_t opened;           // ticks
  uint64_t fp_mode;
  uint64_t cost;            // estimate, picoseconds per index, at least 1
  uint32_t most;            // participants, the caller included: all workers, or fewer when the job has a limit
  bool is_guess;            // nothing is known of the cost
  bool has_permit;          // the caller
  pyd_sched_cell_t* cells;  // one per worker number, allocated with the scheduler
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t failure;
  pyd_event_t done;
} pyd_sched_slot_t;

#define PYD_PLACEMENT_NONE 0xFFFFu

typedef enum pyd_placement_state_e {
  PYD_PLACEMENT_OWN_MASK,
  PYD_PLACEMENT_CHANGING,  // by one thread
  PYD_PLACEMENT_MOVED,     // the affinity mask is |moved_to|, and the thread should restore |allowed|
  PYD_PLACEMENT_GONE,      // the thread is not in the pool
} pyd_placement_state_t;

// Where a pool thread runs (placement.c).
typedef struct pyd_placement_s {
  _Atomic uint32_t state;
  _Atomic uint32_t cpu;             // the last one
  bool is_checked;                  // the thread's own: no other thread was on |cpu|
  pyd_thread_t thread;              // its handle, which the thread stores itself
  pyd_cpu_set_t allowed, moved_to;  // a pinned thread's |moved_to| is the CPU to which it is pinned
} pyd_placement_t;

typedef struct pyd_sched_thread_s {
  alignas(PYD_CPU_CACHE_LINE) pyd_event_t wake;  // clear: parked
  struct pyd_sched_s* sched;
  uint32_t worker;
  pyd_thread_t thread;
  bool is_taken;                 // by a lent thread; under the lifecycle mutex
  bool destroys_sched;           // at its end: the last reference was released on this thread
  const pyd_interrupt_t* until;  // of a lent thread, may be NULL
  _Atomic uint64_t idle_since;   // ticks; 0: it works
  // The thread's own: nanoseconds, when it was last idle, whether it has slept since, and what worth_spinning and
  // worth_waking should be.
  uint64_t spin, last_idle;
  bool has_slept;
  uint64_t worth_spinning, worth_waking;
  pyd_placement_t place;
} pyd_sched_thread_t;

// Tasks that wait for a thread, in the order of their submission for each priority.
typedef struct pyd_task_list_s {
  pyd_task_t *head[PYD_PRIORITIES], *tail[PYD_PRIORITIES];
} pyd_task_list_t;

// All submitted tasks.
typedef struct pyd_task_queue_s {
  pthread_mutex_t mutex;       // of all tasks; held for moments
  pthread_cond_t has_changed;  // while closing
  pyd_task_list_t ready;       // for pool threads
  pyd_task_t* live;            // all that have not ended
} pyd_task_queue_t;

typedef struct pyd_blocking_thread_s {
  struct pyd_sched_s* sched;
  pyd_thread_t thread;
  bool destroys_sched;  // at its end: the last reference was released on this thread
} pyd_blocking_thread_t;

// Threads for tasks that may sleep, and these tasks. Under the mutex of the queue. A thread without work stays until
// the scheduler stops.
typedef struct pyd_blocking_pool_s {
  pyd_task_list_t ready;
  pthread_cond_t has_work;
  uint32_t queued;   // tasks in |ready|
  uint32_t started;  // threads, those without work included
  uint32_t idle;     // threads that wait for |has_work|
  uint32_t active;   // threads in a task and outside of code that may sleep
  pyd_blocking_thread_t threads[PYD_SCHED_BLOCKING_THREADS];
} pyd_blocking_pool_t;

struct pyd_sched_s {
  uint32_t workers;
  bool oversubscribed;  // more workers than CPUs: no thread spins
  int32_t spin_us;
  uint64_t tick;                // picoseconds in 1/256
  pyd_sched_threads_t options;  // of the threads
  // Of workers that are each for a CPU: its number, and for each worker the workers - 1 others, nearest first. Else
  // NULL.
  uint32_t* cpus;
  uint16_t* near;
  pyd_cpu_set_t pinned;         // all of |cpus|
  bool places_threads;          // the system tells where threads run, and each has a CPU
  pyd_topology_cpu_t* machine;  // the CPUs of the process
  uint32_t machine_count;
  _Atomic uint16_t* occupied;  // of each of |threads| its CPU while it is awake, else PYD_PLACEMENT_NONE
  pyd_sched_slot_t* slots;
  // workers - 1 from the beginning, whose numbers are 1 and up. One more, number 0, from the first task on: it takes
  // part in jobs of tasks only, as 0 is the number of callers.
  pyd_sched_thread_t* threads;
  uint32_t epoch;  // forks between the process that created it and this one
  pyd_task_queue_t queue;
  pyd_blocking_pool_t blocking;
  pyd_scope_access_t scopes;
  pyd_trace_t* trace;         // may be NULL
  pthread_mutex_t lifecycle;  // of |started| and |closing|, and fork; never held while waiting for a thread
  pthread_cond_t stopped;     // |closing| is 0 again, or a lent thread has left
  _Atomic uint32_t wanted;    // pool threads that should exist
  _Atomic uint32_t started;   // those that do
  _Atomic uint32_t start_failed;
  _Atomic uint32_t closing;

  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t open;  // bit per slot that is worth looking at; spun on
  _Atomic uint32_t queued;                            // tasks in the queue; spun on
  _Atomic uint32_t callers;                           // bit per slot whose job has a caller
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t used;  // bit per slot that has an owner
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t sleepers;
  _Atomic uint32_t spinners;
  _Atomic uint32_t
      lacks_permits;  // a thread parked, or was not woken, since no permit was free: participants look for one
  // Recent work run by the caller alone because no thread was awake, in picoseconds, and until when. Approximate.
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t serial_work;
  _Atomic uint64_t alone_until;
  _Atomic uint64_t wake_threshold;  // picoseconds of work from which waking a thread is worth it, learned
  // The same where a thread spins, and what the wake threshold is at least: multiples of delays that were measured.
  _Atomic uint64_t worth_spinning, worth_waking;
  pyd_permits_t* permits;
  pyd_permit_share_t share;
  bool owns_permits;
};

// What one participant learns about the job while it works.
typedef struct pyd_sched_meter_s {
  uint64_t indices;
  uint64_t picoseconds;
  uint64_t yielded_at;  // |picoseconds| when it last let others compute
  uint64_t waited;      // picoseconds for a permit meanwhile
} pyd_sched_meter_t;

static inline uint64_t pyd_sched_picoseconds(const pyd_sched_t* sched, uint64_t ticks) {
  return ticks < UINT64_C(1) << 40 ? ticks * sched->tick >> 8 : (ticks >> 8) * sched->tick;
}

// The scope of the threads in the job of |slot|. What these call stays within the limit of the job.
static inline pyd_scope_t pyd_sched_scope_of(const pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  return (pyd_scope_t){slot->scope, sched, slot->most < sched->workers, PYD_SCOPE_PERMIT_INHERITED};
}

static inline bool pyd_slot_has_room(uint32_t state) {
  return (state & PYD_SLOT_COUNT) < (state & PYD_SLOT_ROOM) >> PYD_SLOT_ROOM_SHIFT;
}

// Keeps more threads out. Only by participants: the slot cannot get a new job before the last one has left.
static inline void pyd_sched_hide(pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  const uint32_t bit = 1u << (slot - sched->slots);
  if (atomic_load_explicit(&sched->open, memory_order_relaxed) & bit) {
    atomic_fetch_and_explicit(&sched->open, ~bit, memory_order_relaxed);
  }
}

static inline bool pyd_sched_is_interrupted(const pyd_sched_job_t* job) {
  return job->interrupt && job->interrupt->is_wanted(job->interrupt->self) != 0;
}

// work.c: ends the job because its interrupt requests it.
void pyd_sched_interrupt(pyd_sched_slot_t* slot);

// work.c: claims and steals chunks until none are left. |worker| must participate in the slot (the caller always
// does). Clears the slot's bit in sched->open, as no other thread would find work. True: there may be more work, but
// others wait for a thread or for a permit; this one should leave with pyd_sched_leave_early. Never for the caller.
bool pyd_sched_work(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter);

// work.c: leaves with work left. False: it is the last participant of a task's job, which stays.
bool pyd_sched_leave_early(pyd_sched_t* sched, pyd_sched_slot_t* slot);
// work.c: releases the permit of this thread to threads that wait for one, after a time slice of work, and takes one
// again. Returns after them, or when the interrupt of the job ends it.
void pyd_sched_yield(pyd_sched_t* sched, pyd_sched_slot_t* slot, pyd_sched_meter_t* meter);
// work.c: when all have left: whether one that left early has left indices, which nobody else has found.
bool pyd_sched_has_leftovers(const pyd_sched_t* sched, const pyd_sched_slot_t* slot);

// wake.c: leaves the job of a caller, and wakes it after the last participant.
void pyd_sched_leave(pyd_sched_slot_t* slot);

// job.c, for jobs with and without a caller. Runs here what is not worth sharing: the whole job, or its first indices
// until their cost is known. Returns the first index that is left, job->count when none is, and the cost of an index, 0
// when nothing is known.
uint64_t pyd_sched_begin(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t* out_cost, pyd_sched_meter_t* meter,
                         pyd_sched_failure_t* out_failure);
// A slot for the job, closed; NULL when all are taken or there is no thread to share with. |cost|: 0 when nothing is
// known.
pyd_sched_slot_t* pyd_sched_acquire_slot(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t cost,
                                         pyd_task_t* task);
void pyd_sched_release_slot(pyd_sched_t* sched, pyd_sched_slot_t* slot);
// Opens the slot for |count| indices from slot->base on, which |worker| has, and wakes threads if needed. Returns
// whether it woke one. |state|: what it begins with besides OPEN.
bool pyd_sched_publish(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, uint32_t count, uint32_t state);
// When all participants have left: the failure, or what was learned about waking from |count| indices in |picoseconds|.
void pyd_sched_settle(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t count, uint64_t picoseconds, bool has_woken,
                      pyd_sched_failure_t* out_failure);
// What the next run of the job may know.
void pyd_sched_learn(const pyd_sched_job_t* job, const pyd_sched_meter_t* meter);
// The rest from |begin| on, here.
void pyd_sched_run_rest(const pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t begin, pyd_sched_meter_t* meter,
                        pyd_sched_failure_t* out_failure);

// pool.c
void pyd_sched_pool_main(void* thread);
// wake.c: wakes up to |count| parked threads of the first |among|; returns how many.
uint32_t pyd_sched_pool_wake(pyd_sched_t* sched, uint32_t among, uint32_t count);
// A task is in the queue: sees to it that a thread looks.
void pyd_sched_wake_for_tasks(pyd_sched_t* sched);
// How many of the first threads may take part in the job of |slot|.
static inline uint32_t pyd_sched_joiners(const pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  return slot->task ? sched->workers : sched->workers - 1;
}

// events.c, for traces. A begin of 0: none is being recorded, and the end does nothing.
static inline uint64_t pyd_sched_trace_begin(const pyd_sched_t* sched) {
  return pyd_trace_is_on(sched->trace) ? pyd_cpu_ticks() : 0;
}
void pyd_sched_trace_end(const pyd_sched_t* sched, pyd_trace_kind_t kind, uint64_t begin, uint32_t count);
void pyd_sched_trace_idle(pyd_sched_thread_t* self);
// Says which thread of the pool recorded: when the trace ends, it may have ended.
void pyd_sched_trace_exit(const pyd_sched_thread_t* self);
// pyd_permit_take, with a trace event of the time that the thread waited.
bool pyd_sched_permit_take(pyd_sched_t* sched, uint32_t priority, bool is_for_tasks, const pyd_interrupt_t* interrupt);

// affinity.c: reads the CPUs of the machine, and with |has_affinity| decides on which CPU each worker is. False: there
// is no memory.
bool pyd_sched_read_machine(pyd_sched_t* sched, bool has_affinity);

// destroy.c: returns the pool thread, started or lent, that is the calling thread; NULL when there is none.
pyd_sched_thread_t* pyd_sched_own_thread(pyd_sched_t* sched);
// Has the calling thread destroy the scheduler when it leaves the pool. False, without effect, when it is no thread of
// the pool.
bool pyd_sched_destroy_later(pyd_sched_t* sched);
// The entry of a thread of the scheduler's own.
void pyd_sched_thread_main(void* thread);
// scheduler.c, while closing: waits for all threads other than |self| and |blocking|, and ends the tasks that they have
// not taken.
void pyd_sched_end_threads(pyd_sched_t* sched, const pyd_sched_thread_t* self, const pyd_blocking_thread_t* blocking);
// Frees everything, when there are no threads.
void pyd_sched_free(pyd_sched_t* sched);

// blocking.c: clears the threads and tasks, at creation and in the child of a fork.
void pyd_blocking_reset(pyd_sched_t* sched);
// While the scheduler is closing: joins the threads other than |self|, which may be NULL.
void pyd_blocking_stop(pyd_sched_t* sched, const pyd_blocking_thread_t* self);
// Returns the thread for tasks that may sleep that is the calling thread; NULL when there is none.
pyd_blocking_thread_t* pyd_blocking_own_thread(pyd_sched_t* sched);

// lend.c, under the lifecycle mutex while closing: waits until no thread is lent.
void pyd_sched_await_lent(pyd_sched_t* sched);

// start.c, under the lifecycle mutex: starts the threads that are missing; keeps those it got when one is refused.
// Returns the error of the system, 0 for none.
int pyd_sched_start_threads(pyd_sched_t* sched);
// Restarts the threads that a fork removed. False when there are none.
bool pyd_sched_ensure_started(pyd_sched_t* sched);
// From now on the pool has a thread for each worker.
pyd_status_t pyd_sched_start_for_tasks(pyd_sched_t* sched);

#endif  // PYD_SCHED_INTERNAL_H_
