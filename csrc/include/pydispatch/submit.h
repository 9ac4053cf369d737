// Asynchronous calls, as tasks (task.h), which have their order, waits, cancellation and status. A function that
// returns a task returns a reference, which its caller releases.
//
// Results are valid when the task is done. Until then the caller keeps all memory of a call allocated, and uses the
// call for nothing else.
#ifndef PYDISPATCH_SUBMIT_H_
#define PYDISPATCH_SUBMIT_H_

#include "pydispatch/procedure.h"
#include "pydispatch/task.h"

#ifdef __cplusplus
extern "C" {
#endif

// pyd_call_run as a task: each of its steps is a job that any pool threads share. |call| was made with a scheduler.
// Refused as pyd_call_run refuses a call whose buffers are not all bound; other failures are the task's.
pyd_status_t pyd_call_submit(pyd_call_t* call, const pyd_submit_options_t* options, pyd_task_t** out_task);

// Whether the call has host commands: such a task may sleep (pyd_task_set_blocking).
bool pyd_call_may_block(const pyd_call_t* call);
// Whether calls of function |function| of a program have host commands.
bool pyd_function_may_block(const pyd_program_t* program, uint32_t function);

// A step of a plan that runs as a job.
typedef struct pyd_step_job_s {
  const pyd_call_t* call;
  const struct pyd_plan_step_s* step;
  uint64_t failed;  // of a chain: the workgroup that failed (call/chain.c); accessed atomically
} pyd_step_job_t;

// Progress of one run of a call by a task, see pyd_call_advance. It is the payload of the task or a part of it.
// Zero-initialized, apart from |call|.
typedef struct pyd_call_progress_s {
  pyd_call_t* call;
  void* arena;     // block of the call's pool for transients until the run ends; NULL: none
  uint32_t step;   // number of the current step in the plan
  bool has_begun;  // the call was prepared, at the first advance
  bool is_shared;  // |job| was published to the task system
  bool is_first;   // the job had no cost estimate
  pyd_step_job_t job;
} pyd_call_progress_t;

// Runs steps of |progress->call| until it has ended, and returns true with |*out_status|, or until a step is shared
// with other threads, and returns false. Called by the |advance| of such a task, which then returns false, too.
bool pyd_call_advance(pyd_call_progress_t* progress, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status);
// INVALID_ARGUMENT names a buffer that is not bound.
pyd_status_t pyd_call_check_bound(const pyd_call_t* call);

// pyd_procedure_call as a task: one pool thread executes its steps and participates in their jobs. Calls that touch
// mutable globals of |state| run in the order in which they were submitted. |inputs| and their sizes are copied,
// tensors are not.
pyd_status_t pyd_procedure_submit(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                  const pyd_submit_options_t* options, pyd_task_t** out_task);
// Takes the invocation of a completed task, as pyd_procedure_call returns it. NULL after a failure, and when it was
// taken before.
pyd_invocation_t* pyd_procedure_take(pyd_task_t* task);

// A task of another kind that calls procedure |procedure|: submitted in the order that pyd_procedure_submit keeps.
pyd_status_t pyd_procedure_submit_task(pyd_state_t* state, uint32_t procedure, pyd_task_t* task,
                                       const pyd_submit_options_t* options);
// pyd_procedure_call for |task|, which cannot be cancelled once the stores to globals are committed. NULL: no task.
pyd_status_t pyd_procedure_call_task(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                     const pyd_interrupt_t* interrupt, pyd_task_t* task,
                                     pyd_invocation_t** out_invocation);

// One call of a batch: many calls of one function that are one task, a job whose indices are the items. One thread runs
// an item, and other threads may join in its large commands. Functions with host commands are submitted call by call
// instead, as a sleeping item would occupy a thread of the pool. The caller sets all fields; the task writes to
// |out_scalars|, |has_run| and |status|.
typedef struct pyd_batch_item_s {
  const pyd_plan_t* plan;
  void* const* args;        // by argument: tensor data, aligned as the plan states; not read for scalars
  const uint64_t* scalars;  // by scalar argument: sign-extended integer, or bits of a float; may be NULL without any
  void* const* results;     // by result: memory for tensor data, aligned as the plan states; not read for scalars
  uint64_t* out_scalars;    // by result: the value of a scalar, not written for tensors; may be NULL without any
  bool has_run;             // initially false; true: the item has run, successfully or not
  pyd_status_t status;      // initially NULL; the failure of the item. Freed with the task
} pyd_batch_item_t;

// |items| stay until the task is released, and so do their plans. The task fails when an item does, with a copy of the
// status of the first. |cost|: stored by the caller, see pyd_sched_cost_t; may be NULL. INVALID_ARGUMENT names an item
// whose function has host commands, or scalar arguments without |scalars|.
pyd_status_t pyd_batch_submit(pyd_sched_t* sched, pyd_pool_t* pool, pyd_batch_item_t* items, uint32_t count,
                              pyd_sched_cost_t* cost, const pyd_submit_options_t* options, pyd_task_t** out_task);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_SUBMIT_H_
