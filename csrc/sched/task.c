// Submitted tasks: creation, dependencies, running, end.
#include "sched/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pyd_status_t cancelled(void) { return pyd_status_make(PYD_CODE_INTERRUPTED, "the call was cancelled"); }

static int32_t is_cancel_wanted(void* self) { return pyd_task_is_cancelled(self); }

// ---- creation

// Alignment of the payload, in bytes.
enum { kPayloadAlignment = 16 };

// Returns the offset of the payload from the task, in bytes: both are one allocation.
static size_t payload_offset(void) {
  return (sizeof(pyd_task_t) + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

// Creates a task with |bytes| of zeroed payload. The caller owns the first reference. OUT_OF_MEMORY.
pyd_status_t pyd_task_create(pyd_sched_t* sched, const pyd_task_kind_t* kind, size_t bytes, pyd_task_t** out_task) {
  pyd_task_t* task = bytes < SIZE_MAX / 2 ? calloc(1, payload_offset() + bytes) : NULL;
  *out_task = task;
  if (!task) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a task with %zu bytes", bytes);
  atomic_init(&task->references, 1);
  atomic_init(&task->payload_references, 1);
  task->sched = sched;
  task->kind = kind;
  task->interrupt = (pyd_interrupt_t){is_cancel_wanted, task};
  return PYD_STATUS_OK;
}

void* pyd_task_payload(pyd_task_t* task) { return (uint8_t*)task + payload_offset(); }

void pyd_task_set_blocking(pyd_task_t* task) { task->is_blocking = true; }

void pyd_task_retain(pyd_task_t* task) {
  atomic_fetch_add_explicit(&task->references, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&task->payload_references, 1, memory_order_relaxed);
}

// Decrements a reference count. Returns true when this was the last reference.
static bool drop_reference(_Atomic uint32_t* references) {
  return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

// Drops one reference to the payload, and destroys it with the last one.
static void release_payload(pyd_task_t* task) {
  if (drop_reference(&task->payload_references) && task->kind->drop) task->kind->drop(pyd_task_payload(task));
}

// Calls the payload's end() and releases the scheduler's reference to the payload.
static void end_payload(pyd_task_t* task) {
  // In the child of a fork, another thread of the parent may have begun to end the payload: it is not ended twice.
  const bool has_ended = atomic_exchange_explicit(&task->has_ended, 1, memory_order_relaxed);
  if (has_ended) return;
  if (task->kind->end) task->kind->end(pyd_task_payload(task));
  release_payload(task);
}

// Drops one reference to the task itself, and frees the task with the last one. The payload has its own count.
static void release_task(pyd_task_t* task) {
  if (!drop_reference(&task->references)) return;
  pyd_status_free(task->status);
  free(task->edges);
  free(task);
}

void pyd_task_retain_end(pyd_task_t* task) { atomic_fetch_add_explicit(&task->references, 1, memory_order_relaxed); }

// Drops a reference of pyd_task_retain_end(). |task| may be NULL.
void pyd_task_release_end(pyd_task_t* task) {
  if (task) release_task(task);
}

// Drops the caller's reference to a task and its payload. |task| may be NULL.
void pyd_task_release(pyd_task_t* task) {
  if (!task) return;
  release_payload(task);
  release_task(task);
}

bool pyd_task_is_cancelled(const pyd_task_t* task) {
  return atomic_load_explicit(&task->cancellation, memory_order_relaxed) == PYD_CANCELLATION_REQUESTED;
}

// Decides whether a task is cancelled or commits its effects: the first call decides. Returns whether the decision is
// |wanted|.
static bool decide(pyd_task_t* task, pyd_cancellation_t wanted) {
  uint32_t decision = PYD_CANCELLATION_POSSIBLE;  // undecided
  const bool decides = atomic_compare_exchange_strong_explicit(&task->cancellation, &decision, wanted,
                                                               memory_order_relaxed, memory_order_relaxed);
  return decides || decision == (uint32_t)wanted;
}

bool pyd_task_commit(pyd_task_t* task) { return decide(task, PYD_CANCELLATION_TOO_LATE); }

pyd_status_t pyd_task_status(const pyd_task_t* task) { return task->status; }
bool pyd_task_is_skipped(const pyd_task_t* task) { return task->is_skipped; }
const pyd_sched_failure_t* pyd_task_failure(const pyd_task_t* task) { return &task->failure; }
const pyd_interrupt_t* pyd_task_interrupt(const pyd_task_t* task) { return &task->interrupt; }

// ---- completion

// Removes one of the dependencies that |task| waits for, and queues the task when none is left. Returns true if the
// task was queued for pool threads, so that the caller should wake one.
static bool unblock(pyd_task_t* task) {
  if (--task->pending) return false;
  pyd_task_push(task);
  return !task->is_blocking;
}

// Marks |task| as skipped because its dependency |predecessor| has failed or was skipped. The status names the failure
// at the root of the dependency chain and the number of skipped tasks in between, but not these tasks, so that the text
// has the same length for chains of any length.
static void skip(pyd_task_t* task, const pyd_task_t* predecessor) {
  if (task->is_skipped) return;  // because of an earlier dependency
  char between[40] = "", prefix[96];
  task->is_skipped = true;
  task->skips = predecessor->is_skipped ? predecessor->skips + 1 : 0;
  if (task->skips) snprintf(between, sizeof(between), ", %u calls before it,", task->skips);
  const char* text = pyd_status_text(predecessor->status);
  // Drops the prefix of a skipped predecessor, so that only the text of the failure at the root is repeated. A status
  // for which there was no memory has a shorter text, without the prefix.
  if (strlen(text) >= predecessor->prefix) text += predecessor->prefix;
  task->prefix = (uint32_t)snprintf(prefix, sizeof(prefix), "a call that this one waits for%s has failed: ", between);
  task->status = pyd_status_make(pyd_status_code(predecessor->status), "%s%s", prefix, text);
}

// Unblocks all tasks that depend on |task|, and skips them if it has failed. Returns how many of them are ready for
// pool threads. The caller holds the mutex.
static uint32_t release_dependents(pyd_task_t* task) {
  uint32_t ready = 0;
  for (pyd_task_edge_t *edge = task->dependents, *next; edge; edge = next) {
    next = edge->next;  // the dependent owns the edge, and may be freed once it is ready and the mutex is released
    if (!pyd_ok(task->status) && !edge->is_order_only) skip(edge->dependent, task);
    ready += unblock(edge->dependent);
  }
  task->dependents = NULL;
  return ready;
}

// Removes |task| from the list of unfinished tasks, and notifies the thread that closes the scheduler, which waits
// until the list is empty. The caller holds the mutex.
static void unlink_live(pyd_task_t* task) {
  pyd_sched_t* sched = task->sched;
  if (task->live_previous) {
    task->live_previous->live_next = task->live_next;
  } else {
    sched->queue.live = task->live_next;
  }
  if (task->live_next) task->live_next->live_previous = task->live_previous;
  if (atomic_load_explicit(&sched->closing, memory_order_relaxed)) pthread_cond_broadcast(&sched->queue.has_changed);
}

// Returns the scope (the context of nested jobs and calls) of a thread that works for |task| within the scope |outer|.
// With it, the thread cannot close the scheduler, which would wait for the end of the task, that is for the thread
// itself.
static pyd_scope_t scope_of(const pyd_task_t* task, const pyd_scope_t* outer) {
  return (pyd_scope_t){outer, task->sched, task->workers, PYD_SCOPE_PERMIT_INHERITED};
}

// Completes |task| with |status|: ends its payload, unblocks its dependents, notifies its waiters, calls on_done, and
// drops the scheduler's reference. The task may be freed on return.
static void end(pyd_task_t* task, pyd_status_t status) {
  pyd_sched_t* sched = task->sched;
  end_payload(task);
  pyd_task_lock(sched);
  // A task that was cancelled too late to be stopped reports the cancellation nevertheless.
  task->status = pyd_ok(status) && pyd_task_is_cancelled(task) ? cancelled() : status;
  uint32_t ready = release_dependents(task);
  atomic_store_explicit(&task->state, PYD_TASK_DONE, memory_order_release);
  // Under the mutex: |waiter| is on the stack of the waiting thread, which locks the mutex before it returns.
  for (pyd_task_waiter_t* waiter = task->waiters; waiter; waiter = waiter->next) {
    if (pyd_event_claim(&waiter->event)) pyd_event_notify(&waiter->event);
  }
  task->waiters = NULL;
  void (*on_done)(void*, pyd_task_t*) = task->on_done;
  if (!on_done) unlink_live(task);  // else after on_done(), as the scheduler must not be closed before
  pyd_task_unlock(sched);
  if (ready) pyd_sched_wake_for_tasks(sched);
  if (on_done) {
    const pyd_scope_t *outer = pyd_scope_now(sched->scopes), scope = scope_of(task, outer);
    pyd_scope_set(sched->scopes, &scope);
    on_done(task->context, task);
    pyd_scope_set(sched->scopes, outer);
    pyd_task_lock(sched);
    unlink_live(task);
    pyd_task_unlock(sched);
  }
  release_task(task);
}

// ---- running

// Runs |task| on pool thread |worker|, with the floating-point mode of its submitter, until it has ended or other
// threads share a job of it: then the last of them to finish advances the task again. Completes a task that has ended.
static void advance(pyd_task_t* task, uint32_t worker) {
  pyd_sched_t* sched = task->sched;
  const pyd_scope_t scope = {/* outer */ NULL, sched, task->workers, PYD_SCOPE_PERMIT_HELD};
  pyd_status_t status = PYD_STATUS_OK;
  pyd_cpu_set_fp_mode(task->fp_mode);
  pyd_scope_set(sched->scopes, &scope);
  // If false, another thread continues the task and may free it.
  bool has_ended = task->kind->advance(pyd_task_payload(task), task, worker, &status);
  if (has_ended) end(task, status);
  pyd_scope_set(sched->scopes, NULL);
}

// Returns the failure of a dequeued task that must not run, because it was skipped (a task before it has failed) or
// cancelled; OK if it may run.
static pyd_status_t refusal(pyd_task_t* task) {
  if (task->is_skipped) return task->status;
  return pyd_task_is_cancelled(task) ? cancelled() : PYD_STATUS_OK;
}

// Starts a dequeued task on pool thread |worker|, or completes it without running it if it was skipped or cancelled.
// The task may be freed on return.
void pyd_task_start(pyd_task_t* task, uint32_t worker) {
  pyd_status_t status = refusal(task);
  if (pyd_ok(status)) {
    advance(task, worker);
  } else {
    end(task, status);
  }
}

void pyd_task_resume(pyd_task_t* task, uint32_t worker) { advance(task, worker); }

// An interrupt that is wanted when |task| is cancelled or |other| (may be NULL) is wanted.
typedef struct either_s {
  pyd_task_t* task;
  const pyd_interrupt_t* other;
} either_t;

// Implements pyd_interrupt_t.is_wanted: whether the task is cancelled or another interrupt ends it. |self|: an
// either_t.
static int32_t is_either_wanted(void* self) {
  const either_t* either = self;
  return pyd_task_is_cancelled(either->task) || (either->other && either->other->is_wanted(either->other->self));
}

// Runs a dequeued task on this thread, with the floating-point mode and worker limit of its submission, and completes
// it. If it was skipped or cancelled, completes it without running it. |interrupt|, which may be NULL, ends the task
// early. The task may be freed on return.
void pyd_task_run_here(pyd_task_t* task, const pyd_interrupt_t* interrupt) {
  either_t either = {.task = task, .other = interrupt};
  const pyd_interrupt_t both = {.is_wanted = is_either_wanted, .self = &either};
  pyd_status_t status = refusal(task);
  if (pyd_ok(status)) {
    uint64_t fp_mode = pyd_cpu_fp_mode();  // of this thread, restored afterwards
    if (fp_mode != task->fp_mode) pyd_cpu_set_fp_mode(task->fp_mode);
    const pyd_scope_access_t scopes = task->sched->scopes;
    const pyd_scope_t *outer = pyd_scope_now(scopes), scope = scope_of(task, outer);
    pyd_scope_set(scopes, &scope);
    status = task->kind->run(pyd_task_payload(task), &both);
    pyd_scope_set(scopes, outer);
    if (fp_mode != task->fp_mode) pyd_cpu_set_fp_mode(fp_mode);
  }
  end(task, status);
}

// ---- submitting

// Allocates one dependency edge for each task that |task| is submitted after.
static pyd_status_t allocate_edges(pyd_task_t* task, const pyd_submit_options_t* options) {
  uint32_t count = options->after_count + (options->order_after != NULL);
  if (!count) return PYD_STATUS_OK;
  task->edges = calloc(count, sizeof(*task->edges));
  if (task->edges) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the %u dependencies of a task", count);
}

// Makes |task| depend on |predecessor| through |edge|. If |predecessor| has already failed, skips |task|, unless only
// the order matters (|is_order_only|). The caller holds the mutex.
static void add_dependency(pyd_task_t* task, pyd_task_t* predecessor, pyd_task_edge_t* edge, bool is_order_only) {
  if (pyd_task_state(predecessor) == PYD_TASK_DONE) {
    if (!pyd_ok(predecessor->status) && !is_order_only) skip(task, predecessor);
    return;
  }
  *edge = (pyd_task_edge_t){.next = predecessor->dependents, .dependent = task, .is_order_only = is_order_only};
  predecessor->dependents = edge;
  ++task->pending;
}

// Completes a task that was submitted before this process was forked, as the threads that would run it exist only in
// the parent. Returns false, without an effect, for all other tasks. The caller holds the mutex.
static bool complete_if_lost_in_fork(pyd_task_t* task) {
  const bool is_submitted = pyd_task_state(task) != PYD_TASK_NEW;
  const bool is_done = pyd_task_state(task) == PYD_TASK_DONE;
  const bool was_forked = task->epoch != task->sched->epoch;  // the epoch counts the forks of the process
  if (!is_submitted || is_done || !was_forked) return false;
  pyd_status_free(task->status);  // of a task that was skipped already, or was ending in the parent
  task->status = pyd_status_make(PYD_CODE_INTERRUPTED,
                                 "the call was submitted before this process was forked; it ends in the other one");
  atomic_store_explicit(&task->cancellation, PYD_CANCELLATION_REQUESTED, memory_order_relaxed);
  atomic_store_explicit(&task->state, PYD_TASK_DONE, memory_order_release);
  return true;
}

// Checks that |task| can be submitted with |options|: once, with a known priority, after tasks of the same scheduler.
// INVALID_ARGUMENT.
static pyd_status_t check_submission(const pyd_task_t* task, const pyd_submit_options_t* options) {
  if (pyd_task_state(task) != PYD_TASK_NEW)
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "submit: this call was submitted already");
  if (options->priority >= PYD_PRIORITIES)
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "submit: the priority is 0 (high), 1 (normal) or 2 (low)");
  for (uint32_t i = 0; i < options->after_count; ++i) {
    if (options->after[i]->sched != task->sched)
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "submit: call %u of those that this one waits for is of another device; wait "
                             "for it before submitting",
                             i);
  }
  return PYD_STATUS_OK;
}

