// Memory for code on macOS. Pages are filled while writable and turned executable once, so no page needs MAP_JIT. A
// process with the hardened runtime needs the entitlement com.apple.security.cs.allow-unsigned-executable-memory.
#include "platform/mem.h"

#include <errno.h>
#include <libkern/OSCacheControl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t pyd_mem_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

pyd_status_t pyd_mem_reserve(size_t size, bool populate, uint8_t** out_memory) {
  (void)populate;
  *out_memory = NULL;
  void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (memory == MAP_FAILED) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "cannot map %zu bytes for code: %s", size, strerror(errno));
  }
  *out_memory = memory;
  return PYD_STATUS_OK;
}

pyd_status_t pyd_mem_protect(uint8_t* memory, size_t size, pyd_mem_access_t access) {
  // Indexed by pyd_mem_access_t.
  static const int kAccess[] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
  if (mprotect(memory, size, kAccess[access]) == 0) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_SYSTEM, "cannot make %zu bytes of code %s: %s%s", size,
                         access == PYD_MEM_READ_EXECUTE ? "executable" : "read-only", strerror(errno),
                         access == PYD_MEM_READ_EXECUTE
                             ? " (does the process lack the entitlement allow-unsigned-executable-memory?)"
                             : "");
}

void pyd_mem_release(uint8_t* memory, size_t size) {
  if (memory) munmap(memory, size);
}

void pyd_mem_flush_code(uint8_t* memory, size_t size) { sys_icache_invalidate(memory, size); }
