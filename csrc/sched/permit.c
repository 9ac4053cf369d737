// Compute permits: a counting semaphore whose waiters are served by priority and then by arrival.
#include "sched/permit.h"

#include <string.h>

#include "base/aligned.h"
#include "sched/tuning.h"

// Acquires a permit if one is free, without regard to the queue: decrements the count if it is positive. Does not wait.
// Returns whether it acquired one.
static bool take_free(pyd_permits_t* permits) {
  int32_t count = atomic_load_explicit(&permits->free_count, memory_order_seq_cst);
  while (count > 0) {
    if (atomic_compare_exchange_weak_explicit(&permits->free_count, &count, count - 1, memory_order_seq_cst,
                                              memory_order_seq_cst)) {
      return true;
    }
  }
  return false;
}

// ---- the queue, under its mutex

// Appends |waiter| to the list of its priority.
static void enqueue(pyd_permits_t* permits, pyd_permit_waiter_t* waiter) {
  pyd_permit_waiter_t** tail = &permits->tail[waiter->priority];  // NULL there: the list is empty
  waiter->previous = *tail;
  waiter->next = NULL;  // the waiter may have been in the queue of another priority
  *(*tail ? &(*tail)->next : &permits->head[waiter->priority]) = waiter;
  *tail = waiter;
  atomic_fetch_add_explicit(&permits->waiting, 1, memory_order_seq_cst);
}

// Removes |waiter| from the list of its priority.
static void dequeue(pyd_permits_t* permits, pyd_permit_waiter_t* waiter) {
  *(waiter->previous ? &waiter->previous->next : &permits->head[waiter->priority]) = waiter->next;
  *(waiter->next ? &waiter->next->previous : &permits->tail[waiter->priority]) = waiter->previous;
  atomic_fetch_sub_explicit(&permits->waiting, 1, memory_order_relaxed);
}

// Returns the waiter that has waited longest of those with the most preferred priority (the lowest number); NULL: none.
static pyd_permit_waiter_t* first_waiter(const pyd_permits_t* permits) {
  pyd_permit_waiter_t* waiter = NULL;
  for (int priority = 0; priority < PYD_PRIORITIES && !waiter; ++priority) waiter = permits->head[priority];
  return waiter;
}

// Hands a permit, which the count no longer has, to |waiter|. The caller holds the mutex. Waiters are notified under
// it: a waiter takes the mutex before it leaves the stack frame that it is stored in.
static void grant(pyd_permits_t* permits, pyd_permit_waiter_t* waiter) {
  dequeue(permits, waiter);
  atomic_fetch_add_explicit(&permits->handovers, 1, memory_order_relaxed);
  if (pyd_event_claim(&waiter->is_granted)) pyd_event_notify(&waiter->is_granted);
}

// Hands free permits to the first waiters. The caller holds the mutex.
static void serve(pyd_permits_t* permits) {
  for (pyd_permit_waiter_t* waiter; (waiter = first_waiter(permits)) && take_free(permits);) grant(permits, waiter);
}

// ---- the count

// Initializes the count and the queue: all permits are free, and no thread waits.
static void make_all_free(pyd_permits_t* permits) {
  pthread_mutex_init(&permits->mutex, NULL);
  memset(permits->head, 0, sizeof(permits->head));
  memset(permits->tail, 0, sizeof(permits->tail));
  atomic_init(&permits->free_count, permits->total);
  atomic_init(&permits->waiting, 0);
  atomic_init(&permits->handovers, 0);
}

// Creates a set of compute permits without any shares. Returns NULL without memory.
pyd_permits_t* pyd_permits_create(void) {
  pyd_permits_t* permits = pyd_aligned_alloc(PYD_CPU_CACHE_LINE, sizeof(*permits));
  if (!permits) return NULL;
  memset(permits, 0, sizeof(*permits));
  permits->handover_timeout = PYD_SCHED_PERMIT_TIMEOUT_NS;
  make_all_free(permits);
  return permits;
}

