from libc.stdint cimport uint32_t

from pydispatch._core.c_task cimport pyd_submit_options_t, pyd_task_t
from pydispatch._core.program cimport Module


# A submitted call, with its value or error after its end: base class of all tasks.
cdef class Task:
    cdef pyd_task_t* task
    cdef Module module
    cdef object kept     # objects that the running task uses
    cdef object value, error
    cdef int settled     # 1 once value or error is stored
    cdef tuple after     # predecessors: Tasks that must end before this one starts

    # Returns the value of a task that has succeeded.
    cdef object collect(self)
    # Returns the exception of a task that has failed.
    cdef object failure(self)
    # Returns the array that will be the value; None if it is not known yet.
    cdef object pending(self)
    # Releases the objects that the task used, once its value or error is stored.
    cdef void let_go(self) noexcept
    cdef int settle(self) except -1
    cdef int wait_until_done(self, object timeout) except -1


# Fills the options for a task that runs after the tasks in |after|. |out_tasks|: memory for their C tasks.
cdef int fill_options(
    pyd_submit_options_t* out_options, str function, object priority, object workers, tuple after,
    pyd_task_t** out_tasks) except -1

cdef object settling  # lock, held while a task is settled, which may run Python code

cdef enum:
    MAX_AFTER = 64  # most predecessors of a task
