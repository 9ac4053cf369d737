from libc.stdint cimport uint32_t

from pydispatch._core.c_elf cimport pyd_elf_module_t
from pydispatch._core.c_executable cimport pyd_executable_t
from pydispatch._core.c_process cimport pyd_process_code_t
from pydispatch._core.c_program cimport pyd_program_function_t, pyd_program_t, pyd_string_t
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.plugin cimport Resolution
from pydispatch._core.sched cimport Scheduler


# A decoded program with its executables. It is freed with its last reference, so a program may be closed while calls
# are running.
cdef class Module:
    cdef pyd_program_t* program
    cdef pyd_program_t* contracts  # NULL if there are none; freed after the program, which refers to it
    cdef pyd_executable_t** executables
    cdef pyd_elf_module_t* mapped    # the mapped code of each executable until the executable is loaded
    cdef pyd_process_code_t** codes  # registration of each executable with debuggers
    cdef readonly uint32_t executable_count
    cdef readonly Scheduler sched
    cdef readonly Pool pool
    cdef object backing  # owners of the bytes of constants, in nested pairs
    cdef readonly bint closed
    cdef Resolution resolution  # keeps the providers of imports alive; released after the executables
    cdef public bint flushes  # whether a plugin or a supplied library may print through C stdio
    cdef bint has_library     # whether the code of an executable is a library of the system's loader
    cdef public tuple bound   # BoundParameter of each parameter that was bound at load; None before
    cdef public object details  # (flops, interfaces), a function that returns this pair, or None
    cdef public object derived  # owner of the memory of derived constants, shared by programs; None: there are none
    cdef public object state  # a state.State, created after linking and freed before the program; None: no procedures

    cdef tuple described(self)
    cdef int decode_contracts(self, pyd_span_t contracts) except -1
    cdef const pyd_program_function_t* function(self, uint32_t index) except NULL


cdef inline str text_of(pyd_string_t string):
    return string.data[:string.length].decode("utf-8", "replace") if string.length else ""
