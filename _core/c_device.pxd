from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_elf cimport pyd_span_t
from pydispatch._core.c_program cimport pyd_call_t, pyd_plan_t, pyd_program_function_t, pyd_program_t, pyd_string_t
from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "pydispatch/program_device.h" nogil:
    ctypedef struct pyd_runner_t:
        pyd_status_t (*run)(void* self, pyd_call_t* call) noexcept
        void* self
    ctypedef struct pyd_device_memory_t:
        void* self
        pyd_status_t (*run)(void* self, pyd_call_t* call) noexcept
        pyd_status_t (*acquire)(void* self, uint64_t bytes, void** out_block) noexcept
        pyd_status_t (*constant)(void* self, uint32_t index, void** out_block) noexcept
        void (*release)(void* self, void* block) noexcept
        pyd_status_t (*copy)(
            void* self, void* source, uint64_t at, void* target, uint64_t to, uint64_t bytes) noexcept
        pyd_status_t (*read)(void* self, void* block, uint64_t at, void* target, uint64_t bytes) noexcept
        pyd_status_t (*write)(void* self, void* block, const void* source, uint64_t bytes) noexcept
    void pyd_program_set_device_memory(pyd_program_t* program, pyd_device_memory_t memory)
    int PYD_COMMAND_FILL, PYD_COMMAND_COPY, PYD_COMMAND_CUSTOM
    ctypedef struct pyd_command_slot_t:
        uint32_t buffer
        uint64_t offset
        uint64_t length
    ctypedef struct pyd_command_info_t:
        uint32_t kind
        uint32_t region
        bint is_empty
        uint32_t slot_count
        uint32_t executable, export, ordinal
        pyd_string_t name
        uint32_t grid[3]
        uint32_t constant_count
        uint32_t first_constant
        uint32_t command
        uint64_t pattern
        uint32_t pattern_bytes
    ctypedef struct pyd_buffer_info_t:
        uint32_t kind
        uint32_t index
        uint64_t bytes
        uint64_t offset

    ctypedef struct pyd_export_info_t:
        uint32_t executable
        uint32_t ordinal
        pyd_string_t name
        uint32_t constant_count, binding_count

    uint32_t pyd_program_export_count(const pyd_program_t* program)
    void pyd_program_export(const pyd_program_t* program, uint32_t index, pyd_export_info_t* out_info)
    pyd_status_t pyd_program_set_device_executable(
        pyd_program_t* program, uint32_t index, uint32_t variant, uint32_t alignment)
    void pyd_program_set_runner(pyd_program_t* program, pyd_runner_t runner)
    void pyd_plan_command(const pyd_plan_t* plan, uint32_t index, pyd_command_info_t* out_info)
    void pyd_plan_command_slot(const pyd_plan_t* plan, uint32_t index, uint32_t slot, pyd_command_slot_t* out_slot)
    const int64_t* pyd_plan_command_sizes(const pyd_plan_t* plan, uint32_t index)
    const pyd_program_t* pyd_plan_program(const pyd_plan_t* plan)
    uint32_t pyd_plan_buffer_count(const pyd_plan_t* plan)
    void pyd_plan_buffer(const pyd_plan_t* plan, uint32_t index, pyd_buffer_info_t* out_info)
    uint32_t pyd_plan_constant_count(const pyd_plan_t* plan)
    const uint32_t* pyd_plan_constants(const pyd_plan_t* plan)
    bint pyd_plan_has_deferred(const pyd_plan_t* plan)
    pyd_span_t pyd_program_constant_bytes(const pyd_program_t* program, uint32_t index)
    pyd_status_t pyd_plan_compute(
        const pyd_plan_t* plan, const uint64_t* scalars, uint32_t* out_constants, uint64_t* out_patterns,
        uint64_t* out_scalars)
    const pyd_plan_t* pyd_call_plan(const pyd_call_t* call)
    void* pyd_call_buffer(const pyd_call_t* call, uint32_t buffer)
    const uint32_t* pyd_call_constants(const pyd_call_t* call)
    uint64_t pyd_call_pattern(const pyd_call_t* call, uint32_t command)
    uint32_t pyd_plan_function(const pyd_plan_t* plan)
    const pyd_program_function_t* pyd_plan_function_info(const pyd_plan_t* plan)
    const int64_t* pyd_plan_dims(const pyd_plan_t* plan)
    const uint64_t* pyd_plan_scalars(const pyd_plan_t* plan, uint32_t* out_count)
