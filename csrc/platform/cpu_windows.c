// CPUs on Windows; sizes of caches are not read.
#define WIN32_LEAN_AND_MEAN 1
#include <windows.h>

#include "platform/cpu.h"
#include "pydispatch/cpu.h"

// Returns the number of CPUs in the affinity mask of the process, at least 1. The mask of a process with threads in
// several processor groups reads as 0: then all active CPUs of the machine count.
uint32_t pyd_cpu_available(void) {
  DWORD_PTR mask = 0, all = 0;
  uint32_t count = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &mask, &all)) {
    for (; mask; mask &= mask - 1) ++count;
  }
  if (!count) count = (uint32_t)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
  return count ? count : 1;
}

// Returns 0, no limit: Windows has no cgroups, and the CPU rates of job objects are not read.
uint32_t pyd_cpu_quota(const char* root) {
  (void)root;
  return 0;
}

void pyd_cpu_cache_sizes(uint64_t* out_l1_data, uint64_t* out_l2) { *out_l1_data = *out_l2 = 0; }
