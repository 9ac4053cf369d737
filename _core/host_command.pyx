"""Host commands (host_command.h) implemented by Python functions, and the arguments that these receive."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strdup

from pydispatch._core.arrays cimport ElementType, element_type, packed_of, unpack_into
from pydispatch._core.c_host_command cimport PYD_HOST_COMMAND_PREFIX, PYD_HOST_READ, PYD_HOST_SCALAR, PYD_HOST_TENSOR
from pydispatch._core.c_host_command cimport PYD_HOST_WRITE, pyd_host_body_fn_t, pyd_host_command_t, pyd_host_operand
from pydispatch._core.c_host_command cimport pyd_host_operand_t
from pydispatch._core.c_library cimport pyd_import_fn_t
from pydispatch._core.c_program cimport pyd_host_command_raised
from pydispatch._core.lock cimport pyd_lock, pyd_lock_t, pyd_unlock
from pydispatch._core.numpy_arrays cimport NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, PyArrayObject
from pydispatch._core.numpy_arrays cimport PyArray_DATA, PyArray_Descr, PyArray_NewFromDescr, PyArray_SetBaseObject
from pydispatch._core.numpy_arrays cimport PyArray_Type
from pydispatch._core.status cimport keep_raised, release_raised

cimport numpy as cnp

import builtins
import operator
import sys
import traceback

import numpy as np

from pydispatch._core.status import CommandError, InvalidArgumentError

cnp.import_array()

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)
    object PyObject_Vectorcall(object function, PyObject** arguments, size_t count, PyObject* names)
    PyObject** PySequence_Fast_ITEMS(list)
    int PyUnicode_CompareWithASCIIString(str, const char*)

cdef extern from "numpy/ndarraytypes.h":
    ctypedef struct ArrayFields "PyArrayObject_fields":
        char* data
        PyObject* base

# Stores a pointer unless one is stored, and returns whether it did; for any thread, with or without the GIL.
cdef extern from *:
    """
    static inline int pyd_store_first(char** address, char* value) {
      char* none = NULL;
      return __atomic_compare_exchange_n(address, &none, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    """
    bint pyd_store_first(char** address, char* value) noexcept nogil

cdef struct NativeCall:
    pyd_host_command_t command  # first: `fail` is given its address
    char* text                  # text of the failure, allocated by strdup; NULL for none

PREFIX = PYD_HOST_COMMAND_PREFIX.decode()
"""Prefix of the symbol of a host command; the name of the command follows. Providers of imports look it up."""

cdef tuple GROUPS = (builtins.BaseExceptionGroup,) if hasattr(builtins, "BaseExceptionGroup") else ()  # Python 3.11
cdef tuple KINDS = ("cpu", "cuda", "vulkan", "ptx-interpreter", "webgpu")  # indexed by pyd_host_device_t


@cython.final
@cython.freelist(8)
cdef class Context:
    """Execution context that is passed to a host command (a user's function in a program) before its operands.

    Valid until the command returns.

    kind: "cpu", "cuda", "vulkan", "webgpu" or "ptx-interpreter". name: name of the command in the program. stream: the
    CUstream; command_buffer: the VkCommandBuffer or WGPUCommandEncoder; handle: the CUcontext, VkDevice or WGPUDevice.
    These three are addresses as integers, None on other devices.
    """

    cdef const pyd_host_command_t* command  # the call on a CPU; NULL on other devices, and after it has returned
    cdef readonly str kind
    cdef readonly str name
    cdef readonly object stream, command_buffer, handle
    cdef bint is_over

    def __init__(self, str kind, str name, stream=None, command_buffer=None, handle=None):
        self.kind, self.name = kind, name
        self.stream, self.command_buffer, self.handle = stream, command_buffer, handle

    def parallel_for(self, count, body):
        """Call body(begin, end) on the workers of a CPU device, for ranges [begin, end) that cover [0, count) once.

        On other devices, which have no workers, call body(0, count) on this thread. Returns when all calls have
        returned. Raises the first exception that one of them raised.
        """
        cdef Loop loop = Loop()
        cdef const pyd_host_command_t* command = self.command
        cdef uint64_t indices
        try:
            indices = operator.index(count)
        except (TypeError, OverflowError):
            raise InvalidArgumentError(
                f"host command '{self.name}': parallel_for: count: expected an integer from 0 to 2**64 - 1, got "
                f"{count!r}") from None
        if self.is_over:
            raise InvalidArgumentError(f"host command '{self.name}' has returned: its context is not valid any more")
        if command == NULL:  # the device is no CPU
            if indices:
                body(0, indices)
            return
        loop.body = body
        with nogil:
            command.parallel_for(command, indices, run_loop, <void*>loop)
        if loop.error is not None:
            raise loop.error

    def end(self):
        """Mark the context as invalid, because the command has returned."""
        self.is_over, self.command = True, NULL

    def __repr__(self):
        return f"<context of host command '{self.name}' on {self.kind}>"


@cython.final
cdef class Loop:
    """Parallel loop that a host command runs through its `Context`: the body, and the first error of one."""
    cdef object body   # function of the begin and end of a range
    cdef object error  # the first exception of a body, or None


cdef int32_t run_loop(
        void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) noexcept with gil:
    """Run the range [begin, end) of a Loop, `self`; the C body of parallel_for. Return nonzero to end the loop.

    The first exception of all ranges is stored in the Loop, and Context.parallel_for() raises it. worker: unused.
    out_failed: not set, as the index of a failure is not used.
    """
    cdef Loop loop = <Loop>self
    try:
        loop.body(begin, end)
        return 0
    except BaseException as error:
        with cython.critical_section(loop):
            if loop.error is None:
                loop.error = error
        return 1


@cython.final
cdef class PythonCommand:
    """A Python function as a host command. address: of the C function to call, with this object as its context."""

    cdef object function
    cdef str name         # name of the command in the last call; programs may call one function by several names
    cdef pyd_lock_t lock  # guards `name`

    def __init__(self, function):
        self.function, self.name = function, ""

    cdef Context context_of(self, const pyd_host_command_t* command):
        """Create the Context for one call. The name of the last call is cached, as decoding it takes time."""
        cdef Context context = Context.__new__(Context)
        pyd_lock(&self.lock)
        name = self.name
        pyd_unlock(&self.lock)
        if PyUnicode_CompareWithASCIIString(name, command.name):  # they differ
            name = command.name.decode("utf-8", "replace")
            pyd_lock(&self.lock)
            _previous, self.name = self.name, name  # the previous name is released after the lock
            pyd_unlock(&self.lock)
        context.kind, context.name, context.command = KINDS[command.device], name, command
        return context

    @property
    def address(self):
        """Return the address of the C function call_python(), which takes this object as its context."""
        return <uintptr_t><void*>call_python


cdef object view_of(Context context, const pyd_host_operand_t* operand):
    """Return the memory of a tensor operand as an array.

    It is read-only unless the command writes the operand. `context` is its base, so that it cannot be made writable.
    Elements of less than 8 bits are a copy with a byte each, which call_with_views() writes back.
    """
    cdef ElementType kind = element_type(operand.dtype)
    cdef int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
    cdef PyObject* made
    if kind.packed:
        array = np.empty([operand.sizes[i] for i in range(operand.rank)], kind.dtype)
        if operand.access & PYD_HOST_READ:
            unpack_into(kind, operand.data, array)
        if not operand.access & PYD_HOST_WRITE:
            array.flags.writeable = False
        return array
    if operand.access & PYD_HOST_WRITE:
        flags |= NPY_ARRAY_WRITEABLE
    Py_INCREF(kind.dtype)
    made = PyArray_NewFromDescr(
        &PyArray_Type, <PyArray_Descr*><PyObject*>kind.dtype, operand.rank, <const Py_ssize_t*>operand.sizes, NULL,
        operand.data, flags, NULL)
    array = <object>made
    Py_DECREF(array)
    Py_INCREF(context)
    PyArray_SetBaseObject(<PyArrayObject*>made, <PyObject*>context)
    return array


cdef int clear_frames(object error, object outer) except -1:
    """Clear the frames of an exception and of its causes, because their local variables may be views of operands.

    outer: the exception that was being handled when the command was called, or None. It may be a cause of `error`, but
    its frames do not belong to the command.
    """
    cdef list pending = [error]
    cdef set seen = {id(None), id(outer)}  # causes may form a cycle
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        pending += [each.__cause__, each.__context__]
        if isinstance(each, GROUPS):
            pending.extend(each.exceptions)
    return 0


cdef int detach(list given) except -1:
    """Move operand arrays that the command still refers to into memory of their own, as that of operands is reused.

    given: the arguments of the command: its context, then the operands. Views of these arrays cannot be found and
    become invalid.
    """
    cdef Py_ssize_t i
    cdef ArrayFields* fields
    cdef PyObject* before
    for i in range(1, len(given)):
        if type(given[i]) is not np.ndarray or Py_REFCNT(given[i]) <= 2 or given[i].base is None:
            continue  # 2: only the list and this expression refer to it. No base: it owns its memory.
        copy = given[i].copy()
        fields = <ArrayFields*><PyObject*>given[i]
        # The array stays the same object, but refers to the memory of the copy from now on.
        before = fields.base
        Py_INCREF(copy)
        fields.data, fields.base = <char*>PyArray_DATA(<PyArrayObject*>copy), <PyObject*>copy
        Py_DECREF(<object>before)
    return 0


cdef list arguments_of(Context context, const pyd_host_command_t* command):
    """Return the arguments of the Python function: the context, then an array or a number for each operand."""
    cdef const pyd_host_operand_t* operand
    cdef uint32_t i
    cdef list arguments = [context]
    for i in range(command.operand_count):
        operand = pyd_host_operand(command, i)
        if operand.kind == PYD_HOST_TENSOR:
            arguments.append(view_of(context, operand))
        else:
            arguments.append(element_type(operand.dtype).unpack(operand.word))
    return arguments


def check_result(result, list operands):
    """Raise InvalidArgumentError for a result of a host command: its results are operands that it writes.

    It may return an operand, as `np.multiply(x, 2, out=x)` does.
    """
    if result is not None and not any([result is operand for operand in operands]):
        raise InvalidArgumentError(
            f"it has returned an object of class {type(result).__name__}, which is not used; write into the operands "
            "(y[...] = value, or y.upload(value) if they are buffers of a device) and return None")


cdef int call_with_views(PythonCommand self, const pyd_host_command_t* command) except -1:
    """Call the Python function with the context and its operands, and pack operands that it has written.

    Raise InvalidArgumentError if it returns a value, or still refers to the array of an operand after its return,
    because the memory of the operand is reused.
    """
    cdef const pyd_host_operand_t* operand
    cdef uint32_t i
    cdef ElementType kind
    cdef bytes packed
    cdef Context context = self.context_of(command)
    cdef list given = arguments_of(context, command)
    outer = sys.exc_info()[1]  # the exception that is being handled now, or None
    try:
        check_result(
            PyObject_Vectorcall(self.function, PySequence_Fast_ITEMS(given), 1 + command.operand_count, NULL), given)
    except BaseException as error:
        clear_frames(error, outer)
        detach(given)  # arrays that the function has stored
        raise
    finally:
        context.end()
    for i in range(command.operand_count):
        operand = pyd_host_operand(command, i)
        if operand.kind != PYD_HOST_TENSOR:
            continue
        # A packed operand has been copied to an array. Other operands are arrays over the memory of the program.
        kind = element_type(operand.dtype)
        if kind.packed:
            if operand.access & PYD_HOST_WRITE:
                packed = bytes(packed_of(kind, given[i + 1]))
                if len(packed) != operand.bytes:  # the array has its own memory, which ndarray.resize() may change
                    raise InvalidArgumentError(
                        f"it has resized operand {i} to {len(packed)} bytes, which has {operand.bytes} in the program")
                memcpy(operand.data, <const char*>packed, len(packed))
        elif Py_REFCNT(given[i + 1]) > 2:  # more references than the list and this expression have
            detach(given)
            raise InvalidArgumentError(
                f"it keeps operand {i}, or a view of it, after it has returned: the memory is used again then; "
                "keep a copy")
    return 0


cdef int32_t call_python(void* params, void* context, void* reserved) noexcept with gil:
    """Call a PythonCommand; the C function of `address`. An exception becomes the failure of the command.

    params: the pyd_host_command_t. context: the PythonCommand. reserved: unused. Return 0, or -1 on failure.
    """
    cdef const pyd_host_command_t* command = <const pyd_host_command_t*>params
    cdef PythonCommand self = <PythonCommand>context
    cdef bytes text
    try:
        call_with_views(self, command)
        return 0
    except BaseException as error:
        try:
            text = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace")
        except BaseException:  # its __str__ raises
            text = type(error).__name__.encode("utf-8", "backslashreplace")
        command.fail(command, text)
        pyd_host_command_raised(command, keep_raised(error), release_raised)
        return -1


def scalar_of(uint32_t dtype, uint64_t word):
    """Return a scalar operand as a Python bool, int or float.

    dtype: dtype word (docs/program.md) of its type. word: the 64-bit value that a program computes with; integers are
    sign-extended, floats are their bits.
    """
    return element_type(dtype).unpack(word)


@cython.no_gc_clear
cdef class Native:
    """A call of a host command implemented in C, on a device that runs plans by itself.

    kind: kind of the device, such as "cuda". stream, command_buffer, handle: addresses of its CUstream, command buffer
    or encoder, and context or device; None if it has none. Operands are added in order, then `call` makes the call.
    """

    cdef NativeCall own
    cdef list operands  # tuples (kind, access, dtype, sizes, bytes, data, offset, value), see pyd_host_operand_t
    cdef bytes name     # keeps the C string in `own` alive

    def __cinit__(self, str kind, str name, stream=None, command_buffer=None, handle=None):
        """Fill the fields of the C command but for its operands.

        kind: kind of the device, one of KINDS. name: name of the command. stream, command_buffer, handle: addresses of
        objects of the device's API, None for those that it lacks.
        """
        self.operands, self.name, self.own.text = [], name.encode("utf-8", "backslashreplace"), NULL
        self.own.command.struct_size = sizeof(pyd_host_command_t)
        self.own.command.operand_size = sizeof(pyd_host_operand_t)
        self.own.command.name, self.own.command.device = self.name, <uint32_t>KINDS.index(kind)
        self.own.command.operands, self.own.command.operand_count = NULL, 0
        self.own.command.fail, self.own.command.parallel_for = keep_text, run_here
        self.own.command.stream = <void*><uintptr_t>(stream or 0)
        self.own.command.command_buffer = <void*><uintptr_t>(command_buffer or 0)
        self.own.command.handle = <void*><uintptr_t>(handle or 0)

    def __dealloc__(self):
        free(self.own.text)

    def add_scalar(self, uint32_t dtype, value):
        """Add a scalar operand. value: a number as `scalar_of` returns it."""
        self.operands.append((PYD_HOST_SCALAR, PYD_HOST_READ, dtype, (), 0, 0, 0, value))  # no memory

    def add_tensor(
            self, uint32_t dtype, tuple sizes, uint32_t access, uint64_t nbytes, uintptr_t data, uint64_t offset):
        """Add a tensor operand.

        sizes: its shape. nbytes: size of its memory. access: flags PYD_HOST_READ and PYD_HOST_WRITE. data, offset: the
        fields of these names of a pyd_host_operand_t.
        """
        self.operands.append((PYD_HOST_TENSOR, access, dtype, sizes, nbytes, data, offset, 0))

    def call(self, uintptr_t address, uintptr_t context):
        """Call the C function at `address` with the operands and its `context`, the address of data of its own.

        Raise CommandError if it returns another code than 0, with the text that it set or that code.
        """
        # total: number of sizes of all operands; o[3] is the shape of an operand.
        cdef size_t i, count = len(self.operands), total = sum([len(o[3]) for o in self.operands])
        cdef pyd_host_operand_t* operands = <pyd_host_operand_t*>calloc(count + 1, sizeof(pyd_host_operand_t))
        cdef int64_t* sizes = <int64_t*>calloc(total + 1, sizeof(int64_t))
        cdef int64_t* at = sizes  # where the sizes of the next operand are stored
        cdef int32_t code
        cdef pyd_import_fn_t function = <pyd_import_fn_t><void*>address
        try:
            if operands == NULL or sizes == NULL:
                raise MemoryError()
            for i, (kind, access, dtype, shape, nbytes, data, offset, value) in enumerate(self.operands):
                operands[i].kind, operands[i].access, operands[i].dtype = kind, access, dtype
                operands[i].rank, operands[i].sizes, operands[i].bytes = len(shape), at, nbytes
                operands[i].data, operands[i].offset = <void*><uintptr_t>data, offset
                for size in shape:
                    at[0] = size
                    at += 1
                if kind == PYD_HOST_SCALAR:
                    element_type(dtype).pack(value, &operands[i].word)
            self.own.command.operands, self.own.command.operand_count = operands, <uint32_t>count
            with nogil:
                code = function(&self.own.command, <void*>context, NULL)
            if code:
                text = self.own.text.decode("utf-8", "replace") if self.own.text != NULL else f"returned {code}"
                raise CommandError(text, self.name.decode("utf-8", "replace"), code)
        finally:
            free(operands)
            free(sizes)


cdef void keep_text(const pyd_host_command_t* command, const char* text) noexcept nogil:
    """Store the text of a failure, unless one is stored: the first one counts. The `fail` of a Native.

    Called from any thread of the command. text: NULL stands for "it failed", as in commands on the CPU.
    """
    cdef NativeCall* own = <NativeCall*>command
    cdef char* copy
    if text == NULL:
        text = "it failed"
    copy = strdup(text)
    if not pyd_store_first(&own.text, copy):
        free(copy)


cdef int32_t run_here(
        const pyd_host_command_t* command, uint64_t count, pyd_host_body_fn_t body, void* self) noexcept nogil:
    """Run a parallel loop on this thread; the `parallel_for` of a Native."""
    cdef uint64_t failed = 0
    return body(self, 0, 0, count, &failed) if count else 0  # worker 0, range [0, count)
