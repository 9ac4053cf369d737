// Topology of systems that report only the number of CPUs.
#include "platform/topology.h"

#include "platform/cpu.h"

// Lists the usable CPUs, at most |most|, as fast cores of one thread that share one cache. Returns their number.
uint32_t pyd_topology_read(const char* root, pyd_topology_cpu_t* out_cpus, uint32_t most) {
  (void)root;
  const uint32_t available = pyd_cpu_available(), count = available < most ? available : most;
  for (uint32_t i = 0; i < count; ++i) {
    out_cpus[i] = (pyd_topology_cpu_t){.number = i, .core = i, .capacity = PYD_TOPOLOGY_FULL_CAPACITY, .is_fast = true};
  }
  return count;
}

uint32_t pyd_topology_cores(const char* root, const pyd_topology_cpu_t* cpus, uint32_t count) {
  (void)root, (void)cpus;  // all are fast cores, and pyd_cpu_available() has applied the quota
  return count;
}
