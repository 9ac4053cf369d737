// Many calls as one task. Each worker has one call per plan and rebinds it for each item.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "program/call/step.h"
#include "pydispatch/submit.h"

// The call of one worker for one plan, created when the worker first runs the plan.
typedef struct worker_call_s {
  const pyd_plan_t* plan;
  pyd_call_t* call;
  struct worker_call_s* next;
} worker_call_t;

// A running batch of calls: one job of the scheduler, in which each index is a call of a plan.
typedef struct batch_s {
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_batch_item_t* items;
  uint32_t count, workers;
  bool is_shared;          // the job was published to the task system
  pyd_sched_cost_t* cost;  // cost estimate of an item; may be NULL
  // Interrupts of the items. On the pool, all workers poll the task's interrupt. With a waiting caller, only worker 0,
  // the caller's thread, may poll the caller's interrupt; it copies a request to |is_ended|, which other workers poll.
  const pyd_interrupt_t* interrupt;  // of worker 0: the task's, or a poll of |caller|; NULL without an interrupt
  const pyd_interrupt_t* caller;     // of the waiting caller; NULL without an interrupt
  pyd_interrupt_t flag;              // reads |is_ended|
  const pyd_interrupt_t* others;     // of the other workers: the task's, or |flag|; NULL without an interrupt
  _Atomic uint32_t is_ended;         // the waiting caller has requested the end of the batch
  worker_call_t* worker_calls[];     // by worker: list of its calls, the most recently used one first
} batch_t;

// Returns the call of a worker for a plan, and moves it to the front of the worker's list, as items often share a plan.
static pyd_status_t call_of(batch_t* batch, uint32_t worker, const pyd_plan_t* plan, pyd_call_t** out_call) {
  worker_call_t** first = &batch->worker_calls[worker];
  for (worker_call_t** at = first; *at; at = &(*at)->next) {
    worker_call_t* worker_call = *at;
    if (worker_call->plan != plan) continue;
    *at = worker_call->next;  // to the front
    worker_call->next = *first;
    *first = worker_call;
    *out_call = worker_call->call;
    return PYD_STATUS_OK;
  }
  worker_call_t* worker_call = malloc(sizeof(*worker_call));
  if (!worker_call) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a call of a batch");
  pyd_status_t status = pyd_call_create(plan, batch->sched, batch->pool, out_call);
  if (!pyd_ok(status)) {
    free(worker_call);
    return status;
  }
  *worker_call = (worker_call_t){plan, *out_call, *first};
  *first = worker_call;
  return status;
}

// Binds an item's memory to the worker's call for its plan, runs it, and copies the scalar results to the item.
static pyd_status_t run_item(batch_t* batch, uint32_t worker, const pyd_batch_item_t* item) {
  pyd_call_t* call = NULL;
  pyd_status_t status = call_of(batch, worker, item->plan, &call);
  if (!pyd_ok(status)) return status;
  const pyd_program_function_t* info = &item->plan->fn->info;
  for (uint32_t i = 0; i < info->arg_count; ++i) {
    if (info->args[i].kind == PYD_KIND_TENSOR) pyd_call_bind_arg(call, i, item->args[i]);
  }
  if (item->scalars) pyd_call_set_scalars(call, item->scalars);  // NULL: the plan has none
  for (uint32_t i = 0; i < info->result_count; ++i) {
    if (info->results[i].kind == PYD_KIND_TENSOR) pyd_call_bind_result(call, i, item->results[i]);
  }
  status = pyd_call_run_until(call, worker ? batch->others : batch->interrupt);
  for (uint32_t i = 0; i < info->result_count && pyd_ok(status); ++i) {
    // Scalars are known after the run.
    if (info->results[i].kind == PYD_KIND_SCALAR) item->out_scalars[i] = pyd_call_scalar_result(call, i);
  }
  return status;
}

// Runs items [begin, end); the body of the job. A failed item does not end the job, so the result is always 0.
static int32_t run_items(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  batch_t* batch = self;
  (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) {
    batch->items[i].status = run_item(batch, worker, &batch->items[i]);
    batch->items[i].has_run = true;
  }
  return 0;
}

// Returns the status of the task: the status of the first item that failed or, after an interrupt, was not run.
static pyd_status_t outcome(batch_t* batch) {
  for (uint32_t i = 0; i < batch->count; ++i) {
    pyd_status_t status = batch->items[i].status;
    if (!batch->items[i].has_run)
      return pyd_status_make(PYD_CODE_INTERRUPTED, "the calls were cancelled from item %u on", i);
    if (!pyd_ok(status)) return pyd_status_make(pyd_status_code(status), "item %u: %s", i, pyd_status_text(status));
  }
  return PYD_STATUS_OK;
}

// Returns whether the caller has requested the end. The interrupt of all workers but 0. |self|: the batch.
static int32_t is_ended(void* self) {
  return atomic_load_explicit(&((batch_t*)self)->is_ended, memory_order_relaxed) != 0;
}

