from libc.stdint cimport uint32_t

from pydispatch._core.arrays cimport ElementType


# Returns the element type of a value of a program. Raises ArtifactError, which names the value, if NumPy has none.
cdef ElementType value_type(str function, str what, uint32_t index, uint32_t word)
cdef object input_array(str function, int index, str name, ElementType kind, tuple dims, object given, bint copies)
cdef object output_array(str function, int index, ElementType kind, tuple shape, object given)
# Raises InvalidArgumentError if two of the arrays, one per result or None, share memory.
cdef int check_apart(str function, list outputs) except -1
# Returns the memory of an object as an array, or None. Raises InvalidArgumentError if that memory cannot be used.
cdef object take_array(str where, str expected, object given, bint is_output)
# Returns the beginning of a message about a value, such as `@f: argument 1 'x'`.
cdef str value_text(str function, str what, int index, str name)
cdef object wrong_scalar(str function, int index, str name, ElementType kind, object given, object error)
cdef str type_text(ElementType kind, tuple dims)
