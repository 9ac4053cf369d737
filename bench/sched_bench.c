// What the task system costs: per empty workgroup, per parallel job, oversubscribed and idle. Prints the median and the
// best of several runs, with ratios measured side by side.
//
//   gcc -std=c11 -O3 -D_GNU_SOURCE -Icsrc -Icsrc/include bench/sched_bench.c csrc/sched/*.c csrc/base/status.c
//       csrc/platform/cpu_*.c csrc/platform/topology_linux.c csrc/platform/thread_linux.c -pthread -o build/sched_bench   (one line)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/cpu_inline.h"
#include "pydispatch/sched.h"

enum { RUNS = 21 };

// A dispatch's inner loop: a kernel behind a pointer that the compiler cannot see through, one state per workgroup.
typedef struct state_s {
  uint32_t x, y, z, worker;
} state_t;
typedef int (*kernel_t)(const void* environment, const void* dispatch, const state_t* state);
typedef struct dispatch_s {
  kernel_t volatile kernel;
  uint32_t width, height;
  _Atomic uint64_t* sink;
} dispatch_t;

static __attribute__((noinline)) int empty_kernel(const void* environment, const void* dispatch, const state_t* state) {
  __asm__ volatile("" ::"r"(environment), "r"(dispatch), "r"(state) : "memory");
  return 0;
}

static int32_t dispatch_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  dispatch_t* dispatch = self;
  kernel_t kernel = dispatch->kernel;
  uint64_t row = begin / dispatch->width;
  state_t state = {.x = (uint32_t)(begin % dispatch->width), .y = (uint32_t)(row % dispatch->height),
                   .z = (uint32_t)(row / dispatch->height), .worker = worker};
  for (uint64_t i = begin; i < end; ++i) {
    int code = kernel(NULL, dispatch, &state);
    if (code) {
      *out_failed = i;
      return code;
    }
    if (++state.x == dispatch->width) {
      state.x = 0;
      if (++state.y == dispatch->height) {
        state.y = 0;
        ++state.z;
      }
    }
  }
  return 0;
}

// One index: |nanoseconds| of arithmetic.
static int32_t work_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  uint32_t turns = *(uint32_t*)self;
  for (uint64_t i = begin; i < end; ++i) {
    for (uint32_t turn = 0; turn < turns; ++turn) __asm__ volatile("" ::: "memory");
  }
  return 0;
}

static int ascending(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

typedef struct figure_s {
  double best, median;
} figure_t;

static figure_t figure_of(double* times, int count) {
  qsort(times, (size_t)count, sizeof(*times), ascending);
  return (figure_t){.best = times[0], .median = times[count / 2]};
}

static pyd_sched_t* make(uint32_t workers, int32_t spin_us) {
  pyd_sched_t* sched = NULL;
  pyd_status_t status = pyd_sched_create(&(pyd_sched_options_t){.workers = workers, .spin_us = spin_us}, &sched);
  if (pyd_ok(status)) return sched;
  fprintf(stderr, "%s\n", pyd_status_text(status));
  exit(1);
}

static double timed(pyd_sched_t* sched, pyd_sched_job_t* job) {
  pyd_sched_failure_t failure;
  uint64_t start = pyd_cpu_nanoseconds();
  pyd_sched_run(sched, job, &failure);
  return (double)(pyd_cpu_nanoseconds() - start);
}

static void bench_empty(void) {
  dispatch_t dispatch = {.kernel = empty_kernel, .width = 1000, .height = 1000};
  static const uint64_t kCounts[] = {1000, 10000, 100000, 10000000};
  printf("empty workgroups, ns each             1 worker        2 workers      1/2 median  1/2 best\n");
  for (size_t c = 0; c < 4; ++c) {
    pyd_sched_t* scheds[2] = {make(1, -1), make(2, -1)};
    pyd_sched_cost_t costs[2] = {{0}, {0}};
    double times[2][RUNS];
    for (int warm = 0; warm < 3; ++warm) {
      for (int run = 0; run < RUNS; ++run) {
        for (int s = 0; s < 2; ++s) {  // side by side, so that a busy machine disturbs both
          pyd_sched_job_t job = {.body = dispatch_body, .self = &dispatch, .count = kCounts[c], .cost = &costs[s]};
          double best = 1e18;
          for (int i = 0; i < 5; ++i) {
            double time = timed(scheds[s], &job);
            if (time < best) best = time;
          }
          times[s][run] = best / (double)kCounts[c];
        }
      }
    }
    figure_t one = figure_of(times[0], RUNS), two = figure_of(times[1], RUNS);
    printf("%12llu                      %5.2f (%5.2f)   %5.2f (%5.2f)       %5.2f      %5.2f\n",
           (unsigned long long)kCounts[c], one.median, one.best, two.median, two.best, one.median / two.median,
           one.best / two.best);
    for (int s = 0; s < 2; ++s) pyd_sched_destroy(scheds[s]);
  }
}

// Turns of the work loop per nanosecond, in 1/1024.
static uint32_t turns_for(double nanoseconds) {
  static double per_ns;
  if (per_ns == 0) {
    double best = 1e18;
    uint32_t turns = 1000000;
    for (int i = 0; i < 9; ++i) {
      uint64_t start = pyd_cpu_nanoseconds(), failed;
      work_body(&turns, 0, 0, 1, &failed);
      double time = (double)(pyd_cpu_nanoseconds() - start);
      if (time < best) best = time;
    }
    per_ns = turns / best;
  }
  return (uint32_t)(nanoseconds * per_ns);
}

// Jobs of 64 indices and a given total time: sharing them must never lose against running them alone.
static void bench_jobs(uint32_t workers, int pause_us) {
  static const double kTotals[] = {50, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 256000, 1000000};
  printf("jobs of 64 indices, %u workers, %d us apart: alone, shared (ns, median), alone/shared\n", workers, pause_us);
  for (size_t t = 0; t < sizeof(kTotals) / sizeof(kTotals[0]); ++t) {
    pyd_sched_t* scheds[2] = {make(1, -1), make(workers, -1)};
    pyd_sched_cost_t costs[2] = {{0}, {0}};
    enum { MANY = 201 };
    static double times[2][MANY];
    uint32_t turns = turns_for(kTotals[t] / 64);
    for (int s = 0; s < 2; ++s) {
      for (int run = -100; run < MANY; ++run) {
        if (pause_us) usleep((useconds_t)pause_us);
        pyd_sched_job_t job = {.body = work_body, .self = &turns, .count = 64, .cost = &costs[s]};
        double time = timed(scheds[s], &job);
        if (run >= 0) times[s][run] = time;
      }
    }
    figure_t alone = figure_of(times[0], MANY), shared = figure_of(times[1], MANY);
    printf("%10.0f  %10.0f %10.0f   %5.2f\n", kTotals[t], alone.median, shared.median, alone.median / shared.median);
    for (int s = 0; s < 2; ++s) pyd_sched_destroy(scheds[s]);
  }
}

// A job of two indices that is always published: the latency of meeting a spinning, or waking a parked thread.
static int32_t meet_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  _Atomic int* here = self;
  (void)worker, (void)begin, (void)end, (void)out_failed;
  ++*here;
  while (*here < 2) pyd_cpu_relax();
  return 0;
}

