// Events that calls of a program record in a trace.
#ifndef PYD_PROGRAM_TRACED_H_
#define PYD_PROGRAM_TRACED_H_

#include <string.h>

#include "pydispatch/program.h"

// Returns an event that begins now. It holds a copy of the name, cut off after PYD_TRACE_NAME_BYTES bytes, as the owner
// of the name may be gone when the event ends.
static inline pyd_trace_event_t pyd_event_begin(pyd_trace_kind_t kind, pyd_string_t name) {
  pyd_trace_event_t event = {.kind = (uint8_t)kind};
  event.name_length = (uint16_t)(name.length < PYD_TRACE_NAME_BYTES ? name.length : PYD_TRACE_NAME_BYTES);
  if (event.name_length) memcpy(event.name, name.data, event.name_length);
  event.begin = pyd_trace_ticks();
  return event;
}

// Records |event|, which ends now, in |trace|, with whether |status| is a failure. Does not free the status.
static inline void pyd_event_end(pyd_trace_t* trace, pyd_trace_event_t* event, pyd_status_t status) {
  event->has_failed = !pyd_ok(status);
  pyd_trace_record(trace, event, event->name, event->name_length);
}

#endif  // PYD_PROGRAM_TRACED_H_
