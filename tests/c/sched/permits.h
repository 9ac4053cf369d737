// A check that tests of compute permits share.
#ifndef TESTS_C_SCHED_PERMITS_H_
#define TESTS_C_SCHED_PERMITS_H_

#include <unistd.h>

#include "check.h"
#include "sched/permit.h"

// Waits until all |total| permits are free and no thread waits for one; a permit that is never released fails by the
// time limit of tests. A pool thread leaves a job after its caller has gone on, and may take a permit for one more
// job or task and then come too late for it: only both counts together say that the permits are at rest.
static inline void await_released(const pyd_permits_t* permits, int32_t total) {
  int32_t free_count;
  while ((free_count = atomic_load(&permits->free_count)) < total || atomic_load(&permits->waiting) != 0) usleep(100);
  CHECK(free_count == total, "%d permits are free of %d", (int)free_count, (int)total);
}

#endif  // TESTS_C_SCHED_PERMITS_H_
