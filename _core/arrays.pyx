"""Element types and their NumPy dtypes; conversion of scalars to and from 64-bit words; arrays of other libraries."""

cimport cython
from cpython.buffer cimport PyObject_CheckBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import operator

import numpy as np

from pydispatch._core.dlpack cimport from_dlpack
from pydispatch._core.numpy_arrays cimport PyArrayObject, PyArray_DATA

from pydispatch._core.extended_types import EXTENDED_TYPES

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1

# Numerical types (docs/program.md): the classes of element types, besides those of EXTENDED_TYPES. Integers are first.
cdef enum:
    SIGNLESS = 0x10
    SIGNED = 0x11
    UNSIGNED = 0x12
    BOOLEAN = 0x13
    IEEE_FLOAT = 0x21
    COMPLEX = 0x23

# numerical type -> (MLIR prefix, NumPy kind). A prefix is followed by a number of bits, a kind by a number of bytes.
cdef dict PLAIN = {
    SIGNLESS: ("i", "i"), SIGNED: ("si", "i"), UNSIGNED: ("ui", "u"), IEEE_FLOAT: ("f", "f"), COMPLEX: ("complex", "c"),
}
cdef dict EXTENDED = {(row.numerical, row.bits): row for row in EXTENDED_TYPES}
cdef dict KNOWN = {}


cdef object ml_dtype(str name, str raw):
    """Return the dtype `name` of ml_dtypes, or the dtype `raw` if ml_dtypes is not installed or lacks the type.

    raw: NumPy name of the unsigned integer in which one element is stored.
    """
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(raw)
    return np.dtype(getattr(ml_dtypes, name, raw))


cdef tuple names_of_type(uint32_t numerical, uint32_t bits):
    """Return (MLIR spelling, NumPy dtype) of an element type; None instead of the tuple if NumPy has no such type.

    numerical: class of the type, such as IEEE_FLOAT. bits: width of an element.
    """
    if numerical == BOOLEAN:  # a byte in memory, like NumPy's
        return ("i1", np.dtype(np.bool_)) if bits == 8 else None
    if (numerical, bits) in EXTENDED:
        row = EXTENDED[numerical, bits]
        return row.mlir, ml_dtype(row.name, "uint16" if bits == 16 else "uint8")
    if numerical in PLAIN:
        prefix, kind = PLAIN[numerical]
        if bits in (2, 4) and kind in "iu":  # NumPy has no such integers, ml_dtypes has
            return f"{prefix}{bits}", ml_dtype(f"{'u' if kind == 'u' else ''}int{bits}", "uint8")
        # Widths that NumPy has, by kind.
        if bits in {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "c": (64, 128)}[kind]:
            spelling = f"complex<f{bits // 2}>" if kind == "c" else f"{prefix}{bits}"
            return spelling, np.dtype(f"{kind}{bits // 8}")
    return None


