// Execution of calls. A step with one workgroup is a plain function call. Every other step is one job, whose indices
// are the workgroups and pieces of all its commands, concatenated.
#include "program/call/step.h"

#include "program/commands/command.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

// Returns the command of |step| that index |index| belongs to: the last one that starts at or before it. An empty
// command starts where the next one does, so it is never the last.
static const pyd_call_command_t* find_command(const pyd_call_t* call, const pyd_plan_step_t* step, uint64_t index) {
  const pyd_plan_command_t* commands = call->plan->commands + step->first_command;
  uint32_t low = 0, high = step->command_count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (commands[middle].start <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &call->commands[step->first_command + low];
}

// Runs indices [begin, end) of a step, the body of its job |self|, a pyd_step_job_t. The indices are the workgroups of
// dispatches, the pieces of fills and copies (commands/pieces.h) and one index per host command, of all the step's
// commands, concatenated; in a chain, they are tiles. Returns 0, or the code with which index |*out_failed| failed.
int32_t pyd_step_run(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  pyd_step_job_t* job = self;
  const pyd_call_t* call = job->call;
  const pyd_call_command_t* command = &call->commands[job->step->first_command];
  if (LIKELY(job->step->command_count == 1)) return pyd_command_run(call, command, worker, begin, end, out_failed);
  if (job->step->chunk) return pyd_chain_run(job, worker, begin, end, out_failed);
  int32_t code = 0;
  for (command = find_command(call, job->step, begin); begin < end && code == 0; ++command) {
    uint64_t start = command->plan->start, stop = start + command->plan->count;
    if (stop > end) stop = end;
    if (stop == begin) continue;  // a command without workgroups or pieces
    code = pyd_command_run(call, command, worker, begin - start, stop - start, out_failed);
    begin = stop;
  }
  return code;
}

// Returns the failure of a step whose command returned |code| at index |index| of the step.
static pyd_status_t refuse(const pyd_call_t* call, const pyd_plan_step_t* step, uint64_t index, int32_t code) {
  const pyd_plan_command_t* command = find_command(call, step, index)->plan;
  return pyd_command_type(command)->refuse(call, command, index, code);
}

// Returns the INTERRUPTED failure of a call.
pyd_status_t pyd_call_interrupted(const pyd_call_t* call) {
  pyd_string_t name = call->plan->fn->info.name;
  return pyd_status_make(PYD_CODE_INTERRUPTED, "function '%.*s': the call was interrupted", (int)name.length,
                         name.data);
}

// Returns the status of a step's job that has ended with |failure|.
pyd_status_t pyd_step_outcome(const pyd_step_job_t* job, const pyd_sched_failure_t* failure) {
  if (failure->is_interrupted) return pyd_call_interrupted(job->call);
  if (LIKELY(failure->code == 0)) return PYD_STATUS_OK;
  return refuse(job->call, job->step, job->step->chunk ? pyd_chain_failed(job) : failure->index, failure->code);
}

// Runs step |number| of the plan, on the workers of the scheduler if it has several indices. |interrupt|: may be NULL.
// Such a run of a step that is one dispatch without a cost estimate adds the measured cost to the cost history
// (plan/learned.c), from which later plans take their estimates.
pyd_status_t pyd_step_run_whole(const pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt) {
  const pyd_plan_step_t* step = &call->plan->steps[number];
  pyd_step_job_t job = {call, step, /* failed */ PYD_CHAIN_SOUND};
  pyd_sched_failure_t failure = {0};
  // One worker without an interrupt to poll needs no scheduler.
  if (step->total == 1 || (call->workers == 1 && (!interrupt || !call->sched))) {
    failure.code = pyd_step_run(&job, 0, 0, step->total, &failure.index);
  } else {
    const pyd_sched_job_t description = {pyd_step_run, &job, step->total, &call->plan->costs[number], interrupt};
    const bool is_first = !pyd_plan_known_cost(call->plan, number);
    pyd_sched_run(call->sched, &description, &failure);
    if (is_first) pyd_plan_note_cost(call->plan, number);
  }
  return pyd_step_outcome(&job, &failure);
}

// Steps between two polls of the interrupt. More of them delay the end of an interrupted call; fewer cost a poll, which
// may be slower than a step of one workgroup, more often.
enum { kPollSteps = 64 };

// Runs a step that is one workgroup of a dispatch, without the scheduler. Returns false, without running it, for any
// other step, and in calls that find uninitialized reads.
static inline bool run_single(const pyd_call_t* call, const pyd_plan_step_t* step, pyd_status_t* out_status) {
  const pyd_call_command_t* command = &call->commands[step->first_command];
  if (step->total != 1 || !command->function || call->is_poisoned)
    return false;  // poisoned calls fill local memory before each workgroup, which only run() of dispatch.c does
  int32_t code = pyd_dispatch_call(command->function, command->is_embedded, command->environment, &command->state,
                                   &command->workgroup);
  *out_status = LIKELY(code == 0) ? PYD_STATUS_OK : refuse(call, step, 0, code);
  return true;
}

// Runs a step of one workgroup, as run_single() does. Also returns false, without running the step, while a trace is
// recorded: pyd_step_run(), which the caller then uses, records an event for each command.
bool pyd_step_run_single(const pyd_call_t* call, const pyd_plan_step_t* step, pyd_status_t* out_status) {
  return !pyd_trace_is_on(call->trace) && run_single(call, step, out_status);
}

// Runs all steps of a call, and polls |interrupt| (may be NULL) every kPollSteps of them.
static inline pyd_status_t run_steps(const pyd_call_t* call, const pyd_interrupt_t* interrupt, bool is_traced) {
  const pyd_plan_t* plan = call->plan;
  const uint32_t count = plan->step_count;
  for (uint32_t begin = 0;;) {
    const uint32_t end = count - begin > kPollSteps ? begin + kPollSteps : count;
    for (uint32_t i = begin; i < end; ++i) {
      pyd_status_t status;
      if (is_traced || !run_single(call, &plan->steps[i], &status)) status = pyd_step_run_whole(call, i, interrupt);
      if (!LIKELY(pyd_ok(status))) return status;
    }
    if (LIKELY(end == count)) return PYD_STATUS_OK;
    if (interrupt && interrupt->is_wanted(interrupt->self)) return pyd_call_interrupted(call);
    begin = end;
  }
}

// Computes the constant words of commands and the patterns of fills that depend on the scalars of this call.
static pyd_status_t compute_late(pyd_call_t* call) {
  const pyd_plan_t* plan = call->plan;
  pyd_status_t status = pyd_function_interpret_late(plan->program, plan->fn, call->scalars, call->regs);
  if (!pyd_ok(status)) return status;
  for (uint32_t i = 0; i < plan->deferred_count; ++i) {
    const pyd_plan_deferred_t* deferred = &plan->deferred[i];
    uint64_t value = call->regs[deferred->reg];
    // |target| is the index of a fill among the commands, or of a word among the constants.
    if (deferred->is_pattern) {
      call->commands[deferred->target].pattern = value;
    } else {
      call->constants[deferred->target] = (uint32_t)(value >> (deferred->is_high ? 32 : 0));
    }
  }
  call->is_late_stale = false;
  return PYD_STATUS_OK;
}

// Returns the failure that names the first argument or result without memory.
static pyd_status_t refuse_unbound(const pyd_call_t* call) {
  const pyd_function_t* fn = call->plan->fn;
  char who[128] = "a buffer";
  // From the last to the first, so that |who| names the first one in the end.
  for (uint32_t i = fn->buffer_count; i-- > 0;) {
    bool needs = fn->buffers[i].kind == PYD_BUFFER_ARGUMENT || fn->buffers[i].kind == PYD_BUFFER_RESULT;
    if (needs && !call->is_bound[i]) pyd_plan_name_buffer(fn, i, who, sizeof(who));
  }
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%.*s: %s has no memory; bind it before the call is run",
                         (int)fn->info.name.length, fn->info.name.data, who);
}

