"""Profiles of calls on the CPU."""

from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free

from pydispatch._core.bound cimport Binding
from pydispatch._core.c_program cimport (
    pyd_command_time_t,
    pyd_plan_command_bytes,
    pyd_plan_command_count,
    pyd_plan_command_workgroups,
)
from pydispatch._core.function cimport Function
from pydispatch._core.plan cimport Plan, Slot

import time
from statistics import median

from pydispatch._core.profile import Profile, Timing
from pydispatch._core.status import InvalidArgumentError


def profile(Function function not None, args, runs):
    """The Profile of calls with these arguments: medians of `runs` runs, after one that is not counted."""
    cdef Binding binding
    cdef Plan plan
    cdef Slot slot
    cdef pyd_command_time_t* times
    cdef uint32_t i, count
    if not isinstance(runs, int) or runs < 1:
        raise InvalidArgumentError(f"@{function.name}: profile: runs: expected a number of 1 or more, got {runs!r}")
    function.check_count(len(args))
    binding = Binding(function, args, None)
    plan = binding.plan
    count = pyd_plan_command_count(plan.plan)
    times = <pyd_command_time_t*>calloc(count + 1, sizeof(pyd_command_time_t))
    if times == NULL:
        raise MemoryError()
    plan.take(&slot)
    found = [[] for _ in range(count)]
    calls = []
    try:
        for _run in range(runs + 1):
            slot.times = times
            binding.execute(&slot)
            slot.times = NULL
            start = time.perf_counter()
            binding.execute(&slot)
            calls.append(time.perf_counter() - start)
            for i in range(count):
                found[i].append(times[i].nanoseconds)
    finally:
        slot.times = NULL
        plan.give(&slot)
        free(times)
    return Profile(
        [Timing(line, median(found[i][1:]) * 1e-9, pyd_plan_command_bytes(plan.plan, i),
                pyd_plan_command_workgroups(plan.plan, i))
         for i, line in enumerate(plan.describe())],
        median(calls[1:]))
