// How long after a job was published a thread takes part, learned by measuring: what sharing costs on this machine.
#ifndef PYD_SCHED_DELAY_H_
#define PYD_SCHED_DELAY_H_

#include <stdint.h>

#include "sched/tuning.h"

// |delay| after one more of |sample| was measured, at least |least| and at most DELAY_MOST times that. Picoseconds.
static inline uint64_t pyd_delay_learned(uint64_t delay, uint64_t sample, uint64_t least) {
  const uint64_t most = least * PYD_SCHED_DELAY_MOST;
  const uint64_t step = delay / PYD_SCHED_DELAY_STEP;
  delay = sample < delay ? delay - 3 * step : delay + step;
  return delay < least ? least : delay > most ? most : delay;
}

// Whether |now| differs from |before| by more than an eighth: what other threads read often is changed seldom.
static inline int pyd_delay_has_changed(uint64_t before, uint64_t now) {
  return (before > now ? before - now : now - before) > before / 8;
}

#endif  // PYD_SCHED_DELAY_H_
