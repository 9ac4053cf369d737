# The task system for other extension modules: hold the Scheduler while its pointer is in use.
from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.c_process cimport pyd_process_scope_get, pyd_process_scope_set
from pydispatch._core.c_sched cimport pyd_sched_t, pyd_scope_t
from pydispatch._core.lock cimport pyd_lock, pyd_lock_t, pyd_unlock

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


# Lists of callers that a Scheduler has: threads that run at the same time are mostly in different ones.
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    enum { PYD_CALLER_LISTS = 32, PYD_CALLER_PADDING = 48 };
    #else
    enum { PYD_CALLER_LISTS = 1, PYD_CALLER_PADDING = 1 };
    #endif
    """
    enum:
        PYD_CALLER_LISTS
        PYD_CALLER_PADDING


# A call from Python that is under way, on its stack.
cdef struct Caller:
    unsigned long thread
    Caller* previous
    Caller* next


# Those of a Scheduler, which a caller holds anyway: counting references would cost more than the list.
cdef struct Callers:
    Caller* first
    pyd_lock_t lock
    char padding[PYD_CALLER_PADDING]  # to a cache line


cdef class Scheduler:
    cdef pyd_sched_t* sched
    cdef Callers callers[PYD_CALLER_LISTS]
    cdef object __weakref__


# `workers=` of a call: the most threads for it, 0 for None. InvalidArgumentError.
cdef uint32_t worker_limit(str function, object workers) except? 0xFFFFFFFF


# What this thread calls from here on uses at most |workers| threads, until `unlimit`. |scope|: on the stack of both.
cdef inline void limit(pyd_scope_t* scope, uint32_t workers) noexcept:
    scope.outer, scope.owner, scope.workers, scope.permit = pyd_process_scope_get(), NULL, workers, 0
    pyd_process_scope_set(scope)


cdef inline void unlimit(const pyd_scope_t* scope) noexcept:
    pyd_process_scope_set(scope.outer)


cdef inline Callers* callers_of(Callers* lists, unsigned long thread) noexcept nogil:
    return &lists[((<uint64_t>thread * <uint64_t>0x9E3779B97F4A7C15ULL) >> 59) % PYD_CALLER_LISTS]


cdef inline void enter(Callers* lists, Caller* caller) noexcept:
    cdef Callers* callers
    caller.thread = PyThread_get_thread_ident()
    callers = callers_of(lists, caller.thread)
    caller.previous = NULL
    pyd_lock(&callers.lock)
    caller.next = callers.first
    if callers.first != NULL:
        callers.first.previous = caller
    callers.first = caller
    pyd_unlock(&callers.lock)


cdef inline void leave(Callers* lists, Caller* caller) noexcept:
    cdef Callers* callers = callers_of(lists, caller.thread)
    pyd_lock(&callers.lock)
    if caller.next != NULL:
        caller.next.previous = caller.previous
    if caller.previous != NULL:
        caller.previous.next = caller.next
    else:
        callers.first = caller.next
    pyd_unlock(&callers.lock)
