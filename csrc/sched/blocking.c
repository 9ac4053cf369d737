// Threads for tasks that may block, so that pool threads remain available to tasks that compute.
//
// Such a task runs as a caller would run it: its jobs are shared with the pool and hold permits, the rest of the task
// holds none. As many of them run at once as the scheduler has workers. A task inside a blocking section does not
// count: another task may begin meanwhile.
#include <stdio.h>

#include "sched/task.h"

// Resets the threads and tasks that may block to none, at creation and in the child of a fork.
void pyd_blocking_reset(pyd_sched_t* sched) {
  sched->blocking = (pyd_blocking_pool_t){.queued = 0};
  pthread_cond_init(&sched->blocking.has_work, NULL);
}

// Returns whether a queued task may begin now. The caller holds the mutex.
static bool may_begin(const pyd_sched_t* sched) {
  return sched->blocking.queued && sched->blocking.active < sched->workers;
}

// Waits until a task may begin, counts its thread as active and returns it; NULL when the scheduler stops. The caller
// holds the mutex, which is released while it waits.
static pyd_task_t* await_task(pyd_sched_t* sched) {
  pyd_blocking_pool_t* pool = &sched->blocking;
  while (!atomic_load_explicit(&sched->closing, memory_order_relaxed)) {
    if (may_begin(sched)) {
      ++pool->active;
      return pyd_task_pop(&pool->ready);
    }
    ++pool->idle;
    pthread_cond_wait(&pool->has_work, &sched->queue.mutex);
    --pool->idle;
  }
  return NULL;
}

// Runs tasks that may block until the scheduler closes: the main loop of a blocking thread. Its worker number, for
// on_start and on_stop, follows the numbers of pool threads.
static void run_tasks(pyd_blocking_thread_t* self) {
  pyd_sched_t* sched = self->sched;
  const pyd_sched_threads_t* options = &sched->options;
  const uint32_t number = sched->workers + (uint32_t)(self - sched->blocking.threads);
  const pyd_scope_t scope = {.owner = &sched->blocking, .permit = PYD_SCOPE_PERMIT_NONE};
  if (options->on_start) options->on_start(options->context, number);
  pyd_scope_set(sched->scopes, &scope);
  pyd_task_lock(sched);
  for (pyd_task_t* task; (task = await_task(sched));) {
    pyd_task_unlock(sched);
    pyd_task_run_here(task, NULL);
    pyd_task_lock(sched);
    --sched->blocking.active;
  }
  pyd_task_unlock(sched);
  pyd_scope_set(sched->scopes, NULL);
  if (options->on_stop) options->on_stop(options->context, number);
}

// Runs a blocking thread from its start to its end. A thread on which the last reference to the scheduler was released
// destroys it: it waits for all others, and cannot be joined itself.
static void blocking_main(void* argument) {
  pyd_blocking_thread_t* self = argument;
  run_tasks(self);
  if (!self->destroys_sched) return;
  pyd_sched_end_threads(self->sched, NULL, self);
  pyd_thread_detach(&self->thread);
  pyd_sched_free(self->sched);
}

// Starts one more thread, if the limit and the system allow it. The caller holds the mutex.
static void start_thread(pyd_sched_t* sched) {
  pyd_blocking_pool_t* pool = &sched->blocking;
  if (pool->started == PYD_SCHED_BLOCKING_THREADS || atomic_load_explicit(&sched->closing, memory_order_relaxed))
    return;
  char name[24];  // truncated to 15 bytes by the system
  snprintf(name, sizeof(name), "pydispatch-b%u", (unsigned)(pool->started + 1));
  pyd_blocking_thread_t* thread = &pool->threads[pool->started];
  thread->sched = sched;
  const bool has_started = pyd_thread_start(&thread->thread, blocking_main, thread, name) == 0;
  if (has_started) ++pool->started;
}

