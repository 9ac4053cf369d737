// The recorder of pydispatch/trace.h. A track is a ring of events with one writer at a time, which marks the track
// while it writes. A reader copies an event word by word, and then checks whether the writer has overwritten it
// meanwhile. Each word is stored with release order after |writing|, so that a reader that has seen a word of a newer
// event also sees a |writing| that counts this event.
#include "pydispatch/trace.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/aligned.h"
#include "platform/cpu_inline.h"

// Size of an event in words of 64 bits, and the offset of its name in bytes.
enum { kWords = sizeof(pyd_trace_event_t) / sizeof(uint64_t), kNameOffset = offsetof(pyd_trace_event_t, name) };
_Static_assert(sizeof(pyd_trace_event_t) == 128, "two cache lines");

// Bit of an owner that is writing an event.
#define IS_WRITING UINT64_C(1)

// The ring of events of one thread.
typedef struct track_s {
  alignas(PYD_CPU_CACHE_LINE) _Atomic uint64_t owner;  // thread << 1 | IS_WRITING while it writes; 0: free
  _Atomic uint64_t writing;                            // number of events that were begun, over all traces
  _Atomic uint64_t head;    // number of events that were completed; head % events is the next one in the ring
  _Atomic uint64_t from;    // |head| when this trace was started: earlier events do not count
  _Atomic uint32_t worker;  // number of the pool thread, or PYD_TRACE_NO_WORKER
  _Atomic uint64_t* ring;   // |events| times kWords words, in tracks_t.words
} track_t;

// Memory for traces of one size: a hash table of tracks by thread. It lives as long as the recorder, because a thread
// may still write into the memory of an earlier trace.
typedef struct tracks_s {
  struct tracks_s* next;
  uint32_t events, count;   // events in a ring, and number of tracks; both are powers of two
  _Atomic uint64_t* words;  // the rings of all tracks, one after another
  track_t* tracks;
} tracks_t;

// A recorder, with the tracks of the current trace and of earlier ones.
typedef struct recorder_s {
  pyd_trace_t head;                // first member: pyd_trace_t* is cast to recorder_t*
  pthread_mutex_t mutex;           // guards |all| and serializes starts
  tracks_t* all;                   // one entry for each size that was asked for
  _Atomic(tracks_t*) now;          // NULL before the first start
  _Atomic uint64_t without_track;  // events of this trace that were dropped because no track was free
} recorder_t;

// Creates a recorder, which is off and has no memory for events yet.
pyd_status_t pyd_trace_create(pyd_trace_t** out_trace) {
  recorder_t* recorder = calloc(1, sizeof(*recorder));
  *out_trace = recorder ? &recorder->head : NULL;
  if (!recorder) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a recorder of traces");
  pthread_mutex_init(&recorder->mutex, NULL);
  return PYD_STATUS_OK;
}

// Frees a list of tracks with their events.
static void free_tracks(tracks_t* tracks) {
  free(tracks->words);
  pyd_aligned_free(tracks->tracks);
  free(tracks);
}

// Frees a recorder that no thread records to or reads any more.
void pyd_trace_destroy(pyd_trace_t* trace) {
  if (!trace) return;
  recorder_t* recorder = (recorder_t*)trace;
  for (tracks_t *tracks = recorder->all, *next; tracks; tracks = next) {
    next = tracks->next;
    free_tracks(tracks);
  }
  pthread_mutex_destroy(&recorder->mutex);
  free(recorder);
}

// ---- start and stop

// Returns the least power of two that is at least |number|.
static uint32_t round_up(uint32_t number) {
  uint32_t power = 1;
  while (power < number) power *= 2;
  return power;
}

// Allocates |count| free tracks with rings of |events| events each. Returns NULL when out of memory.
static tracks_t* make_tracks(uint32_t events, uint32_t count) {
  tracks_t* tracks = calloc(1, sizeof(*tracks));
  if (!tracks) return NULL;
  *tracks = (tracks_t){.events = events, .count = count};
  // Not touched here, so that the system provides the pages of a ring only when they are written.
  tracks->words = calloc(count, (size_t)events * kWords * sizeof(*tracks->words));
  tracks->tracks = pyd_aligned_alloc(PYD_CPU_CACHE_LINE, count * sizeof(track_t));
  if (!tracks->words || !tracks->tracks) {
    free_tracks(tracks);
    return NULL;
  }
  memset(tracks->tracks, 0, count * sizeof(track_t));
  for (uint32_t i = 0; i < count; ++i) tracks->tracks[i].ring = tracks->words + (size_t)i * events * kWords;
  return tracks;
}