// Checks that all arguments and results are bound. Computes the derived constants that are missing, which |interrupt|
// (may be NULL) can end, and the late values, which depend on scalars outside of the plan's key, if those have changed.
static inline pyd_status_t make_ready(pyd_call_t* call, const pyd_interrupt_t* interrupt) {
  if (call->unbound) return refuse_unbound(call);
  pyd_status_t status = PYD_STATUS_OK;
  // A host command that calls a function of its own program could wait for itself.
  if (call->plan->program->command_count) status = pyd_call_refuse_nested(call);
  if (pyd_ok(status) && call->is_underived) status = pyd_call_bind_constants(call, /* derives */ true, interrupt);
  if (pyd_ok(status) && call->is_late_stale) status = compute_late(call);
  return status;
}

pyd_status_t pyd_call_run(pyd_call_t* call) { return pyd_call_run_until(call, NULL); }

// Runs a call whose tensors are in the program's device memory: the caller has bound device blocks (opaque handles) in
// place of addresses. For tensors in host memory, use pyd_call_run_until(), also if a device runs the program.
pyd_status_t pyd_call_run_on_device(pyd_call_t* call) {
  const pyd_device_memory_t* memory = &call->plan->program->device_memory;
  pyd_status_t status = make_ready(call, NULL);
  return pyd_ok(status) ? memory->run(memory->self, call) : status;
}

