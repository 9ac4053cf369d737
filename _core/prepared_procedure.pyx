"""Prepared calls of procedures, the functions of a program with control flow, state or checks."""

cimport cython
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pydispatch._core.c_procedure cimport pyd_input_t
from pydispatch._core.lock cimport pyd_claim, pyd_disclaim
from pydispatch._core.procedure cimport Procedure
from pydispatch._core.sched cimport worker_limit

from pydispatch._core.pickling import refuse
from pydispatch._core.status import Error


@cython.final
cdef class PreparedProcedure:
    """A call of a procedure with bound arguments. `p()` runs it; `p(c, d)` binds other arguments first.

    Another call while it runs raises Error. Results are new arrays in every run, unless `out` was given.
    """

    cdef Procedure procedure
    cdef pyd_input_t* inputs  # the bound arguments, as C reads them
    cdef list held            # objects that own the memory of the arguments
    cdef object packed        # None unless elements are smaller than a byte: the arguments, packed again in each run
    cdef object out           # None, an array for the only result, or a tuple with an array or None per result
    cdef int busy             # claimed by the thread that runs the call
    cdef uint32_t workers     # maximum number of threads of a run; 0: no limit of its own

    def __init__(self, Procedure procedure not None, args, out, workers):
        """Check and bind the arguments. Each run reads the memory of arrays again.

        args: all arguments, in order; arrays must be contiguous. out: None, an array for the only result, or a tuple
        with an array or None per result. workers: maximum number of threads of a run, None for no limit of its own.
        """
        if self.inputs != NULL:
            raise Error("a PreparedProcedure is made once")
        self.inputs = <pyd_input_t*>calloc(procedure.arg_count + 1, sizeof(pyd_input_t))
        if self.inputs == NULL:
            raise MemoryError()
        self.out, self.workers = out, worker_limit(procedure.name, workers)
        procedure.check_out(out)  # for its errors: each run checks `out` again
        # NULL: no buffers of devices. False: strided arrays are refused.
        self.held = procedure.gather(args, self.inputs, NULL, False)
        # Numbers (no dims) are never packed.
        packs = [kind.packed and dims is not None for kind, dims in zip(procedure.arg_types, procedure.arg_dims)]
        self.packed = args if any(packs) else None
        self.procedure = procedure

    def __dealloc__(self):
        free(self.inputs)

    cdef Procedure bound(self):
        """Return the procedure. Raise Error if __init__ did not run, or has failed."""
        if self.procedure is None:
            raise Error("this PreparedProcedure was never made; use Procedure.prepare")
        return self.procedure

    def __call__(self, *args, **named):
        """Bind the arguments, if there are any, and run the procedure. Return its results as a call does."""
        cdef pyd_input_t* fresh
        cdef Procedure procedure = self.bound()
        name = procedure.name
        if named:
            args = procedure.arranged(args, named)
        if procedure.module.closed:
            raise Error(f"@{name}: its program was closed")
        if not pyd_claim(&self.busy):
            raise Error(
                f"@{name}: this prepared call is running already (in another thread, or in a hook of an argument); "
                "prepare one per thread")
        try:
            if not args and self.packed is not None:  # pack the elements of the bound arrays again
                args = self.packed
            if args:
                fresh = <pyd_input_t*>calloc(procedure.arg_count + 1, sizeof(pyd_input_t))
                if fresh == NULL:
                    raise MemoryError()
                try:
                    # Gather into other memory: if an argument is refused, the arguments before stay bound.
                    held = procedure.gather(args, fresh, NULL, False)
                    memcpy(self.inputs, fresh, procedure.arg_count * sizeof(pyd_input_t))
                    self.held = held
                    if self.packed is not None:
                        self.packed = args
                finally:
                    free(fresh)
            return procedure.invoke(self.inputs, NULL, self.out, self.workers)
        finally:
            pyd_disclaim(&self.busy)

    def __reduce__(self):
        refuse("prepared call")

    def __repr__(self):
        return f"<prepared call of @{self.bound().name}>"