// Returns the memory for traces with |count| tracks of |events| events, both powers of two. The first trace of that
// size creates it. Returns NULL when out of memory. The caller holds the mutex.
static tracks_t* tracks_of(recorder_t* recorder, uint32_t events, uint32_t count) {
  for (tracks_t* tracks = recorder->all; tracks; tracks = tracks->next) {
    if (tracks->events == events && tracks->count == count) return tracks;
  }
  tracks_t* tracks = make_tracks(events, count);
  if (!tracks) return NULL;
  tracks->next = recorder->all;
  return recorder->all = tracks;
}

// Makes the tracks of earlier traces available to any thread, and excludes their events. A track that a thread is just
// writing to remains the track of that thread.
static void forget_events(tracks_t* tracks) {
  for (uint32_t i = 0; i < tracks->count; ++i) {
    track_t* track = &tracks->tracks[i];
    uint64_t owner = atomic_load_explicit(&track->owner, memory_order_relaxed);
    if (!(owner & IS_WRITING)) {
      atomic_compare_exchange_strong_explicit(&track->owner, &owner, 0, memory_order_acquire, memory_order_relaxed);
    }
    atomic_store_explicit(&track->worker, PYD_TRACE_NO_WORKER, memory_order_relaxed);
    atomic_store_explicit(&track->from, atomic_load_explicit(&track->head, memory_order_acquire), memory_order_release);
  }
}

// Starts a trace with arguments that pyd_trace_start() has checked. The caller holds the mutex.
static pyd_status_t start_trace(recorder_t* recorder, uint32_t events, uint32_t threads) {
  if (pyd_trace_is_on(&recorder->head)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "trace: one is being recorded; stop it first");
  }
  tracks_t* tracks = tracks_of(recorder, round_up(events), round_up(threads));
  if (!tracks) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY,
                           "trace: no memory for %u events of each of %u threads; ask for fewer", events, threads);
  }
  forget_events(tracks);
  atomic_store_explicit(&recorder->without_track, 0, memory_order_relaxed);
  atomic_store_explicit(&recorder->now, tracks, memory_order_release);
  __atomic_store_n(&recorder->head.is_on, 1, __ATOMIC_RELEASE);  // last: from here on threads record
  return PYD_STATUS_OK;
}

// Discards all events and starts recording: |threads| tracks with the newest |events| events of a thread each. Both
// numbers are rounded up to powers of two.
pyd_status_t pyd_trace_start(pyd_trace_t* trace, uint32_t events, uint32_t threads) {
  if (!events || events > PYD_TRACE_MAX_EVENTS || !threads || threads > PYD_TRACE_MAX_THREADS) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "trace: %u events of each of %u threads asked for; 1 to %u of 1 to %u are possible", events,
                           threads, PYD_TRACE_MAX_EVENTS, PYD_TRACE_MAX_THREADS);
  }
  recorder_t* recorder = (recorder_t*)trace;
  pthread_mutex_lock(&recorder->mutex);
  pyd_status_t status = start_trace(recorder, events, threads);
  pthread_mutex_unlock(&recorder->mutex);
  return status;
}

void pyd_trace_stop(pyd_trace_t* trace) { __atomic_store_n(&trace->is_on, 0, __ATOMIC_RELEASE); }

// ---- recording

// Returns the track that a search for |thread| looks at in its step |probe|, from 0 on: linear probing of the hash
// table from the hash of |thread|. The number of tracks is a power of two.
static track_t* probe_track(const tracks_t* tracks, uint64_t thread, uint32_t probe) {
  const uint64_t hash = thread * UINT64_C(0x9E3779B97F4A7C15) >> 32;  // 2^64 over the golden ratio
  return &tracks->tracks[(hash + probe) & (tracks->count - 1)];
}

