from libc.stdint cimport int32_t

from pydispatch._core.c_status cimport pyd_interrupt_t

# The interrupt by which signals end calls on the main thread, which runs their Python handlers. The exception of the
# handler stays set in the thread.
cdef unsigned long main_thread
cdef pyd_interrupt_t signals


# Returns the interrupt of calls on a thread; NULL if it is not the main thread.
cdef inline const pyd_interrupt_t* interrupt_of(unsigned long thread) noexcept nogil:
    return &signals if thread == main_thread else NULL


# Returns 1 if a handler raised; for interrupts of other modules. |asked|: a uint64_t, 0 when the call begins.
cdef int32_t is_signalled(void* asked) noexcept nogil
