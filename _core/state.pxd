from pydispatch._core.c_procedure cimport pyd_state_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.sched cimport Scheduler


# The state of a loaded program between calls of its procedures. It uses the program of its Module. The Module owns it,
# unless it is the state of a session.
cdef class State:
    cdef pyd_state_t* state
    cdef object owner  # the module of a session: the state uses its program until it is freed
    cdef Scheduler sched
    cdef Pool pool
    cdef object order  # the SubmissionOrder of calls that use the globals