pyd_status_t pyd_call_check_bound(const pyd_call_t* call) {
  return call->unbound ? refuse_unbound(call) : PYD_STATUS_OK;
}

// Prepares a run of the steps. |*out_arena|: memory of the pool for transients, which is released after the run; NULL
// when the arena is part of the call, or when a device runs the call.
static inline pyd_status_t begin(pyd_call_t* call, const pyd_interrupt_t* interrupt, void** out_arena) {
  *out_arena = NULL;
  pyd_status_t status = make_ready(call, interrupt);
  if (LIKELY(call->is_arena_kept) || !pyd_ok(status) || call->plan->program->runner.run) return status;
  status = pyd_pool_acquire(call->pool, call->arena_bytes, out_arena);
  if (pyd_ok(status)) pyd_call_patch_arena(call, *out_arena);
  return status;
}

pyd_status_t pyd_call_begin(pyd_call_t* call, const pyd_interrupt_t* interrupt, void** out_arena) {
  return begin(call, interrupt, out_arena);
}

// Runs a call on this thread. |is_traced| is a constant where it is inlined, so that an untraced call tests the trace
// flag only once.
static inline pyd_status_t run_until(pyd_call_t* call, const pyd_interrupt_t* interrupt, bool is_traced) {
  void* arena;
  pyd_status_t status = begin(call, interrupt, &arena);
  if (!pyd_ok(status)) return status;
  const pyd_runner_t* runner = &call->plan->program->runner;
  if (runner->run) return runner->run(runner->self, call);  // on a device, for which begin() acquires no arena
  status = run_steps(call, interrupt, is_traced);
  // NULL: the arena is part of the call.
  if (arena) pyd_pool_release(call->pool, arena);
  return status;
}

// Runs a call on this thread, and records a trace event of it. Not inlined: untraced calls do not need its stack frame.
static __attribute__((noinline)) pyd_status_t run_traced(pyd_call_t* call, const pyd_interrupt_t* interrupt) {
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_CALL, call->plan->fn->info.name);
  pyd_status_t status = run_until(call, interrupt, true);
  pyd_event_end(call->trace, &event, status);
  return status;
}

// Runs a call until its end, or until |interrupt|, which may be NULL, requests one.
pyd_status_t pyd_call_run_until(pyd_call_t* call, const pyd_interrupt_t* interrupt) {
  return LIKELY(!pyd_trace_is_on(call->trace)) ? run_until(call, interrupt, false) : run_traced(call, interrupt);
}
