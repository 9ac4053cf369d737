"""Functions of programs that XLA calls from its own threads, without Python."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from pydispatch._core.c_process cimport pyd_process_number_add, pyd_process_number_remove
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.capi cimport (
    PYD_API_SCALAR,
    api,
    pyd_api_call_t,
    pyd_api_function_t,
    pyd_api_program_t,
    pyd_api_t,
)
from pydispatch._core.public cimport PublicFunction
from pydispatch._core.status cimport check

import secrets

from pydispatch._core.status import InvalidArgumentError

cdef extern from "xla/target.h" nogil:
    ctypedef struct pyd_target_t:
        pass
    pyd_status_t pyd_target_create(const pyd_api_function_t* function, pyd_target_t** out_target)
    void pyd_target_release(pyd_target_t* target)
    const pyd_api_function_t* pyd_target_function(const pyd_target_t* target)
    bint pyd_target_is_procedure(const pyd_target_t* target)
    pyd_status_t pyd_target_take(
        pyd_target_t* target, const int64_t* dims, const uint64_t* scalars, pyd_api_call_t** out_call)
    void pyd_target_give_back(pyd_target_t* target, pyd_api_call_t* call)

cdef extern from "xla/ffi.h" nogil:
    int pyd_xla_dtype(uint32_t dtype)
    void* pyd_xla_call

cdef const pyd_api_t* pd = api()

handler = PyCapsule_New(<void*>&pyd_xla_call, NULL, NULL)
"""The handler of XLA's foreign function interface for every Target."""


class _Owner:
    """What program_from_python finds a program by."""

    def __init__(self, module):
        self._module = module


cdef class Target:
    """A function that computations of XLA call by `number`, their attribute "function", until it is closed.

    It holds its program, also one that is closed. InvalidArgumentError: for a program that is closed already, and for a
    function with element types that XLA does not have.
    """

    cdef pyd_target_t* target
    cdef readonly uint64_t number

    def __init__(self, PublicFunction function not None):
        cdef pyd_api_program_t* program = NULL
        cdef const pyd_api_function_t* found = NULL
        cdef bytes name = function.name.encode()
        if self.target != NULL:
            raise InvalidArgumentError("a Target is made once")
        owner = _Owner(function.module)
        check(pd.program_from_python(<void*>owner, &program))
        try:
            check(pd.program_find(program, name, &found))
            refuse_types(found)
            check(pyd_target_create(found, &self.target))
        finally:
            pd.program_release(program)  # the target holds it
        number = secrets.randbits(63)  # means nothing to another process
        check(pyd_process_number_add(number, self.target))
        self.number = number

    def __dealloc__(self):
        self.close()

    cpdef close(self):
        """Calls that have begun end well; later ones are errors."""
        cdef pyd_target_t* target = self.target
        self.target = NULL
        if target != NULL:
            pyd_process_number_remove(self.number)
            pyd_target_release(target)

    def result_shapes(self, shapes):
        """The shapes of the results (None: a number) for shapes of the arguments (None: a number). None when a run, or
        the value of a number, may decide them. InvalidArgumentError for sizes that the function refuses."""
        if self.target == NULL:
            raise InvalidArgumentError("the target was closed")
        cdef const pyd_api_function_t* function = pyd_target_function(self.target)
        cdef pyd_api_call_t* call = NULL
        cdef uint32_t i, axis
        if function.scalar_count or pyd_target_is_procedure(self.target):
            return None
        sizes = [size for shape in shapes for size in shape]
        if len(sizes) != function.dims_count:
            raise InvalidArgumentError(
                f"@{function.name.decode()}: expected {function.dims_count} sizes, got {len(sizes)}")
        cdef int64_t* dims = <int64_t*>calloc(len(sizes) + 1, sizeof(int64_t))
        if dims == NULL:
            raise MemoryError()
        try:
            for i, size in enumerate(sizes):
                dims[i] = size
            check(pyd_target_take(self.target, dims, NULL, &call))
        finally:
            free(dims)
        made = []
        for i in range(function.result_count):
            if function.results[i].kind == PYD_API_SCALAR:
                made.append(None)
            else:
                made.append(tuple([pd.call_result_dims(call, i)[axis] for axis in range(function.results[i].rank)]))
        pyd_target_give_back(self.target, call)
        return made


cdef int refuse_types(const pyd_api_function_t* function) except -1:
    cdef uint32_t i
    for i in range(function.argument_count + function.result_count):
        is_argument = i < function.argument_count
        place = i if is_argument else i - function.argument_count
        value = function.arguments[place] if is_argument else function.results[place]
        wide = value.kind == PYD_API_SCALAR and value.element_bytes > 8
        if wide or not pyd_xla_dtype(value.dtype):
            what = "argument" if is_argument else "result"
            raise InvalidArgumentError(
                f"@{function.name.decode()}: {what} {place} has the element type 0x{value.dtype:08x}, which XLA "
                "does not pass to functions")
    return 0
