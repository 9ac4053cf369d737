// Which CPUs threads are moved to, and that their masks come back, on a simulated system whose threads are where the
// test says.
//
// links: base platform
// tsan: 20
#include <sched.h>

#include "check.h"
#include "platform/affinity.h"
#include "platform/cpu.h"
#include "platform/topology.h"

enum { CPUS = 4, THREADS = 32 };

// ---- the simulated system: a thread is on a CPU of its mask, and stays there until the mask or the test moves it

typedef struct simulated_thread_s {
  pthread_t handle;
  uint32_t cpu;
  uint64_t mask;
} simulated_thread_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static simulated_thread_t threads[THREADS];
static uint32_t thread_count, mask_changes;

// Under the mutex. A new thread may use all CPUs and begins on the first.
static simulated_thread_t* find(pthread_t handle) {
  for (uint32_t i = 0; i < thread_count; ++i) {
    if (pthread_equal(threads[i].handle, handle)) return &threads[i];
  }
  CHECK(thread_count < THREADS, "too many threads");
  threads[thread_count] = (simulated_thread_t){handle, 0, (1u << CPUS) - 1};
  return &threads[thread_count++];
}

static uint32_t simulated_cpu(void) {
  pthread_mutex_lock(&mutex);
  const uint32_t cpu = find(pthread_self())->cpu;
  pthread_mutex_unlock(&mutex);
  return cpu;
}

static bool simulated_get(const pyd_thread_t* thread, pyd_cpu_set_t* out_cpus) {
  pthread_mutex_lock(&mutex);
  *out_cpus = (pyd_cpu_set_t){{find(thread->handle)->mask}};
  pthread_mutex_unlock(&mutex);
  return true;
}

// Under the mutex.
static void set_mask(simulated_thread_t* thread, uint64_t mask) {
  thread->mask = mask;
  if (!(mask >> thread->cpu & 1)) thread->cpu = (uint32_t)__builtin_ctzll(mask);
}

static bool simulated_set(const pyd_thread_t* thread, const pyd_cpu_set_t* cpus) {
  CHECK(cpus->words[0], "an empty mask");
  pthread_mutex_lock(&mutex);
  set_mask(find(thread->handle), cpus->words[0]);
  ++mask_changes;
  pthread_mutex_unlock(&mutex);
  return true;
}

#include "sched/simulated.h"

static void put(pthread_t handle, uint32_t cpu, uint64_t mask) {
  pthread_mutex_lock(&mutex);
  find(handle)->cpu = cpu;
  set_mask(find(handle), mask);
  pthread_mutex_unlock(&mutex);
}

static simulated_thread_t state_of(pthread_t handle) {
  pthread_mutex_lock(&mutex);
  const simulated_thread_t state = *find(handle);
  pthread_mutex_unlock(&mutex);
  return state;
}

static uint32_t changes(void) {
  pthread_mutex_lock(&mutex);
  const uint32_t count = mask_changes;
  pthread_mutex_unlock(&mutex);
  return count;
}

// ---- the choice

// SMT siblings 0 and 4, 1 and 5; 2 and 3 are slow.
static const pyd_topology_cpu_t kHybrid[] = {
    {.number = 0, .core = 0, .is_fast = true},
    {.number = 1, .core = 1, .is_fast = true},
    {.number = 2, .core = 2},
    {.number = 3, .core = 3},
    {.number = 4, .core = 0, .is_fast = true},
    {.number = 5, .core = 1, .is_fast = true},
};

static void expect_choice(uint64_t allowed, uint64_t occupied, uint64_t expected) {
  pyd_cpu_set_t from = {{allowed}}, without = {{occupied}}, chosen;
  const bool is_possible = pyd_placement_choose(kHybrid, 6, &from, &without, &chosen);
  CHECK(is_possible == (expected != 0), "%#lx without %#lx", (long)allowed, (long)occupied);
  CHECK(!is_possible || chosen.words[0] == expected, "%#lx, not %#lx", (long)chosen.words[0], (long)expected);
}

static void test_choice(void) {
  expect_choice(0x3F, 0x01, 0x22);  // the other fast core, either thread of it
  expect_choice(0x3F, 0x03, 0x30);  // both fast cores are occupied: their siblings before slow cores
  expect_choice(0x3F, 0x33, 0x0C);  // slow cores are left
  expect_choice(0x0F, 0x03, 0x0C);
  expect_choice(0x11, 0x01, 0x10);  // nothing but a sibling is allowed
  expect_choice(0x03, 0x03, 0);
  expect_choice(0x3F, 0x3F, 0);
  expect_choice(0xC0, 0x01, 0xC0);  // CPUs that were not there when the machine was read
}

// ---- threads

typedef struct pair_s {
  _Atomic uint32_t arrived;
  pthread_t helper;
  uint32_t cpus[2];       // of the caller and the other one, in the job
  _Atomic bool has_come;  // the other one, which the system has put on the CPU of the caller
  _Atomic uint32_t done;  // indices of the other one
  pyd_sched_t* sched;
} pair_t;

static int32_t count(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker;
  (void)out_failed;
  atomic_fetch_add((_Atomic uint64_t*)self, end - begin);
  return 0;
}

