// Threads and events on Linux, by futexes.
#include "platform/thread.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/thread_start.h"

static void set_name(const char* name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

void pyd_event_init(pyd_event_t* event) { atomic_init(&event->is_set, 0); }

void pyd_event_deinit(pyd_event_t* event) { (void)event; }

void pyd_event_notify(pyd_event_t* event) { syscall(SYS_futex, &event->is_set, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

// Waits until the event is set, and acquires what the setter has written.
void pyd_event_wait(pyd_event_t* event) {
  // The kernel sleeps only if the word still is 0, so a set between the load and the call is not lost; any other
  // return (a signal, a spurious wake) is handled by checking again.
  while (atomic_load_explicit(&event->is_set, memory_order_acquire) == 0) {
    syscall(SYS_futex, &event->is_set, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  }
}

// Waits for |nanoseconds| at most, less than a second. Returns whether the event is set. May return early with false: a
// signal or a spurious wake ends the one sleep.
bool pyd_event_wait_for(pyd_event_t* event, uint32_t nanoseconds) {
  const struct timespec limit = {.tv_nsec = (long)nanoseconds};
  if (atomic_load_explicit(&event->is_set, memory_order_acquire) == 0) {
    syscall(SYS_futex, &event->is_set, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
  }
  return atomic_load_explicit(&event->is_set, memory_order_acquire) != 0;
}
