// Tasks as the files of the task system share them.
#ifndef PYD_SCHED_TASK_H_
#define PYD_SCHED_TASK_H_

#include "pydispatch/task.h"
#include "sched/internal.h"

typedef enum pyd_task_state_e {
  PYD_TASK_NEW,      // not submitted
  PYD_TASK_WAITING,  // for other tasks
  PYD_TASK_QUEUED,
  PYD_TASK_RUNNING,
  PYD_TASK_DONE,
} pyd_task_state_t;

// In the list of a task that another one waits for.
typedef struct pyd_task_edge_s {
  struct pyd_task_edge_s* next;
  pyd_task_t* dependent;
  bool is_order_only;  // how the task ends does not matter
} pyd_task_edge_t;

// A thread that waits, on its stack.
typedef struct pyd_task_waiter_s {
  struct pyd_task_waiter_s *next, *previous;
  pyd_event_t event;
} pyd_task_waiter_t;

struct pyd_task_s {
  _Atomic uint32_t state;  // changed under the mutex of the queue
  // The owner's, and the scheduler's from submit on. Of the payload the scheduler lets go before anybody sees the task
  // done, so that what the payload uses may go with the owner's last reference.
  _Atomic uint32_t references, payload_references;
  _Atomic uint32_t is_cancelled;
  uint32_t priority;
  uint32_t workers;  // 0: all
  uint32_t epoch;    // of the scheduler, at submit
  bool is_skipped;
  uint32_t skips;              // of a task that was skipped: how many tasks of its chain were skipped before it
  uint32_t prefix;             // bytes of the status text before that of the task that failed
  bool is_blocking;            // for the threads of blocking.c
  _Atomic uint32_t has_ended;  // the payload: once, also when a fork came between
  pyd_sched_t* sched;
  const pyd_task_kind_t* kind;
  pyd_interrupt_t interrupt;
  uint64_t fp_mode;  // of the thread that submitted it
  void (*on_done)(void* context, pyd_task_t* task);
  void* context;
  pyd_status_t status;
  // Under the mutex of the queue:
  pyd_task_t *next, *previous;            // in the queue
  pyd_task_t *live_next, *live_previous;  // all that are submitted and have not ended
  uint32_t pending;                       // tasks that it waits for
  pyd_task_edge_t* dependents;
  pyd_task_waiter_t* waiters;
  pyd_task_edge_t* edges;  // its own, in the lists of others
  // Of the job that is shared (share.c), of whoever goes on with the task:
  pyd_sched_job_t job;
  uint64_t begin;  // of the window
  uint32_t window;
  bool has_woken;
  uint64_t cost, start;
  pyd_sched_failure_t failure;
};

// queue.c
static inline void pyd_task_lock(pyd_sched_t* sched) { pthread_mutex_lock(&sched->queue.mutex); }
static inline void pyd_task_unlock(pyd_sched_t* sched) { pthread_mutex_unlock(&sched->queue.mutex); }
static inline uint32_t pyd_task_state(const pyd_task_t* task) {
  return atomic_load_explicit(&task->state, memory_order_acquire);
}
// Under the mutex: adds |task| behind those of its priority; it is QUEUED from now on.
void pyd_task_push(pyd_task_t* task);
// Under the mutex: removes and returns the next task of |list|, which is RUNNING from now on; NULL when there is none.
pyd_task_t* pyd_task_pop(pyd_task_list_t* list);
// Takes |task| out of the queue. False when it is not in it.
bool pyd_task_claim(pyd_task_t* task);
// Removes and returns the next task for pool threads.
pyd_task_t* pyd_task_take(pyd_sched_t* sched);
// Of that task; the lowest when there is none.
uint32_t pyd_task_next_priority(pyd_sched_t* sched);

// Runs the whole task, which was taken, on a thread that is no pool thread. |interrupt| may be NULL.
void pyd_task_run_here(pyd_task_t* task, const pyd_interrupt_t* interrupt);
// blocking.c, under the mutex: sees to it that threads run the tasks that may block. False: there is no thread and none
// can be started.
bool pyd_blocking_ensure_thread(pyd_sched_t* sched);

// Runs a task that was taken, as pool thread |worker|.
void pyd_task_start(pyd_task_t* task, uint32_t worker);
// Goes on with it, when its job has ended.
void pyd_task_resume(pyd_task_t* task, uint32_t worker);

// share.c: leaves the job of |slot|, which belongs to a task, and goes on with that when this is the last to leave.
void pyd_task_leave(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter);

// Around the end of the threads: asks all tasks for an end; then ends what no thread took, and waits for those that
// their waiters run.
void pyd_task_cancel_all(pyd_sched_t* sched);
void pyd_task_drain(pyd_sched_t* sched);

#endif  // PYD_SCHED_TASK_H_
