"""Derived constants, such as weights in another layout: a program computes them once, from other constants."""

cimport cython

from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove
from pydispatch._core.c_program cimport pyd_derived_create, pyd_derived_fork_child, pyd_derived_fork_done
from pydispatch._core.c_program cimport pyd_derived_fork_prepare, pyd_derived_free
from pydispatch._core.program cimport Module
from pydispatch._core.status cimport check

from pydispatch._core.status import Error


cdef void fork_prepare(void* self) noexcept nogil:
    """Lock the mutex of derived constants before a fork: no other thread holds it in the child. self: pyd_derived_t."""
    pyd_derived_fork_prepare(<pyd_derived_t*>self)


cdef void fork_done(void* self) noexcept nogil:
    """Unlock the mutex of derived constants in the parent after a fork. self: pyd_derived_t."""
    pyd_derived_fork_done(<pyd_derived_t*>self)


cdef void fork_child(void* self) noexcept nogil:
    """Unlock the mutex in the child of a fork, and abandon the computations of other threads. self: pyd_derived_t."""
    pyd_derived_fork_child(<pyd_derived_t*>self)


@cython.final
@cython.no_gc
cdef class Derived:
    """Host memory of the derived constants of a loaded program, `module`.

    A derived constant is computed from other constants on first use, such as a weight in another layout. Loaded copies
    of one program may share one object.
    """

    def __init__(self, Module module not None):
        """Create the memory, with no constant computed yet."""
        if self.derived != NULL:
            raise Error("a Derived is made once")
        self.sched, self.pool = module.sched, module.pool  # the C object uses both and must not outlive them
        check(pyd_derived_create(module.program, module.sched.sched, module.pool.pool, &self.derived))
        check(pyd_process_atfork_add(self.derived, fork_prepare, fork_done, fork_child))

    def __dealloc__(self):
        if self.derived != NULL:
            pyd_process_atfork_remove(self.derived)
            pyd_derived_free(self.derived)
