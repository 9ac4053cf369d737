// CPUs and caches for unknown systems: the online CPUs, no quota and no caches.
#include "platform/cpu.h"

#include <unistd.h>

#include "pydispatch/cpu.h"

uint32_t pyd_cpu_available(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

// Returns 0 (no quota), as quotas are not read on unknown systems. |root|, a prefix of paths for tests, is unused.
uint32_t pyd_cpu_quota(const char* root) {
  (void)root;
  return 0;
}

void pyd_cpu_cache_sizes(uint64_t* out_l1_data, uint64_t* out_l2) { *out_l1_data = *out_l2 = 0; }
