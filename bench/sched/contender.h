// Interface of a contender of the benchmark of parallel loops: a thread pool or a plain loop. Each contender is one
// file that implements these functions, and is linked with rounds.c, which calls them.
#ifndef BENCH_SCHED_CONTENDER_H_
#define BENCH_SCHED_CONTENDER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One index of a grid.
typedef void (*kernel_t)(void* self, uint64_t index);

// Called once, before all runs. |variant|: how the system distributes a loop, such as "static", or "" if it has one way
// only. Ends the process on a failure.
void contender_start(uint32_t workers, const char* variant);

// Called before a grid is run repeatedly. |picoseconds|: stated cost of an index; 0: the system estimates the cost
// itself.
void contender_prepare(uint32_t picoseconds);

// Calls |kernel| with each index below |count| and returns when all are done.
void contender_run(kernel_t kernel, void* self, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif  // BENCH_SCHED_CONTENDER_H_