// Frees the permits after the last scheduler that uses them is destroyed.
void pyd_permits_destroy(pyd_permits_t* permits) {
  if (!permits) return;
  pthread_mutex_destroy(&permits->mutex);
  pyd_aligned_free(permits);
}

// Lock the mutex before a fork and unlock it in the parent, so that the child sees consistent lists. In the child no
// thread holds a permit or waits for one: all are free again.
void pyd_permits_fork_prepare(pyd_permits_t* permits) { pthread_mutex_lock(&permits->mutex); }
void pyd_permits_fork_parent(pyd_permits_t* permits) { pthread_mutex_unlock(&permits->mutex); }
void pyd_permits_fork_child(pyd_permits_t* permits) { make_all_free(permits); }

// Adjusts the count of permits to the largest share. The caller holds the mutex.
static void update_total(pyd_permits_t* permits) {
  int32_t total = 0;
  for (const pyd_permit_share_t* share = permits->shares; share; share = share->next) {
    if ((int32_t)share->total > total) total = (int32_t)share->total;
  }
  atomic_fetch_add_explicit(&permits->free_count, total - permits->total, memory_order_seq_cst);
  permits->total = total;
  serve(permits);
}

// Adds the share of a scheduler, so that there are at least |total| permits.
void pyd_permits_add(pyd_permits_t* permits, pyd_permit_share_t* share, uint32_t total) {
  pthread_mutex_lock(&permits->mutex);
  *share = (pyd_permit_share_t){.next = permits->shares, .total = total};
  if (share->next) share->next->previous = share;
  permits->shares = share;
  update_total(permits);
  pthread_mutex_unlock(&permits->mutex);
}

// Removes the |share| that a scheduler has added.
void pyd_permits_remove(pyd_permits_t* permits, pyd_permit_share_t* share) {
  pthread_mutex_lock(&permits->mutex);
  *(share->previous ? &share->previous->next : &permits->shares) = share->next;
  if (share->next) share->next->previous = share->previous;
  update_total(permits);
  pthread_mutex_unlock(&permits->mutex);
}

// ---- taking and releasing

// Acquires a permit if one is free and no thread waits in the queue. Returns whether it acquired one.
bool pyd_permit_try(pyd_permits_t* permits) { return pyd_permit_is_free(permits) && take_free(permits); }

// Takes a permit for a thread of the program. Never waits: if none is free, the count becomes negative.
void pyd_permit_take_as_caller(pyd_permits_t* permits) {
  atomic_fetch_sub_explicit(&permits->free_count, 1, memory_order_seq_cst);
}

// Sleeps until |waiter| is granted a permit, |handover_timeout| nanoseconds have passed without any handover, or
// |interrupt|, which may be NULL, is wanted. Returns false in the last case; true does not mean that a permit was
// granted.
static bool sleep_until_granted(const pyd_permits_t* permits, pyd_permit_waiter_t* waiter,
                                const pyd_interrupt_t* interrupt) {
  uint32_t seen = atomic_load_explicit(&permits->handovers, memory_order_relaxed);  // of all threads
  for (uint64_t start = pyd_cpu_nanoseconds(), passed = 0; passed < permits->handover_timeout;) {
    const uint64_t left = permits->handover_timeout - passed;
    if (pyd_event_wait_for(&waiter->is_granted, left < PYD_SCHED_ASK_ASLEEP ? (uint32_t)left : PYD_SCHED_ASK_ASLEEP))
      return true;
    if (interrupt && interrupt->is_wanted(interrupt->self)) return false;
    const uint64_t now = pyd_cpu_nanoseconds();
    const uint32_t handovers = atomic_load_explicit(&permits->handovers, memory_order_relaxed);
    if (handovers != seen) start = now;
    seen = handovers;
    passed = pyd_cpu_elapsed(start, now);
  }
  return true;
}

