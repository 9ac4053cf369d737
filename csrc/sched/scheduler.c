// Creation, stop and destruction of schedulers, and their state across a fork.
#include <stdlib.h>
#include <string.h>

#include "base/aligned.h"
#include "sched/placement.h"
#include "sched/task.h"

// Allocates zeroed memory for |count| elements of |size| bytes, on whole cache lines. Returns NULL when out of memory.
static void* allocate(size_t count, size_t size) {
  size_t bytes = count * size;  // both are bounded by PYD_SCHED_MAX_WORKERS, nothing can wrap
  bytes = (bytes + PYD_CPU_CACHE_LINE - 1) / PYD_CPU_CACHE_LINE * PYD_CPU_CACHE_LINE;
  void* memory = pyd_aligned_alloc(PYD_CPU_CACHE_LINE, bytes);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

// Initializes an entry of the pool without a thread: it is on no CPU (PYD_PLACEMENT_NONE), and there is no thread whose
// affinity could be changed (PYD_PLACEMENT_GONE). The last entry is worker 0, see pyd_sched_t.
static void reset_thread(pyd_sched_t* sched, uint32_t index) {
  pyd_sched_thread_t* thread = &sched->threads[index];
  pyd_event_init(&thread->wake);
  atomic_init(&thread->wake.is_set, 1);  // not parked
  atomic_init(&thread->idle_since, 0);
  thread->sched = sched;
  thread->worker = (index + 1) % sched->workers;  // entry 0 is worker 1, the last entry worker 0
  thread->is_taken = false;
  thread->destroys_sched = false;
  thread->has_idled = false;
  thread->has_slept = false;
  atomic_init(&thread->placement.state, PYD_PLACEMENT_GONE);
  atomic_init(&thread->placement.cpu, PYD_PLACEMENT_NONE);
  atomic_init(&sched->occupied[index], PYD_PLACEMENT_NONE);
  // Picoseconds of work from which sharing it with a spinning thread pays, and from which waking one does: constants in
  // nanoseconds until the thread has measured delays.
  thread->worth_spinning = UINT64_C(1000) * PYD_SCHED_WORTH_SPINNING;
  thread->worth_waking = UINT64_C(1000) * PYD_SCHED_WORTH_WAKING;
  // Nanoseconds for which an idle thread spins: fixed if |spin_us| is not negative, else adapted from this value on.
  // Worker 0 does not spin by default, so that callers get the CPU.
  bool spins = !sched->oversubscribed && thread->worker;
  thread->spin = sched->spin_us >= 0 ? (uint64_t)sched->spin_us * 1000 : spins ? PYD_SCHED_SPIN_MAX : 0;
}

// Makes a slot free, without a job, with an empty range of indices for each of the workers.
static void reset_slot(pyd_sched_slot_t* slot, uint32_t workers) {
  atomic_init(&slot->state, 0);
  atomic_init(&slot->wakes_left, 0);
  atomic_init(&slot->cpu, PYD_PLACEMENT_NONE);
  atomic_init(&slot->failure, PYD_SCHED_NO_FAILURE);
  pyd_event_init(&slot->done);
  for (uint32_t i = 0; i < workers; ++i) {
    atomic_init(&slot->cells[i].range, 0);   // empty
    atomic_init(&slot->cells[i].thefts, 0);  // it is odd if another thread was stealing at the fork
  }
}

// Initializes the state of a scheduler in which no thread works, waits, or exists: at creation, and in the child of a
// fork.
static void reset(pyd_sched_t* sched) {
  pthread_mutex_init(&sched->lifecycle, NULL);
  pthread_cond_init(&sched->stopped, NULL);
  pthread_mutex_init(&sched->queue.mutex, NULL);
  pthread_cond_init(&sched->queue.has_changed, NULL);
  memset(&sched->queue.ready, 0, sizeof(sched->queue.ready));
  sched->queue.live = NULL;
  atomic_init(&sched->queued, 0);
  atomic_init(&sched->callers, 0);
  // All workers but worker 0, which is started with the first task. Threads that an embedder donates are not started.
  atomic_init(&sched->wanted, sched->options.are_lent ? 0 : sched->workers - 1);
  atomic_init(&sched->started, 0);
  atomic_init(&sched->start_failed, 0);
  atomic_init(&sched->closing, 0);
  atomic_init(&sched->open, 0);
  atomic_init(&sched->used, 0);
  atomic_init(&sched->sleepers, 0);
  atomic_init(&sched->spinners, 0);
  atomic_init(&sched->lacks_permits, 0);
  atomic_init(&sched->serial_work, 0);
  atomic_init(&sched->alone_until, 0);
  atomic_init(&sched->wake_threshold, UINT64_C(1000) * PYD_SCHED_WORTH_WAKING);
  atomic_init(&sched->worth_spinning, UINT64_C(1000) * PYD_SCHED_WORTH_SPINNING);
  atomic_init(&sched->worth_waking, UINT64_C(1000) * PYD_SCHED_WORTH_WAKING);
  pyd_blocking_reset(sched);
  for (uint32_t i = 0; i < sched->workers; ++i) reset_thread(sched, i);
  for (uint32_t i = 0; i < PYD_SCHED_SLOTS; ++i) reset_slot(&sched->slots[i], sched->workers);
}

// Allocates the arrays that |sched|, which has its number of workers, points to, and permits of its own if |permits| is
// NULL. Returns false when out of memory; free_parts() then frees the others.
static bool allocate_parts(pyd_sched_t* sched, pyd_permits_t* permits) {
  const size_t workers = sched->workers;
  sched->slots = allocate(PYD_SCHED_SLOTS, sizeof(*sched->slots));
  sched->threads = allocate(workers, sizeof(*sched->threads));
  sched->occupied = allocate(workers, sizeof(*sched->occupied));
  pyd_sched_cell_t* cells = allocate(PYD_SCHED_SLOTS * workers, sizeof(*cells));
  if (sched->slots) {
    for (uint32_t i = 0; i < PYD_SCHED_SLOTS; ++i) sched->slots[i].cells = cells + i * workers;
  } else {
    pyd_aligned_free(cells);
  }
  sched->owns_permits = !permits;
  sched->permits = permits ? permits : pyd_permits_create();
  return sched->slots && sched->threads && sched->occupied && cells && sched->permits;
}

// Frees |sched|, which may be NULL, and its arrays, of which some may be NULL after a failed allocation.
static void free_parts(pyd_sched_t* sched) {
  if (!sched) return;
  free(sched->cpus);
  free(sched->near);
  free(sched->machine);
  if (sched->owns_permits) pyd_permits_destroy(sched->permits);
  if (sched->slots) pyd_aligned_free(sched->slots[0].cells);  // the cells of all slots are one array
  pyd_aligned_free(sched->slots);
  pyd_aligned_free(sched->threads);
  pyd_aligned_free(sched->occupied);
  pyd_aligned_free(sched);
}

// Checks what the system and the limits allow of |options|. |has_affinity|: each worker is to stay on a CPU.
// INVALID_ARGUMENT, UNSUPPORTED.
static pyd_status_t check_options(const pyd_sched_options_t* options, bool has_affinity) {
  if (options->workers > PYD_SCHED_MAX_WORKERS) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "scheduler: %u workers asked for, at most %d are possible",
                           (unsigned)options->workers, PYD_SCHED_MAX_WORKERS);
  }
  if (has_affinity && !pyd_affinity_is_supported()) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "scheduler: this system does not let a thread stay on a CPU; open the device without "
                           "affinity");
  }
  if (options->spin_us < -1 || options->spin_us > 1000000) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "scheduler: spin of %d microseconds asked for; give 0 to 1000000, or -1 to let it adapt",
                           (int)options->spin_us);
  }
  return PYD_STATUS_OK;
}

