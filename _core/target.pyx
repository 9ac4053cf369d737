"""Functions of programs that other runtimes call from their own threads, without Python: XLA and PyTorch."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from pydispatch._core.c_process cimport pyd_process_number_add, pyd_process_number_remove
from pydispatch._core.c_target cimport pyd_target_create, pyd_target_function, pyd_target_give_back
from pydispatch._core.c_target cimport pyd_target_is_procedure, pyd_target_release, pyd_target_retain, pyd_target_t
from pydispatch._core.c_target cimport pyd_target_take
from pydispatch._core.capi cimport (
    PYD_API_SCALAR,
    api,
    pyd_api_call_t,
    pyd_api_function_t,
    pyd_api_program_t,
    pyd_api_t,
)
from pydispatch._core.lock cimport pyd_take
from pydispatch._core.public cimport PublicFunction
from pydispatch._core.status cimport check

import secrets

from pydispatch._core.status import InvalidArgumentError

cdef extern from "xla/ffi.h" nogil:
    int pyd_xla_dtype(uint32_t dtype)
    void* pyd_xla_call

cdef extern from "torch/interface.h" nogil:
    ctypedef struct pyd_torch_interface_t:
        pass
    const char* const* pyd_torch_symbols
    const uint32_t PYD_TORCH_SYMBOL_COUNT, PYD_TORCH_DTYPE_COUNT
    const uint64_t PYD_TORCH_INTERFACE_NUMBER
    uint64_t PYD_TORCH_KERNEL_NUMBER(uint32_t slot)
    const uint32_t PYD_TORCH_KERNEL_COUNT
    void** pyd_torch_kernels
    void pyd_torch_interface_retain(void* self) noexcept
    uint32_t pyd_torch_dtype(uint32_t dtype)
    const char* pyd_torch_dtype_name(uint32_t dtype)
    const char* pyd_torch_scalar_type(uint32_t dtype)

cdef const pyd_api_t* pd = api()

# -- XLA

xla_handler = PyCapsule_New(<void*>&pyd_xla_call, NULL, NULL)
"""Capsule with the function that XLA calls through its foreign function interface, the same for every Target."""


def xla_has(uint32_t word):
    """Return whether XLA can pass elements of a type to functions. word: the type's code, see `ElementType.word`."""
    return pyd_xla_dtype(word) != 0


# -- PyTorch

cdef pyd_torch_interface_t torch_interface  # filled by torch_load, once in a process

cdef bint is_loaded = False


def torch_kernel(uint32_t slot):
    """Return the address of the C function that PyTorch calls for operator `slot`, and the number of its Target.

    slot: from 0; each operator of the process has one of its own, as each needs a C function that knows its Target.
    Raise InvalidArgumentError if the process has no such slot.
    """
    if slot >= PYD_TORCH_KERNEL_COUNT:
        raise InvalidArgumentError(f"a process has at most {PYD_TORCH_KERNEL_COUNT} operators of PyTorch")
    return <uintptr_t>pyd_torch_kernels[slot], PYD_TORCH_KERNEL_NUMBER(slot)


def torch_load(find):
    """Load the functions of PyTorch that the kernels call; later calls do nothing.

    find: returns the address of a function by its name, 0 for none. Raises InvalidArgumentError if a function is
    missing. Functions for element types are optional.
    """
    global is_loaded
    cdef uint32_t i
    cdef void** slots = <void**>&torch_interface
    if is_loaded:
        return
    for i in range(PYD_TORCH_SYMBOL_COUNT):
        name = pyd_torch_symbols[i].decode()
        slots[i] = <void*><uintptr_t>find(name)
        # The last PYD_TORCH_DTYPE_COUNT functions are those for element types.
        if slots[i] == NULL and i + PYD_TORCH_DTYPE_COUNT < PYD_TORCH_SYMBOL_COUNT:
            raise InvalidArgumentError(f"this PyTorch has no {name}; to_torch needs version 2.9 or newer")
    check(pyd_process_number_add(PYD_TORCH_INTERFACE_NUMBER, &torch_interface, pyd_torch_interface_retain))
    is_loaded = True


