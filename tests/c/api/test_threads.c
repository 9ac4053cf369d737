// links: base platform sched memory program process api
// with: ../program/double.c
// tsan: 3
// Threads of an embedder: told when they begin and end, lent to a device and taken back, closed while they are lent.
#include "api/world.h"
#include "pydispatch/process.h"

enum { N = 40, WORKERS = 3 };

static atomic_int started, stopped, wanted_back;

static void on_start(void* context, uint32_t worker) {
  CHECK(context == &started && worker < WORKERS);
  atomic_fetch_add(&started, 1);
}
static void on_stop(void* context, uint32_t worker) {
  CHECK(context == &started && worker < WORKERS);
  atomic_fetch_add(&stopped, 1);
}

static void open(world_t* w, bool lends) {
  pyd_api_device_options_t given = {.struct_size = sizeof(given),
                                    .workers = WORKERS,
                                    .lends_threads = lends,
                                    .on_thread_start = on_start,
                                    .on_thread_stop = on_stop,
                                    .context = &started};
  pyd_sched_options_t options;
  pyd_allocator_t allocator;
  atomic_store(&started, 0), atomic_store(&stopped, 0), atomic_store(&wanted_back, 0);
  CHECK_OK(pyd_api_read_device_options(&given, &options, &allocator));
  options.scopes = (pyd_scope_access_t){pyd_process_scope_get, pyd_process_scope_set};
  open_world(w, &options);
  CHECK(pd.device_workers(w->device) == WORKERS);
}

static int32_t is_wanted_back(void* context) { return atomic_load((atomic_int*)context); }
static const pyd_api_interrupt_t kUntil = {sizeof(kUntil), is_wanted_back, &wanted_back};

static void* lend(void* argument) {
  world_t* w = argument;
  CHECK_OK(pd.device_lend_thread(w->device, &kUntil));
  return NULL;
}
static void* lend_for_ever(void* argument) {
  world_t* w = argument;
  CHECK_OK(pd.device_lend_thread(w->device, NULL));
  return NULL;
}

static void run_many(world_t* w) {
  static float in[N], out[20][N];
  pyd_api_call_t* calls[20];
  pyd_api_event_t* events[20];
  for (int i = 0; i < N; ++i) in[i] = (float)i;
  for (int i = 0; i < 20; ++i)
    calls[i] = prepare_bound(i % 4 ? w->next : w->tally, in, out[i], N), events[i] = submit(calls[i], NULL);
  for (int i = 0; i < 20; ++i) {
    CHECK(wait_for(events[i], true) == PYD_API_SUCCEEDED && out[i][N - 1] == in[N - 1] + 3);
    CHECK_OK(pd.call_run(calls[i]));
    pd.event_release(events[i]), pd.call_release(calls[i]);
  }
}

static void test_own_threads(void) {
  world_t w;
  open(&w, false);
  run_many(&w);
  CHECK_REFUSED(pd.device_lend_thread(w.device, NULL), INVALID_ARGUMENT,
                "device_lend_thread: the device has threads of its own");
  CHECK_OK(pd.device_close(w.device));
  CHECK(started == WORKERS && stopped == WORKERS);  // the last one from the first submission on
  run_many(&w);
  CHECK_OK(pd.device_close(w.device));
  CHECK(started == 2 * WORKERS && stopped == 2 * WORKERS);
  close_world(&w);
}

static int32_t lend_inside(void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  world_t* w = context;
  (void)worker, (void)begin, (void)end, (void)out_failed;
  CHECK_REFUSED(pd.device_lend_thread(w->device, NULL), INVALID_ARGUMENT, "this thread works for a call");
  return 0;
}

