// Memory for code on Linux: reserved, written, then protected.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "platform/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t pyd_mem_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

// Maps |size| zeroed bytes, readable and writable. |populate|: all of them are about to be written, so the kernel maps
// the pages at once instead of one page fault each.
pyd_status_t pyd_mem_reserve(size_t size, bool populate, uint8_t** out_memory) {
  *out_memory = NULL;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : 0);
  void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "cannot map %zu bytes for code: %s", size, strerror(errno));
  }
  *out_memory = memory;
  return PYD_STATUS_OK;
}

// Sets the access of whole pages of one reservation.
pyd_status_t pyd_mem_protect(uint8_t* memory, size_t size, pyd_mem_access_t access) {
  // Indexed by pyd_mem_access_t.
  static const int kAccess[] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
  if (mprotect(memory, size, kAccess[access]) == 0) return PYD_STATUS_OK;
  return pyd_status_make(
      PYD_CODE_SYSTEM, "cannot make %zu bytes of code %s: %s%s", size,
      access == PYD_MEM_READ_EXECUTE ? "executable" : "read-only", strerror(errno),
      access == PYD_MEM_READ_EXECUTE ? " (does a security policy forbid code made at run time?)" : "");
}

void pyd_mem_release(uint8_t* memory, size_t size) {
  if (memory) munmap(memory, size);
}

void pyd_mem_flush_code(uint8_t* memory, size_t size) { __builtin___clear_cache((char*)memory, (char*)memory + size); }
