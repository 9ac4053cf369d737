from pydispatch._core.c_procedure cimport pyd_state_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.sched cimport Scheduler


# What a loaded program keeps between calls of its procedures. It uses the program of its Module, which owns it unless it is that of a session.
cdef class State:
    cdef pyd_state_t* state
    cdef object owner  # the module of a session: the state uses its program until it is freed
    cdef Scheduler sched
    cdef Pool pool