def torch_dtype(uint32_t word):
    """Return PyTorch's name of an element type; "" if this version has no such type. word: see `ElementType.word`.

    To be called after `torch_load`.
    """
    cdef uint32_t found = pyd_torch_dtype(word)
    if found == PYD_TORCH_DTYPE_COUNT:  # no version has the type
        return ""
    slots = <void**>&torch_interface
    # The functions for element types are the last of the interface. NULL: this version lacks the function.
    has = slots[PYD_TORCH_SYMBOL_COUNT - PYD_TORCH_DTYPE_COUNT + found] != NULL
    return pyd_torch_dtype_name(found).decode() if has else ""


def torch_scalar_type(uint32_t word):
    """Return the type, such as "int", that PyTorch's operator schemas use for a number; "" if there is none.

    word: the number's element type, see `ElementType.word`.
    """
    cdef const char* found = pyd_torch_scalar_type(word)
    return found.decode() if found != NULL else ""

# -- functions that XLA and PyTorch call


class _Owner:
    """Object with the attribute `_module` by which `program_from_python` of the C API finds a program."""

    def __init__(self, module):
        self._module = module


cdef class Target:
    """A function that other runtimes call by `number` until the target is closed.

    It keeps its program loaded. number: below 2^63; 0 chooses a random one, which no other process uses. Raises
    InvalidArgumentError if the program is closed or the number is in use.
    """

    cdef pyd_target_t* target
    cdef readonly uint64_t number

    def __init__(self, PublicFunction function not None, uint64_t number=0):
        """Register the function under `number`, by which runtimes find it; 0 chooses a random number."""
        cdef pyd_api_program_t* program = NULL
        cdef const pyd_api_function_t* found = NULL
        cdef bytes name = function.name.encode()
        if self.target != NULL:
            raise InvalidArgumentError("a Target is made once")
        owner = _Owner(function.module)
        check(pd.program_from_python(<void*>owner, &program))
        try:
            check(pd.program_find(program, name, &found))
            check(pyd_target_create(found, &self.target))
        finally:
            pd.program_release(program)  # the target holds it
        number = number or secrets.randbits(63)  # 63 bits: XLA receives it as a signed 64-bit integer
        check(pyd_process_number_add(number, self.target, pyd_target_retain))
        self.number = number

    def __dealloc__(self):
        self.close()

    cpdef close(self):
        """Unregister the function. Calls that have begun succeed; later calls fail."""
        cdef pyd_target_t* target = <pyd_target_t*>pyd_take(<void**>&self.target)
        if target != NULL:
            pyd_process_number_remove(self.number)
            pyd_target_release(target)

    def result_shapes(self, shapes):
        """Return the shapes of the results, None for a number, when arguments have these shapes.

        shapes: the shape of each tensor argument, in order. Return None if the results' shapes may depend on a run or
        on the value of a number. Raise InvalidArgumentError for sizes that the function refuses.
        """
        if self.target == NULL:
            raise InvalidArgumentError("the target was closed")
        cdef const pyd_api_function_t* function = pyd_target_function(self.target)
        cdef pyd_api_call_t* call
        if function.scalar_count or pyd_target_is_procedure(self.target):
            return None
        # A call prepared for these sizes knows the sizes of its results.
        sizes = [size for shape in shapes for size in shape]
        if len(sizes) != function.dims_count:
            raise InvalidArgumentError(
                f"@{function.name.decode()}: expected {function.dims_count} sizes, got {len(sizes)}")
        call = self.take(sizes)
        try:
            return [shape_of_result(function, call, i) for i in range(function.result_count)]
        finally:
            pyd_target_give_back(self.target, call)

    cdef pyd_api_call_t* take(self, list sizes) except NULL:
        """Return a call for these sizes of arguments of a function without numbers as arguments, to be given back."""
        cdef pyd_api_call_t* call = NULL
        cdef size_t i
        cdef int64_t* dims = <int64_t*>calloc(len(sizes) + 1, sizeof(int64_t))
        if dims == NULL:
            raise MemoryError()
        try:
            for i, size in enumerate(sizes):
                dims[i] = size
            check(pyd_target_take(self.target, dims, NULL, &call))
        finally:
            free(dims)
        return call


cdef object shape_of_result(const pyd_api_function_t* function, pyd_api_call_t* call, uint32_t index):
    """Return the sizes of a result of a call as a tuple; None for a number."""
    cdef uint32_t axis
    if function.results[index].kind == PYD_API_SCALAR:
        return None
    return tuple([pd.call_result_dims(call, index)[axis] for axis in range(function.results[index].rank)])