// Adds |task| to the list of live tasks and makes it depend on the tasks of |options|. Returns whether it can start at
// once. The caller holds the mutex.
static bool add_to_live(pyd_task_t* task, const pyd_submit_options_t* options) {
  pyd_sched_t* sched = task->sched;
  pyd_task_retain(task);  // the scheduler's reference
  task->epoch = sched->epoch;
  task->live_next = sched->queue.live;
  if (task->live_next) task->live_next->live_previous = task;
  sched->queue.live = task;
  task->pending = 1;  // so that the task cannot start before all of its dependencies are added
  atomic_store_explicit(&task->state, PYD_TASK_WAITING, memory_order_relaxed);
  for (uint32_t i = 0; i < options->after_count; ++i) {
    add_dependency(task, options->after[i], &task->edges[i], /* is_order_only */ false);
  }
  // A task of another epoch never ends in this process, as its threads exist in the parent only.
  if (options->order_after && options->order_after->epoch == sched->epoch) {
    add_dependency(task, options->order_after, &task->edges[options->after_count], /* is_order_only */ true);
  }
  return unblock(task);  // drops the 1 that |pending| began with
}

// Submits |task| to the threads of its scheduler, after the tasks that |options| names. NULL: without options.
pyd_status_t pyd_task_submit(pyd_task_t* task, const pyd_submit_options_t* options) {
  static const pyd_submit_options_t kPlain = {.priority = PYD_PRIORITY_NORMAL};
  pyd_sched_t* sched = task->sched;
  if (!options) options = &kPlain;
  pyd_status_t status = check_submission(task, options);
  if (!pyd_ok(status)) return status;
  // Called for an effect: completes predecessors that no thread of this process runs, as it was forked meanwhile.
  for (uint32_t i = 0; i < options->after_count; ++i) pyd_task_is_done(options->after[i]);
  status = pyd_sched_start_for_tasks(sched);
  if (pyd_ok(status)) status = allocate_edges(task, options);
  if (!pyd_ok(status)) return status;
  task->priority = options->priority;
  task->workers = options->workers;
  task->on_done = options->on_done;
  task->context = options->context;
  task->fp_mode = pyd_cpu_fp_mode();
  pyd_task_lock(sched);
  if (atomic_load_explicit(&sched->closing, memory_order_acquire)) {
    pyd_task_unlock(sched);
    free(task->edges);  // the next submission allocates its own
    task->edges = NULL;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "submit: the device is being closed by another thread; submit the call when that "
                           "has returned");
  }
  const bool is_ready = add_to_live(task, options);
  pyd_task_unlock(sched);
  // The pool threads may have been stopped since the start above. If no thread can be started, the waiter runs the
  // task.
  pyd_status_free(pyd_sched_start_for_tasks(sched));
  if (is_ready) pyd_sched_wake_for_tasks(sched);
  return status;
}

