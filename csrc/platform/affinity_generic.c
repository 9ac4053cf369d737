// CPU affinity for unknown systems: there is none.
#include "platform/affinity.h"

uint32_t pyd_affinity_cpu(void) { return PYD_AFFINITY_UNKNOWN; }

bool pyd_affinity_is_supported(void) { return false; }

bool pyd_affinity_get(const pyd_thread_t* thread, pyd_cpu_set_t* out_cpus) {
  (void)thread;
  (void)out_cpus;
  return false;
}

bool pyd_affinity_set(const pyd_thread_t* thread, const pyd_cpu_set_t* cpus) {
  (void)thread;
  (void)cpus;
  return false;
}