// Acquires a permit for a pool thread, waiting if necessary. |sched|: the scheduler whose task the thread is going to
// run; NULL: a job. If no permit is handed to any thread for |handover_timeout| nanoseconds, the thread continues
// without one. Returns false if |interrupt|, which may be NULL, ended the wait. The count is decremented in all cases.
bool pyd_permit_take(pyd_permits_t* permits, uint32_t priority, const pyd_sched_t* sched,
                     const pyd_interrupt_t* interrupt) {
  if (pyd_permit_try(permits)) return true;
  pyd_permit_waiter_t waiter = {.priority = priority, .sched = sched};
  pyd_event_init(&waiter.is_granted);
  pthread_mutex_lock(&permits->mutex);
  enqueue(permits, &waiter);
  serve(permits);  // a permit may have been released before the waiter was visible in the queue
  pthread_mutex_unlock(&permits->mutex);
  const bool is_uninterrupted = sleep_until_granted(permits, &waiter, interrupt);
  pthread_mutex_lock(&permits->mutex);
  if (pyd_event_claim(&waiter.is_granted)) {  // no permit was granted: go on without one, below zero if need be
    dequeue(permits, &waiter);
    atomic_fetch_sub_explicit(&permits->free_count, 1, memory_order_relaxed);
  }
  pthread_mutex_unlock(&permits->mutex);
  pyd_event_deinit(&waiter.is_granted);
  return is_uninterrupted;
}

// Raises the priority of one pool thread that waits for tasks of |sched| to the |priority| of a newly submitted task.
void pyd_permit_raise(pyd_permits_t* permits, const pyd_sched_t* sched, uint32_t priority) {
  pthread_mutex_lock(&permits->mutex);
  pyd_permit_waiter_t* waiter = NULL;
  // Larger numbers are lower priorities: of the threads below |priority|, take one of the lowest.
  for (uint32_t lower = PYD_PRIORITIES; --lower > priority && !waiter;) {
    for (waiter = permits->head[lower]; waiter && waiter->sched != sched;) waiter = waiter->next;
  }
  if (waiter) {
    dequeue(permits, waiter);
    waiter->priority = priority;
    enqueue(permits, waiter);
    serve(permits);  // a permit may have been released while the waiter was in no queue
  }
  pthread_mutex_unlock(&permits->mutex);
}

// Releases a permit of a pool thread, and hands it to the first waiter if callers have not taken the count below zero.
// The count is incremented before |waiting| is read, while a waiter enters the queue before it looks for a free permit:
// at least one of the two threads sees the other.
void pyd_permit_release(pyd_permits_t* permits) {
  atomic_fetch_add_explicit(&permits->free_count, 1, memory_order_seq_cst);
  if (!atomic_load_explicit(&permits->waiting, memory_order_seq_cst)) return;
  pthread_mutex_lock(&permits->mutex);
  serve(permits);
  pthread_mutex_unlock(&permits->mutex);
}

// Hands a permit to the first waiter that is not of low priority, even if none is free. The caller holds the mutex.
static void admit(pyd_permits_t* permits) {
  pyd_permit_waiter_t* waiter = first_waiter(permits);
  if (!waiter || waiter->priority > PYD_PRIORITY_NORMAL) return;
  pyd_permit_take_as_caller(permits);
  grant(permits, waiter);
}

// Hands a permit to the first waiter that is not of low priority, even if none is free. For a caller that goes on
// computing and keeps its own permit.
void pyd_permit_admit(pyd_permits_t* permits) {
  pthread_mutex_lock(&permits->mutex);
  admit(permits);
  pthread_mutex_unlock(&permits->mutex);
}

// Releases the permit of a caller, and hands one to the first waiter that is not of low priority, even if callers have
// taken the count below zero: so callers without a break do not keep tasks waiting.
void pyd_permit_release_as_caller(pyd_permits_t* permits) {
  atomic_fetch_add_explicit(&permits->free_count, 1, memory_order_seq_cst);
  if (!atomic_load_explicit(&permits->waiting, memory_order_seq_cst)) return;
  pthread_mutex_lock(&permits->mutex);
  admit(permits);
  serve(permits);
  pthread_mutex_unlock(&permits->mutex);
}
