// A failing index stops the rest, and of those that failed the lowest is reported.
//
// links: base platform sched
// tsan: 20
#include "check.h"

enum { COUNT = 5000 };

typedef struct plan_s {
  uint8_t fails[COUNT];
  _Atomic uint8_t ran[COUNT];
  _Atomic uint64_t lowest;  // that a body really returned
} plan_t;

static int32_t body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  plan_t* plan = self;
  (void)worker;
  for (uint64_t i = begin; i < end; ++i) {
    atomic_fetch_add_explicit(&plan->ran[i], 1, memory_order_relaxed);
    for (volatile int spin = 0; spin < 20; ++spin) {
    }
    if (!plan->fails[i]) continue;
    uint64_t lowest = atomic_load(&plan->lowest);
    while (i < lowest && !atomic_compare_exchange_weak(&plan->lowest, &lowest, i)) {
    }
    *out_failed = i;
    return -(int32_t)(i % 1000) - 1;
  }
  return 0;
}

static void check_failure(pyd_sched_t* sched, plan_t* plan, uint32_t cost, bool exact, uint64_t expected) {
  memset(plan->ran, 0, sizeof(plan->ran));
  plan->lowest = UINT64_MAX;
  pyd_sched_failure_t failure = run_job(sched, body, plan, COUNT, cost);
  CHECK(failure.code == -(int32_t)(failure.index % 1000) - 1, "code %d of index %d", failure.code, (int)failure.index);
  CHECK(plan->fails[failure.index], "index %d does not fail", (int)failure.index);
  CHECK(failure.index == plan->lowest, "%d reported, %d failed too", (int)failure.index, (int)plan->lowest);
  CHECK(!exact || failure.index == expected, "%d, not %d", (int)failure.index, (int)expected);
  int ran = 0;
  for (int i = 0; i < COUNT; ++i) {
    CHECK(plan->ran[i] <= 1, "index %d ran %d times", i, plan->ran[i]);
    ran += plan->ran[i];
  }
  CHECK(!exact || ran == (int)expected + 1, "%d ran", ran);
}

static void test_places(pyd_sched_t* sched, plan_t* plan) {
  static const int kPlaces[] = {0, 1, COUNT / 2, COUNT - 2, COUNT - 1};
  bool alone = pyd_sched_workers(sched) == 1;
  for (int i = 0; i < 5; ++i) {
    memset(plan->fails, 0, sizeof(plan->fails));
    plan->fails[kPlaces[i]] = 1;
    check_failure(sched, plan, SURELY_SHARED, alone, (uint64_t)kPlaces[i]);
    CHECK(plan->lowest == (uint64_t)kPlaces[i], "the one failure");
    check_failure(sched, plan, 0, alone, (uint64_t)kPlaces[i]);
    check_failure(sched, plan, 1, true, (uint64_t)kPlaces[i]);  // too cheap to share: in order
  }
  memset(plan->fails, 1, sizeof(plan->fails));
  check_failure(sched, plan, SURELY_SHARED, alone, 0);
  memset(plan->fails, 0, COUNT - 100);
  check_failure(sched, plan, SURELY_SHARED, alone, COUNT - 100);
  // The next job of the same slot is untouched.
  memset(plan->fails, 0, sizeof(plan->fails));
  memset(plan->ran, 0, sizeof(plan->ran));
  pyd_sched_failure_t failure = run_job(sched, body, plan, COUNT, SURELY_SHARED);
  CHECK(failure.code == 0 && failure.index == 0, "code %d", failure.code);
  for (int i = 0; i < COUNT; ++i) CHECK(plan->ran[i] == 1, "index %d ran %d times", i, plan->ran[i]);
}

// Behind the first window, and with a body that forgets to say which index it was.
static int32_t late_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  uint64_t bad = *(uint64_t*)self;
  (void)worker;
  if (bad < begin || bad >= end) return 0;
  *out_failed = bad;
  return 1 << 30;
}

static int32_t mute_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)self, (void)worker, (void)begin;
  *out_failed = end + 5;
  return 3;
}

static void test_odd(pyd_sched_t* sched) {
  uint64_t bad = 0x180000007u;
  pyd_sched_failure_t failure = run_job(sched, late_body, &bad, 0x200000000u, 1000);
  CHECK(failure.code == 1 << 30 && failure.index == bad, "%d at %llx", failure.code, (unsigned long long)failure.index);
  failure = run_job(sched, mute_body, NULL, 50, SURELY_SHARED);
  CHECK(failure.code == 3 && failure.index < 50, "%d at %d", failure.code, (int)failure.index);
  failure = run_job(sched, mute_body, NULL, 1, SURELY_SHARED);
  CHECK(failure.code == 3 && failure.index == 0, "%d at %d", failure.code, (int)failure.index);
}

int main(int argc, char** argv) {
  int rounds = rounds_of(argc, argv, 10);
  plan_t* plan = malloc(sizeof(*plan));
  for (uint32_t workers = 1; workers <= 5; workers += 2) {
    pyd_sched_t* sched = make_sched(workers, -1);
    for (int i = 0; i < rounds; ++i) test_places(sched, plan);
    test_odd(sched);
    pyd_sched_destroy(sched);
  }
  free(plan);
  puts("errors: ok");
  return 0;
}
