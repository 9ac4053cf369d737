# The C function table of pydispatch/api.h for Cython; docs/embedding.md shows a whole extension. Modules that cimport
# from here need include_dirs=[pydispatch.get_include()]:
#
#   from pydispatch._core.capi cimport api, pyd_api_t
#   from pydispatch._core.status cimport check       # raises for a status that is no success, and frees it
#   cdef const pyd_api_t* pd = api()
from pydispatch._core.c_api cimport *
from pydispatch._core.c_api_inspect cimport *
from pydispatch._core.c_api_load cimport *
from pydispatch._core.c_api_memory cimport *
from pydispatch._core.c_api_runs cimport *
from pydispatch._core.c_api_values cimport *


# Returns the function table, which is valid as long as the process.
cdef const pyd_api_t* api() noexcept nogil
