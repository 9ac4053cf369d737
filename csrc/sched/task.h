// Tasks: definitions that the files of the task system share.
#ifndef PYD_SCHED_TASK_H_
#define PYD_SCHED_TASK_H_

#include "pydispatch/task.h"
#include "sched/internal.h"

// State of a task, in the order in which it passes through them.
typedef enum pyd_task_state_e {
  PYD_TASK_NEW,      // not submitted
  PYD_TASK_WAITING,  // for tasks on which it depends
  PYD_TASK_QUEUED,   // for a thread
  PYD_TASK_RUNNING,
  PYD_TASK_DONE,
} pyd_task_state_t;

// A dependency of one task on another, in the |dependents| of the predecessor. The dependent owns it.
typedef struct pyd_task_edge_s {
  struct pyd_task_edge_s* next;
  pyd_task_t* dependent;
  bool is_order_only;  // a failure of the predecessor does not skip the dependent
} pyd_task_edge_t;

// A thread that waits for a task; on its stack.
typedef struct pyd_task_waiter_s {
  struct pyd_task_waiter_s *next, *previous;
  pyd_event_t event;
} pyd_task_waiter_t;

// Whether a task is cancelled, and whether it can be.
typedef enum pyd_cancellation_e {
  PYD_CANCELLATION_POSSIBLE,
  PYD_CANCELLATION_REQUESTED,
  PYD_CANCELLATION_TOO_LATE,  // the effects of the task are final
} pyd_cancellation_t;

// A task; its payload follows it in memory.
struct pyd_task_s {
  _Atomic uint32_t state;  // pyd_task_state_t; changed under the mutex of the queue
  // Reference counts of the task and of its payload. A reference of an owner, or of the scheduler from submission until
  // the end of the task, counts in both. A reference of pyd_task_retain_end() counts in |references| only. The
  // scheduler releases its reference to the payload before the task becomes DONE: an owner that then releases the last
  // one may free afterwards what the payload uses.
  _Atomic uint32_t references, payload_references;
  _Atomic uint32_t cancellation;  // pyd_cancellation_t
  uint32_t priority;              // pyd_priority_t
  uint32_t workers;               // worker limit; 0: none
  uint32_t epoch;                 // of the scheduler at submission: tells which tasks a fork lost
  bool is_skipped;
  uint32_t skips;              // of a skipped task: the number of tasks in its chain that were skipped before it
  uint32_t prefix;             // of a skipped task: bytes of its status text before the text of the task that failed
  bool is_blocking;            // it runs on a thread of blocking.c
  _Atomic uint32_t has_ended;  // end() of the payload was called, which must happen once, also across a fork
  pyd_sched_t* sched;
  const pyd_task_kind_t* kind;
  pyd_interrupt_t interrupt;                         // wanted when the task is cancelled
  uint64_t fp_mode;                                  // floating-point mode of the thread that submitted it
  void (*on_done)(void* context, pyd_task_t* task);  // may be NULL
  void* context;
  pyd_status_t status;  // of a task that is DONE or will be skipped
  // Under the mutex of the queue:
  pyd_task_t *next, *previous;            // in the queue
  pyd_task_t *live_next, *live_previous;  // in the list of submitted tasks that have not ended
  uint32_t pending;                       // number of unfinished predecessors
  pyd_task_edge_t* dependents;
  pyd_task_waiter_t* waiters;
  pyd_task_edge_t* edges;  // its edges, which are in the lists of its predecessors
  // The job that the task shares now (share.c); used by the thread that advances the task:
  pyd_sched_job_t job;
  uint64_t begin;        // first index of the current window, a range of indices that is opened at once
  uint32_t window;       // number of indices in the window, at most PYD_SCHED_WINDOW
  bool has_woken;        // opening the window has woken a thread
  uint64_t cost, start;  // picoseconds per index, 0 if unknown; when the window was opened, in ticks
  pyd_sched_failure_t failure;
};

// queue.c: the queue of tasks. Lock and unlock the mutex that guards the state of all tasks of |sched|. It is never
// held while waiting, or during a callback.
static inline void pyd_task_lock(pyd_sched_t* sched) { pthread_mutex_lock(&sched->queue.mutex); }
static inline void pyd_task_unlock(pyd_sched_t* sched) { pthread_mutex_unlock(&sched->queue.mutex); }
// Returns the pyd_task_state_t of |task|. Without the mutex any state but DONE may be outdated at once.
static inline uint32_t pyd_task_state(const pyd_task_t* task) {
  return atomic_load_explicit(&task->state, memory_order_acquire);
}
// Appends |task| to the queue of its priority and makes it QUEUED. The caller holds the mutex.
void pyd_task_push(pyd_task_t* task);
// Removes the next task from |list|, makes it RUNNING and returns it; NULL when the list is empty. The caller holds the
// mutex.
pyd_task_t* pyd_task_pop(pyd_task_list_t* list);
// Removes |task| from the queue and makes it RUNNING. Returns false if it is not queued.
bool pyd_task_claim(pyd_task_t* task);
// Removes and returns the next task for pool threads.
pyd_task_t* pyd_task_take(pyd_sched_t* sched);
// Returns the priority of that task; the lowest one when the queue is empty.
uint32_t pyd_task_next_priority(pyd_sched_t* sched);

// Runs a whole dequeued task on this thread, which is not a pool thread. |interrupt| may be NULL.
void pyd_task_run_here(pyd_task_t* task, const pyd_interrupt_t* interrupt);
// blocking.c: starts or wakes a thread for the queued tasks that may block. Returns false if there is no thread and
// none can be started. The caller holds the mutex.
bool pyd_blocking_ensure_thread(pyd_sched_t* sched);

// Starts a dequeued task on this thread, which is pool thread |worker|.
void pyd_task_start(pyd_task_t* task, uint32_t worker);
// Advances a task whose shared job has ended.
void pyd_task_resume(pyd_task_t* task, uint32_t worker);

// share.c: leaves the job of |slot|, which belongs to a task, and advances the task if this is the last participant.
void pyd_task_leave(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter);

// Requests the cancellation of all tasks, before the threads are joined.
void pyd_task_cancel_all(pyd_sched_t* sched);
// Completes the tasks that no thread has taken, and waits for those that their waiters run, after the threads are
// joined.
void pyd_task_drain(pyd_sched_t* sched);

#endif  // PYD_SCHED_TASK_H_
