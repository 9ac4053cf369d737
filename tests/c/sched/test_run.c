// Every index runs exactly once, with worker numbers that nobody else has at that moment, and what the bodies wrote is
// there afterwards.
//
// links: base platform sched
// tsan: 20
#include <sched.h>

#include "check.h"

enum { MOST = 88573, MAX_WORKERS = 8 };

typedef struct tally_s {
  uint32_t workers;
  _Atomic int busy[MAX_WORKERS];
  _Atomic int used[MAX_WORKERS];
  uint8_t plain[MOST];  // written without atomics: a race or a lost write shows under the sanitizer and below
  _Atomic uint64_t total;
} tally_t;

static int32_t count_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  tally_t* tally = self;
  (void)out_failed;
  CHECK(worker < tally->workers, "worker %u of %u", worker, tally->workers);
  CHECK(begin < end, "empty chunk");
  CHECK(atomic_exchange_explicit(&tally->busy[worker], 1, memory_order_relaxed) == 0, "worker %u twice", worker);
  for (uint64_t i = begin; i < end; ++i) ++tally->plain[i];
  atomic_fetch_add_explicit(&tally->total, end - begin, memory_order_relaxed);
  atomic_store_explicit(&tally->used[worker], 1, memory_order_relaxed);
  atomic_store_explicit(&tally->busy[worker], 0, memory_order_relaxed);
  return 0;
}

static void check_once(pyd_sched_t* sched, tally_t* tally, uint64_t count, uint32_t cost) {
  memset(tally, 0, sizeof(*tally));
  tally->workers = pyd_sched_workers(sched);
  pyd_sched_failure_t failure = run_job(sched, count_body, tally, count, cost);
  CHECK(failure.code == 0 && failure.index == 0, "code %d at %llu", failure.code, (unsigned long long)failure.index);
  CHECK(tally->total == count, "%llu of %llu", (unsigned long long)tally->total, (unsigned long long)count);
  for (uint64_t i = 0; i < count; ++i) CHECK(tally->plain[i] == 1, "index %d ran %d times", (int)i, tally->plain[i]);
}

static void test_counts(int rounds) {
  static const uint64_t kCounts[] = {0, 1, 2, 3, 7, 64, 1000, MOST};
  tally_t* tally = malloc(sizeof(*tally));
  for (uint32_t workers = 1; workers <= MAX_WORKERS; ++workers) {
    pyd_sched_t* sched = make_sched(workers, workers % 3 == 0 ? 0 : workers % 3 == 1 ? -1 : 20);
    CHECK(pyd_sched_workers(sched) == workers, "%u", workers);
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < sizeof(kCounts) / sizeof(kCounts[0]); ++i) {
        check_once(sched, tally, kCounts[i], SURELY_SHARED);
        check_once(sched, tally, kCounts[i], 0);
        check_once(sched, tally, kCounts[i], 1);
      }
    }
    pyd_sched_destroy(sched);
  }
  free(tally);
}

// Nothing here proves that work is shared at all unless somebody else is seen working: two indices that wait for each
// other end only when two threads run them.
static int32_t meet_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  _Atomic int* here = self;
  (void)worker, (void)out_failed;
  CHECK(end - begin == 1, "an index of 4 ms must come alone");
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < 2) sched_yield();
  return 0;
}

static void test_really_shared(void) {
  static const int32_t kSpins[] = {-1, 0, 50};
  for (int i = 0; i < 3; ++i) {
    pyd_sched_t* sched = make_sched(2, kSpins[i]);
    for (int round = 0; round < 50; ++round) {
      _Atomic int here = 0;
      pyd_sched_failure_t failure = run_job(sched, meet_body, &here, 2, SURELY_SHARED);
      CHECK(failure.code == 0 && here == 2, "round %d", round);
    }
    pyd_sched_destroy(sched);
  }
}