// Starts or wakes a thread for the queued tasks that may block, if one of these tasks may begin now. Returns false if
// one may begin, but there is no thread and none can be started. The caller holds the mutex.
bool pyd_blocking_ensure_thread(pyd_sched_t* sched) {
  pyd_blocking_pool_t* pool = &sched->blocking;
  if (sched->options.are_lent) return false;  // a scheduler of donated threads starts none itself
  if (!may_begin(sched)) return true;
  // |room|: how many more tasks may run at once; |wanted|: threads that queued tasks could use now.
  const uint32_t room = sched->workers - pool->active, wanted = pool->queued < room ? pool->queued : room;
  if (pool->idle < wanted) start_thread(sched);
  if (pool->idle) pthread_cond_signal(&pool->has_work);
  return pool->started != 0;
}

// Joins, while the scheduler is closing, the threads other than |self|, which may be NULL.
void pyd_blocking_stop(pyd_sched_t* sched, const pyd_blocking_thread_t* self) {
  pyd_blocking_pool_t* pool = &sched->blocking;
  pyd_task_lock(sched);
  pthread_cond_broadcast(&pool->has_work);
  const uint32_t started = pool->started;
  pyd_task_unlock(sched);
  for (uint32_t i = 0; i < started; ++i) {
    if (&pool->threads[i] != self) pyd_thread_join(&pool->threads[i].thread);
  }
  pyd_task_lock(sched);
  pool->started = 0;
  pyd_task_unlock(sched);
}

// Returns the entry of the calling thread if it is one of the threads for tasks that may block; else NULL.
pyd_blocking_thread_t* pyd_blocking_own_thread(pyd_sched_t* sched) {
  pyd_blocking_thread_t* own = NULL;
  pyd_task_lock(sched);
  for (uint32_t i = 0; i < sched->blocking.started && !own; ++i) {
    pyd_blocking_thread_t* thread = &sched->blocking.threads[i];
    if (pthread_equal(thread->thread.handle, pthread_self())) own = thread;
  }
  pyd_task_unlock(sched);
  return own;
}

// ---- blocking sections

// Returns whether the calling thread is a blocking thread that counts as active: it has the scope of run_tasks(), and
// no section is open within that scope. The scopes of a pool thread that participates in a job of a blocking thread end
// in that scope, too, but its own scope is further in. It holds a permit, so the search ends there.
static bool is_active_thread(const pyd_sched_t* sched) {
  for (const pyd_scope_t* scope = pyd_scope_now(sched->scopes); scope; scope = scope->outer) {
    if (scope->owner == &sched->blocking) return true;
    if (scope->owner == &sched->blocking.active) return false;  // a section of this thread
    if (scope->owner == sched && scope->permit == PYD_SCOPE_PERMIT_HELD) return false;
  }
  return false;
}

// Releases the compute permit of this thread, if it holds one, because the thread is about to block. On a blocking
// thread, lets another queued task begin meanwhile, unless an outer section does so already. |*out_blocking| must stay
// in place until pyd_sched_block_end(): the scopes of the thread refer to it.
void pyd_sched_block_begin(pyd_sched_t* sched, pyd_blocking_t* out_blocking) {
  *out_blocking = (pyd_blocking_t){.sched = sched};
  if (!sched) return;
  out_blocking->has_released_permit = pyd_permit_is_held(sched->scopes);
  out_blocking->was_active = is_active_thread(sched);
  out_blocking->scope = (pyd_scope_t){.outer = pyd_scope_now(sched->scopes),
                                      .owner = out_blocking->was_active ? &sched->blocking.active : NULL,
                                      .permit = PYD_SCOPE_PERMIT_NONE};
  pyd_scope_set(sched->scopes, &out_blocking->scope);
  if (out_blocking->has_released_permit) pyd_permit_release_as_caller(sched->permits);
  if (!out_blocking->was_active) return;
  pyd_task_lock(sched);
  --sched->blocking.active;
  pyd_blocking_ensure_thread(sched);
  pyd_task_unlock(sched);
}

// Ends pyd_sched_block_begin(): acquires the permit again, without waiting, as the thread is in the middle of a call.
void pyd_sched_block_end(pyd_blocking_t* blocking) {
  pyd_sched_t* sched = blocking->sched;
  if (!sched) return;
  if (blocking->was_active) {
    pyd_task_lock(sched);
    ++sched->blocking.active;
    pyd_task_unlock(sched);
  }
  if (blocking->has_released_permit) pyd_permit_take_as_caller(sched->permits);
  pyd_scope_set(sched->scopes, blocking->scope.outer);
}
