from libc.stdint cimport uint32_t

from pydispatch._core.c_task cimport pyd_submit_options_t, pyd_task_t
from pydispatch._core.program cimport Module


# A submitted call, as its Future sees it.
cdef class Task:
    cdef pyd_task_t* task
    cdef Module module
    cdef object kept     # what the task uses
    cdef object value, error
    cdef int settled     # 1 once value or error is there
    cdef tuple after     # Tasks that end first

    # The value of a task that has ended well.
    cdef object collect(self)
    # The exception of one that has not.
    cdef object failure(self)
    # An array that the value will be; None when that is not known yet.
    cdef object pending(self)
    # Drops what nobody needs any more, when value or error are there.
    cdef void let_go(self) noexcept
    cdef int settle(self) except -1
    cdef int wait_until_done(self, object timeout) except -1


# The options for a task that runs after the tasks in |after|; |out_tasks| has room for these.
cdef int fill_options(
    pyd_submit_options_t* out_options, str function, object priority, object workers, tuple after,
    pyd_task_t** out_tasks) except -1

cdef object settling  # a lock: where collecting a value may run Python code

cdef enum:
    MAX_AFTER = 64  # tasks that one may name
