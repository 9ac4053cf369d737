// Shared libraries on Windows.
#define WIN32_LEAN_AND_MEAN 1
#include "platform/text_windows.h"

#include "base/span.h"
#include "platform/dl.h"

// Microsoft PE format: "MZ", the PE header's offset at 0x3C, then "PE\0\0", machine, ..., characteristics at +22.
#if defined(__aarch64__)
#define PE_HOST 0xAA64u
#define PE_HOST_NAME "arm64"
#else
#define PE_HOST 0x8664u
#define PE_HOST_NAME "x64"
#endif
// Sizes of headers, byte offset of the PE header's offset, byte offsets of fields in it, and the flag of a DLL.
enum { kDosHeaderBytes = 64, kPeHeaderOffset = 0x3C, kPeHeaderBytes = 24, kPeMachine = 4, kPeCharacteristics = 22 };
enum { kPeDll = 0x2000 };

// Checks that |file| is a DLL for this CPU. Messages have no subject: the caller puts the file's name before them.
pyd_status_t pyd_dl_check(pyd_span_t file) {
  const uint8_t* stub = pyd_span_get(file, 0, kDosHeaderBytes);
  bool is_dos = stub && memcmp(stub, "MZ", 2) == 0;
  const uint8_t* header = is_dos ? pyd_span_get(file, pyd_load_u32(stub + kPeHeaderOffset), kPeHeaderBytes) : NULL;
  if (!header || memcmp(header, "PE\0\0", 4) != 0) return pyd_status_make(PYD_CODE_CORRUPT, "is not a PE file (a DLL)");
  if (pyd_load_u16(header + kPeMachine) != PE_HOST) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "is for PE machine 0x%04x, this process is " PE_HOST_NAME " (0x%04x)",
                           pyd_load_u16(header + kPeMachine), PE_HOST);
  }
  if (pyd_load_u16(header + kPeCharacteristics) & kPeDll) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_UNSUPPORTED, "is a PE file but no DLL: link it with -shared or /DLL");
}

// Returns true, the library may write through C stdio: the imports of PE files are not read.
bool pyd_dl_may_print(pyd_span_t file) {
  (void)file;
  return true;
}

// Opens a library by its path, in UTF-8, and runs its constructors. SYSTEM if Windows refuses.
pyd_status_t pyd_dl_open(const char* path, void** out_handle) {
  *out_handle = NULL;
  wchar_t* wide;
  pyd_status_t status = pyd_windows_wide(path, &wide);
  if (!pyd_ok(status)) return pyd_status_annotate(status, "cannot be opened: %s", pyd_status_text(status));
  // The libraries that it depends on are searched in its own folder, not in the current one.
  HMODULE module = LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  DWORD reason = GetLastError();
  if (!module && reason == ERROR_INVALID_PARAMETER) {  // the search flags require an absolute path
    module = LoadLibraryExW(wide, NULL, 0);
    reason = GetLastError();
  }
  free(wide);
  if (!module) return pyd_status_make(PYD_CODE_SYSTEM, "cannot be opened: Windows error %lu", (unsigned long)reason);
  *out_handle = (void*)module;
  return PYD_STATUS_OK;
}

// Fails: Windows loads libraries from files only. The caller puts the name of the library before the message.
pyd_status_t pyd_dl_open_bytes(pyd_span_t file, void** out_handle) {
  (void)file;
  *out_handle = NULL;
  return pyd_status_make(PYD_CODE_UNSUPPORTED,
                         "is a DLL given as bytes, and Windows opens libraries by path: write it to a file");
}

// Returns the address of a symbol; NULL when there is none. ISO C has no conversion from function to object pointers,
// so the bytes of the pointer are copied.
void* pyd_dl_symbol(void* handle, const char* name) {
  FARPROC symbol = GetProcAddress((HMODULE)handle, name);
  void* address = NULL;
  memcpy(&address, &symbol, sizeof(address));
  return address;
}

void pyd_dl_close(void* handle) {
  if (handle) FreeLibrary((HMODULE)handle);
}