// Marks |track| as one that |thread| is writing to, if its owner is |expected|: 0, or the thread itself. Returns
// whether the owner was the expected one.
static bool take_track(track_t* track, uint64_t expected, uint64_t thread) {
  return atomic_compare_exchange_strong_explicit(&track->owner, &expected, thread << 1 | IS_WRITING,
                                                 memory_order_acquire, memory_order_relaxed);
}

// Returns the track of |thread|, or a free one that becomes its track, marked as being written. Returns NULL if all
// tracks belong to other threads, or if another thread is writing an event to this track by pyd_trace_record_for(). All
// tracks are searched before a free one is taken, as forget_events() may have freed one before the track of the thread.
static track_t* begin_writing(const tracks_t* tracks, uint64_t thread) {
  const uint64_t mine = thread << 1;
  bool has_free = false;
  for (uint32_t i = 0; i < tracks->count; ++i) {
    track_t* track = probe_track(tracks, thread, i);
    const uint64_t owner = atomic_load_explicit(&track->owner, memory_order_relaxed);
    if (owner == (mine | IS_WRITING)) return NULL;
    if (owner == mine && take_track(track, mine, thread)) return track;
    has_free |= owner == mine || owner == 0;  // a track of this thread that could not be taken has just become free
  }
  for (uint32_t i = 0; has_free && i < tracks->count; ++i) {
    track_t* track = probe_track(tracks, thread, i);
    if (!atomic_load_explicit(&track->owner, memory_order_relaxed) && take_track(track, 0, thread)) return track;
  }
  return NULL;
}

