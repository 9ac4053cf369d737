// The operating system's own loader of shared libraries. One source file per system.
#ifndef PYD_PLATFORM_DL_H_
#define PYD_PLATFORM_DL_H_

#include "pydispatch/span.h"
#include "pydispatch/status.h"

// Checks a library's bytes before any of its code can run: format, machine, kind. UNSUPPORTED or CORRUPT; the text
// follows a name: "is for aarch64, this machine is x86_64".
pyd_status_t pyd_dl_check(pyd_span_t file);

// Returns whether a library that pyd_dl_check accepted may write through C stdio: whether it imports any function that
// is not known to be silent. True where that cannot be seen.
bool pyd_dl_may_print(pyd_span_t file);

// Opens a library with all its symbols bound at once and hidden from every other library; runs its constructors. SYSTEM
// with the system's reason.
pyd_status_t pyd_dl_open(const char* path, void** out_handle);
// Opens a library in memory, as pyd_dl_open. UNSUPPORTED where the system has no anonymous files.
pyd_status_t pyd_dl_open_bytes(pyd_span_t file, void** out_handle);
// NULL when there is none.
void* pyd_dl_symbol(void* handle, const char* name);
// NULL is allowed.
void pyd_dl_close(void* handle);

#endif  // PYD_PLATFORM_DL_H_
