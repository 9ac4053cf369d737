// links: base platform sched memory program api
// with: ../program/double.c
// tsan: 3
// Calls in flight through the table: results, order, callbacks, cancelling, waiting, lifetime, and what is refused.
#include "api/world.h"

enum { N = 40 };

static void fill(float* data, int n, float first) {
  for (int i = 0; i < n; ++i) data[i] = first + (float)i;
}
static void check(const float* in, const float* out, int n) {
  for (int i = 0; i < n; ++i) CHECK(out[i] == in[i] + 3);
}

static void test_results(world_t* w, bool is_bystander) {
  _Alignas(64) float memory[2 * N + 16];
  // in place; copied because they are misaligned; over one another
  const int places[][2] = {{0, N + 8}, {1, N + 3}, {0, 0}, {0, 7}};
  for (size_t p = 0; p < sizeof(places) / sizeof(*places); ++p) {
    float *in = memory + places[p][0], *out = memory + places[p][1], before[N];
    pyd_api_call_t* call = prepare_bound(w->next, in, out, N);
    for (int round = 0; round < 3; ++round) {  // a call is submitted again when it has ended
      fill(in, N, (float)round);
      memcpy(before, in, sizeof(before));
      pyd_api_event_t* event = submit(call, NULL);
      CHECK(wait_for(event, is_bystander) == PYD_API_SUCCEEDED && pyd_ok(pd.event_status(event)));
      check(before, out, N);
      CHECK(pd.event_cancel(event) == 0 && pd.event_outcome(event) == PYD_API_SUCCEEDED);
      pd.event_release(event);
    }
    fill(in, N, 5);
    memcpy(before, in, sizeof(before));
    CHECK_OK(pd.call_run(call));
    check(before, out, N);
    pd.call_release(call);
  }
}

static void test_procedures(world_t* w, bool is_bystander) {
  enum { CALLS = 12 };
  float in[N], out[CALLS][N];
  pyd_api_call_t* calls[CALLS];
  pyd_api_event_t* events[CALLS];
  uint64_t first, word;
  fill(in, N, 2);
  calls[0] = prepare_bound(w->tally, in, out[0], N);
  CHECK_OK(pd.call_run(calls[0]));
  CHECK_OK(pd.call_scalar_result(calls[0], 1, &first));
  for (int i = 1; i < CALLS; ++i) calls[i] = prepare_bound(w->tally, in, i % 2 ? out[i] : NULL, N);
  for (int i = 0; i < CALLS; ++i) events[i] = submit(calls[i], NULL);
  for (int i = CALLS; i-- > 0;) CHECK(wait_for(events[i], is_bystander) == PYD_API_SUCCEEDED);
  for (int i = 0; i < CALLS; ++i) {
    CHECK_OK(pd.call_scalar_result(calls[i], 1, &word));
    CHECK(word == first + 1 + (uint64_t)i);  // in the order in which they were submitted
    check(in, pd.call_result_data(calls[i], 0), N);
    if (i % 2) check(in, out[i], N);
    pd.event_release(events[i]);
  }
  in[3] = -1;
  events[0] = submit(calls[0], NULL);
  CHECK(wait_for(events[0], is_bystander) == PYD_API_FAILED &&
        pd.status_code(pd.event_status(events[0])) == PYD_CODE_KERNEL);
  pd.event_release(events[0]);
  pyd_api_call_t* unbound = prepare(w->tally, N);
  pyd_api_event_t* none = events[1];
  CHECK_REFUSED(pd.call_submit(unbound, NULL, &none), INVALID_ARGUMENT, "@tally: argument 0 'x' has no memory");
  CHECK(!none);
  pd.call_release(unbound);
  for (int i = 0; i < CALLS; ++i) pd.call_release(calls[i]);
}

static void test_failures(world_t* w) {
  float in[N], out[N];
  fill(in, N, -4);
  pyd_api_call_t* call = prepare_bound(w->next, in, out, N);
  pyd_api_event_t* event = submit(call, NULL);
  CHECK(wait_for(event, false) == PYD_API_FAILED);
  pyd_status_t status = pd.event_status(event);
  CHECK(pd.status_code(status) == PYD_CODE_KERNEL &&
        strstr(pd.status_text(status), "@exe::@next: workgroup (3, 0, 0)"));
  CHECK(pd.status_values(status)[1] == 3 && pd.status_values(status)[4] == 5);
  CHECK(!strcmp(pd.status_name(status, PYD_STATUS_EXECUTABLE, 0), "exe") &&
        !strcmp(pd.status_name(status, PYD_STATUS_EXPORT, 0), "next"));
  CHECK(!pd.status_name(status, PYD_STATUS_EXPORT, 1) && !pd.status_name(status, 77, 0) &&
        !pd.status_name(NULL, PYD_STATUS_EXPORT, 0));
  pd.event_release(event);
  fill(in, N, 0);
  event = submit(call, NULL);
  CHECK(wait_for(event, true) == PYD_API_SUCCEEDED);
  check(in, out, N);
  pd.event_release(event);
  pd.call_release(call);
}

