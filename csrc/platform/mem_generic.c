// Memory for code on unknown systems: heap memory, no protection. Code runs from it where the heap is executable (bare
// metal); any other system needs its own implementation of mem.h.
#include "platform/mem.h"

#include <stdlib.h>
#include <string.h>

size_t pyd_mem_page_size(void) { return 4096; }  // any power of two: nothing is protected by pages

pyd_status_t pyd_mem_reserve(size_t size, bool populate, uint8_t** out_memory) {
  (void)populate;
  *out_memory = aligned_alloc(pyd_mem_page_size(), size);
  if (!*out_memory) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "cannot allocate %zu bytes for code", size);
  memset(*out_memory, 0, size);
  return PYD_STATUS_OK;
}

// Does nothing: memory of the heap stays writable, and executable where the heap is.
pyd_status_t pyd_mem_protect(uint8_t* memory, size_t size, pyd_mem_access_t access) {
  (void)memory, (void)size, (void)access;
  return PYD_STATUS_OK;
}

void pyd_mem_release(uint8_t* memory, size_t size) {
  (void)size;
  free(memory);
}

void pyd_mem_flush_code(uint8_t* memory, size_t size) {
#if defined(__GNUC__)
  __builtin___clear_cache((char*)memory, (char*)memory + size);
#else
  (void)memory, (void)size;
#endif
}