// Few indices of unknown cost are on all workers at once: none of the first ones ends before as many have begun.
typedef struct meeting_s {
  _Atomic uint32_t here;
  uint32_t wanted;
} meeting_t;

static int32_t all_meet_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  meeting_t* meeting = self;
  (void)worker, (void)out_failed;
  atomic_fetch_add(&meeting->here, (uint32_t)(end - begin));
  while (atomic_load(&meeting->here) < meeting->wanted) sched_yield();
  return 0;
}

static void test_unknown_and_coarse(uint32_t workers, uint64_t count) {
  pyd_sched_t* sched = make_sched(workers, -1);
  for (int i = 0; i < 20; ++i) {
    meeting_t meeting = {.wanted = count < workers ? (uint32_t)count : workers};
    pyd_sched_failure_t failure = run_job(sched, all_meet_body, &meeting, count, 0);
    CHECK(failure.code == 0 && meeting.here == count, "%u", meeting.here);
  }
  pyd_sched_destroy(sched);
}

// More indices than 32 bits: the body only samples. Chunks must be whole, disjoint and complete: sums over begin and
// end of a partition of [0, n) telescope.
typedef struct sums_s {
  _Atomic uint64_t total, begins, ends, squares;
} sums_t;

static int32_t sum_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  sums_t* sums = self;
  (void)worker, (void)out_failed;
  atomic_fetch_add_explicit(&sums->total, end - begin, memory_order_relaxed);
  atomic_fetch_add_explicit(&sums->begins, begin, memory_order_relaxed);
  atomic_fetch_add_explicit(&sums->ends, end, memory_order_relaxed);
  atomic_fetch_add_explicit(&sums->squares, end * end - begin * begin, memory_order_relaxed);  // wraps, as it may
  return 0;
}

static void test_windows(void) {
  static const uint64_t kCounts[] = {0x7FFFFFFFu, 0x80000001u, 0x100000001u, 0x1FFFFFFFFu, 0x280000003u};
  pyd_sched_t* sched = make_sched(3, -1);
  for (int i = 0; i < 5; ++i) {
    sums_t sums = {0};
    // A real cost far below what is pretended: chunks grow at once.
    pyd_sched_failure_t failure = run_job(sched, sum_body, &sums, kCounts[i], i % 2 ? 1000 : 0);
    CHECK(failure.code == 0, "code %d", failure.code);
    CHECK(sums.total == kCounts[i], "%llx of %llx", (unsigned long long)sums.total, (unsigned long long)kCounts[i]);
    CHECK(sums.ends - sums.begins == kCounts[i], "chunks overlap");
    CHECK(sums.squares == kCounts[i] * kCounts[i], "chunks are not a partition");
  }
  pyd_sched_destroy(sched);
}

static void test_bad_options(void) {
  pyd_sched_t* sched = (pyd_sched_t*)1;
  pyd_sched_options_t options = {.workers = 5000, .spin_us = -1};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT && !sched, "%s", pyd_status_text(status));
  CHECK(strstr(pyd_status_text(status), "5000") && strstr(pyd_status_text(status), "1024"), "no numbers");
  pyd_status_free(status);
  options = (pyd_sched_options_t){.workers = 2, .spin_us = -2};
  status = pyd_sched_create(&options, &sched);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT, "spin -2");
  pyd_status_free(status);
  options.spin_us = 1000001;
  status = pyd_sched_create(&options, &sched);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT && strstr(pyd_status_text(status), "1000001"), "spin 1 s");
  pyd_status_free(status);
  pyd_sched_destroy(NULL);
}

int main(int argc, char** argv) {
  int rounds = rounds_of(argc, argv, 10);
  test_counts(rounds);
  test_really_shared();
  test_unknown_and_coarse(2, 2);
  test_unknown_and_coarse(8, 2);
  test_unknown_and_coarse(8, 4);
  test_unknown_and_coarse(8, 8);
  test_unknown_and_coarse(4, 40);
  test_windows();
  test_bad_options();
  puts("run: ok");
  return 0;
}
