// The parts of a run, for both ways of going through them: run.c, on the caller's thread, and submit.c, as a task.
#ifndef PYD_PROGRAM_STEP_H_
#define PYD_PROGRAM_STEP_H_

#include "program/call/call.h"
#include "program/traced.h"
#include "pydispatch/submit.h"

// The body of a pyd_step_job_t: a step as a job, whose indices are the workgroups and pieces of all its commands one
// after another.
int32_t pyd_step_run(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);
// chain.c: the same for a step that is a chain, whose indices are tiles.
int32_t pyd_chain_run(pyd_step_job_t* job, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);
// Of a chain that failed: the index of the workgroup, as its commands count them.
uint64_t pyd_chain_failed(const pyd_step_job_t* job);
#define PYD_CHAIN_SOUND UINT64_MAX  // pyd_step_job_t.failed at first
// The status that the job's end means.
pyd_status_t pyd_step_outcome(const pyd_step_job_t* job, const pyd_sched_failure_t* failure);
// Runs step |number| of the plan.
pyd_status_t pyd_step_run_whole(const pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt);
// Runs a step of one workgroup. False: it is another kind of step, and was not run.
bool pyd_step_run_single(const pyd_call_t* call, const pyd_plan_step_t* step, pyd_status_t* out_status);

// traced.c: as command->run, with an event for the trace that is on.
int32_t pyd_command_run_traced(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                               uint64_t begin, uint64_t end, uint64_t* out_failed);
static inline int32_t pyd_command_run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                                      uint64_t begin, uint64_t end, uint64_t* out_failed) {
  if (__builtin_expect(pyd_trace_is_on(call->trace), 0)) {
    return pyd_command_run_traced(call, command, worker, begin, end, out_failed);
  }
  return command->run(call, command, worker, begin, end, out_failed);
}

// What comes before the steps. |*out_arena|: of the pool, to be released after them; or NULL.
pyd_status_t pyd_call_begin(pyd_call_t* call, const pyd_interrupt_t* interrupt, void** out_arena);
pyd_status_t pyd_call_interrupted(const pyd_call_t* call);

#endif  // PYD_PROGRAM_STEP_H_
