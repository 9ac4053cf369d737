// Running a call for its times: one command after another, each as a job of its own.
#include "program/call/step.h"

// The indices of a job are those of the command; a command names what failed as an index of its step.
static int32_t run_command(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const pyd_step_job_t* job = self;
  const pyd_call_command_t* command = &job->call->commands[job->step->first_command];
  uint64_t failed = command->plan->start + begin;
  int32_t code = command->run(job->call, command, worker, begin, end, &failed);
  *out_failed = failed - command->plan->start;
  return code;
}

static pyd_status_t run_alone(pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt, pyd_command_time_t* time) {
  const pyd_plan_step_t alone = {.first_command = number, .command_count = 1, .total = call->plan->commands[number].count};
  pyd_step_job_t job = {.call = call, .step = &alone};
  pyd_sched_failure_t failure = {0};
  const pyd_sched_job_t description = {run_command, &job, alone.total, &time->cost, interrupt};
  const uint64_t start = pyd_sched_nanoseconds();
  if (alone.total == 1 || !call->sched) {
    failure.code = run_command(&job, 0, 0, alone.total, &failure.index);
  } else {
    pyd_sched_run(call->sched, &description, &failure);
  }
  time->nanoseconds = pyd_sched_nanoseconds() - start;
  failure.index += call->plan->commands[number].start;
  return pyd_step_outcome(&job, &failure);
}

pyd_status_t pyd_call_time(pyd_call_t* call, const pyd_interrupt_t* interrupt, pyd_command_time_t* times) {
  const pyd_plan_t* plan = call->plan;
  if (plan->program->runner.run) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "a device that runs calls by itself measures them by itself, too");
  }
  void* arena;
  pyd_status_t status = pyd_call_begin(call, &arena);
  for (uint32_t i = 0; i < plan->command_count && pyd_ok(status); ++i) {
    times[i].nanoseconds = 0;
    if (plan->commands[i].count) status = run_alone(call, i, interrupt, &times[i]);
  }
  if (arena) pyd_pool_release(call->pool, arena);
  return status;
}

uint64_t pyd_plan_command_bytes(const pyd_plan_t* plan, uint32_t index) {
  const pyd_plan_command_t* command = &plan->commands[index];
  uint64_t bytes = 0;
  if (command->count == 0) return 0;
  for (uint32_t i = 0; i < command->slot_count; ++i) bytes += plan->slots[command->first_slot + i].length;
  return bytes;
}

uint64_t pyd_plan_command_workgroups(const pyd_plan_t* plan, uint32_t index) {
  const pyd_plan_command_t* command = &plan->commands[index];
  return command->kind == PYD_COMMAND_DISPATCH ? command->count : 0;
}
