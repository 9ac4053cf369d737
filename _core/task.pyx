"""Tasks: submitted calls, how to wait for and cancel them, and their outcomes. `future.py` has the futures of users."""

cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t

from pydispatch._core.c_status cimport PYD_CODE_INTERRUPTED, pyd_interrupt_t, pyd_status_code, pyd_status_t
from pydispatch._core.c_task cimport PYD_WAIT_FOREVER, PYD_WAIT_INTERRUPTED, PYD_WAIT_TIMEOUT, pyd_task_cancel
from pydispatch._core.c_task cimport pyd_task_is_cancelled, pyd_task_is_done, pyd_task_is_skipped, pyd_task_release
from pydispatch._core.c_task cimport pyd_task_set_on_done, pyd_task_status, pyd_task_wait, pyd_wait_t
from pydispatch._core.lock cimport pyd_flag, pyd_set_flag
from pydispatch._core.sched cimport Caller, enter, leave, worker_limit
from pydispatch._core.signals cimport interrupt_of
from pydispatch._core.status cimport exception_of

from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as WaitTimeoutError

from pydispatch._core.process_lock import process_lock
from pydispatch._core.status import InvalidArgumentError

cdef extern from "Python.h":
    void PyErr_WriteUnraisable(object where)

ctypedef void (*callback)(void*, pyd_task_t*) noexcept nogil

cdef dict PRIORITIES = {"high": 0, "normal": 1, "low": 2}
settling = process_lock()


cdef int fill_options(
        pyd_submit_options_t* out_options, str function, object priority, object workers, tuple after,
        pyd_task_t** out_tasks) except -1:
    """Fill the options of a submission.

    function: its name, for errors. after: Tasks that must end first. out_tasks: an array of MAX_AFTER elements, which
    receives their C tasks and must outlive the options; NULL if `after` is empty. Raise InvalidArgumentError for wrong
    options.
    """
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
    out_options.order_after, out_options.on_done, out_options.context = NULL, NULL, NULL
    return 0


cdef void call_back(void* context, pyd_task_t* task) noexcept with gil:
    """Call the Python function `context` when a task has ended, print its errors, and drop the reference to it."""
    try:
        (<object>context)()
    except BaseException:
        PyErr_WriteUnraisable(<object>context)
    Py_DECREF(<object>context)


cdef void drop_kept(void* context, pyd_task_t* task) noexcept with gil:
    """Drop `context`, the objects that a running task kept alive after its Task was deallocated."""
    Py_DECREF(<object>context)


cdef Task failed_predecessor(Task task):
    """Return the predecessor whose failure made the scheduler skip a task; None if the task was not skipped."""
    cdef Task first
    for first in task.after if pyd_task_is_skipped(task.task) else ():
        if pyd_task_is_done(first.task) and pyd_task_status(first.task) != NULL:
            return first
    return None


cdef Task settle_failed_chain(Task task):
    """Settle the failed predecessors of a skipped task: first the task that failed first, then those after it.

    Return the direct predecessor, or None if the task was not skipped. This is a loop, because chains may have any
    number of tasks and a recursion could overflow the stack.
    """
    cdef list chain = []
    cdef Task first = failed_predecessor(task)
    # From the task backwards to the one that failed first; a settled task has its error already.
    while first is not None and not first.settled:
        chain.append(first)
        first = failed_predecessor(first)
    while chain:
        first = chain.pop()
        first.settle()
    return failed_predecessor(task)


@cython.no_gc_clear  # the running task uses the objects that it keeps
cdef class Task:
    """A submitted call, with its outcome once it is settled: base of the tasks of functions, procedures and batches.

    The submitting function creates it and starts the task of the C core. A future waits with `result` or `exception`,
    which call `settle` after the end: it stores the value or the error, and releases the objects of the call.
    """

    def __dealloc__(self):
        if self.task == NULL:
            return
        if self.kept is not None and not pyd_task_is_done(self.task):  # it runs on without a future
            Py_INCREF(self.kept)
            if not pyd_task_set_on_done(self.task, <callback>drop_kept, <void*>self.kept):
                Py_DECREF(self.kept)
        pyd_task_release(self.task)

    cdef object collect(self):
        """Return the value of a call that has succeeded; overridden by tasks of calls with results."""
        return None

    cdef object pending(self):
        """Return the array that will hold the only result, or None if there is no such array yet."""
        return None

    cdef void let_go(self) noexcept:
        """Release the objects that the running call needed."""
        self.kept = None

    cdef object failure(self):
        """Return the error of a call that has failed. A skipped call has the error of its failed predecessor."""
        cdef pyd_status_t status = pyd_task_status(self.task)
        cdef Task first = settle_failed_chain(self)
        if first is not None and first.error is not None:
            return first.error
        # Else the interruption has another cause, such as Ctrl-C.
        if pyd_status_code(status) == PYD_CODE_INTERRUPTED and (
                pyd_task_is_cancelled(self.task) or pyd_task_is_skipped(self.task)):
            return CancelledError()
        return exception_of(status)

    cdef int settle(self) except -1:
        """Store the value or the error of a call that has ended, unless it is stored already."""
        if pyd_flag(&self.settled):
            return 0
        with settling:
            if self.settled:  # by another thread, meanwhile
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
        """Wait for the end of the call. Raise TimeoutError after `timeout` seconds, None for no limit.

        Raise InvalidArgumentError for NaN.
        """
        cdef uint64_t nanoseconds = PYD_WAIT_FOREVER
        cdef double seconds
        cdef const pyd_interrupt_t* interrupt
        cdef pyd_wait_t outcome
        cdef Caller caller
        if pyd_task_is_done(self.task):
            return 0
        if timeout is not None:
            seconds = float(timeout)
            if seconds != seconds:
                raise InvalidArgumentError("timeout: expected a number of seconds, or None for no limit; got NaN")
            nanoseconds = <uint64_t>(min(max(seconds, 0.0), 1e9) * 1e9)  # 1e9 s at most, to fit 64 bits
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
        """Return whether the call has ended, with any outcome."""
        return pyd_task_is_done(self.task)

    def cancelled(self):
        """Return whether the call has ended because it, or a predecessor, was cancelled."""
        if not pyd_task_is_done(self.task):
            return False
        self.settle()
        return isinstance(self.error, CancelledError)

    def cancel(self):
        """Request cancellation. Return False if the call had ended, or has changed globals."""
        cdef bint was_running
        with nogil:
            was_running = pyd_task_cancel(self.task)
        return was_running

    def result(self, timeout):
        """Wait for the end of the call, and return its value or raise its error. timeout: seconds; None: no limit."""
        if not pyd_flag(&self.settled):
            self.wait_until_done(timeout)
            self.settle()
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self, timeout):
        """Wait for the end of the call and return its error, None if it succeeded.

        timeout: seconds, None for no limit. Raise CancelledError if the call was cancelled.
        """
        self.wait_until_done(timeout)
        self.settle()
        if isinstance(self.error, CancelledError):
            raise self.error
        return self.error

    def call_when_done(self, function):
        """Call `function()` on the thread that ends the call. Return False, without a call, if it has ended."""
        Py_INCREF(function)
        if pyd_task_set_on_done(self.task, <callback>call_back, <void*>function):
            return True
        Py_DECREF(function)
        return False
