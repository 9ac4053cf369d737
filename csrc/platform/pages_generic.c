// Any other system: memory of the C library. The address that it returned is stored before the aligned memory.
#include <stdlib.h>
#include <string.h>

#include "platform/pages.h"

// Bytes before the aligned memory. The address is stored at their beginning: the PYD_PAGES_FRONT bytes directly before
// the memory belong to its manager.
enum { kFront = 2 * PYD_PAGES_FRONT };

// Allocates |size| zeroed bytes at a multiple of PYD_PAGES_UNIT. Stores the address from calloc() kFront bytes before
// them, for pyd_pages_unmap(). The C library has no huge pages to request.
pyd_status_t pyd_pages_map(size_t size, size_t huge_size, void** out_memory) {
  (void)huge_size;
  *out_memory = NULL;
  const size_t slack = PYD_PAGES_UNIT + kFront;
  uint8_t* block = size <= SIZE_MAX - slack ? calloc(1, size + slack) : NULL;
  if (!block) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "the system has no %zu bytes of memory left", size);
  uintptr_t start = ((uintptr_t)block + kFront + PYD_PAGES_UNIT - 1) & ~(uintptr_t)(PYD_PAGES_UNIT - 1);
  memcpy((uint8_t*)start - kFront, &block, sizeof(block));
  *out_memory = (void*)start;
  return PYD_STATUS_OK;
}

// Frees the allocation that |memory| is in, by the address that pyd_pages_map() stored kFront bytes before |memory|.
void pyd_pages_unmap(void* memory, size_t size) {
  (void)size;
  void* block;
  memcpy(&block, (uint8_t*)memory - kFront, sizeof(block));
  free(block);
}
