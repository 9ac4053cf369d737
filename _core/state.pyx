"""The state of a loaded program between calls of its procedures: its globals."""

cimport cython

from pydispatch._core.c_procedure cimport pyd_state_create, pyd_state_fork_child, pyd_state_fork_done
from pydispatch._core.c_procedure cimport pyd_state_fork_prepare, pyd_state_free, pyd_state_initialize
from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t
from pydispatch._core.program cimport Module
from pydispatch._core.sched cimport Caller, enter, leave
from pydispatch._core.signals cimport interrupt_of
from pydispatch._core.status cimport check

from pydispatch._core.future import SubmissionOrder
from pydispatch._core.status import Error


cdef void fork_prepare(void* self) noexcept nogil:
    """Lock a state before a fork, so that the child gets it consistent. self: the pyd_state_t."""
    pyd_state_fork_prepare(<pyd_state_t*>self)


cdef void fork_done(void* self) noexcept nogil:
    """Unlock a state in the parent of a fork. self: the pyd_state_t."""
    pyd_state_fork_done(<pyd_state_t*>self)


cdef void fork_child(void* self) noexcept nogil:
    """Unlock a state in the child of a fork, and end the calls of other threads. self: the pyd_state_t."""
    pyd_state_fork_child(<pyd_state_t*>self)


@cython.final
@cython.no_gc
cdef class State:
    """Globals and cached plans of a loaded program. Created after linking; the constructor runs the initializers.

    is_session: the state is an additional one, with its own globals, and keeps the module alive. Otherwise it is the
    default state, which the module owns: it does not keep the module alive, as such a reference cycle is never freed.
    """

    def __init__(self, Module module not None, bint is_session=False):
        """Create the globals of a linked program, and run its initializers.

        is_session: the state has its own globals and keeps the module alive; else the module owns the state.
        """
        cdef pyd_status_t status
        cdef Caller caller
        cdef const pyd_interrupt_t* interrupt
        if self.state != NULL:
            raise Error("a State is made once")
        self.sched, self.pool, self.owner = module.sched, module.pool, module if is_session else None
        self.order = SubmissionOrder()
        check(pyd_state_create(module.program, module.sched.sched, module.pool.pool, &self.state))
        check(pyd_process_atfork_add(self.state, fork_prepare, fork_done, fork_child))
        enter(module.sched.callers, &caller)
        interrupt = interrupt_of(caller.thread)
        with nogil:
            status = pyd_state_initialize(self.state, interrupt)
        leave(module.sched.callers, &caller)
        check(status)

    def __dealloc__(self):
        if self.state != NULL:
            pyd_process_atfork_remove(self.state)
            pyd_state_free(self.state)
