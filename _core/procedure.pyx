"""Procedures as Python callables: control flow, state and checks run in C, see pydispatch/procedure.h."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport fflush
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pydispatch._core.arrays cimport ElementType, packed_of, unpack_into
from pydispatch._core.binding cimport (
    check_apart,
    input_array,
    output_array,
    take_array,
    value_text,
    value_type,
    wrong_scalar,
)
from pydispatch._core.c_procedure cimport pyd_invocation_free, pyd_invocation_observation
from pydispatch._core.c_procedure cimport pyd_invocation_observation_count, pyd_invocation_observed
from pydispatch._core.c_procedure cimport pyd_invocation_result, pyd_invocation_take, pyd_procedure_call
from pydispatch._core.c_procedure cimport pyd_procedure_call_on_device, pyd_value_t
from pydispatch._core.c_program cimport PYD_KIND_SCALAR
from pydispatch._core.c_program cimport pyd_program_check, pyd_program_check_t, pyd_program_function_t
from pydispatch._core.c_program cimport pyd_program_procedure, pyd_program_procedure_uses_globals, pyd_tensor_bytes
from pydispatch._core.c_sched cimport pyd_scope_t
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t
from pydispatch._core.memory cimport Block
from pydispatch._core.numpy_arrays cimport NPY_ARRAY_CARRAY, PyArrayObject, PyArray_DATA, PyArray_DIMS, PyArray_Descr
from pydispatch._core.numpy_arrays cimport PyArray_NewFromDescr, PyArray_SetBaseObject, PyArray_Type
from pydispatch._core.plan cimport flush_python
from pydispatch._core.program cimport Module, text_of
from pydispatch._core.public cimport PublicFunction
from pydispatch._core.sched cimport Caller, enter, leave, limit, unlimit, worker_limit
from pydispatch._core.signals cimport interrupt_of
from pydispatch._core.state cimport State
from pydispatch._core.status cimport check

cimport numpy as cnp

from functools import partial

import numpy as np

from pydispatch._core.status import ArtifactError, Error, InvalidArgumentError

cnp.import_array()

# Kinds of checks, indexed by the `kind` of a pyd_program_check_t.
cdef tuple KINDS = ("expect_true", "expect_false", "expect_all_true", "expect_eq", "expect_almost_eq", "expect_close")


@cython.final
cdef class Procedure(PublicFunction):
    """A public function with control flow, state or checks: `f(*args, out=None, workers=None, **named)`.

    `Program` says which types arguments may have. The sizes of results are known only after a run, so an `out` of the
    wrong shape is refused then. On devices with memory of their own, `on_device` takes and returns buffers. Each
    kind of call is a `gather` of the arguments, an `invoke` of the C procedure, and `finish`, which verifies checks and
    returns the results.
    """

    def __init__(self, Module module not None, uint32_t index, verify, State state=None):
        """Create the function for procedure `index` of the module.

        state: holds the global variables of the program, by default those that all procedures of the module share.
        verify: called after a run that has executed checks, as verify(name, observed), with the name of the procedure
        and the list that `observed` returns; it raises if a check fails.
        """
        cdef const pyd_program_function_t* info = pyd_program_procedure(module.program, index)
        if self.module is not None or info == NULL or not isinstance(module.state, State):
            raise Error("a Procedure is made once, of a program that is linked")
        self.describe(module, index, info)
        self.state, self.verify = module.state if state is None else state, verify
        self.order = self.state.order if pyd_program_procedure_uses_globals(module.program, index) else None

    def __call__(self, *args, out=None, workers=None, **named):
        """Run the procedure. Return an array or number for one result, a tuple for several, None for none."""
        cdef uint32_t most = worker_limit(self.name, workers)  # 0: no limit of its own
        cdef pyd_input_t* inputs = <pyd_input_t*>calloc(self.arg_count + 1, sizeof(pyd_input_t))
        if inputs == NULL:
            raise MemoryError()
        try:
            held = self.gather(self.arranged(args, named) if named else args, inputs, NULL, True)
            return self.invoke(inputs, NULL, out, most)
        finally:
            held = None
            free(inputs)

    def on_device(self, tuple args not None):
        """Run the procedure on buffers of a device. Return the list of results.

        args: in order, buffers of the device, which are used without a copy, arrays, and numbers. Each result is a
        number, or a tuple of its memory on the device, shape, ElementType and size in bytes.
        """
        return self.with_device_inputs(args, True)

    def check_prepared(self, tuple args not None):
        """Raise InvalidArgumentError unless a prepared call can bind the arguments, which `on_device` takes.

        Strided arrays are refused, as by prepared calls on the CPU: runs would read copies of them.
        """
        self.with_device_inputs(args, False)

    cdef list with_device_inputs(self, tuple args, bint runs):
        """Gather the arguments of `on_device`. If `runs`, run the procedure and return its results.

        Otherwise only check the arguments, refuse strided arrays, and return None.
        """
        cdef pyd_input_t* inputs = <pyd_input_t*>calloc(self.arg_count + 1, sizeof(pyd_input_t) + sizeof(void*))
        cdef void** blocks
        if inputs == NULL:
            raise MemoryError()
        blocks = <void**>(inputs + self.arg_count + 1)  # the second array of the allocation
        try:
            held = self.gather(args, inputs, blocks, runs)
            return self.invoke(inputs, blocks, None, 0) if runs else None
        finally:
            held = None
            free(inputs)

    @property
    def __doc__(self):
        return self.help()

    def prepare(self, *args, out=None, workers=None, fresh=False, **named):
        """Check and bind the arguments, and return a PreparedProcedure.

        Its results are new arrays in every run, with `fresh` or without, unless `out` is given. out: None, an
        array for the only result, or a tuple with an array or None per result. workers: maximum number of threads.
        """
        from pydispatch._core.prepared_procedure import PreparedProcedure
        self.check_fresh(fresh, out)
        return PreparedProcedure(self, self.arranged(args, named) if named else args, out, workers)

    def batched(self, *args, **named):
        """Raise InvalidArgumentError: control flow and state concern a whole call, not single rows."""
        raise InvalidArgumentError(
            f"@{self.name} cannot be batched: it has control flow, state or checks, which see all rows of a call; "
            f"call it with the rows of several requests, or submit each request by itself: {self.text()}")

    def submit(self, *args, out=None, priority="normal", workers=None, **named):
        """Start a call without waiting for it, and return a Future of its results.

        Calls that share state of the program run in the order in which they were submitted.
        """
        from pydispatch._core.submit_procedure import submit
        return submit(self, self.arranged(args, named) if named else args, out, priority, workers)

    def submit_many(self, items, priority="normal", workers=None, on_error="raise"):
        """Start one call for each item, a tuple of arguments or the only one, and return one Future of all results.

        workers: Maximum number of threads of each call.
        """
        from pydispatch._core.items import all_of, returns_errors
        submit = partial(self.submit, priority=priority, workers=workers)
        return all_of(submit, items, returns_errors(on_error))

    def map(self, items, in_flight=None, workers=None, on_error="raise"):
        """Call for each item, a tuple of arguments or the only argument, and yield the results in order."""
        from pydispatch._core.submit import mapped
        return mapped(self, items, in_flight, workers, on_error)

    def profile(self, *args, runs=1, cold=False, **named):
        """Measure each command of a call, and return a Profile.

        runs: number of measured runs, after a warm-up run that is not counted; the Profile has their means. cold: evict
        all caches before each run. Each run changes the state of the program as a call does. A command that runs
        several times in a call has one timing.
        """
        from pydispatch._core.timing_procedure import profile
        return profile(self, self.arranged(args, named) if named else args, runs, cold)

    def close(self):
        """Do nothing: the plans are cached by the state of the program and released with it."""

    cdef list gather(self, object args, pyd_input_t* inputs, void** blocks, bint copies):
        """Check the arguments and store them in `inputs`. Return the objects to keep alive while C reads them.

        inputs: an entry, initially zero, per argument. blocks: an entry, initially zero, per argument; it receives the
        device memory of a buffer. NULL if buffers of devices are not allowed. copies: copy strided arrays; otherwise
        they are refused. Raises InvalidArgumentError.
        """
        cdef uint32_t i
        if self.module.closed:
            raise Error(f"@{self.name}: its program was closed")
        self.check_count(len(args))
        arrays, owners = [], []  # arrays: per argument its array; None for a number or a buffer
        for i in range(self.arg_count):
            if blocks != NULL and self.arg_dims[i] is not None and hasattr(args[i], "memory"):
                owners.append(self.bind_buffer(i, args[i], &inputs[i], &blocks[i]))
                arrays.append(None)
            else:
                arrays.append(self.convert(i, args[i], &inputs[i], copies))
        for i in range(self.arg_count):  # last, as Python code that ran above could have resized an array
            if arrays[i] is not None:
                owners.append(self.bind_array(i, arrays[i], &inputs[i]))
        return [arrays, owners]

    cdef object convert(self, uint32_t i, object value, pyd_input_t* out_input, bint copies):
        """Return argument `i` as an array of its type; for a number, store its bits in `out_input` and return None.

        copies: copy strided arrays; otherwise they are refused. Raises InvalidArgumentError.
        """
        cdef ElementType kind = self.arg_types[i]
        if self.arg_dims[i] is not None:
            return input_array(self.name, i, self.arg_names[i], kind, self.arg_dims[i], value, copies)
        try:
            kind.pack(value, &out_input.word)
        except (TypeError, ValueError, OverflowError) as error:
            raise wrong_scalar(self.name, i, self.arg_names[i], kind, value, error) from None
        return None

    cdef object bind_array(self, uint32_t i, object array, pyd_input_t* out_input):
        """Store the addresses of the elements and of the sizes of the array of argument `i`.

        Return the owner of the elements: the array, or a packed copy of elements of less than 8 bits. The sizes stay
        in `array` in both cases, so the caller keeps both objects alive while C reads them.
        """
        cdef ElementType kind = self.arg_types[i]
        owner = packed_of(kind, array) if kind.packed else array
        out_input.data = PyArray_DATA(<PyArrayObject*>owner)
        out_input.dims = <const int64_t*>PyArray_DIMS(<PyArrayObject*>array)
        return owner

    cdef object bind_buffer(self, uint32_t i, object buffer, pyd_input_t* out_input, void** out_block):
        """Store memory and sizes of a device's buffer for argument `i`. Return the objects that own both.

        out_block: receives the Python object that represents the memory, as a borrowed reference.
        """
        self.check_buffer(i, buffer)
        memory, sizes = buffer.memory, np.array(buffer.shape, np.int64)
        out_block[0], out_input.dims = <void*>memory, <const int64_t*>PyArray_DATA(<PyArrayObject*>sizes)
        return memory, sizes

    cdef object invoke(self, pyd_input_t* inputs, void** blocks, object out, uint32_t workers):
        """Run the procedure without the GIL and return its results; on a device if `blocks` is not NULL.

        inputs, blocks: as gather() fills them. out: None, an array for the only result, or a tuple with an array or
        None per result. workers: maximum number of threads; 0 for no limit of its own.
        """
        cdef pyd_invocation_t* invocation = NULL
        cdef const pyd_interrupt_t* interrupt
        cdef pyd_status_t status
        cdef Caller caller
        cdef pyd_scope_t scope
        cdef bint flushes = self.module.flushes  # code of the program may print through C stdio
        outs = self.check_out(out)
        if flushes:
            flush_python()
        enter(self.module.sched.callers, &caller)  # Scheduler.close() raises Error inside a call
        interrupt = interrupt_of(caller.thread)  # NULL unless this is the main thread, which handles signals
        limit(&scope, workers)
        with nogil:
            if blocks == NULL:
                status = pyd_procedure_call(self.state.state, self.index, inputs, interrupt, &invocation)
            else:
                status = pyd_procedure_call_on_device(
                    self.state.state, self.index, inputs, blocks, interrupt, &invocation)
            if flushes:
                fflush(NULL)
        unlimit(&scope)
        leave(self.module.sched.callers, &caller)
        check(status)
        try:
            return self.finish(invocation, outs) if blocks == NULL else self.finish_on_device(invocation)
        finally:
            pyd_invocation_free(invocation)

    cdef list check_out(self, object out):
        """Return `out` as a list with the caller's object for each result; None for a result without one.

        Raise InvalidArgumentError if an object cannot receive its result. Sizes are not known before the run.
        """
        if out is None:
            return [None] * self.result_count
        if not isinstance(out, tuple):
            if self.result_count != 1:
                raise InvalidArgumentError(
                    f"@{self.name}: out: expected a tuple of {self.result_count} arrays, got {type(out).__name__}")
            out = (out,)
        if len(out) != self.result_count:
            raise InvalidArgumentError(f"@{self.name}: out: expected {self.result_count} arrays, got {len(out)}")
        arrays = [None] * self.result_count
        for i, array in enumerate(out):
            if array is None:
                continue
            if self.result_ranks[i] is None:
                raise InvalidArgumentError(f"@{self.name}: out {i}: result {i} is a number; expected None")
            if isinstance(array, np.ndarray):  # check its rank and type already; its sizes are checked after the run
                output_array(self.name, i, self.result_types[i], array.shape, array)
                if array.ndim != self.result_ranks[i]:
                    raise InvalidArgumentError(
                        f"@{self.name}: out {i}: expected an array of rank {self.result_ranks[i]}, got {array.ndim}")
            arrays[i] = take_array(
                value_text(self.name, "out", i, None), "a writable, contiguous array", array, is_output=True)
        check_apart(self.name, arrays)
        return list(out)

    cdef object finish(self, pyd_invocation_t* invocation, list outs):
        """Verify the checks of a call that has run, and return its results. outs: a list as check_out() returns it.

        A result with an object in `outs` is copied there, and that object is returned for it.
        """
        cdef uint32_t i
        if pyd_invocation_observation_count(invocation):
            self.verify(self.name, self.observed(invocation))
        values = []
        for i in range(self.result_count):
            value = self.result(invocation, i)
            if outs[i] is not None:
                target = output_array(self.name, i, self.result_types[i], value.shape, outs[i])
                memcpy(PyArray_DATA(<PyArrayObject*>target), PyArray_DATA(<PyArrayObject*>value), value.nbytes)
                value = outs[i]
            values.append(value)
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)

    cdef list finish_on_device(self, pyd_invocation_t* invocation):
        """Verify the checks of a call that has run on a device, and return its results as `on_device` does."""
        cdef pyd_value_t value
        cdef uint64_t size
        cdef void* block
        cdef uint32_t i, axis
        cdef ElementType kind
        if pyd_invocation_observation_count(invocation):
            self.verify(self.name, self.observed(invocation))
        values = []
        for i in range(self.result_count):
            pyd_invocation_result(invocation, i, &value)
            kind = self.result_types[i]
            if value.kind == PYD_KIND_SCALAR:
                values.append(kind.unpack(value.word))
                continue
            if not pyd_tensor_bytes(kind.word, value.rank, value.dims, &size) or size != value.bytes:  # not trusted
                raise ArtifactError(f"@{self.name}: a tensor of {value.bytes} bytes, but its shape takes {size}")
            block = pyd_invocation_take(invocation, i)  # a reference to the device's object for the memory
            memory = <object>(<PyObject*>block)
            Py_DECREF(memory)  # the cast has added a reference to the one that was taken
            values.append((memory, tuple([value.dims[axis] for axis in range(value.rank)]), kind, value.bytes))
        return values

    cdef object result(self, pyd_invocation_t* invocation, uint32_t index):
        """Return result number `index` as a number, or as an array that owns its memory. Call it once per result."""
        cdef pyd_value_t value
        cdef Block block
        cdef ElementType kind = self.result_types[index]
        pyd_invocation_result(invocation, index, &value)
        if value.kind == PYD_KIND_SCALAR:
            return kind.unpack(value.word)
        block = Block.__new__(Block)
        block.owner = self.state.pool
        block.data = pyd_invocation_take(invocation, index)
        return array_over(self.name, kind, &value, block)

    cdef list observed(self, pyd_invocation_t* invocation):
        """Return a pair ((kind, location, types, atol, rtol), values) for each check that the call executed, in order.

        kind: one of KINDS. location: of the check in the source. types: ElementType of each value. atol, rtol: absolute
        and relative tolerance. values: numbers and arrays that are compared.
        """
        cdef const pyd_program_check_t* record
        cdef pyd_value_t value
        cdef ElementType kind
        cdef uint32_t i, k, number = 0, count = 0
        found = []
        for i in range(pyd_invocation_observation_count(invocation)):
            pyd_invocation_observation(invocation, i, &number, &count)
            record = pyd_program_check(self.module.program, number)
            values, types = [], []
            for k in range(count):
                pyd_invocation_observed(invocation, i, k, &value)
                kind = value_type(self.name, "value of check", number, value.dtype)
                types.append(kind)
                # Copied, as an error that refers to the values may outlive the invocation.
                values.append(kind.unpack(value.word) if value.kind == PYD_KIND_SCALAR else
                              array_over(self.name, kind, &value, None).copy())
            location = text_of(record.location)
            found.append(((KINDS[record.kind], location, tuple(types), record.atol, record.rtol), values))
        return found


cdef object array_over(str function, ElementType kind, pyd_value_t* value, Block block):
    """Return the memory of a tensor value as an array that keeps `block`, its owner, alive.

    block: None if the caller copies the array before the memory is released. Elements of less than 8 bits are a copy
    with a byte each. function: names the procedure in errors.
    """
    cdef uint32_t axis
    cdef uint64_t size
    if not pyd_tensor_bytes(kind.word, value.rank, value.dims, &size) or size != value.bytes:  # not trusted
        raise ArtifactError(f"@{function}: a tensor of {value.bytes} bytes, but its shape takes {size}")
    if kind.packed:
        unpacked = np.empty(tuple([value.dims[axis] for axis in range(value.rank)]), kind.dtype)
        if size:
            unpack_into(kind, value.data, unpacked)
        return unpacked
    Py_INCREF(kind.dtype)
    cdef PyObject* made = PyArray_NewFromDescr(
        &PyArray_Type, <PyArray_Descr*>kind.dtype, <int>value.rank, <const Py_ssize_t*>value.dims, NULL,
        <void*>value.data if value.data != NULL else <void*>&EMPTY, NPY_ARRAY_CARRAY, NULL)
    array = <object>made
    Py_DECREF(array)
    if block is not None:
        Py_INCREF(block)
        PyArray_SetBaseObject(<PyArrayObject*>made, <PyObject*>block)
    return array

cdef uint64_t[2] EMPTY  # address of arrays without bytes: for NULL, NumPy would allocate memory
