"""Host functions as Python callables.

A call whose arguments are plain NumPy arrays creates no intermediate Python objects: the type objects below get a
vectorcall slot, because `__call__` of an extension type would build a tuple per call. All other calls (arrays of other
libraries, `out=`, many arguments) go through `Binding`, which also raises the errors.
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy

from pydispatch._core.arrays cimport ElementType
from pydispatch._core.binding cimport wrong_scalar
from pydispatch._core.bound cimport Binding
from pydispatch._core.c_sched cimport pyd_scope_t
from pydispatch._core.lock cimport pyd_flag
from pydispatch._core.memory cimport Block
from pydispatch._core.numpy_arrays cimport NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, PyArrayObject
from pydispatch._core.numpy_arrays cimport PyArray_DATA, PyArray_DESCR, PyArray_DIMS, PyArray_FLAGS, PyArray_NDIM
from pydispatch._core.numpy_arrays cimport PyArray_Type
from pydispatch._core.plan cimport Plan, Slot
from pydispatch._core.planned cimport Frame, PlannedFunction, Value, fresh_results, value_of
from pydispatch._core.sched cimport limit, unlimit, worker_limit

cimport numpy as cnp

from pydispatch._core.status import Error

cnp.import_array()

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf) nogil
    PyTypeObject* Py_TYPE(PyObject*)
    Py_ssize_t PyTuple_GET_SIZE(object)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)
    PyObject** PySequence_Fast_ITEMS(object)

cdef str OUT = "out", WORKERS = "workers"  # interned, as keyword names are
cdef int OUT_FLAGS = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE


@cython.final
cdef class Function(PlannedFunction):
    """A public function of a program on the CPU: `f(*args, out=None, workers=None, **named)`.

    Arguments are given in order or by name; `Program` says which types they may have. Any thread may call.
    """

    def __cinit__(self):
        self.vectorcall = <vectorcallfunc><void*>call

    def __call__(self, *args, out=None, workers=None, **named):
        """Provide the signature for introspection; calls use the vectorcall slot, call(), and never run this method."""
        raise NotImplementedError

    @property
    def __doc__(self):
        return self.help()

    def prepare(self, *args, out=None, workers=None, fresh=False, **named):
        """Fix the shapes of the arguments and bind their memory, so that each run costs less than a call.

        Args:
            args, named: The arguments, as for a call. They are read again in each run, and must be contiguous.
            out: An array for the result, or a tuple of arrays, as for a call.
            workers: Maximum number of threads of a run, 1 to 1024. Results do not depend on it.
            fresh: Return new arrays from each run. By default, each run overwrites the arrays of the run before.

        Returns:
            A Prepared: `p()` runs it, `p(c, d)` binds other arguments of the same shapes first.

        Raises:
            InvalidArgumentError: An argument does not fit.
        """
        from pydispatch._core.prepared import Prepared
        self.check_fresh(fresh, out)
        return Prepared(self, self.arranged(args, named) if named else args, out, workers, fresh)

    def submit(self, *args, out=None, priority="normal", workers=None, **named):
        """Start a call without waiting for it (docs/asynchronous.md).

        Args:
            args, named: The arguments, as for a call. They must not change until the call has ended. The Future of
                another call stands for its result.
            out: An array for the result, or a tuple of arrays, as for a call.
            priority: "high", "normal" or "low", among calls that wait for a thread.
            workers: Maximum number of threads of the call, 1 to 1024. Results do not depend on it.

        Returns:
            A Future of the results. The call runs to its end even if the Future is dropped.

        Raises:
            InvalidArgumentError: An argument does not fit.
        """
        from pydispatch._core.submit import submit
        return submit(self, self.arranged(args, named) if named else args, out, priority, workers)

    def submit_many(self, items, priority="normal", workers=None, on_error="raise"):
        """Start one call for each item, a tuple of arguments or the only argument, and return one Future for all.

        Args:
            items: An iterable; an item may hold futures, as arguments of `submit`.
            priority: "high", "normal" or "low", as for `submit`.
            workers: Maximum number of threads that work for all items together, 1 to 1024. If the function has host
                commands, it is the maximum for each call instead.
            on_error: "raise": arguments that do not fit are refused at once, and no call is made. When calls fail, the
                future raises the first error after all have ended; its `outcomes` is the list of all results and
                errors. "return": the list has errors where calls have no result.

        Returns:
            A Future of the list of results, in the order of the items. An error has the index of its item in `item`,
            and at the start of its text.
        """
        from pydispatch._core.submit import submit_many
        return submit_many(self, items, priority, workers, on_error)

    def map(self, items, in_flight=None, workers=None, on_error="raise"):
        """Call for each item, a tuple of arguments or the only argument, and yield the results in order.

        Args:
            items: An iterable, which is read as calls end.
            in_flight: Maximum number of calls whose results were not taken yet. Default: twice the workers.
            workers: Maximum number of threads of each call.
            on_error: "raise": an error is raised after the results before it, and ends the iterator. "return": the
                iterator yields the error and goes on with later items.

        Yields:
            For each item its result, or its error. An error has the index of its item in `item`, and at the start of
            its text.
        """
        from pydispatch._core.submit import mapped
        return mapped(self, items, in_flight, workers, on_error)

    def plan_of(self, *args, **named):
        """Return the commands that a call with these arguments would run, one line each."""
        given = self.arranged(args, named) if named else args
        self.check_count(len(given))
        return Binding(self, given, None).plan.describe()

    def profile(self, *args, runs=5, cold=False, **named):
        """Measure each command of a call, with all workers on one command after another.

        Args:
            args, named: The arguments, as for a call.
            runs: Number of runs; the Profile has their medians.
            cold: Whether all caches are evicted before each run. Otherwise operands that fit into a cache, such as
                the weights of a small model, are still in it from the run before.

        Returns:
            A Profile: a list of timings in seconds that prints as a table.
        """
        from pydispatch._core.timing import profile
        return profile(self, self.arranged(args, named) if named else args, runs, cold)

cdef inline int gather_if_plain(Function self, PyObject** args, Frame* frame) except -1:
    """Store sizes, addresses and numbers in the frame (the C arrays of a call), if every tensor is a plain array.

    Return 1 on success, and 0 if the call needs a Binding, the slow path for all other arguments. A plain array is
    contiguous and of the right type and rank.
    """
    cdef uint32_t i, axis, rank, scalar = 0
    cdef Value* value
    cdef PyArrayObject* array
    cdef Py_ssize_t* shape
    cdef int64_t* dims = frame.dims
    if self.scalar_count:  # numbers first: their conversion may run Python code, which may resize an array
        for i in range(self.arg_count):
            if self.args[i].descr != NULL:  # a tensor
                continue
            try:
                (<ElementType>self.arg_types[i]).pack(<object>args[i], &frame.scalars[scalar])
            except (TypeError, ValueError, OverflowError) as error:
                raise wrong_scalar(
                    self.name, i, self.arg_names[i], self.arg_types[i], <object>args[i], error) from None
            scalar += 1
    for i in range(self.arg_count):
        value = &self.args[i]
        if value.descr == NULL:
            continue
        if Py_TYPE(args[i]) != &PyArray_Type:
            return 0
        array = <PyArrayObject*>args[i]
        rank = value.rank
        # Pointers are compared, as NumPy has one descriptor object per built-in type. A Binding compares descriptors
        # by value.
        if (<PyObject*>PyArray_DESCR(array) != value.descr or <uint32_t>PyArray_NDIM(array) != rank
                or not PyArray_FLAGS(array) & NPY_ARRAY_C_CONTIGUOUS):
            return 0
        shape = PyArray_DIMS(array)
        for axis in range(rank):
            dims[axis] = shape[axis]
        dims += rank
        frame.args[i] = PyArray_DATA(array)
    return 1


cdef int gather_plain(Function self, PyObject** args, Frame* frame) except -1:
    """Call gather_if_plain(), which is inlined in this module, for other modules."""
    return gather_if_plain(self, args, frame)


cdef object run_fresh(Function self, Plan plan, Frame* frame):
    """Run the call with newly allocated results and return them: one, a tuple of several, None for none."""
    cdef Slot slot
    made = fresh_results(self, plan, frame)
    plan.take(&slot)
    try:
        plan.execute(&slot, frame.args, frame.scalars, frame.results, frame.out_scalars)
    finally:
        plan.give(&slot)
    return value_of(self, made, frame)


cdef inline bint can_write_into(Function self, Plan plan, Frame* frame, PyObject* out) noexcept:
    """Return whether the only result can be written directly into `out`.

    It can if `out` is a plain array of the right type and shape that overlaps no argument but the one that the result
    updates in place.
    """
    cdef PyArrayObject* array = <PyArrayObject*>out
    cdef Value* value = &self.outs[0]
    cdef uintptr_t data, begin
    cdef size_t size = plan.result_bytes[0]
    cdef uint32_t i
    if (Py_TYPE(out) != &PyArray_Type or <PyObject*>PyArray_DESCR(array) != value.descr
            or <uint32_t>PyArray_NDIM(array) != value.rank
            or PyArray_FLAGS(array) & OUT_FLAGS != OUT_FLAGS
            or memcmp(PyArray_DIMS(array), plan.result_dims(0), value.rank * sizeof(int64_t))):
        return False
    data = <uintptr_t>PyArray_DATA(array)
    for i in range(self.arg_count):
        begin = <uintptr_t>frame.args[i]
        if i == self.outs[0].tied and begin == data:
            continue  # the result updates this argument, `tied`, in place
        if self.args[i].descr != NULL and data < begin + plan.arg_bytes[i] and begin < data + size:
            return False
    return True


cdef object run_into(Function self, Plan plan, Frame* frame, PyObject* out):
    """Run the call with its only result in `out`, for which `can_write_into` is true.

    If the address of `out` is less aligned than kernels require, the result is written to other memory and copied.
    """
    cdef Slot slot
    cdef Block aligned_copy = None
    cdef void* data = PyArray_DATA(<PyArrayObject*>out)
    frame.results[0] = data
    if <uintptr_t>data & plan.result_mask[0]:  # not aligned: the mask is the alignment in bytes, minus 1
        aligned_copy = self.module.pool.acquire(plan.result_bytes[0])
        frame.results[0] = aligned_copy.data
    plan.take(&slot)
    try:
        plan.execute(&slot, frame.args, frame.scalars, frame.results, frame.out_scalars)
    finally:
        plan.give(&slot)
    if aligned_copy is not None:
        memcpy(data, aligned_copy.data, plan.result_bytes[0])
    return <object>out


cdef object call(PyObject* callable, PyObject** args, size_t nargsf, PyObject* names):
    """Call the function: the vectorcall slot. Calls with plain arrays take the fast path, others a Binding.

    args: the positional arguments, then the values of the keywords in `names`, a tuple or NULL.
    """
    cdef Function self = <Function>callable
    cdef Py_ssize_t count = PyVectorcall_NARGS(nargsf)
    cdef uint64_t words[STACK_WORDS]  # memory of the arrays of `frame`
    cdef Frame frame
    cdef Plan plan
    cdef bint has_out = names != NULL  # after the next check: `out` is the only keyword, and there is one result
    if self.module is None:
        raise Error("this Function was never made; use Program")
    # `simple`: the only result is a tensor.
    if has_out and not (self.simple and PyTuple_GET_SIZE(<object>names) == 1
                        and PyTuple_GET_ITEM(<object>names, 0) == <PyObject*>OUT):
        return call_with_names(self, args, count, names)
    if self.frame_words <= STACK_WORDS and not self.has_packed_elements:
        self.check_count(count)
        self.lay_out(words, &frame)
        if gather_if_plain(self, args, &frame):
            plan = self.last_plan()
            if plan is None or not plan.matches(frame.dims, frame.scalars):
                plan = self.find_plan(frame.dims, frame.scalars)
            if not has_out or args[count] == <PyObject*>None:
                return run_fresh(self, plan, &frame)
            if can_write_into(self, plan, &frame, args[count]):
                return run_into(self, plan, &frame, args[count])
    self.check_count(count)
    return Binding(self, [<object>args[i] for i in range(count)], <object>args[count] if has_out else None).run()


cdef object call_with_names(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Call with keywords other than `out` alone, or with `out` for several results.

    args: `count` positional arguments, then the values of the keywords in the tuple `names`.

    If the keywords name arguments only, put the arguments in order and use call(). Otherwise, including wrong keywords,
    use call_with_checked_names().
    """
    cdef PyObject* ordered[NAMED_ARGUMENTS]
    if order_arguments(self, args, count, <tuple>names, ordered):
        return call(<PyObject*>self, ordered, self.arg_count, NULL)
    return call_with_checked_names(self, args, count, <tuple>names)


