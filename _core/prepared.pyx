"""Prepared calls: their shapes are fixed and their buffers bound, so that each run costs less than a call."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint32_t

from pydispatch._core.bound cimport Binding
from pydispatch._core.c_sched cimport pyd_scope_t
from pydispatch._core.function cimport Function, pyd_type_set_vectorcall, vectorcallfunc
from pydispatch._core.lock cimport pyd_claim, pyd_disclaim
from pydispatch._core.plan cimport Slot
from pydispatch._core.sched cimport limit, unlimit, worker_limit

from pydispatch._core.pickling import refuse
from pydispatch._core.status import Error

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf) nogil


@cython.final
@cython.no_gc_clear  # __dealloc__ gives its slot back to the plan of its binding
cdef class Prepared:
    """A call with fixed shapes. `p()` runs it on bound arguments; `p(c, d)` first binds others of the same shapes.

    Each run returns the same arrays: those given as `out`, or arrays of its own, which the next run overwrites. With
    `fresh=True`, each run returns new arrays. A Prepared runs on one thread at a time.
    """

    cdef vectorcallfunc vectorcall
    cdef Binding binding
    cdef Slot slot         # call object of the plan and its scratch memory
    cdef bint taken        # whether `slot` was taken from the plan
    cdef object packed     # None unless elements are smaller than a byte: the arguments, which each run packs again
    cdef bint fresh        # whether each run returns new arrays, copies of the results
    cdef int busy          # claimed by the thread that runs the call
    cdef uint32_t workers  # maximum number of threads of a run; 0: no limit of its own

    def __cinit__(self):
        self.vectorcall = <vectorcallfunc><void*>call

    def __init__(self, Function function not None, args, out, workers=None, bint fresh=False):
        """Bind the arguments to the plan for their sizes, and take the slot of that plan that all runs use.

        args: all arguments, in order; arrays must be contiguous. out: the array or tuple of arrays for the results, or
        None. workers: maximum number of threads of a run, or None. fresh: return new arrays from each run.
        """
        if self.binding is not None:
            raise Error("a Prepared is made once")
        if len(args) != function.arg_count:
            function.check_count(len(args))
        self.workers, self.fresh = worker_limit(function.name, workers), fresh
        binding = Binding(function, args, out, copies=False)
        (<Binding>binding).plan.take(&self.slot)
        self.taken = True
        self.packed = args if (<Binding>binding).packed else None
        self.binding = binding

    cdef Binding bound(self):
        """Return the binding. Raise Error if __init__ did not run."""
        if self.binding is None:
            raise Error("this Prepared was never made; use Function.prepare")
        return self.binding

    def __dealloc__(self):
        if self.taken:
            self.binding.plan.give(&self.slot)

    def __call__(self, *args, **named):
        """Replaced by the vectorcall slot; kept for the signature that it shows."""
        raise NotImplementedError

    def __reduce__(self):
        refuse("prepared call")

    def __repr__(self):
        return f"<prepared call of @{self.bound().function.name}>"

    @property
    def commands(self):
        """Return a description of each command of a run."""
        return self.bound().plan.describe()


cdef object copied(object value):
    """Return a copy of a result or a tuple of results, because the next run overwrites their arrays."""
    if isinstance(value, tuple):
        return tuple([copied(each) for each in <tuple>value])
    return value.copy() if hasattr(value, "copy") else value


cdef object call(PyObject* callable, PyObject** args, size_t nargsf, PyObject* names):
    """Bind the arguments, if there are any, and run the prepared call: the vectorcall slot.

    args: the positional arguments, then the values of the keywords in `names`, a tuple or NULL.
    """
    cdef Prepared self = <Prepared>callable
    cdef Binding binding = self.bound()
    cdef pyd_scope_t scope
    cdef Py_ssize_t count = PyVectorcall_NARGS(nargsf)
    if binding.function.module.closed:
        raise Error(f"@{binding.function.name}: its program was closed")
    given = ()
    if count:
        given = [<object>args[i] for i in range(count)]  # keywords follow after `count`
    if names != NULL:
        named = {name: <object>args[count + i] for i, name in enumerate(<tuple>names)}
        given = binding.function.arranged(given, named)
    if not pyd_claim(&self.busy):
        raise Error(
            f"@{binding.function.name}: this prepared call is running already (in another thread, or in a hook of an "
            "argument); prepare one per thread")
    try:
        if given:  # otherwise the arguments of the call before stay bound
            binding.function.check_count(len(given))
            binding.rebind(given)
            if self.packed is not None:
                self.packed = given
        elif self.packed is not None:  # pack the elements of the bound arrays again: they may have changed
            binding.rebind(self.packed)
        if self.workers:
            limit(&scope, self.workers)
        try:
            value = binding.execute(&self.slot)
        finally:
            if self.workers:
                unlimit(&scope)
        return copied(value) if self.fresh else value
    finally:
        pyd_disclaim(&self.busy)


# An instance, to compute the offset of its member `vectorcall`.
cdef Prepared probe = Prepared.__new__(Prepared)
pyd_type_set_vectorcall(<PyTypeObject*>Prepared, <char*>&probe.vectorcall - <char*><PyObject*>probe)
probe = None
