// The mapping of workers to CPUs: the default number of workers, the CPU of each, and the order in which it steals.
#include <stdlib.h>

#include "platform/cpu.h"
#include "platform/topology.h"
#include "sched/internal.h"

// Returns the CPUs that this thread may use, in an array that the caller frees; NULL when out of memory. They are in
// the order of pyd_topology_read: fast cores, slow cores, their siblings.
static pyd_topology_cpu_t* read_topology(uint32_t* out_count) {
  pyd_topology_cpu_t* cpus = malloc(PYD_TOPOLOGY_MOST * sizeof(*cpus));
  *out_count = cpus ? pyd_topology_read(/* root */ "", cpus, PYD_TOPOLOGY_MOST) : 0;
  return cpus;
}

uint32_t pyd_sched_available_cpus(void) { return pyd_cpu_available(); }

// Returns the number of fast cores that the process may use, without SMT siblings.
uint32_t pyd_sched_default_workers(void) {
  uint32_t count;
  pyd_topology_cpu_t* cpus = read_topology(&count);
  const uint32_t cores = cpus ? pyd_topology_cores(/* root */ "", cpus, count) : pyd_sched_available_cpus();
  free(cpus);
  return cores < PYD_SCHED_MAX_WORKERS ? cores : PYD_SCHED_MAX_WORKERS;
}

// Lists the workers - 1 other workers, nearest first. Equally near ones begin with the next higher number, so that not
// all workers steal from the same victim first. Worker i is on the CPU cpus[i % count].
static void order_others(uint16_t* out_others, uint32_t worker, uint32_t workers, const pyd_topology_cpu_t* cpus,
                         uint32_t count) {
  for (uint32_t distance = 0; distance <= PYD_TOPOLOGY_FARTHEST; ++distance) {
    for (uint32_t i = 1; i < workers; ++i) {
      const uint32_t other = (worker + i) % workers;
      if (pyd_topology_distance(&cpus[worker % count], &cpus[other % count]) == distance)
        *out_others++ = (uint16_t)other;
    }
  }
}

// Assigns a CPU to each worker, in the order of the topology, and lists for each worker the others by distance. More
// workers than CPUs share them. Returns false when out of memory; then the scheduler frees what was allocated.
static bool assign_cpus(pyd_sched_t* sched) {
  const uint32_t workers = sched->workers, count = sched->machine_count;
  const pyd_topology_cpu_t* cpus = sched->machine;
  sched->cpus = malloc(workers * sizeof(*sched->cpus));
  sched->near = malloc((size_t)workers * workers * sizeof(*sched->near));
  const bool has_memory = sched->cpus && sched->near;
  for (uint32_t i = 0; has_memory && i < workers; ++i) {
    sched->cpus[i] = cpus[i % count].number;
    pyd_cpu_set_add(&sched->pinned, sched->cpus[i]);
    order_others(sched->near + (size_t)i * (workers - 1), i, workers, cpus, count);
  }
  return has_memory;
}

// Reads the CPUs of the machine, and with |has_affinity| assigns one to each worker. Returns false without memory.
bool pyd_sched_read_machine(pyd_sched_t* sched, bool has_affinity) {
  sched->machine = read_topology(&sched->machine_count);
  return sched->machine && (!has_affinity || assign_cpus(sched));
}
