from pydispatch._core.c_procedure cimport pyd_state_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.sched cimport Scheduler


# What a loaded program keeps between calls of its procedures. Owned by its Module alone, whose program it uses.
cdef class State:
    cdef pyd_state_t* state
    cdef Scheduler sched
    cdef Pool pool
