// The sources of the scheduler over the topology and the affinity functions of a simulated machine.
// Before it: CPUS, the number of its equal cores, and simulated_cpu, simulated_get and simulated_set.
#include "platform/affinity.h"
#include "platform/topology.h"

static uint32_t simulated_topology(const char* root, pyd_topology_cpu_t* out_cpus, uint32_t most) {
  (void)root, (void)most;
  for (uint32_t i = 0; i < CPUS; ++i)
    out_cpus[i] = (pyd_topology_cpu_t){.number = i, .core = i, .capacity = 1024, .is_fast = true};
  return CPUS;
}

#define pyd_affinity_cpu simulated_cpu
#define pyd_affinity_get simulated_get
#define pyd_affinity_set simulated_set
#define pyd_affinity_is_supported() true
#define pyd_topology_read simulated_topology
#define pyd_cpu_available() ((uint32_t)CPUS)
#include "sched/sources.h"
