from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "pydispatch/trace.h" nogil:
    enum:
        PYD_TRACE_NO_WORKER
    ctypedef enum pyd_trace_kind_t:
        PYD_TRACE_CALL
        PYD_TRACE_SCHEDULE
        PYD_TRACE_SUBMIT
        PYD_TRACE_WAKE
        PYD_TRACE_RUN
        PYD_TRACE_HOST
        PYD_TRACE_WAIT
        PYD_TRACE_IDLE
    ctypedef struct pyd_trace_event_t:
        uint64_t begin
        uint64_t end
        uint64_t first
        uint64_t count
        uint8_t kind
        uint8_t has_failed
        uint16_t name_length
        char name[1]
    ctypedef struct pyd_trace_track_t:
        uint64_t thread
        uint32_t worker
        uint64_t recorded
    ctypedef struct pyd_trace_t:
        pass
    pyd_status_t pyd_trace_create(pyd_trace_t** out_trace)
    pyd_status_t pyd_trace_start(pyd_trace_t* trace, uint32_t events, uint32_t threads)
    void pyd_trace_stop(pyd_trace_t* trace)
    bint pyd_trace_is_on(const pyd_trace_t* trace)
    void pyd_trace_record(pyd_trace_t* trace, const pyd_trace_event_t* event, const char* name, size_t name_length)
    uint64_t pyd_trace_ticks()
    uint32_t pyd_trace_track_count(pyd_trace_t* trace)
    void pyd_trace_track(pyd_trace_t* trace, uint32_t track, pyd_trace_track_t* out_track)
    uint64_t pyd_trace_read(pyd_trace_t* trace, uint32_t track, pyd_trace_event_t* out_events, uint64_t room)
    uint64_t pyd_trace_without_track(pyd_trace_t* trace)
