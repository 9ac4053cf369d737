// What ends a job early and what a thread must not do while it works for one, on a clock that only the bodies move. The
// sources of the task system are part of this file, so that single steps of it can be called in states that threads
// leave within nanoseconds.
//
// links: base platform
// tsan: 20
#include "check.h"
#include "platform/cpu.h"
#include "platform/cpu_inline.h"
#include "platform/thread.h"
#include "platform/topology.h"

static _Thread_local uint64_t now;  // nanoseconds
static uint64_t fake_ticks(void) { return now; }

static int start_error;  // of the next thread, 0: none
static int fake_start(pyd_thread_t* out_thread, void (*entry)(void*), void* argument, const char* name) {
  return start_error ? start_error : pyd_thread_start(out_thread, entry, argument, name);
}

static uint32_t cpus = 2;
static uint32_t count_cores(void) { return cpus; }
static _Atomic int stop_waits;
static int counted_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  atomic_fetch_add(&stop_waits, 1);
  return pthread_cond_wait(condition, mutex);
}

// Called in place of a pause: what happens while a thread looks.
static void (*on_relax)(void);
static _Atomic int relaxes;
static void counted_relax(void) {
  atomic_fetch_add(&relaxes, 1);
  if (on_relax) on_relax();
  pyd_cpu_relax();
}

#include "sched/tuning.h"
#undef PYD_SCHED_ASK_ASLEEP
#define PYD_SCHED_ASK_ASLEEP 1000000
#define pyd_cpu_ticks fake_ticks
#define pyd_cpu_nanoseconds fake_ticks
#define pyd_cpu_measure_tick() ((uint64_t)256000)
#define pyd_cpu_available() cpus
#define pyd_topology_cores(root, found, count) count_cores()
#define pyd_thread_start fake_start
#define pyd_cpu_relax counted_relax
#define pthread_cond_wait counted_wait
#include "sched/sources.h"
#undef pthread_cond_wait
#undef pyd_cpu_relax

typedef struct work_s {
  uint64_t nanoseconds;  // that an index takes
  uint64_t fails;        // this index; UINT64_MAX: none
  uint64_t ran, calls, longest;
  uint64_t asked, wanted;  // the interrupt's questions, and the one that it answers with yes; 0: none
  pyd_sched_cost_t cost;
} work_t;

static int32_t is_wanted(void* self) {
  work_t* work = self;
  return ++work->asked == work->wanted;
}

static int32_t body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  work_t* work = self;
  (void)worker;
  ++work->calls;
  if (end - begin > work->longest) work->longest = end - begin;
  for (; begin < end; ++begin, ++work->ran) {
    now += work->nanoseconds;
    if (begin == work->fails) return *out_failed = begin, 7;
  }
  return 0;
}

static pyd_sched_failure_t run(pyd_sched_t* sched, work_t* work, uint64_t count, bool has_cost) {
  pyd_interrupt_t interrupt = {.is_wanted = is_wanted, .self = work};
  pyd_sched_job_t job = {
      .body = body, .self = work, .count = count, .cost = has_cost ? &work->cost : NULL, .interrupt = &interrupt};
  pyd_sched_failure_t failure;
  work->ran = work->calls = work->longest = work->asked = 0;
  pyd_sched_run(sched, &job, &failure);
  return failure;
}

// One worker: pieces of about a millisecond, whatever is known of the cost, and a question after each but the last.
static void test_pieces(void) {
  pyd_sched_t* sched = make_sched(1, 0);
  work_t work = {.nanoseconds = 10, .fails = UINT64_MAX};
  pyd_sched_failure_t failure = run(sched, &work, 5000, false);
  CHECK(!failure.code && work.ran == 5000 && work.longest == PYD_SCHED_ASK_INDICES && work.asked == work.calls - 1,
        "%d", failure.code);
  CHECK(work.calls == 10 + 4, "%d pieces: 1, 2, 4 to 512, then 1024 each", (int)work.calls);
  failure = run(sched, &work, 1, false);
  CHECK(!failure.code && work.ran == 1 && !work.asked, "a single index is not asked about");
  work.nanoseconds = 3 * PYD_SCHED_ASK_TIME;  // too long even alone
  failure = run(sched, &work, 6, false);
  CHECK(!failure.code && work.calls == 6 && work.asked == 5, "%d pieces", (int)work.calls);
  work.nanoseconds = PYD_SCHED_ASK_TIME;  // as it should be
  failure = run(sched, &work, 6, false);
  CHECK(!failure.code && work.calls == 6, "%d pieces", (int)work.calls);
  // What is known: below a nanosecond, above a millisecond, and a job that is too short for a question.
  work.nanoseconds = 1;
  work.cost.picoseconds = 1;
  failure = run(sched, &work, 3000, true);
  CHECK(!failure.code && work.calls == 3 && work.asked == 2, "%d pieces", (int)work.calls);
  failure = run(sched, &work, 1000, true);
  CHECK(!failure.code && work.calls == 1 && !work.asked, "%d pieces", (int)work.calls);
  work.cost.picoseconds = 2000000000;
  failure = run(sched, &work, 7, true);
  CHECK(!failure.code && work.calls == 3, "%d pieces: 1, 2, 4", (int)work.calls);
  // Learned once, and not from a run that failed.
  work = (work_t){.nanoseconds = 100, .fails = UINT64_MAX};
  failure = run(sched, &work, 20, true);
  CHECK(!failure.code && work.cost.picoseconds == 100000, "%u ps", work.cost.picoseconds);
  work = (work_t){.nanoseconds = 100, .fails = 5};
  failure = run(sched, &work, 20, true);
  CHECK(failure.code == 7 && failure.index == 5 && !failure.is_interrupted && !work.cost.picoseconds, "%d",
        failure.code);
  work = (work_t){.nanoseconds = 100, .fails = UINT64_MAX, .wanted = 3};
  failure = run(sched, &work, 20, true);
  CHECK(failure.is_interrupted && failure.code && failure.index == 7 && work.ran == 7, "%d indices", (int)work.ran);
  pyd_sched_destroy(sched);
}

