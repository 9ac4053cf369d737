// Back-off of a thread between two polls of a word that another thread is about to change.
#ifndef PYD_PLATFORM_BACK_OFF_H_
#define PYD_PLATFORM_BACK_OFF_H_

#include <sched.h>
#include <time.h>

#include "platform/cpu_inline.h"

// Number of polls followed by a yield. After these the thread sleeps, because a thread of real-time priority
// (SCHED_FIFO) that yields does not let a preempted thread of lower priority run.
enum { PYD_BACK_OFF_YIELDS = 64, PYD_BACK_OFF_SLEEP_NS = 50000 };

// Waits after poll number |attempt|: the first |spins| polls are followed by a pause instruction, the next
// PYD_BACK_OFF_YIELDS by a yield, all others by a sleep.
static inline void pyd_back_off(uint32_t attempt, uint32_t spins) {
  if (attempt < spins) {
    pyd_cpu_relax();
  } else if (attempt < spins + PYD_BACK_OFF_YIELDS) {
    sched_yield();
  } else {
    const struct timespec pause = {.tv_nsec = PYD_BACK_OFF_SLEEP_NS};
    nanosleep(&pause, NULL);
  }
}

#endif  // PYD_PLATFORM_BACK_OFF_H_
