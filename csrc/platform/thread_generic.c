// Threads and events for unknown systems, by pthread condition variables.
#include "platform/thread.h"

#include <time.h>

#include "platform/thread_start.h"

static void set_name(const char* name) { (void)name; }  // POSIX has no names of threads

void pyd_event_init(pyd_event_t* event) {
  atomic_init(&event->is_set, 0);
  pthread_mutex_init(&event->mutex, NULL);
  pthread_cond_init(&event->condition, NULL);
}

void pyd_event_deinit(pyd_event_t* event) {
  pthread_cond_destroy(&event->condition);
  pthread_mutex_destroy(&event->mutex);
}

void pyd_event_notify(pyd_event_t* event) {
  // The flag was set outside the mutex. Locking it makes sure that the waiter is not between its check of the flag and
  // its sleep, where it would miss the signal.
  pthread_mutex_lock(&event->mutex);
  pthread_cond_signal(&event->condition);
  pthread_mutex_unlock(&event->mutex);
}

void pyd_event_wait(pyd_event_t* event) {
  if (atomic_load_explicit(&event->is_set, memory_order_acquire)) return;
  pthread_mutex_lock(&event->mutex);
  while (atomic_load_explicit(&event->is_set, memory_order_acquire) == 0) {
    pthread_cond_wait(&event->condition, &event->mutex);
  }
  pthread_mutex_unlock(&event->mutex);
}

// Waits for |nanoseconds| at most, less than a second. Returns whether the event is set.
bool pyd_event_wait_for(pyd_event_t* event, uint32_t nanoseconds) {
  struct timespec until;
  timespec_get(&until, TIME_UTC);  // the clock of pthread_cond_timedwait
  until.tv_nsec += (long)nanoseconds;
  if (until.tv_nsec >= 1000000000) until.tv_sec += 1, until.tv_nsec -= 1000000000;
  pthread_mutex_lock(&event->mutex);
  int error = 0;
  while (atomic_load_explicit(&event->is_set, memory_order_acquire) == 0 && !error) {
    error = pthread_cond_timedwait(&event->condition, &event->mutex, &until);
  }
  pthread_mutex_unlock(&event->mutex);
  return atomic_load_explicit(&event->is_set, memory_order_acquire) != 0;
}
