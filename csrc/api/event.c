// Calls and loops that run asynchronously. Their handle, an event, is the task that runs them.
#include "api/call.h"
#include "base/sized.h"
#include "pydispatch/submit.h"

// ---- what is in flight

// The payload of the task of a call or a loop.
typedef struct flight_s {
  pyd_api_device_t* device;      // a reference until the task is freed, because its scheduler owns the task
  pyd_task_t* task;              // the task that this is the payload of
  pyd_api_call_t* call;          // of a call: busy and retained until pyd_api_call_end_run; NULL for a loop
  bool has_begun;                // advance has been called
  pyd_call_progress_t progress;  // of a call: its next step
  pyd_sched_job_t loop;          // of a loop
} flight_t;

static void drop(void* self) { pyd_api_device_release(((flight_t*)self)->device); }

// Runs the next part of a call on a worker. Returns whether the call has ended.
static bool advance_call(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  flight_t* flight = self;
  pyd_api_call_t* call = flight->call;
  if (pyd_api_is_procedure(call)) {  // runs to its end on this thread
    *out_status = pyd_api_call_execute(call, pyd_task_interrupt(task), task);
    return true;
  }
  if (!flight->has_begun) {
    flight->has_begun = true;
    pyd_api_call_copy_in(call);
  }
  if (!pyd_call_advance(&flight->progress, task, worker, out_status)) return false;
  if (pyd_ok(*out_status)) pyd_api_call_copy_out(call);
  return true;
}

// Executes a whole call on the calling thread: a thread that waits for the task, or a thread for blocking tasks if the
// call may sleep.
static pyd_status_t run_call(void* self, const pyd_interrupt_t* interrupt) {
  flight_t* flight = self;
  return pyd_api_call_execute(flight->call, interrupt, flight->task);
}

// Releases the call to other runs.
static void end_call(void* self) { pyd_api_call_end_run(((flight_t*)self)->call); }

// Offers a loop to the workers. Returns whether it has ended, with its outcome; if not, the worker that leaves it last
// calls this function again.
static bool advance_loop(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  flight_t* flight = self;
  if (!flight->has_begun) {
    flight->has_begun = true;
    if (!pyd_task_share(task, &flight->loop, worker)) return false;  // other threads still run indices
  }
  *out_status = pyd_api_range_outcome("parallel_range_submit", pyd_task_failure(task));
  return true;
}

// Runs a whole loop on the calling thread, which waits for the task, together with pool threads. |interrupt| ends it
// early.
static pyd_status_t run_loop(void* self, const pyd_interrupt_t* interrupt) {
  flight_t* flight = self;
  flight->loop.interrupt = interrupt;
  pyd_sched_failure_t failure;
  pyd_sched_run(flight->device->sched, &flight->loop, &failure);
  return pyd_api_range_outcome("parallel_range_submit", &failure);
}

// The tasks of a submitted call and of a submitted loop. The payload is a flight_t.
static const pyd_task_kind_t kCall = {.advance = advance_call, .run = run_call, .drop = drop, .end = end_call};
static const pyd_task_kind_t kLoop = {.advance = advance_loop, .run = run_loop, .drop = drop};

// ---- submitting

// Returns the failure of a submission after an event that is NULL: that at |index| of the options' |after|.
static pyd_status_t refuse_after(const char* function, uint32_t index) {
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: after[%u] is NULL", function, index);
}