// ---- queries

// Returns whether the task has ended. In the child of a fork, first completes a task that was submitted before the
// fork, because no thread of the child would run it.
bool pyd_task_is_done(pyd_task_t* task) {
  if (pyd_task_state(task) == PYD_TASK_DONE) return true;
  if (task->epoch == task->sched->epoch) return false;
  pyd_task_lock(task->sched);
  bool is_lost = complete_if_lost_in_fork(task);
  pyd_task_unlock(task->sched);
  if (is_lost) {
    end_payload(task);
    release_task(task);  // the scheduler's reference
  }
  return pyd_task_state(task) == PYD_TASK_DONE;
}

// Sets the function that is called after the task has ended. Returns false, without an effect, if it has ended already.
bool pyd_task_set_on_done(pyd_task_t* task, void (*on_done)(void* context, pyd_task_t* task), void* context) {
  if (pyd_task_is_done(task)) return false;
  pyd_task_lock(task->sched);
  bool is_done = pyd_task_state(task) == PYD_TASK_DONE;
  if (!is_done) task->on_done = on_done, task->context = context;
  pyd_task_unlock(task->sched);
  return !is_done;
}

// Requests cancellation, and ends the task at once if it is queued. Returns false if the task had ended before, or had
// committed its effects.
bool pyd_task_cancel(pyd_task_t* task) {
  if (pyd_task_is_done(task)) return false;
  pyd_task_lock(task->sched);
  const bool is_done = pyd_task_state(task) == PYD_TASK_DONE;
  const bool is_cancelled = !is_done && decide(task, PYD_CANCELLATION_REQUESTED);
  pyd_task_unlock(task->sched);
  if (!is_cancelled) return false;
  const bool was_queued = pyd_task_claim(task);
  if (was_queued) end(task, refusal(task));  // without having run
  return true;
}

