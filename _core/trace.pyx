"""The recorder of traces: one for all devices of the process. `pydispatch.trace` makes a file of what it has."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from pydispatch._core.c_trace cimport *
from pydispatch._core.status cimport check

import os
import threading
import time
from enum import IntEnum

check(pyd_trace_create(&recorder))  # as long as the process: schedulers have it


class Kind(IntEnum):
    """What an event is; pydispatch/trace.h says what each of them means."""

    CALL = PYD_TRACE_CALL
    SCHEDULE = PYD_TRACE_SCHEDULE
    SUBMIT = PYD_TRACE_SUBMIT
    WAKE = PYD_TRACE_WAKE
    RUN = PYD_TRACE_RUN
    HOST = PYD_TRACE_HOST
    WAIT = PYD_TRACE_WAIT
    IDLE = PYD_TRACE_IDLE


cdef list queued = []
cdef uint64_t most_queued = 0, lost_queued = 0
queue_lock = threading.Lock()


def start(events, threads):
    """Forgets all events and records from now on. events: for each thread, and for all queues of devices together;
    threads: that may have a track. InvalidArgumentError when a trace is on, or for numbers out of range."""
    global most_queued, lost_queued
    check(pyd_trace_start(recorder, min(max(events, 0), 0xFFFFFFFF), min(max(threads, 0), 0xFFFFFFFF)))
    with queue_lock:
        queued.clear()
        most_queued, lost_queued = events, 0


def stop():
    """Records no more."""
    pyd_trace_stop(recorder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stop)  # the trace is the parent's


def is_on():
    """Whether a trace is being recorded."""
    return pyd_trace_is_on(recorder)


def now():
    """A moment as (ticks, nanoseconds): of the clock of events, and of time.monotonic_ns."""
    before = time.monotonic_ns()
    ticks = pyd_trace_ticks()
    return ticks, (before + time.monotonic_ns()) // 2


def begin():
    """When a span begins, for `end`; 0 when no trace is on."""
    return span_begin()


def end(kind, str name, uint64_t begin, bint failed=False):
    """The span that began with `begin` ends on this thread. name: of a function, or what is done."""
    span_end(<pyd_trace_kind_t><int>kind, name, begin, failed)


cdef int span_end(pyd_trace_kind_t kind, str name, uint64_t begin, bint has_failed) except -1:
    cdef pyd_trace_event_t event
    if not begin:
        return 0
    text = name.encode()
    event.begin, event.first, event.count, event.kind, event.has_failed = begin, 0, 0, kind, has_failed
    pyd_trace_record(recorder, &event, <const char*>text, len(text))
    return 0


def add_queued(str queue, str name, begin, end, workgroups):
    """A command that a queue of a device ran. begin, end: of time.monotonic_ns."""
    global lost_queued
    with queue_lock:
        if <uint64_t>len(queued) < most_queued:
            queued.append((queue, name, begin, end, workgroups))
        else:
            lost_queued += 1


def take_queued():
    """(those events, how many were lost)."""
    with queue_lock:
        return list(queued), lost_queued


def tracks(events):
    """Of each thread that recorded: (its identifier, its number in the pool or None, how many events it recorded, those
    that are left: (kind, name, begin, end, first, count, failed), begin and end in ticks). And how many events were of
    threads without a track. events: as for `start`."""
    cdef pyd_trace_event_t* read
    cdef pyd_trace_track_t track
    cdef uint64_t count, k, room = 2 * <uint64_t>events  # it is rounded up to a power of two
    cdef pyd_trace_event_t* e
    read = <pyd_trace_event_t*>malloc(room * sizeof(pyd_trace_event_t))
    if read == NULL:
        raise MemoryError()
    found = []
    try:
        for i in range(pyd_trace_track_count(recorder)):
            pyd_trace_track(recorder, i, &track)
            if not track.recorded:
                continue
            count = pyd_trace_read(recorder, i, read, room)
            made = []
            for k in range(count):
                e = &read[k]
                name = (<char*>e.name)[:e.name_length].decode("utf-8", "replace")
                made.append((e.kind, name, e.begin, e.end, e.first, e.count, bool(e.has_failed)))
            worker = None if track.worker == PYD_TRACE_NO_WORKER else track.worker
            found.append((track.thread, worker, track.recorded, made))
    finally:
        free(read)
    return found, pyd_trace_without_track(recorder)
