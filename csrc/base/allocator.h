// Memory from an allocator, or from the C library where there is none.
#ifndef PYD_BASE_ALLOCATOR_H_
#define PYD_BASE_ALLOCATOR_H_

#include "pydispatch/allocator.h"
#include "pydispatch/status.h"

// Alignment in bytes that memory of embedders' allocators must have, as tensors need it.
enum { PYD_ALLOCATOR_ALIGNMENT = 64 };

// Copies |allocator| to |*out_allocator|, which is all zero for NULL. INVALID_ARGUMENT, which begins with |function|,
// for a structure that is incomplete.
pyd_status_t pyd_allocator_read(const char* function, const pyd_allocator_t* allocator, pyd_allocator_t* out_allocator);

// An |allocator| that is NULL or all zero is the C library's memory. The bytes are at a multiple of
// PYD_ALLOCATOR_ALIGNMENT when they come from an allocator, and of what malloc promises otherwise. NULL when there is
// no memory, or when the allocator gave an address that is not aligned.
void* pyd_allocate(const pyd_allocator_t* allocator, size_t size);
// Does what pyd_allocate() does, and sets all bytes to 0.
void* pyd_allocate_zeroed(const pyd_allocator_t* allocator, size_t size);
// |memory| may be NULL; |size| as it was allocated.
void pyd_deallocate(const pyd_allocator_t* allocator, void* memory, size_t size);

static inline bool pyd_allocator_is_given(const pyd_allocator_t* allocator) { return allocator && allocator->allocate; }

#endif  // PYD_BASE_ALLOCATOR_H_