static void test_lent_threads(void) {
  world_t w;
  pthread_t threads[WORKERS];
  pyd_api_event_t* event;
  open(&w, true);
  // nobody is there: who waits runs the call
  float in[N] = {0}, out[N];
  pyd_api_call_t* call = prepare_bound(w.next, in, out, N);
  event = submit(call, NULL);
  CHECK(wait_for(event, false) == PYD_API_SUCCEEDED && started == 0);
  pd.event_release(event);
  CHECK_OK(pd.call_run(call));
  for (int round = 0; round < 3; ++round) {
    atomic_store(&wanted_back, 0);
    for (int i = 0; i < WORKERS; ++i) CHECK(!pthread_create(&threads[i], NULL, lend, &w));
    while (atomic_load(&started) < (round + 1) * WORKERS) sched_yield();
    run_many(&w);
    CHECK_REFUSED(pd.device_lend_thread(w.device, &kUntil), INVALID_ARGUMENT, "as many threads as workers");
    CHECK_OK(pd.parallel_range_submit(w.device, 1, lend_inside, &w, NULL, NULL, &event));
    CHECK(wait_for(event, true) == PYD_API_SUCCEEDED);
    pd.event_release(event);
    atomic_store(&wanted_back, 1);
    for (int i = 0; i < WORKERS; ++i) CHECK(!pthread_join(threads[i], NULL));
    CHECK(started == (round + 1) * WORKERS && stopped == started);
  }
  // the device is closed while threads are lent, some of which work
  for (int i = 0; i < WORKERS; ++i) CHECK(!pthread_create(&threads[i], NULL, lend_for_ever, &w));
  pyd_api_call_t* hold = prepare(w.hold, 5);
  event = submit(hold, NULL);
  while (!atomic_load(&entered)) sched_yield();
  CHECK(pd.event_cancel(event));
  atomic_store(&may_leave, 1);
  while (atomic_load(&started) < 4 * WORKERS) sched_yield();
  CHECK_OK(pd.device_close(w.device));
  for (int i = 0; i < WORKERS; ++i) CHECK(!pthread_join(threads[i], NULL));
  CHECK(stopped == 4 * WORKERS && pd.event_outcome(event) == PYD_API_CANCELLED);
  pd.event_release(event);
  CHECK_OK(pd.call_run(call));
  pd.call_release(call), pd.call_release(hold);
  CHECK_REFUSED(pd.device_lend_thread(NULL, NULL), INVALID_ARGUMENT, "device_lend_thread: device is NULL");
  CHECK_REFUSED(pd.device_lend_thread(w.device, &(pyd_api_interrupt_t){0}), INVALID_ARGUMENT,
                "device_lend_thread: the interrupt has too small");
  close_world(&w);
}

static void test_options(void) {
  pyd_sched_options_t options;
  pyd_allocator_t allocator;
  CHECK_OK(pyd_api_read_device_options(NULL, &options, &allocator));
  CHECK(!options.workers && options.spin_us == -1 && !options.threads.are_lent);
  CHECK_REFUSED(pyd_api_read_device_options(&(pyd_api_device_options_t){.struct_size = 8}, &options, &allocator),
                INVALID_ARGUMENT,
                "device_create: the options have a struct_size of 8; set it to sizeof(pyd_api_device_options_t)");
  CHECK_REFUSED(pyd_api_read_device_options(
                    &(pyd_api_device_options_t){.struct_size = sizeof(pyd_api_device_options_t), .lends_threads = 2},
                    &options, &allocator),
                INVALID_ARGUMENT, "lends_threads is 0 or 1, got 2");
  // An older caller, which knows nothing of allocators; what follows its structure is not read.
  const pyd_api_device_options_t older = {
      .struct_size = offsetof(pyd_api_device_options_t, allocator), .workers = 2, .allocator = (void*)8};
  CHECK_OK(pyd_api_read_device_options(&older, &options, &allocator));
  CHECK(options.workers == 2 && !allocator.allocate);
  const pyd_allocator_t incomplete = {.struct_size = sizeof(incomplete)};
  CHECK_REFUSED(pyd_api_read_device_options(&(pyd_api_device_options_t){.struct_size = sizeof(pyd_api_device_options_t),
                                                                        .allocator = &incomplete},
                                            &options, &allocator),
                INVALID_ARGUMENT, "device_create: the allocator has no function to allocate");
}

int main(void) {
  test_options();
  test_own_threads();
  test_lent_threads();
  return 0;
}
