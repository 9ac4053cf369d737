# The C function table of pydispatch/api.h for Cython; docs/embedding.md shows a whole extension. Modules that cimport
# from here need include_dirs=[pydispatch.get_include()]:
#
#   from pydispatch._core.capi cimport api, pyd_api_t
#   from pydispatch._core.status cimport check       # raises for a status that is no success, and frees it
#   cdef const pyd_api_t* pd = api()
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from pydispatch._core.c_pool cimport pyd_allocator_t
from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "pydispatch/api.h" nogil:
    uint32_t PYD_API_TENSOR
    uint32_t PYD_API_SCALAR
    uint32_t PYD_API_I8, PYD_API_I16, PYD_API_I32, PYD_API_I64, PYD_API_BOOL
    uint32_t PYD_API_F16, PYD_API_F32, PYD_API_F64, PYD_API_BF16

    ctypedef struct pyd_api_device_t:
        pass
    ctypedef struct pyd_api_program_t:
        pass
    ctypedef struct pyd_api_call_t:
        pass
    ctypedef struct pyd_api_value_t:
        uint32_t kind
        uint32_t dtype
        uint32_t element_bytes
        uint32_t rank
        const int64_t* dims
        const char* name
    ctypedef struct pyd_api_function_t:
        const char* name
        const char* signature
        uint32_t argument_count
        uint32_t result_count
        uint32_t dims_count
        uint32_t scalar_count
        const pyd_api_value_t* const* arguments
        const pyd_api_value_t* const* results
    ctypedef struct pyd_api_memory_t:
        pass
    ctypedef struct pyd_api_memory_info_t:
        size_t struct_size
        void* data
        uint64_t offset
        uint32_t dtype
        uint32_t rank
        const int64_t* dims
        const int64_t* strides
        uint32_t is_read_only
        uint32_t reserved
        void (*release)(void* context) noexcept nogil
        void* context
    ctypedef struct pyd_api_parameter_t:
        const char* scope
        const char* key
        pyd_api_memory_t* memory
    ctypedef struct pyd_api_parameter_file_t:
        const char* scope
        const char* path
    ctypedef struct pyd_api_load_t:
        size_t struct_size
        const char* path
        const void* data
        size_t size
        const pyd_api_parameter_t* parameters
        const pyd_api_parameter_file_t* files
        uint32_t parameter_count
        uint32_t file_count
    ctypedef struct pyd_api_cost_t:
        uint32_t words[4]

    ctypedef struct pyd_api_interrupt_t:
        size_t size
        int32_t (*is_wanted)(void* context) noexcept nogil
        void* context

    ctypedef struct pyd_api_device_options_t:
        size_t struct_size
        uint32_t workers
        uint32_t lends_threads
        void (*on_thread_start)(void* context, uint32_t worker) noexcept nogil
        void (*on_thread_stop)(void* context, uint32_t worker) noexcept nogil
        void* context
        const pyd_allocator_t* allocator

    uint32_t PYD_API_PRIORITY_NORMAL, PYD_API_PRIORITY_HIGH, PYD_API_PRIORITY_LOW
    uint32_t PYD_API_PENDING, PYD_API_SUCCEEDED, PYD_API_FAILED, PYD_API_CANCELLED, PYD_API_SKIPPED
    uint64_t PYD_API_FOREVER
    ctypedef struct pyd_api_event_t:
        pass
    ctypedef struct pyd_api_submit_t:
        size_t struct_size
        uint32_t priority
        uint32_t after_count
        pyd_api_event_t* const* after
        void (*on_done)(void* context, pyd_api_event_t* event) noexcept nogil
        void* context

    ctypedef struct pyd_api_text_t:
        const char* data
        size_t length
    ctypedef struct pyd_api_executable_t:
        size_t struct_size
        pyd_api_text_t name
        uint32_t variant
        uint32_t variant_count
        uint32_t export_count
        uint32_t import_count
        const char* const* imports
    uint32_t PYD_API_COMMAND_DISPATCH, PYD_API_COMMAND_FILL, PYD_API_COMMAND_COPY, PYD_API_COMMAND_HOST
    ctypedef struct pyd_api_command_t:
        size_t struct_size
        uint32_t kind
        uint32_t region
        pyd_api_text_t executable
        pyd_api_text_t name
        uint32_t grid[3]
        uint64_t bytes
    ctypedef struct pyd_api_time_t:
        uint64_t begin
        uint64_t end

    ctypedef int32_t (*pyd_api_body_fn_t)(void* context, uint32_t x, uint32_t y, uint32_t z) noexcept nogil
    ctypedef int32_t (*pyd_api_range_fn_t)(
        void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) noexcept nogil

    ctypedef int (*pyd_plugin_fn_t)(void* params, void* context, void* reserved) noexcept nogil
    ctypedef struct pyd_plugin_header_t:
        pass
    ctypedef const pyd_plugin_header_t* const* (*pyd_plugin_query_fn_t)(
        uint32_t max_version, void* reserved) noexcept nogil

    ctypedef struct pyd_api_t:
        uint32_t version
        uint32_t size
        uint32_t (*status_code)(pyd_status_t) noexcept nogil
        const char* (*status_text)(pyd_status_t) noexcept nogil
        const int64_t* (*status_values)(pyd_status_t) noexcept nogil
        void (*status_free)(pyd_status_t) noexcept nogil
        pyd_status_t (*device_open)(const char* name, pyd_api_device_t** out_device) noexcept nogil
        pyd_status_t (*device_from_python)(void* object, pyd_api_device_t** out_device) noexcept nogil
        void (*device_release)(pyd_api_device_t*) noexcept nogil
        uint32_t (*device_workers)(const pyd_api_device_t*) noexcept nogil
        pyd_status_t (*pool_acquire)(pyd_api_device_t*, size_t size, void** out_block) noexcept nogil
        void (*pool_release)(pyd_api_device_t*, void* block) noexcept nogil
        pyd_status_t (*parallel_for)(
            pyd_api_device_t*, uint32_t x, uint32_t y, uint32_t z, pyd_api_body_fn_t body, void* context,
            pyd_api_cost_t* cost) noexcept nogil
        pyd_status_t (*parallel_range)(
            pyd_api_device_t*, uint64_t count, pyd_api_range_fn_t body, void* context,
            pyd_api_cost_t* cost) noexcept nogil
        pyd_status_t (*program_load_file)(
            pyd_api_device_t*, const char* path, pyd_api_program_t** out_program) noexcept nogil
        pyd_status_t (*program_load_bytes)(
            pyd_api_device_t*, const void* data, size_t size, pyd_api_program_t** out_program) noexcept nogil
        pyd_status_t (*program_from_python)(void* object, pyd_api_program_t** out_program) noexcept nogil
        void (*program_release)(pyd_api_program_t*) noexcept nogil
        pyd_api_device_t* (*program_device)(const pyd_api_program_t*) noexcept nogil
        uint32_t (*program_function_count)(const pyd_api_program_t*) noexcept nogil
        const pyd_api_function_t* (*program_function)(const pyd_api_program_t*, uint32_t index) noexcept nogil
        pyd_status_t (*program_find)(
            const pyd_api_program_t*, const char* name, const pyd_api_function_t** out_function) noexcept nogil
        pyd_status_t (*call_prepare)(
            const pyd_api_function_t*, const int64_t* dims, uint32_t dims_count, const uint64_t* scalars,
            uint32_t scalar_count, pyd_api_call_t** out_call) noexcept nogil
        void (*call_release)(pyd_api_call_t*) noexcept nogil
        uint64_t (*call_argument_bytes)(const pyd_api_call_t*, uint32_t index) noexcept nogil
        uint64_t (*call_result_bytes)(const pyd_api_call_t*, uint32_t index) noexcept nogil
        const int64_t* (*call_result_dims)(const pyd_api_call_t*, uint32_t index) noexcept nogil
        uint32_t (*call_argument_alignment)(const pyd_api_call_t*, uint32_t index) noexcept nogil
        uint32_t (*call_result_alignment)(const pyd_api_call_t*, uint32_t index) noexcept nogil
        pyd_status_t (*call_bind_argument)(
            pyd_api_call_t*, uint32_t index, const void* data, size_t size) noexcept nogil
        pyd_status_t (*call_bind_result)(pyd_api_call_t*, uint32_t index, void* data, size_t size) noexcept nogil
        pyd_status_t (*call_set_scalars)(
            pyd_api_call_t*, const uint64_t* scalars, uint32_t scalar_count) noexcept nogil
        pyd_status_t (*call_run)(pyd_api_call_t*) noexcept nogil
        pyd_status_t (*call_scalar_result)(const pyd_api_call_t*, uint32_t index, uint64_t* out_word) noexcept nogil
        pyd_status_t (*device_add_import)(
            pyd_api_device_t*, const char* name, pyd_plugin_fn_t function, void* context, int32_t priority,
            void (*release)(void*) noexcept, void* owner, uint64_t* out_id) noexcept nogil
        pyd_status_t (*device_add_plugin)(
            pyd_api_device_t*, const char* name, pyd_plugin_query_fn_t query, int32_t priority,
            uint64_t* out_id) noexcept nogil
        pyd_status_t (*device_remove_provider)(pyd_api_device_t*, uint64_t id) noexcept nogil
        const void* (*call_result_data)(const pyd_api_call_t*, uint32_t index) noexcept nogil
        pyd_status_t (*call_run_until)(pyd_api_call_t*, const pyd_api_interrupt_t* interrupt) noexcept nogil
        int32_t (*is_signalled)(void* context) noexcept nogil
        pyd_status_t (*device_add_command)(
            pyd_api_device_t*, const char* name, pyd_plugin_fn_t function, void* context, int32_t priority,
            void (*release)(void*) noexcept, void* owner, uint64_t* out_id) noexcept nogil
        pyd_status_t (*call_submit)(
            pyd_api_call_t*, const pyd_api_submit_t* options, pyd_api_event_t** out_event) noexcept nogil
        pyd_status_t (*parallel_range_submit)(
            pyd_api_device_t*, uint64_t count, pyd_api_range_fn_t body, void* context, pyd_api_cost_t* cost,
            const pyd_api_submit_t* options, pyd_api_event_t** out_event) noexcept nogil
        pyd_status_t (*event_wait)(
            pyd_api_event_t*, uint64_t nanoseconds, const pyd_api_interrupt_t* interrupt,
            uint32_t* out_outcome) noexcept nogil
        uint32_t (*event_outcome)(pyd_api_event_t*) noexcept nogil
        pyd_status_t (*event_status)(pyd_api_event_t*) noexcept nogil
        uint32_t (*event_cancel)(pyd_api_event_t*) noexcept nogil
        void (*event_release)(pyd_api_event_t*) noexcept nogil
        const char* (*status_name)(pyd_status_t, uint32_t kind, uint32_t index) noexcept nogil
        pyd_status_t (*device_close)(pyd_api_device_t*) noexcept nogil
        pyd_status_t (*device_create)(
            const pyd_api_device_options_t* options, pyd_api_device_t** out_device) noexcept nogil
        pyd_status_t (*device_lend_thread)(pyd_api_device_t*, const pyd_api_interrupt_t* until) noexcept nogil
        uint32_t (*program_executable_count)(const pyd_api_program_t*) noexcept nogil
        pyd_status_t (*program_executable)(
            const pyd_api_program_t*, uint32_t index, pyd_api_executable_t* out_executable) noexcept nogil
        uint32_t (*program_host_command_count)(const pyd_api_program_t*) noexcept nogil
        pyd_api_text_t (*program_host_command)(const pyd_api_program_t*, uint32_t index) noexcept nogil
        uint32_t (*call_command_count)(const pyd_api_call_t*) noexcept nogil
        pyd_status_t (*call_command)(
            const pyd_api_call_t*, uint32_t index, pyd_api_command_t* out_command) noexcept nogil
        uint64_t (*call_arena_bytes)(const pyd_api_call_t*) noexcept nogil
        pyd_status_t (*call_run_timed)(
            pyd_api_call_t*, const pyd_api_interrupt_t* interrupt, pyd_api_time_t* out_times,
            uint32_t count) noexcept nogil
        pyd_status_t (*memory_import)(
            pyd_api_device_t*, const pyd_api_memory_info_t* info, pyd_api_memory_t** out_memory) noexcept nogil
        void (*memory_release)(pyd_api_memory_t*) noexcept nogil
        pyd_status_t (*call_bind_argument_memory)(
            pyd_api_call_t*, uint32_t index, pyd_api_memory_t* memory) noexcept nogil
        pyd_status_t (*call_bind_result_memory)(
            pyd_api_call_t*, uint32_t index, pyd_api_memory_t* memory) noexcept nogil
        pyd_status_t (*call_set_result_allocator)(pyd_api_call_t*, const pyd_allocator_t* allocator) noexcept nogil
        pyd_status_t (*call_take_result)(
            pyd_api_call_t*, uint32_t index, void** out_data, size_t* out_bytes) noexcept nogil
        pyd_status_t (*program_load)(
            pyd_api_device_t*, const pyd_api_load_t* options, pyd_api_program_t** out_program) noexcept nogil

    uint64_t pyd_api_from_f32(float value)
    uint64_t pyd_api_from_f64(double value)
    float pyd_api_to_f32(uint64_t word)
    double pyd_api_to_f64(uint64_t word)


# The table; lives as long as the process.
cdef const pyd_api_t* api() noexcept nogil
