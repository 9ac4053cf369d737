// The CPU that a thread runs on, and the CPUs that it may run on. One implementation per system.
#ifndef PYD_PLATFORM_AFFINITY_H_
#define PYD_PLATFORM_AFFINITY_H_

#include "platform/cpu_set.h"
#include "platform/thread.h"

// Number of a CPU that the system does not tell.
#define PYD_AFFINITY_UNKNOWN UINT32_MAX

// Returns the number of the CPU that runs the calling thread, UNKNOWN if the system does not provide it. Takes a few
// nanoseconds.
uint32_t pyd_affinity_cpu(void);
// Whether the system has affinity masks.
bool pyd_affinity_is_supported(void);
// The affinity mask of a thread that has not ended. False: the system has none, or more CPUs than fit.
bool pyd_affinity_get(const pyd_thread_t* thread, pyd_cpu_set_t* out_cpus);
// Sets the affinity mask of a thread. A thread that runs on another CPU is moved before this returns. False: the
// process may use none of |cpus|.
bool pyd_affinity_set(const pyd_thread_t* thread, const pyd_cpu_set_t* cpus);

#endif  // PYD_PLATFORM_AFFINITY_H_
