// links: base platform sched memory program api
// with: ../program/double.c
// tsan: 2
// Thousands of calls in flight from many threads: some fail, some are cancelled, and the device is closed under them, again and again.
// Nothing here knows a clock. What is counted: every call has exactly one outcome, which its callback, its event and its results agree on.
#include "api/world.h"

enum { THREADS = 8, ROUNDS = 60, CALLS = 10, N = 30, CLOSES = 12 };

typedef struct record_s {
  atomic_int calls;  // of the callback
  atomic_uint outcome;
} record_t;

typedef struct totals_s {
  atomic_uint outcomes[PYD_API_SKIPPED + 1], callbacks;
} totals_t;

static world_t world;
static totals_t totals;
static atomic_int running;  // threads that submit

static void on_done(void* context, pyd_api_event_t* event) {
  record_t* record = context;
  uint32_t outcome = pd.event_outcome(event);
  CHECK(outcome != PYD_API_PENDING);
  atomic_store(&record->outcome, outcome);
  atomic_fetch_add(&totals.outcomes[outcome], 1);
  atomic_fetch_add(&totals.callbacks, 1);
  atomic_fetch_add(&record->calls, 1);
}

static uint32_t next_random(uint32_t* random) {
  *random = *random * 1664525u + 1013904223u;
  return *random >> 16;
}

// A call that fails, one of the procedure, or a plain one.
static pyd_api_call_t* make_call(int i, const float* good, const float* bad, float* out) {
  if (i % 5 == 3) return prepare_bound(world.next, bad, out, N);
  return prepare_bound(i % 5 == 4 ? world.tally : world.next, good, out, N);
}

static void settle(pyd_api_event_t* event, const record_t* record, uint32_t random, int i, const float* in, const float* out) {
  uint32_t outcome = PYD_API_PENDING;
  if (random % 3 == 0) {
    while ((outcome = pd.event_outcome(event)) == PYD_API_PENDING) sched_yield();
  } else {
    CHECK_OK(pd.event_wait(event, random % 3 == 1 ? PYD_API_FOREVER : UINT64_C(600000000000), NULL, &outcome));
  }
  while (!atomic_load(&record->calls)) sched_yield();  // the callback may come after those who wait
  CHECK(outcome == atomic_load(&record->outcome) && outcome == pd.event_outcome(event));
  CHECK((outcome == PYD_API_SUCCEEDED) == pyd_ok(pd.event_status(event)));
  if (i % 5 == 3) CHECK(outcome != PYD_API_SUCCEEDED);
  for (int k = 0; outcome == PYD_API_SUCCEEDED && k < N; ++k) CHECK(out[k] == in[k] + 3);
}

static void* use(void* argument) {
  uint32_t random = 1 + (uint32_t)(uintptr_t)argument;
  float good[N], bad[N], out[CALLS][N];
  for (int i = 0; i < N; ++i) good[i] = (float)i, bad[i] = (float)(i - 20);
  record_t* records = calloc(ROUNDS * CALLS, sizeof(*records));
  CHECK(records);
  for (int round = 0; round < ROUNDS; ++round) {
    pyd_api_call_t* calls[CALLS];
    pyd_api_event_t* events[CALLS];
    for (int i = 0; i < CALLS; ++i) {
      record_t* record = &records[round * CALLS + i];
      uint32_t dice = next_random(&random);
      pyd_api_submit_t options = {.struct_size = sizeof(options), .priority = dice % 3, .on_done = on_done, .context = record};
      if (i && dice & 8) options.after = &events[i - 1], options.after_count = 1;
      calls[i] = make_call(i, good, bad, out[i]);
      for (pyd_status_t status; !pyd_ok(status = pd.call_submit(calls[i], &options, &events[i])); sched_yield()) {
        CHECK(!events[i] && strstr(pd.status_text(status), "is being closed by another thread"));
        pd.status_free(status);
      }
    }
    for (int i = 0; i < CALLS; ++i) {
      if (next_random(&random) % 4 == 0) pd.event_cancel(events[i]);
    }
    for (int i = 0; i < CALLS; ++i) {
      uint32_t dice = next_random(&random);
      if (dice & 16) pd.call_release(calls[i]), calls[i] = NULL;  // it runs on
      settle(events[i], &records[round * CALLS + i], dice, i, good, out[i]);
      pd.event_release(events[i]);
      pd.call_release(calls[i]);
    }
  }
  for (int i = 0; i < ROUNDS * CALLS; ++i) CHECK(atomic_load(&records[i].calls) == 1);
  free(records);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

// Closes the device after every so many callbacks.
static void* close_often(void* unused) {
  for (uint32_t i = 1; i <= CLOSES; ++i) {
    while (atomic_load(&running) && atomic_load(&totals.callbacks) < i * (THREADS * ROUNDS * CALLS / 2 / CLOSES)) sched_yield();
    CHECK_OK(pd.device_close(world.device));
  }
  return unused;
}

static void test(uint32_t workers) {
  pthread_t threads[THREADS], closer;
  memset(&totals, 0, sizeof(totals));
  open_world(&world, &(pyd_sched_options_t){.workers = workers, .spin_us = -1});
  atomic_store(&running, THREADS);
  for (uintptr_t i = 0; i < THREADS; ++i) CHECK(!pthread_create(&threads[i], NULL, use, (void*)i));
  CHECK(!pthread_create(&closer, NULL, close_often, NULL));
  for (int i = 0; i < THREADS; ++i) CHECK(!pthread_join(threads[i], NULL));
  CHECK(!pthread_join(closer, NULL));
  uint32_t sum = 0;
  for (int i = 0; i <= PYD_API_SKIPPED; ++i) sum += totals.outcomes[i];
  CHECK(sum == THREADS * ROUNDS * CALLS && totals.callbacks == sum && !totals.outcomes[PYD_API_PENDING]);
  close_world(&world);
}

// The device is closed under calls of which nobody has an event any more, and then let go.
static void test_close_with_work_in_flight(uint32_t workers) {
  enum { COUNT = 200 };
  static record_t records[COUNT];
  static float in[N], out[COUNT][N];
  memset(&totals, 0, sizeof(totals));
  memset(records, 0, sizeof(records));
  open_world(&world, &(pyd_sched_options_t){.workers = workers, .spin_us = -1});
  for (int i = 0; i < COUNT; ++i) {
    pyd_api_call_t* call = i % 50 == 0 ? prepare(world.hold, 3) : prepare_bound(i % 4 == 1 ? world.tally : world.next, in, out[i], N);
    const pyd_api_submit_t options = {.struct_size = sizeof(options), .on_done = on_done, .context = &records[i]};
    CHECK_OK(pd.call_submit(call, &options, NULL));
    pd.call_release(call);
  }
  atomic_store(&may_leave, 1);
  while (atomic_load(&totals.callbacks) < COUNT / 4) sched_yield();
  CHECK_OK(pd.device_close(world.device));
  for (int i = 0; i < COUNT; ++i) CHECK(records[i].calls == 1);
  CHECK(totals.outcomes[PYD_API_SUCCEEDED] + totals.outcomes[PYD_API_CANCELLED] == COUNT);
  close_world(&world);
}

int main(void) {
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    test(workers);
    test_close_with_work_in_flight(workers);
  }
  return 0;
}
