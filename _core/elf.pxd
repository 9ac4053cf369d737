from pydispatch._core.c_elf cimport pyd_elf_module_t
from pydispatch._core.c_process cimport pyd_process_code_t
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.lock cimport pyd_lock_t

# Tells gdb (and perf, with |perf_map|) about a module loaded from |file|; take it back with process.code_unregister
# before unloading.
cdef pyd_status_t announce(
    pyd_span_t file, const pyd_elf_module_t* module, const char* name, bint perf_map,
    pyd_process_code_t** out_code) noexcept nogil


cdef class Module:
    cdef pyd_elf_module_t module
    cdef pyd_process_code_t* code
    cdef pyd_lock_t lock

    # The address of a symbol, or NULL; also NULL after close().
    cdef void* find(self, const char* name) noexcept nogil
