"""Functions with a cache of their plans, which also allocate the arrays of their results.

A plan is a function specialized for the sizes of a call.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from pydispatch._core.arrays cimport ElementType
from pydispatch._core.c_program cimport PYD_KIND_SCALAR, pyd_plan_hash, pyd_program_function_t, pyd_program_value_t
from pydispatch._core.c_trace cimport PYD_TRACE_SCHEDULE
from pydispatch._core.lock cimport pyd_lock, pyd_unlock
from pydispatch._core.memory cimport Block
from pydispatch._core.numpy_arrays cimport NPY_ARRAY_CARRAY, PyArrayObject, PyArray_DATA, PyArray_Descr
from pydispatch._core.numpy_arrays cimport PyArray_NewFromDescr, PyArray_SetBaseObject, PyArray_Type
from pydispatch._core.plan cimport Plan, make_plan
from pydispatch._core.program cimport Module
from pydispatch._core.public cimport PublicFunction
from pydispatch._core.trace cimport span_begin, span_end

cimport numpy as cnp

import numpy as np

from pydispatch._core.status import ArtifactError, Error

cnp.import_array()


cdef class PlannedFunction(PublicFunction):
    """Base of Function: types of its arguments and results, and a cache of its plans by the sizes of calls.

    A call fills a Frame (its sizes, numbers and addresses), for which `lay_out` divides memory, and gets its plan from
    `find_plan`. The cache is set-associative: the hash of the sizes selects one of PLAN_SETS sets of PLAN_WAYS plans.
    """

    def __init__(self, Module module not None, uint32_t index):
        """Describe function `index` of the module; its plans are created in calls."""
        if self.module is not None:
            raise Error("a Function is made once")
        cdef const pyd_program_function_t* function = module.function(index)
        self.describe(module, index, function)
        self.plans = [None] * PLAN_SLOTS
        self.dims_count = function.dims_count
        self.args = <Value*>calloc(self.arg_count + self.result_count + 1, sizeof(Value))
        if self.args == NULL:
            raise MemoryError()
        self.outs = self.args + self.arg_count  # one allocation for arguments and results
        self.describe_values(function)
        self.simple = self.result_count == 1 and self.tensor_results == 1  # the only result is a tensor
        # A word per size, scalar argument, and address of an argument; for each result an address and a scalar.
        self.frame_words = self.dims_count + self.scalar_count + self.arg_count + 2 * self.result_count

    cdef void describe_values(self, const pyd_program_function_t* function) noexcept:
        """Fill `args` and `outs`, and count the scalar arguments and tensor results."""
        cdef const pyd_program_value_t* value
        cdef ElementType kind
        cdef uint32_t i, offset = 0
        for i in range(self.arg_count):
            value, kind = &function.args[i], self.arg_types[i]
            if value.kind == PYD_KIND_SCALAR:
                self.scalar_count += 1
                continue
            self.args[i].descr = <PyObject*>kind.dtype
            # offset: index of its first size among the sizes of all arguments.
            self.args[i].rank, self.args[i].dims_offset = value.rank, offset
            self.has_packed_elements |= kind.packed
            offset += value.rank
        for i in range(self.result_count):
            value, kind = &function.results[i], self.result_types[i]
            if value.kind == PYD_KIND_SCALAR:
                continue
            self.outs[i].descr = <PyObject*>kind.dtype
            # tied: index of the argument that the result may update in place; UINT32_MAX for none.
            self.outs[i].rank, self.outs[i].tied = value.rank, value.tied
            self.has_packed_elements |= kind.packed
            self.tensor_results += 1

    def __dealloc__(self):
        free(self.args)

    def close(self):
        """Drop all cached plans."""
        none = [None] * PLAN_SLOTS
        pyd_lock(&self.lock)
        last, plans = self.last, self.plans  # released after the lock, as that may run destructors of devices
        self.last, self.plans = None, none
        pyd_unlock(&self.lock)
        del last, plans

    cdef Plan last_plan(self):
        """Return the plan of the last call, or None."""
        cdef Plan plan
        pyd_lock(&self.lock)
        plan = self.last
        pyd_unlock(&self.lock)
        return plan

    cdef void lay_out(self, uint64_t* words, Frame* out_frame) noexcept:
        """Set the arrays of a call's frame to consecutive parts of `words`, memory of frame_words 64-bit words."""
        out_frame.dims = <int64_t*>words
        out_frame.scalars = words + self.dims_count
        out_frame.args = <void**>(out_frame.scalars + self.scalar_count)
        out_frame.results = out_frame.args + self.arg_count
        out_frame.out_scalars = <uint64_t*>(out_frame.results + self.result_count)

    cdef Plan find_plan(self, const int64_t* dims, const uint64_t* scalars):
        """Return the plan for the sizes and scalars of a call, from the cache or newly created.

        dims: sizes of all tensor arguments, concatenated. scalars: a word per scalar argument. The cache is bounded: a
        new plan may evict another.
        """
        cdef uint64_t key
        cdef uint32_t first  # index in `plans` of the set that the key belongs to
        cdef Plan plan, found
        if self.module.closed:
            raise Error(f"@{self.name}: its program was closed")
        cdef uint64_t begin = span_begin()
        key = pyd_plan_hash(self.module.program, self.index, dims, scalars)
        # Both halves of the hash select the set; each set has PLAN_WAYS consecutive plans.
        first = <uint32_t>((key ^ key >> 32) % PLAN_SETS) * PLAN_WAYS
        found = self.cached_plan(first, key, dims, scalars)
        if found is None:
            plan = make_plan(self.module, self.index, dims, scalars, key)
            check_sizes(self, plan)
            self.insert_plan(first, plan)
        else:
            plan = found
        span_end(PYD_TRACE_SCHEDULE, self.name, begin, False)
        return plan

    cdef Plan cached_plan(self, uint32_t first, uint64_t key, const int64_t* dims, const uint64_t* scalars):
        """Return the cached plan for the sizes and scalars of a call, or None, and make it the last plan.

        first: index in `plans` of the set that the key belongs to. key: hash of dims and scalars.
        """
        cdef Plan _previous, plan = None  # the previous last plan is released after the lock
        cdef uint32_t way
        pyd_lock(&self.lock)
        for way in range(PLAN_WAYS):
            found = self.plans[first + way]
            if found is not None and (<Plan>found).key == key and (<Plan>found).matches(dims, scalars):
                plan = <Plan>found
                _previous, self.last = self.last, plan
                break
        found = None  # frees no plan under the lock, because `plans` still refers to it
        pyd_unlock(&self.lock)
        return plan

    cdef int insert_plan(self, uint32_t first, Plan plan) except -1:
        """Insert a plan into the set of the cache that begins at index `first`, and make it the last plan.

        A full set evicts its plans in turn.
        """
        cdef Plan _previous
        cdef uint32_t way
        pyd_lock(&self.lock)
        for way in range(PLAN_WAYS):
            if self.plans[first + way] is None:
                break
        else:  # the set is full: evict the next plan in turn
            self.evict += 1
            way = self.evict % PLAN_WAYS
        _evicted = self.plans[first + way]  # keeps the plan alive: it is freed after the lock
        if not self.module.closed:  # another thread may have closed it while the plan was created
            self.plans[first + way] = plan
            _previous, self.last = self.last, plan
        pyd_unlock(&self.lock)
        return 0

    cdef object new_result(self, Plan plan, uint32_t result, void** out_data):
        """Return a new array for result number `result`, in memory of the pool. out_data: receives its address.

        For elements of less than 8 bits it is an array with a byte each, to which the caller unpacks the result.
        """
        cdef ElementType kind = self.result_types[result]
        if kind.packed:
            shape = tuple([plan.result_dims(result)[axis] for axis in range(self.outs[result].rank)])
            unpacked = np.empty(shape, kind.dtype)
            out_data[0] = PyArray_DATA(<PyArrayObject*>unpacked)
            return unpacked
        cdef Block block = self.module.pool.acquire_result(plan.result_bytes[result], self.name, result)
        cdef Value* value = &self.outs[result]
        Py_INCREF(<object>value.descr)
        cdef PyObject* made = PyArray_NewFromDescr(
            &PyArray_Type, <PyArray_Descr*>value.descr, <int>value.rank, <const Py_ssize_t*>plan.result_dims(result),
            NULL, block.data, NPY_ARRAY_CARRAY, NULL)
        array = <object>made
        Py_DECREF(array)
        Py_INCREF(block)
        PyArray_SetBaseObject(<PyArrayObject*>made, <PyObject*>block)
        out_data[0] = block.data
        return array

    cdef object scalar_result(self, uint32_t result, uint64_t word):
        """Return scalar result number `result`, the register value `word`, as a Python number."""
        return (<ElementType>self.result_types[result]).unpack(word)