// One index for each of two threads, which wait for one another.
static int32_t meet(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  pair_t* pair = self;
  (void)begin;
  (void)out_failed;
  CHECK(end == begin + 1, "more than an index");
  atomic_fetch_add(&pair->arrived, 1);
  while (atomic_load(&pair->arrived) < 2) sched_yield();
  pair->cpus[worker != 0] = simulated_cpu();
  if (worker) pair->helper = pthread_self();
  return 0;
}

static pair_t run_pair(pyd_sched_t* sched) {
  pair_t pair = {.sched = sched};
  const pyd_sched_failure_t failure = run_job(sched, meet, &pair, 2, SURELY_SHARED);
  CHECK(!failure.code, "%d", (int)failure.code);
  return pair;
}

static void await_parked(pyd_sched_t* sched) {
  while (atomic_load(&sched->sleepers) != sched->workers - 1) sched_yield();
}

// Threads that have ended leave their handles to new ones.
static void forget_threads(void) { thread_count = 0; }

static pyd_sched_t* make_pair(bool has_affinity) {
  forget_threads();
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {.workers = 2, .spin_us = 0, .has_affinity = has_affinity};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  CHECK(sched->places_threads, "a CPU for each");
  await_parked(sched);
  return sched;
}

// Puts the parked thread where the caller is, so that it remembers that CPU.
static pthread_t share_cpu(pyd_sched_t* sched, uint32_t cpu, uint64_t mask) {
  const pthread_t helper = sched->threads[0].placement.thread.handle;
  put(pthread_self(), cpu, 0xF);
  put(helper, cpu, mask);
  atomic_store(&sched->threads[0].placement.cpu, cpu);
  return helper;
}

static void test_parked_thread_moves(pyd_sched_t* sched) {
  const pthread_t helper = share_cpu(sched, 2, 0x6);
  const pair_t pair = run_pair(sched);
  CHECK(pair.cpus[0] == 2 && pair.cpus[1] == 1, "on CPUs %u and %u", pair.cpus[0], pair.cpus[1]);
  await_parked(sched);
  CHECK(state_of(helper).mask == 0x6, "mask %#lx", (long)state_of(helper).mask);
  CHECK(state_of(pthread_self()).mask == 0xF, "the mask of the caller has changed");
}

// Its mask has only the CPU of the caller: it stays there.
static void test_nowhere_to_go(pyd_sched_t* sched) {
  const pthread_t helper = share_cpu(sched, 3, 0x8);
  const uint32_t before = changes();
  const pair_t pair = run_pair(sched);
  CHECK(pair.cpus[1] == 3 && changes() == before, "on CPU %u", pair.cpus[1]);
  await_parked(sched);
  CHECK(state_of(helper).mask == 0x8, "mask %#lx", (long)state_of(helper).mask);
}

// Threads apart from one another cost no change of a mask.
static void test_nothing_to_do(pyd_sched_t* sched) {
  share_cpu(sched, 1, 0xF);
  put(sched->threads[0].placement.thread.handle, 2, 0xF);
  atomic_store(&sched->threads[0].placement.cpu, 2);
  atomic_store(&sched->threads[0].idle_since, UINT64_MAX);  // it has just parked
  const uint32_t before = changes();
  run_pair(sched);
  CHECK(changes() == before, "%u changes", changes() - before);
  await_parked(sched);
}

// The program changes the mask of a thread between the waker's change and its restoration.
static void test_mask_of_program_stays(pyd_sched_t* sched) {
  const pthread_t helper = share_cpu(sched, 0, 0xF);
  pyd_placement_before_wake(&sched->threads[0]);
  CHECK(state_of(helper).mask == 0xE, "mask %#lx", (long)state_of(helper).mask);
  put(helper, 3, 0x8);
  run_pair(sched);
  await_parked(sched);
  CHECK(state_of(helper).mask == 0x8, "mask %#lx", (long)state_of(helper).mask);
  put(helper, 3, 0xF);
}

// Long work, in the middle of which the system puts the other thread on the CPU of the caller, which waits until it has
// moved away.
enum { LONG_INDICES = 200, LONG_INDEX_NS = 20000 };

static int32_t work_long(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  pair_t* pair = self;
  (void)out_failed;
  if (!worker) {
    while (!atomic_load(&pair->has_come)) sched_yield();
    while (state_of(pair->helper).cpu == 0 && atomic_load(&pair->done) < LONG_INDICES / 2) sched_yield();
    return 0;
  }
  if (!atomic_load(&pair->has_come)) {
    pair->helper = pthread_self();
    put(pair->helper, 0, 0xF);
    atomic_store(&pair->has_come, true);
  }
  for (uint64_t start = pyd_cpu_nanoseconds(); pyd_cpu_nanoseconds() - start < (end - begin) * LONG_INDEX_NS;) {
  }
  atomic_fetch_add(&pair->done, (uint32_t)(end - begin));
  return 0;
}

