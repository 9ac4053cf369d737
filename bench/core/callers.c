// How long calls take when several threads make them at once: median, 99th percentile and calls per second by the number of
// callers; and one job on all workers compared with one worker beside a thread that only spins.
//
//   callers [MILLISECONDS per figure, 1000]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rows.h"
#include "platform/cpu_inline.h"
#include "pydispatch/sched.h"
#include <pthread.h>

enum {
  WORKGROUPS = 64,  // of a call
  CALLERS = 16,     // threads that call at once, at most
  CALLS = 1 << 17,  // of a thread, at most: room for their times
};

// The thread's innermost running job, which the scheduler keeps through these functions.
static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

// Nonzero: threads that call or spin end.
static _Atomic int has_ended;

// Computes workgroups |begin| to |end| - 1: empty loops, as many for each as |self| (a uint64_t) says.
static int32_t work_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  const uint64_t loops = *(uint64_t*)self;
  for (uint64_t i = begin; i < end; ++i) {
    for (uint64_t loop = 0; loop < loops; ++loop) __asm__ volatile("" ::: "memory");
  }
  return 0;
}

// Returns the loops of one workgroup such that all WORKGROUPS of a call take |nanoseconds| on one thread.
static uint64_t loops_for(double nanoseconds) {
  static double per_ns;  // loops in a nanosecond: the best of 20 trials, made in the first call only
  for (int i = 0; i < 20 && (per_ns == 0 || i); ++i) {  // skipped if an earlier call has set per_ns
    uint64_t loops = 1000000, failed, start = pyd_cpu_nanoseconds();
    work_body(&loops, 0, 0, 1, &failed);
    double rate = (double)loops / (double)(pyd_cpu_nanoseconds() - start);
    if (rate > per_ns) per_ns = rate;
  }
  return (uint64_t)(nanoseconds * per_ns / WORKGROUPS);
}

// Creates a scheduler, or ends the process. |workers|: 0 for one per core.
static pyd_sched_t* make(uint32_t workers) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = workers, .spin_us = -1, .scopes = {get_scope, set_scope}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  if (pyd_ok(status)) return sched;
  fprintf(stderr, "%s\n", pyd_status_text(status));
  exit(1);
}

// A thread that calls.
typedef struct caller_s {
  pthread_t thread;
  pyd_sched_t* sched;
  pyd_sched_cost_t* cost;  // cost estimate of the job, which all callers share
  uint64_t loops;          // of each workgroup
  uint32_t calls;          // so far
  double* times;           // microseconds of each call
} caller_t;

// Runs one job after another on the scheduler of the caller_t, and times each, until |has_ended|.
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

// Occupies a core, without using the scheduler, until |has_ended|.
static void* spin(void* argument) {
  (void)argument;
  while (!has_ended) pyd_cpu_relax();
  return NULL;
}

static void sleep_ms(uint32_t milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

// Compares two doubles, for qsort().
static int ascending(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

// Lets |count| threads call for |milliseconds|, each call of |microseconds| of work. Returns the number of all calls;
// callers[0].times has their times in ascending order.
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
    // Move the caller's times next to those of the callers before it.
    memmove(all + calls, callers[i].times, callers[i].calls * sizeof(double));
    calls += callers[i].calls;
  }
  qsort(all, calls, sizeof(double), ascending);
  callers[0].times = all;
  return calls;
}

// Prints the latency and the rate of calls of |microseconds| of work with 1, 2, 4, ... callers on all workers.
static void bench_callers(double microseconds, uint32_t milliseconds) {
  static caller_t callers[CALLERS];
  char name[64], size[64];
  for (uint32_t count = 1; count <= CALLERS; count *= 2) {
    pyd_sched_t* sched = make(0 /* all */);
    const uint32_t calls = collect(callers, count, sched, microseconds, milliseconds), workers = pyd_sched_available_cpus();
    const double *times = callers[0].times, rate = calls * 1e3 / milliseconds;
    snprintf(size, sizeof(size), "%u thread%s", count, count > 1 ? "s" : "");
    static const struct {
      const char* name;
      uint32_t percent;
    } kPercentiles[] = {{"median", 50}, {"99th percentile", 99}};
    for (uint32_t i = 0; i < 2; ++i) {
      const double seconds = times[calls / 100 * kPercentiles[i].percent] / 1e6;  // times are ascending microseconds
      snprintf(name, sizeof(name), "calls of %.0f us: %s", microseconds, kPercentiles[i].name);
      row(name, size, workers, seconds, times[0] / 1e6, times[calls - 1] / 1e6, "s");
    }
    snprintf(name, sizeof(name), "calls of %.0f us: calls a second", microseconds);
    row(name, size, workers, rate, rate, rate, "/s");
    pyd_sched_destroy(sched);
  }
}

// Prints how many times as many calls of |microseconds| of work all workers make in |milliseconds| as one worker does,
// when a thread that spins takes a core from them. Both are measured in turns.
static void bench_spinner(double microseconds, uint32_t milliseconds) {
  static caller_t caller[1];
  enum { ROUNDS = 5 };
  double ratios[ROUNDS], least = 1e9, most = 0, sum = 0;
  pyd_sched_t* scheds[2] = {make(1), make(0 /* all */)};
  for (int round = 0; round < ROUNDS; ++round) {
    double rates[2];
    for (int k = 0; k < 2; ++k) {
      pthread_t thread;
      has_ended = 0;
      pthread_create(&thread, NULL, spin, NULL);
      rates[k] = collect(caller, 1, scheds[k], microseconds, milliseconds);
      pthread_join(thread, NULL);
    }
    ratios[round] = rates[1] / rates[0];
    sum += ratios[round];
    if (ratios[round] < least) least = ratios[round];
    if (ratios[round] > most) most = ratios[round];
  }
  char size[64];
  snprintf(size, sizeof(size), "calls of %.0f us", microseconds);
  row("beside a spinning thread, times one worker", size, pyd_sched_available_cpus(), sum / ROUNDS, least, most, "1");
  for (int i = 0; i < 2; ++i) pyd_sched_destroy(scheds[i]);
}

int main(int argc, char** argv) {
  const uint32_t milliseconds = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
  bench_callers(30, milliseconds);
  bench_callers(180, milliseconds);
  bench_spinner(200, milliseconds);
  bench_spinner(9000, milliseconds);
  return 0;
}
