// Memory of the system for large buffers: zeroed pages at a multiple of the huge page size, so that the system can back
// them with huge pages. One source file per operating system. Any thread.
#ifndef PYD_PLATFORM_PAGES_H_
#define PYD_PLATFORM_PAGES_H_

#include <stddef.h>

#include "pydispatch/status.h"

#define PYD_PAGES_UNIT ((size_t)2 << 20)  // bytes; sizes and addresses are multiples of it
#define PYD_PAGES_FRONT 64u               // writable bytes before the memory, for its manager

// Reserves |size| bytes, a multiple of PYD_PAGES_UNIT, and requests huge pages for the first |huge_size| bytes only, so
// that untouched bytes after them use no memory. OUT_OF_MEMORY names the size.
pyd_status_t pyd_pages_map(size_t size, size_t huge_size, void** out_memory);
// |memory| and |size| as they were mapped.
void pyd_pages_unmap(void* memory, size_t size);

#endif  // PYD_PLATFORM_PAGES_H_
