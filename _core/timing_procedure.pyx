"""Profiles of calls of procedures on the CPU."""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from pydispatch._core.c_procedure cimport pyd_input_t, pyd_invocation_free, pyd_invocation_t, pyd_procedure_call_timed
from pydispatch._core.c_procedure cimport pyd_procedure_observer_t
from pydispatch._core.c_program cimport pyd_command_time_t, pyd_plan_command_count, pyd_plan_t, pyd_program_function_t
from pydispatch._core.c_program_device cimport pyd_plan_dims, pyd_plan_function, pyd_plan_function_info
from pydispatch._core.c_program_device cimport pyd_plan_scalars
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t
from pydispatch._core.plan cimport lines_of
from pydispatch._core.plan_data cimport PlanData, plan_data
from pydispatch._core.procedure cimport Procedure
from pydispatch._core.sched cimport Caller, enter, leave
from pydispatch._core.signals cimport interrupt_of
from pydispatch._core.status cimport check

import time

from pydispatch._core.peak import peak_of
from pydispatch._core.profile import Measured, Profile, check_cold, check_runs, evict_caches, merged


cdef class Observer:
    """Recorder of the times of the commands that one call of a procedure runs, for its profile.

    plans: (function index, bytes of its sizes, bytes of its numbers) -> (PlanData, descriptions of its commands, for
    each run a list with begin and end of each command in nanoseconds since the begin of the run). error: the exception
    of a recording that failed, or None.
    """

    cdef dict plans
    cdef object error

    def __cinit__(self):
        self.plans = {}

    cdef int note(self, const pyd_plan_t* plan, const pyd_command_time_t* times) except -1:
        """Record one run of a plan, which is a function prepared for certain sizes and numbers.

        times: begin and end of each command of the plan.
        """
        cdef const pyd_program_function_t* info = pyd_plan_function_info(plan)
        cdef uint32_t i, scalar_count
        cdef const uint64_t* scalars = pyd_plan_scalars(plan, &scalar_count)
        key = (
            pyd_plan_function(plan),
            (<const char*>pyd_plan_dims(plan))[:8 * info.dims_count] if info.dims_count else b"",
            (<const char*>scalars)[:8 * scalar_count] if scalar_count else b"")
        recorded = self.plans.get(key)  # (PlanData, descriptions of the commands, times of each run)
        if recorded is None:
            recorded = self.plans[key] = plan_data(plan, info), lines_of(plan), []
        recorded[2].append([(times[i].begin, times[i].end) for i in range(pyd_plan_command_count(plan))])
        return 0


cdef void ran(void* self, const pyd_plan_t* plan, const pyd_command_time_t* times) noexcept with gil:
    """Record one run of a plan; the C callback of the observer. self: the Observer."""
    cdef Observer observer = <Observer>self
    try:
        observer.note(plan, times)
    except BaseException as error:  # raised when the call has ended
        observer.error = error


def profile(Procedure procedure not None, args, runs, cold):
    """Return the Profile of calls with these arguments: means of `runs` runs, after a warm-up run.

    cold: evict all caches before each run.
    """
    check_runs(procedure.name, runs)
    check_cold(procedure.name, cold)
    cdef pyd_input_t* inputs = <pyd_input_t*>calloc(procedure.arg_count + 1, sizeof(pyd_input_t))
    cdef Observer observer
    if inputs == NULL:
        raise MemoryError()
    try:
        # NULL: no buffers of devices. True: copy strided arrays. `held` keeps alive what `inputs` points to.
        held = procedure.gather(args, inputs, NULL, True)
        run_once(procedure, inputs, Observer(), cold)  # the warm-up run, whose times are dropped
        observer = Observer()
        whole = sum([run_once(procedure, inputs, observer, cold) for _ in range(runs)])
    finally:
        held = None
        free(inputs)
    timings, busy = [], 0.0  # busy: seconds in which a command ran, in all runs together
    for (function, _dims, _scalars), (data, lines, spans) in observer.plans.items():
        measured = Measured(list(zip((<PlanData>data).numbers, (<PlanData>data).commands)), lines,
                            (<PlanData>data).constants, spans)
        times = max(1, round(len(spans) / runs))  # how often one call of the procedure runs this plan
        # The total seconds of a command in all runs, divided by `runs`, are its seconds per call of the procedure.
        own = measured.timings(procedure.module.flops, lambda seconds: sum(seconds) / runs, times)
        timings.append((function, own))
        busy += sum([measured.busy(run) for run in range(len(spans))])
    peak = peak_of(procedure.module.sched, procedure.module.pool)
    # None: seconds of an ordinary call, which is not measured.
    return Profile(merged(timings), None, max(0.0, whole - busy) / runs, peak, "cold" if cold else "warm")


cdef double run_once(Procedure procedure, pyd_input_t* inputs, Observer observer, bint cold) except -1:
    """Run a call and return its wall time in seconds, without the time that the observer took.

    cold: evict all caches before it.
    """
    cdef pyd_procedure_observer_t c_observer
    cdef pyd_invocation_t* invocation = NULL
    cdef const pyd_interrupt_t* interrupt
    cdef pyd_status_t status
    cdef Caller caller
    # `nanoseconds` receives the time that the callback takes.
    c_observer.ran, c_observer.self, c_observer.nanoseconds = ran, <void*>observer, 0
    enter(procedure.module.sched.callers, &caller)
    interrupt = interrupt_of(caller.thread)
    if cold:
        evict_caches()
    start = time.perf_counter()
    with nogil:
        status = pyd_procedure_call_timed(
            procedure.state.state, procedure.index, inputs, interrupt, &c_observer, &invocation)
    seconds = time.perf_counter() - start - c_observer.nanoseconds * 1e-9
    leave(procedure.module.sched.callers, &caller)
    check(status)
    try:
        procedure.finish(invocation, [None] * procedure.result_count)  # for the errors of checks; None: no `out`
    finally:
        pyd_invocation_free(invocation)
    if observer.error is not None:
        raise observer.error
    return seconds
