// Threads that lose their CPU while they have a stolen range in their hands. The sources of the task system are part of
// this file, so that a thief can be held up there.
//
// links: base platform
// tsan: 3
#include <time.h>

#include "check.h"
#include "platform/cpu_inline.h"
#define HAS_OWN_WORK
#include "sched/sources.h"

static void late_store(pyd_range_cell_t* cell, pyd_range_t range) {
  const struct timespec pause = {.tv_nsec = 2000000};
  nanosleep(&pause, NULL);
  pyd_range_store(cell, range);
}

#define pyd_range_store late_store
#include "sched/work.c"

enum { WORKERS = 8 };

static int32_t meet(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  _Atomic uint32_t* here = self;
  (void)worker, (void)out_failed;
  atomic_fetch_add(here, (uint32_t)(end - begin));
  for (uint64_t start = pyd_cpu_nanoseconds(); atomic_load(here) < WORKERS;) {
    if (pyd_cpu_nanoseconds() - start > UINT64_C(100000000000)) return 1;
    sched_yield();
  }
  return 0;
}

int main(int argc, char** argv) {
  pyd_sched_t* sched = make_sched(WORKERS, -1);
  for (int i = rounds_of(argc, argv, 10); i > 0; --i) {
    _Atomic uint32_t here = 0;
    pyd_sched_failure_t failure = run_job(sched, meet, &here, WORKERS, 0);
    CHECK(failure.code == 0, "%u of %u threads found work", atomic_load(&here), (unsigned)WORKERS);
  }
  pyd_sched_destroy(sched);
  printf("thefts: ok\n");
  return 0;
}
