// Tasks: asynchronous work of a scheduler.
//
//   create ─ submit ─ [wait for other tasks] ─ queue ─ run on pool threads ─ end: waiters, dependents, |on_done|
//
// A task runs as a sequence of jobs (sched.h), each shared by any pool threads. The last thread to leave a job
// continues the task, so that no thread waits for a submitted task. A thread that waits for a queued task runs it
// itself.
//
// The pool has as many threads as the scheduler has workers from the first submit on. Every function may be called from
// any thread.
#ifndef PYDISPATCH_TASK_H_
#define PYDISPATCH_TASK_H_

#include "pydispatch/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_task_s pyd_task_t;

// Operations of a kind of task. |self|: the payload of a task.
typedef struct pyd_task_kind_s {
  // Continues the task on pool thread |worker|. Returns true if the task has ended, with |*out_status|. Returns false
  // if pyd_task_share returned false: another thread then continues the task, perhaps already.
  bool (*advance)(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status);
  // Runs the whole task, on a thread that waits for it or, if the task may block, on a thread for blocking tasks.
  pyd_status_t (*run)(void* self, const pyd_interrupt_t* interrupt);
  // Destroys the payload when the last reference is released, also if the task has never run. If no caller has a
  // reference when the task ends, it is called after |end| and before pyd_task_is_done returns true. May be NULL.
  void (*drop)(void* self);
  // Called once when a submitted task ends, with any status, before pyd_task_is_done returns true and with no lock
  // held. May be NULL.
  void (*end)(void* self);
} pyd_task_kind_t;

// Priority of a task; tasks with a smaller value start first.
typedef enum pyd_priority_e { PYD_PRIORITY_HIGH, PYD_PRIORITY_NORMAL, PYD_PRIORITY_LOW, PYD_PRIORITIES } pyd_priority_t;

// Options of the submission of a task: its priority and threads, the tasks that it waits for, and a callback at its
// end.
typedef struct pyd_submit_options_s {
  uint32_t priority;  // pyd_priority_t
  uint32_t workers;   // threads that work for it at once, at most; 0: all of the scheduler
  // Tasks of the same scheduler that end first. When one of them fails or is cancelled, this one ends so too, without
  // having run.
  pyd_task_t* const* after;
  uint32_t after_count;
  // A task that ends first, with any status. May be NULL.
  pyd_task_t* order_after;
  // Called once when the task has ended, on the thread that ended it and with no lock held. May be NULL. Not in the
  // child of a fork.
  void (*on_done)(void* context, pyd_task_t* task);
  void* context;
} pyd_submit_options_t;

// Creates a task with |bytes| of zeroed payload, aligned to 16. The caller has a reference.
pyd_status_t pyd_task_create(pyd_sched_t* sched, const pyd_task_kind_t* kind, size_t bytes, pyd_task_t** out_task);
void* pyd_task_payload(pyd_task_t* task);
// Declares, before submission, that the task may sleep, for example in host commands. |run| of its kind then runs it on
// a thread outside the pool, so that it occupies no compute thread. If pool threads are donated, it runs like other
// tasks.
void pyd_task_set_blocking(pyd_task_t* task);
// The caller has a reference. In |on_done| the payload may have been released.
void pyd_task_retain(pyd_task_t* task);
// A submitted task continues. NULL is allowed.
void pyd_task_release(pyd_task_t* task);
// Takes a reference to the end of a task, for |order_after| of a later task. It does not retain the payload.
void pyd_task_retain_end(pyd_task_t* task);
void pyd_task_release_end(pyd_task_t* task);

// Once for each task. |options| may be NULL: normal priority and nothing else. SYSTEM when there is no thread to run
// it, INVALID_ARGUMENT for a task of another scheduler in |after| and while the scheduler is being stopped; the task
// has then not been submitted.
pyd_status_t pyd_task_submit(pyd_task_t* task, const pyd_submit_options_t* options);

// Returns whether the task has ended: run, failed, or cancelled. In the child of a fork, the parent's tasks have ended.
bool pyd_task_is_done(pyd_task_t* task);
// Sets |on_done|, in place of the one that it was submitted with. False when the task has ended: it will not be called.
bool pyd_task_set_on_done(pyd_task_t* task, void (*on_done)(void* context, pyd_task_t* task), void* context);
// Requests cancellation, which takes effect between two chunks of indices. A queued task ends at once. Returns false if
// the task had ended, or had committed its effects.
bool pyd_task_cancel(pyd_task_t* task);
// Returns whether cancellation was requested. A task that ended early has the status INTERRUPTED.
bool pyd_task_is_cancelled(const pyd_task_t* task);

typedef enum pyd_wait_e { PYD_WAIT_DONE, PYD_WAIT_TIMEOUT, PYD_WAIT_INTERRUPTED } pyd_wait_t;
#define PYD_WAIT_FOREVER UINT64_MAX
// Waits for |nanoseconds| at most. |interrupt| (may be NULL) ends the waiting, or the task when this thread runs it.
pyd_wait_t pyd_task_wait(pyd_task_t* task, uint64_t nanoseconds, const pyd_interrupt_t* interrupt);

// Returns the status of a completed task, which the task owns.
pyd_status_t pyd_task_status(const pyd_task_t* task);
// Whether a completed task was not run, because a task that it waited for had failed or was cancelled.
bool pyd_task_is_skipped(const pyd_task_t* task);

// ---- for kinds

// Runs |job|, whose interrupt is ignored in favour of the task's. True: it has ended, with pyd_task_failure. False:
// other threads are still in it, and the last one continues the task. Only in |advance|.
bool pyd_task_share(pyd_task_t* task, const pyd_sched_job_t* job, uint32_t worker);
const pyd_sched_failure_t* pyd_task_failure(const pyd_task_t* task);
// Called before a running task makes its effects final: it cannot be cancelled any more. False: it was cancelled
// before, and must end without effects, with the status INTERRUPTED.
bool pyd_task_commit(pyd_task_t* task);
// Wanted when the task is cancelled.
const pyd_interrupt_t* pyd_task_interrupt(const pyd_task_t* task);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_TASK_H_
