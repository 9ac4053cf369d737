"""Checks of arguments and results that are not plain arrays, and the texts of their errors."""

cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint32_t, uintptr_t

from pydispatch._core.arrays cimport ElementType, array_of, element_type
from pydispatch._core.numpy_arrays cimport NPY_ARRAY_C_CONTIGUOUS, PyArrayObject, PyArray_DATA, PyArray_DESCR
from pydispatch._core.numpy_arrays cimport PyArray_FLAGS, PyArray_NBYTES, PyArray_NDIM, PyArray_Type

import numpy as np

from pydispatch._core.dlpack import read_only_text
from pydispatch._core.scalars import array_of_number
from pydispatch._core.status import ArtifactError, InvalidArgumentError

cnp.import_array()

cdef extern from "Python.h":
    PyTypeObject* Py_TYPE(object)


cdef str RESULT = "pass x.result(); only submitted calls take futures"  # what to pass instead of a future


cdef ElementType value_type(str function, str what, uint32_t index, uint32_t word):
    """Return the element type that a dtype word (docs/program.md) encodes. Raise ArtifactError if NumPy has none.

    function, what, index: name the value in the error, such as "f", "argument" and 0.
    """
    try:
        return element_type(word)
    except ValueError as error:
        raise ArtifactError(f"@{function}: {what} {index}: {error}") from None


cdef str type_text(ElementType kind, tuple dims):
    """Return the MLIR spelling of a type, such as `2x?xf32`. dims: None for a scalar; -1 for a dynamic size."""
    return "".join([f"{'?' if size < 0 else size}x" for size in dims or ()]) + kind.name


cdef str dtype_text(dtype):
    """Return the Python expression for a dtype that users write, such as `np.float32` or `ml_dtypes.bfloat16`."""
    name = "bool_" if dtype == bool else dtype.name  # NumPy 1 has no np.bool
    return f"np.{name}" if hasattr(np, name) else f"ml_dtypes.{name}"


cdef str given_text(object given):
    """Return a short description of an object for errors: its type, and its repr if that is short."""
    kind = type(given)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = repr(given)
    except Exception:
        return name
    return f"{name} {text}" if len(text) <= 40 and "\n" not in text else name


cdef str value_text(str function, str what, int index, str name):
    """Return how errors name a value, such as `@f: argument 1 'x'`.

    what: "argument" or "out". index: its position, from 0. name: "" or None if it has none.
    """
    return f"@{function}: {what} {index}" + (f" '{name}'" if name else "")


cdef str array_text(object array):
    """Return the words for an array in an error, such as `a float32 array of shape (2, 3)`."""
    article = "an" if array.dtype.name.startswith(("int", "object")) else "a"
    # Dtypes of the other byte order compare unequal but have the same name.
    order = "" if array.dtype.isnative else ", in the other byte order"
    return f"{article} {array.dtype.name} array of shape {array.shape}{order}"


cdef str layout_error(object array, ElementType kind, Py_ssize_t rank, str shape):
    """Return the text of an error about the type or rank of an array, with a remedy; None if both are right.

    shape: text of the expected sizes, for the remedy.
    """
    if array.dtype != kind.dtype:
        real = ".real" if array.dtype.kind == "c" != kind.dtype.kind else ""  # astype() drops imaginary parts
        return f"got {array_text(array)}; pass x{real}.astype({dtype_text(kind.dtype)})"
    if array.ndim != rank:
        # reshape infers one size only, so that a remedy with more unknown sizes states none.
        remedy = f"pass x.reshape({shape})" if shape.count("-1") < 2 else f"reshape it to {rank} sizes"
        return f"got rank {array.ndim}, shape {array.shape}; {remedy} if the elements are meant to be the same"
    return None


cdef str strided_text(object array):
    """Return the words for an array that is not contiguous."""
    return f"got shape {array.shape} with strides {array.strides} bytes, which is not contiguous"


cdef bint is_future(object given):
    """Return whether an object is a future."""
    from concurrent.futures import Future  # here, because a program that submits no calls does not need it

    return isinstance(given, Future)


cdef str instead_of(object given, str dtype):
    """Return what to pass instead of an argument that is no array, for errors. dtype: text of the parameter's dtype."""
    if is_future(given):
        return RESULT
    if isinstance(given, (bytes, bytearray)):
        return f"pass np.frombuffer(x, dtype={dtype})"
    return f"pass an array: np.asarray(x, dtype={dtype})"


cdef object take_array(str where, str expected, object given, bint is_output):
    """Return the memory of an object as an array, or None if it is no array.

    where, expected: how errors name the value and its type. is_output: whether results are written to the memory. Raise
    InvalidArgumentError for unusable memory, and for an array with a mask.
    """
    if isinstance(given, np.ma.MaskedArray):
        raise InvalidArgumentError(
            f"{where}: expected {expected}, got {given_text(given)}: its mask would be lost; "
            f"pass {'x.data' if is_output else 'x.filled(value)'}")
    try:
        return array_of(given)
    except Exception as error:  # including those raised by code of the object
        raise InvalidArgumentError(
            f"{where}: expected {expected}, got {given_text(given)}, whose memory cannot be used: "
            f"{str(error) or type(error).__name__}") from error