// Returns whether the caller requests the end, and if so sets |is_ended|, which the other workers poll. The interrupt
// of worker 0, on the thread of the caller. |self|: the batch.
static int32_t is_caller_wanted(void* self) {
  batch_t* batch = self;
  if (batch->caller->is_wanted(batch->caller->self)) atomic_store_explicit(&batch->is_ended, 1, memory_order_relaxed);
  return is_ended(batch);
}

// Returns the job of a batch, which has an index for each item: body, its argument, indices, cost and interrupt.
static pyd_sched_job_t job_of(batch_t* batch) {
  return (pyd_sched_job_t){run_items, batch, batch->count, batch->cost, batch->interrupt};
}

// Runs the batch as a task on the pool: the first call publishes its job. Returns true, with |*out_status|, after the
// job has ended. Returns false if other threads still run items; the last one to leave advances the task again.
// Implements pyd_task_kind_t.advance.
static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  batch_t* batch = self;
  if (!batch->is_shared) {
    batch->is_shared = true;
    batch->interrupt = batch->others = pyd_task_interrupt(task);  // a flag, which any thread may poll
    const pyd_sched_job_t job = job_of(batch);
    if (!pyd_task_share(task, &job, worker)) return false;
  }
  *out_status = outcome(batch);
  return true;
}

// Runs the whole batch on a thread that waits for it. |interrupt|: polled on this thread only; may be NULL.
static pyd_status_t run(void* self, const pyd_interrupt_t* interrupt) {
  batch_t* batch = self;
  const pyd_interrupt_t asked = {is_caller_wanted, batch};
  batch->flag = (pyd_interrupt_t){is_ended, batch};
  batch->caller = interrupt;
  batch->interrupt = interrupt ? &asked : NULL;
  batch->others = interrupt ? &batch->flag : NULL;
  const pyd_sched_job_t job = job_of(batch);
  pyd_sched_failure_t failure;  // unused: the items have their statuses
  pyd_sched_run(batch->sched, &job, &failure);
  return outcome(batch);
}

// Destroys the content of the batch when its last reference is released: frees the statuses of the items and the calls
// of the workers. The batch itself is part of the task's allocation. Implements pyd_task_kind_t.drop.
static void drop(void* self) {
  batch_t* batch = self;
  for (uint32_t i = 0; i < batch->count; ++i) pyd_status_free(batch->items[i].status);
  for (uint32_t i = 0; i < batch->workers; ++i) {
    for (worker_call_t *worker_call = batch->worker_calls[i], *next; worker_call; worker_call = next) {
      next = worker_call->next;
      pyd_call_free(worker_call->call);
      free(worker_call);
    }
  }
}

static const pyd_task_kind_t kKind = {.advance = advance, .run = run, .drop = drop};

// Refuses items that may sleep, and items without the scalars of their plan: the call of a worker would still have
// those of an earlier item.
static pyd_status_t check_items(const pyd_batch_item_t* items, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const pyd_function_t* fn = items[i].plan->fn;
    if (fn->custom.commands) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "item %u: '%.*s' has host commands, which may sleep; submit its calls one by one", i,
                             STRING(fn->info.name));
    }
    if (fn->scalar_count && !items[i].scalars) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "item %u: no values for the %u scalar arguments of '%.*s'", i,
                             fn->scalar_count, STRING(fn->info.name));
    }
  }
  return PYD_STATUS_OK;
}

// Submits |count| calls as one task, without a trace event. |cost|: cost estimate of an item; may be NULL. After a
// failure
// |*out_task| is NULL and the items remain the caller's.
static pyd_status_t submit(pyd_sched_t* sched, pyd_pool_t* pool, pyd_batch_item_t* items, uint32_t count,
                           pyd_sched_cost_t* cost, const pyd_submit_options_t* options, pyd_task_t** out_task) {
  *out_task = NULL;
  pyd_task_t* task;
  const uint32_t workers = pyd_sched_workers(sched);
  size_t bytes = sizeof(batch_t) + workers * sizeof(worker_call_t*);
  pyd_status_t status = check_items(items, count);
  if (pyd_ok(status)) status = pyd_task_create(sched, &kKind, bytes, &task);
  if (!pyd_ok(status)) return status;
  batch_t* batch = pyd_task_payload(task);
  *batch = (batch_t){.sched = sched, .pool = pool, .items = items, .count = count, .workers = workers, .cost = cost};
  status = pyd_task_submit(task, options);
  if (pyd_ok(status)) {
    *out_task = task;
  } else {
    batch->count = 0;  // so that drop() leaves the items to the caller
    pyd_task_release(task);
  }
  return status;
}

// Submits |count| calls as one task; while a trace is recorded, with an event that is named after the first item's
// function.
pyd_status_t pyd_batch_submit(pyd_sched_t* sched, pyd_pool_t* pool, pyd_batch_item_t* items, uint32_t count,
                              pyd_sched_cost_t* cost, const pyd_submit_options_t* options, pyd_task_t** out_task) {
  pyd_trace_t* trace = pyd_sched_trace(sched);
  if (!count || !pyd_trace_is_on(trace)) return submit(sched, pool, items, count, cost, options, out_task);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_SUBMIT, items[0].plan->fn->info.name);
  pyd_status_t status = submit(sched, pool, items, count, cost, options, out_task);
  pyd_event_end(trace, &event, status);
  return status;
}