static void test_running_thread_moves(pyd_sched_t* sched) {
  share_cpu(sched, 0, 0xF);
  pair_t pair = {.sched = sched};
  const pyd_sched_failure_t failure = run_job(sched, work_long, &pair, LONG_INDICES, 1000 * LONG_INDEX_NS);
  CHECK(!failure.code && state_of(pair.helper).cpu != 0, "on CPU %u", state_of(pair.helper).cpu);
  await_parked(sched);
  CHECK(state_of(pair.helper).mask == 0xF, "mask %#lx", (long)state_of(pair.helper).mask);
}

// A pool thread that opens a job itself stays where it is.
static int32_t nest(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  pair_t* pair = self;
  if (!worker) return meet(self, worker, begin, end, out_failed);
  const uint32_t before = changes();
  _Atomic uint64_t sum = 0;
  run_job(pair->sched, count, (void*)&sum, 4, SURELY_SHARED);
  CHECK(sum == 4 && changes() == before, "%u changes", changes() - before);
  return meet(self, worker, begin, end, out_failed);
}

static void test_nested_job(pyd_sched_t* sched) {
  share_cpu(sched, 0, 0xF);
  pair_t pair = {.sched = sched};
  CHECK(!run_job(sched, nest, &pair, 2, SURELY_SHARED).code, "failed");
  await_parked(sched);
}

static void test_pinned(void) {
  pyd_sched_t* sched = make_pair(true);
  const pthread_t helper = sched->threads[0].placement.thread.handle;
  CHECK(state_of(helper).mask == 0x2, "mask %#lx", (long)state_of(helper).mask);
  put(pthread_self(), 1, 0xF);
  const pair_t pair = run_pair(sched);
  CHECK(pair.cpus[1] == 0, "on CPU %u", pair.cpus[1]);
  await_parked(sched);
  CHECK(state_of(helper).mask == 0x1, "mask %#lx: it stays on one CPU of its scheduler", (long)state_of(helper).mask);
  put(pthread_self(), 2, 0xF);  // the program pins the thread elsewhere, where it meets the caller
  put(helper, 2, 0x4);
  atomic_store(&sched->threads[0].placement.cpu, 2);
  run_pair(sched);
  CHECK(state_of(helper).mask == 0x4, "mask %#lx: the mask of the program stays", (long)state_of(helper).mask);
  pyd_sched_destroy(sched);
}

// A thread that leaves the pool has its own mask, also when a waker has just changed it.
static void test_leaving(pyd_sched_t* sched) {
  const pthread_t helper = share_cpu(sched, 0, 0xF);
  pyd_placement_before_wake(&sched->threads[0]);
  pyd_status_free(pyd_sched_stop(sched));
  CHECK(state_of(helper).mask == 0xF, "mask %#lx", (long)state_of(helper).mask);
  CHECK(!begin_change(&sched->threads[0].placement), "the mask of a thread that has ended may be changed");
}

// ---- at random

static _Atomic bool is_over_now;

static void* migrate(void* unused) {
  uint32_t random = 1;
  (void)unused;
  while (!atomic_load(&is_over_now)) {
    pthread_mutex_lock(&mutex);
    random = random * 1664525u + 1013904223u;
    simulated_thread_t* thread = &threads[(random >> 8) % thread_count];
    const uint32_t cpu = random >> 24 & (CPUS - 1);
    if (thread->mask >> cpu & 1) thread->cpu = cpu;
    pthread_mutex_unlock(&mutex);
    sched_yield();
  }
  return NULL;
}

static void* call(void* argument) {
  for (int i = 0; i < 3000 / SLOWER; ++i) {
    _Atomic uint64_t sum = 0;
    const uint64_t indices = 2 + (uint64_t)i % 300;
    run_job(argument, count, (void*)&sum, indices, SURELY_SHARED);
    CHECK(sum == indices, "%d indices", (int)sum);
  }
  return NULL;
}

static void test_random_migrations(void) {
  forget_threads();
  pyd_sched_t* sched = make_sched(CPUS, 20);
  pthread_t migrator, callers[3];
  CHECK(!pthread_create(&migrator, NULL, migrate, NULL), "thread");
  for (int i = 0; i < 3; ++i) CHECK(!pthread_create(&callers[i], NULL, call, sched), "thread");
  for (int i = 0; i < 3; ++i) pthread_join(callers[i], NULL);
  await_parked(sched);
  for (uint32_t i = 0; i < CPUS - 1; ++i) {
    const simulated_thread_t state = state_of(sched->threads[i].placement.thread.handle);
    CHECK(state.mask == 0xF || atomic_load(&sched->threads[i].placement.state) == PYD_PLACEMENT_MOVED, "mask %#lx",
          (long)state.mask);
  }
  pyd_sched_destroy(sched);
  atomic_store(&is_over_now, true);
  pthread_join(migrator, NULL);
}

int main(void) {
  test_choice();
  pyd_sched_t* sched = make_pair(false);
  test_parked_thread_moves(sched);
  test_nowhere_to_go(sched);
  test_nothing_to_do(sched);
  test_mask_of_program_stays(sched);
  test_running_thread_moves(sched);
  test_nested_job(sched);
  test_leaving(sched);
  pyd_sched_destroy(sched);
  test_pinned();
  test_random_migrations();
  return 0;
}
