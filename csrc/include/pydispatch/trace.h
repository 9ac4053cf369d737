// A recorder of timeline events. Each thread that records has a track: a ring of fixed size, which it alone
// writes, without a lock and without allocating. A full ring overwrites its oldest events; how many were lost is
// counted. An event has a copy of its name, so that it can be read after its program was freed.
//
// The options of a scheduler (pyd_sched_options_t) name the recorder of its threads and calls, which outlives the
// scheduler. Any thread may call any function here at any time, except create and destroy.
#ifndef PYDISPATCH_TRACE_H_
#define PYDISPATCH_TRACE_H_

#include <stddef.h>

#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a thread does during an event.
typedef enum pyd_trace_kind_e {
  PYD_TRACE_CALL = 0,      // a function or procedure on the calling thread
  PYD_TRACE_SCHEDULE = 1,  // a plan is looked up or created
  PYD_TRACE_SUBMIT = 2,    // a call is submitted to the pool or to a device's queue
  PYD_TRACE_WAKE = 3,      // pool threads are woken; the count is how many
  PYD_TRACE_RUN = 4,       // workgroups of a dispatch, or chunks of a fill or copy
  PYD_TRACE_HOST = 5,      // a host command
  PYD_TRACE_WAIT = 6,      // at the end of a job, for a compute permit, for a submitted call, or for a device
  PYD_TRACE_IDLE = 7,      // a pool thread without work: it searches, or sleeps
} pyd_trace_kind_t;

#define PYD_TRACE_NAME_BYTES 92  // a longer name is cut
#define PYD_TRACE_NO_WORKER UINT32_MAX
#define PYD_TRACE_MAX_EVENTS (1u << 24)
#define PYD_TRACE_MAX_THREADS (1u << 12)

// An interval of one thread's time.
typedef struct pyd_trace_event_s {
  uint64_t begin, end;    // ticks, see pyd_trace_ticks
  uint64_t first, count;  // RUN, HOST: indices of the command, |count| of them from |first| on; WAKE: |count| threads
  uint8_t kind;           // pyd_trace_kind_t
  uint8_t has_failed;     // 1: the call, submission or command failed
  uint16_t name_length;
  char name[PYD_TRACE_NAME_BYTES];  // not terminated
} pyd_trace_event_t;

// The events of one thread.
typedef struct pyd_trace_track_s {
  uint64_t thread;    // pthread_self; 0: no thread has recorded on this track
  uint32_t worker;    // of a pool thread, else PYD_TRACE_NO_WORKER
  uint64_t recorded;  // number of events since pyd_trace_start, including overwritten ones
} pyd_trace_track_t;

// The head of a recorder; the rest is private.
typedef struct pyd_trace_s {
  uint32_t is_on;  // accessed atomically
} pyd_trace_t;

// Creates a recorder, which is off and has no memory for events yet.
pyd_status_t pyd_trace_create(pyd_trace_t** out_trace);
// Frees a recorder that no thread records to or reads any more. NULL is allowed.
void pyd_trace_destroy(pyd_trace_t* trace);

// Discards all events and starts recording. |events|: capacity of a track. |threads|: maximum number of tracks. Both
// are rounded up to powers of two. Memory is touched as it is used. INVALID_ARGUMENT when it is on, or for numbers that
// are 0 or too large.
pyd_status_t pyd_trace_start(pyd_trace_t* trace, uint32_t events, uint32_t threads);
// Events stay until the next start. One that a thread is just recording may still come.
void pyd_trace_stop(pyd_trace_t* trace);

// |trace| may be NULL.
static inline int pyd_trace_is_on(const pyd_trace_t* trace) {
  return trace && __atomic_load_n(&trace->is_on, __ATOMIC_RELAXED);
}

// Records what the calling thread did from |event->begin| until now, also just after a stop. |event->name| is not read.
void pyd_trace_record(pyd_trace_t* trace, const pyd_trace_event_t* event, const char* name, size_t name_length);
// Records an event of another thread, which must not record at the same time; |event->end| is set by the caller.
void pyd_trace_record_for(pyd_trace_t* trace, uint64_t thread, const pyd_trace_event_t* event, const char* name,
                          size_t name_length);
// Labels the track of |thread| as that of pool thread |worker|. Ignored if the thread has no track.
void pyd_trace_label(pyd_trace_t* trace, uint64_t thread, uint32_t worker);
uint64_t pyd_trace_this_thread(void);
uint64_t pyd_trace_ticks(void);

// Tracks are numbered from 0; this many may be in use. Tracks with higher numbers are empty.
uint32_t pyd_trace_track_count(pyd_trace_t* trace);
void pyd_trace_track(pyd_trace_t* trace, uint32_t track, pyd_trace_track_t* out_track);
// Copies the newest |room| events that were not overwritten, oldest first, and returns their number. All other recorded
// events are lost.
uint64_t pyd_trace_read(pyd_trace_t* trace, uint32_t track, pyd_trace_event_t* out_events, uint64_t room);
// Returns the number of events since the start that were dropped because their threads had no track.
uint64_t pyd_trace_without_track(pyd_trace_t* trace);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_TRACE_H_
