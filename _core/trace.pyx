"""The recorder of traces, one for all devices of the process. `pydispatch.trace` writes its events to a file."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from pydispatch._core.c_trace cimport *
from pydispatch._core.status cimport check

import os
import time
from enum import IntEnum

from pydispatch._core.process_lock import process_lock

check(pyd_trace_create(&recorder))  # as long as the process: schedulers have it


class Kind(IntEnum):
    """Kind of a trace event, see pydispatch/trace.h."""

    CALL = PYD_TRACE_CALL
    SCHEDULE = PYD_TRACE_SCHEDULE
    SUBMIT = PYD_TRACE_SUBMIT
    WAKE = PYD_TRACE_WAKE
    RUN = PYD_TRACE_RUN
    HOST = PYD_TRACE_HOST
    WAIT = PYD_TRACE_WAIT
    IDLE = PYD_TRACE_IDLE


cdef list queued = []  # (queue, name, begin, end, workgroups) of each command, see add_queued
cdef uint64_t most_queued = 0, lost_queued = 0  # maximum length of `queued`; commands that were not added to it
queue_lock = process_lock()


def start(events, threads):
    """Drop all events and start recording.

    events: maximum number of events per thread, and of all device queues together. threads: maximum number of threads
    that are recorded. Raises InvalidArgumentError if a trace is being recorded, or for numbers out of range.
    """
    global most_queued, lost_queued
    # Clamped, as a conversion to uint32_t would raise OverflowError. pyd_trace_start() refuses both bounds.
    check(pyd_trace_start(recorder, min(max(events, 0), 0xFFFFFFFF), min(max(threads, 0), 0xFFFFFFFF)))
    with queue_lock:
        queued.clear()
        most_queued, lost_queued = events, 0


def stop():
    """Stop recording."""
    pyd_trace_stop(recorder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stop)  # the trace belongs to the parent


def is_on():
    """Return whether a trace is being recorded."""
    return pyd_trace_is_on(recorder)


def now():
    """Return the current time as (ticks of the clock of events, nanoseconds of time.monotonic_ns)."""
    before = time.monotonic_ns()
    ticks = pyd_trace_ticks()
    return ticks, (before + time.monotonic_ns()) // 2  # the middle of the two times around the reading of ticks


def begin():
    """Return the begin of a span for `end`, in ticks; 0 while no trace is recorded."""
    return span_begin()


def end(kind, str name, uint64_t begin, bint failed=False):
    """Record the span of this thread from `begin` (ticks, from begin()) until now; nothing if `begin` is 0.

    kind: a Kind. name: of the function or operation.
    """
    span_end(<pyd_trace_kind_t><int>kind, name, begin, failed)


cdef int span_end(pyd_trace_kind_t kind, str name, uint64_t begin, bint has_failed) except -1:
    """Record the span of this thread from `begin`, in ticks, until now; nothing if `begin` is 0."""
    cdef pyd_trace_event_t event
    if not begin:
        return 0
    text = name.encode()
    # first, count: range of workgroups, which a span has not.
    event.begin, event.first, event.count, event.kind, event.has_failed = begin, 0, 0, kind, has_failed
    pyd_trace_record(recorder, &event, <const char*>text, len(text))
    return 0


def add_queued(str queue, str name, begin, end, workgroups):
    """Record a command that a queue of a device ran.

    queue, name: of the queue and the command. begin, end: of time.monotonic_ns. workgroups: their number.
    """
    global lost_queued
    with queue_lock:
        if <uint64_t>len(queued) < most_queued:
            queued.append((queue, name, begin, end, workgroups))
        else:
            lost_queued += 1


def take_queued():
    """Return the arguments of each `add_queued` since the start, and the number of dropped commands."""
    with queue_lock:
        return list(queued), lost_queued


def tracks(events):
    """Return (threads, lost): the events of each recorded thread, and the number of events of other threads.

    events: as for `start`. The results are tuples:

    - A thread is (identifier, worker, recorded, events). worker: its number, None for a thread that is not of a pool.
      recorded: the number of its events. events: a list of those that were not overwritten, oldest first.
    - An event is (kind, name, begin, end, first, count, failed). begin, end: in ticks. first, count: the range of a
      command's workgroups that an event of the kind RUN computed.
    """
    cdef pyd_trace_event_t* read
    cdef pyd_trace_track_t track
    # The recorder rounds the number of events per thread up to a power of two, less than twice that number.
    cdef uint64_t count, k, room = 2 * <uint64_t>events
    read = <pyd_trace_event_t*>malloc(room * sizeof(pyd_trace_event_t))
    if read == NULL:
        raise MemoryError()
    threads = []
    try:
        for i in range(pyd_trace_track_count(recorder)):
            pyd_trace_track(recorder, i, &track)
            if not track.recorded:
                continue
            count = pyd_trace_read(recorder, i, read, room)
            worker = None if track.worker == PYD_TRACE_NO_WORKER else track.worker
            threads.append((track.thread, worker, track.recorded, [event_tuple(&read[k]) for k in range(count)]))
    finally:
        free(read)
    return threads, pyd_trace_without_track(recorder)


cdef tuple event_tuple(const pyd_trace_event_t* event):
    """Return an event as described in `tracks`."""
    name = (<const char*>event.name)[:event.name_length].decode("utf-8", "replace")
    return (event.kind, name, event.begin, event.end, event.first, event.count, bool(event.has_failed))
