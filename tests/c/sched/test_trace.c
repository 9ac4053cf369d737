// The recorder of traces: what a ring keeps, what is counted as lost, reading while threads write, and what the task
// system records.
//
// links: base platform sched
// tsan: 3
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "pydispatch/trace.h"

enum { MANY = 100000, WRITERS = 3 };

static pyd_trace_t* make_trace(void) {
  pyd_trace_t* trace;
  pyd_status_t status = pyd_trace_create(&trace);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  return trace;
}

static void start(pyd_trace_t* trace, uint32_t events, uint32_t threads) {
  pyd_status_t status = pyd_trace_start(trace, events, threads);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
}

// Every field follows from |i|, so that an event made of two shows.
static void record(pyd_trace_t* trace, uint64_t i) {
  char name[PYD_TRACE_NAME_BYTES + 40];
  int length = snprintf(name, sizeof(name), "%0*llu", (int)(1 + i % 120), (unsigned long long)i);
  const pyd_trace_event_t event = {
      .begin = i, .first = ~i, .count = 3 * i, .kind = (uint8_t)(i % 8), .has_failed = i & 1};
  pyd_trace_record(trace, &event, name, (size_t)length);
}

static void check_event(const pyd_trace_event_t* event) {
  const uint64_t i = event->begin;
  char name[PYD_TRACE_NAME_BYTES + 40];
  int length = snprintf(name, sizeof(name), "%0*llu", (int)(1 + i % 120), (unsigned long long)i);
  if (length > PYD_TRACE_NAME_BYTES) length = PYD_TRACE_NAME_BYTES;
  CHECK(event->first == ~i && event->count == 3 * i && event->kind == i % 8 && event->has_failed == (i & 1),
        "event %llu is torn", (unsigned long long)i);
  CHECK(event->name_length == length && !memcmp(event->name, name, (size_t)length), "event %llu is '%.*s'",
        (unsigned long long)i, event->name_length, event->name);
}

// The only track in use.
static uint32_t own_track(pyd_trace_t* trace) {
  for (uint32_t i = 0; i < pyd_trace_track_count(trace); ++i) {
    pyd_trace_track_t track;
    pyd_trace_track(trace, i, &track);
    if (track.recorded && track.thread == pyd_trace_this_thread() << 1 >> 1) return i;
  }
  CHECK(false, "this thread has no track");
  return 0;
}

static void check_kept(pyd_trace_t* trace, uint64_t recorded, uint64_t room, uint64_t kept) {
  static pyd_trace_event_t events[64];
  const uint32_t number = own_track(trace);
  pyd_trace_track_t track;
  pyd_trace_track(trace, number, &track);
  CHECK(track.recorded == recorded && track.worker == PYD_TRACE_NO_WORKER, "%llu recorded",
        (unsigned long long)track.recorded);
  CHECK(pyd_trace_read(trace, number, events, room) == kept, "not %llu are kept", (unsigned long long)kept);
  for (uint64_t i = 0; i < kept; ++i) {
    CHECK(events[i].begin == recorded - kept + i, "event %llu is %llu", (unsigned long long)i,
          (unsigned long long)events[i].begin);
    check_event(&events[i]);
  }
}

static void test_full_ring(void) {
  pyd_trace_t* trace = make_trace();
  CHECK(!pyd_trace_is_on(trace) && !pyd_trace_is_on(NULL) && pyd_trace_track_count(trace) == 0, "it is off");
  record(trace, 0);  // has no place, and does no harm
  for (int round = 0; round < 3; ++round) {
    start(trace, 13, 3);
    CHECK(pyd_trace_is_on(trace) && pyd_trace_track_count(trace) == 4, "%u tracks", pyd_trace_track_count(trace));
    for (uint64_t i = 0; i < 10; ++i) record(trace, i);
    check_kept(trace, 10, 64, 10);
    for (uint64_t i = 10; i < 1000; ++i) record(trace, i);
    check_kept(trace, 1000, 64, 16);
    check_kept(trace, 1000, 5, 5);
    pyd_trace_stop(trace);
    check_kept(trace, 1000, 64, 16);
  }
  start(trace, 64, 1);  // others than before
  record(trace, 0);
  check_kept(trace, 1, 64, 1);
  pyd_trace_destroy(trace);
  pyd_trace_destroy(NULL);
}

static void refuse(pyd_trace_t* trace, uint32_t events, uint32_t threads) {
  pyd_status_t status = pyd_trace_start(trace, events, threads);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT, "%u events of %u threads", events, threads);
  pyd_status_free(status);
}

static void test_refusals(void) {
  pyd_trace_t* trace = make_trace();
  refuse(trace, 0, 1);
  refuse(trace, 1, 0);
  refuse(trace, PYD_TRACE_MAX_EVENTS + 1, 1);
  refuse(trace, 1, PYD_TRACE_MAX_THREADS + 1);
  start(trace, 1, 1);
  refuse(trace, 1, 1);
  pyd_trace_stop(trace);
  pyd_trace_destroy(trace);
}

