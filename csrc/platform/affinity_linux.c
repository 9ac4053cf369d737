// CPU affinity on Linux, by sched_setaffinity.
#include "platform/affinity.h"

#include <sched.h>

// Returns the number of the CPU that runs the calling thread.
uint32_t pyd_affinity_cpu(void) {
  const int cpu = sched_getcpu();
  return cpu < 0 ? PYD_AFFINITY_UNKNOWN : (uint32_t)cpu;
}

bool pyd_affinity_is_supported(void) { return true; }

// Reads the affinity mask of a thread. Returns false if the kernel's mask does not fit into |*out_cpus|.
bool pyd_affinity_get(const pyd_thread_t* thread, pyd_cpu_set_t* out_cpus) {
  *out_cpus = (pyd_cpu_set_t){{0}};  // the call leaves the bits after the kernel's mask unchanged
  return pthread_getaffinity_np(thread->handle, sizeof(*out_cpus), (cpu_set_t*)out_cpus) == 0;
}

bool pyd_affinity_set(const pyd_thread_t* thread, const pyd_cpu_set_t* cpus) {
  return pthread_setaffinity_np(thread->handle, sizeof(*cpus), (const cpu_set_t*)cpus) == 0;
}
