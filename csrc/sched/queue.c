#include "sched/task.h"

void pyd_task_push(pyd_task_t* task) {
  pyd_sched_t* sched = task->sched;
  pyd_task_queue_t* queue = &sched->queue;
  task->next = NULL;
  task->previous = queue->last[task->priority];
  *(task->previous ? &task->previous->next : &queue->first[task->priority]) = task;
  queue->last[task->priority] = task;
  atomic_store_explicit(&task->state, PYD_TASK_QUEUED, memory_order_release);
  atomic_fetch_add_explicit(&sched->queued, 1, memory_order_seq_cst);
}

// Under the mutex.
static void unlink_queued(pyd_task_t* task) {
  pyd_task_queue_t* queue = &task->sched->queue;
  *(task->previous ? &task->previous->next : &queue->first[task->priority]) = task->next;
  *(task->next ? &task->next->previous : &queue->last[task->priority]) = task->previous;
  atomic_store_explicit(&task->state, PYD_TASK_RUNNING, memory_order_relaxed);
  atomic_fetch_sub_explicit(&task->sched->queued, 1, memory_order_relaxed);
}

pyd_task_t* pyd_task_take(pyd_sched_t* sched) {
  pyd_task_t* task = NULL;
  pyd_task_lock(sched);
  for (int priority = 0; priority < PYD_PRIORITIES && !task; ++priority) task = sched->queue.first[priority];
  if (task) unlink_queued(task);
  pyd_task_unlock(sched);
  return task;
}

uint32_t pyd_task_next_priority(pyd_sched_t* sched) {
  uint32_t priority = 0;
  pyd_task_lock(sched);
  while (priority < PYD_PRIORITY_LOW && !sched->queue.first[priority]) ++priority;
  pyd_task_unlock(sched);
  return priority;
}

bool pyd_task_claim(pyd_task_t* task) {
  if (pyd_task_state(task) != PYD_TASK_QUEUED) return false;
  pyd_task_lock(task->sched);
  bool is_queued = pyd_task_state(task) == PYD_TASK_QUEUED;
  if (is_queued) unlink_queued(task);
  pyd_task_unlock(task->sched);
  return is_queued;
}
