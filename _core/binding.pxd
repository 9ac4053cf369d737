from libc.stdint cimport uint32_t

from pydispatch._core.arrays cimport ElementType


# The element type of a value of a program. ArtifactError, which names the value, when NumPy has none.
cdef ElementType value_type(str function, str what, uint32_t index, uint32_t word)
cdef object input_array(str function, int index, str name, ElementType kind, tuple dims, object given, bint copies)
cdef object output_array(str function, int index, ElementType kind, tuple shape, object given)
# InvalidArgumentError when two of the given arrays, one per result or None, share memory.
cdef int check_apart(str function, list outputs) except -1
# The memory of an object as an array, or None. InvalidArgumentError when that memory cannot be used.
cdef object take_array(str where, str expected, object given)
# `@f: argument 1 'x'`, the beginning of a message.
cdef str value_text(str function, str what, int index, str name)
cdef object wrong_scalar(str function, int index, str name, ElementType kind, object given, object error)
cdef str type_text(ElementType kind, tuple dims)
