from libc.stdint cimport int64_t, uint32_t, uint64_t


# An element type of programs: its dtype word (docs/program.md), its MLIR name and its NumPy dtype.
cdef class ElementType:
    cdef readonly uint32_t word
    cdef readonly str name          # MLIR spelling
    cdef readonly object dtype      # numpy.dtype, native byte order
    cdef readonly Py_ssize_t itemsize
    cdef readonly uint32_t numerical
    cdef readonly uint32_t bits
    cdef readonly bint packed         # several elements share a byte of a buffer; in arrays each has its own

    # Of an integer type: it accepts the values in [low, high]; those in [least, most] also fit in 64 signed bits.
    # most_signed: 2**(bits - 1) - 1. modulus: 2**bits.
    cdef object low, high, most_signed, modulus
    cdef int64_t least, most

    cdef int pack(self, object value, uint64_t* out_word) except -1
    cdef int pack_integer(self, object value, uint64_t* out_word) except -1
    cdef int pack_float(self, object value, uint64_t* out_word) except -1
    cdef object unpack(self, uint64_t word)


cdef ElementType element_type(uint32_t word)

# Returns the memory of an object as a NumPy array without a copy, or None if it is no array.
cdef object array_of(object source)

# Convert elements of less than 8 bits between arrays, where each has a byte, and buffers, where several share a byte.
cdef object packed_of(ElementType kind, object array)
cdef void unpack_into(ElementType kind, const void* data, object array) noexcept
