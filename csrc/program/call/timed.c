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

// Runs command |number|, one of several of a step, as a job of its own, so that its time can be measured. The job has
// no cost estimate, as the plan has one for the whole step only.
static pyd_status_t run_alone(const pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt) {
  const pyd_call_command_t* command = &call->commands[number];
  const uint64_t count = command->plan->count;
  timed_job_t job = {call, command};
  pyd_sched_failure_t failure = {0};
  if (count == 1 || !call->sched) {
    failure.code = run_command(&job, 0, 0, count, &failure.index);
  } else {
    const pyd_sched_job_t description = {run_command, &job, count, NULL, interrupt};
    pyd_sched_run(call->sched, &description, &failure);
  }
  if (failure.is_interrupted) return pyd_call_interrupted(call);
  if (failure.code == 0) return PYD_STATUS_OK;
  return pyd_command_type(command->plan)
      ->refuse(call, command->plan, command->plan->start + failure.index, failure.code);
}

// Returns whether command |number| has nothing to do in this call.
static bool is_skipped(const pyd_call_t* call, uint32_t number) {
  const pyd_plan_command_t* command = &call->plan->commands[number];
  const pyd_command_type_t* type = pyd_command_type(command);
  return command->count == 0 || (type->is_skipped && type->is_skipped(call, command));
}

// Runs all commands of a call, and fills their times: nanoseconds since the start of the run. A skipped command has
// none. The commands of a chain run interleaved, so all have the time of the chain.
static pyd_status_t run_all(const pyd_call_t* call, const pyd_interrupt_t* interrupt, pyd_command_time_t* out_times) {
  const pyd_plan_t* plan = call->plan;
  const uint64_t start = pyd_cpu_nanoseconds();
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < plan->step_count && pyd_ok(status); ++i) {
    const pyd_plan_step_t* step = &plan->steps[i];
    const bool is_whole = step->chunk || step->command_count == 1;  // a chain or one command
    for (uint32_t k = step->first_command; k < step->first_command + step->command_count && pyd_ok(status); ++k) {
      if (is_skipped(call, k)) continue;  // it has no time
      if (step->chunk && k > step->first_command) {
        out_times[k] = out_times[step->first_command];
        continue;
      }
      if (interrupt && interrupt->is_wanted(interrupt->self)) return pyd_call_interrupted(call);
      out_times[k].begin = pyd_cpu_nanoseconds() - start;
      status = is_whole ? pyd_step_run_whole(call, i, interrupt) : run_alone(call, k, interrupt);
      out_times[k].end = pyd_cpu_nanoseconds() - start;
    }
  }
  return status;
}

// Runs a call and fills |out_times|, one for each command of the plan: nanoseconds since the start, 0 to 0 for skipped
// ones.
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
