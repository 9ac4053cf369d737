// Execution of single steps, for run.c, which runs calls on the caller's thread, and submit.c, which runs them as
// tasks.
#ifndef PYD_PROGRAM_STEP_H_
#define PYD_PROGRAM_STEP_H_

#include "program/call/call.h"
#include "program/traced.h"
#include "pydispatch/submit.h"

// Runs indices [begin, end) of a step; the body of its job. |self|: a pyd_step_job_t. Indices are the workgroups of
// dispatches and the pieces of fills and copies, of all its commands, concatenated; in a chain they are tiles. Returns
// 0 or the code with which index |*out_failed| failed.
int32_t pyd_step_run(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);
// chain.c: runs tiles of a step that is a chain.
int32_t pyd_chain_run(pyd_step_job_t* job, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);
// Returns the index in the step of the workgroup with which a chain failed.
uint64_t pyd_chain_failed(const pyd_step_job_t* job);
#define PYD_CHAIN_SOUND UINT64_MAX  // pyd_step_job_t.failed without a failure
// Returns the status of a job that has ended.
pyd_status_t pyd_step_outcome(const pyd_step_job_t* job, const pyd_sched_failure_t* failure);
// Runs step |number| of the plan.
pyd_status_t pyd_step_run_whole(const pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt);
// Runs a step of one workgroup. Returns false, without running it, for any other step.
bool pyd_step_run_single(const pyd_call_t* call, const pyd_plan_step_t* step, pyd_status_t* out_status);

// traced.c: runs a command like command->run, and records a trace event.
int32_t pyd_command_run_traced(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                               uint64_t begin, uint64_t end, uint64_t* out_failed);
// Runs indices [begin, end) of a command, and records a trace event if the call is traced.
static inline int32_t pyd_command_run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                                      uint64_t begin, uint64_t end, uint64_t* out_failed) {
  if (__builtin_expect(pyd_trace_is_on(call->trace), 0)) {
    return pyd_command_run_traced(call, command, worker, begin, end, out_failed);
  }
  return command->run(call, command, worker, begin, end, out_failed);
}

// Prepares a run of the steps. |*out_arena|: a block of the pool to be released after the run, or NULL.
pyd_status_t pyd_call_begin(pyd_call_t* call, const pyd_interrupt_t* interrupt, void** out_arena);
// Returns the INTERRUPTED failure of a call.
pyd_status_t pyd_call_interrupted(const pyd_call_t* call);

#endif  // PYD_PROGRAM_STEP_H_