// Reads and checks the options of a submission, which may be NULL.
static pyd_status_t read_options(const char* function, const pyd_api_submit_t* options,
                                 pyd_submit_options_t* out_options) {
  // By pyd_api_priority_t.
  static const uint32_t kPriorities[] = {PYD_PRIORITY_NORMAL, PYD_PRIORITY_HIGH, PYD_PRIORITY_LOW};
  *out_options = (pyd_submit_options_t){.priority = PYD_PRIORITY_NORMAL};
  if (!options) return PYD_STATUS_OK;
  // The first version of the structure ended before |workers|, after |context|.
  if (options->struct_size < PYD_SIZE_UP_TO(pyd_api_submit_t, context)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: the options have a struct_size of %zu; set it to sizeof(pyd_api_submit_t), "
                           "which is %zu",
                           function, options->struct_size, sizeof(*options));
  }
  if (options->priority > PYD_API_PRIORITY_LOW) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: there is no priority %u; pyd_api_priority_t has them",
                           function, options->priority);
  }
  if (options->after_count && !options->after) return pyd_api_null(function, "after");
  for (uint32_t i = 0; i < options->after_count; ++i) {
    if (!options->after[i]) return refuse_after(function, i);
  }
  out_options->priority = kPriorities[options->priority];
  out_options->after = options->after;
  out_options->after_count = options->after_count;
  out_options->on_done = options->on_done;
  out_options->context = options->context;
  if (options->struct_size >= PYD_SIZE_UP_TO(pyd_api_submit_t, workers)) out_options->workers = options->workers;
  return PYD_STATUS_OK;
}

// Makes a task that is not submitted, with two references, which hand_out releases or passes on.
static pyd_status_t make(pyd_api_device_t* device, const pyd_task_kind_t* kind, pyd_task_t** out_task) {
  pyd_status_t status = pyd_task_create(device->sched, kind, sizeof(flight_t), out_task);
  if (!pyd_ok(status)) return status;
  flight_t* flight = pyd_task_payload(*out_task);
  flight->device = device;
  flight->task = *out_task;
  pyd_api_retain(&device->references);
  pyd_task_retain(*out_task);  // of the submitting function: |on_done| may release the event before it returns
  return status;
}

// Submits the task of a call. One with host commands may sleep, so it must not occupy a thread of the pool.
static pyd_status_t submit_call(pyd_api_call_t* call, pyd_task_t* task, const pyd_submit_options_t* options) {
  const pyd_api_entry_t* entry = call->entry;
  if (entry->is_procedure) return pyd_procedure_submit_task(entry->program->state, entry->index, task, options);
  if (pyd_call_may_block(call->call)) pyd_task_set_blocking(task);
  pyd_status_t status = pyd_call_check_bound(call->call);
  return pyd_ok(status) ? pyd_task_submit(task, options) : status;
}

// Releases the two references that make() returned with |task|; or, if the submission succeeded and |out_event| is not
// NULL, only one of them, and passes the other one to the caller as the event. |status|: of the submission. |task| may
// be NULL after a failure.
static void hand_out(pyd_task_t* task, pyd_status_t status, pyd_api_event_t** out_event) {
  if (pyd_ok(status) && out_event) {
    *out_event = task;
  } else {
    pyd_task_release(task);
  }
  pyd_task_release(task);
}

// Starts an asynchronous run of a prepared call and returns its event.
pyd_status_t pyd_api_call_submit(pyd_api_call_t* call, const pyd_api_submit_t* options, pyd_api_event_t** out_event) {
  if (out_event) *out_event = NULL;
  pyd_submit_options_t read;
  pyd_task_t* task = NULL;
  pyd_status_t status = read_options("call_submit", options, &read);
  if (pyd_ok(status)) status = pyd_api_call_begin_run(call, "call_submit");
  if (!pyd_ok(status)) return status;
  pyd_api_retain(&call->references);  // of this function: the call may end, and be released, before it returns
  status = make(call->entry->program->device, &kCall, &task);
  if (pyd_ok(status)) {
    flight_t* flight = pyd_task_payload(task);
    flight->call = call;
    flight->progress.call = call->call;
    status = submit_call(call, task, &read);
  }
  if (!pyd_ok(status)) pyd_api_call_end_run(call);
  pyd_api_call_release(call);
  hand_out(task, status, out_event);
  return status;
}