static uint32_t count_labelled(pyd_trace_t* trace, uint32_t worker) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < pyd_trace_track_count(trace); ++i) {
    pyd_trace_track_t track;
    pyd_trace_track(trace, i, &track);
    count += track.worker == worker;
  }
  return count;
}

// Labels of threads without a track; traces of one length and another number of threads.
static void test_labels(void) {
  static const pyd_trace_event_t kEvent = {.begin = 1};
  pyd_trace_t* trace = make_trace();
  pyd_trace_label(trace, 5, 3);  // before the first start
  start(trace, 4, 2);
  pyd_trace_record_for(trace, 5, &kEvent, NULL, 0);
  pyd_trace_label(trace, 6, 3);  // a track is free, and none is this thread's
  pyd_trace_record_for(trace, 7, &kEvent, NULL, 0);
  pyd_trace_label(trace, 6, 3);  // all tracks are of other threads
  CHECK(count_labelled(trace, 3) == 0, "a track has the label of another thread");
  pyd_trace_label(trace, 7, 4);
  CHECK(count_labelled(trace, 4) == 1, "no track has the label");
  pyd_trace_stop(trace);
  start(trace, 4, 8);
  CHECK(pyd_trace_track_count(trace) == 8, "%u tracks", pyd_trace_track_count(trace));
  CHECK(count_labelled(trace, PYD_TRACE_NO_WORKER) == 8, "labels of the trace before");
  pyd_trace_destroy(trace);
}

typedef struct writer_s {
  pthread_t thread;
  pyd_trace_t* trace;
  _Atomic uint32_t* ready;
  uint64_t count;
} writer_t;

static void* write_many(void* argument) {
  writer_t* writer = argument;
  atomic_fetch_add(writer->ready, 1);
  while (atomic_load(writer->ready) < WRITERS) sched_yield();
  for (uint64_t i = 0; i < writer->count; ++i) record(writer->trace, i);
  return NULL;
}

static void start_writers(writer_t* writers, pyd_trace_t* trace, _Atomic uint32_t* ready, uint64_t count) {
  for (int i = 0; i < WRITERS; ++i) {
    writers[i] = (writer_t){.trace = trace, .ready = ready, .count = count};
    CHECK(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]) == 0, "no thread");
  }
}

static void join_writers(writer_t* writers) {
  for (int i = 0; i < WRITERS; ++i) pthread_join(writers[i].thread, NULL);
}

// More threads than tracks: theirs are counted.
static void test_threads_without_track(void) {
  pyd_trace_t* trace = make_trace();
  writer_t writers[WRITERS];
  _Atomic uint32_t ready = 0;
  start(trace, 16, 2);
  record(trace, 0);
  start_writers(writers, trace, &ready, 100);
  join_writers(writers);
  uint64_t recorded = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    pyd_trace_track_t track;
    pyd_trace_track(trace, i, &track);
    recorded += track.recorded;
  }
  const uint64_t without = pyd_trace_without_track(trace);
  CHECK(without >= 100 && recorded + without == 100 * WRITERS + 1, "%llu recorded, %llu not",
        (unsigned long long)recorded, (unsigned long long)without);
  pyd_trace_stop(trace);
  start(trace, 16, 2);
  CHECK(pyd_trace_without_track(trace) == 0, "of an earlier trace");
  pyd_trace_destroy(trace);
}

// Whatever a reader gets while rings are overwritten is whole, and in order.
static void test_reading_while_writing(void) {
  static pyd_trace_event_t events[64];
  pyd_trace_t* trace = make_trace();
  writer_t writers[WRITERS];
  _Atomic uint32_t ready = 0;
  start(trace, 64, 16);
  start_writers(writers, trace, &ready, MANY / SLOWER);
  uint64_t seen = 0, completed;
  do {
    completed = 0;
    for (uint32_t number = 0; number < pyd_trace_track_count(trace); ++number) {
      pyd_trace_track_t track;
      pyd_trace_track(trace, number, &track);
      completed += track.recorded;
      const uint64_t count = pyd_trace_read(trace, number, events, 64);
      seen += count;
      for (uint64_t i = 0; i < count; ++i) {
        check_event(&events[i]);
        CHECK(i == 0 || events[i].begin > events[i - 1].begin, "out of order");
      }
    }
  } while (completed < WRITERS * (MANY / SLOWER));
  join_writers(writers);
  CHECK(seen >= 64 * WRITERS && pyd_trace_without_track(trace) == 0, "%llu seen", (unsigned long long)seen);
  pyd_trace_destroy(trace);
}

// ---- the task system

static pyd_sched_t* make_traced(uint32_t workers, pyd_trace_t* trace) {
  pyd_sched_t* sched;
  const pyd_sched_options_t options = {.workers = workers, .spin_us = 0, .trace = trace};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  CHECK(pyd_sched_trace(sched) == trace && pyd_sched_trace(NULL) == NULL, "the recorder");
  return sched;
}

// Two indices that wait for each other end only when two threads run them.
static int32_t meet_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  _Atomic int* here = self;
  (void)worker, (void)begin, (void)end, (void)out_failed;
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < 2) sched_yield();
  return 0;
}

typedef struct kinds_s {
  uint64_t of[8], by_worker[3];  // of worker 0 none: callers have no number
} kinds_t;

