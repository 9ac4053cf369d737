// Several arrays in one block of memory. One function carves all of them, and is called twice: without memory, to
// compute the size of the block, then with it, to obtain the addresses.
#ifndef PYD_BASE_CARVE_H_
#define PYD_BASE_CARVE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A block of memory from which arrays are carved one after another, and how much of it is used.
typedef struct pyd_carve_s {
  uint8_t* base;     // address of the block; NULL: only sizes are computed
  size_t size;       // bytes used so far; PTRDIFF_MAX if they would be more: then the allocation of the block fails
  size_t alignment;  // bytes, a power of two: of each array, relative to |base|
} pyd_carve_t;

// Appends an array of |count| elements of |size| bytes to |block|, and returns its address; NULL if only sizes are
// computed. If the size of the block overflows, sets the size to PTRDIFF_MAX bytes, which no allocator supplies.
static inline void* pyd_carve(pyd_carve_t* block, size_t count, size_t size) {
  size_t start = (block->size + block->alignment - 1) & ~(block->alignment - 1);  // rounded up to the alignment
  size_t bytes;
  bool fits = !__builtin_mul_overflow(count, size, &bytes) && !__builtin_add_overflow(start, bytes, &block->size);
  if (!fits || block->size > PTRDIFF_MAX) block->size = PTRDIFF_MAX;
  return block->base ? block->base + start : NULL;
}

// Appends an array of |count| elements of the type of |*pointer|, and sets |pointer| to its address.
#define PYD_CARVE(block, pointer, count) ((pointer) = pyd_carve(block, count, sizeof(*(pointer))))

#endif  // PYD_BASE_CARVE_H_
