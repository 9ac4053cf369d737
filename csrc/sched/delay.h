// A running estimate of the delay between the publication of a job and the moment at which a pool thread joins it: the
// cost of sharing on this machine.
#ifndef PYD_SCHED_DELAY_H_
#define PYD_SCHED_DELAY_H_

#include <stdint.h>

#include "sched/tuning.h"

// Returns the estimate |delay| updated by the measurement |sample|, between |least| and PYD_SCHED_DELAY_MOST * |least|;
// all in picoseconds. It moves in the direction of the sample by a fixed fraction, downwards by three times as much as
// upwards. So it converges to the lower quartile of the samples, which outliers do not affect.
static inline uint64_t pyd_delay_learned(uint64_t delay, uint64_t sample, uint64_t least) {
  const uint64_t most = least * PYD_SCHED_DELAY_MOST;
  const uint64_t step = delay / PYD_SCHED_DELAY_STEP;
  delay = sample < delay ? delay - 3 * step : delay + step;
  return delay < least ? least : delay > most ? most : delay;
}

// Returns whether |now| differs from |before| by more than an eighth. Smaller changes are not published, because other
// threads read the value often.
static inline int pyd_delay_has_changed(uint64_t before, uint64_t now) {
  return (before > now ? before - now : now - before) > before / 8;
}

#endif  // PYD_SCHED_DELAY_H_
