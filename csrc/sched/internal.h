// Internal definitions that the files of the task system share.
//
// Order of the files. Each calls only files above it:
//   permit.c      how many threads compute at once; owns pyd_permits_t
//   trace.c       the recorder of pydispatch/trace.h; owns pyd_trace_t
//   events.c      what the task system records
//   placement.c   moving threads off CPUs on which other threads compute; owns pyd_placement_t
//   affinity.c    workers and the CPUs of the machine
//   queue.c       tasks that wait for a thread; owns pyd_task_queue_t
//   wake.c        waking pool threads, and the caller of a job
//   start.c       starting pool threads
//   work.c        taking part in a published job: chunks, stealing, failures; owns pyd_sched_cell_t
//   slot.c        claiming, opening and releasing the slot of a job; owns pyd_sched_slot_t
//   job.c         pyd_sched_run: the job of a caller
//   blocking.c    threads for tasks that may sleep; owns pyd_blocking_pool_t
//   task.c        submitted tasks: dependencies, running, end; owns pyd_task_t
//   wait.c        waiting for a submitted task
//   share.c       the jobs of tasks, which have no caller
//   pool.c        the main loop of a pool thread: work, spin, park
//   destroy.c     destruction by one of the scheduler's own threads
//   lend.c        threads donated by an embedder
//   scheduler.c   create, stop, destroy, fork; owns pyd_sched_t
//
// Calls against that order, all of them by threads or to start threads:
//   start.c -> destroy.c        the function that a pool thread runs
//   queue.c -> blocking.c       a queued task that may sleep needs a thread
//   blocking.c -> task.c        such a thread runs tasks
//   blocking.c -> scheduler.c   the thread that released the last reference frees the scheduler
//   destroy.c -> scheduler.c    a pool thread that released the last reference frees the scheduler
//   lend.c -> scheduler.c       a thread of an embedder that released the last reference frees the scheduler
//
// Synchronization. A caller fills a slot, opens it (slot.state, release) and sets its bit in sched.open. A pool thread
// sees the bit, joins (slot.state, acquire), works, leaves (release). The caller closes the slot and waits until the
// count of participants is zero (acquire). Publishing and parking are the two sides of a store-then-load race, so both
// use sequentially consistent operations. Publishing: "open |= bit; read spinners and sleepers; claim the wake event".
// Parking: "spinners -= 1; sleepers += 1; reset the wake event; read open". A submitted task is published like a job,
// with |queued| in place of |open|.
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
#define PYD_SLOT_COUNT 0x0000FFFFu    // mask: number of participating pool threads
#define PYD_SLOT_ROOM_SHIFT 16        // first bit of the limit of that number
#define PYD_SLOT_ROOM (0xFFFu << PYD_SLOT_ROOM_SHIFT)

// slot.failure without a failure. Otherwise the upper half is the index within the window, so that a lower index
// compares as less, and the lower half is the code.
#define PYD_SCHED_NO_FAILURE UINT64_MAX
// slot.failure after the interrupt ended the job. It compares as greater than any failure, as no index is that large.
#define PYD_SCHED_INTERRUPTED (UINT64_MAX - 1)

// The unclaimed indices of one participant, on a cache line of its own. During a theft a range of indices may be in no
// cell, so that empty cells alone do not show that all indices are claimed (steal() in work.c).
typedef struct pyd_sched_cell_s {
  alignas(PYD_CPU_CACHE_LINE) pyd_range_cell_t range;
  _Atomic uint32_t thefts;  // incremented when this participant begins a theft and when it ends it: odd meanwhile
} pyd_sched_cell_t;

// A slot of the scheduler for a running job (a parallel loop) that pool threads can join; free slots have no job.
typedef struct pyd_sched_slot_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t state;  // PYD_SLOT_*
  _Atomic uint32_t wakes_left;                         // threads that joining threads should still wake
  _Atomic uint32_t has_left_early;                     // 1: a participant left early; its cell may have indices
  _Atomic uint32_t cpu;                                // on which the caller runs; PYD_PLACEMENT_NONE without a caller
  // Written while the slot is closed, by the caller or by the thread that opens the slot for the job of a task. The
  // window is the range of at most PYD_SCHED_WINDOW indices that is open now.
  const pyd_sched_job_t* job;
  const pyd_scope_t* scope;   // the caller's innermost scope; NULL for the job of a task
  pyd_task_t* task;           // the task whose job it is; NULL: the job of a caller, which waits for its end
  uint64_t base;              // first index of the window; cells and |failure| count from it
  uint64_t opened;            // when the window was opened, in ticks
  uint64_t fp_mode;           // floating-point mode of the caller
  uint64_t cost;              // estimate, picoseconds per index, at least 1
  uint32_t max_participants;  // the caller included: the number of workers, or the worker limit of the job
  bool is_guess;              // |cost| is a default, not an estimate
  bool has_permit;            // the caller holds a compute permit
  pyd_sched_cell_t* cells;    // one per worker number, allocated with the scheduler
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t failure;  // the lowest failed index so far, see PYD_SCHED_NO_FAILURE
  pyd_event_t done;                                      // set by the last participant for the caller that sleeps
} pyd_sched_slot_t;

