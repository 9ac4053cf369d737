// Contender of rounds.c: a parallel for of OpenMP with a static, dynamic or guided schedule.
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"

static int workers_;
static enum { STATIC, DYNAMIC, GUIDED } schedule_;

// variant: schedule of the loop: "static" (also for ""), "dynamic" or "guided".
void contender_start(uint32_t workers, const char* variant) {
  workers_ = (int)workers;
  schedule_ = !strcmp(variant, "dynamic") ? DYNAMIC : !strcmp(variant, "guided") ? GUIDED : STATIC;
  omp_set_dynamic(0);  // exactly as many threads as num_threads says
}

void contender_prepare(uint32_t picoseconds) { (void)picoseconds; }

void contender_run(kernel_t kernel, void* self, uint64_t count) {
  switch (schedule_) {
    case STATIC:
#pragma omp parallel for schedule(static) num_threads(workers_)
      for (uint64_t i = 0; i < count; ++i) kernel(self, i);
      break;
    case DYNAMIC:
#pragma omp parallel for schedule(dynamic) num_threads(workers_)
      for (uint64_t i = 0; i < count; ++i) kernel(self, i);
      break;
    case GUIDED:
#pragma omp parallel for schedule(guided) num_threads(workers_)
      for (uint64_t i = 0; i < count; ++i) kernel(self, i);
      break;
  }
}