cdef object input_array(
        str function, int index, str name, ElementType kind, tuple dims, object given, bint copies):
    """Return an argument, the object `given`, as a contiguous array of the right type and rank.

    function, index, name: name the argument in errors. kind, dims: element type and sizes of the parameter, -1 for a
    dynamic size; only the number of sizes is checked here. copies: copy strided arrays instead of refusing them. A
    prepared call refuses them, because it reads its arguments in each run and would not see later changes of the
    original. Raises InvalidArgumentError.
    """
    if fits(given, kind, len(dims)):
        return given
    if not dims:  # a tensor of rank 0 may be passed as a number
        array = number_array(function, index, name, kind, given)
        if array is not None:
            return array
    where = value_text(function, "argument", index, name)
    expected = f"{type_text(kind, dims)} ({dtype_text(kind.dtype)} array of rank {len(dims)})"
    array = take_array(where, expected, given, is_output=False)
    if array is None:
        raise InvalidArgumentError(
            f"{where}: expected {expected}, got {given_text(given)}; {instead_of(given, dtype_text(kind.dtype))}")
    wanted = ", ".join([str(size) for size in dims]) if dims else "()"
    wrong = layout_error(array, kind, len(dims), wanted)
    if wrong is not None:
        raise InvalidArgumentError(f"{where}: expected {expected}, {wrong}")
    if array.flags.c_contiguous:
        return array
    if not copies:
        raise InvalidArgumentError(
            f"{where}: expected {expected}, {strided_text(array)}; each run reads the array again, so pass "
            "np.ascontiguousarray(x) and change that one")
    return np.ascontiguousarray(array)


cdef object number_array(str function, int index, str name, ElementType kind, object given):
    """Return a number as an array of rank 0 of the element type, or None for an object that is no number.

    Raise InvalidArgumentError for a number that the element type cannot represent.
    """
    try:
        return array_of_number(given, kind)
    except (TypeError, OverflowError) as error:
        # 0x12 is the numerical type of unsigned integers, the last integer type (docs/program.md).
        remedy = "; pass int(x)" if isinstance(given, float) and kind.numerical <= 0x12 else ""
        raise InvalidArgumentError(
            f"{value_text(function, 'argument', index, name)}: expected {kind.name} (a number, or a "
            f"{dtype_text(kind.dtype)} array of rank 0), got {given_text(given)}: {error}{remedy}") from None


cdef object output_array(str function, int index, ElementType kind, tuple shape, object given):
    """Return the object `given`, which the caller passed in `out`, as the array that result `index` is written to.

    Raise InvalidArgumentError unless it has the element type `kind` and the shape, is contiguous and writable.
    """
    if fits(given, kind, len(shape)) and given.shape == shape and given.flags.writeable:
        return given
    where = value_text(function, "out", index, None)
    expected = f"{type_text(kind, shape)} (writable, contiguous {dtype_text(kind.dtype)} array of shape {shape})"
    remedy = f"pass np.empty({shape}, {dtype_text(kind.dtype)})"
    array = take_array(where, expected, given, is_output=True)
    if array is None:
        raise InvalidArgumentError(f"{where}: expected {expected}, got {given_text(given)}; {remedy}")
    if array.dtype != kind.dtype or array.shape != shape:
        raise InvalidArgumentError(
            f"{where}: expected {expected}, got {array_text(array)}; {remedy}")
    if not array.flags.c_contiguous:
        raise InvalidArgumentError(f"{where}: expected {expected}, {strided_text(array)}; {remedy}")
    if not array.flags.writeable:
        raise InvalidArgumentError(f"{where}: expected {expected}, got {read_only_text(array)}; {remedy}")
    return array


cdef int check_apart(str function, list outputs) except -1:
    """Raise InvalidArgumentError if two result arrays overlap, because one result would overwrite the other.

    outputs: per result the contiguous array that receives it, or None.
    """
    cdef Py_ssize_t i, k
    cdef uintptr_t begin, other
    cdef size_t size, other_size
    for i in range(len(outputs)):
        if outputs[i] is None:
            continue
        begin, size = <uintptr_t>PyArray_DATA(<PyArrayObject*>outputs[i]), PyArray_NBYTES(<PyArrayObject*>outputs[i])
        for k in range(i):
            if outputs[k] is None:
                continue
            other = <uintptr_t>PyArray_DATA(<PyArrayObject*>outputs[k])
            other_size = PyArray_NBYTES(<PyArrayObject*>outputs[k])
            # Two ranges overlap if each begins before the end of the other. An empty array overlaps none.
            if size and other_size and begin < other + other_size and other < begin + size:
                raise InvalidArgumentError(
                    f"@{function}: out {k} and out {i} share memory, but results {k} and {i} are different arrays; "
                    "pass separate arrays")
    return 0


cdef bint fits(object given, ElementType kind, Py_ssize_t rank) noexcept:
    """Return whether an object is a plain, contiguous array of the type and rank.

    Descriptors are compared by identity, as NumPy has one descriptor object per built-in type.
    """
    cdef PyArrayObject* array = <PyArrayObject*>given
    return (Py_TYPE(given) == &PyArray_Type and <PyObject*>PyArray_DESCR(array) == <PyObject*>kind.dtype
            and PyArray_NDIM(array) == rank and PyArray_FLAGS(array) & NPY_ARRAY_C_CONTIGUOUS)


cdef object wrong_scalar(str function, int index, str name, ElementType kind, object given, object error):
    """Return an InvalidArgumentError for a scalar argument, `given`, that `ElementType.pack` has refused with `error`.

    Only the text of an OverflowError is included: other errors add nothing to the types in the message.
    """
    where = value_text(function, "argument", index, name)
    reason = f": {error}" if isinstance(error, OverflowError) else ""
    if isinstance(given, np.ndarray) and given.ndim:
        remedy = "; pass one number, for example x.item()"
    elif isinstance(given, float) and kind.dtype.kind in "iub":
        remedy = "; pass int(x)"
    elif is_future(given):
        remedy = f"; {RESULT}"
    else:
        remedy = ""
    return InvalidArgumentError(f"{where}: expected {kind.name} (a number), got {given_text(given)}{reason}{remedy}")
