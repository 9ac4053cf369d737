# The way of other extension modules to the one copy of the process-wide state: cimport these, never link csrc/process.
from libc.stdint cimport int32_t

from pydispatch._core.c_process cimport (
    pyd_process_atfork_fn_t,
    pyd_process_code_info_t,
    pyd_process_code_t,
)
from pydispatch._core.c_sched cimport pyd_scope_access_t
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t

cdef pyd_status_t code_register(
    const pyd_process_code_info_t* info, bint perf_map, pyd_process_code_t** out_code) noexcept nogil
cdef void code_unregister(pyd_process_code_t* code) noexcept nogil
cdef pyd_status_t atfork_add(
    void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent,
    pyd_process_atfork_fn_t child) noexcept nogil
cdef void atfork_remove(void* self) noexcept nogil

# Where the threads of this process keep what they work for.
cdef pyd_scope_access_t scope_access() noexcept nogil


# Python's signals as an interrupt of calls on the thread that they come to. When it ends a call, what the signal's
# handler raised is set in the thread.
cdef unsigned long main_thread
cdef pyd_interrupt_t signals


cdef inline const pyd_interrupt_t* interrupt_of(unsigned long thread) noexcept nogil:
    return &signals if thread == main_thread else NULL


# The same for interrupts made elsewhere; `asked` is a uint64_t, 0 when the call begins.
cdef int32_t is_signalled(void* asked) noexcept nogil
