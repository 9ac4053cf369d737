# The task system for other extension modules: hold the Scheduler while its pointer is in use.
from libc.stdint cimport uint32_t, uint64_t

from pydispatch._core.c_process cimport pyd_process_scope_get, pyd_process_scope_set
from pydispatch._core.c_sched cimport pyd_sched_t, pyd_scope_t
from pydispatch._core.lock cimport pyd_lock, pyd_lock_t, pyd_unlock

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


# Number of lists of calls in a Scheduler. Threads without the GIL mostly use different lists, to avoid contention.
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


# A running call from Python, stored on the stack of its thread.
cdef struct Caller:
    unsigned long thread
    Caller* previous
    Caller* next


# A doubly linked list of the running calls of a Scheduler, by which close() finds a call of its own thread.
cdef struct Callers:
    Caller* first
    pyd_lock_t lock
    char padding[PYD_CALLER_PADDING]  # to a cache line


cdef class Scheduler:
    cdef pyd_sched_t* sched
    cdef Callers callers[PYD_CALLER_LISTS]
    cdef object __weakref__


# Returns the maximum number of threads of a call from its argument `workers`, 0 for None. Raises InvalidArgumentError.
cdef uint32_t worker_limit(str function, object workers) except? 0xFFFFFFFF


# Limits later calls of this thread to |workers| threads, until unlimit(). |scope|: memory on the stack until then.
cdef inline void limit(pyd_scope_t* scope, uint32_t workers) noexcept:
    scope.outer, scope.owner, scope.workers, scope.permit = pyd_process_scope_get(), NULL, workers, 0
    pyd_process_scope_set(scope)


# Ends the limit that limit() has set with |scope|.
cdef inline void unlimit(const pyd_scope_t* scope) noexcept:
    pyd_process_scope_set(scope.outer)


# Returns the list of the calls of a thread: a hash of its identifier, of 5 bits, selects it.
cdef inline Callers* callers_of(Callers* lists, unsigned long thread) noexcept nogil:
    return &lists[((<uint64_t>thread * <uint64_t>0x9E3779B97F4A7C15ULL) >> 59) % PYD_CALLER_LISTS]


# Adds a call of this thread to its list when it begins.
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


# Removes a call from its list when it has ended.
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