// CPU number of a thread that has no CPU of its own.
#define PYD_PLACEMENT_NONE 0xFFFFu

// State of the affinity mask of a pool thread, see placement.c.
typedef enum pyd_placement_state_e {
  PYD_PLACEMENT_OWN_MASK,  // the thread has the affinity mask that the program gave it
  PYD_PLACEMENT_CHANGING,  // some thread is changing the mask; a lock
  PYD_PLACEMENT_MOVED,     // the mask is |moved_to|, and the thread should restore |allowed|
  PYD_PLACEMENT_GONE,      // the thread is not in the pool
} pyd_placement_state_t;

// The affinity and current CPU of a pool thread (placement.c).
typedef struct pyd_placement_s {
  _Atomic uint32_t state;           // pyd_placement_state_t
  _Atomic uint32_t cpu;             // on which the thread ran last
  bool is_checked;                  // used by the thread itself only: |cpu| was compared with the other threads' CPUs
  pyd_thread_t thread;              // its handle, which the thread stores itself
  pyd_cpu_set_t allowed, moved_to;  // masks before and after the last change; of a pinned thread |moved_to| is its CPU
} pyd_placement_t;

// A pool thread, or an entry of the pool for a donated thread, a thread of the embedder that works for the scheduler.
typedef struct pyd_sched_thread_s {
  alignas(PYD_CPU_CACHE_LINE) pyd_event_t wake;  // clear: the thread is parked
  struct pyd_sched_s* sched;
  uint32_t worker;  // its number: entry i is worker i + 1, the last entry is worker 0
  pyd_thread_t thread;
  bool is_taken;                 // by a donated thread; under the lifecycle mutex
  bool destroys_sched;           // when it leaves the pool, as the last reference was released on this thread
  const pyd_interrupt_t* until;  // ends the donation of a donated thread; may be NULL
  _Atomic uint64_t idle_since;   // when it became idle, in ticks; 0: the thread is working
  // Used by the thread itself only:
  uint64_t spin;                          // nanoseconds for which it spins before it parks
  uint64_t last_idle;                     // when it last became idle, in ticks
  bool has_idled;                         // since |last_idle| it has begun no task and no job
  bool has_slept;                         // it has parked since |last_idle|
  uint64_t worth_spinning, worth_waking;  // its own estimates, in picoseconds, of the shared values of pyd_sched_t
  pyd_placement_t placement;
} pyd_sched_thread_t;

// Queued tasks: one FIFO list per priority.
typedef struct pyd_task_list_s {
  pyd_task_t *head[PYD_PRIORITIES], *tail[PYD_PRIORITIES];
} pyd_task_list_t;

// All submitted tasks.
typedef struct pyd_task_queue_s {
  pthread_mutex_t mutex;       // guards the state of all tasks; never held while waiting
  pthread_cond_t has_changed;  // broadcast at the end of each task while the scheduler is closing
  pyd_task_list_t ready;       // tasks that pool threads may run
  pyd_task_t* live;            // all tasks that have not ended
} pyd_task_queue_t;

// A thread that runs tasks which may block.
typedef struct pyd_blocking_thread_s {
  struct pyd_sched_s* sched;
  pyd_thread_t thread;
  bool destroys_sched;  // when it exits, as the last reference was released on this thread
} pyd_blocking_thread_t;