// Two workers of which the caller runs what it shares: the other one is kept in its first index.
typedef struct pair_s {
  work_t work;
  _Atomic bool has_begun, may_end;
  pyd_sched_t* sched;
  bool is_inside[2];
  uint64_t wanted_at;
  uint64_t nanoseconds;  // that the caller's indices take
} pair_t;

static int32_t ask_pair(void* self) {
  pair_t* pair = self;
  bool is_last = ++pair->work.asked == pair->wanted_at;
  if (is_last) atomic_store(&pair->may_end, true);
  return is_last;
}

static int32_t pair_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  pair_t* pair = self;
  (void)begin, (void)end, (void)out_failed;
  pair->is_inside[worker] = pyd_sched_is_inside(pair->sched);
  if (worker == 0) {
    now += pair->nanoseconds;
    while (!atomic_load(&pair->has_begun)) pyd_cpu_relax();
    pair->work.ran += end - begin;
    return 0;
  }
  pyd_status_t status = pyd_sched_stop(pair->sched);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT &&
            strstr(pyd_status_text(status), "cannot be ended by a call that"),
        "%s", pyd_status_text(status));
  pyd_status_free(status);
  atomic_store(&pair->has_begun, true);
  while (!atomic_load(&pair->may_end)) pyd_cpu_relax();
  return 0;
}

static void run_pair(pyd_sched_t* sched, uint64_t count, uint64_t wanted_at, uint64_t nanoseconds) {
  pair_t pair = {.sched = sched, .wanted_at = wanted_at, .nanoseconds = nanoseconds};
  pyd_interrupt_t interrupt = {.is_wanted = ask_pair, .self = &pair};
  pyd_sched_cost_t cost = {.picoseconds = SURELY_SHARED};
  pyd_sched_job_t job = {.body = pair_body, .self = &pair, .count = count, .cost = &cost, .interrupt = &interrupt};
  pyd_sched_failure_t failure;
  pyd_sched_run(sched, &job, &failure);
  CHECK(failure.is_interrupted && failure.code == -1, "code %d", failure.code);
  CHECK((count == 2 ? pair.work.asked == wanted_at : pair.work.asked >= wanted_at) && pair.is_inside[1],
        "asked %d times", (int)pair.work.asked);
  CHECK(count == 2 || pair.work.ran < count - 1, "%d indices ran", (int)pair.work.ran);
}

static void test_shared(void) {
  pyd_sched_t* sched = make_sched(2, 0);
  sched->oversubscribed = true;  // no spinning: this clock would stand still
  for (int i = 0; i < 20 / SLOWER + 1; ++i) {
    run_pair(sched, 2, 3, 2 * PYD_SCHED_ASK_TIME);    // once between indices, then asleep until the other has ended
    run_pair(sched, 2, 2, 1000);                      // too early for a question between indices
    run_pair(sched, 100, 1, 2 * PYD_SCHED_ASK_TIME);  // between two indices
  }
  CHECK(!pyd_sched_is_inside(sched), "outside");
  pyd_sched_destroy(sched);
}

// A scope says that this thread works for a job, also where it is not of the pool.
static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

static void test_scopes(void) {
  pyd_sched_t* sched;
  pyd_sched_options_t options = {.workers = 2, .scopes = {get_scope, set_scope}};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "created");
  pyd_scope_t scope = {.owner = sched};
  set_scope(&scope);
  CHECK(pyd_sched_is_inside(sched), "inside");
  set_scope(NULL);
  CHECK(!pyd_sched_is_inside(sched), "outside");
  pyd_sched_destroy(sched);
}

