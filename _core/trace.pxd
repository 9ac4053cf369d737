# The recorder of traces, which all schedulers of the process share, and functions by which Python code records spans.
from libc.stdint cimport uint64_t

from pydispatch._core.c_trace cimport pyd_trace_is_on, pyd_trace_kind_t, pyd_trace_t, pyd_trace_ticks

cdef pyd_trace_t* recorder


# Returns the begin of a span in ticks; 0 if no trace is recorded: span_end() then does nothing.
cdef inline uint64_t span_begin() noexcept:
    return pyd_trace_ticks() if pyd_trace_is_on(recorder) else 0


cdef int span_end(pyd_trace_kind_t kind, str name, uint64_t begin, bint has_failed) except -1
