// Shared libraries on macOS.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"
#include "platform/dl.h"

// Mach-O (mach-o/loader.h, mach-o/fat.h): magic, CPU type, CPU subtype, file type.
#define MACHO_MAGIC_64 0xFEEDFACFu
#define MACHO_FAT_MAGIC 0xBEBAFECAu  // big-endian, read as little
// File types of shared libraries and of bundles, which dlopen() accepts.
enum { kMachoDylib = 6, kMachoBundle = 8 };
#if defined(__aarch64__)
#define MACHO_HOST_CPU 0x0100000Cu
#define MACHO_HOST_NAME "arm64"
#else
#define MACHO_HOST_CPU 0x01000007u
#define MACHO_HOST_NAME "x86_64"
#endif

// Checks that |file| is a shared library for this CPU. Messages have no subject: the caller puts the file's name before
// them.
pyd_status_t pyd_dl_check(pyd_span_t file) {
  const uint8_t* header = pyd_span_get(file, 0, 16);
  if (header && pyd_load_u32(header) == MACHO_FAT_MAGIC) return PYD_STATUS_OK;  // dyld picks the architecture
  if (!header || pyd_load_u32(header) != MACHO_MAGIC_64) {
    return pyd_status_make(PYD_CODE_CORRUPT, "is not a 64-bit Mach-O file");
  }
  if (pyd_load_u32(header + 4) != MACHO_HOST_CPU) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "is for CPU type 0x%08x, this process is " MACHO_HOST_NAME " (0x%08x)",
                           pyd_load_u32(header + 4), MACHO_HOST_CPU);
  }
  uint32_t type = pyd_load_u32(header + 12);
  if (type == kMachoDylib || type == kMachoBundle) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_UNSUPPORTED, "has Mach-O file type %u, expected 6 or 8: link it with -dynamiclib",
                         type);
}

// Returns true, the library may write through C stdio: the imports of Mach-O files are not read.
bool pyd_dl_may_print(pyd_span_t file) {
  (void)file;
  return true;
}

pyd_status_t pyd_dl_open(const char* path, void** out_handle) {
  *out_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*out_handle) return PYD_STATUS_OK;
  const char* reason = dlerror();
  return pyd_status_make(PYD_CODE_SYSTEM, "cannot be opened: %s", reason ? reason : "the system gives no reason");
}

pyd_status_t pyd_dl_open_bytes(pyd_span_t file, void** out_handle) {
  (void)file;
  *out_handle = NULL;
  return pyd_status_make(PYD_CODE_UNSUPPORTED,
                         "is a system library given as bytes, and macOS opens libraries by path: write it to a file");
}

void* pyd_dl_symbol(void* handle, const char* name) { return dlsym(handle, name); }

void pyd_dl_close(void* handle) {
  if (handle) dlclose(handle);
}
