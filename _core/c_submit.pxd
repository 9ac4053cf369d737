from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.c_pool cimport pyd_pool_t
from pydispatch._core.c_procedure cimport pyd_input_t, pyd_invocation_t, pyd_state_t
from pydispatch._core.c_program cimport pyd_call_t, pyd_plan_t
from pydispatch._core.c_sched cimport pyd_sched_cost_t, pyd_sched_t
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t

cdef extern from "pydispatch/task.h" nogil:
    ctypedef struct pyd_task_t:
        pass
    ctypedef enum pyd_wait_t:
        PYD_WAIT_DONE, PYD_WAIT_TIMEOUT, PYD_WAIT_INTERRUPTED
    const uint64_t PYD_WAIT_FOREVER
    ctypedef struct pyd_submit_options_t:
        uint32_t priority
        uint32_t workers
        pyd_task_t** after
        uint32_t after_count
        pyd_task_t* behind
        void (*on_done)(void* context, pyd_task_t* task) noexcept nogil
        void* context
    void pyd_task_release(pyd_task_t* task)
    bint pyd_task_is_done(pyd_task_t* task)
    bint pyd_task_set_on_done(
        pyd_task_t* task, void (*on_done)(void* context, pyd_task_t* task) noexcept nogil, void* context)
    bint pyd_task_cancel(pyd_task_t* task)
    bint pyd_task_is_cancelled(const pyd_task_t* task)
    pyd_wait_t pyd_task_wait(pyd_task_t* task, uint64_t nanoseconds, const pyd_interrupt_t* interrupt)
    pyd_status_t pyd_task_status(const pyd_task_t* task)
    bint pyd_task_is_skipped(const pyd_task_t* task)

cdef extern from "pydispatch/submit.h" nogil:
    ctypedef struct pyd_batch_item_t:
        const pyd_plan_t* plan
        void** args
        const uint64_t* scalars
        void** results
        uint64_t* out_scalars
        bint has_run
        pyd_status_t status
    pyd_status_t pyd_call_submit(pyd_call_t* call, const pyd_submit_options_t* options, pyd_task_t** out_task)
    pyd_status_t pyd_procedure_submit(
        pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs, const pyd_submit_options_t* options,
        pyd_task_t** out_task)
    pyd_invocation_t* pyd_procedure_take(pyd_task_t* task)
    pyd_status_t pyd_batch_submit(
        pyd_sched_t* sched, pyd_pool_t* pool, pyd_batch_item_t* items, uint32_t count, pyd_sched_cost_t* cost,
        const pyd_submit_options_t* options, pyd_task_t** out_task)
