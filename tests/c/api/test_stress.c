// links: base platform sched memory program api
// with: ../program/double.c
// tsan: 2
// Thousands of calls in flight from many threads: some fail, some are cancelled, programs are loaded and let go, the
// device is closed and the process forked under them, again and again. Nothing here knows a clock. What is counted:
// every call has exactly one outcome, which its callback, its event and its results agree on.
#include <sys/wait.h>
#include <unistd.h>

#include "after_fork.h"
#include "api/world.h"

enum { THREADS = 8, CALLS = 10, N = 30, CLOSES = 12, FORKS = 12 };
static int rounds = 60;  // of each thread; the first argument times as many

typedef struct record_s {
  atomic_int calls;  // of the callback
  atomic_uint outcome;
} record_t;

typedef struct totals_s {
  atomic_uint outcomes[PYD_API_SKIPPED + 1], callbacks;
} totals_t;

// A program of the world's device that is loaded once more, and goes with the last call of it.
typedef struct loaded_s {
  pyd_state_t* state;
  pyd_api_program_t* program;
  const pyd_api_function_t *next, *tally;
} loaded_t;

static world_t world;
static totals_t totals;
static atomic_int running;  // threads that submit
static atomic_int loaded, let_go;

static void end_loaded(void* self) {
  loaded_t* own = self;
  pyd_state_free(own->state);
  free(own);
  atomic_fetch_add(&let_go, 1);
}

static loaded_t* load(void) {
  loaded_t* own = calloc(1, sizeof(*own));
  CHECK(own);
  CHECK_OK(pyd_state_create(world.c_program, world.sched, world.pool, &own->state));
  CHECK_OK(pyd_api_program_make(world.device, world.c_program, own->state, (pyd_api_owner_t){own, end_loaded},
                                &own->program));
  CHECK_OK(pd.program_find(own->program, "next", &own->next));
  CHECK_OK(pd.program_find(own->program, "tally", &own->tally));
  atomic_fetch_add(&loaded, 1);
  return own;
}

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
static pyd_api_call_t* make_call(const loaded_t* own, int i, const float* good, const float* bad, float* out) {
  const pyd_api_function_t* next = own ? own->next : world.next;
  if (i % 5 == 3) return prepare_bound(next, bad, out, N);
  if (i % 5 == 4) return prepare_bound(own ? own->tally : world.tally, good, out, N);
  return prepare_bound(next, good, out, N);
}

static void submit_surely(pyd_api_call_t* call, const pyd_api_submit_t* options, pyd_api_event_t** out_event) {
  for (pyd_status_t status; !pyd_ok(status = pd.call_submit(call, options, out_event)); sched_yield()) {
    CHECK(!*out_event && strstr(pd.status_text(status), "is being closed by another thread"));
    pd.status_free(status);
  }
}

