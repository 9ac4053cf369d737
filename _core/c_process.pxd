from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.c_sched cimport pyd_permits_t, pyd_scope_t
from pydispatch._core.c_status cimport pyd_status_t


cdef extern from "pydispatch/process.h" nogil:
    ctypedef struct pyd_process_symbol_t:
        const char* name
        const void* address
        uint64_t size
        bint is_function

    ctypedef struct pyd_process_code_info_t:
        const char* name
        const void* address
        uint64_t size
        uint32_t machine
        const pyd_process_symbol_t* symbols
        size_t symbol_count

    ctypedef struct pyd_process_code_t:
        pass

    ctypedef void (*pyd_process_atfork_fn_t)(void* self) noexcept nogil

    pyd_status_t pyd_process_code_register(
        const pyd_process_code_info_t* info, bint perf_map, pyd_process_code_t** out_code)
    void pyd_process_code_unregister(pyd_process_code_t* code)
    pyd_status_t pyd_process_atfork_add(
        void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent, pyd_process_atfork_fn_t child)
    void pyd_process_atfork_remove(void* self)
    ctypedef void (*pyd_process_retain_fn_t)(void* self) noexcept nogil
    pyd_status_t pyd_process_number_add(uint64_t number, void* self, pyd_process_retain_fn_t retain)
    void pyd_process_number_remove(uint64_t number)
    const pyd_scope_t* pyd_process_scope_get()
    void pyd_process_scope_set(const pyd_scope_t* scope)
    pyd_permits_t* pyd_process_permits()
