from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_pool cimport pyd_pool_t
from pydispatch._core.c_program cimport pyd_command_time_t, pyd_plan_t, pyd_program_t
from pydispatch._core.c_sched cimport pyd_sched_t
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t

cdef extern from "pydispatch/procedure.h" nogil:
    ctypedef struct pyd_state_t:
        pass
    ctypedef struct pyd_invocation_t:
        pass
    ctypedef struct pyd_input_t:
        const void* data
        const int64_t* dims
        uint64_t word
    ctypedef struct pyd_value_t:
        uint32_t kind
        uint32_t dtype
        uint32_t rank
        const int64_t* dims
        const void* data
        uint64_t bytes
        uint64_t word
    pyd_status_t pyd_state_create(
        const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool, pyd_state_t** out_state)
    pyd_status_t pyd_state_initialize(pyd_state_t* state, const pyd_interrupt_t* interrupt)
    void pyd_state_free(pyd_state_t* state)
    void pyd_state_fork_prepare(pyd_state_t* state)
    void pyd_state_fork_done(pyd_state_t* state)
    void pyd_state_fork_child(pyd_state_t* state)
    pyd_status_t pyd_procedure_call(
        pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs, const pyd_interrupt_t* interrupt,
        pyd_invocation_t** out_invocation)
    pyd_status_t pyd_procedure_call_on_device(
        pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs, void** blocks,
        const pyd_interrupt_t* interrupt, pyd_invocation_t** out_invocation)
    ctypedef struct pyd_procedure_observer_t:
        void (*ran)(void* self, const pyd_plan_t* plan, const pyd_command_time_t* times) noexcept nogil
        void* self
        uint64_t nanoseconds
    pyd_status_t pyd_procedure_call_timed(
        pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs, const pyd_interrupt_t* interrupt,
        pyd_procedure_observer_t* observer, pyd_invocation_t** out_invocation)
    void pyd_invocation_free(pyd_invocation_t* invocation)
    bint pyd_invocation_result(const pyd_invocation_t* invocation, uint32_t index, pyd_value_t* out_value)
    void* pyd_invocation_take(pyd_invocation_t* invocation, uint32_t index)
    uint32_t pyd_invocation_observation_count(const pyd_invocation_t* invocation)
    bint pyd_invocation_observation(
        const pyd_invocation_t* invocation, uint32_t index, uint32_t* out_check, uint32_t* out_count)
    bint pyd_invocation_observed(
        const pyd_invocation_t* invocation, uint32_t index, uint32_t value, pyd_value_t* out_value)