static void settle(pyd_api_event_t* event, const record_t* record, uint32_t random, int i, const float* in,
                   const float* out) {
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
  record_t* records = calloc((size_t)rounds * CALLS, sizeof(*records));
  CHECK(records);
  for (int round = 0; round < rounds; ++round) {
    pyd_api_call_t* calls[CALLS];
    pyd_api_event_t* events[CALLS];
    loaded_t* own = next_random(&random) % 3 ? NULL : load();
    for (int i = 0; i < CALLS; ++i) {
      record_t* record = &records[round * CALLS + i];
      uint32_t dice = next_random(&random);
      pyd_api_submit_t options = {
          .struct_size = sizeof(options), .priority = dice % 3, .on_done = on_done, .context = record};
      if (i && dice & 8) options.after = &events[i - 1], options.after_count = 1;
      calls[i] = make_call(own, i, good, bad, out[i]);
      submit_surely(calls[i], &options, &events[i]);
    }
    if (own) pd.program_release(own->program);  // the calls run on
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
  for (int i = 0; i < rounds * CALLS; ++i) CHECK(atomic_load(&records[i].calls) == 1);
  free(records);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

// Closes the device after every so many callbacks.
static void* close_often(void* unused) {
  for (uint32_t i = 1; i <= CLOSES; ++i) {
    while (atomic_load(&running) &&
           atomic_load(&totals.callbacks) < i * (uint32_t)(THREADS * rounds * CALLS / 2 / CLOSES))
      sched_yield();
    CHECK_OK(pd.device_close(world.device));
  }
  return unused;
}

// What a child sees of calls of its parent, and a call of its own. Returns the child's exit code.
static int use_in_child(pyd_api_event_t* const* events) {
  if (!CHILD_MAY_ALLOCATE) return 0;
  for (int i = 0; i < CALLS; ++i) {
    uint32_t outcome = PYD_API_PENDING;
    if (!pyd_ok(pd.event_wait(events[i], PYD_API_FOREVER, NULL, &outcome)) || outcome == PYD_API_PENDING) return 2;
  }
  float in[N] = {0}, out[N] = {0};
  pyd_api_call_t* call = prepare_bound(world.next, in, out, N);
  pyd_api_event_t* event = NULL;
  if (!pyd_ok(pd.call_submit(call, NULL, &event)) || wait_for(event, true) != PYD_API_SUCCEEDED) return 3;
  return out[N - 1] == 3 ? 0 : 4;
}

static void fork_once(pyd_api_event_t* const* events) {
  pyd_state_fork_prepare(world.state);
  pyd_pool_fork_prepare(world.pool);
  pyd_sched_fork_prepare(world.sched);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(300);
    pyd_sched_fork_child(world.sched);
    pyd_pool_fork_done(world.pool);
    pyd_state_fork_child(world.state);
    _exit(use_in_child(events));
  }
  pyd_sched_fork_parent(world.sched);
  pyd_pool_fork_done(world.pool);
  pyd_state_fork_done(world.state);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Forks while its own calls and those of the others are in flight. Here they end as if nothing had been.
static void* fork_often(void* unused) {
  static float in[N], out[CALLS][N];
  for (uint32_t i = 1; i <= FORKS; ++i) {
    while (atomic_load(&running) &&
           atomic_load(&totals.callbacks) < i * (uint32_t)(THREADS * rounds * CALLS / 2 / FORKS))
      sched_yield();
    record_t records[CALLS] = {0};
    pyd_api_event_t* events[CALLS] = {0};
    for (int k = 0; k < CALLS; ++k) {
      const pyd_api_submit_t options = {.struct_size = sizeof(options), .on_done = on_done, .context = &records[k]};
      pyd_api_call_t* call = prepare_bound(k % 5 == 4 ? world.tally : world.next, in, out[k], N);
      submit_surely(call, &options, &events[k]);
      pd.call_release(call);
    }
    fork_once(events);
    for (int k = 0; k < CALLS; ++k) {
      settle(events[k], &records[k], i, k % 5 == 3 ? 0 : k, in, out[k]);
      CHECK(atomic_load(&records[k].calls) == 1);
      pd.event_release(events[k]);
    }
  }
  return unused;
}

static void test(uint32_t workers) {
  pthread_t threads[THREADS], closer, forker;
  memset(&totals, 0, sizeof(totals));
  atomic_store(&loaded, 0);
  atomic_store(&let_go, 0);
  open_world(&world, &(pyd_sched_options_t){.workers = workers, .spin_us = -1});
  atomic_store(&running, THREADS);
  for (uintptr_t i = 0; i < THREADS; ++i) CHECK(!pthread_create(&threads[i], NULL, use, (void*)i));
  CHECK(!pthread_create(&closer, NULL, close_often, NULL));
  CHECK(!pthread_create(&forker, NULL, fork_often, NULL));
  for (int i = 0; i < THREADS; ++i) CHECK(!pthread_join(threads[i], NULL));
  CHECK(!pthread_join(closer, NULL));
  CHECK(!pthread_join(forker, NULL));
  uint32_t sum = 0;
  for (int i = 0; i <= PYD_API_SKIPPED; ++i) sum += totals.outcomes[i];
  CHECK(sum == (uint32_t)(THREADS * rounds + FORKS) * CALLS && totals.callbacks == sum &&
        !totals.outcomes[PYD_API_PENDING]);
  close_world(&world);
  CHECK(loaded > 0 && let_go == loaded);
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
    pyd_api_call_t* call =
        i % 50 == 0 ? prepare(world.hold, 3) : prepare_bound(i % 4 == 1 ? world.tally : world.next, in, out[i], N);
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

int main(int argc, char** argv) {
  if (argc > 1) rounds *= atoi(argv[1]);
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    test(workers);
    test_close_with_work_in_flight(workers);
  }
  return 0;
}
