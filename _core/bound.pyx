"""Calls whose arguments may be any objects that hold numbers, and whose results may be written to given arrays.

Used for every call except those from plain NumPy arrays to new arrays, and for prepared calls.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pydispatch._core.arrays cimport ElementType, packed_of, unpack_into
from pydispatch._core.binding cimport check_apart, input_array, output_array, wrong_scalar
from pydispatch._core.function cimport Function
from pydispatch._core.memory cimport Block
from pydispatch._core.numpy_arrays cimport PyArrayObject, PyArray_DATA, PyArray_DIMS, PyArray_NDIM
from pydispatch._core.plan cimport Slot

from pydispatch._core.status import Error, InvalidArgumentError


cdef bint overlap(void* a, size_t a_bytes, void* b, size_t b_bytes) noexcept:
    """Return whether two ranges of memory share a byte."""
    cdef uintptr_t first = <uintptr_t>a, second = <uintptr_t>b
    return a_bytes and b_bytes and first < second + b_bytes and second < first + a_bytes


@cython.final
@cython.no_gc_clear  # a Prepared that is collected in the same cycle still needs the plan
cdef class Binding:
    """A call whose arguments are checked and stored in the form that its plan takes, ready to run any number of times.

    A plan is the function specialized for the sizes of the arguments. The constructor calls `gather` for the arguments,
    `bind_outputs` for the results and `route` for the memory that kernels write. Each run is an `execute`, which ends
    with `collect`; between two runs, `rebind` replaces the arguments.
    """

    def __init__(self, Function function not None, args, out, bint copies=True):
        """Check the arguments and `out`, find the plan, and allocate the results or bind the arrays of `out`.

        args: as many as the function has, in order. out: None, an array for the only result, or a tuple with an array
        or None per result. copies: copy strided arguments; otherwise they are refused. Raises InvalidArgumentError.
        """
        if self.words != NULL:
            raise Error("a Binding is made once")
        self.function, self.copies = function, copies
        if function.module is None or function.module.closed:
            raise Error(f"@{function.name}: its program was closed")
        self.words = <uint64_t*>calloc(function.frame_words + 1, sizeof(uint64_t))
        if self.words == NULL:
            raise MemoryError()
        function.lay_out(self.words, &self.frame)
        self.gather(args)  # fills sizes, numbers and addresses of the frame
        self.plan = function.find_plan(self.frame.dims, self.frame.scalars)
        self.bind_outputs(out)
        self.route()

    def __dealloc__(self):
        free(self.words)

    cdef int gather(self, object args) except -1:
        """Check the arguments, and store their sizes, addresses and values in the frame.

        Change nothing if an argument is wrong: all are converted before the first is stored.
        """
        cdef Function function = self.function
        cdef uint32_t i, axis, scalar = 0
        cdef uint64_t word = 0
        cdef ElementType kind
        cdef PyArrayObject* array
        inputs, words = [], []  # per argument its array, None for a scalar; per scalar its bits
        for i in range(function.arg_count):
            kind, name = function.arg_types[i], function.arg_names[i]
            if function.args[i].descr == NULL:  # a scalar
                try:
                    kind.pack(args[i], &word)
                except (TypeError, ValueError, OverflowError) as error:
                    raise wrong_scalar(function.name, i, name, kind, args[i], error) from None
                words.append(word)
                inputs.append(None)
            else:
                dims = function.arg_dims[i]
                inputs.append(input_array(function.name, i, name, kind, dims, args[i], self.copies))
        # Store them. From here on nothing can fail but the allocation of packed copies.
        self.packed = []
        for i in range(function.arg_count):
            if inputs[i] is None:
                self.frame.scalars[scalar] = words[scalar]
                scalar += 1
                continue
            array = <PyArrayObject*>inputs[i]
            self.frame.args[i] = PyArray_DATA(array)
            if (<ElementType>function.arg_types[i]).packed:
                bytes_ = packed_of(function.arg_types[i], inputs[i])
                self.packed.append(bytes_)
                self.frame.args[i] = PyArray_DATA(<PyArrayObject*>bytes_)
            for axis in range(<uint32_t>PyArray_NDIM(array)):
                self.frame.dims[function.args[i].dims_offset + axis] = PyArray_DIMS(array)[axis]
        self.inputs = inputs
        return 0

    cdef int rebind(self, object args) except -1:
        """Replace the arguments by others that have the same plan. Change nothing on failure.

        The new arguments must have the shapes of the arguments before, and the same scalars where a scalar decides a
        size. Strided arrays are refused. Raises InvalidArgumentError.
        """
        cdef Binding fresh = Binding.__new__(Binding)  # its `copies` is False: strided arrays are refused
        fresh.function = self.function
        fresh.words = <uint64_t*>calloc(self.function.frame_words + 1, sizeof(uint64_t))
        if fresh.words == NULL:
            raise MemoryError()
        self.function.lay_out(fresh.words, &fresh.frame)
        fresh.gather(args)
        if not self.plan.matches(fresh.frame.dims, fresh.frame.scalars):
            shapes = ", ".join([str(a.shape) for a in fresh.inputs if a is not None])
            expected = ", ".join([str(a.shape) for a in self.inputs if a is not None])
            raise InvalidArgumentError(
                f"@{self.function.name}: prepared for arguments of shapes {expected}, got {shapes} (or another value "
                "of a scalar that decides a size); prepare another call for them")
        # The results stay; memory for detours is reused.
        fresh.plan, fresh.outputs, fresh.detours = self.plan, self.outputs, list(self.detours)
        fresh.route()  # may run out of memory; nothing after it can fail
        memcpy(self.words, fresh.words, self.function.frame_words * sizeof(uint64_t))
        self.packed = fresh.packed
        self.inputs, self.detours, self.has_detours = fresh.inputs, fresh.detours, fresh.has_detours
        return 0

    cdef int bind_outputs(self, object out) except -1:
        """Check the arrays that `out` has for results, and allocate arrays for the other tensor results.

        `outputs` receives the arrays that are written, `returned` the objects that the caller gets for them: the
        caller's own objects where `out` has one.
        """
        cdef Function function = self.function
        cdef uint32_t i
        cdef void* data = NULL
        given = self.given(out)
        self.outputs, self.returned = [None] * function.result_count, [None] * function.result_count
        self.detours = [None] * function.result_count
        for i in range(function.result_count):
            if function.outs[i].descr == NULL:
                if given[i] is not None:
                    raise InvalidArgumentError(f"@{function.name}: out {i}: result {i} is a number; expected None")
            elif given[i] is None:
                self.outputs[i] = self.returned[i] = function.new_result(self.plan, i, &data)
            else:
                shape = tuple([self.plan.result_dims(i)[k] for k in range(function.outs[i].rank)])
                self.outputs[i] = output_array(function.name, i, function.result_types[i], shape, given[i])
                self.returned[i] = given[i]
        if out is not None and function.result_count > 1:  # newly allocated arrays cannot overlap
            check_apart(function.name, self.outputs)
        return 0

    cdef list given(self, object out):
        """Return `out` as a list with the caller's object for each result; None for a result without one."""
        cdef Function function = self.function
        if out is None:
            return [None] * function.result_count
        if not isinstance(out, tuple):
            if function.result_count == 1:
                return [out]
            raise InvalidArgumentError(
                f"@{function.name}: out: expected a tuple of {function.result_count} arrays, "
                f"got {type(out).__name__}")
        if len(out) != function.result_count:
            raise InvalidArgumentError(
                f"@{function.name}: out: expected {function.result_count} arrays, got {len(out)}")
        return list(out)

    cdef bint is_direct(self, uint32_t result, void* data, size_t size) noexcept:
        """Return whether kernels can write a result to the memory of its array, `size` bytes at `data`.

        They cannot if the memory is less aligned than they require, overlaps an argument that the result does not
        update in place, or has elements of less than 8 bits, which kernels write packed.
        """
        cdef Function function = self.function
        cdef uint32_t k
        cdef bint is_array
        # result_mask: the alignment in bytes that kernels require of the result, minus 1.
        if (<ElementType>function.result_types[result]).packed or <uintptr_t>data & self.plan.result_mask[result]:
            return False
        for k in range(function.arg_count):
            if k == function.outs[result].tied and data == self.frame.args[k]:
                continue  # the result updates this argument, `tied`, in place
            is_array = self.inputs[k] is not None  # not a scalar
            if is_array and overlap(data, size, self.frame.args[k], self.plan.arg_bytes[k]):
                return False
        return True

    cdef int route(self) except -1:
        """Choose the memory that each result is written to: its array, or an intermediate buffer (detour).

        A detour is needed if the array overlaps an argument that the result does not update in place, is less aligned
        than a kernel requires, or has elements of less than 8 bits, which kernels write packed.
        """
        cdef Function function = self.function
        cdef uint32_t i
        cdef void* data
        cdef size_t size
        self.has_detours = False
        for i in range(function.result_count):
            self.frame.results[i] = NULL
            if self.outputs[i] is None:  # a scalar result
                continue
            data, size = PyArray_DATA(<PyArrayObject*>self.outputs[i]), self.plan.result_bytes[i]
            if self.is_direct(i, data, size):
                self.detours[i], self.frame.results[i] = None, data
                continue
            if self.detours[i] is None:  # else rebind() has passed on the buffer of the arguments before
                self.detours[i] = function.module.pool.acquire(size)
            self.frame.results[i] = (<Block>self.detours[i]).data
            self.has_detours = True
        return 0

    cdef object execute(self, Slot* slot):
        """Run the call in a slot of its plan (a reusable call object with scratch memory) and return its value."""
        self.plan.execute(slot, self.frame.args, self.frame.scalars, self.frame.results, self.frame.out_scalars)
        return self.collect()

    cdef object collect(self):
        """Return the value of a call that has run, after copying the results in detours to their arrays.

        The value is an array or number for one result, a tuple for several, None for none.
        """
        cdef Function function = self.function
        cdef uint32_t i
        if self.has_detours:  # copy the results in intermediate buffers, or unpack those of less than 8 bits
            for i in range(function.result_count):
                if self.detours[i] is not None and (<ElementType>function.result_types[i]).packed:
                    unpack_into(function.result_types[i], (<Block>self.detours[i]).data, self.outputs[i])
                elif self.detours[i] is not None:
                    memcpy(PyArray_DATA(<PyArrayObject*>self.outputs[i]), (<Block>self.detours[i]).data,
                           self.plan.result_bytes[i])
        if function.simple:  # the only result is a tensor
            return self.returned[0]
        values = [
            function.scalar_result(i, self.frame.out_scalars[i]) if self.outputs[i] is None else self.returned[i]
            for i in range(function.result_count)
        ]
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)

    def run(self):
        """Run the call once and return its value: an array or number for one result, a tuple for several."""
        cdef Slot slot
        self.plan.take(&slot)
        try:
            return self.execute(&slot)
        finally:
            self.plan.give(&slot)
