"""Profiles of calls of functions on the CPU."""

from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free

from pydispatch._core.bound cimport Binding
from pydispatch._core.c_program cimport pyd_command_time_t, pyd_plan_command_count
from pydispatch._core.function cimport Function
from pydispatch._core.plan cimport Plan, Slot

import time
from statistics import median

from pydispatch._core.peak import peak_of
from pydispatch._core.plan_data import data_of
from pydispatch._core.profile import Measured, Profile, check_cold, check_runs, evict_caches


cdef double seconds_of_call(Binding binding, Slot* slot, bint cold) except -1:
    """Run a bound call and return its time in seconds. cold: evict all caches before it."""
    if cold:
        evict_caches()
    start = time.perf_counter()
    binding.execute(slot)
    return time.perf_counter() - start


def profile(Function function not None, args, runs, cold):
    """Return the Profile of calls with these arguments: medians of `runs` runs, after a warm-up run.

    A run is a call that times its commands, which run one after another, and then an ordinary call. cold: evict all
    caches before each call.
    """
    cdef Binding binding
    cdef Plan plan
    cdef Slot slot
    cdef pyd_command_time_t* times = NULL
    cdef uint32_t i, count
    check_runs(function.name, runs)
    check_cold(function.name, cold)
    function.check_count(len(args))
    binding = Binding(function, args, None)
    plan = binding.plan
    count = pyd_plan_command_count(plan.plan)
    plan.take(&slot)
    # Of each run: begin and end of each command; seconds of the timed call; seconds of the ordinary call.
    spans, wholes, calls = [], [], []
    try:
        times = <pyd_command_time_t*>calloc(count + 1, sizeof(pyd_command_time_t))
        if times == NULL:
            raise MemoryError()
        for _run in range(runs + 1):
            slot.times = times  # lets the call time its commands
            wholes.append(seconds_of_call(binding, &slot, cold))
            slot.times = NULL  # the next call is an ordinary one
            spans.append([(times[i].begin, times[i].end) for i in range(count)])
            calls.append(seconds_of_call(binding, &slot, cold))
    finally:
        slot.times = NULL
        plan.give(&slot)
        free(times)
    data = data_of(plan)
    # [1:]: without the warm-up run.
    measured = Measured(list(zip(data.numbers, data.commands)), plan.describe(), data.constants, spans[1:])
    outside = median(max(0.0, whole - measured.busy(run)) for run, whole in enumerate(wholes[1:]))
    peak = peak_of(plan.module.sched, plan.module.pool)
    return Profile(measured.timings(plan.module.flops), median(calls[1:]), outside, peak,
                   "cold" if cold else "warm")
