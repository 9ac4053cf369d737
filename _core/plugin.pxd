from pydispatch._core.c_executable cimport pyd_resolver_t
from pydispatch._core.c_plugin_host cimport pyd_plugin_manager_t, pyd_plugin_t, pyd_resolution_t


cdef class Plugin:
    cdef pyd_plugin_t* plugin

    cdef pyd_plugin_t* get(self) except NULL


# The providers that supply the imports of one program. Its owner frees the executables before this object.
cdef class Resolution:
    cdef pyd_resolution_t* resolution

    # For pyd_executable_options_t. Valid as long as this object; for one thread at a time.
    cdef const pyd_resolver_t* resolver(self) noexcept nogil
    cdef bint may_print(self) noexcept nogil


cdef class Manager:
    cdef pyd_plugin_manager_t* manager
    cdef dict kept  # id -> (name, Plugin or None), in the order of registration
