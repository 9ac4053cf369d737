from libc.stdint cimport int32_t

from pydispatch._core.c_status cimport pyd_interrupt_t

# Python's signals as an interrupt of calls on the thread that they come to. When it ends a call, what the signal's
# handler raised is set in the thread.
cdef unsigned long main_thread
cdef pyd_interrupt_t signals


cdef inline const pyd_interrupt_t* interrupt_of(unsigned long thread) noexcept nogil:
    return &signals if thread == main_thread else NULL


# The same for interrupts made elsewhere; `asked` is a uint64_t, 0 when the call begins.
cdef int32_t is_signalled(void* asked) noexcept nogil