static void bench_latency(void) {
  enum { MANY = 501 };
  static double times[MANY];
  for (int cold = 0; cold < 2; ++cold) {
    pyd_sched_t* sched = make(2, cold ? 0 : -1);
    for (int run = 0; run < MANY; ++run) {
      if (cold) usleep(300);
      _Atomic int here = 0;
      pyd_sched_cost_t cost = {.picoseconds = 4000000000u};
      pyd_sched_job_t job = {.body = meet_body, .self = &here, .count = 2, .cost = &cost};
      times[run] = timed(sched, &job);
    }
    figure_t figure = figure_of(times, MANY);
    printf("two threads meet, %s: %.0f ns median, %.0f best\n", cold ? "the other parked" : "the other spinning",
           figure.median, figure.best);
    pyd_sched_destroy(sched);
  }
}

static void bench_oversubscribed(void) {
  uint32_t cpus = pyd_sched_available_cpus(), turns = turns_for(20000);
  pyd_sched_t* scheds[2] = {make(cpus, -1), make(2 * cpus, -1)};
  double times[2][RUNS];
  for (int run = 0; run < RUNS; ++run) {
    for (int s = 0; s < 2; ++s) {
      pyd_sched_cost_t cost = {0};
      pyd_sched_job_t job = {.body = work_body, .self = &turns, .count = 200, .cost = &cost};
      times[s][run] = 0;
      for (int i = 0; i < 5; ++i) times[s][run] += timed(scheds[s], &job);
    }
  }
  figure_t fit = figure_of(times[0], RUNS), twice = figure_of(times[1], RUNS);
  printf("2x oversubscribed: %.2f of the time with as many workers as CPUs (best %.2f)\n", twice.median / fit.median,
         twice.best / fit.best);
  for (int s = 0; s < 2; ++s) pyd_sched_destroy(scheds[s]);
}

static void bench_idle(void) {
  pyd_sched_t* sched = make(4, -1);
  pyd_sched_cost_t cost = {.picoseconds = 4000000000u};
  uint32_t turns = 100;
  pyd_sched_job_t job = {.body = work_body, .self = &turns, .count = 64, .cost = &cost};
  timed(sched, &job);
  usleep(2000);
  struct timespec from, to;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  usleep(500000);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  printf("idle pool: %.0f us of CPU in 500 ms\n",
         (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3);
  pyd_sched_destroy(sched);
}

// All, or the parts whose letters the first argument has.
int main(int argc, char** argv) {
  const char* parts = argc > 1 ? argv[1] : "elwcoi";
  if (strchr(parts, 'e')) bench_empty();
  if (strchr(parts, 'l')) bench_latency();
  if (strchr(parts, 'w')) bench_jobs(2, 0);
  if (strchr(parts, 'c')) bench_jobs(2, 300);
  if (strchr(parts, 'o')) bench_jobs(4, 0), bench_oversubscribed();
  if (strchr(parts, 'i')) bench_idle();
  return 0;
}