// Starts an asynchronous loop: |body| runs for ranges of the indices from 0 to |count| - 1 on the threads of the
// device. |cost|: cost estimate of an index, which this run updates; may be NULL. |out_event|: NULL if the caller needs
// no event.
pyd_status_t pyd_api_parallel_range_submit(pyd_api_device_t* device, uint64_t count, pyd_api_range_fn_t body,
                                           void* context, pyd_api_cost_t* cost, const pyd_api_submit_t* options,
                                           pyd_api_event_t** out_event) {
  static const char kFunction[] = "parallel_range_submit";
  if (out_event) *out_event = NULL;
  if (!device) return pyd_api_null(kFunction, "device");
  if (!body) return pyd_api_null(kFunction, "body");
  pyd_submit_options_t read;
  pyd_task_t* task = NULL;
  pyd_status_t status = read_options(kFunction, options, &read);
  if (pyd_ok(status)) status = make(device, &kLoop, &task);
  if (!pyd_ok(status)) return status;
  ((flight_t*)pyd_task_payload(task))->loop = (pyd_sched_job_t){body, context, count, (pyd_sched_cost_t*)cost, NULL};
  status = pyd_task_submit(task, &read);
  hand_out(task, status, out_event);
  return status;
}

// ---- events

// Returns the state of a submitted run: pending, or how it has ended.
uint32_t pyd_api_event_outcome(pyd_api_event_t* event) {
  if (!event || !pyd_task_is_done(event)) return PYD_API_PENDING;
  pyd_status_t status = pyd_task_status(event);
  if (pyd_ok(status)) return PYD_API_SUCCEEDED;
  if (pyd_task_is_skipped(event)) return PYD_API_SKIPPED;
  return pyd_status_code(status) == PYD_CODE_INTERRUPTED ? PYD_API_CANCELLED : PYD_API_FAILED;
}

// Waits until a submitted run has ended, or for |nanoseconds|. |*out_outcome| is PYD_API_PENDING if it has not ended.
// INTERRUPTED if |interrupt|, which may be NULL, ended the wait.
pyd_status_t pyd_api_event_wait(pyd_api_event_t* event, uint64_t nanoseconds, const pyd_api_interrupt_t* interrupt,
                                uint32_t* out_outcome) {
  if (out_outcome) *out_outcome = PYD_API_PENDING;
  if (!event) return pyd_api_null("event_wait", "event");
  pyd_interrupt_t asked;
  if (interrupt) {
    pyd_status_t status = pyd_api_interrupt_of("event_wait", interrupt, &asked);
    if (!pyd_ok(status)) return status;
  }
  if (pyd_task_is_done(event)) {  // checked before retaining: in |on_done| the last reference may be gone
    if (out_outcome) *out_outcome = pyd_api_event_outcome(event);
    return PYD_STATUS_OK;
  }
  pyd_task_retain(event);  // |on_done| may release it meanwhile
  pyd_wait_t waited = pyd_task_wait(event, nanoseconds, interrupt ? &asked : NULL);
  if (out_outcome && waited != PYD_WAIT_INTERRUPTED) *out_outcome = pyd_api_event_outcome(event);
  pyd_task_release(event);
  return waited == PYD_WAIT_INTERRUPTED
             ? pyd_status_make(PYD_CODE_INTERRUPTED, "event_wait: the waiting was interrupted")
             : PYD_STATUS_OK;
}

pyd_status_t pyd_api_event_status(pyd_api_event_t* event) {
  return event && pyd_task_is_done(event) ? pyd_task_status(event) : PYD_STATUS_OK;
}

// Requests the cancellation of a submitted run.
uint32_t pyd_api_event_cancel(pyd_api_event_t* event) {
  if (!event || pyd_task_is_done(event)) return 0;
  pyd_task_retain(event);  // cancelling may end it here, and its |on_done| may release it
  const bool was_pending = pyd_task_cancel(event);
  pyd_task_release(event);
  return was_pending;
}

void pyd_api_event_release(pyd_api_event_t* event) { pyd_task_release(event); }
