# The task system for other extension modules: hold the Scheduler while its pointer is in use.
from pydispatch._core.c_sched cimport pyd_sched_t


cdef class Scheduler:
    cdef pyd_sched_t* sched
    cdef object __weakref__
