// What a system that shares loops among threads does for the benchmark. One file each implements it, and is linked with rounds.c.
#ifndef BENCH_SCHED_CONTENDER_H_
#define BENCH_SCHED_CONTENDER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One index of a grid.
typedef void (*kernel_t)(void* self, uint64_t index);

// Once, before all runs. |variant| is the system's way to share, or "". Ends the process when that fails.
void contender_start(uint32_t workers, const char* variant);

// A grid is about to be run repeatedly. |picoseconds|: of an index, where the benchmark wants it known; 0: the system finds out.
void contender_prepare(uint32_t picoseconds);

// Calls |kernel| with each index below |count| and returns when all are done.
void contender_run(kernel_t kernel, void* self, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif  // BENCH_SCHED_CONTENDER_H_
