# The way of other extension modules to the one copy of the process-wide state: cimport these, never link csrc/process.
from pydispatch._core.c_process cimport (
    pyd_process_atfork_fn_t,
    pyd_process_code_info_t,
    pyd_process_code_t,
)
from pydispatch._core.c_status cimport pyd_status_t

cdef pyd_status_t code_register(
    const pyd_process_code_info_t* info, bint perf_map, pyd_process_code_t** out_code) noexcept nogil
cdef void code_unregister(pyd_process_code_t* code) noexcept nogil
cdef pyd_status_t atfork_add(
    void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent,
    pyd_process_atfork_fn_t child) noexcept nogil
cdef void atfork_remove(void* self) noexcept nogil
