from libc.stdint cimport uint32_t

from pydispatch._core.c_elf cimport pyd_elf_module_t
from pydispatch._core.c_executable cimport pyd_executable_t
from pydispatch._core.c_process cimport pyd_process_code_t
from pydispatch._core.c_program cimport pyd_program_function_t, pyd_program_t, pyd_string_t
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.plugin cimport Resolution
from pydispatch._core.sched cimport Scheduler


# A decoded program with its executables: everything that one loaded artifact holds. Freed when nobody uses it any more,
# so a program may be closed while calls are running.
cdef class Module:
    cdef pyd_program_t* program
    cdef pyd_program_t* contracts  # NULL when there are none; goes with the program, which refers to it
    cdef pyd_executable_t** executables
    cdef pyd_elf_module_t* mapped  # the code of each, from when it is mapped to when its executable is loaded
    cdef pyd_process_code_t** codes
    cdef readonly uint32_t executable_count
    cdef readonly Scheduler sched
    cdef readonly Pool pool
    cdef object backing  # owns the bytes that constants are used from
    cdef readonly bint closed
    cdef Resolution resolution  # holds whoever provides imports; goes after the executables
    cdef public bint flushes  # a plugin that gave something, or a library that was given, may print through C stdio
    cdef bint has_library     # the code of an executable came from a library of the system
    cdef public tuple bound   # runtime.parameters.Parameter of everything that was given at load
    cdef public object details  # (flops, interfaces), a function that returns both when they are used, or None
    cdef public object derived  # keeps the memory of derived constants, and is shared; None: there are none
    cdef public object state  # a state.State, made when everything is linked; goes before the program

    cdef tuple described(self)
    cdef int decode_contracts(self, pyd_span_t contracts) except -1
    cdef const pyd_program_function_t* function(self, uint32_t index) except NULL


cdef inline str text_of(pyd_string_t string):
    return string.data[:string.length].decode("utf-8", "replace") if string.length else ""
