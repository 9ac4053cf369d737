"""The state that a process has once: code announced to debuggers and profilers, and fork handlers.

Nothing here is for Python; process.pxd exports it to the other extension modules.
"""

from pydispatch._core.c_process cimport (
    pyd_process_atfork_add,
    pyd_process_atfork_fn_t,
    pyd_process_atfork_remove,
    pyd_process_code_info_t,
    pyd_process_code_register,
    pyd_process_code_t,
    pyd_process_code_unregister,
)
from pydispatch._core.c_status cimport pyd_status_t


cdef pyd_status_t code_register(
        const pyd_process_code_info_t* info, bint perf_map, pyd_process_code_t** out_code) noexcept nogil:
    return pyd_process_code_register(info, perf_map, out_code)


cdef void code_unregister(pyd_process_code_t* code) noexcept nogil:
    pyd_process_code_unregister(code)


cdef pyd_status_t atfork_add(
        void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent,
        pyd_process_atfork_fn_t child) noexcept nogil:
    return pyd_process_atfork_add(self, prepare, parent, child)


cdef void atfork_remove(void* self) noexcept nogil:
    pyd_process_atfork_remove(self)
