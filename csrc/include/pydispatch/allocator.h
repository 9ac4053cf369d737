// Memory that somebody else supplies.
#ifndef PYDISPATCH_ALLOCATOR_H_
#define PYDISPATCH_ALLOCATOR_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// An allocator of the embedder, from which pydispatch takes memory. Both functions are called from any thread, at the
// same time, and must not call back. The structure is copied where it is given. What |context| points to stays until
// everything that was allocated has been released.
typedef struct pyd_allocator_s {
  size_t struct_size;  // sizeof(pyd_allocator_t): the structure grows at its end
  // |size| bytes, at least 1, at a multiple of |alignment|, a power of two; they need not be cleared. NULL: there are
  // none, and what needed them ends with OUT_OF_MEMORY.
  void* (*allocate)(void* context, size_t size, size_t alignment);
  // |memory| and |size| as they were allocated; never NULL.
  void (*release)(void* context, void* memory, size_t size);
  void* context;
} pyd_allocator_t;

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_ALLOCATOR_H_
