"""Submitted calls: waiting for them, cancelling them, and what they end with. `future.py` has what users see."""

cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t

from pydispatch._core.c_status cimport PYD_CODE_INTERRUPTED, pyd_interrupt_t, pyd_status_code, pyd_status_t
from pydispatch._core.c_submit cimport (
    PYD_WAIT_FOREVER,
    PYD_WAIT_INTERRUPTED,
    PYD_WAIT_TIMEOUT,
    pyd_task_cancel,
    pyd_task_is_cancelled,
    pyd_task_is_done,
    pyd_task_is_skipped,
    pyd_task_release,
    pyd_task_set_on_done,
    pyd_task_status,
    pyd_task_wait,
    pyd_wait_t,
)
from pydispatch._core.lock cimport pyd_flag, pyd_set_flag
from pydispatch._core.sched cimport Caller, enter, leave, worker_limit
from pydispatch._core.signals cimport interrupt_of
from pydispatch._core.status cimport exception_of

import threading
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as WaitTimeoutError

from pydispatch._core.status import InvalidArgumentError

cdef extern from "Python.h":
    void PyErr_WriteUnraisable(object where)

ctypedef void (*callback)(void*, pyd_task_t*) noexcept nogil

cdef dict PRIORITIES = {"high": 0, "normal": 1, "low": 2}
settling = threading.RLock()


cdef int fill_options(
        pyd_submit_options_t* out_options, str function, object priority, object workers, tuple after,
        pyd_task_t** out_tasks) except -1:
    cdef uint32_t i, count = <uint32_t>len(after)
    number = PRIORITIES.get(priority) if isinstance(priority, str) else None
    if number is None:
        raise InvalidArgumentError(f"submit: priority: expected 'high', 'normal' or 'low', got {priority!r}")
    if count > MAX_AFTER:
        raise InvalidArgumentError(f"submit: {count} of the arguments are futures; at most {<int>MAX_AFTER} may be")
    for i in range(count):
        out_tasks[i] = (<Task>after[i]).task
    out_options.priority, out_options.after, out_options.after_count = number, out_tasks, count
    out_options.workers = worker_limit(function, workers)
    out_options.behind, out_options.on_done, out_options.context = NULL, NULL, NULL
    return 0


cdef void call_back(void* context, pyd_task_t* task) noexcept with gil:
    try:
        (<object>context)()
    except BaseException:
        PyErr_WriteUnraisable(<object>context)
    Py_DECREF(<object>context)


cdef void drop_kept(void* context, pyd_task_t* task) noexcept with gil:
    Py_DECREF(<object>context)


cdef Task failed_before(Task task):
    """Return the task that a skipped one waited for and that has not succeeded, or None."""
    cdef Task first
    for first in task.after if pyd_task_is_skipped(task.task) else ():
        if pyd_task_is_done(first.task) and pyd_task_status(first.task) != NULL:
            return first
    return None


cdef Task first_failed(Task task):
    """Settle the tasks before a skipped one, from the root of their chain on, and return the one directly before it.

    A loop instead of a recursion: chains may have any number of tasks.
    """
    cdef list chain = []
    cdef Task first = failed_before(task)
    while first is not None and not first.settled:
        chain.append(first)
        first = failed_before(first)
    while chain:
        first = chain.pop()
        first.settle()
    return failed_before(task)


@cython.no_gc_clear  # what it keeps is in use as long as the task runs
cdef class Task:
    def __dealloc__(self):
        if self.task == NULL:
            return
        if self.kept is not None and not pyd_task_is_done(self.task):  # nobody waits for it; it runs on
            Py_INCREF(self.kept)
            if not pyd_task_set_on_done(self.task, <callback>drop_kept, <void*>self.kept):
                Py_DECREF(self.kept)
        pyd_task_release(self.task)

    cdef object collect(self):
        return None

    cdef object pending(self):
        return None

    cdef void let_go(self) noexcept:
        self.kept = None

    cdef object failure(self):
        cdef pyd_status_t status = pyd_task_status(self.task)
        cdef Task first = first_failed(self)
        if first is not None and first.error is not None:
            return first.error
        if pyd_status_code(status) == PYD_CODE_INTERRUPTED and (
                pyd_task_is_cancelled(self.task) or pyd_task_is_skipped(self.task)):
            return CancelledError()
        return exception_of(status)

    cdef int settle(self) except -1:
        if pyd_flag(&self.settled):
            return 0
        with settling:
            if self.settled:
                return 0
            if pyd_task_status(self.task) == NULL:
                try:
                    self.value = self.collect()
                except BaseException as error:
                    self.error = error
            else:
                self.error = self.failure()
            pyd_set_flag(&self.settled)
            self.let_go()
            self.after = ()
        return 0

    cdef int wait_until_done(self, object timeout) except -1:
        cdef uint64_t nanoseconds = PYD_WAIT_FOREVER
        cdef const pyd_interrupt_t* interrupt
        cdef pyd_wait_t outcome
        cdef Caller caller
        if pyd_task_is_done(self.task):
            return 0
        if timeout is not None:
            nanoseconds = <uint64_t>(min(max(float(timeout), 0.0), 1e9) * 1e9)
        enter(self.module.sched.callers, &caller)
        interrupt = interrupt_of(caller.thread)
        with nogil:
            outcome = pyd_task_wait(self.task, nanoseconds, interrupt)
        leave(self.module.sched.callers, &caller)
        if PyErr_Occurred() != NULL:  # raised by a signal's handler
            return -1
        if outcome == PYD_WAIT_INTERRUPTED:
            raise KeyboardInterrupt
        if outcome == PYD_WAIT_TIMEOUT:
            raise WaitTimeoutError(f"the call has not ended after {timeout} seconds")
        return 0

    def done(self):
        return pyd_task_is_done(self.task)

    def cancelled(self):
        if not pyd_task_is_done(self.task):
            return False
        self.settle()
        return isinstance(self.error, CancelledError)

    def cancel(self):
        cdef bint was_running
        with nogil:
            was_running = pyd_task_cancel(self.task)
        return was_running

    def result(self, timeout):
        if not pyd_flag(&self.settled):
            self.wait_until_done(timeout)
            self.settle()
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self, timeout):
        self.wait_until_done(timeout)
        self.settle()
        if isinstance(self.error, CancelledError):
            raise self.error
        return self.error

    def call_when_done(self, function):
        """Has `function()` called on the thread that ends the call. False when it has ended: it will not be called."""
        Py_INCREF(function)
        if pyd_task_set_on_done(self.task, <callback>call_back, <void*>function):
            return True
        Py_DECREF(function)
        return False