// ---- order: a chain, each call of which has the memory of the last

static void test_order(world_t* w) {
  enum { CALLS = 8 };
  float data[CALLS + 1][N];
  pyd_api_call_t* calls[CALLS];
  pyd_api_event_t* events[CALLS];
  for (int round = 0; round < 3; ++round) {
    fill(data[0], N, round == 1 ? -10.0f : 1.0f);  // the second time element 9 is -1, in the first call
    for (int i = 0; i < CALLS; ++i) {
      pyd_api_submit_t options = {.struct_size = sizeof(options), .priority = (uint32_t)i % 3};
      if (i) options.after = &events[i - 1], options.after_count = 1;
      calls[i] = prepare_bound(w->next, data[i], data[i + 1], N);
      events[i] = submit(calls[i], &options);
    }
    CHECK(wait_for(events[CALLS - 1], true) == (round == 1 ? PYD_API_SKIPPED : PYD_API_SUCCEEDED));
    for (int i = 0; i < CALLS; ++i) {
      uint32_t expected = round != 1 ? PYD_API_SUCCEEDED : i ? PYD_API_SKIPPED : PYD_API_FAILED;
      CHECK(pd.event_outcome(events[i]) == expected);
      if (round != 1) check(data[i], data[i + 1], N);
      if (round == 1) CHECK(pd.status_code(pd.event_status(events[i])) == PYD_CODE_KERNEL);
      pd.event_release(events[i]);
      pd.call_release(calls[i]);
    }
  }
}

// ---- callbacks

typedef struct seen_s {
  atomic_int count;
  atomic_uint outcome;
} seen_t;

static void note(void* context, pyd_api_event_t* event) {
  seen_t* seen = context;
  atomic_store(&seen->outcome, pd.event_outcome(event));
  atomic_fetch_add(&seen->count, 1);
}

static void test_callbacks(world_t* w) {
  float in[N], out[N];
  for (int fails = 0; fails < 2; ++fails) {
    fill(in, N, fails ? -1 : 0);
    seen_t seen = {0};
    const pyd_api_submit_t options = {.struct_size = sizeof(options), .on_done = note, .context = &seen};
    pyd_api_call_t* call = prepare_bound(w->next, in, out, N);
    pyd_api_event_t* event = submit(call, &options);
    wait_for(event, true);
    while (!atomic_load(&seen.count)) sched_yield();  // it may come after those who wait
    CHECK(seen.count == 1 && seen.outcome == (fails ? PYD_API_FAILED : PYD_API_SUCCEEDED));
    pd.event_release(event);
    atomic_store(&seen.count, 0);
    CHECK_OK(pd.call_submit(call, &options, NULL));  // nobody wants the event
    while (!atomic_load(&seen.count)) sched_yield();
    pd.call_release(call);
  }
}

// ---- waiting and cancelling

static int32_t always(void* context) {
  atomic_fetch_add((atomic_int*)context, 1);
  return 1;
}

