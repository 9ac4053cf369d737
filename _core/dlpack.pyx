"""DLPack capsules, unversioned and versioned: converts them to NumPy arrays over the same memory, and creates them."""

cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from cpython.ref cimport Py_DECREF, Py_INCREF

from pydispatch._core.interpreter cimport pyd_has_python
from pydispatch._core.numpy_arrays cimport NPY_ARRAY_WRITEABLE, PyArrayObject, PyArray_Descr, PyArray_NewFromDescr
from pydispatch._core.numpy_arrays cimport PyArray_SetBaseObject, PyArray_Type

import numpy as np

from pydispatch._core.extended_types import EXTENDED_TYPES

cnp.import_array()

# Structures of the DLPack specification, version 1.
ctypedef struct DLTensor:
    void* data
    int32_t device_type
    int32_t device_id
    int32_t ndim
    uint8_t code          # class of the element type: 0 int, 1 uint, 2 float, 5 complex, 6 bool
    uint8_t bits
    uint16_t lanes        # elements per vector
    int64_t* shape
    int64_t* strides      # in elements; NULL for row-major order without gaps
    uint64_t byte_offset  # of the first element from `data`

ctypedef struct DLManaged:
    DLTensor tensor
    void* context
    void (*deleter)(void*)

ctypedef struct DLVersioned:
    uint32_t major
    uint32_t minor
    void* context
    void (*deleter)(void*)
    uint64_t flags
    DLTensor tensor

cdef enum:
    MAX_DIMS = 32  # limit of NumPy 1
    FLAG_READ_ONLY = 1  # bit of DLVersioned.flags

# Pinned CUDA memory (3) is ordinary memory to the CPU.
cdef tuple CPU_DEVICES = (1, 3)
# DLPack type code -> NumPy kind, to which the number of bytes is appended; and -> name of a type of ml_dtypes.
cdef dict KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}
cdef dict EXTENDED = {row.dlpack: row.name for row in EXTENDED_TYPES if row.dlpack is not None}


cdef class Owner:
    """Base object of an array over a capsule's memory; calls the producer's deleter when the array is freed.

    is_unversioned: the capsule has the form before DLPack 1.0. managed: its DLManaged or DLVersioned structure.
    """

    cdef bint is_unversioned
    cdef void* managed
    cdef void (*deleter)(void*)

    def __dealloc__(self):
        if self.managed != NULL and self.deleter != NULL:
            self.deleter(self.managed)


cdef object dtype_of(DLTensor* tensor):
    """Return the NumPy dtype of a tensor's elements. Raise BufferError if it is not supported.

    Without ml_dtypes a type that NumPy lacks becomes the unsigned integer of its width.
    """
    if tensor.lanes != 1:
        raise BufferError(f"DLPack elements with {tensor.lanes} lanes are not supported")
    if tensor.code == 6 and tensor.bits == 8:  # kDLBool
        return np.dtype(np.bool_)
    if tensor.code in KINDS and tensor.bits >= 8 and tensor.bits % 8 == 0:
        return np.dtype(f"{KINDS[tensor.code]}{tensor.bits // 8}")
    if tensor.code in EXTENDED:
        try:
            import ml_dtypes
            return np.dtype(getattr(ml_dtypes, EXTENDED[tensor.code]))
        except (ImportError, AttributeError):
            return np.dtype(f"u{tensor.bits // 8}")
    raise BufferError(f"DLPack type code {tensor.code} with {tensor.bits} bits is not supported")


cdef object capsule_of(object source):
    """Return the DLPack capsule of an object, versioned if its producer supports that.

    Raise BufferError if its memory is not accessible to the CPU.
    """
    device = int(source.__dlpack_device__()[0])
    if device not in CPU_DEVICES:
        raise BufferError(f"its memory is on DLPack device type {device}; expected the CPU (1)")
    try:
        return source.__dlpack__(max_version=(1, 1))
    except TypeError:
        return source.__dlpack__()  # a producer older than the versioned protocol


cdef object from_dlpack(object source):
    """Return an array over the memory of an object with `__dlpack__`, without a copy.

    Raise BufferError if the memory is not accessible to the CPU or its elements are not supported.
    """
    return open_capsule(capsule_of(source))


def open_capsule(object capsule):
    """Return an array over the memory of a capsule, which is consumed. Raise BufferError if it is not supported.

    For device memory only the address, shape and strides of the array are valid. An array of an unversioned capsule is
    read-only, as in NumPy, because such a capsule cannot say whether its memory is writable.
    """
    cdef DLVersioned* versioned
    cdef DLManaged* plain
    cdef DLTensor* tensor
    cdef Owner owner = Owner()
    cdef bint read_only = False
    # The protocol renames a capsule when it is consumed, so that its destructor does not free the memory.
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <DLVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if versioned.major != 1:
            raise BufferError(f"DLPack version {versioned.major}.{versioned.minor} is not supported; expected 1.x")
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        owner.managed, owner.deleter = <void*>versioned, versioned.deleter
        tensor, read_only = &versioned.tensor, (versioned.flags & FLAG_READ_ONLY) != 0
    elif PyCapsule_IsValid(capsule, "dltensor"):
        plain = <DLManaged*>PyCapsule_GetPointer(capsule, "dltensor")
        PyCapsule_SetName(capsule, "used_dltensor")
        owner.managed, owner.deleter = <void*>plain, plain.deleter
        owner.is_unversioned = read_only = True
        tensor = &plain.tensor
    else:
        raise BufferError("__dlpack__ returned no fresh DLPack capsule")
    return array_over(tensor, owner, read_only)