// Writes the words of |event| that are in use, up to the end of its name, as the next event of |track|.
static void write_event(const tracks_t* tracks, track_t* track, const pyd_trace_event_t* event) {
  uint64_t words[kWords];
  const uint32_t count = (kNameOffset + event->name_length + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  memcpy(words, event, sizeof(words));
  const uint64_t at = atomic_load_explicit(&track->head, memory_order_relaxed);
  // at % events, as |events| is a power of two.
  _Atomic uint64_t* slot = track->ring + (at & (tracks->events - 1)) * kWords;
  atomic_store_explicit(&track->writing, at + 1, memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) atomic_store_explicit(&slot[i], words[i], memory_order_release);
  atomic_store_explicit(&track->head, at + 1, memory_order_release);
}

// Records |event|, with its begin and end, in the track of |thread|, which need not be the calling thread. Drops and
// counts the event if no track is free. A name longer than PYD_TRACE_NAME_BYTES is cut.
void pyd_trace_record_for(pyd_trace_t* trace, uint64_t thread, const pyd_trace_event_t* event, const char* name,
                          size_t name_length) {
  recorder_t* recorder = (recorder_t*)trace;
  const tracks_t* tracks = atomic_load_explicit(&recorder->now, memory_order_acquire);
  if (!tracks) return;
  track_t* track = begin_writing(tracks, thread);
  if (!track) {
    atomic_fetch_add_explicit(&recorder->without_track, 1, memory_order_relaxed);
    return;
  }
  pyd_trace_event_t copy;
  memcpy(&copy, event, kNameOffset);  // without the name, which the caller may have left uninitialized
  copy.name_length = (uint16_t)(name_length < PYD_TRACE_NAME_BYTES ? name_length : PYD_TRACE_NAME_BYTES);
  if (copy.name_length) memcpy(copy.name, name, copy.name_length);
  memset(copy.name + copy.name_length, 0, PYD_TRACE_NAME_BYTES - copy.name_length);
  write_event(tracks, track, &copy);
  atomic_store_explicit(&track->owner, thread << 1, memory_order_release);
}

// Records an event of the calling thread, from |event->begin| until now.
void pyd_trace_record(pyd_trace_t* trace, const pyd_trace_event_t* event, const char* name, size_t name_length) {
  pyd_trace_event_t ended;
  memcpy(&ended, event, kNameOffset);
  ended.end = pyd_cpu_ticks();
  pyd_trace_record_for(trace, pyd_trace_this_thread(), &ended, name, name_length);
}

// Labels the track of |thread| as that of pool thread |worker|.
void pyd_trace_label(pyd_trace_t* trace, uint64_t thread, uint32_t worker) {
  const tracks_t* tracks = atomic_load_explicit(&((recorder_t*)trace)->now, memory_order_acquire);
  for (uint32_t i = 0; tracks && i < tracks->count; ++i) {
    track_t* track = probe_track(tracks, thread, i);
    const uint64_t owner = atomic_load_explicit(&track->owner, memory_order_relaxed) & ~IS_WRITING;
    if (owner != thread << 1) continue;  // also after a free track, see begin_writing()
    atomic_store_explicit(&track->worker, worker, memory_order_relaxed);
    return;
  }
}

uint64_t pyd_trace_this_thread(void) { return (uint64_t)(uintptr_t)pthread_self(); }
uint64_t pyd_trace_ticks(void) { return pyd_cpu_ticks(); }

// ---- reading

static const tracks_t* tracks_now(pyd_trace_t* trace) {
  return atomic_load_explicit(&((recorder_t*)trace)->now, memory_order_acquire);
}

// Returns whether there is a track |number|. Another thread may have started a trace with fewer tracks than the reader
// has counted. |tracks|: NULL before the first start.
static bool has_track(const tracks_t* tracks, uint32_t number) { return tracks && number < tracks->count; }

// Returns the number of tracks of the last trace, including those without a thread; 0 before the first start.
uint32_t pyd_trace_track_count(pyd_trace_t* trace) {
  const tracks_t* tracks = tracks_now(trace);
  return tracks ? tracks->count : 0;
}

// Returns the number of events that were completed in a track since this trace was started, and in |*out_head| since
// the recorder was created. |head| is read after |from|, and only grows: so the difference is not negative, even if
// another trace starts in between and raises |from| to |head|.
static uint64_t count_recorded(track_t* track, uint64_t* out_head) {
  const uint64_t from = atomic_load_explicit(&track->from, memory_order_acquire);
  *out_head = atomic_load_explicit(&track->head, memory_order_acquire);
  return *out_head - from;
}

// Describes track |number|: its thread and the number of its events.
void pyd_trace_track(pyd_trace_t* trace, uint32_t number, pyd_trace_track_t* out_track) {
  const tracks_t* tracks = tracks_now(trace);
  *out_track = (pyd_trace_track_t){.worker = PYD_TRACE_NO_WORKER};
  if (!has_track(tracks, number)) return;
  track_t* track = &tracks->tracks[number];
  out_track->thread = atomic_load_explicit(&track->owner, memory_order_relaxed) >> 1;
  out_track->worker = atomic_load_explicit(&track->worker, memory_order_relaxed);
  uint64_t head;
  out_track->recorded = count_recorded(track, &head);
}

// Copies the newest events of track |number|, at most |room|, to |out_events|, oldest first. Skips events that the
// thread overwrites meanwhile. Returns how many were copied.
uint64_t pyd_trace_read(pyd_trace_t* trace, uint32_t number, pyd_trace_event_t* out_events, uint64_t room) {
  const tracks_t* tracks = tracks_now(trace);
  if (!has_track(tracks, number)) return 0;
  track_t* track = &tracks->tracks[number];
  uint64_t head;
  const uint64_t recorded = count_recorded(track, &head);
  // A ring has the newest |events| of them; |count| is how many were copied.
  uint64_t kept = recorded < tracks->events ? recorded : tracks->events, count = 0;
  if (kept > room) kept = room;
  for (uint64_t at = head - kept; at < head; ++at) {  // |at| counts the events of the track over all traces
    _Atomic uint64_t* slot = track->ring + (at & (tracks->events - 1)) * kWords;
    uint64_t words[kWords];
    for (uint32_t i = 0; i < kWords; ++i) words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    // Event at + events is stored in the same place: if it was begun meanwhile, the copied words may be from it.
    if (atomic_load_explicit(&track->writing, memory_order_relaxed) > at + tracks->events) continue;
    memcpy(&out_events[count++], words, sizeof(words));
  }
  return count;
}

uint64_t pyd_trace_without_track(pyd_trace_t* trace) {
  return atomic_load_explicit(&((recorder_t*)trace)->without_track, memory_order_relaxed);
}