static void test_cancel(world_t* w) {
  float in[N], out[N];
  uint32_t outcome;
  fill(in, N, 0);
  atomic_store(&may_leave, 0);
  atomic_store(&entered, 0);
  pyd_api_call_t *hold = prepare(w->hold, 100000), *other = prepare_bound(w->next, in, out, N),
                 *after = prepare_bound(w->next, in, out, N);
  pyd_api_event_t* first = submit(hold, NULL);
  while (!atomic_load(&entered)) sched_yield();
  CHECK(pd.event_outcome(first) == PYD_API_PENDING && pyd_ok(pd.event_status(first)));
  CHECK_OK(pd.event_wait(first, 0, NULL, &outcome));
  CHECK(outcome == PYD_API_PENDING);
  CHECK_OK(pd.event_wait(first, 1000000, NULL, &outcome));
  CHECK(outcome == PYD_API_PENDING);
  // in use
  CHECK_REFUSED(pd.call_submit(hold, NULL, NULL), INVALID_ARGUMENT,
                "call_submit: this call of 'hold' is running in another thread or in flight");
  CHECK_REFUSED(pd.call_run(hold), INVALID_ARGUMENT, "in flight");
  CHECK_REFUSED(pd.call_set_scalars(hold, (uint64_t[]){100000}, 1), INVALID_ARGUMENT, "in flight");
  // an end of the waiting is none of the call
  atomic_int asked = 0;
  const pyd_api_interrupt_t interrupt = {sizeof(interrupt), always, &asked};
  CHECK_REFUSED(pd.event_wait(first, PYD_API_FOREVER, &interrupt, &outcome), INTERRUPTED,
                "event_wait: the waiting was interrupted");
  CHECK(outcome == PYD_API_PENDING && asked == 1 && pd.event_outcome(first) == PYD_API_PENDING);
  // one that waits for another call
  pyd_api_submit_t options = {.struct_size = sizeof(options), .after = &first, .after_count = 1};
  pyd_api_event_t* second = submit(other, &options);
  options.after = &second;
  pyd_api_event_t* third = submit(after, &options);
  CHECK_REFUSED(pd.call_bind_argument(other, 0, in, sizeof(in)), INVALID_ARGUMENT, "in flight");
  CHECK(pd.event_cancel(second) == 1 && pd.event_outcome(second) == PYD_API_PENDING);
  CHECK(pd.event_cancel(first) == 1);
  atomic_store(&may_leave, 1);
  CHECK(wait_for(third, true) == PYD_API_SKIPPED && pd.event_outcome(first) == PYD_API_CANCELLED);
  CHECK(pd.event_outcome(second) == PYD_API_SKIPPED && pd.status_code(pd.event_status(second)) == PYD_CODE_INTERRUPTED);
  CHECK(pd.status_code(pd.event_status(first)) == PYD_CODE_INTERRUPTED);
  pd.event_release(first), pd.event_release(second), pd.event_release(third);
  // none of them is in use any more, though two did not run
  CHECK_OK(pd.call_run(other));
  CHECK_OK(pd.call_run(after));
  check(in, out, N);
  pd.call_release(hold), pd.call_release(other), pd.call_release(after);
}

// A procedure that runs is cancelled at its next job or jump; one that is queued ends at once.
static void test_cancel_procedures(world_t* w) {
  enum { CALLS = 30 };
  float in[N];
  fill(in, N, 0);
  pyd_api_call_t* calls[CALLS];
  pyd_api_event_t* events[CALLS];
  uint64_t before, after, succeeded = 0;
  for (int i = 0; i < CALLS; ++i) calls[i] = prepare_bound(w->tally, in, NULL, N);
  CHECK_OK(pd.call_run(calls[0]));
  CHECK_OK(pd.call_scalar_result(calls[0], 1, &before));
  for (int i = 0; i < CALLS; ++i) events[i] = submit(calls[i], NULL);
  for (int i = 0; i < CALLS; i += 2) pd.event_cancel(events[i]);
  for (int i = 0; i < CALLS; ++i) {
    uint32_t outcome = wait_for(events[i], i % 3 == 0);
    CHECK(outcome == PYD_API_SUCCEEDED || (i % 2 == 0 && outcome == PYD_API_CANCELLED));
    succeeded += outcome == PYD_API_SUCCEEDED;
  }
  CHECK_OK(pd.call_run(calls[0]));
  CHECK_OK(pd.call_scalar_result(calls[0], 1, &after));
  CHECK(after >= before + 1 + succeeded && after <= before + 1 + CALLS);
  for (int i = 0; i < CALLS; ++i) pd.event_release(events[i]), pd.call_release(calls[i]);
}

// ---- loops

static int32_t add_range(void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker;
  if (begin <= 70000 && 70000 < end && !context) {
    *out_failed = 70000;
    return 9;
  }
  if (context) atomic_fetch_add((atomic_ullong*)context, end - begin);
  return 0;
}