def read_only_text(object array):
    """Return why an array cannot be written, in words that follow "got" in an error."""
    if isinstance(array.base, Owner) and (<Owner>array.base).is_unversioned:
        return ("memory that may be read-only: its DLPack capsule is of the form without a version, which cannot say "
                "that it may be written")
    return "a read-only array"


cdef object array_over(DLTensor* tensor, Owner owner, bint read_only):
    """Return an array over the memory of a tensor, without a copy. owner: keeps the memory alive; becomes its base."""
    cdef Py_ssize_t shape[MAX_DIMS]
    cdef Py_ssize_t strides[MAX_DIMS]
    cdef int i
    if tensor.ndim < 0 or tensor.ndim > MAX_DIMS:
        raise BufferError(f"DLPack rank {tensor.ndim} is not supported; at most {MAX_DIMS}")
    dtype = dtype_of(tensor)
    for i in range(tensor.ndim):
        shape[i] = tensor.shape[i]
        if tensor.strides != NULL:  # elements to bytes
            strides[i] = tensor.strides[i] * <Py_ssize_t>dtype.itemsize
    Py_INCREF(dtype)  # PyArray_NewFromDescr takes over a reference
    cdef PyObject* made = PyArray_NewFromDescr(
        &PyArray_Type, <PyArray_Descr*>dtype, tensor.ndim, shape, strides if tensor.strides != NULL else NULL,
        <char*>tensor.data + tensor.byte_offset, 0 if read_only else NPY_ARRAY_WRITEABLE, NULL)
    array = <object>made
    Py_DECREF(array)  # the cast has added a reference to the new one
    Py_INCREF(owner)
    PyArray_SetBaseObject(<PyArrayObject*>made, <PyObject*>owner)
    return array


# The memory of a capsule that make_capsule() has created: one of the two structures is used. owner: object that keeps
# the tensor's memory alive, with a reference that end() releases.
cdef struct Lent:
    DLManaged plain
    DLVersioned versioned
    PyObject* owner
    int64_t shape[MAX_DIMS]


cdef void end(Lent* lent) noexcept with gil:
    """Release the owner of a tensor's memory and free `lent`, the structure in the capsule."""
    owner = <object>lent.owner
    Py_DECREF(owner)
    free(lent)


cdef void end_plain(void* managed) noexcept nogil:
    """Release the owner of a tensor's memory; the deleter of capsules before DLPack 1.0.

    Consumers call it from any thread, also after Python has ended: static tensors of C++ libraries live until then.
    """
    if pyd_has_python():  # otherwise the owner leaks, as no Python object can be freed any more
        end(<Lent*>(<DLManaged*>managed).context)


cdef void end_versioned(void* managed) noexcept nogil:
    """Release the owner of a tensor's memory, as end_plain() does; the deleter of capsules of DLPack 1.0."""
    if pyd_has_python():  # otherwise the owner leaks
        end(<Lent*>(<DLVersioned*>managed).context)


cdef void destroy_unconsumed(object capsule) noexcept:
    """Free the memory of a capsule that no consumer has taken; the capsule's destructor."""
    if PyCapsule_IsValid(capsule, "dltensor"):
        end_plain(PyCapsule_GetPointer(capsule, "dltensor"))
    elif PyCapsule_IsValid(capsule, "dltensor_versioned"):
        end_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"))


def make_capsule(object owner, uintptr_t address, tuple shape, int code, int bits, int device_type, int device_id,
                 bint versioned=False):
    """Create a DLPack capsule over C-contiguous memory, which `owner` keeps alive.

    address: of the first element. code, bits: DLPack type code and width of the elements. device_type, device_id: where
    the memory is, as in DLPack. versioned: create a capsule of DLPack 1.0, which states that the memory is writable;
    otherwise an unversioned capsule, which cannot state that. The capsule has a reference to `owner` until the consumer
    calls its deleter, or until the unconsumed capsule is freed. Raise BufferError for more than MAX_DIMS dimensions.
    """
    cdef Lent* lent
    cdef DLTensor* tensor
    cdef int i
    if len(shape) > MAX_DIMS:
        raise BufferError(f"DLPack rank {len(shape)} is not supported; at most {MAX_DIMS}")
    lent = <Lent*>calloc(1, sizeof(Lent))
    if lent == NULL:
        raise MemoryError()
    tensor = &lent.versioned.tensor if versioned else &lent.plain.tensor
    tensor.data, tensor.device_type, tensor.device_id = <void*>address, device_type, device_id
    tensor.ndim, tensor.code, tensor.bits, tensor.lanes = <int32_t>len(shape), code, bits, 1
    tensor.shape = lent.shape
    # Both structures are filled, though the capsule has only one of them. Deleters find `lent` through `context`.
    lent.plain.context, lent.plain.deleter = lent, end_plain
    lent.versioned.major, lent.versioned.context, lent.versioned.deleter = 1, lent, end_versioned
    try:
        for i in range(tensor.ndim):
            lent.shape[i] = shape[i]
        if versioned:
            capsule = PyCapsule_New(&lent.versioned, "dltensor_versioned", destroy_unconsumed)
        else:
            capsule = PyCapsule_New(&lent.plain, "dltensor", destroy_unconsumed)
    except BaseException:
        free(lent)
        raise
    Py_INCREF(owner)
    lent.owner = <PyObject*>owner
    return capsule
