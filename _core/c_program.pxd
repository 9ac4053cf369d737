from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_elf cimport pyd_span_t
from pydispatch._core.c_executable cimport pyd_executable_t
from pydispatch._core.c_plugin cimport pyd_import_fn_t
from pydispatch._core.c_pool cimport pyd_allocator_t, pyd_pool_t
from pydispatch._core.c_sched cimport pyd_sched_t
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t

cdef extern from "pydispatch/program.h" nogil:
    uint32_t PYD_PROGRAM_NONE
    uint32_t PYD_PROGRAM_MAX_RANK

    ctypedef struct pyd_program_t:
        pass
    ctypedef struct pyd_plan_t:
        pass
    ctypedef struct pyd_call_t:
        pass
    ctypedef struct pyd_derived_t:
        pass
    ctypedef struct pyd_string_t:
        const char* data
        uint32_t length
    ctypedef struct pyd_program_executable_t:
        pyd_string_t name
        uint32_t constants_function
        uint32_t variant_count
        const uint32_t* variant_conditions
    ctypedef struct pyd_program_query_t:
        pyd_string_t category
        pyd_string_t key
    ctypedef struct pyd_program_constant_t:
        pyd_string_t member
        uint64_t offset
        uint64_t length
        uint32_t parameter
        uint32_t derivation
    ctypedef struct pyd_program_derivation_t:
        uint32_t function
        uint32_t first_constant
    ctypedef struct pyd_program_parameter_t:
        pyd_string_t scope
        pyd_string_t key
        uint32_t dtype
        uint32_t rank
        const int64_t* dims
    ctypedef struct pyd_program_check_t:
        uint32_t kind
        pyd_string_t name
        pyd_string_t location
        double atol
        double rtol
    ctypedef struct pyd_program_value_t:
        uint32_t kind
        uint32_t dtype
        uint32_t rank
        const int64_t* dims
        pyd_string_t name
        uint32_t tied
    ctypedef struct pyd_program_function_t:
        pyd_string_t name
        pyd_string_t signature
        bint is_public
        uint32_t arg_count
        const pyd_program_value_t* args
        uint32_t result_count
        const pyd_program_value_t* results
        uint32_t dims_count

    ctypedef struct pyd_program_command_t:
        pyd_string_t name
        uint32_t operand_count
        const pyd_program_value_t* operands
        const uint32_t* accesses

    pyd_status_t pyd_program_decode(pyd_span_t data, pyd_program_t** out_program)
    void pyd_program_free(pyd_program_t* program)
    uint32_t pyd_program_executable_count(const pyd_program_t* program)
    const pyd_program_executable_t* pyd_program_executable(const pyd_program_t* program, uint32_t index)
    uint32_t pyd_program_query_count(const pyd_program_t* program)
    const pyd_program_query_t* pyd_program_query(const pyd_program_t* program, uint32_t index)
    uint32_t pyd_program_constant_count(const pyd_program_t* program)
    const pyd_program_constant_t* pyd_program_constant(const pyd_program_t* program, uint32_t index)
    uint32_t pyd_program_derivation_count(const pyd_program_t* program)
    const pyd_program_derivation_t* pyd_program_derivation(const pyd_program_t* program, uint32_t index)
    pyd_status_t pyd_derived_create(
        const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool, pyd_derived_t** out_derived)
    void pyd_derived_free(pyd_derived_t* derived)
    void pyd_derived_fork_prepare(pyd_derived_t* derived)
    void pyd_derived_fork_done(pyd_derived_t* derived)
    void pyd_derived_fork_child(pyd_derived_t* derived)
    pyd_status_t pyd_program_set_derived(pyd_program_t* program, pyd_derived_t* derived)
    uint32_t pyd_program_function_count(const pyd_program_t* program)
    const pyd_program_function_t* pyd_program_function(const pyd_program_t* program, uint32_t index)

    uint32_t pyd_program_procedure_count(const pyd_program_t* program)
    const pyd_program_function_t* pyd_program_procedure(const pyd_program_t* program, uint32_t index)
    uint32_t pyd_program_command_count(const pyd_program_t* program)
    const pyd_program_command_t* pyd_program_command(const pyd_program_t* program, uint32_t index)
    pyd_status_t pyd_program_set_command(
        pyd_program_t* program, uint32_t index, pyd_import_fn_t function, void* context)
    uint32_t pyd_program_parameter_count(const pyd_program_t* program)
    const pyd_program_parameter_t* pyd_program_parameter(const pyd_program_t* program, uint32_t index)
    uint32_t pyd_program_check_count(const pyd_program_t* program)
    const pyd_program_check_t* pyd_program_check(const pyd_program_t* program, uint32_t index)

    pyd_status_t pyd_program_set_contracts(
        pyd_program_t* program, uint32_t executable, pyd_program_t* contracts, const uint32_t* functions,
        uint32_t count)
    ctypedef struct pyd_chain_options_t:
        uint64_t cache_bytes
        uint64_t least_tiles
    void pyd_program_set_allocator(pyd_program_t* program, const pyd_allocator_t* allocator)
    void pyd_program_set_chains(pyd_program_t* program, pyd_chain_options_t options)
    pyd_status_t pyd_program_settle(pyd_program_t* program)
    pyd_status_t pyd_program_constant_alignments(const pyd_program_t* program, uint32_t* out_alignments)
    void pyd_program_set_query(pyd_program_t* program, uint32_t index, bint found, uint64_t value)
    void pyd_program_set_constant_mapped(pyd_program_t* program, uint32_t index)
    pyd_status_t pyd_program_set_constant(pyd_program_t* program, uint32_t index, pyd_span_t data)
    pyd_status_t pyd_program_set_executable(
        pyd_program_t* program, uint32_t index, const pyd_executable_t* executable, uint32_t variant,
        uint32_t alignment)
    pyd_status_t pyd_program_evaluate(
        const pyd_program_t* program, uint32_t function, const uint64_t* scalars, uint64_t* out_results)

    pyd_status_t pyd_plan_create(
        const pyd_program_t* program, uint32_t function, const int64_t* dims, const uint64_t* scalars,
        pyd_plan_t** out_plan)
    void pyd_plan_free(pyd_plan_t* plan)
    bint pyd_plan_matches(const pyd_plan_t* plan, const int64_t* dims, const uint64_t* scalars)
    uint64_t pyd_plan_hash(
        const pyd_program_t* program, uint32_t function, const int64_t* dims, const uint64_t* scalars)
    bint pyd_tensor_bytes(uint32_t dtype, uint32_t rank, const int64_t* dims, uint64_t* out_bytes)
    uint64_t pyd_plan_arg_bytes(const pyd_plan_t* plan, uint32_t arg)
    const int64_t* pyd_plan_result_dims(const pyd_plan_t* plan, uint32_t result)
    uint64_t pyd_plan_result_bytes(const pyd_plan_t* plan, uint32_t result)
    uint32_t pyd_plan_arg_alignment(const pyd_plan_t* plan, uint32_t arg)
    uint32_t pyd_plan_result_alignment(const pyd_plan_t* plan, uint32_t result)
    uint64_t pyd_plan_arena_bytes(const pyd_plan_t* plan)
    uint32_t pyd_plan_command_count(const pyd_plan_t* plan)
    pyd_status_t pyd_plan_describe(const pyd_plan_t* plan, uint32_t index, char* buffer, size_t size)

    pyd_status_t pyd_call_create(
        const pyd_plan_t* plan, pyd_sched_t* sched, pyd_pool_t* pool, pyd_call_t** out_call)
    void pyd_call_free(pyd_call_t* call)
    void pyd_call_bind_arg(pyd_call_t* call, uint32_t arg, const void* data)
    void pyd_call_bind_result(pyd_call_t* call, uint32_t result, void* data)
    void pyd_call_set_scalars(pyd_call_t* call, const uint64_t* scalars)
    pyd_status_t pyd_call_run_until(pyd_call_t* call, const pyd_interrupt_t* interrupt)
    ctypedef struct pyd_command_time_t:
        uint64_t begin, end
    pyd_status_t pyd_call_run_timed(
        pyd_call_t* call, const pyd_interrupt_t* interrupt, pyd_command_time_t* out_times)
    uint64_t pyd_call_scalar_result(const pyd_call_t* call, uint32_t result)