static void test_loops(world_t* w, bool is_bystander) {
  atomic_ullong sum = 0;
  pyd_api_cost_t cost = {{0}};
  pyd_api_event_t *events[3], *event;
  for (int i = 0; i < 3; ++i) {
    pyd_api_submit_t options = {.struct_size = sizeof(options), .after = events, .after_count = (uint32_t)i};
    CHECK_OK(pd.parallel_range_submit(w->device, 100000, add_range, &sum, &cost, &options, &events[i]));
  }
  for (int i = 0; i < 3; ++i) CHECK(wait_for(events[i], is_bystander) == PYD_API_SUCCEEDED);
  for (int i = 0; i < 3; ++i) pd.event_release(events[i]);
  CHECK(sum == 300000);
  CHECK_OK(pd.parallel_range_submit(w->device, 0, add_range, &sum, NULL, NULL, &event));
  CHECK(wait_for(event, is_bystander) == PYD_API_SUCCEEDED && sum == 300000);
  pd.event_release(event);
  CHECK_OK(pd.parallel_range_submit(w->device, 100000, add_range, NULL, NULL, NULL, &event));
  CHECK(wait_for(event, is_bystander) == PYD_API_FAILED);
  CHECK(strstr(pd.status_text(pd.event_status(event)), "parallel_range_submit: the body returned 9 at 70000"));
  CHECK(pd.status_values(pd.event_status(event))[1] == 70000);
  pd.event_release(event);
  CHECK_REFUSED(pd.parallel_range_submit(NULL, 1, add_range, NULL, NULL, NULL, &event), INVALID_ARGUMENT,
                "device is NULL");
  CHECK_REFUSED(pd.parallel_range_submit(w->device, 1, NULL, NULL, NULL, NULL, &event), INVALID_ARGUMENT,
                "body is NULL");
  CHECK(!event);
}

// ---- what is refused

static void test_hostile(world_t* w, world_t* another) {
  float in[N], out[N];
  fill(in, N, 0);
  pyd_api_call_t *call = prepare_bound(w->next, in, out, N), *bare = prepare(w->next, N);
  pyd_api_call_t* elsewhere = prepare_bound(another->next, in, out, N);
  pyd_api_event_t* event = (pyd_api_event_t*)call;
  pyd_api_submit_t options = {.struct_size = sizeof(options)};
  CHECK_REFUSED(pd.call_submit(NULL, NULL, &event), INVALID_ARGUMENT, "call_submit: call is NULL");
  CHECK(!event);
  CHECK_REFUSED(pd.call_submit(bare, NULL, &event), INVALID_ARGUMENT, "@next: argument 0 'x' has no memory");
  CHECK_REFUSED(pd.call_submit(bare, NULL, &event), INVALID_ARGUMENT, "has no memory");  // it is not in flight
  options.struct_size = 0;
  CHECK_REFUSED(pd.call_submit(call, &options, &event), INVALID_ARGUMENT,
                "struct_size of 0; set it to sizeof(pyd_api_submit_t)");
  options = (pyd_api_submit_t){.struct_size = sizeof(options), .priority = 3};
  CHECK_REFUSED(pd.call_submit(call, &options, &event), INVALID_ARGUMENT, "there is no priority 3");
  options = (pyd_api_submit_t){.struct_size = sizeof(options), .after_count = 2};
  CHECK_REFUSED(pd.call_submit(call, &options, &event), INVALID_ARGUMENT, "after is NULL");
  pyd_api_event_t* events[2] = {submit(elsewhere, NULL), NULL};
  options.after = events;
  CHECK_REFUSED(pd.call_submit(call, &options, &event), INVALID_ARGUMENT, "call_submit: after[1] is NULL");
  options.after_count = 1;
  CHECK_REFUSED(pd.call_submit(call, &options, &event), INVALID_ARGUMENT,
                "call 0 of those that this one waits for is of another device");
  CHECK_REFUSED(pd.parallel_range_submit(w->device, 1, add_range, NULL, NULL, &options, &event), INVALID_ARGUMENT,
                "another device");
  CHECK(!event && wait_for(events[0], false) == PYD_API_SUCCEEDED);
  uint32_t outcome = 7;
  CHECK_REFUSED(pd.event_wait(NULL, 0, NULL, &outcome), INVALID_ARGUMENT, "event_wait: event is NULL");
  CHECK(outcome == PYD_API_PENDING);
  CHECK_REFUSED(pd.event_wait(events[0], 0, &(pyd_api_interrupt_t){0}, NULL), INVALID_ARGUMENT,
                "event_wait: the interrupt has too small a size");
  CHECK_REFUSED(pd.event_wait(events[0], 0, &(pyd_api_interrupt_t){sizeof(pyd_api_interrupt_t), NULL, NULL}, NULL),
                INVALID_ARGUMENT, "no function to ask");
  CHECK_OK(pd.event_wait(events[0], 0, NULL, NULL));
  CHECK(pd.event_outcome(NULL) == PYD_API_PENDING && pyd_ok(pd.event_status(NULL)) && !pd.event_cancel(NULL));
  pd.event_release(events[0]), pd.event_release(NULL);
  CHECK_OK(pd.call_run(call));  // what was refused is not in flight
  check(in, out, N);
  pd.call_release(call), pd.call_release(bare), pd.call_release(elsewhere);
}