// A first window that fails ends a job of several, and no product of costs and counts wraps around.
static int32_t fail_all(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)self, (void)worker, (void)end;
  return *out_failed = begin, 3;
}

static void test_large(void) {
  pyd_sched_t* sched = make_sched(2, 0);
  pyd_sched_failure_t failure = run_job(sched, fail_all, NULL, UINT64_MAX, UINT32_MAX);
  CHECK(failure.code == 3 && failure.index < PYD_SCHED_WINDOW, "%d", failure.code);
  pyd_sched_destroy(sched);
}

// ---- single steps

static void* set_early(void* argument) {  // for an earlier job: the slot is still in use; then for this one
  pyd_sched_slot_t* slot = argument;
  while (!(atomic_load(&slot->state) & PYD_SLOT_WAITING)) pyd_cpu_relax();
  CHECK(pyd_event_claim(&slot->done), "clear");
  pyd_event_notify(&slot->done);
  while (atomic_load(&slot->done.is_set)) pyd_cpu_relax();
  pyd_sched_leave(slot);
  return NULL;
}

static void test_early_event(pyd_sched_t* sched) {
  pyd_sched_slot_t* slot = &sched->slots[3];
  pyd_sched_job_t job = {.body = body};
  pthread_t thread;
  slot->job = &job;
  bool oversubscribed = sched->oversubscribed;
  sched->oversubscribed = true;  // no spinning
  atomic_store(&slot->state, PYD_SLOT_OPEN | 1);
  CHECK(!pthread_create(&thread, NULL, set_early, slot), "thread");
  close_and_wait(sched, slot);
  CHECK(!(atomic_load(&slot->state) & PYD_SLOT_COUNT), "somebody takes part");
  pthread_join(thread, NULL);
  sched->oversubscribed = oversubscribed;
  // Who leaves last finds the event set already: nobody has to be woken.
  pyd_event_claim(&slot->done);
  atomic_store(&slot->state, PYD_SLOT_WAITING | 1);
  pyd_sched_leave(slot);
  atomic_store(&slot->state, 0);
}

static void test_failures(pyd_sched_t* sched) {
  pyd_sched_slot_t* slot = &sched->slots[4];
  atomic_store(&slot->failure, PYD_SCHED_NO_FAILURE);
  record_failure(slot, 7, 2);
  record_failure(slot, 9, 3);
  CHECK(atomic_load(&slot->failure) == (UINT64_C(7) << 32 | 2), "the lowest");
  pyd_sched_interrupt(slot);
  CHECK(atomic_load(&slot->failure) == (UINT64_C(7) << 32 | 2), "a failure stays");
  CHECK(!steal(sched, slot, 0), "nothing is there to steal");
  atomic_store(&slot->failure, PYD_SCHED_NO_FAILURE);
}

static pyd_sched_slot_t* leaving;
static int looks_left;
static void leave_late(void) {
  if (--looks_left == 0) atomic_fetch_sub(&leaving->state, 1);
}

// Who leaves after the caller's last look, and before it goes to sleep, is noticed.
static void test_late_leave(pyd_sched_t* sched) {
  bool oversubscribed = sched->oversubscribed;
  sched->oversubscribed = true;
  leaving = &sched->slots[6];
  looks_left = PYD_SCHED_PAUSES_PER_TICK;
  on_relax = leave_late;
  atomic_store(&leaving->state, PYD_SLOT_OPEN | 1);
  close_and_wait(sched, leaving);
  on_relax = NULL;
  CHECK(looks_left == 0 && !(atomic_load(&leaving->state) & PYD_SLOT_COUNT), "%d looks", looks_left);
  atomic_store(&leaving->state, 0);
  sched->oversubscribed = oversubscribed;
}

static int32_t behind(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)self, (void)worker, (void)end;
  return *out_failed = begin - 1, 4;
}

// All slots taken: a job runs on its caller. An index that a body cannot mean is its first.
static void test_no_slot(pyd_sched_t* sched) {
  atomic_store(&sched->used, UINT32_MAX);
  CHECK(!take_slot(sched), "a slot");
  work_t work = {.nanoseconds = 10, .fails = UINT64_MAX, .cost = {.picoseconds = SURELY_SHARED}};
  pyd_sched_failure_t failure = run(sched, &work, 50, true);
  CHECK(!failure.code && work.ran == 50, "%d ran", (int)work.ran);
  atomic_store(&sched->used, 0);
  pyd_sched_job_t job = {.body = behind};
  CHECK(!run_chunk(&job, 5, 9, &failure) && failure.code == 4 && failure.index == 5, "%d", (int)failure.index);
}

