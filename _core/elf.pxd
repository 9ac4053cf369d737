from pydispatch._core.c_elf cimport pyd_elf_module_t
from pydispatch._core.c_process cimport pyd_process_code_t
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.lock cimport pyd_lock_t

# Registers a module that was loaded from |file| with debuggers, and with perf if |perf_map|. The caller unregisters
# |out_code| with pyd_process_code_unregister() before it unloads the module.
cdef pyd_status_t announce(
    pyd_span_t file, const pyd_elf_module_t* module, const char* name, bint perf_map,
    pyd_process_code_t** out_code) noexcept nogil


cdef class Module:
    cdef pyd_elf_module_t module
    cdef pyd_process_code_t* code
    cdef pyd_lock_t lock

    # Returns the address of a symbol; NULL if there is none, or after close().
    cdef void* find(self, const char* name) noexcept nogil