static kinds_t count_kinds(pyd_trace_t* trace) {
  static pyd_trace_event_t events[4096];
  kinds_t kinds = {{0}, {0}};
  for (uint32_t number = 0; number < pyd_trace_track_count(trace); ++number) {
    pyd_trace_track_t track;
    pyd_trace_track(trace, number, &track);
    const uint64_t count = pyd_trace_read(trace, number, events, 4096);
    for (uint64_t i = 0; i < count; ++i) {
      CHECK(events[i].begin <= events[i].end, "an event ends before it begins");
      ++kinds.of[events[i].kind];
    }
    if (track.worker < 3) kinds.by_worker[track.worker] += count;
  }
  return kinds;
}

static void test_scheduler(void) {
  pyd_trace_t* trace = make_trace();
  pyd_sched_t* sched = make_traced(2, trace);
  start(trace, 4096, 8);
  for (int round = 0; round < 100; ++round) {
    _Atomic int here = 0;
    CHECK(run_job(sched, meet_body, &here, 2, SURELY_SHARED).code == 0, "round %d", round);
  }
  pyd_trace_stop(trace);
  pyd_sched_trace_threads(sched);
  const kinds_t kinds = count_kinds(trace);
  CHECK(kinds.of[PYD_TRACE_WAKE] >= 1, "no thread was woken");
  CHECK(kinds.of[PYD_TRACE_IDLE] >= 1 && kinds.by_worker[1] >= kinds.of[PYD_TRACE_IDLE],
        "%llu idle events, %llu of worker 1", (unsigned long long)kinds.of[PYD_TRACE_IDLE],
        (unsigned long long)kinds.by_worker[1]);
  CHECK(kinds.by_worker[0] == 0 && kinds.of[PYD_TRACE_RUN] == 0, "what a job does is its owner's to record");
  pyd_sched_destroy(sched);
  pyd_trace_destroy(trace);
}

typedef struct toggle_s {
  pyd_trace_t* trace;
  _Atomic int* is_over;
} toggle_t;

static void* toggle(void* argument) {
  toggle_t* t = argument;
  while (!atomic_load(t->is_over)) {
    start(t->trace, 64, 8);
    count_kinds(t->trace);
    pyd_trace_stop(t->trace);
  }
  return NULL;
}

// Traces begin and end while jobs run.
static void test_start_and_stop(void) {
  pyd_trace_t* trace = make_trace();
  pyd_sched_t* sched = make_traced(3, trace);
  _Atomic int is_over = 0;
  toggle_t t = {trace, &is_over};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, toggle, &t) == 0, "no thread");
  for (int round = 0; round < 2000 / SLOWER; ++round) {
    _Atomic int here = 0;
    CHECK(run_job(sched, meet_body, &here, 2, SURELY_SHARED).code == 0, "round %d", round);
  }
  atomic_store(&is_over, 1);
  pthread_join(thread, NULL);
  pyd_sched_destroy(sched);
  pyd_trace_destroy(trace);
}

// ---- threads that an embedder lends

typedef struct lent_s {
  pyd_sched_t* sched;
  _Atomic int is_over;
} lent_t;
static int32_t is_lending_over(void* self) { return atomic_load(&((lent_t*)self)->is_over); }
static void* lend(void* self) {
  lent_t* lent = self;
  pyd_status_t status = pyd_sched_lend(lent->sched, &(pyd_interrupt_t){is_lending_over, lent});
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  return NULL;
}

// Only the threads that are lent at the moment are labelled: one of two.
static void test_lent_threads(void) {
  pyd_trace_t* trace = make_trace();
  const pyd_sched_options_t options = {.workers = 2, .spin_us = 0, .trace = trace, .threads = {.are_lent = true}};
  lent_t lent = {.is_over = 0};
  pyd_status_t status = pyd_sched_create(&options, &lent.sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  start(trace, 16, 4);
  pyd_sched_trace_threads(lent.sched);
  CHECK(count_labelled(trace, PYD_TRACE_NO_WORKER) == pyd_trace_track_count(trace), "no thread is lent");
  pthread_t thread;
  CHECK(!pthread_create(&thread, NULL, lend, &lent), "thread");
  while (count_labelled(trace, PYD_TRACE_NO_WORKER) == pyd_trace_track_count(trace)) {
    pyd_sched_trace_threads(lent.sched);  // has no effect before the thread is lent and idle
    sched_yield();
  }
  CHECK(count_labelled(trace, PYD_TRACE_NO_WORKER) == pyd_trace_track_count(trace) - 1, "another thread is labelled");
  atomic_store(&lent.is_over, 1);
  pthread_join(thread, NULL);
  pyd_sched_destroy(lent.sched);
  pyd_trace_destroy(trace);
  pyd_sched_t* untraced = make_sched(2, -1);
  pyd_sched_trace_threads(untraced);
  pyd_sched_destroy(untraced);
}

int main(void) {
  test_full_ring();
  test_refusals();
  test_labels();
  test_lent_threads();
  test_threads_without_track();
  test_reading_while_writing();
  test_scheduler();
  test_start_and_stop();
  return 0;
}
