// What the task system learns about costs and prices, on a clock that only the bodies move: no machine and no load
// changes what comes out. The sources of the task system are part of this file, so that they read this clock and no
// other.
//
// links: base platform
// tsan: 20
#include "check.h"
#include "platform/cpu_inline.h"

enum { TICK = 256000 };             // of pyd_cpu_measure_tick: one tick is a nanosecond
static _Thread_local uint64_t now;  // each thread's own: what others do meanwhile takes it no time
static _Thread_local uint64_t looks;

static uint64_t fake_ticks(void) {
  ++looks;
  return now;
}

#define pyd_cpu_ticks fake_ticks
#define pyd_cpu_measure_tick() ((uint64_t)TICK)
#include "sched/sources.h"

typedef struct load_s {
  uint64_t nanoseconds;  // that an index takes
  uint64_t mine;         // indices that the caller ran
} load_t;

static int32_t work_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  load_t* load = self;
  (void)out_failed;
  now += load->nanoseconds * (end - begin);
  if (worker == 0) load->mine += end - begin;
  return 0;
}

typedef struct state_s {
  pyd_sched_t* sched;
  load_t load;
  pyd_sched_cost_t cost;
} state_t;

// Runs a job of |count| indices that take |nanoseconds| each; returns the cost that is known afterwards, in
// picoseconds.
static uint32_t run(state_t* state, uint64_t count, uint64_t nanoseconds) {
  pyd_sched_job_t job = {.body = work_body, .self = &state->load, .count = count, .cost = &state->cost};
  pyd_sched_failure_t failure;
  state->load = (load_t){.nanoseconds = nanoseconds};
  looks = 0;
  pyd_sched_run(state->sched, &job, &failure);
  CHECK(failure.code == 0, "code %d", failure.code);
  return state->cost.picoseconds;
}

// Jobs below what sharing is worth run here alone, so every step is exact.
static void test_alone(void) {
  state_t state = {.sched = make_sched(2, 0)};
  const uint64_t fine = 2 * PYD_SCHED_COARSE + 1;  // fewer are shared before their cost is known
  CHECK(run(&state, fine, 100) == 100000, "%u ps after a first run of 100 ns each", state.cost.picoseconds);
  CHECK(looks > 0 && state.load.mine == fine, "the clock in use is another one");

  // Less than known counts half: it falls in every run and never below what it is.
  state.cost = (pyd_sched_cost_t){.picoseconds = 1200000};
  for (uint32_t before = 1200000, i = 0; i < 30; ++i) {
    uint32_t after = run(&state, 2, 400);
    CHECK(after == (before + 400000) / 2 && after >= 400000, "%u ps after %u", after, before);
    before = after;
  }
  CHECK(state.cost.picoseconds == 400000, "%u", state.cost.picoseconds);

  // More than known counts four times at most, and gets there.
  state.cost = (pyd_sched_cost_t){.picoseconds = 10000};
  static const uint32_t kUp[] = {40000, 160000, 640000, 1000000, 1000000};
  for (size_t i = 0; i < sizeof(kUp) / sizeof(kUp[0]); ++i) {
    uint32_t before = state.cost.picoseconds;
    state.cost.runs = PYD_SCHED_MEASURE_EVERY - 1;  // measured however short it seems
    uint32_t after = run(&state, 2, 1000);
    CHECK(after == kUp[i], "run %d: %u ps after %u", (int)i, after, before);
  }

  // One run during which the thread lost its CPU is forgotten by halves.
  state.cost = (pyd_sched_cost_t){.picoseconds = 300000};
  state.cost.runs = PYD_SCHED_MEASURE_EVERY - 1;
  uint32_t bad = run(&state, 2, 1000000);
  CHECK(bad == 1200000, "%u ps", bad);
  for (int i = 0; i < 2; ++i) run(&state, 2, 300);
  CHECK(state.cost.picoseconds == 300000 + 900000 / 4, "%u", state.cost.picoseconds);
  pyd_sched_destroy(state.sched);
}

// A job of almost nothing reads the clock in one of its runs of MEASURE_EVERY.
static void test_measured_now_and_then(void) {
  state_t state = {.sched = make_sched(2, 0), .cost = {.picoseconds = 1000}};
  uint64_t measured = 0;
  for (int i = 0; i < 10 * PYD_SCHED_MEASURE_EVERY; ++i) {
    run(&state, 100, 1);
    measured += looks > 0;
    CHECK(state.cost.picoseconds == 1000, "%u", state.cost.picoseconds);
  }
  CHECK(measured == 10, "%d of %d runs were measured", (int)measured, 10 * PYD_SCHED_MEASURE_EVERY);
  pyd_sched_destroy(state.sched);
}

