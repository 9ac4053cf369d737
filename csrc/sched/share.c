// Parallel jobs of asynchronous tasks. There is no join: the last participant to finish continues the task.
#include "sched/task.h"

// Leaves the window, the range of at most PYD_SCHED_WINDOW indices that is open now, after all of them are claimed.
// Returns true if this was the last participant. If others left indices behind, the last participant runs them first.
static bool leave_window(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter) {
  for (;;) {
    atomic_fetch_and_explicit(&slot->state, ~PYD_SLOT_OPEN, memory_order_relaxed);  // so that the count only falls
    // The count before the decrement is 1 for the last participant.
    if ((atomic_fetch_sub_explicit(&slot->state, 1, memory_order_acq_rel) & PYD_SLOT_COUNT) != 1) return false;
    if (!pyd_sched_has_leftovers(sched, slot)) {
      pyd_sched_hide(sched, slot);  // a participant that left early may have set the slot's bit again
      return true;
    }
    atomic_store_explicit(&slot->state, 1, memory_order_relaxed);  // closed, with this thread as the only participant
    while (pyd_sched_work(sched, slot, worker, meter)) {           // as the last participant it must not leave early
    }
  }
}

// Ends a window that all participants have left: records its failure, or learns from how long it took. Returns true,
// after releasing the slot, if the job has ended, with its last index or a failure. |meter|: of the calling thread.
static bool end_window(pyd_sched_t* sched, pyd_sched_slot_t* slot, const pyd_sched_meter_t* meter) {
  pyd_task_t* task = slot->task;
  uint64_t spent = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(task->start, pyd_cpu_ticks())) - meter->waited;
  pyd_sched_settle(sched, slot, task->window, spent, task->has_woken, &task->failure);
  task->begin += task->window;
  if (task->begin < task->job.count && !task->failure.code) return false;
  pyd_sched_release_slot(sched, slot);
  if (!task->failure.code) pyd_sched_learn(&task->job, meter);  // a job that failed has not run all indices
  return true;
}

// Opens one window after the other for the rest of the job and participates in them. Returns true when the job has
// ended, and false when other participants still work: the last one to leave then continues the task.
static bool work_windows(pyd_sched_t* sched, pyd_sched_slot_t* slot, pyd_task_t* task, uint32_t worker) {
  for (;;) {
    pyd_sched_meter_t meter = {0};
    uint64_t left = task->job.count - task->begin;
    task->window = left < PYD_SCHED_WINDOW ? (uint32_t)left : PYD_SCHED_WINDOW;
    slot->base = task->begin;
    task->start = slot->opened = pyd_cpu_ticks();
    task->has_woken = pyd_sched_publish(sched, slot, worker, task->window, /* initial participants */ 1);
    while (pyd_sched_work(sched, slot, worker, &meter)) {
      if (pyd_sched_leave_early(sched, slot)) return false;
      pyd_sched_yield(sched, slot, &meter);
    }
    if (!leave_window(sched, slot, worker, &meter)) return false;
    if (end_window(sched, slot, &meter)) return true;
  }
}

// Runs work_windows() within the scope of the job: if the job has a worker limit, jobs that are run within it are
// limited to one worker.
static bool work_in_scope(pyd_sched_t* sched, pyd_sched_slot_t* slot, pyd_task_t* task, uint32_t worker) {
  const pyd_scope_t *outer = pyd_scope_now(sched->scopes),
                    scope = {outer, sched, slot->max_participants < sched->workers, PYD_SCOPE_PERMIT_INHERITED};
  pyd_scope_set(sched->scopes, &scope);
  const bool has_ended = work_windows(sched, slot, task, worker);
  pyd_scope_set(sched->scopes, outer);
  return has_ended;
}

// Leaves the job of a task after its indices were claimed. The last participant opens the next window, and continues
// the task after the last window.
void pyd_task_leave(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t worker, pyd_sched_meter_t* meter) {
  if (!leave_window(sched, slot, worker, meter)) return;
  pyd_task_t* task = slot->task;
  if (end_window(sched, slot, meter) || work_in_scope(sched, slot, task, worker)) pyd_task_resume(task, worker);
}

// Runs the first indices on this thread to learn their cost, then shares the rest, or runs it here if all slots are in
// use. Returns true if the job has ended, false if another participant will continue the task.
bool pyd_task_share(pyd_task_t* task, const pyd_sched_job_t* job, uint32_t worker) {
  pyd_sched_t* sched = task->sched;
  pyd_sched_meter_t meter = {0};
  task->failure = (pyd_sched_failure_t){0};
  if (job->count == 0) return true;
  task->job = *job;
  task->job.interrupt = &task->interrupt;  // wanted when the task is cancelled
  task->begin = pyd_sched_begin(sched, &task->job, &task->cost, &meter, &task->failure);
  if (task->begin < job->count) {
    pyd_sched_slot_t* slot = pyd_sched_acquire_slot(sched, &task->job, task->cost, task);
    if (slot) return work_in_scope(sched, slot, task, worker);
    meter = (pyd_sched_meter_t){0};  // drops the times of the first indices
    pyd_sched_run_rest(sched, &task->job, task->begin, &meter, &task->failure);
  }
  if (!task->failure.code) pyd_sched_learn(&task->job, &meter);
  return true;
}
