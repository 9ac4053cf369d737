// Heap memory at a multiple of more than malloc promises, also where the C library lacks C11's function for it.
#ifndef PYD_BASE_ALIGNED_H_
#define PYD_BASE_ALIGNED_H_

#include <stdlib.h>

#if defined(_WIN32)
#include <malloc.h>
#endif

// Returns |size| bytes at a multiple of |alignment|, a power of two; NULL when there is no memory. |size| must be a
// multiple of |alignment|. Release the memory with pyd_aligned_free(), not free().
static inline void* pyd_aligned_alloc(size_t alignment, size_t size) {
#if defined(_WIN32)
  return _aligned_malloc(size, alignment);
#else
  return aligned_alloc(alignment, size);
#endif
}

// Frees memory of pyd_aligned_alloc(). NULL is allowed.
static inline void pyd_aligned_free(void* memory) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  free(memory);
#endif
}

#endif  // PYD_BASE_ALIGNED_H_
