// Several arrays in one block of memory. One function carves them all and runs twice: without memory, to measure, and
// with it.
#ifndef PYD_BASE_CARVE_H_
#define PYD_BASE_CARVE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pyd_carve_s {
  uint8_t* base;  // NULL: measures
  size_t size;    // so far; PTRDIFF_MAX, which no allocation has, when it would be more
  size_t alignment;
} pyd_carve_t;

// |count| elements of |size| bytes, at a multiple of the alignment from the base on.
static inline void* pyd_carve(pyd_carve_t* block, size_t count, size_t size) {
  size_t start = (block->size + block->alignment - 1) & ~(block->alignment - 1), bytes;
  bool fits = !__builtin_mul_overflow(count, size, &bytes) && !__builtin_add_overflow(start, bytes, &block->size);
  if (!fits || block->size > PTRDIFF_MAX) block->size = PTRDIFF_MAX;
  return block->base ? block->base + start : NULL;
}

// Makes |pointer| an array of |count|.
#define PYD_CARVE(block, pointer, count) ((pointer) = pyd_carve(block, count, sizeof(*(pointer))))

#endif  // PYD_BASE_CARVE_H_
