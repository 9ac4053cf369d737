"""Plans as Python objects, for devices that run plans by themselves, such as GPUs.

A plan is a function specialized for the sizes of a call: a list of commands over numbered buffers.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t

from pydispatch._core.c_program cimport PYD_KIND_SCALAR
from pydispatch._core.c_program cimport pyd_plan_arena_bytes, pyd_plan_command_count, pyd_plan_result_bytes
from pydispatch._core.c_program cimport pyd_plan_result_dims, pyd_program_command, pyd_program_command_t
from pydispatch._core.c_program cimport pyd_program_function_t
from pydispatch._core.c_program_device cimport *
from pydispatch._core.plan cimport Plan, make_plan
from pydispatch._core.program cimport Module, text_of

from pydispatch._core.commands import BufferKind, Copy, Custom, Dispatch, Fill, PlanBuffer, Slot, TensorResult


@cython.final
cdef class PlanData:
    """A plan, the commands of a function for certain sizes, as Python objects for devices and profiles.

    program_device.h describes the C form.
    commands: the commands that do something for these sizes, in order, as the dataclasses of commands.py. numbers: for
    each of them its index among all command_count commands of the plan. buffers: a PlanBuffer for each buffer. results:
    for each result a TensorResult, or None for a scalar. constants: the constant_count 32-bit constants of all
    commands, as bytes. arena_bytes: size of the arena of transient buffers. has_deferred: whether constants, patterns
    of fills or scalar results depend on scalar arguments that the plan is not specialized for, so that each call
    computes them again. function: number of the function in the program. device: data that the device caches with the
    plan.
    """


cdef PlanData plan_data(const pyd_plan_t* plan, const pyd_program_function_t* function):
    """Convert a plan to a PlanData, whose docstring describes the members.

    function: the description of the plan's function in the program.
    """
    cdef PlanData data = PlanData.__new__(PlanData)
    cdef pyd_buffer_info_t buffer
    cdef const int64_t* dims
    cdef uint32_t i
    data.commands, data.numbers, data.buffers, data.results = [], [], [], []
    data.function, data.command_count = pyd_plan_function(plan), pyd_plan_command_count(plan)
    for i in range(data.command_count):
        command = command_of(plan, i)
        if command is not None:
            data.numbers.append(i)  # its index among all commands of the plan, including empty ones
            data.commands.append(command)
    for i in range(pyd_plan_buffer_count(plan)):
        pyd_plan_buffer(plan, i, &buffer)
        data.buffers.append(PlanBuffer(BufferKind(buffer.kind), buffer.index, buffer.bytes, buffer.offset))
    for i in range(function.result_count):
        if function.results[i].kind == PYD_KIND_SCALAR:
            data.results.append(None)
            continue
        dims = pyd_plan_result_dims(plan, i)
        shape = tuple([dims[k] for k in range(function.results[i].rank)])
        data.results.append(TensorResult(shape, pyd_plan_result_bytes(plan, i)))
    data.constant_count = pyd_plan_constant_count(plan)
    data.constants = (<const char*>pyd_plan_constants(plan))[:4 * data.constant_count] if data.constant_count else b""
    data.arena_bytes, data.has_deferred = pyd_plan_arena_bytes(plan), pyd_plan_has_deferred(plan)
    return data


cdef object command_of(const pyd_plan_t* plan, uint32_t index):
    """Return command `index` of a plan as an object of `commands`; None if it does nothing for these sizes."""
    cdef pyd_command_info_t info
    cdef pyd_command_slot_t slot
    cdef const pyd_program_command_t* command
    cdef const int64_t* sizes
    cdef uint32_t k, count
    pyd_plan_command(plan, index, &info)
    if info.is_empty:
        return None
    slots = []
    for k in range(info.slot_count):
        pyd_plan_command_slot(plan, index, k, &slot)
        slots.append(Slot(slot.buffer, slot.offset, slot.length))
    if info.kind == PYD_COMMAND_FILL:
        return Fill(info.region, tuple(slots), info.pattern, info.pattern_bytes)
    if info.kind == PYD_COMMAND_COPY:
        return Copy(info.region, tuple(slots))
    if info.kind == PYD_COMMAND_CUSTOM:
        count = 0  # sizes of all tensor operands; a scalar has rank 0
        command = pyd_program_command(pyd_plan_program(plan), info.command)
        for k in range(command.operand_count):
            count += command.operands[k].rank
        sizes = pyd_plan_command_sizes(plan, index)
        return Custom(
            info.region, tuple(slots), info.command, tuple([sizes[k] for k in range(count)]), info.first_constant,
            info.constant_count)
    return Dispatch(
        info.region, tuple(slots), info.executable, info.ordinal, text_of(info.name),
        (info.grid[0], info.grid[1], info.grid[2]), info.first_constant, info.constant_count)


def derivation_of(Module module not None, uint32_t function):
    """Return the PlanData of function number `function` of a program, which must have no arguments.

    Such functions compute derived constants.
    """
    return data_of(make_plan(module, function, NULL, NULL, 0))  # no sizes and scalars; key 0: the plan is not cached


def data_of(Plan plan not None):
    """Return the PlanData of a plan."""
    return plan_data(plan.plan, plan.function)
