// A call as a task: its steps run one after another, each as a job that any pool threads may share.
#include "program/call/step.h"

// Runs the steps of the call from number |s->step| on. Returns true when the call has ended, with |*out_status|.
// Returns false if other threads still run the job of a step: the last of them to finish calls this function again,
// with |s->is_shared| set.
static bool run_steps(pyd_call_progress_t* s, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  const pyd_plan_t* plan = s->call->plan;
  for (;;) {
    if (s->is_shared) {  // the job of step |s->step| has ended
      s->is_shared = false;
      *out_status = pyd_step_outcome(&s->job, pyd_task_failure(task));
      if (!pyd_ok(*out_status)) return true;
      if (s->is_first) pyd_plan_note_cost(plan, s->step);  // the run has measured it
      ++s->step;
    }
    if (s->step == plan->step_count) return true;
    if (pyd_task_is_cancelled(task)) {
      *out_status = pyd_call_interrupted(s->call);
      return true;
    }
    const pyd_plan_step_t* step = &plan->steps[s->step];
    const bool has_run = pyd_step_run_single(s->call, step, out_status);  // a step that is too small to be shared
    if (has_run) {
      if (!pyd_ok(*out_status)) return true;
      ++s->step;
      continue;
    }
    s->job = (pyd_step_job_t){.call = s->call, .step = step, .failed = PYD_CHAIN_SOUND};  // no failure yet
    s->is_first = !pyd_plan_known_cost(plan, s->step);
    s->is_shared = true;  // before another thread may advance the task
    const pyd_sched_job_t job = {
        .body = pyd_step_run, .self = &s->job, .count = step->total, .cost = &plan->costs[s->step], .interrupt = NULL};
    const bool has_ended = pyd_task_share(task, &job, worker);
    if (!has_ended) return false;
  }
}

// Prepares the call when this function runs for the first time, and then runs steps of the call, or the whole call on
// its device. Returns whether the call has ended, with |*out_status|; if not, this function has to run again.
static bool advance_call(pyd_call_progress_t* s, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  const pyd_runner_t* runner = &s->call->plan->program->runner;
  if (!s->has_begun) {
    s->has_begun = true;
    *out_status = pyd_call_begin(s->call, pyd_task_interrupt(task), &s->arena);
    if (!pyd_ok(*out_status)) return true;
    const bool is_on_device = runner->run != NULL;
    if (is_on_device) {
      *out_status = runner->run(runner->self, s->call);
      return true;
    }
  }
  if (!run_steps(s, task, worker, out_status)) return false;
  pyd_pool_release(s->call->pool, s->arena);
  return true;
}

// Runs steps of |s->call| until the call has ended or other threads still run a step. Returns whether the call has
// ended, with |*out_status|. Implements pyd_task_kind_t.advance. Records a trace event of the time until it returns.
bool pyd_call_advance(pyd_call_progress_t* s, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  pyd_trace_t* trace = s->call->trace;
  if (!pyd_trace_is_on(trace)) return advance_call(s, task, worker, out_status);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_CALL, s->call->plan->fn->info.name);
  const bool has_ended = advance_call(s, task, worker, out_status);  // if false, |s| may be freed already
  pyd_event_end(trace, &event, has_ended ? *out_status : PYD_STATUS_OK);
  return has_ended;
}

// Advances the call of a task. Implements pyd_task_kind_t.advance.
static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  return pyd_call_advance(self, task, worker, out_status);
}

// Runs the call of a task on this thread. Implements pyd_task_kind_t.run.
static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  const pyd_call_progress_t* s = self;
  return pyd_call_run_until(s->call, interrupt);
}

static const pyd_task_kind_t kKind = {.advance = advance, .run = run};

// Returns whether a call runs host commands, whose code may sleep.
bool pyd_call_may_block(const pyd_call_t* call) { return call->plan->custom.commands != 0; }

bool pyd_function_may_block(const pyd_program_t* program, uint32_t function) {
  return program->functions[function].custom.commands != 0;
}

// Creates a task that runs a call, and submits it, without a trace event. |*out_task| is NULL after a failure.
static pyd_status_t submit(pyd_call_t* call, const pyd_submit_options_t* options, pyd_task_t** out_task) {
  *out_task = NULL;
  pyd_task_t* task = NULL;
  pyd_status_t status = pyd_call_check_bound(call);
  if (pyd_ok(status)) status = pyd_task_create(call->sched, &kKind, sizeof(pyd_call_progress_t), &task);
  if (!pyd_ok(status)) return status;
  ((pyd_call_progress_t*)pyd_task_payload(task))->call = call;
  if (pyd_call_may_block(call)) pyd_task_set_blocking(task);
  status = pyd_task_submit(task, options);
  if (pyd_ok(status)) {
    *out_task = task;
  } else {
    pyd_task_release(task);
  }
  return status;
}

// Creates a task that runs a call, and submits it. Each step of the call is a job that pool threads share. The caller
// has a reference to |*out_task|, which is NULL after a failure.
pyd_status_t pyd_call_submit(pyd_call_t* call, const pyd_submit_options_t* options, pyd_task_t** out_task) {
  pyd_trace_t* trace = call->trace;
  if (!pyd_trace_is_on(trace)) return submit(call, options, out_task);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_SUBMIT, call->plan->fn->info.name);
  pyd_status_t status = submit(call, options, out_task);
  pyd_event_end(trace, &event, status);
  return status;
}
