// A pool thread on an occupied CPU when the system does not report its mask or change it, when another thread changes
// it just then, and when the thread is pinned. One thread plays the pool thread and the caller on its CPU.
//
// links: base platform
#include "check.h"
#include "platform/affinity.h"
#include "platform/cpu.h"
#include "platform/topology.h"

enum { CPUS = 4, ALL = (1 << CPUS) - 1 };

static uint32_t here;  // the CPU that this thread is on
static uint64_t mask;
static int queries, changes, failing_query;  // the number of the query that fails; 0: none
static bool can_change;

static uint32_t simulated_cpu(void) { return here; }
static bool simulated_get(const pyd_thread_t* thread, pyd_cpu_set_t* out_cpus) {
  (void)thread;
  *out_cpus = (pyd_cpu_set_t){{mask}};
  return ++queries != failing_query;
}
static bool simulated_set(const pyd_thread_t* thread, const pyd_cpu_set_t* cpus) {
  (void)thread;
  if (!can_change) return false;
  ++changes;
  mask = cpus->words[0];
  return true;
}

#include "sched/simulated.h"

static pyd_sched_t* make_without_threads(void) {
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {.workers = 2, .threads = {.are_lent = true}};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  return sched;
}

// Lets the thread join a job while a caller of another job is on |caller_cpu|. Returns how often its mask has changed.
static int check_with_caller(pyd_sched_t* sched, uint32_t caller_cpu, int query) {
  pyd_sched_thread_t* self = &sched->threads[0];
  self->placement.is_checked = false;
  queries = changes = 0;
  failing_query = query;
  atomic_store(&sched->used, 1);
  atomic_store(&sched->callers, 1);
  atomic_store(&sched->slots[0].cpu, caller_cpu);
  pyd_placement_check(self, &sched->slots[1]);
  return changes;
}

static void test_masks_that_do_not_change(void) {
  pyd_sched_t* sched = make_without_threads();
  pyd_sched_thread_t* self = &sched->threads[0];
  CHECK(sched->places_threads, "threads are not placed");
  here = 1;
  mask = ALL;
  can_change = true;
  pyd_placement_enter(self);
  CHECK(check_with_caller(sched, PYD_PLACEMENT_NONE, 0) == 0 && queries == 0, "no caller is anywhere");
  CHECK(check_with_caller(sched, 2, 0) == 0 && queries == 0, "the caller is on another CPU");
  CHECK(check_with_caller(sched, 1, 0) == 2 && mask == ALL, "moved away, and the mask restored");
  CHECK(check_with_caller(sched, 1, 1) == 0 && mask == ALL, "the mask is not known");
  can_change = false;
  CHECK(check_with_caller(sched, 1, 0) == 0 && queries == 1, "the mask cannot be changed");
  can_change = true;
  CHECK(check_with_caller(sched, 1, 2) == 1 && mask == (ALL & ~2), "a mask that is not known was restored");
  mask = ALL;
  CHECK(self->placement.state == PYD_PLACEMENT_OWN_MASK, "%u", (unsigned)self->placement.state);
  atomic_store(&self->placement.state, PYD_PLACEMENT_CHANGING);
  CHECK(check_with_caller(sched, 1, 0) == 0 && queries == 0, "another thread changes the mask");
  atomic_store(&self->placement.state, PYD_PLACEMENT_OWN_MASK);
  pyd_placement_leave(self);
  CHECK(self->placement.state == PYD_PLACEMENT_GONE, "%u", (unsigned)self->placement.state);
  atomic_store(&sched->used, 0);
  pyd_sched_destroy(sched);
}

// A pinned thread goes to the lowest free CPU of its scheduler, and stays there.
static void test_pinned_thread(void) {
  pyd_sched_t* sched = make_without_threads();
  pyd_sched_thread_t* self = &sched->threads[0];
  CHECK(assign_cpus(sched) && sched->pinned.words[0] == 3, "two workers have CPUs 0 and 1");
  here = 0;
  can_change = true;
  pyd_placement_enter(self);
  mask = self->placement.moved_to.words[0];
  CHECK(check_with_caller(sched, 0, 0) == 1 && mask == 2, "the thread is on CPUs %x", (unsigned)mask);
  CHECK(check_with_caller(sched, 1, 0) == 0 && mask == 2, "the caller is not on the CPU of the thread");
  atomic_store(&sched->used, 0);
  pyd_placement_leave(self);
  pyd_sched_destroy(sched);
}

static void test_unknown_cpu(void) {
  here = PYD_AFFINITY_UNKNOWN;
  pyd_sched_t* sched = make_without_threads();
  CHECK(!sched->places_threads, "threads are placed although no CPU is known");
  pyd_sched_destroy(sched);
}

int main(void) {
  test_masks_that_do_not_change();
  test_pinned_thread();
  test_unknown_cpu();
  puts("placement failures: ok");
  return 0;
}
