from libc.stdint cimport uint32_t

from pydispatch._core.c_procedure cimport pyd_input_t, pyd_invocation_t, pyd_state_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.program cimport Module
from pydispatch._core.sched cimport Scheduler


# What a loaded program keeps between calls of its procedures. Owned by its Module alone, whose program it uses.
cdef class State:
    cdef pyd_state_t* state
    cdef Scheduler sched
    cdef Pool pool


# A public procedure. Looks like a Function from outside.
cdef class Procedure:
    cdef readonly str name
    cdef readonly str signature
    cdef Module module
    cdef State state
    cdef object verify
    cdef uint32_t index
    cdef uint32_t arg_count, result_count
    cdef tuple arg_types, arg_names, arg_dims, result_types, result_ranks

    cdef list gather(self, object args, pyd_input_t* inputs)
    cdef object invoke(self, pyd_input_t* inputs, object out)
    cdef list given(self, object out)
    cdef object finish(self, pyd_invocation_t* invocation, list given)
    cdef object result(self, pyd_invocation_t* invocation, uint32_t index)
    cdef list observed(self, pyd_invocation_t* invocation)
