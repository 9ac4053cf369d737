"""Calls of procedures that are submitted."""

cimport cython
from libc.stdlib cimport calloc, free

from pydispatch._core.c_procedure cimport pyd_input_t, pyd_invocation_free, pyd_invocation_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.c_submit cimport pyd_procedure_submit, pyd_procedure_take
from pydispatch._core.c_task cimport pyd_submit_options_t
from pydispatch._core.plan cimport flush_python
from pydispatch._core.procedure cimport Procedure
from pydispatch._core.status cimport check
from pydispatch._core.task cimport Task, fill_options

from concurrent.futures import CancelledError
from concurrent.futures import Future as AnyFuture
from functools import partial

from pydispatch._core.future import CallFuture, deferred


@cython.final
@cython.no_gc_clear
cdef class ProcedureTask(Task):
    """Task of one submitted call of a procedure, a function with control flow, state or checks."""

    cdef Procedure procedure
    cdef list out  # per result: the caller's array that receives it, or None for a new one

    cdef object collect(self):
        """Return the results of the call, which has ended."""
        cdef pyd_invocation_t* invocation = pyd_procedure_take(self.task)
        if invocation == NULL:  # another thread had taken it when this process was forked
            raise CancelledError()
        try:
            return self.procedure.finish(invocation, self.out)
        finally:
            pyd_invocation_free(invocation)


def submit(Procedure procedure not None, args, out, priority, workers):
    """See Procedure.submit."""
    if procedure.order is not None:
        return procedure.order.submit(partial(start_with, procedure, out, priority, workers), args, {})
    for value in args:
        if isinstance(value, AnyFuture):  # the call is submitted when the results of all futures are there
            return deferred(partial(start_with, procedure, out, priority, workers), args, {})
    return start(procedure, args, out, priority, workers)


def start_with(Procedure procedure not None, out, priority, workers, *args):
    """Submit one call, whose positional arguments come last, and return its future."""
    return start(procedure, args, out, priority, workers)


cdef object start(Procedure procedure, args, out, priority, workers):
    """Submit one call whose arguments are no futures, and return its future.

    out: None, an array for the only result, or a tuple with an array or None per result. priority: "high", "normal" or
    "low". workers: maximum number of threads, or None.
    """
    cdef ProcedureTask task = ProcedureTask.__new__(ProcedureTask)
    cdef pyd_submit_options_t options
    cdef pyd_input_t* inputs
    cdef pyd_status_t status
    fill_options(&options, procedure.name, priority, workers, (), NULL)
    task.procedure, task.module, task.after = procedure, procedure.module, ()
    task.out = procedure.check_out(out)
    inputs = <pyd_input_t*>calloc(procedure.arg_count + 1, sizeof(pyd_input_t))
    if inputs == NULL:
        raise MemoryError()
    try:
        # Objects that must live until the call has ended. NULL: no buffers of devices. True: copy strided arrays.
        task.kept = (procedure.gather(args, inputs, NULL, True), procedure, out)
        if procedure.module.flushes:
            flush_python()
        with nogil:
            status = pyd_procedure_submit(procedure.state.state, procedure.index, inputs, &options, &task.task)
        check(status)
    finally:
        free(inputs)
    return CallFuture(task)