// Shared jobs: whatever part this thread gets, the estimate falls by half in each run in which it gets one.
static void test_shared(uint32_t workers) {
  enum { REAL = 1000 };  // 1 ns, a thousandth of what is believed at first
  state_t state = {.sched = make_sched(workers, 0), .cost = {.picoseconds = 1000000}};
  for (uint32_t before = 1000000; before != REAL;) {
    uint32_t after = run(&state, 1000, REAL / 1000);
    CHECK(after == (state.load.mine ? (before + REAL) / 2 : before), "%u ps after %u", after, before);
    before = after;
  }
  pyd_sched_destroy(state.sched);
}

static void test_price(void) {
  const uint64_t least = UINT64_C(1000) * PYD_SCHED_WORTH_WAKING, most = UINT64_C(1000) * PYD_SCHED_WORTH_WAKING_MOST;
  pyd_sched_t* sched = make_sched(1, 0);
  CHECK(sched->wake_threshold == least, "%llu", (unsigned long long)sched->wake_threshold);
  for (uint64_t want = 2 * least; want <= most; want *= 2) {
    update_wake_threshold(sched, true, false);
    CHECK(sched->wake_threshold == want, "waking without gain: %llu", (unsigned long long)sched->wake_threshold);
  }
  update_wake_threshold(sched, true, false);
  CHECK(sched->wake_threshold == most, "above the most: %llu", (unsigned long long)sched->wake_threshold);
  update_wake_threshold(sched, false, false);
  CHECK(sched->wake_threshold == most, "nobody was woken: %llu", (unsigned long long)sched->wake_threshold);

  // A job that was kept from waking lowers it by 1/64; one that is shorter than any wake threshold does not.
  note_serial_work(sched, least / 2);
  CHECK(sched->wake_threshold == most, "%llu", (unsigned long long)sched->wake_threshold);
  note_serial_work(sched, 2 * least);
  CHECK(sched->wake_threshold == most - most / PYD_SCHED_WAKE_THRESHOLD_DECAY, "%llu",
        (unsigned long long)sched->wake_threshold);

  atomic_store(&sched->wake_threshold, most);
  for (uint64_t want = most / 2; want >= least; want /= 2) {
    update_wake_threshold(sched, want % 2, true);
    CHECK(sched->wake_threshold == want, "a gain: %llu", (unsigned long long)sched->wake_threshold);
  }
  update_wake_threshold(sched, true, true);
  CHECK(sched->wake_threshold == least, "below the least: %llu", (unsigned long long)sched->wake_threshold);
  pyd_sched_destroy(sched);
}

// Jobs one right after the other add up until a thread is woken for the next one; a pause ends the sum.
static void test_jobs_in_a_row(void) {
  pyd_sched_t* sched = make_sched(2, 0);
  const uint64_t each = 4000000;  // 4 us: between what is worth sharing with a spinning thread and waking one
  sched->sleepers = 1;            // as if parked; nothing is published here
  now = 1;
  CHECK(sharing_threshold(sched) == sched->wake_threshold, "at first");
  int jobs = 0;
  while (sharing_threshold(sched) == sched->wake_threshold) {
    now += each / 1000;
    note_serial_work(sched, each);
    ++jobs;
  }
  CHECK(jobs == 10, "%d jobs of 4 us", jobs);  // 5 times the wake threshold of 8 us
  CHECK(sharing_threshold(sched) == UINT64_C(1000) * PYD_SCHED_WORTH_SPINNING, "%llu",
        (unsigned long long)sharing_threshold(sched));
  now += PYD_SCHED_SPIN_MAX;
  note_serial_work(sched, each);
  CHECK(sched->serial_work == each && sharing_threshold(sched) == sched->wake_threshold, "%llu after a pause",
        (unsigned long long)sched->serial_work);
  sched->sleepers = 0;
  pyd_sched_destroy(sched);
}