// Creates a scheduler and starts its threads, one fewer than workers.
pyd_status_t pyd_sched_create(const pyd_sched_options_t* options, pyd_sched_t** out_sched) {
  *out_sched = NULL;
  uint32_t cpus = pyd_sched_available_cpus();
  uint32_t workers = options->workers ? options->workers : pyd_sched_default_workers();
  const bool has_affinity = options->has_affinity && !options->threads.are_lent;
  pyd_status_t status = check_options(options, has_affinity);
  if (!pyd_ok(status)) return status;
  pyd_sched_t* sched = allocate(1, sizeof(*sched));
  if (sched) sched->workers = workers;
  if (!sched || !allocate_parts(sched, options->permits) || !pyd_sched_read_machine(sched, has_affinity)) {
    free_parts(sched);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "scheduler: no memory for the bookkeeping of %u workers",
                           (unsigned)workers);
  }
  pyd_permits_add(sched->permits, &sched->share, workers > cpus ? workers : cpus);
  sched->oversubscribed = workers > cpus;
  // Pool threads are moved to CPUs of their own (placement.c) if the system reports CPUs and there is one for each
  // worker.
  sched->places_threads = workers > 1 && !sched->oversubscribed && pyd_affinity_cpu() != PYD_AFFINITY_UNKNOWN;
  sched->spin_us = options->spin_us;
  sched->scopes = options->scopes;
  sched->trace = options->trace;
  sched->options = options->threads;
  // Picoseconds per tick of the CPU's clock, times 256. With one worker no job is shared, so it is not measured: 1 ns.
  sched->tick = workers > 1 ? pyd_cpu_measure_tick() : 256000;
  reset(sched);

  int error = pyd_sched_start_threads(sched);
  if (error) {
    unsigned started = (unsigned)atomic_load_explicit(&sched->started, memory_order_relaxed);
    pyd_sched_destroy(sched);
    return pyd_status_make(PYD_CODE_SYSTEM,
                           "scheduler: thread %u of %u could not be started: %s; ask for fewer workers", started + 1,
                           (unsigned)workers - 1, strerror(error));
  }
  *out_sched = sched;
  return PYD_STATUS_OK;
}

