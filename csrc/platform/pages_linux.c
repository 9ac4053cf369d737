// Linux: an anonymous mapping, trimmed to the alignment. The front, PYD_PAGES_FRONT bytes before the memory for its
// manager, is in a separate small page, so that the memory itself starts with a huge page. It costs one page fault.
#include <sys/mman.h>
#include <unistd.h>

#include "platform/pages.h"

// Returns the bytes that are mapped before the memory of pyd_pages_map(): one small page. Its last PYD_PAGES_FRONT
// bytes are for the manager of the memory.
static size_t front_size(void) {
  long page = sysconf(_SC_PAGESIZE);
  return page > 0 ? (size_t)page : 65536;  // unknown: the largest page size of Linux
}

// Maps |size| zeroed bytes at a multiple of PYD_PAGES_UNIT, and a small page before them, which ends with the
// PYD_PAGES_FRONT bytes for their manager. Requests huge pages for the first |huge_size| bytes.
pyd_status_t pyd_pages_map(size_t size, size_t huge_size, void** out_memory) {
  *out_memory = NULL;
  const size_t front = front_size(), slack = PYD_PAGES_UNIT + front;
  uint8_t* mapping = MAP_FAILED;
  if (size <= SIZE_MAX - slack) {
    // Not MAP_NORESERVE: with it the system grants more than it has, and kills the process when the memory is used.
    mapping = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (mapping == MAP_FAILED) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "the system has no %zu bytes of memory left", size);
  }
  // The first multiple of PYD_PAGES_UNIT with room for the front before it.
  uintptr_t start = ((uintptr_t)mapping + front + PYD_PAGES_UNIT - 1) & ~(uintptr_t)(PYD_PAGES_UNIT - 1);
  uint8_t* memory = (uint8_t*)start;
  uint8_t* end = mapping + size + slack;
  // Return what is before the front and after the memory to the system.
  if (memory - front > mapping) munmap(mapping, (size_t)(memory - front - mapping));
  if (end > memory + size) munmap(memory + size, (size_t)(end - memory - size));
#ifdef MADV_HUGEPAGE
  // First use of 64 MiB takes 5 to 7 ms with huge pages and 22 to 26 ms with small ones (bench/core/program.c). A
  // failure is ignored: small pages do as well.
  huge_size &= ~(PYD_PAGES_UNIT - 1);
  if (huge_size) madvise(memory, huge_size, MADV_HUGEPAGE);
#else
  (void)huge_size;
#endif
  *out_memory = memory;
  return PYD_STATUS_OK;
}

// Unmaps |memory|, which pyd_pages_map() has mapped with the same |size|, and the small page before it.
void pyd_pages_unmap(void* memory, size_t size) {
  size_t front = front_size();
  munmap((uint8_t*)memory - front, size + front);
}
