// Number of CPUs that the process may use. One implementation per system.
#ifndef PYD_PLATFORM_CPU_H_
#define PYD_PLATFORM_CPU_H_

#include <stdint.h>

// CPUs that the process may use, at least 1: the calling thread's affinity mask, lowered to the cgroup's quota.
uint32_t pyd_cpu_available(void);

// The CPU quota of the cgroup (v1 or v2) that the process is in, or of one above it, whichever is lowest, rounded up to
// whole CPUs; 0 when there is none. |root| is put before every path (/proc/self/..., mount points): "" but for tests.
uint32_t pyd_cpu_quota(const char* root);

#endif  // PYD_PLATFORM_CPU_H_
