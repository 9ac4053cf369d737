from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.function cimport Function
from pydispatch._core.planned cimport Frame
from pydispatch._core.plan cimport Plan, Slot


# A call with checked arguments and results, which it keeps alive. Only one thread at a time may use it.
cdef class Binding:
    cdef readonly Function function
    cdef readonly Plan plan
    cdef uint64_t* words  # memory of the arrays of `frame`
    cdef Frame frame
    cdef list packed      # packed copies of the arguments whose elements are smaller than a byte
    cdef list inputs      # per argument: the array, or None for a scalar
    cdef list outputs     # per result: the array that is written, or None for a scalar
    cdef list returned    # per result: the object that the caller gets; None for a scalar
    cdef list detours     # per result: the Block that kernels write in place of the array, copied afterwards; or None
    cdef bint has_detours
    cdef bint copies      # whether strided arguments are copied; otherwise they are refused

    cdef int gather(self, object args) except -1
    cdef int rebind(self, object args) except -1
    cdef int bind_outputs(self, object out) except -1
    cdef list given(self, object out)
    cdef bint is_direct(self, uint32_t result, void* data, size_t size) noexcept
    cdef int route(self) except -1
    cdef object collect(self)
    cdef object execute(self, Slot* slot)
