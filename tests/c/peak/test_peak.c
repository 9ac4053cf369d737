// What a machine can do at most: finite, more than nothing, and whoever asks gets the memory back.
//
// links: base platform sched memory peak
// tsan: 2
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pydispatch/peak.h"

#define CHECK(x)                                              \
  do {                                                        \
    if (!(x)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
      exit(1);                                                \
    }                                                         \
  } while (0)

static void check_peak(uint32_t workers) {
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  const pyd_sched_options_t options = {.workers = workers};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)) && pyd_ok(pyd_pool_create(1 << 20, &pool)));
  double flops = pyd_peak_flops(sched);
  CHECK(isfinite(flops) && flops > 0);
  const uint64_t sizes[] = {0, 1, 12, 1000, 1 << 16, 1 << 20};
  for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
    double bandwidth;
    CHECK(pyd_ok(pyd_peak_bandwidth(sched, pool, sizes[i], &bandwidth)));
    CHECK(isfinite(bandwidth) && bandwidth > 0);
  }
  double bandwidth = 1;
  pyd_status_t status = pyd_peak_bandwidth(sched, pool, UINT64_MAX / 4, &bandwidth);
  CHECK(pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY && bandwidth == 0);
  pyd_status_free(status);
  pyd_sched_destroy(sched);
  pyd_pool_destroy(pool);
}

int main(void) {
  check_peak(1);
  check_peak(3);
  return 0;
}