// The delay goes where a quarter of those that were measured are less, whatever the others are; not below the least,
// not above the most.
static void test_delay(void) {
  const uint64_t least = 8000000, most = least * PYD_SCHED_DELAY_MOST;
  uint64_t delay = least;
  for (int i = 0; i < 2000; ++i) delay = pyd_delay_learned(delay, i % 2 ? 20000000 : UINT64_C(5000000000), least);
  CHECK(delay > 19000000 && delay < 21000000, "%llu: half of them lost their CPUs", (unsigned long long)delay);
  for (int i = 0; i < 2000; ++i) delay = pyd_delay_learned(delay, most * 9, least);
  CHECK(delay == most, "%llu", (unsigned long long)delay);
  for (int i = 0; i < 2000; ++i) delay = pyd_delay_learned(delay, i % 2 ? 1000 : most * 9, least);
  CHECK(delay == least, "%llu", (unsigned long long)delay);
  CHECK(pyd_delay_has_changed(80, 91) && pyd_delay_has_changed(80, 69) && !pyd_delay_has_changed(80, 90), "an eighth");
}

// What is worth sharing follows the first thread's delays, and only of jobs that were opened while it was idle.
static void test_what_is_worth_sharing(void) {
  pyd_sched_t* sched = make_sched(1, 0);
  const uint64_t spinning = sched->worth_spinning, waking = sched->worth_waking;
  pyd_sched_thread_t self = {
      .worker = 1, .last_idle = 1000, .has_idled = true, .worth_spinning = spinning, .worth_waking = waking};
  pyd_sched_slot_t slot = {.opened = 2000};
  sched->tick = TICK;
  now = 2000 + 2000;  // 2 us
  for (int i = 0; i < 500; ++i) measure_delay(sched, &self, &slot);
  CHECK(sched->worth_waking == waking && sched->worth_spinning > 4 * spinning && sched->worth_spinning < 5 * spinning,
        "%llu", (unsigned long long)sched->worth_spinning);
  self.has_slept = true;
  now = 2000 + 10000;
  for (int i = 0; i < 500; ++i) measure_delay(sched, &self, &slot);
  CHECK(sched->worth_waking > 2 * waking && sched->worth_waking < 3 * waking, "%llu",
        (unsigned long long)sched->worth_waking);
  const uint64_t known = sched->worth_waking;
  now = 2000;
  slot.opened = 500;
  for (int i = 0; i < 500; ++i) measure_delay(sched, &self, &slot);
  self.worker = 2, slot.opened = 1999;
  for (int i = 0; i < 500; ++i) measure_delay(sched, &self, &slot);
  CHECK(sched->worth_waking == known, "%llu", (unsigned long long)sched->worth_waking);
  update_wake_threshold(sched, true, true);
  CHECK(sched->wake_threshold == known, "the wake threshold is at least that: %llu",
        (unsigned long long)sched->wake_threshold);
  pyd_sched_destroy(sched);
}

// A thread that joins one job right after another one was not idle when the second one was opened, and learns no delay
// from it.
static void test_jobs_without_idle_time(void) {
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {.workers = 2, .threads = {.are_lent = true}};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  sched->started = 1;  // as if a thread were donated: this one
  pyd_sched_thread_t* self = &sched->threads[0];
  CHECK(self->worker == 1, "worker %u", self->worker);
  self->last_idle = 1000, self->has_idled = true;
  now = 2000;
  load_t load = {.nanoseconds = 1000000};
  const pyd_sched_job_t job = {.body = work_body, .self = &load, .count = 1};
  pyd_sched_slot_t* slots[2];
  for (int i = 0; i < 2; ++i) {
    slots[i] = pyd_sched_acquire_slot(sched, &job, 1000, NULL);
    slots[i]->base = 0;
    slots[i]->opened = 2000 + (uint64_t)i;  // the second one while this thread works on the first one
    pyd_sched_publish(sched, slots[i], 0, 1, 0);
  }
  now = 4000;
  const uint64_t before = self->worth_spinning;
  CHECK(help(sched, self, 1u << 0) && now == 1004000, "the first job");
  const uint64_t learned = self->worth_spinning;
  CHECK(learned > before, "%llu after a delay of 2 us", (unsigned long long)learned);
  CHECK(help(sched, self, 1u << 1) && now == 2004000, "the second job");
  CHECK(self->worth_spinning == learned, "%llu: the first job counts as delay of the second one",
        (unsigned long long)self->worth_spinning);
  for (int i = 0; i < 2; ++i) pyd_sched_release_slot(sched, slots[i]);
  sched->started = 0;
  now = 0;
  pyd_sched_destroy(sched);
}

int main(void) {
  test_delay();
  test_what_is_worth_sharing();
  test_jobs_without_idle_time();
  test_alone();
  test_measured_now_and_then();
  test_shared(2);
  test_shared(4);
  test_price();
  test_jobs_in_a_row();
  puts("learning: ok");
  return 0;
}
