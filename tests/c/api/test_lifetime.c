// links: base platform sched memory program process api
// with: ../program/double.c
// tsan: 3
// Every handle may be released on any thread at any time: the last reference to a device goes on a thread of its pool,
// on a lent thread, in a body, in a kernel, in on_done, while another thread waits for the event. What a function was
// passed lives until it returns.
#include "api/world.h"

enum { N = 8, WORKERS = 3, ROUNDS = 20 };

static atomic_int stopped, destroyed, begun, done;
static world_t world;

static void on_start(void* context, uint32_t worker) {
  (void)context, (void)worker;
  atomic_fetch_add(&begun, 1);
}
static void on_stop(void* context, uint32_t worker) {
  (void)context, (void)worker;
  atomic_fetch_add(&stopped, 1);
}

// As an embedder who owns scheduler and pool.
static void destroy_device(void* self) {
  world_t* w = self;
  pyd_sched_destroy(w->sched);
  pyd_pool_stats_t stats;
  pyd_pool_stats(w->pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_pool_destroy(w->pool);
  atomic_fetch_add(&destroyed, 1);
}

static void destroy_program(void* self) {
  world_t* w = self;
  pyd_state_free(w->state);
  pyd_program_free(w->c_program);
}

static world_t* open_owned(bool lends) {
  world_t* w = &world;
  const pyd_sched_options_t options = {
      .workers = WORKERS, .spin_us = -1, .threads = {.are_lent = lends, .on_start = on_start, .on_stop = on_stop}};
  atomic_store(&stopped, 0), atomic_store(&destroyed, 0), atomic_store(&begun, 0), atomic_store(&done, 0);
  open_world(w, &options);
  pd.program_release(w->program);
  pd.device_release(w->device);
  CHECK(w->dropped == 2);
  CHECK_OK(pyd_api_device_make(w->sched, w->pool, (pyd_api_owner_t){w, destroy_device}, &w->device));
  CHECK_OK(pyd_api_program_make(w->device, w->c_program, w->state, (pyd_api_owner_t){w, destroy_program}, &w->program));
  CHECK_OK(pd.program_find(w->program, "next", &w->next));
  CHECK_OK(pd.program_find(w->program, "hold", &w->hold));
  CHECK_OK(pd.program_find(w->program, "tally", &w->tally));
  return w;
}

static void await(atomic_int* count, int least) {
  while (atomic_load(count) < least) sched_yield();
}

static void release_all(world_t* w) {
  pd.program_release(w->program);
  pd.device_release(w->device);
}

// A call in flight is all that holds the device.
static void test_call_in_flight(void) {
  static float in[N], out[N];
  for (int round = 0; round < ROUNDS; ++round) {
    world_t* w = open_owned(false);
    pyd_api_call_t* call = prepare_bound(round % 2 ? w->next : w->tally, in, out, N);
    CHECK_OK(pd.call_submit(call, NULL, NULL));
    pd.call_release(call);
    release_all(w);
    await(&destroyed, 1), await(&stopped, WORKERS);
    CHECK(out[0] == 3);
  }
}

typedef struct held_s {
  world_t* world;
  pyd_api_call_t* call;
  pyd_api_event_t* event;
} held_t;

static void release_held(void* context, pyd_api_event_t* event) {
  held_t* held = context;
  uint32_t outcome;
  CHECK_OK(pd.event_wait(event, 0, NULL, &outcome));
  CHECK(outcome == PYD_API_SUCCEEDED && !pd.event_cancel(event));
  pd.event_release(held->event);
  pd.call_release(held->call);
  release_all(held->world);
  CHECK(pd.event_outcome(event) == PYD_API_SUCCEEDED);
  atomic_fetch_add(&done, 1);
}

static const pyd_api_submit_t* releasing(held_t* held) {
  static pyd_api_submit_t options;
  options = (pyd_api_submit_t){.struct_size = sizeof(options), .on_done = release_held, .context = held};
  return &options;
}

// On a thread of the pool, its own or a lent one, which destroys the device when it leaves.
static void* lend(void* argument) {
  pyd_api_device_t* device = argument;
  CHECK_OK(pd.device_lend_thread(device, NULL));
  return NULL;
}
static void test_on_done(bool lends) {
  pthread_t threads[WORKERS];
  for (int round = 0; round < ROUNDS; ++round) {
    held_t held = {open_owned(lends), NULL, NULL};
    held.call = prepare(held.world->hold, 2);
    CHECK_OK(pd.call_submit(held.call, releasing(&held), &held.event));
    for (int i = 0; lends && i < WORKERS; ++i) CHECK(!pthread_create(&threads[i], NULL, lend, held.world->device));
    await(&begun, lends ? WORKERS : 0);
    atomic_store(&may_leave, 1);
    await(&done, 1), await(&destroyed, 1), await(&stopped, WORKERS);
    for (int i = 0; lends && i < WORKERS; ++i) CHECK(!pthread_join(threads[i], NULL));
  }
}

// In a function that was passed the handle: no thread is lent, so that the call ends on this one.
static void test_inside_a_function(void) {
  uint32_t outcome;
  held_t held = {open_owned(true), NULL, NULL};
  held.call = prepare(held.world->hold, 2);
  atomic_store(&may_leave, 1);
  held.event = submit(held.call, releasing(&held));
  CHECK_OK(pd.event_wait(held.event, PYD_API_FOREVER, NULL, &outcome));
  CHECK(outcome == PYD_API_SUCCEEDED && destroyed == 1);
}

static int32_t release_body(void* context, uint32_t x, uint32_t y, uint32_t z) {
  (void)y, (void)z;
  if (x == 5) release_all(context);
  return 0;
}
static int32_t release_call(void* context) {
  held_t* held = context;
  pd.call_release(held->call);
  held->call = NULL;
  if (held->world) release_all(held->world);
  held->world = NULL;
  return 0;
}
static void test_inside_a_run(void) {
  world_t* w = open_owned(false);
  CHECK_OK(pd.parallel_for(w->device, 64, 1, 1, release_body, w, NULL));
  CHECK(destroyed == 1 && stopped == WORKERS - 1);
  held_t held = {open_owned(true), NULL, NULL};  // without a thread: this one runs all
  const pyd_api_interrupt_t interrupt = {sizeof(interrupt), release_call, &held};
  held.call = prepare(held.world->hold, 5000);
  atomic_store(&may_leave, 1);
  CHECK_OK(pd.call_run_until(held.call, &interrupt));
  CHECK(!held.world && destroyed == 1);
}

int main(void) {
  test_call_in_flight();
  test_on_done(false);
  test_on_done(true);
  test_inside_a_function();
  test_inside_a_run();
  return 0;
}
