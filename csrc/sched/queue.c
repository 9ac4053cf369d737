// The queues of submitted tasks that are ready to run: one for pool threads, one for blocking threads.
#include "sched/task.h"

// Returns the queue of |task|: the blocking threads' queue for a task with host commands, else the pool threads' queue.
static pyd_task_list_t* list_of(const pyd_task_t* task) {
  return task->is_blocking ? &task->sched->blocking.ready : &task->sched->queue.ready;
}

// Appends |task| to the tasks of its priority in |list|. The caller holds the mutex.
static void append(pyd_task_list_t* list, pyd_task_t* task) {
  task->next = NULL;
  task->previous = list->tail[task->priority];
  if (task->previous) {
    task->previous->next = task;
  } else {
    list->head[task->priority] = task;
  }
  list->tail[task->priority] = task;
}

// Removes |task| from its queue, a doubly linked list, and makes it RUNNING. The caller holds the mutex.
static void unlink_queued(pyd_task_t* task) {
  pyd_task_list_t* list = list_of(task);
  if (task->previous) {
    task->previous->next = task->next;
  } else {
    list->head[task->priority] = task->next;
  }
  if (task->next) {
    task->next->previous = task->previous;
  } else {
    list->tail[task->priority] = task->previous;
  }
  atomic_store_explicit(&task->state, PYD_TASK_RUNNING, memory_order_relaxed);
  if (task->is_blocking) {
    --task->sched->blocking.queued;
  } else {
    atomic_fetch_sub_explicit(&task->sched->queued, 1, memory_order_relaxed);
  }
}

// Queues a task for the blocking threads, which run tasks that may sleep. Returns false, without having queued the
// task, if there is no such thread and none can be started. The caller holds the mutex.
static bool push_blocking(pyd_task_t* task) {
  append(list_of(task), task);
  ++task->sched->blocking.queued;
  if (pyd_blocking_ensure_thread(task->sched)) return true;
  unlink_queued(task);
  return false;
}

// Appends |task| to the queue of its priority and makes it QUEUED. The caller holds the mutex.
void pyd_task_push(pyd_task_t* task) {
  // Without a blocking thread the task becomes a plain one, which a pool thread runs.
  if (task->is_blocking) task->is_blocking = push_blocking(task);
  if (!task->is_blocking) append(list_of(task), task);
  atomic_store_explicit(&task->state, PYD_TASK_QUEUED, memory_order_release);
  if (!task->is_blocking) atomic_fetch_add_explicit(&task->sched->queued, 1, memory_order_seq_cst);
}

// Removes the next task from |list|, makes it RUNNING and returns it; NULL when the list is empty. The caller holds the
// mutex.
pyd_task_t* pyd_task_pop(pyd_task_list_t* list) {
  pyd_task_t* task = NULL;
  // Priority 0 is the highest.
  for (int priority = 0; priority < PYD_PRIORITIES && !task; ++priority) task = list->head[priority];
  if (task) unlink_queued(task);
  return task;
}

// Removes and returns the next task for pool threads; NULL without one.
pyd_task_t* pyd_task_take(pyd_sched_t* sched) {
  pyd_task_lock(sched);
  pyd_task_t* task = pyd_task_pop(&sched->queue.ready);
  pyd_task_unlock(sched);
  return task;
}

// Returns the priority of the next task; the lowest one if the queue is empty.
uint32_t pyd_task_next_priority(pyd_sched_t* sched) {
  uint32_t priority = 0;
  pyd_task_lock(sched);
  while (priority < PYD_PRIORITY_LOW && !sched->queue.ready.head[priority]) ++priority;
  pyd_task_unlock(sched);
  return priority;
}

// Removes |task| from the queue and makes it RUNNING. Returns false if it is not queued.
bool pyd_task_claim(pyd_task_t* task) {
  if (pyd_task_state(task) != PYD_TASK_QUEUED) return false;  // without the mutex, as most tasks run already
  pyd_task_lock(task->sched);
  bool is_queued = pyd_task_state(task) == PYD_TASK_QUEUED;
  if (is_queued) unlink_queued(task);
  pyd_task_unlock(task->sched);
  return is_queued;
}