cdef bint order_arguments(Function self, PyObject** args, Py_ssize_t count, tuple names, PyObject** out_args) except -1:
    """Store all arguments in `out_args`, in the order of the function.

    args: `count` positional arguments, then the values of the keywords `names`. Return False, with `out_args`
    undefined, unless every argument is given exactly once and there is no other keyword.
    """
    cdef Py_ssize_t i, position
    if not pyd_flag(&self.has_positions) or self.arg_count > NAMED_ARGUMENTS or count + len(names) != self.arg_count:
        return False
    for i in range(self.arg_count):
        out_args[i] = args[i] if i < count else NULL
    for i in range(len(names)):
        found = self.positions.get(names[i])
        position = -1 if found is None else found  # also -1 if several arguments have the name
        if position < count or out_args[position] != NULL or names[i] == OUT or names[i] == WORKERS:
            return False
        out_args[position] = args[count + i]
    return True


cdef object call_with_checked_names(Function self, PyObject** args, Py_ssize_t count, tuple names):
    """Call with any keywords: `out`, `workers`, and arguments by name, whose names are checked here.

    args: `count` positional arguments, then the values of the keywords `names`.
    """
    cdef Py_ssize_t i
    cdef dict named = {}
    cdef pyd_scope_t scope
    cdef uint32_t most  # threads of the call; 0: no limit of its own
    out = workers = None
    for i, name in enumerate(names):
        if name == OUT:
            out = <object>args[count + i]
        elif name == WORKERS:
            workers = <object>args[count + i]
        else:
            named[name] = <object>args[count + i]
    given = tuple([<object>args[i] for i in range(count)])
    if named:
        given = self.arranged(given, named)
    most = worker_limit(self.name, workers)
    if not most:
        return call_into(self, given, out)
    limit(&scope, most)
    try:
        return call_into(self, given, out)
    finally:
        unlimit(&scope)


cdef object call_into(Function self, tuple args, object out):
    """Call with positional arguments and `out`: None, an array for the only result, or a tuple of arrays."""
    if out is None:
        return call(<PyObject*>self, PySequence_Fast_ITEMS(args), len(args), NULL)
    self.check_count(len(args))
    return Binding(self, args, out).run()


# An instance, to compute the offset of its member `vectorcall`.
cdef Function probe = Function.__new__(Function)
pyd_type_set_vectorcall(<PyTypeObject*>Function, <char*>&probe.vectorcall - <char*><PyObject*>probe)
probe = None
