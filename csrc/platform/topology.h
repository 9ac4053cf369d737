// Topology of the CPUs of a machine: SMT siblings, shared caches, NUMA nodes. One implementation per system.
#ifndef PYD_PLATFORM_TOPOLOGY_H_
#define PYD_PLATFORM_TOPOLOGY_H_

#include <stdbool.h>
#include <stdint.h>

#include "platform/cpu_set.h"

#define PYD_TOPOLOGY_FULL_CAPACITY 1024u  // of the fastest CPU, as Linux scales it

// CPU of the system: a hardware thread. A group of CPUs is identified by the lowest number of a CPU in it.
typedef struct pyd_topology_cpu_s {
  uint32_t number;
  uint32_t core;      // group of SMT siblings
  uint32_t cluster;   // first CPU of those with a common last-level cache; 0 if no cache is listed
  uint32_t node;      // NUMA node
  uint32_t capacity;  // work per second, relative: 1 to PYD_TOPOLOGY_FULL_CAPACITY
  bool is_fast;       // more than half as fast as the fastest, and not an efficiency core by name
  bool is_sibling;    // of an earlier one in the list
} pyd_topology_cpu_t;

enum { PYD_TOPOLOGY_MOST = PYD_CPU_SET_CAPACITY };  // maximum number of CPUs in a topology

// The CPUs that the calling thread may use, by its affinity mask, at most |most| and at least one: one for each fast
// core, then one for each slow core, then their siblings, near ones one after another. |root| is put before every path:
// "" but for tests.
uint32_t pyd_topology_read(const char* root, pyd_topology_cpu_t* out_cpus, uint32_t most);

enum { PYD_TOPOLOGY_FARTHEST = 3 };  // maximum of pyd_topology_distance()
// Returns the distance of two CPUs: 0 for SMT siblings or the same CPU, 1 for a common last-level cache, 2 for a common
// NUMA node, else 3.
static inline uint32_t pyd_topology_distance(const pyd_topology_cpu_t* a, const pyd_topology_cpu_t* b) {
  return a->core == b->core ? 0 : a->cluster == b->cluster ? 1 : a->node == b->node ? 2 : 3;
}

// Fast cores among |count| CPUs, no more than the quota of the process, at least 1.
uint32_t pyd_topology_cores(const char* root, const pyd_topology_cpu_t* cpus, uint32_t count);

#endif  // PYD_PLATFORM_TOPOLOGY_H_
