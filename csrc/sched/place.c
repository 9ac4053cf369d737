#include "sched/place.h"

#include <string.h>

#include "sched/tuning.h"

static bool take_free(pyd_places_t* places) {
  int32_t free = atomic_load_explicit(&places->free, memory_order_seq_cst);
  while (free > 0) {
    if (atomic_compare_exchange_weak_explicit(&places->free, &free, free - 1, memory_order_seq_cst, memory_order_seq_cst)) {
      return true;
    }
  }
  return false;
}

// ---- the queue, under its mutex

static void queue_up(pyd_places_t* places, pyd_place_waiter_t* waiter) {
  pyd_place_waiter_t** last = &places->last[waiter->priority];
  waiter->previous = *last;
  waiter->next = NULL;  // it may come from another queue
  *(*last ? &(*last)->next : &places->first[waiter->priority]) = waiter;
  *last = waiter;
  atomic_fetch_add_explicit(&places->waiting, 1, memory_order_seq_cst);
}

static void leave_queue(pyd_places_t* places, pyd_place_waiter_t* waiter) {
  *(waiter->previous ? &waiter->previous->next : &places->first[waiter->priority]) = waiter->next;
  *(waiter->next ? &waiter->next->previous : &places->last[waiter->priority]) = waiter->previous;
  atomic_fetch_sub_explicit(&places->waiting, 1, memory_order_relaxed);
}

static pyd_place_waiter_t* first_waiter(const pyd_places_t* places) {
  pyd_place_waiter_t* waiter = NULL;
  for (int priority = 0; priority < PYD_PRIORITIES && !waiter; ++priority) waiter = places->first[priority];
  return waiter;
}

// Free places go to those that wait first. Each takes the mutex before its stack goes, so that it is notified under it.
static void serve(pyd_places_t* places) {
  for (pyd_place_waiter_t* waiter; (waiter = first_waiter(places)) && take_free(places);) {
    leave_queue(places, waiter);
    atomic_fetch_add_explicit(&places->handovers, 1, memory_order_relaxed);
    atomic_store_explicit(&places->quantum_ends, pyd_cpu_nanoseconds() + places->quantum, memory_order_relaxed);
    if (pyd_event_claim(&waiter->has_place)) pyd_event_notify(&waiter->has_place);
  }
}

static void serve_now(pyd_places_t* places) {
  pthread_mutex_lock(&places->mutex);
  serve(places);
  pthread_mutex_unlock(&places->mutex);
}

// ---- taking and giving

// Takes a place that was left for those who call again at once.
static bool come_back(pyd_places_t* places) {
  const uint64_t now = pyd_cpu_nanoseconds(), left = atomic_load_explicit(&places->last_left, memory_order_relaxed);
  if (pyd_cpu_elapsed(left, now) < PYD_SCHED_PLACE_RETURN) {
    atomic_store_explicit(&places->come_back, 1, memory_order_relaxed);
  }
  return now < atomic_load_explicit(&places->quantum_ends, memory_order_relaxed) && take_free(places);
}

void pyd_places_reset(pyd_places_t* places) {
  pthread_mutex_init(&places->mutex, NULL);
  memset(places->first, 0, sizeof(places->first));
  memset(places->last, 0, sizeof(places->last));
  atomic_init(&places->free, places->total);
  atomic_init(&places->waiting, 0);
  atomic_init(&places->handovers, 0);
  atomic_init(&places->quantum_ends, 0);
  atomic_init(&places->last_left, 0);
  atomic_init(&places->come_back, 0);
}

void pyd_places_deinit(pyd_places_t* places) { pthread_mutex_destroy(&places->mutex); }

bool pyd_place_try(pyd_places_t* places) { return pyd_place_is_free(places) && take_free(places); }

// Returns when |waiter| has a place, or when nobody was handed one for as long as |patience|. False: interrupted.
static bool sleep_until_served(pyd_places_t* places, pyd_place_waiter_t* waiter, const pyd_interrupt_t* interrupt) {
  uint32_t seen = atomic_load_explicit(&places->handovers, memory_order_relaxed);
  for (uint64_t start = pyd_cpu_nanoseconds(), passed = 0; passed < places->patience;) {
    // About as long as those before it and this one have to wait: then a place may be left for a caller that does not come back.
    const uint64_t quanta = places->quantum * atomic_load_explicit(&places->waiting, memory_order_relaxed);
    if (pyd_event_wait_for(&waiter->has_place, quanta < PYD_SCHED_ASK_ASLEEP ? (uint32_t)quanta : PYD_SCHED_ASK_ASLEEP)) return true;
    if (interrupt && interrupt->is_wanted(interrupt->self)) return false;
    if (atomic_load_explicit(&places->free, memory_order_relaxed) > 0) {
      atomic_store_explicit(&places->come_back, 0, memory_order_relaxed);
      serve_now(places);
    }
    const uint64_t now = pyd_cpu_nanoseconds();
    const uint32_t handovers = atomic_load_explicit(&places->handovers, memory_order_relaxed);
    if (handovers != seen) start = now;
    seen = handovers;
    passed = pyd_cpu_elapsed(start, now);
  }
  return true;
}

bool pyd_place_take(pyd_places_t* places, uint32_t priority, bool is_for_tasks, const pyd_interrupt_t* interrupt) {
  if (pyd_place_try(places) || come_back(places)) return true;
  pyd_place_waiter_t waiter = {.priority = priority, .is_for_tasks = is_for_tasks};
  pyd_event_init(&waiter.has_place);
  pthread_mutex_lock(&places->mutex);
  queue_up(places, &waiter);
  serve(places);  // one may have been given back before it was seen that this thread waits
  pthread_mutex_unlock(&places->mutex);
  const bool is_served = sleep_until_served(places, &waiter, interrupt);
  pthread_mutex_lock(&places->mutex);
  if (pyd_event_claim(&waiter.has_place)) {
    leave_queue(places, &waiter);
    atomic_fetch_sub_explicit(&places->free, 1, memory_order_relaxed);
  }
  pthread_mutex_unlock(&places->mutex);
  pyd_event_deinit(&waiter.has_place);
  return is_served;
}

void pyd_place_raise(pyd_places_t* places, uint32_t priority) {
  pthread_mutex_lock(&places->mutex);
  pyd_place_waiter_t* waiter = NULL;
  for (uint32_t lower = PYD_PRIORITIES; --lower > priority && !waiter;) {
    for (waiter = places->first[lower]; waiter && !waiter->is_for_tasks;) waiter = waiter->next;
  }
  if (waiter) {
    leave_queue(places, waiter);
    waiter->priority = priority;
    queue_up(places, waiter);
    serve(places);  // for those who did not see that it waits, while it did not
  }
  pthread_mutex_unlock(&places->mutex);
}

// The other side of queue_up and serve: the place is free before it is looked for those that wait.
void pyd_place_give(pyd_places_t* places) {
  atomic_fetch_add_explicit(&places->free, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&places->waiting, memory_order_seq_cst)) serve_now(places);
}

void pyd_place_leave(pyd_places_t* places) {
  atomic_fetch_add_explicit(&places->free, 1, memory_order_seq_cst);
  if (!atomic_load_explicit(&places->waiting, memory_order_seq_cst)) return;
  const uint64_t now = pyd_cpu_nanoseconds();
  atomic_store_explicit(&places->last_left, now, memory_order_relaxed);
  const bool is_kept = atomic_load_explicit(&places->come_back, memory_order_relaxed) &&
                       now < atomic_load_explicit(&places->quantum_ends, memory_order_relaxed);
  if (!is_kept) serve_now(places);
}
