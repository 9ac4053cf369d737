// Donated threads: threads of an embedder that work in the pool for a while, in place of threads of the scheduler.
#include "sched/internal.h"

static pyd_status_t refuse(const char* why) { return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s", why); }

// Gives the calling thread, which an embedder donates, the first free entry of sched->threads; returns NULL when all
// are taken. The caller holds the lifecycle mutex.
static pyd_sched_thread_t* claim_entry(pyd_sched_t* sched) {
  for (uint32_t i = 0; i < sched->workers; ++i) {
    pyd_sched_thread_t* thread = &sched->threads[i];
    if (thread->is_taken) continue;
    thread->is_taken = true;
    thread->thread.handle = pthread_self();
    atomic_fetch_add_explicit(&sched->started, 1, memory_order_relaxed);
    return thread;
  }
  return NULL;
}

// Releases the entry |thread| of sched->threads, which the calling thread has had, and notifies a thread that closes
// the scheduler and waits for donated threads.
static void release_entry(pyd_sched_t* sched, pyd_sched_thread_t* thread) {
  // This thread may have been woken for a task and have left without the task: wake another thread.
  if (atomic_load_explicit(&sched->queued, memory_order_seq_cst)) pyd_sched_wake_for_tasks(sched);
  pthread_mutex_lock(&sched->lifecycle);
  if (thread->is_taken) {  // false in the child of a fork, which has reset the entry and the count
    thread->is_taken = false;
    atomic_fetch_sub_explicit(&sched->started, 1, memory_order_relaxed);
  }
  pthread_cond_broadcast(&sched->stopped);
  pthread_mutex_unlock(&sched->lifecycle);
}

// Donates this thread to a pool of donated threads, until |until| requests an end or the scheduler is stopped.
pyd_status_t pyd_sched_lend(pyd_sched_t* sched, const pyd_interrupt_t* until) {
  if (!sched->options.are_lent) return refuse("the device has threads of its own; create one whose threads are lent");
  if (pyd_scope_now(sched->scopes) || pyd_sched_own_thread(sched))
    return refuse("this thread works for a call; lend it when that has ended");
  pthread_mutex_lock(&sched->lifecycle);
  const bool is_closing = atomic_load_explicit(&sched->closing, memory_order_relaxed);
  pyd_sched_thread_t* thread = is_closing ? NULL : claim_entry(sched);
  if (thread) thread->until = until;
  pthread_mutex_unlock(&sched->lifecycle);
  if (is_closing) return refuse("the device is being closed by another thread");
  if (!thread)
    return refuse(
        "the device has as many threads as workers; end the lending of another one, or create it with more workers");
  const uint64_t fp_mode = pyd_cpu_fp_mode();  // restored below, as jobs set the floating-point mode of their callers
  pyd_sched_pool_main(thread);
  pyd_cpu_set_fp_mode(fp_mode);
  const bool destroys_sched = thread->destroys_sched;  // the last reference was released on this thread
  release_entry(sched, thread);
  if (destroys_sched) {
    pyd_sched_end_threads(sched, /* self */ NULL, /* blocking */ NULL);  // this thread has left
    pyd_sched_free(sched);
  }
  return PYD_STATUS_OK;
}

// Waits until no thread is donated. The caller holds the lifecycle mutex and is closing the scheduler.
void pyd_sched_await_lent(pyd_sched_t* sched) {
  if (!sched->options.are_lent) return;
  while (atomic_load_explicit(&sched->started, memory_order_relaxed))
    pthread_cond_wait(&sched->stopped, &sched->lifecycle);
}
