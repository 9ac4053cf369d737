# The task system for other extension modules: hold the Scheduler while its pointer is in use.
from libc.stdint cimport uint32_t

from pydispatch._core.c_process cimport pyd_process_scope_get, pyd_process_scope_set
from pydispatch._core.c_sched cimport pyd_sched_t, pyd_scope_t
from pydispatch._core.lock cimport pyd_lock, pyd_lock_t, pyd_unlock

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


# A call from Python that is under way, on its stack.
cdef struct Caller:
    unsigned long thread
    Caller* previous
    Caller* next


# Those of a Scheduler, which a caller holds anyway: counting references would cost more than the list.
cdef struct Callers:
    Caller* first
    pyd_lock_t lock


cdef class Scheduler:
    cdef pyd_sched_t* sched
    cdef Callers callers
    cdef object __weakref__


# `workers=` of a call: the most threads for it, 0 for None. InvalidArgumentError.
cdef uint32_t worker_limit(str function, object workers) except? 0xFFFFFFFF


# What this thread calls from here on uses at most |workers| threads, until `unlimit`. |scope|: on the stack of both.
cdef inline void limit(pyd_scope_t* scope, uint32_t workers) noexcept:
    scope.outer, scope.owner, scope.workers = pyd_process_scope_get(), NULL, workers
    pyd_process_scope_set(scope)


cdef inline void unlimit(const pyd_scope_t* scope) noexcept:
    pyd_process_scope_set(scope.outer)


cdef inline void enter(Callers* callers, Caller* caller) noexcept:
    caller.thread = PyThread_get_thread_ident()
    caller.previous = NULL
    pyd_lock(&callers.lock)
    caller.next = callers.first
    if callers.first != NULL:
        callers.first.previous = caller
    callers.first = caller
    pyd_unlock(&callers.lock)


cdef inline void leave(Callers* callers, Caller* caller) noexcept:
    pyd_lock(&callers.lock)
    if caller.next != NULL:
        caller.next.previous = caller.previous
    if caller.previous != NULL:
        caller.previous.next = caller.next
    else:
        callers.first = caller.next
    pyd_unlock(&callers.lock)