static void* live(void* thread) {
  pyd_sched_pool_main(thread);
  return NULL;
}

// A thread of the pool, in this one and in one of its own. The real ones have ended.
static void test_pool_thread(pyd_sched_t* sched) {
  pyd_sched_thread_t* self = &sched->threads[0];
  pyd_sched_slot_t* slot = &sched->slots[5];
  bool preempted = false;
  pyd_status_free(pyd_sched_stop(sched));
  CHECK(!join(sched, slot) && !help(sched, &sched->threads[0], 1u << 5), "a closed slot was joined");
  // Nobody is left to be woken, though somebody sleeps or is about to.
  atomic_store(&self->wake.is_set, 1);
  atomic_store(&sched->sleepers, 1);
  atomic_store(&slot->wakes_left, 2);
  relay_wakes(sched, slot);
  CHECK(atomic_load(&slot->wakes_left) == 1, "%d wakes are left", (int)atomic_load(&slot->wakes_left));
  atomic_store(&sched->sleepers, 0);
  // News end a spin and keep a thread from parking.
  atomic_store(&sched->open, 1u << 5);
  self->spin = 1000;
  CHECK(spin_for_work(sched, self, &preempted) && !preempted, "no work");
  idle(sched, self);
  park(sched, self);
  CHECK(!atomic_load(&sched->sleepers) && !atomic_load(&sched->spinners), "parked");
  atomic_store(&sched->open, 0);
  atomic_store(&sched->closing, 1);
  CHECK(has_work(sched, 1, memory_order_relaxed), "the end is work");
  atomic_store(&sched->closing, 0);
  atomic_store(&sched->open, 1u << 5);
  // A slot that is shown and closed is looked at again and again.
  pthread_t thread;
  int before = atomic_load(&relaxes);
  CHECK(!pthread_create(&thread, NULL, live, self), "thread");
  while (atomic_load(&relaxes) < before + 3) pyd_cpu_relax();
  atomic_store(&sched->closing, 1);
  pthread_join(thread, NULL);
  atomic_store(&sched->closing, 0);
  atomic_store(&sched->open, 0);
  // While another caller starts the threads nobody waits for it.
  pthread_mutex_lock(&sched->lifecycle);
  CHECK(!pyd_sched_ensure_started(sched), "started twice");
  pthread_mutex_unlock(&sched->lifecycle);
}

static void* stop(void* sched) {
  pyd_status_free(pyd_sched_stop(sched));
  return NULL;
}

// While one thread ends the pool another one that wants to waits, and a job goes on with what is there.
static void test_closing(pyd_sched_t* sched) {
  pthread_t thread;
  pyd_status_free(pyd_sched_stop(sched));
  pthread_mutex_lock(&sched->lifecycle);
  atomic_store(&sched->closing, 1);
  pthread_mutex_unlock(&sched->lifecycle);
  CHECK(!pyd_sched_ensure_started(sched), "started meanwhile");
  CHECK(!pthread_create(&thread, NULL, stop, sched), "thread");
  while (!atomic_load(&stop_waits)) pyd_cpu_relax();
  pthread_mutex_lock(&sched->lifecycle);
  atomic_store(&sched->closing, 0);
  pthread_cond_broadcast(&sched->stopped);
  pthread_mutex_unlock(&sched->lifecycle);
  pthread_join(thread, NULL);
  // Threads that were refused once are not asked for again until the pool is ended.
  start_error = 11;
  CHECK(!pyd_sched_ensure_started(sched), "refused");
  start_error = 0;
  CHECK(!pyd_sched_ensure_started(sched), "asked again");
  pyd_status_free(pyd_sched_stop(sched));
  CHECK(pyd_sched_ensure_started(sched), "started again");
}

static void test_many_cpus(void) {
  pyd_sched_t* sched;
  cpus = PYD_SCHED_MAX_WORKERS + 1, start_error = 11;
  pyd_status_t status = pyd_sched_create(&(pyd_sched_options_t){.spin_us = 0}, &sched);
  CHECK(strstr(pyd_status_text(status), "thread 1 of 1023 could not be started"), "%s", pyd_status_text(status));
  pyd_status_free(status);
  cpus = 2, start_error = 0;
}

int main(void) {
  test_pieces();
  test_shared();
  test_scopes();
  test_large();
  pyd_sched_t* sched = make_sched(2, 0);
  test_early_event(sched);
  test_failures(sched);
  test_late_leave(sched);
  test_no_slot(sched);
  test_pool_thread(sched);
  test_closing(sched);
  pyd_sched_destroy(sched);
  test_many_cpus();
  puts("interrupt: ok");
  return 0;
}
