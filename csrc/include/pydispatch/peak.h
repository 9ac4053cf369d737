// Measured peak performance of the workers of a scheduler, with which times of kernels are compared. Other load on the
// machine lowers it; each figure is the best of several rounds.
#ifndef PYDISPATCH_PEAK_H_
#define PYDISPATCH_PEAK_H_

#include "pydispatch/pool.h"
#include "pydispatch/sched.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Operations per second of multiply-adds of f32 in registers, two each, with the widest vectors of the CPU. Takes some
// ten milliseconds.
double pyd_peak_flops(pyd_sched_t* sched);

// Bytes per second of a[i] = b[i] + s * c[i] over arrays of f32 with |bytes| in all, at least 12 for each worker: of
// the cache that holds them, or of memory. Takes some ten milliseconds, and |bytes| of |pool| meanwhile. OUT_OF_MEMORY.
pyd_status_t pyd_peak_bandwidth(pyd_sched_t* sched, pyd_pool_t* pool, uint64_t bytes, double* out_bytes_per_second);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PEAK_H_
