from pydispatch._core.c_program cimport pyd_derived_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.sched cimport Scheduler


# The memory of derived constants. Programs that use the memory keep this object alive.
cdef class Derived:
    cdef pyd_derived_t* derived
    cdef Scheduler sched
    cdef Pool pool
    cdef object __weakref__
