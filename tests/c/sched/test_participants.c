// One thread plays all participants of a job, one after the other, and so makes states in which several threads leave
// a job for moments only: a job goes on without the thread that began it, a slot has no room, a permit does not come.
//
// links: base platform
#include "check.h"
#include "sched/sources.h"

static const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

// A scheduler without threads. Jobs are published as if |started| pool threads existed.
static pyd_sched_t* make_without_threads(uint32_t workers, uint32_t started) {
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {
      .workers = workers, .spin_us = 0, .scopes = {get_scope, set_scope}, .threads = {.are_lent = true}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  atomic_store(&sched->started, started);
  return sched;
}

static void destroy_without_threads(pyd_sched_t* sched) {
  CHECK(!sched->used && !sched->open && !sched->permits->waiting, "slots %x are in use", (unsigned)sched->used);
  atomic_store(&sched->started, 0);
  pyd_sched_destroy(sched);
}

static int32_t is_wanted(void* self) { return self == NULL; }
static const pyd_interrupt_t kWanted = {is_wanted, NULL};

// ---- the jobs of a task

// A job of |count| indices. In the first chunk of each of its first |joins| windows another participant joins.
typedef struct load_s {
  pyd_sched_t* sched;
  uint64_t count, ran;
  uint32_t joins;
  bool is_permit_wanted;  // from that moment on another thread waits for a permit
  bool is_published;
  pyd_sched_cost_t cost;
} load_t;

static int32_t count_chunk(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  load_t* load = self;
  pyd_sched_slot_t* slot = &load->sched->slots[0];
  (void)worker, (void)out_failed;
  load->ran += end - begin;
  if (!load->joins || begin != slot->base) return 0;
  --load->joins;
  CHECK(join(load->sched, slot), "the job is not open");
  if (load->is_permit_wanted) atomic_store(&load->sched->permits->waiting, 1);
  return 0;
}

static bool advance_load(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  load_t* load = self;
  *out_status = PYD_STATUS_OK;
  if (load->is_published) return true;
  load->is_published = true;
  const pyd_sched_job_t job = {.body = count_chunk, .self = load, .count = load->count, .cost = &load->cost};
  return pyd_task_share(task, &job, worker);
}

// Submits a task with |load| and starts it as worker 0.
static pyd_task_t* start_load(load_t load) {
  static const pyd_task_kind_t kKind = {.advance = advance_load};
  pyd_task_t* task;
  CHECK(pyd_ok(pyd_task_create(load.sched, &kKind, sizeof(load), &task)), "create");
  *(load_t*)pyd_task_payload(task) = load;
  CHECK(pyd_ok(pyd_task_submit(task, NULL)), "submit");
  CHECK(pyd_task_take(load.sched) == task, "another task is queued");
  pyd_task_start(task, 0);
  return task;
}

static void check_ended(pyd_task_t* task) {
  const load_t* load = pyd_task_payload(task);
  CHECK(load->ran == load->count, "%llu indices ran", (unsigned long long)load->ran);
  CHECK(pyd_task_is_done(task) && pyd_ok(pyd_task_status(task)), "the task has not ended");
  pyd_task_release(task);
}

static void leave_as(pyd_sched_t* sched, uint32_t worker) {
  pyd_sched_meter_t meter = {0};
  pyd_task_leave(sched, &sched->slots[0], worker, &meter);
}

static void test_no_thread_shares(void) {
  pyd_sched_t* sched = make_without_threads(2, 0);
  check_ended(start_load((load_t){.sched = sched, .count = 100, .cost = {.picoseconds = SURELY_SHARED}}));
  check_ended(start_load((load_t){.sched = sched}));
  destroy_without_threads(sched);
}

// The last participant continues the task, also with the windows that have not begun.
static void test_another_participant_continues(void) {
  pyd_sched_t* sched = make_without_threads(2, 1);
  const load_t one = {.sched = sched, .count = 1000, .joins = 1, .cost = {.picoseconds = SURELY_SHARED}};
  pyd_task_t* task = start_load(one);
  CHECK(!pyd_task_is_done(task), "the task has ended before its last participant left");
  leave_as(sched, 1);
  check_ended(task);

  load_t windows = one;
  windows.count = 2 * (uint64_t)PYD_SCHED_WINDOW + 5;
  windows.joins = 2;
  task = start_load(windows);
  leave_as(sched, 1);  // and begins the second window, which another participant joins
  CHECK(!pyd_task_is_done(task), "the task has ended before its last participant left");
  leave_as(sched, 0);
  check_ended(task);
  destroy_without_threads(sched);
}

// A participant leaves early for a thread that waits for its permit. The last one runs what is left, although that
// thread still waits.
static void test_left_indices_run(void) {
  pyd_sched_t* sched = make_without_threads(2, 1);
  pyd_task_t* task = start_load((load_t){
      .sched = sched, .count = 1000, .joins = 1, .is_permit_wanted = true, .cost = {.picoseconds = SURELY_SHARED}});
  const load_t* load = pyd_task_payload(task);
  CHECK(load->ran > 0 && load->ran < 1000 && !pyd_task_is_done(task), "%d indices ran", (int)load->ran);
  CHECK(!pyd_sched_leave_early(sched, &sched->slots[0]), "the last participant has left the job of a task early");
  leave_as(sched, 1);
  atomic_store(&sched->permits->waiting, 0);
  check_ended(task);
  destroy_without_threads(sched);
}

// ---- leaving a job for other work

static int32_t count_indices(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  *(uint64_t*)self += end - begin;
  return 0;
}

// Returns whether a helper would leave a job for other work, and how many of its 1000 indices have run by then.
static bool would_leave(pyd_sched_t* sched, uint64_t* out_ran) {
  pyd_sched_meter_t meter = {0};
  const pyd_sched_job_t job = {.body = count_indices, .self = out_ran, .count = 1000};
  *out_ran = 0;
  pyd_sched_slot_t* slot = pyd_sched_acquire_slot(sched, &job, SURELY_SHARED, NULL);
  CHECK(slot == &sched->slots[0], "another slot");
  pyd_sched_publish(sched, slot, 1, 1000, 1);
  const bool leaves = pyd_sched_work(sched, slot, 1, &meter);
  if (leaves) {
    CHECK(pyd_sched_leave_early(sched, slot), "a helper cannot leave");
  } else {
    pyd_sched_leave(slot);
  }
  CHECK(!(slot->state & PYD_SLOT_COUNT), "%x", (unsigned)slot->state);
  CHECK(pyd_sched_has_leftovers(sched, slot) == leaves, "indices that are left");
  pyd_sched_hide(sched, slot);
  pyd_sched_release_slot(sched, slot);
  return leaves;
}

static void test_other_work(void) {
  pyd_sched_t* sched = make_without_threads(2, 1);
  uint64_t ran;
  CHECK(!would_leave(sched, &ran) && ran == 1000, "without other work");
  atomic_store(&sched->queued, 1);
  CHECK(would_leave(sched, &ran) && ran < 1000, "a task that no thread is idle for");
  atomic_store(&sched->spinners, 1);
  atomic_store(&sched->lacks_permits, 1);
  CHECK(!would_leave(sched, &ran) && ran == 1000, "a task that an idle thread takes");
  atomic_store(&sched->spinners, 0);
  atomic_store(&sched->queued, 0);
  atomic_store(&sched->permits->waiting, 1);
  CHECK(would_leave(sched, &ran) && ran < 1000, "a thread that waits for a permit");
  atomic_store(&sched->permits->waiting, 0);
  const int32_t total = atomic_exchange(&sched->permits->free_count, -1);
  CHECK(would_leave(sched, &ran) && ran < 1000, "callers that compute without a permit");
  atomic_store(&sched->permits->free_count, 0);
  CHECK(!would_leave(sched, &ran) && ran == 1000, "as many threads as permits");
  atomic_store(&sched->permits->free_count, total);
  destroy_without_threads(sched);
}

// A thread that leaves early makes room for another one, which finds the job open. |limit|: of workers, 0 for none.
static void test_room_after_leaving(uint32_t workers, uint32_t limit) {
  pyd_sched_t* sched = make_without_threads(workers, workers - 1);
  const pyd_scope_t scope = {.owner = sched, .workers = limit};
  if (limit) set_scope(&scope);
  uint64_t ran = 0;
  const pyd_sched_job_t job = {.body = count_indices, .self = &ran, .count = 1000};
  pyd_sched_slot_t* slot = pyd_sched_acquire_slot(sched, &job, SURELY_SHARED, NULL);
  pyd_sched_publish(sched, slot, 0, 1000, 0);
  while (join(sched, slot)) CHECK(sched->open || !pyd_slot_has_room(slot->state), "hidden with room");
  CHECK(!sched->open, "open without room");
  CHECK(pyd_sched_leave_early(sched, slot), "a helper cannot leave");
  CHECK(joinable_jobs(sched, 1, memory_order_relaxed) == 1 && join(sched, slot), "no room after leaving");
  CHECK(!sched->open, "open without room");
  while (slot->state & PYD_SLOT_COUNT) pyd_sched_leave(slot);
  pyd_sched_release_slot(sched, slot);
  set_scope(NULL);
  destroy_without_threads(sched);
}

// A lent thread that is worker 0 does not help callers, who are worker 0 themselves, and joins no job without room.
static int32_t is_second_query(void* self) { return ++*(int*)self >= 2; }

static void test_jobs_that_cannot_be_joined(void) {
  pyd_sched_t* sched = make_without_threads(1, 0);
  int queries = 0;
  atomic_store(&sched->slots[0].state, PYD_SLOT_OPEN);
  atomic_store(&sched->slots[1].state, PYD_SLOT_OPEN | 1u << PYD_SLOT_ROOM_SHIFT);
  atomic_store(&sched->open, 3);
  CHECK(pyd_ok(pyd_sched_lend(sched, &(pyd_interrupt_t){is_second_query, &queries})), "lend");
  CHECK(queries == 2 && sched->slots[0].state == PYD_SLOT_OPEN, "%d queries", queries);
  CHECK(!(sched->slots[1].state & PYD_SLOT_COUNT), "worker 0 stays in the job of a caller");
  atomic_store(&sched->open, 0);
  destroy_without_threads(sched);
}

// ---- permits

static void check_granted(const pyd_permit_waiter_t* waiter, bool is_granted) {
  CHECK(pyd_event_is_set(&waiter->is_granted) == is_granted, "a permit was %sgranted", is_granted ? "not " : "");
}

static pyd_permit_waiter_t make_waiter(const pyd_sched_t* sched, uint32_t priority) {
  pyd_permit_waiter_t waiter = {.sched = sched, .priority = priority};
  pyd_event_init(&waiter.is_granted);
  pyd_event_reset(&waiter.is_granted);
  return waiter;
}

// A participant hands its permit to a thread of higher priority, and is interrupted before it gets one again.
static void test_interrupted_between_chunks(void) {
  pyd_sched_t* sched = make_without_threads(2, 1);
  pyd_permits_t* permits = sched->permits;
  const int32_t total = permits->total;
  pyd_permit_waiter_t waiter = make_waiter(NULL, PYD_PRIORITY_HIGH);
  pyd_task_t task = {.priority = PYD_PRIORITY_LOW};
  const pyd_sched_job_t job = {.interrupt = &kWanted};
  pyd_sched_slot_t* slot = pyd_sched_acquire_slot(sched, &job, 1, &task);
  pyd_sched_meter_t meter = {.picoseconds = UINT64_MAX};
  atomic_store(&slot->failure, PYD_SCHED_NO_FAILURE);
  atomic_store(&permits->free_count, 0);
  pyd_sched_yield(sched, slot, &meter);
  CHECK(slot->failure == PYD_SCHED_NO_FAILURE, "no thread waits");
  enqueue(permits, &waiter);
  pyd_sched_yield(sched, slot, &meter);
  CHECK(slot->failure == PYD_SCHED_INTERRUPTED, "the job was not interrupted");
  check_granted(&waiter, true);
  CHECK(permits->free_count == -1 && meter.yielded_at == meter.picoseconds, "%d", (int)permits->free_count);
  // A waiter that would sleep for longer queries its interrupt all the same.
  permits->handover_timeout = UINT64_MAX;
  CHECK(!pyd_permit_take(permits, PYD_PRIORITY_NORMAL, NULL, &kWanted), "not interrupted");
  atomic_store(&permits->free_count, total);
  pyd_event_deinit(&waiter.is_granted);
  pyd_sched_release_slot(sched, slot);
  destroy_without_threads(sched);
}

// A caller takes a permit although none is free, and lets a thread with a task have one when it ends.
static int32_t expect_deficit(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  const pyd_sched_t* sched = self;
  CHECK(sched->permits->free_count == -1, "%d", (int)sched->permits->free_count);
  return 0;
}

static void test_caller_does_not_wait(void) {
  pyd_sched_t* sched = make_without_threads(2, 1);
  pyd_permits_t* permits = sched->permits;
  const int32_t total = permits->total;
  atomic_store(&permits->free_count, 0);
  CHECK(run_job(sched, expect_deficit, sched, 4, SURELY_SHARED).code == 0, "failed");
  CHECK(permits->free_count == 0, "%d", (int)permits->free_count);

  pyd_permit_waiter_t normal = make_waiter(sched, PYD_PRIORITY_NORMAL), low = make_waiter(sched, PYD_PRIORITY_LOW);
  enqueue(permits, &low);
  CHECK(run_job(sched, expect_deficit, sched, 4, SURELY_SHARED).code == 0, "failed");
  check_granted(&low, false);
  enqueue(permits, &normal);
  CHECK(run_job(sched, expect_deficit, sched, 4, SURELY_SHARED).code == 0, "failed");
  check_granted(&normal, true);
  check_granted(&low, false);
  CHECK(permits->free_count == -1, "%d", (int)permits->free_count);
  pyd_permit_release(permits);  // of the thread with the task
  check_granted(&low, false);
  pyd_permit_release(permits);
  check_granted(&low, true);
  atomic_store(&permits->free_count, total);
  pyd_event_deinit(&normal.is_granted);
  pyd_event_deinit(&low.is_granted);
  destroy_without_threads(sched);
}

// A caller lets a waiting thread have a permit after a slice of work, and goes on.
static void test_caller_lets_a_task_in(void) {
  pyd_sched_t* sched = make_without_threads(2, 1);
  pyd_permits_t* permits = sched->permits;
  const int32_t total = permits->total;
  pyd_permit_waiter_t waiter = make_waiter(sched, PYD_PRIORITY_NORMAL);
  const pyd_sched_job_t job = {.body = count_indices};
  pyd_sched_slot_t* slot = pyd_sched_acquire_slot(sched, &job, 1, NULL);
  pyd_sched_meter_t meter = {.picoseconds = UINT64_C(1000) * PYD_SCHED_PERMIT_SLICE_NS - 1};
  atomic_store(&permits->free_count, -1);
  enqueue(permits, &waiter);
  pyd_sched_yield(sched, slot, &meter);
  check_granted(&waiter, false);
  ++meter.picoseconds;
  pyd_sched_yield(sched, slot, &meter);
  check_granted(&waiter, true);
  CHECK(permits->free_count == -2 && !meter.waited, "%d", (int)permits->free_count);
  atomic_store(&permits->free_count, 0);
  pyd_permit_waiter_t low = make_waiter(sched, PYD_PRIORITY_LOW);
  enqueue(permits, &low);
  meter.picoseconds = UINT64_MAX;
  pyd_sched_yield(sched, slot, &meter);
  check_granted(&low, false);
  dequeue(permits, &low);
  pyd_event_deinit(&low.is_granted);
  atomic_store(&permits->free_count, total);
  pyd_event_deinit(&waiter.is_granted);
  pyd_sched_release_slot(sched, slot);
  destroy_without_threads(sched);
}

// A task of higher priority raises the first thread that waits for tasks of its scheduler.
static void test_raised_waiters(void) {
  pyd_sched_t *sched = make_without_threads(1, 0), *other = make_without_threads(1, 0);
  pyd_permits_t* permits = sched->permits;
  const int32_t total = permits->total;
  pyd_permit_waiter_t first = make_waiter(other, PYD_PRIORITY_LOW), second = make_waiter(sched, PYD_PRIORITY_LOW);
  atomic_store(&permits->free_count, 0);
  enqueue(permits, &first);
  pyd_permit_raise(permits, sched, PYD_PRIORITY_HIGH);
  CHECK(permits->head[PYD_PRIORITY_LOW] == &first && !permits->head[PYD_PRIORITY_HIGH], "another scheduler's thread");
  enqueue(permits, &second);
  pyd_permit_raise(permits, sched, PYD_PRIORITY_HIGH);
  CHECK(permits->head[PYD_PRIORITY_HIGH] == &second && permits->tail[PYD_PRIORITY_LOW] == &first, "not raised");
  pyd_permit_release(permits);
  check_granted(&second, true);
  check_granted(&first, false);
  pyd_permit_release(permits);
  check_granted(&first, true);
  atomic_store(&permits->free_count, total);
  pyd_event_deinit(&first.is_granted);
  pyd_event_deinit(&second.is_granted);
  destroy_without_threads(sched);
  destroy_without_threads(other);
}

// ---- costs

// All indices run, also the last two, which are measured one by one: nothing is left to share after either.
static void test_probes_of_every_length(void) {
  pyd_sched_t* sched = make_without_threads(2, 0);
  for (uint64_t count = 3; count < 140; ++count) {
    uint64_t ran = 0;
    pyd_sched_cost_t cost = {0};
    pyd_sched_job_t job = {.body = count_indices, .self = &ran, .count = count};
    pyd_sched_failure_t failure;
    if (count > 2 * PYD_SCHED_COARSE) job.cost = &cost;  // a shorter job with an estimate is shared at once
    pyd_sched_run(sched, &job, &failure);
    CHECK(!failure.code && ran == count, "%d of %d indices ran", (int)ran, (int)count);
    CHECK(!job.cost || cost.picoseconds, "no cost was learned");
  }
  destroy_without_threads(sched);
}

int main(void) {
  test_no_thread_shares();
  test_another_participant_continues();
  test_left_indices_run();
  test_other_work();
  test_room_after_leaving(2, 0);
  test_room_after_leaving(4, 0);
  test_room_after_leaving(4, 3);
  test_jobs_that_cannot_be_joined();
  test_interrupted_between_chunks();
  test_caller_does_not_wait();
  test_caller_lets_a_task_in();
  test_raised_waiters();
  test_probes_of_every_length();
  puts("participants: ok");
  return 0;
}