// Returns whether the calling thread works for the scheduler. A participant of a job has a scope of the scheduler. The
// scheduler's own threads are inside between jobs, too.
bool pyd_sched_is_inside(pyd_sched_t* sched) {
  if (pyd_scope_has(sched->scopes, sched)) return true;
  return pyd_sched_own_thread(sched) != NULL || pyd_blocking_own_thread(sched) != NULL;
}

pyd_scope_access_t pyd_sched_scopes(const pyd_sched_t* sched) { return sched->scopes; }

// Waits, while closing, for all threads other than |self| and |blocking|, and completes the tasks that none of them has
// taken.
void pyd_sched_end_threads(pyd_sched_t* sched, const pyd_sched_thread_t* self, const pyd_blocking_thread_t* blocking) {
  pthread_mutex_lock(&sched->lifecycle);
  pyd_sched_await_lent(sched);
  uint32_t started = atomic_load_explicit(&sched->started, memory_order_relaxed);
  pthread_mutex_unlock(&sched->lifecycle);
  // Joined without the lock: a body may wait for a thread that forks, and the fork handler takes the lock.
  for (uint32_t i = 0; i < started; ++i) {
    if (&sched->threads[i] != self) pyd_thread_join(&sched->threads[i].thread);
  }
  pyd_blocking_stop(sched, blocking);
  pyd_task_drain(sched);
}

// Joins the threads of the scheduler; the next job that needs them starts them again.
pyd_status_t pyd_sched_stop(pyd_sched_t* sched) {
  if (pyd_sched_is_inside(sched)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "the threads cannot be ended by a call that runs on them: they would wait "
                           "for one another; end them when the call has returned");
  }
  pthread_mutex_lock(&sched->lifecycle);
  // Waits for another thread that is stopping the scheduler.
  while (atomic_load_explicit(&sched->closing, memory_order_relaxed))
    pthread_cond_wait(&sched->stopped, &sched->lifecycle);
  atomic_store_explicit(&sched->closing, 1, memory_order_seq_cst);
  pyd_task_cancel_all(sched);
  pyd_sched_pool_wake(sched, sched->workers, sched->workers);
  pthread_mutex_unlock(&sched->lifecycle);
  pyd_sched_end_threads(sched, NULL, NULL);
  pthread_mutex_lock(&sched->lifecycle);
  atomic_store_explicit(&sched->started, 0, memory_order_relaxed);
  atomic_store_explicit(&sched->start_failed, 0, memory_order_relaxed);
  atomic_store_explicit(&sched->closing, 0, memory_order_release);  // publishes that no thread exists
  pthread_cond_broadcast(&sched->stopped);
  pthread_mutex_unlock(&sched->lifecycle);
  return PYD_STATUS_OK;
}

// Joins the threads and frees the scheduler; on one of its own threads, lets that thread do it when it leaves the pool.
void pyd_sched_destroy(pyd_sched_t* sched) {
  if (!sched || pyd_sched_destroy_later(sched)) return;  // a thread of the scheduler destroys it when it exits
  pyd_status_free(pyd_sched_stop(sched));
  pyd_sched_free(sched);
}

// Frees the scheduler, which has no threads any more.
void pyd_sched_free(pyd_sched_t* sched) {
  for (uint32_t i = 0; i < sched->workers; ++i) pyd_event_deinit(&sched->threads[i].wake);
  for (uint32_t i = 0; i < PYD_SCHED_SLOTS; ++i) pyd_event_deinit(&sched->slots[i].done);
  pyd_permits_remove(sched->permits, &sched->share);
  pthread_cond_destroy(&sched->blocking.has_work);
  pthread_cond_destroy(&sched->queue.has_changed);
  pthread_mutex_destroy(&sched->queue.mutex);
  pthread_cond_destroy(&sched->stopped);
  pthread_mutex_destroy(&sched->lifecycle);
  free_parts(sched);
}

uint32_t pyd_sched_workers(const pyd_sched_t* sched) { return sched->workers; }

// Holds the locks over the fork, so that the child, which gets the forking thread only, sees no half-started threads.
void pyd_sched_fork_prepare(pyd_sched_t* sched) {
  pthread_mutex_lock(&sched->lifecycle);
  if (sched->owns_permits) pyd_permits_fork_prepare(sched->permits);
}

void pyd_sched_fork_parent(pyd_sched_t* sched) {
  if (sched->owns_permits) pyd_permits_fork_parent(sched->permits);
  pthread_mutex_unlock(&sched->lifecycle);
}

// Resets the scheduler in the child of a fork. In the child only the forking thread exists: all slots are free, and the
// pool is empty. The new epoch marks tasks of the old one as lost.
void pyd_sched_fork_child(pyd_sched_t* sched) {
  ++sched->epoch;
  if (sched->owns_permits) pyd_permits_fork_child(sched->permits);
  reset(sched);
}
