// Memory for code on Windows: reserved, written, then protected.
#define WIN32_LEAN_AND_MEAN 1
#include <windows.h>

#include "platform/mem.h"

size_t pyd_mem_page_size(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

// Reserves |size| bytes of zeroed, writable memory for code. |populate| has no effect on Windows.
pyd_status_t pyd_mem_reserve(size_t size, bool populate, uint8_t** out_memory) {
  (void)populate;
  *out_memory = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (*out_memory) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "cannot map %llu bytes for code: Windows error %lu",
                         (unsigned long long)size, (unsigned long)GetLastError());
}

// Changes the protection of memory of pyd_mem_reserve().
pyd_status_t pyd_mem_protect(uint8_t* memory, size_t size, pyd_mem_access_t access) {
  // Indexed by pyd_mem_access_t.
  static const DWORD kAccess[] = {PAGE_READONLY, PAGE_READWRITE, PAGE_EXECUTE_READ};
  DWORD before;  // the protection before, which Windows insists on returning
  if (VirtualProtect(memory, size, kAccess[access], &before)) return PYD_STATUS_OK;
  return pyd_status_make(
      PYD_CODE_SYSTEM, "cannot make %llu bytes of code %s: Windows error %lu%s", (unsigned long long)size,
      access == PYD_MEM_READ_EXECUTE ? "executable" : "read-only", (unsigned long)GetLastError(),
      access == PYD_MEM_READ_EXECUTE ? " (does a security policy forbid code made at run time?)" : "");
}

void pyd_mem_release(uint8_t* memory, size_t size) {
  (void)size;
  if (memory) VirtualFree(memory, 0, MEM_RELEASE);
}

void pyd_mem_flush_code(uint8_t* memory, size_t size) { FlushInstructionCache(GetCurrentProcess(), memory, size); }
