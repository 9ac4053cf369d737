// Systems without shared libraries: plugins are embedded ELFs or linked in.
#include <stddef.h>

#include "platform/dl.h"

// Returns the failure of every attempt to open a system library.
static pyd_status_t refuse(void) {
  return pyd_status_make(PYD_CODE_UNSUPPORTED,
                         "is a system library, and this system opens none: build it as an embedded plugin (.sos)");
}

pyd_status_t pyd_dl_check(pyd_span_t file) {
  (void)file;
  return refuse();
}

// Returns true, the library may write through C stdio: its imports are not read. No library reaches this call, as
// pyd_dl_check() refuses all.
bool pyd_dl_may_print(pyd_span_t file) {
  (void)file;
  return true;
}

pyd_status_t pyd_dl_open(const char* path, void** out_handle) {
  (void)path;
  *out_handle = NULL;
  return refuse();
}

pyd_status_t pyd_dl_open_bytes(pyd_span_t file, void** out_handle) {
  (void)file;
  *out_handle = NULL;
  return refuse();
}

void* pyd_dl_symbol(void* handle, const char* name) {
  (void)handle, (void)name;
  return NULL;
}

void pyd_dl_close(void* handle) { (void)handle; }
