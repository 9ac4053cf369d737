from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.function cimport Function
from pydispatch._core.planned cimport Frame
from pydispatch._core.plan cimport Plan, Slot


# Arguments and results of one call, checked and held. Serves one thread at a time.
cdef class Binding:
    cdef readonly Function function
    cdef readonly Plan plan
    cdef uint64_t* words
    cdef Frame frame
    cdef list packed      # the bytes of packed arguments, as the program reads them
    cdef list inputs      # per argument: the array, or None for a scalar
    cdef list outputs     # per result: the array that is written, or None for a scalar
    cdef list returned    # per result: what the caller gets; None for a scalar
    cdef list detours     # per result: the Block that is written instead and copied, or None
    cdef bint has_detours
    cdef bint copies      # strided arguments; refused otherwise

    cdef int gather(self, object args) except -1
    cdef int rebind(self, object args) except -1
    cdef int bind_outputs(self, object out) except -1
    cdef list given(self, object out)
    cdef bint is_direct(self, uint32_t result, void* data, size_t size) noexcept
    cdef int route(self) except -1
    cdef object collect(self)
    cdef object execute(self, Slot* slot)
