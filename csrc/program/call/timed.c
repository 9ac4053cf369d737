// Execution of a call one command after another, with the time of each, for profiles.
#include "platform/cpu_inline.h"
#include "program/call/step.h"
#include "program/commands/command.h"

// A command that is measured, as the |self| of the job's body.
typedef struct timed_job_s {
  const pyd_call_t* call;
  const pyd_call_command_t* command;
} timed_job_t;

// Runs indices [begin, end) of a single command; the body of a job. |self|: a timed_job_t. |*out_failed| is relative to
// the command, not to its step, as the job has the command's indices only.
static int32_t run_command(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const timed_job_t* job = self;
  int32_t code = pyd_command_run(job->call, job->command, worker, begin, end, out_failed);
  if (code != 0) *out_failed -= job->command->plan->start;
  return code;
}

// Runs command |number| as a job of its own, so that its time can be measured. Other commands of its step run in jobs
// of their own. The job has no cost estimate, as the plan has one for the whole step only.
static pyd_status_t run_alone(const pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt) {
  const pyd_call_command_t* command = &call->commands[number];
  const uint64_t count = command->plan->count;
  timed_job_t job = {.call = call, .command = command};
  pyd_sched_failure_t failure = {0};
  if (count == 1 || !call->sched) {
    failure.code = run_command(&job, /* worker */ 0, /* begin */ 0, /* end */ count, &failure.index);
  } else {
    const pyd_sched_job_t description = {
        .body = run_command, .self = &job, .count = count, .cost = NULL, .interrupt = interrupt};
    pyd_sched_run(call->sched, &description, &failure);
  }
  if (failure.is_interrupted) return pyd_call_interrupted(call);
  if (failure.code == 0) return PYD_STATUS_OK;
  const uint64_t index_in_step = command->plan->start + failure.index;
  return pyd_command_type(command->plan)->refuse(call, command->plan, index_in_step, failure.code);
}

// Returns whether command |number| has nothing to do in this call.
static bool is_skipped(const pyd_call_t* call, uint32_t number) {
  const pyd_plan_command_t* command = &call->plan->commands[number];
  const pyd_command_type_t* type = pyd_command_type(command);
  return command->count == 0 || (type->is_skipped && type->is_skipped(call, command));
}

// Runs all commands of a call, and fills in their begin and end times: nanoseconds since the start of the run. Leaves
// the times of skipped commands as they are. The commands of a chain run interleaved, tile by tile: each of them gets
// the times of the whole chain.
static pyd_status_t run_all(const pyd_call_t* call, const pyd_interrupt_t* interrupt, pyd_command_time_t* out_times) {
  const pyd_plan_t* plan = call->plan;
  const uint64_t start = pyd_cpu_nanoseconds();
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < plan->step_count && pyd_ok(status); ++i) {
    const pyd_plan_step_t* step = &plan->steps[i];
    const bool is_chain = step->chunk != 0;
    const bool runs_whole = is_chain || step->command_count == 1;
    for (uint32_t k = step->first_command; k < step->first_command + step->command_count && pyd_ok(status); ++k) {
      if (is_skipped(call, k)) continue;
      if (is_chain && k > step->first_command) {  // has run with the first command
        out_times[k] = out_times[step->first_command];
        continue;
      }
      if (interrupt && interrupt->is_wanted(interrupt->self)) return pyd_call_interrupted(call);
      out_times[k].begin = pyd_cpu_nanoseconds() - start;
      status = runs_whole ? pyd_step_run_whole(call, i, interrupt) : run_alone(call, k, interrupt);
      out_times[k].end = pyd_cpu_nanoseconds() - start;
    }
  }
  return status;
}

// Runs a call and fills in |out_times|, the begin and end of each command of the plan in nanoseconds since the start of
// the run. Both are 0 for a skipped command.
pyd_status_t pyd_call_run_timed(pyd_call_t* call, const pyd_interrupt_t* interrupt, pyd_command_time_t* out_times) {
  const pyd_plan_t* plan = call->plan;
  for (uint32_t i = 0; i < plan->command_count; ++i) out_times[i] = (pyd_command_time_t){0, 0};
  if (plan->program->runner.run) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "function '%.*s': its device runs whole calls; commands are timed on the CPU only",
                           STRING(plan->fn->info.name));
  }
  void* arena;
  pyd_status_t status = pyd_call_begin(call, interrupt, &arena);
  if (!pyd_ok(status)) return status;
  status = run_all(call, interrupt, out_times);
  if (arena) pyd_pool_release(call->pool, arena);
  return status;
}