// ---- the end of the threads

static void close_inside(void* context, pyd_api_event_t* event) {
  world_t* w = context;
  (void)event;
  CHECK_REFUSED(pd.device_close(w->device), INVALID_ARGUMENT, "cannot be ended by a call that runs on them");
}

static void test_close(world_t* w) {
  float in[N], out[N];
  fill(in, N, 0);
  atomic_store(&may_leave, 0);
  atomic_store(&entered, 0);
  pyd_api_call_t *hold = prepare(w->hold, 100000), *next = prepare_bound(w->next, in, out, N);
  seen_t seen = {0};
  pyd_api_submit_t options = {.struct_size = sizeof(options), .on_done = close_inside, .context = w};
  pyd_api_event_t* first = submit(hold, &options);
  while (!atomic_load(&entered)) sched_yield();
  options = (pyd_api_submit_t){
      .struct_size = sizeof(options), .after = &first, .after_count = 1, .on_done = note, .context = &seen};
  pyd_api_event_t* second = submit(next, &options);
  CHECK(pd.event_cancel(first) == 1);
  atomic_store(&may_leave, 1);
  CHECK_OK(pd.device_close(w->device));
  CHECK(pd.event_outcome(first) == PYD_API_CANCELLED && pd.event_outcome(second) == PYD_API_SKIPPED && seen.count == 1);
  pd.event_release(first), pd.event_release(second);
  first = submit(next, NULL);  // with new threads
  CHECK(wait_for(first, true) == PYD_API_SUCCEEDED);
  check(in, out, N);
  pd.event_release(first);
  CHECK_REFUSED(pd.device_close(NULL), INVALID_ARGUMENT, "device_close: device is NULL");
  pd.call_release(hold), pd.call_release(next);
}

// ---- lifetime: a call in flight holds what it needs

static void test_lifetime(void) {
  static float in[N], out[N];
  fill(in, N, 0);
  for (int round = 0; round < 4; ++round) {
    world_t w;
    open_world(&w, &(pyd_sched_options_t){.workers = 2, .spin_us = -1});
    pyd_api_call_t *hold = prepare(w.hold, 2), *next = prepare_bound(w.next, in, out, N);
    pyd_api_event_t* first = submit(hold, NULL);
    const pyd_api_submit_t options = {.struct_size = sizeof(options), .after = &first, .after_count = 1};
    pyd_api_event_t* second = submit(next, &options);
    pd.call_release(hold), pd.call_release(next), pd.program_release(w.program), pd.device_release(w.device);
    w.program = NULL, w.device = NULL;
    pd.event_release(first);
    CHECK(w.dropped == 0);
    if (round % 2) {
      atomic_store(&may_leave, 1);
      CHECK(wait_for(second, round == 3) == PYD_API_SUCCEEDED);
      check(in, out, N);
    } else {
      atomic_store(&may_leave, 1);
    }
    pd.event_release(second);
    while (atomic_load(&w.dropped) != 2) sched_yield();
    close_world(&w);
  }
}

int main(void) {
  static world_t w, another;
  open_world(&another, &(pyd_sched_options_t){.workers = 2, .spin_us = -1});
  for (uint32_t workers = 1; workers <= 3; ++workers) {
    open_world(&w, &(pyd_sched_options_t){.workers = workers, .spin_us = -1});
    for (int is_bystander = 0; is_bystander < 2; ++is_bystander) {
      test_results(&w, is_bystander);
      test_procedures(&w, is_bystander);
      test_loops(&w, is_bystander);
    }
    test_failures(&w);
    test_order(&w);
    test_callbacks(&w);
    test_cancel(&w);
    test_cancel_procedures(&w);
    test_close(&w);
    test_hostile(&w, &another);
    close_world(&w);
  }
  close_world(&another);
  test_lifetime();
  return 0;
}
