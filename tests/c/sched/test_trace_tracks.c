// Tracks of a trace that are being written, as a signal handler or a start in between finds them, tracks that are gone,
// and threads that have nothing to record. One thread plays all of them.
//
// links: base platform
#include "check.h"
#include "sched/sources.h"

static uint64_t recorded_by(pyd_trace_t* trace, uint64_t thread) {
  uint64_t recorded = 0;
  for (uint32_t i = 0; i < pyd_trace_track_count(trace); ++i) {
    pyd_trace_track_t track;
    pyd_trace_track(trace, i, &track);
    if (track.thread == thread << 1 >> 1) recorded += track.recorded;
  }
  return recorded;
}

static pyd_trace_t* make_trace(void) {
  pyd_trace_t* trace;
  CHECK(pyd_ok(pyd_trace_create(&trace)) && pyd_ok(pyd_trace_start(trace, 16, 4)), "trace");
  return trace;
}

static void test_track_that_is_written(void) {
  const uint64_t thread = pyd_trace_this_thread(), written = thread << 1 | IS_WRITING;
  const pyd_trace_event_t event = {.begin = 1};
  pyd_trace_t* trace = make_trace();
  pyd_trace_record(trace, &event, NULL, 0);
  track_t* track = probe_track(((recorder_t*)trace)->now, thread, 0);
  CHECK(recorded_by(trace, thread) == 1 && track->owner == thread << 1, "the thread has no track");
  atomic_store(&track->owner, written);
  pyd_trace_record(trace, &event, NULL, 0);  // as a handler of a signal that interrupts the thread
  CHECK(recorded_by(trace, thread) == 1 && pyd_trace_without_track(trace) == 1, "an event in the middle of another");
  pyd_trace_stop(trace);
  CHECK(pyd_ok(pyd_trace_start(trace, 16, 4)), "start again");
  CHECK(track->owner == written && !recorded_by(trace, thread), "the track was taken from the thread that writes");
  atomic_store(&track->owner, thread << 1);
  pyd_trace_record(trace, &event, NULL, 0);
  CHECK(recorded_by(trace, thread) == 1 && !pyd_trace_without_track(trace), "after the event");
  pyd_trace_destroy(trace);
}

// A start frees the track before that of a thread that is just writing: the thread keeps its track, its only one.
static void test_free_track_before_a_written_one(void) {
  const pyd_trace_event_t event = {.begin = 1};
  pyd_trace_t* trace = make_trace();
  const tracks_t* tracks = ((recorder_t*)trace)->now;
  const uint64_t first = 1;
  uint64_t second = 2;
  while (probe_track(tracks, second, 0) != probe_track(tracks, first, 0)) ++second;
  pyd_trace_record_for(trace, first, &event, NULL, 0);
  pyd_trace_record_for(trace, second, &event, NULL, 0);
  track_t* track = probe_track(tracks, second, 1);
  CHECK(track->owner == second << 1, "the tracks are not one after the other");
  atomic_store(&track->owner, second << 1 | IS_WRITING);
  pyd_trace_stop(trace);
  CHECK(pyd_ok(pyd_trace_start(trace, 16, 4)), "start again");
  CHECK(probe_track(tracks, first, 0)->owner == 0, "the first track is not free");
  atomic_store(&track->owner, second << 1);
  pyd_trace_label(trace, second, 3);
  CHECK(track->worker == 3, "the track is not found");
  pyd_trace_record_for(trace, second, &event, NULL, 0);
  CHECK(probe_track(tracks, first, 0)->owner == 0 && recorded_by(trace, second) == 1, "a second track");
  pyd_trace_record_for(trace, first, &event, NULL, 0);  // a thread without a track takes the free one
  CHECK(probe_track(tracks, first, 0)->owner == first << 1 && recorded_by(trace, first) == 1, "no track");
  pyd_trace_destroy(trace);
}

// While the tracks of a trace are read, another one with fewer tracks may be started.
static void test_fewer_tracks(void) {
  const pyd_trace_event_t event = {.begin = 1};
  pyd_trace_event_t events[1];
  pyd_trace_track_t track = {.recorded = 7};
  pyd_trace_t* trace = make_trace();
  const uint32_t last = pyd_trace_track_count(trace) - 1;
  for (uint64_t thread = 1; thread <= last + 1; ++thread) pyd_trace_record_for(trace, thread, &event, NULL, 0);
  CHECK(pyd_trace_read(trace, last, events, 1) == 1, "the last track has no event");
  pyd_trace_stop(trace);
  CHECK(pyd_ok(pyd_trace_start(trace, 16, 1)), "start with one track");
  pyd_trace_track(trace, last, &track);
  CHECK(!track.thread && !track.recorded && track.worker == PYD_TRACE_NO_WORKER, "a track that is gone");
  CHECK(pyd_trace_read(trace, last, events, 1) == 0, "events of a track that is gone");
  pyd_trace_destroy(trace);
}

// A pool thread that works records no idle time.
static void test_idle_and_working_threads(void) {
  pyd_trace_t* trace = make_trace();
  pyd_sched_t* sched = NULL;
  const pyd_sched_options_t options = {.workers = 1, .trace = trace, .threads = {.are_lent = true}};
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  pyd_sched_thread_t* thread = &sched->threads[0];
  thread->thread.handle = pthread_self();
  pyd_sched_trace_threads(sched);
  thread->is_taken = true;
  pyd_sched_trace_threads(sched);
  CHECK(recorded_by(trace, pyd_trace_this_thread()) == 0, "a thread that works, or is not there, was idle");
  atomic_store(&thread->idle_since, pyd_cpu_ticks());
  pyd_sched_trace_threads(sched);
  CHECK(recorded_by(trace, pyd_trace_this_thread()) == 1, "an idle thread has recorded nothing");
  thread->is_taken = false;
  pyd_sched_destroy(sched);
  pyd_trace_destroy(trace);
}

int main(void) {
  test_track_that_is_written();
  test_free_track_before_a_written_one();
  test_fewer_tracks();
  test_idle_and_working_threads();
  puts("trace tracks: ok");
  return 0;
}
