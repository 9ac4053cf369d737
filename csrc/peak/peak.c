// Jobs that do nothing but arithmetic, or nothing but move bytes, timed.
#include "pydispatch/peak.h"

#include <string.h>

#include "peak/loops.h"
#include "platform/cpu_inline.h"

enum {
  kRounds = 12,                   // runs of a job, of which the fastest counts
  kPiecesPerWorker = 8,           // indices of the job: a worker that begins late takes fewer
  kMultiplyAdds = 20000,          // repeats of an index: some 50 microseconds
  kMovedBytes = 4 * 1024 * 1024,  // of all workers in a round, at least: less could not be timed
};

// Runs a job of |count| indices several times, and returns the nanoseconds of the fastest run, at least 1. The
// scheduler estimates the cost of an index from the first runs.
static double least_nanoseconds(pyd_sched_t* sched, pyd_sched_body_fn_t body, void* self, uint64_t count) {
  uint64_t least = UINT64_MAX;
  pyd_sched_cost_t cost = {0};
  for (int round = 0; round < kRounds; ++round) {
    const pyd_sched_job_t job = {.body = body, .self = self, .count = count, .cost = &cost, .interrupt = NULL};
    pyd_sched_failure_t failure;
    uint64_t begin = pyd_cpu_nanoseconds();
    pyd_sched_run(sched, &job, &failure);
    uint64_t spent = pyd_cpu_nanoseconds() - begin;
    if (spent < least) least = spent;
  }
  return least ? (double)least : 1.0;
}

// Runs multiply-adds on registers. Body of the job of pyd_peak_flops. |self|: a pyd_loops_t.
static int32_t multiply_add(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const pyd_loops_t* loops = self;
  (void)worker, (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) {
    volatile float seen = loops->multiply_add(kMultiplyAdds);  // volatile: the call is not removed
    (void)seen;
  }
  return 0;
}

// Measures the operations per second of multiply-adds of f32 in registers, on all workers.
double pyd_peak_flops(pyd_sched_t* sched) {
  const pyd_loops_t* loops = pyd_loops();
  uint64_t count = (uint64_t)pyd_sched_workers(sched) * kPiecesPerWorker;
  double operations = (double)count * kMultiplyAdds * loops->operations;
  return operations / least_nanoseconds(sched, multiply_add, (void*)loops, count) * 1e9;
}

// The arrays and sizes of the bandwidth job, as the |self| of its body.
typedef struct triad_s {
  const pyd_loops_t* loops;
  float *a, *b, *c;
  uint64_t elements;  // of each array, per index of the job
  uint64_t repeats;   // of the triad, per index
} triad_t;

// Computes a[j] = b[j] + s * c[j] several times. Body of the job of pyd_peak_bandwidth: index i of the job is block i
// of |elements| elements of each array. |self|: a triad_t.
static int32_t move(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const triad_t* t = self;
  (void)worker, (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) {
    uint64_t first = i * t->elements;  // element of the block
    for (uint64_t r = 0; r < t->repeats; ++r) {
      t->loops->triad(t->a + first, t->b + first, t->c + first, t->elements);
      __asm__ volatile("" ::: "memory");  // keeps the compiler from merging the repeats
    }
  }
  return 0;
}

// Measures the bytes per second that a[i] = b[i] + s * c[i] reads and writes on all workers. |bytes|: of the three
// arrays together.
pyd_status_t pyd_peak_bandwidth(pyd_sched_t* sched, pyd_pool_t* pool, uint64_t bytes, double* out_bytes_per_second) {
  uint64_t workers = pyd_sched_workers(sched);
  uint64_t elements = bytes / (3 * sizeof(float)) / workers;  // of each of the three arrays, per worker
  if (!elements) elements = 1;
  uint64_t moved = 3 * sizeof(float) * elements * workers;  // bytes of the arrays, and bytes that one pass moves
  void* block;
  *out_bytes_per_second = 0;
  pyd_status_t status = pyd_pool_acquire(pool, (size_t)moved, &block);
  if (!pyd_ok(status)) return status;
  memset(block, 0, (size_t)moved);  // no page faults while it is timed
  float* a = block;
  triad_t t = {
      .loops = pyd_loops(),
      .a = a,
      .b = a + elements * workers,
      .c = a + 2 * elements * workers,
      .elements = elements,
      .repeats = 1,
  };
  if (moved < kMovedBytes) t.repeats = kMovedBytes / moved;  // a shorter run could not be timed
  double nanoseconds = least_nanoseconds(sched, move, &t, /* count */ workers);
  pyd_pool_release(pool, block);
  *out_bytes_per_second = (double)moved * (double)t.repeats / nanoseconds * 1e9;
  return status;
}
