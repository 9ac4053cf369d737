// What a query function returned, brought into the one layout that the rest of the project uses.
#ifndef PYD_EXECUTABLE_LIBRARY_H_
#define PYD_EXECUTABLE_LIBRARY_H_

#include "pydispatch/elf.h"
#include "pydispatch/library.h"
#include "pydispatch/status.h"

// A library in the layout of the current version.
typedef struct pyd_library_view_s {
  const pyd_library_t* library;  // the library itself, or |translated|
  pyd_library_t* translated;     // owned; NULL when the library already has the current layout
} pyd_library_view_t;

// Asks |query| for the current version and downwards until it answers, checks the header, and lays an older library out
// as a current one. |module|: the embedded ELF that it came from (base/embedded_library.h), in which each pointer must
// then stay that this project follows: tables with all their entries, strings with their ends, functions in executable
// segments. NULL for a library of the system or the process, whose extent is not known: its pointers are followed as
// they are. |name| is for messages. On failure |out_view| is zero.
pyd_status_t pyd_library_view_query(pyd_library_query_fn_t query, const pyd_elf_module_t* module,
                                    const pyd_environment_t* environment, const char* name,
                                    pyd_library_view_t* out_view);
void pyd_library_view_free(pyd_library_view_t* view);

// Checks what a dispatch relies on: functions, attributes and non-empty names present, counts within the limits,
// |constant_count| as the library states it unless it states 0.
pyd_status_t pyd_library_check(const pyd_library_t* library, uint32_t constant_count, const char* name);

#endif  // PYD_EXECUTABLE_LIBRARY_H_
