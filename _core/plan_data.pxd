from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.c_program cimport pyd_plan_t, pyd_program_function_t


# A plan as Python objects; the docstring in plan_data.pyx describes the fields.
cdef class PlanData:
    cdef readonly list commands, numbers, buffers, results
    cdef readonly bytes constants
    cdef readonly uint64_t arena_bytes
    cdef readonly bint has_deferred
    cdef readonly uint32_t function, command_count, constant_count
    cdef public object device


cdef PlanData plan_data(const pyd_plan_t* plan, const pyd_program_function_t* function)
