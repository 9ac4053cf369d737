"""Profiles of calls on the CPU."""

from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free

from pydispatch._core.bound cimport Binding
from pydispatch._core.c_program cimport pyd_command_time_t, pyd_plan_command_count
from pydispatch._core.function cimport Function
from pydispatch._core.plan cimport Plan, Slot

import time
from statistics import median

from pydispatch._core.plan_data import data_of
from pydispatch._core.profile import Profile, timings_of
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
    found, calls = [], []
    try:
        for _run in range(runs + 1):
            slot.times = times
            binding.execute(&slot)
            slot.times = NULL
            found.append([(times[i].begin, times[i].end) for i in range(count)])
            start = time.perf_counter()
            binding.execute(&slot)
            calls.append(time.perf_counter() - start)
    finally:
        slot.times = NULL
        plan.give(&slot)
        free(times)
    data = data_of(plan)
    return Profile(timings_of(zip(data.numbers, data.commands), plan.describe(), found[1:]), median(calls[1:]))
