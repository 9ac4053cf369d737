from libc.stdint cimport uint32_t

from pydispatch._core.c_program cimport pyd_program_function_t
from pydispatch._core.program cimport Module


# Base class of Function and Procedure: name, types and sizes of arguments and results.
cdef class PublicFunction:
    cdef readonly str name
    cdef readonly str signature
    cdef public object origin  # of the program, which pickles the function; see pydispatch.runtime.program.program
    cdef Module module
    cdef uint32_t index
    cdef uint32_t arg_count, result_count
    cdef tuple arg_types, arg_names, arg_dims            # dims: None of a number
    cdef tuple result_types, result_names, result_ranks  # rank: None of a number
    # Name -> position of the argument, None if several have the name. The dict is None before the first keyword.
    cdef dict positions
    cdef object interface  # an Interface, created on first use
    cdef int has_positions, is_described  # whether `positions` and `interface` are set

    # Reads names and types. Raises ArtifactError for a type that NumPy does not have.
    cdef int describe(self, Module module, uint32_t index, const pyd_program_function_t* info) except -1
    # Raises InvalidArgumentError unless the function has |count| arguments.
    cdef int check_count(self, Py_ssize_t count) except -1
    # Raises InvalidArgumentError unless a buffer of a device, |given|, may be argument |i|.
    cdef int check_buffer(self, uint32_t i, object given) except -1
    # Returns the position of the only argument named |name|. Raises InvalidArgumentError if there is none, or several.
    cdef Py_ssize_t position_of(self, str name) except -1
    cdef object wrong_name(self, str name, bint is_ambiguous)
