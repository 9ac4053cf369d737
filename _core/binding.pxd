from pydispatch._core.arrays cimport ElementType


cdef object input_array(str function, int index, str name, ElementType kind, tuple dims, object given)
cdef object output_array(str function, int index, ElementType kind, tuple shape, object given)
cdef object wrong_scalar(str function, int index, str name, ElementType kind, object given, object error)
cdef str type_text(ElementType kind, tuple dims)