// The threads that run tasks which may block, and the queue of these tasks; guarded by the mutex of the task queue.
// Idle threads live until the scheduler stops.
typedef struct pyd_blocking_pool_s {
  pyd_task_list_t ready;
  pthread_cond_t has_work;
  uint32_t queued;   // tasks in |ready|
  uint32_t started;  // threads, idle ones included
  uint32_t idle;     // threads that wait for |has_work|
  uint32_t active;   // threads that run a task and are not in a blocking section
  pyd_blocking_thread_t threads[PYD_SCHED_BLOCKING_THREADS];
} pyd_blocking_pool_t;

// A scheduler: its threads, the slots of running jobs, and the queue of tasks.
struct pyd_sched_s {
  uint32_t workers;
  bool oversubscribed;          // more workers than CPUs: no thread spins
  int32_t spin_us;              // microseconds for which an idle thread spins; -1: adaptive
  uint64_t tick;                // picoseconds per tick of the CPU's clock, times 256
  pyd_sched_threads_t options;  // of the threads
  // With pinned workers, else NULL: the CPU of each worker, and for each worker the other workers, nearest first.
  uint32_t* cpus;
  uint16_t* near;
  pyd_cpu_set_t pinned;         // the set of |cpus|
  bool places_threads;          // placement.c is in use: the system reports CPUs, and no two workers share one
  pyd_topology_cpu_t* machine;  // the CPUs of the process
  uint32_t machine_count;
  _Atomic uint16_t* occupied;  // by index in |threads|: the CPU of an awake thread, else PYD_PLACEMENT_NONE
  pyd_sched_slot_t* slots;
  // |workers| entries. Entry i is worker i + 1, started at creation. The last entry is worker 0, started with the first
  // task: it joins jobs of tasks only, since in other jobs worker 0 is the caller.
  pyd_sched_thread_t* threads;
  uint32_t epoch;  // number of forks since the scheduler was created
  pyd_task_queue_t queue;
  pyd_blocking_pool_t blocking;
  pyd_scope_access_t scopes;
  pyd_trace_t* trace;         // may be NULL
  pthread_mutex_t lifecycle;  // guards |started| and |closing|, also over fork; never held while waiting for a thread
  pthread_cond_t stopped;     // |closing| is 0 again, or a donated thread has left
  _Atomic uint32_t wanted;    // number of pool threads that should exist; 0 if threads are donated
  _Atomic uint32_t started;   // number of pool threads that exist
  // 1: a thread could not be started for a job. Later jobs do not try again before the scheduler was stopped.
  _Atomic uint32_t start_failed;
  _Atomic uint32_t closing;  // 1: the scheduler is stopped: threads leave the pool, and no task is accepted

  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t open;  // one bit per slot that may be joined; idle threads spin on it
  _Atomic uint32_t queued;                            // tasks in the queue; idle threads spin on it
  _Atomic uint32_t callers;                           // one bit per slot whose job has a caller
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t used;  // one bit per slot that is in use
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint32_t sleepers;  // parked pool threads
  _Atomic uint32_t spinners;                              // idle pool threads that look for work
  // A thread parked, or was not woken, because no permit was free: participants wake one when a permit becomes free.
  _Atomic uint32_t lacks_permits;
  // Recent work that callers did alone because no thread was awake, in picoseconds, and the tick at which it ended.
  // Approximate.
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t serial_work;
  _Atomic uint64_t alone_until;
  _Atomic uint64_t wake_threshold;  // learned: picoseconds of work from which waking a thread pays
  // Picoseconds of work from which sharing pays while a thread spins, and the minimum of |wake_threshold|. Both are
  // multiples of measured delays.
  _Atomic uint64_t worth_spinning, worth_waking;
  pyd_permits_t* permits;
  pyd_permit_share_t share;  // its contribution to |permits|
  bool owns_permits;         // they are not shared with other schedulers, and destroyed with this one
};

// Measurements of one participant in a job.
typedef struct pyd_sched_meter_s {
  uint64_t indices;      // number of indices that it ran
  uint64_t picoseconds;  // for which it ran them, without waiting
  uint64_t yielded_at;   // |picoseconds| when it last handed its permit to another thread
  uint64_t waited;       // picoseconds that it waited for a permit
} pyd_sched_meter_t;