// ---- shutdown of the scheduler

// Requests the cancellation of all tasks, when the scheduler is closed, before its threads are joined.
void pyd_task_cancel_all(pyd_sched_t* sched) {
  pyd_task_lock(sched);
  for (pyd_task_t* task = sched->queue.live; task; task = task->live_next) {
    // A task without a payload has run, and only its status is not set yet. It must not become a cancelled task:
    // dropping its payload may have released the last reference to the scheduler, which closes the scheduler and calls
    // this.
    if (!atomic_load_explicit(&task->payload_references, memory_order_acquire)) continue;
    decide(task, PYD_CANCELLATION_REQUESTED);
  }
  pyd_task_unlock(sched);
}

// Completes all queued tasks without running them, and waits for the tasks that run on threads of the program, which
// wait for the tasks. Must be called after all tasks were cancelled and the threads of the closing scheduler were
// joined.
void pyd_task_drain(pyd_sched_t* sched) {
  pyd_task_lock(sched);
  while (sched->queue.live) {
    // Ending a task queues its dependents, so both queues are searched again each time. If both are empty, each live
    // task runs on a thread that waits for it, and its end is signaled by |has_changed|.
    pyd_task_t* task = pyd_task_pop(&sched->queue.ready);
    if (!task) task = pyd_task_pop(&sched->blocking.ready);
    if (!task) {
      pthread_cond_wait(&sched->queue.has_changed, &sched->queue.mutex);
      continue;
    }
    pyd_task_unlock(sched);
    end(task, refusal(task));
    pyd_task_lock(sched);
  }
  pyd_task_unlock(sched);
}