@cython.final
@cython.no_gc
cdef class ElementType:
    """An element type of the program format: what an element of a buffer, or a scalar, holds.

    word: its encoding (docs/program.md), numerical type << 24 | bits. Raises ValueError if NumPy has no such type.
    """

    def __init__(self, uint32_t word):
        """Derive the names, and the range of an integer type, from the dtype word."""
        self.word = word
        self.numerical = word >> 24
        self.bits = word & 0xFFFFFF
        names = names_of_type(self.numerical, self.bits)
        if names is None:
            raise ValueError(f"element type 0x{word:08x} has no NumPy counterpart")
        self.name, self.dtype = names
        self.itemsize = self.dtype.itemsize
        self.packed = self.bits < 8
        if self.numerical <= UNSIGNED:  # integers
            bits = int(self.bits)  # a Python number: a power of a C number would overflow
            self.modulus, self.most_signed = 2**bits, 2 ** (bits - 1) - 1
            # low, high: the accepted values. A signless type accepts signed and unsigned values: -128 to 255 for i8.
            self.low = 0 if self.numerical == UNSIGNED else -(2 ** (bits - 1))
            self.high = self.most_signed if self.numerical == SIGNED else self.modulus - 1
            # Their range in C: pack_integer() compares 64-bit signed values with it.
            self.least, self.most = self.low, min(self.high, 2**63 - 1)

    def __repr__(self):
        return f"ElementType({self.name})"

    def nbytes(self, count):
        """Return the size in bytes of `count` elements in a buffer.

        Elements of less than 8 bits are packed and the size is rounded up: 3 elements of i4 take 2 bytes.
        """
        return -(-count * self.bits // 8) if self.packed else count * self.itemsize

    cdef int pack(self, object value, uint64_t* out_word) except -1:
        """Convert a Python or NumPy number to a register value, the 64-bit word in which programs hold a scalar.

        An integer is sign-extended; a float is its bits, with zeros above. Raise TypeError or OverflowError if the
        number does not fit.
        """
        if self.dtype.kind == "b":
            return pack_bool(value, out_word)
        if self.numerical <= UNSIGNED:
            return self.pack_integer(value, out_word)
        if self.dtype.kind == "c":
            raise TypeError("complex scalars are not supported as arguments")
        return self.pack_float(value, out_word)

    cdef int pack_integer(self, object value, uint64_t* out_word) except -1:
        """Convert an integer to a register value, sign-extended. Raise OverflowError if it is not in [low, high]."""
        cdef int overflow = 0
        cdef long long small
        if type(value) is int:  # fast path without Python arithmetic
            small = PyLong_AsLongLongAndOverflow(value, &overflow)
            if not overflow and self.least <= small <= self.most:
                # A value whose top bit is set is negative in a register, as registers are sign-extended: for 8 bits,
                # 255 > 127 becomes -1.
                if self.bits < 64 and small > <long long>(<uint64_t>-1 >> (65 - self.bits)):
                    small -= 1LL << self.bits
                out_word[0] = <uint64_t>small
                return 0
        number = operator.index(value)
        if not self.low <= number <= self.high:
            raise OverflowError(f"{number} is outside [{self.low}, {self.high}]")
        if number > self.most_signed:
            number -= self.modulus
        out_word[0] = <uint64_t><int64_t>number
        return 0

    cdef int pack_float(self, object value, uint64_t* out_word) except -1:
        """Convert a number to the bits of a float of this type, rounded; the bits above are 0.

        Raise OverflowError if a finite number becomes infinite or NaN.
        """
        cdef double number
        cdef float narrow
        cdef uint32_t float_bits = 0
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError("not a number")
        number = value
        if self.bits == 64:
            memcpy(out_word, &number, sizeof(number))
            return 0
        if self.bits == 32:
            narrow = <float>number
            if narrow - narrow != 0 and number - number == 0:  # x - x is 0 for finite x only
                raise OverflowError(f"{value} is outside the range of {self.name}")
            memcpy(&float_bits, &narrow, sizeof(narrow))
            out_word[0] = float_bits
            return 0
        if self.dtype.kind in "iu":  # integers stand for the elements, as ml_dtypes is not installed
            raise TypeError(f"{self.name} scalars need the package ml_dtypes")
        rounded = np.zeros((), self.dtype)
        with np.errstate(all="ignore"):
            rounded[...] = number
        # The number is finite, but its rounded value overflows to infinity.
        if number - number == 0 and not np.isfinite(rounded.astype(np.float64)):
            raise OverflowError(f"{value} is outside the range of {self.name}")
        out_word[0] = int(rounded.view(f"u{self.itemsize}"))
        return 0

    cdef object unpack(self, uint64_t word):
        """Return a register value, as `pack` stores it, as a Python bool, int or float.

        Without ml_dtypes the value of a type that NumPy lacks is its bits, as an int.
        """
        cdef int64_t signed = <int64_t>word
        cdef uint32_t float_bits = <uint32_t>word
        cdef double number = 0
        cdef float narrow = 0
        if self.dtype.kind == "b":
            return (word & 1) != 0
        if self.numerical == UNSIGNED:  # sign-extended in the register nevertheless
            return word & (<uint64_t>-1 >> (64 - self.bits))
        if self.numerical <= SIGNED:
            return signed
        if self.bits == 64:
            memcpy(&number, &word, sizeof(number))
            return number
        if self.bits == 32:
            memcpy(&narrow, &float_bits, sizeof(narrow))
            return <double>narrow
        raw = np.array(word & (<uint64_t>-1 >> (64 - self.bits)), dtype=f"u{self.itemsize}").view(self.dtype)
        return int(raw) if self.dtype.kind in "iu" else float(raw)


cdef void pack_codes(const uint8_t* codes, Py_ssize_t count, uint32_t bits, uint8_t* out) noexcept nogil:
    """Pack `count` elements, each in the low bits of a byte of `codes`, into consecutive bits of `out`.

    The first element of a byte has its lowest bits; unused bits of the last byte are 0. bits: 2 or 4 per element.
    """
    cdef Py_ssize_t i, whole = count * bits // 8  # bytes of `out` that are full
    cdef uint32_t shift
    if bits == 4:  # two elements per byte
        for i in range(whole):
            out[i] = <uint8_t>((codes[2 * i] & 15) | codes[2 * i + 1] << 4)
    else:  # four elements per byte
        for i in range(whole):
            out[i] = <uint8_t>((codes[4 * i] & 3) | (codes[4 * i + 1] & 3) << 2 | (codes[4 * i + 2] & 3) << 4
                               | codes[4 * i + 3] << 6)
    if count * bits % 8:  # the last byte is not full
        out[whole] = 0
        shift = 0
        for i in range(whole * 8 // bits, count):
            out[whole] |= <uint8_t>((codes[i] & ((1 << bits) - 1)) << shift)
            shift += bits


cdef void unpack_codes(const uint8_t* data, Py_ssize_t count, uint32_t bits, bint signed, uint8_t* out) noexcept nogil:
    """Unpack `count` elements of 2 or 4 bits, as pack_codes() writes them, to one byte each.

    signed: sign-extend them, as ml_dtypes does; otherwise the upper bits are 0.
    """
    cdef Py_ssize_t i
    # 1 << per_log elements share a byte: element i is in byte i >> per_log. For an element x with sign bit `top`,
    # (x ^ top) - top is x sign-extended.
    cdef uint32_t per_log = 1 if bits == 4 else 2, top = (1 << (bits - 1)) if signed else 0, mask = (1 << bits) - 1
    for i in range(count):
        out[i] = <uint8_t>((((data[i >> per_log] >> ((<uint32_t>i & ((1 << per_log) - 1)) * bits)) & mask) ^ top) - top)


cdef object packed_of(ElementType kind, object array):
    """Return a new array of bytes with the packed elements of a contiguous array, which has one element per byte."""
    made = np.empty(kind.nbytes(array.size), np.uint8)
    cdef const uint8_t* source = <const uint8_t*>PyArray_DATA(<PyArrayObject*>array)
    pack_codes(source, array.size, kind.bits, <uint8_t*>PyArray_DATA(<PyArrayObject*>made))
    return made


cdef void unpack_into(ElementType kind, const void* data, object array) noexcept:
    """Unpack the elements at `data` into all of a contiguous array of the type's dtype, one byte each."""
    cdef PyArrayObject* target = <PyArrayObject*>array
    cdef Py_ssize_t count = array.size
    # Without ml_dtypes the dtype is that of the bits, which are not sign-extended.
    cdef bint signed = kind.numerical in (SIGNLESS, SIGNED) and kind.dtype.kind != "u"
    unpack_codes(<const uint8_t*>data, count, kind.bits, signed, <uint8_t*>PyArray_DATA(target))


def pack_elements(kind, array):
    """Return the packed bytes of an array of elements of less than 8 bits, the first one lowest.

    kind: an ElementType with `packed`. array: contiguous, of `kind.dtype`; one element per byte.
    """
    if not kind.packed or array.dtype != kind.dtype or not array.flags.c_contiguous:
        raise ValueError(f"expected a contiguous array of {kind.name}, got {array.dtype}")
    return packed_of(kind, array).tobytes()


def unpack_elements(kind, data, shape):
    """Return an array of `shape` with the elements of `data`, bytes as `pack_elements` returns them.

    kind: an ElementType with `packed`. Raise ValueError if it is not packed or `data` is too short.
    """
    source, made = np.frombuffer(data, np.uint8), np.empty(shape, kind.dtype)
    if not kind.packed or source.size < kind.nbytes(made.size):
        raise ValueError(f"{source.size} bytes do not hold {made.size} elements of {kind.name}")
    unpack_into(kind, PyArray_DATA(<PyArrayObject*>source), made)
    return made


cdef int pack_bool(object value, uint64_t* out_word) except -1:
    """Convert a bool, 0 or 1 to a register value: all bits set for True. Raise OverflowError for other integers."""
    if isinstance(value, (bool, np.bool_)):
        number = bool(value)
    else:
        number = operator.index(value)
        if number not in (0, 1):
            raise OverflowError(f"{number} is neither 0 nor 1")
    # A register of width 1 is sign-extended like every other integer.
    out_word[0] = <uint64_t>-1 if number else 0
    return 0


cdef ElementType element_type(uint32_t word):
    """Return the ElementType of a dtype word, the same object each time."""
    found = KNOWN.get(word)
    if found is None:
        found = KNOWN.setdefault(word, ElementType(word))  # all threads get the one that is stored first
    return found


def type_of(uint32_t word):
    """Return the ElementType of a dtype word. Raise ValueError if NumPy has no such type."""
    return element_type(word)


cdef int check_address(object interface) except -1:
    """Raise ValueError for an address of __array_interface__ that does not fit 64 bits, which NumPy would truncate."""
    data = interface.get("data") if isinstance(interface, dict) else None
    address = data[0] if isinstance(data, tuple) and data else None
    if isinstance(address, int) and not 0 <= address < 1 << 64:
        raise ValueError(f"__array_interface__ gives {address:#x} as the address of its data, which is none")
    return 0


cdef object array_of(object source):
    """Return the memory of an object as a NumPy array without a copy, or None if it is no array.

    It may have any strides. Raise an exception, of any type, if its memory cannot be used.
    """
    if isinstance(source, np.ndarray):
        return source
    if isinstance(source, (str, bytes, bytearray, np.generic)):
        return None  # has a buffer, but is not meant as an array of numbers
    # DLPack first: it supports bf16 and f8, which the other two cannot express.
    if hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__"):
        return from_dlpack(source)
    if PyObject_CheckBuffer(source):
        return np.asarray(memoryview(source))
    if hasattr(source, "__array_interface__"):
        check_address(source.__array_interface__)
        return np.asarray(source)
    return None
