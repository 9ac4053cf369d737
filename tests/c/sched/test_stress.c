// Many callers at once, jobs within jobs, more callers than slots, schedulers that come and go.
//
// links: base platform sched
// tsan: 20
#include <fenv.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "sched/internal.h"

static int32_t add_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  _Atomic uint64_t* sum = self;
  uint64_t mine = 0;
  for (uint64_t i = begin; i < end; ++i) mine += i + 1;
  atomic_fetch_add_explicit(sum, mine, memory_order_relaxed);
  return 0;
}

typedef struct caller_s {
  pyd_sched_t* sched;
  int rounds;
  int seed;
  pthread_t thread;
} caller_t;

static void* call_often(void* pointer) {
  caller_t* caller = pointer;
  uint32_t random = (uint32_t)caller->seed * 2654435761u + 1;
  for (int i = 0; i < caller->rounds; ++i) {
    random = random * 1664525u + 1013904223u;
    uint64_t count = (random >> 16) % (i % 8 ? 40 : 4000);
    _Atomic uint64_t sum = 0;
    pyd_sched_failure_t failure = run_job(caller->sched, add_body, &sum, count, random & 1 ? SURELY_SHARED : 0);
    CHECK(failure.code == 0 && sum == count * (count + 1) / 2, "count %d: %d", (int)count, (int)sum);
    if (random % 64 == 0) usleep(random >> 25);  // let the others park now and then
  }
  return NULL;
}

static void test_callers(uint32_t workers, int32_t spin_us, int count, int rounds) {
  caller_t callers[48];
  pyd_sched_t* sched = make_sched(workers, spin_us);
  for (int i = 0; i < count; ++i) {
    callers[i] = (caller_t){.sched = sched, .rounds = rounds, .seed = i};
    CHECK(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) == 0, "thread %d", i);
  }
  for (int i = 0; i < count; ++i) pthread_join(callers[i].thread, NULL);
  pyd_sched_destroy(sched);
}

typedef struct nest_s {
  pyd_sched_t* sched;
  int depth;
  _Atomic uint64_t leaves;
} nest_t;

static int32_t nest_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  nest_t* nest = self;
  (void)worker, (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) {
    if (nest->depth == 0) {
      atomic_fetch_add_explicit(&nest->leaves, 1, memory_order_relaxed);
      continue;
    }
    nest_t inner = {.sched = nest->sched, .depth = nest->depth - 1};
    pyd_sched_failure_t failure = run_job(nest->sched, nest_body, &inner, 4, SURELY_SHARED);
    CHECK(failure.code == 0, "code %d", failure.code);
    atomic_fetch_add_explicit(&nest->leaves, inner.leaves, memory_order_relaxed);
  }
  return 0;
}

static void test_nested(uint32_t workers, int depth) {
  nest_t nest = {.sched = make_sched(workers, -1), .depth = depth};
  pyd_sched_failure_t failure = run_job(nest.sched, nest_body, &nest, 4, SURELY_SHARED);
  uint64_t expected = 4;
  for (int i = 0; i < depth; ++i) expected *= 4;
  CHECK(failure.code == 0 && nest.leaves == expected, "%d of %d", (int)nest.leaves, (int)expected);
  pyd_sched_destroy(nest.sched);
}

static void test_come_and_go(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    pyd_sched_t* sched = make_sched(1 + (uint32_t)i % 5, i % 2 ? -1 : 0);
    _Atomic uint64_t sum = 0;
    if (i % 3) {
      pyd_sched_failure_t failure = run_job(sched, add_body, &sum, 100, SURELY_SHARED);
      CHECK(failure.code == 0 && sum == 5050, "%d", (int)sum);
    }
    pyd_sched_destroy(sched);
  }
}

// Threads are taken away under running jobs and come back.
static void test_stop(int rounds) {
  caller_t callers[2];
  pyd_sched_t* sched = make_sched(3, -1);
  for (int i = 0; i < 2; ++i) {
    callers[i] = (caller_t){.sched = sched, .rounds = rounds, .seed = i};
    pthread_create(&callers[i].thread, NULL, call_often, &callers[i]);
  }
  for (int i = 0; i < rounds / 20 + 1; ++i) {
    pyd_sched_stop(sched);
    usleep(200);
  }
  for (int i = 0; i < 2; ++i) pthread_join(callers[i].thread, NULL);
  pyd_sched_stop(sched);
  pyd_sched_stop(sched);
  pyd_sched_destroy(sched);
}

// A job rounds on every thread as it would on its caller's.
static int32_t round_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  volatile double one = 1, three = 3;
  if (one / three != *(double*)self) return 1;
  struct timespec pause = {.tv_nsec = 20000};
  nanosleep(&pause, NULL);
  return 0;
}

static void test_rounding(void) {
  pyd_sched_t* sched = make_sched(4, -1);
  static const int kModes[] = {FE_UPWARD, FE_TONEAREST, FE_DOWNWARD};
  for (int i = 0; i < 9; ++i) {
    fesetround(kModes[i % 3]);
    volatile double one = 1, three = 3;
    double expected = one / three;
    pyd_sched_failure_t failure = run_job(sched, round_body, &expected, 40, SURELY_SHARED);
    CHECK(failure.code == 0, "another rounding at index %d", (int)failure.index);
  }
  fesetround(FE_TONEAREST);
  pyd_sched_destroy(sched);
}

static uint64_t cpu_time_of(pyd_sched_t* sched) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i + 1 < sched->workers; ++i) {
    clockid_t clock;
    struct timespec used;
    CHECK(pthread_getcpuclockid(sched->threads[i].thread.handle, &clock) == 0 && clock_gettime(clock, &used) == 0,
          "clock");
    sum += (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
  }
  return sum;
}

// An idle pool costs no CPU: once its threads are parked, the time that they have used stays what it is.
static void test_idle(void) {
  pyd_sched_t* sched = make_sched(3, -1);
  _Atomic uint64_t sum = 0;
  run_job(sched, add_body, &sum, 1000, SURELY_SHARED);
  uint64_t before, used = 0;
  do {  // as long as it takes them to get there: on a loaded machine they wait for a CPU first
    before = used;
    usleep(20000);
    used = cpu_time_of(sched);
  } while (atomic_load(&sched->sleepers) != 2 || used != before);
  usleep(100000);
  CHECK(cpu_time_of(sched) == used, "%d ns of CPU in 100 ms of nothing", (int)(cpu_time_of(sched) - used));
  pyd_sched_destroy(sched);
}

int main(int argc, char** argv) {
  int rounds = rounds_of(argc, argv, 1500);
  test_callers(2, -1, 4, rounds);
  test_callers(4, 0, 4, rounds);   // parks at once: the races of waking
  test_callers(8, 30, 3, rounds);  // spins although there are fewer CPUs
  test_callers(3, -1, 40, rounds / 10 + 1);
  for (uint32_t workers = 1; workers <= 6; ++workers) test_nested(workers, 4);
  test_come_and_go(rounds / 8 + 1);
  test_stop(rounds);
  test_rounding();
  test_idle();
  puts("stress: ok");
  return 0;
}
