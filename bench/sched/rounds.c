// Measures parallel loops ("grids") of one thread pool, a measurement for each line of standard input. Between lines
// the program keeps its threads, so that they are warm, and is idle while the programs of other pools measure.
//
//   PROGRAM WORKERS [VARIANT]
//   input line:   PATTERN COUNT TURNS PAUSE_US SPINNING SECONDS
//   output line:  MEDIAN_NS LEAST_NS
//
// PATTERN: how the work is distributed over the COUNT indices of a grid, a name in |patterns|. TURNS: passes through
// the work loop in the whole grid. PAUSE_US: how long the caller sleeps before each grid. SPINNING: number of threads
// outside of the pool that compute meanwhile. SECONDS: duration of the measurement. The output is the median and the
// least time of a grid; for the pattern "idle", CPU time of the process for one grid until its threads are idle again.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "contender.h"
#include "platform/cpu_inline.h"

enum {
  MOST_TIMES = 100000,  // stored times of one measurement
  MOST_SPINNING = 64,   // threads of spin()
  BATCH_NS = 20000,     // grids without pauses are timed in batches that take about this long
  WARM_RUNS = 5,        // grids that run before the first that is timed
};

// The loop that is measured, as the |self| of its kernel.
typedef struct grid_s {
  kernel_t kernel;
  uint64_t count;            // indices
  uint64_t turns;            // passes through the work loop in all indices together
  uint64_t index_turns;      // turns / count
  _Atomic uint32_t arrived;  // how many indices of the pattern "meet" have begun
} grid_t;

// Returns the nanoseconds of a clock.
static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// A loop of so many passes, which the compiler cannot remove.
static void work(uint64_t turns) {
  for (uint64_t i = 0; i < turns; ++i) __asm__ volatile("" ::: "memory");
}

// Nothing: only calls are measured.
static void empty(void* self, uint64_t index) { __asm__ volatile("" ::"r"(self), "r"(index) : "memory"); }

// All indices have equal work.
static void even(void* self, uint64_t index) {
  const grid_t* grid = self;
  (void)index;
  work(grid->index_turns);
}

// The work of an index grows with it, from nothing to twice the average: 2 * index / count * (turns / count).
static void ramp(void* self, uint64_t index) {
  const grid_t* grid = self;
  work(2 * grid->turns * index / (grid->count * grid->count));
}

// The last index has a quarter of all work.
static void heavy(void* self, uint64_t index) {
  const grid_t* grid = self;
  work(index + 1 == grid->count ? grid->turns / 4 : 3 * grid->turns / 4 / grid->count);
}

// Each index waits until all have begun, so that each needs a thread.
static void meet(void* self, uint64_t index) {
  grid_t* grid = self;
  (void)index;
  uint32_t wanted = (uint32_t)grid->count;
  atomic_fetch_add(&grid->arrived, 1);
  while (atomic_load(&grid->arrived) < wanted) pyd_cpu_relax();
}

static const struct {
  const char* name;
  kernel_t kernel;
} patterns[] = {{"empty", empty}, {"even", even}, {"ramp", ramp}, {"heavy", heavy}, {"meet", meet}, {"idle", even}};

// Whether threads of spin() go on.
static atomic_bool is_spinning;

// Keeps a CPU busy until is_spinning is false; a thread that has nothing to do with the grids.
static void* spin(void* unused) {
  while (atomic_load_explicit(&is_spinning, memory_order_relaxed)) work(1000);
  return unused;
}

// Runs the grid once.
static void run(grid_t* grid) {
  atomic_store(&grid->arrived, 0);
  contender_run(grid->kernel, grid, grid->count);
}

// Compares two doubles, for qsort().
static int ascending(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Stores up to MOST_TIMES times of a grid in nanoseconds, measured for |seconds| but at least 3 times; returns how
// many. With a pause a time is that of one grid. Otherwise it is the mean of a batch so long that reading the clock is
// cheap.
static int times_of(grid_t* grid, useconds_t pause_us, double seconds, double* times) {
  uint64_t first = clock_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < WARM_RUNS; ++i) run(grid);
  uint64_t begin = clock_ns(CLOCK_MONOTONIC), mean = (begin - first) / WARM_RUNS + 1,
           end = begin + (uint64_t)(seconds * 1e9);
  int batch = pause_us ? 1 : (int)(BATCH_NS / mean) + 1, count = 0;
  while (count < MOST_TIMES && (count < 3 || clock_ns(CLOCK_MONOTONIC) < end)) {
    if (pause_us) usleep(pause_us);
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < batch; ++i) run(grid);
    times[count++] = (double)(clock_ns(CLOCK_MONOTONIC) - start) / batch;
  }
  return count;
}

// Returns the CPU time of the process, in nanoseconds, once it grows by less than 1 ms in 10 ms, or after a second. The
// system adds the time of running threads at each tick of its timer, every few milliseconds.
static uint64_t cpu_when_idle(void) {
  uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < 100; ++i) {
    usleep(10000);
    uint64_t now = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (now - before < 1000000) return now;
    before = now;
  }
  return before;
}

// Measures the CPU nanoseconds that the process takes for a grid until its threads are idle again. Stores three such
// times; returns 3.
static int cpu_times_of(grid_t* grid, double* times) {
  for (int i = 0; i < 3; ++i) {
    uint64_t before = cpu_when_idle();
    run(grid);
    times[i] = (double)(cpu_when_idle() - before);
  }
  return 3;
}

int main(int argc, char** argv) {
  static double times[MOST_TIMES];
  if (argc < 2 || atoi(argv[1]) < 1) return fprintf(stderr, "usage: %s WORKERS [VARIANT]\n", argv[0]), 2;
  contender_start((uint32_t)atoi(argv[1]), argc > 2 ? argv[2] : "");
  char name[16];
  unsigned long long count, turns;
  unsigned pause_us, spinning;
  double seconds;
  while (scanf("%15s %llu %llu %u %u %lf", name, &count, &turns, &pause_us, &spinning, &seconds) == 6) {
    grid_t grid = {.count = count, .turns = turns, .index_turns = turns / (count ? count : 1)};
    for (size_t p = 0; p < sizeof(patterns) / sizeof(*patterns); ++p) {
      if (!strcmp(name, patterns[p].name)) grid.kernel = patterns[p].kernel;
    }
    if (!grid.kernel || !count || spinning > MOST_SPINNING) return fprintf(stderr, "no such round: %s\n", name), 2;
    // Indices that wait for each other need a thread each: a stated cost of 1 ms makes the pool use all its threads.
    contender_prepare(grid.kernel == meet ? 1000000000u /* ps */ : 0);
    pthread_t threads[MOST_SPINNING];
    atomic_store(&is_spinning, true);
    for (unsigned i = 0; i < spinning; ++i) {
      if (pthread_create(&threads[i], NULL, spin, NULL)) return fprintf(stderr, "no thread\n"), 1;
    }
    int time_count = strcmp(name, "idle") ? times_of(&grid, pause_us, seconds, times) : cpu_times_of(&grid, times);
    atomic_store(&is_spinning, false);
    for (unsigned i = 0; i < spinning; ++i) pthread_join(threads[i], NULL);
    cpu_when_idle();  // waits for the threads of the pool to sleep: another pool measures after this one's output
    qsort(times, (size_t)time_count, sizeof(*times), ascending);
    printf("%.1f %.1f\n", times[time_count / 2], times[0]);
    fflush(stdout);
  }
  return 0;
}