// Returns the product; UINT64_MAX if it overflows.
static inline uint64_t pyd_sched_multiply(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

// Converts ticks of the CPU's clock to picoseconds. |sched->tick|: picoseconds per tick, times 256.
static inline uint64_t pyd_sched_picoseconds(const pyd_sched_t* sched, uint64_t ticks) {
  const bool product_fits = ticks < UINT64_C(1) << 40;
  return product_fits ? ticks * sched->tick >> 8 : (ticks >> 8) * sched->tick;
}

// Returns the scope (the context that nested jobs inherit) of the participants in the job of |slot|. If the job has a
// worker limit, a job that a participant runs within it is limited to one worker.
static inline pyd_scope_t pyd_sched_scope_of(const pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  const bool has_limit = slot->max_participants < sched->workers;
  return (pyd_scope_t){slot->scope, sched, has_limit, PYD_SCOPE_PERMIT_INHERITED};
}

// Returns whether one more pool thread may participate. |state|: slot.state.
static inline bool pyd_slot_has_room(uint32_t state) {
  return (state & PYD_SLOT_COUNT) < (state & PYD_SLOT_ROOM) >> PYD_SLOT_ROOM_SHIFT;
}

// Clears the bit of |slot| in sched->open, so that no more threads join. Only participants may call it, because the
// slot cannot get a new job before the last of them has left.
static inline void pyd_sched_hide(pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  const uint32_t bit = 1u << (slot - sched->slots);
  // Writes only if necessary, as idle threads poll the word.
  if (atomic_load_explicit(&sched->open, memory_order_relaxed) & bit) {
    atomic_fetch_and_explicit(&sched->open, ~bit, memory_order_relaxed);
  }
}

static inline bool pyd_sched_is_interrupted(const pyd_sched_job_t* job) {
  return job->interrupt && job->interrupt->is_wanted(job->interrupt->self) != 0;
}

// work.c: marks the job as interrupted.
void pyd_sched_interrupt(pyd_sched_slot_t* slot);

// work.c: claims and steals chunks until none are left, then clears the slot's bit in sched->open, as no other thread
// would find work. |worker| must be a participant of the slot. Returns true if work may be left, but other work waits
// for a thread or a permit: this thread should leave with pyd_sched_leave_early(). Never returns true for the caller.
bool pyd_sched_work(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter);

// work.c: leaves the job although work is left. Returns false, without leaving, for the last participant of a task's
// job.
bool pyd_sched_leave_early(pyd_sched_t* sched, pyd_sched_slot_t* slot);
// work.c: after a time slice of work, hands the permit of this thread to a waiting thread and acquires one again.
// Returns when it has one, or when the interrupt of the job ends the wait.
void pyd_sched_yield(pyd_sched_t* sched, pyd_sched_slot_t* slot, pyd_sched_meter_t* meter);
// work.c: after all participants have left, returns whether one that left early left indices that no other has run.
bool pyd_sched_has_leftovers(const pyd_sched_t* sched, const pyd_sched_slot_t* slot);

// wake.c: leaves the job of a caller, and wakes the caller if this is the last participant.
void pyd_sched_leave(pyd_sched_slot_t* slot);

// slot.c: the following functions serve jobs with and without a caller.
// Acquires a slot for the job, still closed. Returns NULL when all slots are in use or there is no thread to share
// with. |cost|: picoseconds per index, 0 if unknown.
pyd_sched_slot_t* pyd_sched_acquire_slot(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t cost,
                                         pyd_task_t* task);
void pyd_sched_release_slot(pyd_sched_t* sched, pyd_sched_slot_t* slot);
// Gives |count| indices from slot->base on to |worker|, opens the slot, and wakes threads if that pays. Returns whether
// it woke one. |state|: flags that the slot gets besides PYD_SLOT_OPEN, or the initial count of participants.
bool pyd_sched_publish(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, uint32_t count, uint32_t state);

// job.c: the following functions serve jobs with and without a caller.
// Runs the part of the job that is not worth sharing on this thread: the whole job, or its first indices until their
// cost is known. Returns the first index that has not run, or job->count, and the cost of an index in picoseconds, 0 if
// unknown.
uint64_t pyd_sched_begin(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t* out_cost, pyd_sched_meter_t* meter,
                         pyd_sched_failure_t* out_failure);
// After all participants have left: stores the failure, or updates the wake-up threshold from |count| indices that took
// |picoseconds|.
void pyd_sched_settle(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t count, uint64_t picoseconds, bool has_woken,
                      pyd_sched_failure_t* out_failure);
// Updates the cost estimate of the job from |meter|.
void pyd_sched_learn(const pyd_sched_job_t* job, const pyd_sched_meter_t* meter);
// Runs the indices from |begin| on, on this thread.
void pyd_sched_run_rest(const pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t begin, pyd_sched_meter_t* meter,
                        pyd_sched_failure_t* out_failure);

// pool.c
void pyd_sched_pool_main(void* thread);
// wake.c: wakes up to |count| parked threads among the first |among| entries of sched->threads; returns how many.
uint32_t pyd_sched_pool_wake(pyd_sched_t* sched, uint32_t among, uint32_t count);
// Wakes a thread for a task that was queued, unless one spins and will see it.
void pyd_sched_wake_for_tasks(pyd_sched_t* sched);
// Returns how many entries of sched->threads, from the first one on, may join the job of |slot|: all for the job of a
// task. In the job of a caller the caller is worker 0, so that the last entry, whose thread is worker 0, may not join.
static inline uint32_t pyd_sched_joiners(const pyd_sched_t* sched, const pyd_sched_slot_t* slot) {
  return slot->task ? sched->workers : sched->workers - 1;
}

// events.c: the following functions record events of the task system.
// Returns the time at which an event begins, in ticks, for pyd_sched_trace_end(). Returns 0 while no trace is recorded:
// then pyd_sched_trace_end() does nothing.
static inline uint64_t pyd_sched_trace_begin(const pyd_sched_t* sched) {
  return pyd_trace_is_on(sched->trace) ? pyd_cpu_ticks() : 0;
}
void pyd_sched_trace_end(const pyd_sched_t* sched, pyd_trace_kind_t kind, uint64_t begin, uint32_t count);
void pyd_sched_trace_idle(pyd_sched_thread_t* self);
// Records the worker number of a thread that leaves the pool, as it may have exited when the trace ends.
void pyd_sched_trace_exit(const pyd_sched_thread_t* self);
// Acquires a compute permit for a pool thread, as pyd_permit_take(), and records a trace event if the thread waited.
// |is_for_tasks|: the thread is going to run a task of |sched|, so that a more urgent task may raise its priority.
bool pyd_sched_permit_take(pyd_sched_t* sched, uint32_t priority, bool is_for_tasks, const pyd_interrupt_t* interrupt);

// affinity.c: reads the CPUs of the machine, and with |has_affinity| assigns one to each worker. Returns false when out
// of memory.
bool pyd_sched_read_machine(pyd_sched_t* sched, bool has_affinity);

// destroy.c: returns the entry of the calling thread if it is a pool thread, started or donated; else NULL.
pyd_sched_thread_t* pyd_sched_own_thread(pyd_sched_t* sched);
// Makes the calling thread destroy the scheduler when it leaves the pool. Returns false, without effect, if it is not a
// thread of the scheduler.
bool pyd_sched_destroy_later(pyd_sched_t* sched);
// The start function of the scheduler's own threads.
void pyd_sched_thread_main(void* thread);
// scheduler.c: waits, while closing, for all threads other than |self| and |blocking|, and completes the tasks that
// none of them has taken.
void pyd_sched_end_threads(pyd_sched_t* sched, const pyd_sched_thread_t* self, const pyd_blocking_thread_t* blocking);
// Frees the scheduler, which has no threads any more.
void pyd_sched_free(pyd_sched_t* sched);

// blocking.c: resets threads and tasks to none, at creation and in the child of a fork.
void pyd_blocking_reset(pyd_sched_t* sched);
// Joins, while the scheduler is closing, the threads other than |self|, which may be NULL.
void pyd_blocking_stop(pyd_sched_t* sched, const pyd_blocking_thread_t* self);
// Returns the entry of the calling thread if it is one of the threads for tasks that may block; else NULL.
pyd_blocking_thread_t* pyd_blocking_own_thread(pyd_sched_t* sched);

// lend.c: waits until no thread is donated. The caller holds the lifecycle mutex and is closing the scheduler.
void pyd_sched_await_lent(pyd_sched_t* sched);

// start.c: starts the pool threads that are wanted and do not exist yet, until the system refuses one. Returns the
// error of the system, 0 for none. The caller holds the lifecycle mutex.
int pyd_sched_start_threads(pyd_sched_t* sched);
// Restarts the threads that a fork removed. Returns false when the pool has no thread.
bool pyd_sched_ensure_started(pyd_sched_t* sched);
// Starts the thread for worker 0 as well, which tasks need. SYSTEM when the pool has no thread at all.
pyd_status_t pyd_sched_start_for_tasks(pyd_sched_t* sched);

#endif  // PYD_SCHED_INTERNAL_H_
