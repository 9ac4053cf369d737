"""Derived constants, such as weights in another layout: a program computes them once, from other constants."""

cimport cython

from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove
from pydispatch._core.c_program cimport pyd_derived_create, pyd_derived_fork_child, pyd_derived_fork_done
from pydispatch._core.c_program cimport pyd_derived_fork_prepare, pyd_derived_free
from pydispatch._core.program cimport Module
from pydispatch._core.status cimport check

from pydispatch._core.status import Error


cdef void fork_prepare(void* self) noexcept nogil:
    pyd_derived_fork_prepare(<pyd_derived_t*>self)


cdef void fork_done(void* self) noexcept nogil:
    pyd_derived_fork_done(<pyd_derived_t*>self)


cdef void fork_child(void* self) noexcept nogil:
    pyd_derived_fork_child(<pyd_derived_t*>self)


@cython.final
@cython.no_gc
cdef class Derived:
    """Derived constants of a loaded program, `module`. Each is computed on first use; equal programs share them."""

    def __init__(self, Module module not None):
        if self.derived != NULL:
            raise Error("a Derived is made once")
        self.sched, self.pool = module.sched, module.pool  # the C object uses both and must not outlive them
        check(pyd_derived_create(module.program, module.sched.sched, module.pool.pool, &self.derived))
        check(pyd_process_atfork_add(self.derived, fork_prepare, fork_done, fork_child))

    def __dealloc__(self):
        if self.derived != NULL:
            pyd_process_atfork_remove(self.derived)
            pyd_derived_free(self.derived)
