// Destruction by one of the scheduler's own threads. The last reference to a device may be released on a thread of its
// pool, which cannot join itself: the scheduler is then destroyed by that thread when it leaves the pool. No memory and
// no further thread are needed for it.
#include "sched/task.h"

// Returns the entry of the calling thread if it is a pool thread, started or donated; else NULL.
pyd_sched_thread_t* pyd_sched_own_thread(pyd_sched_t* sched) {
  const bool are_lent = sched->options.are_lent;
  pyd_sched_thread_t* own = NULL;
  if (are_lent) pthread_mutex_lock(&sched->lifecycle);  // guards |is_taken|
  const uint32_t count = are_lent ? sched->workers : atomic_load_explicit(&sched->started, memory_order_acquire);
  for (uint32_t i = 0; i < count && !own; ++i) {
    pyd_sched_thread_t* thread = &sched->threads[i];
    if (are_lent && !thread->is_taken) continue;
    if (pthread_equal(thread->thread.handle, pthread_self())) own = thread;
  }
  if (are_lent) pthread_mutex_unlock(&sched->lifecycle);
  return own;
}

// Lets the calling thread, if it is one of the scheduler's, destroy the scheduler when it leaves the pool. Returns
// false for other threads. All threads are woken, as sleeping ones would not see that the scheduler is closing.
bool pyd_sched_destroy_later(pyd_sched_t* sched) {
  pyd_sched_thread_t* self = pyd_sched_own_thread(sched);
  pyd_blocking_thread_t* blocking = self ? NULL : pyd_blocking_own_thread(sched);
  if (!self && !blocking) return false;
  pthread_mutex_lock(&sched->lifecycle);
  *(self ? &self->destroys_sched : &blocking->destroys_sched) = true;
  atomic_store_explicit(&sched->closing, 1, memory_order_seq_cst);
  pyd_sched_pool_wake(sched, /* among */ sched->workers, /* count */ sched->workers);
  pthread_mutex_unlock(&sched->lifecycle);
  return true;
}

// Runs a pool thread from its start to its end, as the start function of the scheduler's own threads.
void pyd_sched_thread_main(void* argument) {
  pyd_sched_thread_t* self = argument;
  pyd_sched_t* sched = self->sched;
  pyd_sched_pool_main(self);
  if (!self->destroys_sched) return;
  pyd_sched_end_threads(sched, self, NULL);
  pyd_thread_detach(&self->thread);
  pyd_sched_free(sched);
}
