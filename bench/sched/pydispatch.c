// Contender of rounds.c: our task system, csrc/sched.
#include <stdio.h>
#include <stdlib.h>

#include "contender.h"
#include "pydispatch/sched.h"

// A kernel, the function that is called for each index of a grid, with its argument; the |self| of body().
typedef struct grid_s {
  kernel_t kernel;
  void* self;
} grid_t;

static pyd_sched_t* sched;
static pyd_sched_cost_t cost;  // cost of an index, which the system estimates in the grids since contender_prepare()
static uint32_t known_picoseconds;  // cost of an index that the benchmark states; 0: the system estimates it

// Body of the job: calls the kernel for the indices from begin to end - 1; returns 0 for success.
static int32_t body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const grid_t* grid = self;
  (void)worker, (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) grid->kernel(grid->self, i);
  return 0;
}

void contender_start(uint32_t workers, const char* variant) {
  (void)variant;  // there is only one
  // spin_us of -1: idle threads spin for a time that adapts to the pauses between jobs.
  pyd_status_t status = pyd_sched_create(&(pyd_sched_options_t){.workers = workers, .spin_us = -1}, &sched);
  if (pyd_ok(status)) return;
  fprintf(stderr, "%s\n", pyd_status_text(status));
  exit(1);
}

void contender_prepare(uint32_t picoseconds) {
  known_picoseconds = picoseconds;
  cost = (pyd_sched_cost_t){0};
}

void contender_run(kernel_t kernel, void* self, uint64_t count) {
  grid_t grid = {kernel, self};
  pyd_sched_job_t job = {.body = body, .self = &grid, .count = count, .cost = &cost};
  pyd_sched_failure_t failure;                                  // not read: the kernels cannot fail
  if (known_picoseconds) cost.picoseconds = known_picoseconds;  // a run overwrites it with its own estimate
  pyd_sched_run(sched, &job, &failure);
}
