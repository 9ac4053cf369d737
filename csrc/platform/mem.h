// Memory for code: reserve it writable, fill it, then make it read-only or executable. One source file per operating
// system. Memory is never writable and executable at once. Every function may be called from any thread.
#ifndef PYD_PLATFORM_MEM_H_
#define PYD_PLATFORM_MEM_H_

#include "pydispatch/status.h"

// Permitted accesses to a page. No page is writable and executable at once.
typedef enum pyd_mem_access_e {
  PYD_MEM_READ = 0,
  PYD_MEM_READ_WRITE = 1,
  PYD_MEM_READ_EXECUTE = 2,
} pyd_mem_access_t;

// Bytes; a power of two. The unit of pyd_mem_protect.
size_t pyd_mem_page_size(void);

// Reserves |size| bytes (a multiple of the page size) of zeroed, readable and writable memory at a page boundary.
// |populate|: all of it is about to be written, so that the system may bring the pages in at once. OUT_OF_MEMORY.
pyd_status_t pyd_mem_reserve(size_t size, bool populate, uint8_t** out_memory);

// |memory| and |size| are multiples of the page size and lie in one reservation. SYSTEM when it is refused.
pyd_status_t pyd_mem_protect(uint8_t* memory, size_t size, pyd_mem_access_t access);

// Releases a whole reservation. NULL is allowed.
void pyd_mem_release(uint8_t* memory, size_t size);

// Makes freshly written instructions visible to instruction fetch on all CPUs. Call it before the first jump there.
void pyd_mem_flush_code(uint8_t* memory, size_t size);

#endif  // PYD_PLATFORM_MEM_H_