cdef object value_of(PlannedFunction function, object made, Frame* frame):
    """Return the value of a call: an array or number for one result, a tuple for several, None for none.

    made: result arrays as fresh_results() returns them. frame: has the scalar results.
    """
    cdef uint32_t i
    if function.simple:  # the only result is a tensor: `made` is its array, no list
        return made
    for i in range(function.result_count):
        if function.outs[i].descr == NULL:
            made[i] = function.scalar_result(i, frame.out_scalars[i])
    if function.result_count == 1:
        return made[0]
    return tuple(made) if made else None


cdef object fresh_results(PlannedFunction function, Plan plan, Frame* frame):
    """Allocate all tensor results and store their addresses in the frame.

    Return the array if it is the only result, else a list with an array, or None for a scalar, per result.
    """
    cdef uint32_t i
    if function.simple:
        return function.new_result(plan, 0, &frame.results[0])
    made = [None] * function.result_count
    for i in range(function.result_count):
        frame.results[i] = NULL
        if function.outs[i].descr != NULL:
            made[i] = function.new_result(plan, i, &frame.results[i])
    return made


cdef int check_sizes(PlannedFunction self, Plan plan) except -1:
    """Raise ArtifactError if the memory of a result is not as large as its shape requires.

    The program is not trusted here, because arrays are created over that memory.
    """
    cdef uint32_t i, axis
    cdef uint64_t size
    cdef const int64_t* dims
    for i in range(self.result_count):
        if self.outs[i].descr == NULL:
            continue
        dims = plan.result_dims(i)
        size = plan.result_tensor_bytes(i)
        if size != plan.result_bytes[i]:
            raise ArtifactError(
                f"@{self.name}: result {i} has {plan.result_bytes[i]} bytes, but its shape "
                f"{tuple([dims[axis] for axis in range(self.outs[i].rank)])} takes {size}")
    return 0
