// Starts the threads of the pool: at creation, again after a fork, and worker 0 with the first task.
#include <stdio.h>
#include <string.h>

#include "sched/internal.h"

// Starts threads until sched->wanted exist. Returns 0, or the errno of the thread that could not be started. The caller
// holds the lifecycle mutex, or is creating the scheduler.
int pyd_sched_start_threads(pyd_sched_t* sched) {
  uint32_t started = atomic_load_explicit(&sched->started, memory_order_relaxed);
  while (started < atomic_load_explicit(&sched->wanted, memory_order_relaxed)) {
    char name[24];  // truncated to 15 bytes by the system
    snprintf(name, sizeof(name), "pydispatch-%u", (unsigned)(started + 1));
    pyd_sched_thread_t* thread = &sched->threads[started];
    int error = pyd_thread_start(&thread->thread, pyd_sched_thread_main, thread, name);
    if (error) return error;
    atomic_store_explicit(&sched->started, ++started, memory_order_release);
  }
  return 0;
}

// Returns whether the pool has a thread that could share a job, after starting its threads if none exist (after a
// fork).
bool pyd_sched_ensure_started(pyd_sched_t* sched) {
  if (sched->options.are_lent) return atomic_load_explicit(&sched->started, memory_order_relaxed) != 0;
  uint32_t wanted = atomic_load_explicit(&sched->wanted, memory_order_relaxed);
  if (wanted && atomic_load_explicit(&sched->started, memory_order_acquire) == wanted) return true;
  // After a fork one caller restarts the threads, and others continue without waiting for it. A failure is not retried.
  if (!atomic_load_explicit(&sched->start_failed, memory_order_relaxed) &&
      pthread_mutex_trylock(&sched->lifecycle) == 0) {
    // Threads that are being stopped still use their entries of |threads|.
    bool may_start = !atomic_load_explicit(&sched->closing, memory_order_relaxed);
    if (may_start && pyd_sched_start_threads(sched))
      atomic_store_explicit(&sched->start_failed, 1, memory_order_relaxed);
    pthread_mutex_unlock(&sched->lifecycle);
  }
  return atomic_load_explicit(&sched->started, memory_order_acquire) != 0;
}

// Starts all threads of the pool, worker 0 included. Fails with SYSTEM only if the pool has no thread at all.
pyd_status_t pyd_sched_start_for_tasks(pyd_sched_t* sched) {
  if (sched->options.are_lent || atomic_load_explicit(&sched->started, memory_order_acquire) == sched->workers)
    return PYD_STATUS_OK;
  pthread_mutex_lock(&sched->lifecycle);
  // Threads that are being stopped still use their entries. pyd_task_submit() refuses the task later, under the mutex.
  bool may_start = !atomic_load_explicit(&sched->closing, memory_order_relaxed);
  if (may_start) atomic_store_explicit(&sched->wanted, sched->workers, memory_order_relaxed);
  int error = may_start ? pyd_sched_start_threads(sched) : 0;
  bool has_threads = !may_start || atomic_load_explicit(&sched->started, memory_order_relaxed) != 0;
  pthread_mutex_unlock(&sched->lifecycle);
  if (has_threads) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_SYSTEM,
                         "submit: no thread could be started to run the call: %s; end some threads of the "
                         "process, or call without submit",
                         strerror(error));
}
