from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.c_elf cimport pyd_elf_module_t, pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "pydispatch/library.h" nogil:
    ctypedef int (*pyd_dispatch_fn_t)(const void*, const void*, const void*) noexcept
    ctypedef struct pyd_library_exports_t:
        uint32_t count
        const pyd_dispatch_fn_t* ptrs
        const char* const* names
    ctypedef struct pyd_library_t:
        pyd_library_exports_t exports

cdef extern from "pydispatch/executable.h" nogil:
    int PYD_PROCESSOR_DATA_WORDS

    ctypedef struct pyd_resolver_t:
        pass
    ctypedef struct pyd_executable_t:
        pass
    ctypedef struct pyd_executable_options_t:
        const char* name
        const pyd_resolver_t* resolver
        const uint32_t* constants
        uint32_t constant_count
        const uint64_t* processor_data

    ctypedef void* pyd_library_query_fn_t
    pyd_status_t pyd_executable_from_query(
        pyd_library_query_fn_t query, const pyd_executable_options_t* options, pyd_executable_t** out_executable)
    pyd_status_t pyd_executable_from_module(
        pyd_elf_module_t* module, const pyd_executable_options_t* options, pyd_executable_t** out_executable)
    void pyd_executable_free(pyd_executable_t* executable)
    const pyd_library_t* pyd_executable_library(const pyd_executable_t* executable)
    pyd_span_t pyd_executable_image(const pyd_executable_t* executable)
    const pyd_elf_module_t* pyd_executable_module(const pyd_executable_t* executable)
    uint64_t pyd_executable_bias(const pyd_executable_t* executable)
