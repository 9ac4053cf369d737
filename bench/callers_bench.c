// How long calls take when several threads make them at once, and beside threads that only spin: median, 99th percentile and
// calls per second by the number of callers, and one job on all workers compared with one worker beside a spinning thread.
//
//   gcc -std=c11 -O3 -D_GNU_SOURCE -Icsrc -Icsrc/include bench/callers_bench.c csrc/sched/*.c csrc/base/status.c
//       csrc/platform/cpu_x86.c csrc/platform/cpu_linux.c csrc/platform/thread_linux.c -pthread -o build/callers_bench   (one line)
//
//   callers_bench [MICROSECONDS of work per call, 180] [MILLISECONDS per figure, 1000]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/cpu_inline.h"
#include "pydispatch/sched.h"
#include <pthread.h>

enum { WORKGROUPS = 64, CALLERS = 16, CALLS = 1 << 17 };

static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

static _Atomic int has_ended;

static int32_t work_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  const uint64_t loops = *(uint64_t*)self;
  for (uint64_t i = begin; i < end; ++i) {
    for (uint64_t loop = 0; loop < loops; ++loop) __asm__ volatile("" ::: "memory");
  }
  return 0;
}

// Loops of one workgroup, when a call has |nanoseconds| of work.
static uint64_t loops_for(double nanoseconds) {
  static double per_ns;
  for (int i = 0; i < 20 && (per_ns == 0 || i); ++i) {
    uint64_t loops = 1000000, failed, start = pyd_cpu_nanoseconds();
    work_body(&loops, 0, 0, 1, &failed);
    double rate = (double)loops / (double)(pyd_cpu_nanoseconds() - start);
    if (rate > per_ns) per_ns = rate;
  }
  return (uint64_t)(nanoseconds * per_ns / WORKGROUPS);
}

static pyd_sched_t* make(uint32_t workers) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = workers, .spin_us = -1, .scopes = {get_scope, set_scope}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  if (pyd_ok(status)) return sched;
  fprintf(stderr, "%s\n", pyd_status_text(status));
  exit(1);
}

typedef struct caller_s {
  pthread_t thread;
  pyd_sched_t* sched;
  pyd_sched_cost_t* cost;
  uint64_t loops;
  uint32_t calls;
  double* times;  // microseconds
} caller_t;

static void* call(void* argument) {
  caller_t* caller = argument;
  while (!has_ended && caller->calls < CALLS) {
    pyd_sched_job_t job = {.body = work_body, .self = &caller->loops, .count = WORKGROUPS, .cost = caller->cost};
    pyd_sched_failure_t failure;
    uint64_t start = pyd_cpu_nanoseconds();
    pyd_sched_run(caller->sched, &job, &failure);
    caller->times[caller->calls++] = (double)(pyd_cpu_nanoseconds() - start) / 1e3;
  }
  return NULL;
}

static void* spin(void* argument) {
  (void)argument;
  while (!has_ended) pyd_cpu_relax();
  return NULL;
}

static void sleep_ms(uint32_t milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

static int ascending(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

// All calls of |count| threads for some time; how many, in ascending order in callers[0].times.
static uint32_t collect(caller_t* callers, uint32_t count, pyd_sched_t* sched, double microseconds, uint32_t milliseconds) {
  static double* all;
  if (!all) all = malloc(sizeof(double) * CALLS * CALLERS);
  pyd_sched_cost_t cost = {0};
  has_ended = 0;
  for (uint32_t i = 0; i < count; ++i) {
    callers[i] = (caller_t){.sched = sched, .cost = &cost, .loops = loops_for(microseconds * 1e3), .times = all + (size_t)i * CALLS};
  }
  for (uint32_t i = 0; i < count; ++i) pthread_create(&callers[i].thread, NULL, call, &callers[i]);
  sleep_ms(milliseconds);
  has_ended = 1;
  uint32_t calls = 0;
  for (uint32_t i = 0; i < count; ++i) {
    pthread_join(callers[i].thread, NULL);
    memmove(all + calls, callers[i].times, callers[i].calls * sizeof(double));
    calls += callers[i].calls;
  }
  qsort(all, calls, sizeof(double), ascending);
  callers[0].times = all;
  return calls;
}

static void bench_callers(double microseconds, uint32_t milliseconds) {
  static caller_t callers[CALLERS];
  printf("calls of %.0f us of work, %u workers\ncallers   p50 us   p99 us   max us   calls/s\n", microseconds,
         pyd_sched_available_cpus());
  for (uint32_t count = 1; count <= CALLERS; count *= 2) {
    pyd_sched_t* sched = make(0);
    uint32_t calls = collect(callers, count, sched, microseconds, milliseconds);
    const double* times = callers[0].times;
    printf("%7u %8.1f %8.1f %8.0f %9.0f\n", count, times[calls / 2], times[calls / 100 * 99], times[calls - 1],
           calls * 1e3 / milliseconds);
    pyd_sched_destroy(sched);
  }
}

// On all workers and on one, in turns, beside a thread that spins.
static void bench_spinner(double microseconds, uint32_t milliseconds) {
  static caller_t caller[1];
  double rates[2] = {0, 0};
  enum { TURNS = 5 };
  pyd_sched_t* scheds[2] = {make(1), make(0)};
  for (int turn = 0; turn < 2 * TURNS; ++turn) {
    pthread_t thread;
    has_ended = 0;
    pthread_create(&thread, NULL, spin, NULL);
    rates[turn % 2] += collect(caller, 1, scheds[turn % 2], microseconds, milliseconds) * 1e3 / milliseconds / TURNS;
    pthread_join(thread, NULL);
  }
  printf("beside a spinning thread, calls of %.0f us: %.1f calls/s on one worker, %.1f on %u: %.2fx\n", microseconds, rates[0],
         rates[1], pyd_sched_available_cpus(), rates[1] / rates[0]);
  for (int i = 0; i < 2; ++i) pyd_sched_destroy(scheds[i]);
}

int main(int argc, char** argv) {
  double microseconds = argc > 1 ? atof(argv[1]) : 180;
  uint32_t milliseconds = argc > 2 ? (uint32_t)atoi(argv[2]) : 1000;
  bench_callers(microseconds, milliseconds);
  bench_spinner(200, milliseconds);
  bench_spinner(9000, milliseconds);
  return 0;
}
