from libc.stdint cimport int32_t, uint32_t, uint64_t

from pydispatch._core.c_elf cimport pyd_span_t
from pydispatch._core.c_executable cimport pyd_resolver_t
from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "pydispatch/plugin.h" nogil:
    ctypedef struct pyd_plugin_string_t:
        const char* data
        size_t size
    ctypedef struct pyd_plugin_param_t:
        pyd_plugin_string_t key
        pyd_plugin_string_t value
    ctypedef const void* const* (*pyd_plugin_query_fn_t)(uint32_t, void*) noexcept

cdef extern from "pydispatch/library.h" nogil:
    ctypedef int32_t (*pyd_import_fn_t)(void* params, void* context, void* reserved) noexcept

cdef extern from "pydispatch/plugin_host.h" nogil:
    ctypedef enum pyd_plugin_kind_t:
        PYD_PLUGIN_KIND_AUTO
        PYD_PLUGIN_KIND_SYSTEM
        PYD_PLUGIN_KIND_EMBEDDED
        PYD_PLUGIN_KIND_STATIC
    const char* pyd_plugin_kind_name(pyd_plugin_kind_t kind)

    ctypedef struct pyd_plugin_options_t:
        pyd_plugin_kind_t kind
        const char* name
        const pyd_plugin_param_t* params
        size_t param_count
    ctypedef struct pyd_plugin_t:
        pass
    pyd_status_t pyd_plugin_load_file(const char* path, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin)
    pyd_status_t pyd_plugin_load_bytes(pyd_span_t file, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin)
    pyd_status_t pyd_plugin_load_static(
        pyd_plugin_query_fn_t query, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin)
    void pyd_plugin_release(pyd_plugin_t* plugin)
    const char* pyd_plugin_label(const pyd_plugin_t* plugin)
    const char* pyd_plugin_name(const pyd_plugin_t* plugin)
    const char* pyd_plugin_description(const pyd_plugin_t* plugin)
    pyd_plugin_kind_t pyd_plugin_kind(const pyd_plugin_t* plugin)
    bint pyd_plugin_may_print(const pyd_plugin_t* plugin)

    ctypedef struct pyd_plugin_manager_t:
        pass
    ctypedef uint64_t pyd_provider_id_t
    ctypedef struct pyd_provider_function_t:
        const char* name
        pyd_import_fn_t function
        void* context
    pyd_status_t pyd_plugin_manager_create(pyd_plugin_manager_t** out_manager)
    void pyd_plugin_manager_release(pyd_plugin_manager_t* manager)
    pyd_status_t pyd_plugin_manager_add_plugin(
        pyd_plugin_manager_t* manager, pyd_plugin_t* plugin, int32_t priority, pyd_provider_id_t* out_id)
    pyd_status_t pyd_plugin_manager_add_functions(
        pyd_plugin_manager_t* manager, const char* label, const pyd_provider_function_t* functions, size_t count,
        int32_t priority, void (*release)(void* owner) noexcept, void* owner, pyd_provider_id_t* out_id)
    pyd_status_t pyd_plugin_manager_remove(pyd_plugin_manager_t* manager, pyd_provider_id_t id)
    void pyd_plugin_manager_before_fork(pyd_plugin_manager_t* manager)
    void pyd_plugin_manager_after_fork(pyd_plugin_manager_t* manager)

    ctypedef struct pyd_resolution_t:
        pass
    ctypedef struct pyd_resolution_symbol_t:
        const char* name
        bint is_optional
        uint32_t group
        uint32_t provider
        uint32_t asked_count
    ctypedef struct pyd_resolution_provider_t:
        pyd_provider_id_t id
        const char* label
        int32_t priority
    pyd_status_t pyd_resolution_begin(pyd_plugin_manager_t* manager, pyd_resolution_t** out_resolution)
    const pyd_resolver_t* pyd_resolution_resolver(const pyd_resolution_t* resolution)
    void pyd_resolution_settle(pyd_resolution_t* resolution)
    bint pyd_resolution_may_print(const pyd_resolution_t* resolution)
    void pyd_resolution_free(pyd_resolution_t* resolution)
    uint32_t pyd_resolution_provider_count(const pyd_resolution_t* resolution)
    const pyd_resolution_provider_t* pyd_resolution_provider(const pyd_resolution_t* resolution, uint32_t index)
    uint32_t pyd_resolution_symbol_count(const pyd_resolution_t* resolution)
    const pyd_resolution_symbol_t* pyd_resolution_symbol(const pyd_resolution_t* resolution, uint32_t index)

cdef extern from "pydispatch/executable.h" nogil:
    pyd_status_t pyd_imports_resolve(
        const char* executable, uint32_t count, const char* const* symbols, const pyd_resolver_t* resolver,
        pyd_import_fn_t* functions, void** contexts)
