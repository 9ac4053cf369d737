// A call of a procedure as a task. The thread that takes the task runs all steps, as a caller would.
#include "pydispatch/submit.h"

#include <string.h>

#include "program/procedure/state.h"
#include "program/traced.h"

// The payload of the task: a copy of the inputs, and the invocation once it has run; NULL before and after a failure.
typedef struct submission_s {
  pyd_state_t* state;
  pyd_task_t* task;  // the task that this is the payload of
  uint32_t procedure;
  pyd_invocation_t* invocation;
  pyd_input_t inputs[];  // followed by the sizes that they point to
} submission_t;

// Runs the whole call on this thread. Implements pyd_task_kind_t.run.
static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  submission_t* s = self;
  return pyd_procedure_call_task(s->state, s->procedure, s->inputs, interrupt, s->task, &s->invocation);
}

// Runs the whole call and returns true: it has ended. Implements pyd_task_kind_t.advance.
static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  (void)worker;
  *out_status = run(self, pyd_task_interrupt(task));
  return true;
}

static void drop(void* self) { pyd_invocation_free(((submission_t*)self)->invocation); }

static const pyd_task_kind_t kKind = {.advance = advance, .run = run, .drop = drop};

// Copies the inputs and the dims of tensors into the payload. Tensor data stays in the memory of the caller.
static void copy_inputs(submission_t* s, const pyd_procedure_t* p, const pyd_input_t* inputs) {
  int64_t* dims = (int64_t*)(s->inputs + p->info.arg_count);  // of all inputs, after the last input
  for (uint32_t i = 0; i < p->info.arg_count; ++i) {
    s->inputs[i] = inputs[i];
    uint32_t rank = p->info.args[i].kind == PYD_KIND_TENSOR ? p->info.args[i].rank : 0;
    if (rank) memcpy(dims, inputs[i].dims, rank * sizeof(*dims));
    s->inputs[i].dims = dims;
    dims += rank;
  }
}

// Submits |task|, a call that uses mutable globals, as a successor of the last submitted call that uses them. Only one
// such call may run at a time: without the order, the call could block a thread until another one has ended.
static pyd_status_t submit_in_order(pyd_state_t* state, pyd_task_t* task, const pyd_submit_options_t* options) {
  pyd_submit_options_t ordered = options ? *options : (pyd_submit_options_t){.priority = PYD_PRIORITY_NORMAL};
  pthread_mutex_lock(&state->submit_mutex);
  pyd_task_t* predecessor = state->last;  // NULL: none
  ordered.order_after = predecessor;
  pyd_status_t status = pyd_task_submit(task, &ordered);
  if (pyd_ok(status)) {
    pyd_task_retain_end(task);
    state->last = task;
  }
  pthread_mutex_unlock(&state->submit_mutex);
  if (pyd_ok(status)) pyd_task_release_end(predecessor);  // |state| does not refer to it any more
  return status;
}

// Submits |task|, a call of procedure number |procedure|. Calls that use mutable globals run in the order of
// submission.
pyd_status_t pyd_procedure_submit_task(pyd_state_t* state, uint32_t procedure, pyd_task_t* task,
                                       const pyd_submit_options_t* options) {
  if (state->program->command_count) pyd_task_set_blocking(task);  // host commands may sleep
  bool uses_globals = pyd_program_procedure_uses_globals(state->program, procedure);
  return uses_globals ? submit_in_order(state, task, options) : pyd_task_submit(task, options);
}

// Creates the task of a call with a copy of its inputs, and submits it. |*out_task| is unchanged after a failure.
static pyd_status_t submit(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                           const pyd_submit_options_t* options, pyd_task_t** out_task) {
  const pyd_procedure_t* p = &state->program->procedures[procedure];
  pyd_task_t* task;
  size_t bytes = sizeof(submission_t) + p->info.arg_count * sizeof(pyd_input_t) + p->info.dims_count * sizeof(int64_t);
  pyd_status_t status = pyd_task_create(state->sched, &kKind, bytes, &task);
  if (!pyd_ok(status)) return status;
  submission_t* s = pyd_task_payload(task);
  s->state = state;
  s->task = task;
  s->procedure = procedure;
  copy_inputs(s, p, inputs);
  status = pyd_procedure_submit_task(state, procedure, task, options);
  if (pyd_ok(status)) {
    *out_task = task;
  } else {
    pyd_task_release(task);
  }
  return status;
}

// Submits a call of a procedure as a task; with a trace event if a trace is on. |inputs| and their sizes are copied,
// tensors are not.
pyd_status_t pyd_procedure_submit(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                  const pyd_submit_options_t* options, pyd_task_t** out_task) {
  *out_task = NULL;
  if (procedure >= state->program->procedure_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "procedure %u does not exist, the program has %u", procedure,
                           state->program->procedure_count);
  }
  pyd_trace_t* trace = pyd_sched_trace(state->sched);
  if (!pyd_trace_is_on(trace)) return submit(state, procedure, inputs, options, out_task);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_SUBMIT, state->program->procedures[procedure].info.name);
  pyd_status_t status = submit(state, procedure, inputs, options, out_task);
  pyd_event_end(trace, &event, status);
  return status;
}

// Takes the invocation of a completed task; NULL after a failure, or if it was taken before.
pyd_invocation_t* pyd_procedure_take(pyd_task_t* task) {
  submission_t* s = pyd_task_payload(task);
  pyd_invocation_t* invocation = s->invocation;
  s->invocation = NULL;
  return invocation;
}
