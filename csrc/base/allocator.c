// Memory from an allocator of the caller, or from the C library without one.
#include "base/allocator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"

// Copies |allocator| to |*out_allocator|, which is all zero for NULL. INVALID_ARGUMENT, with a message that begins with
// |function|, for a structure that is incomplete.
pyd_status_t pyd_allocator_read(const char* function, const pyd_allocator_t* allocator,
                                pyd_allocator_t* out_allocator) {
  *out_allocator = (pyd_allocator_t){0};
  if (!allocator) return PYD_STATUS_OK;
  if (allocator->struct_size < PYD_SIZE_UP_TO(pyd_allocator_t, context)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: the allocator has a struct_size of %zu; set it to sizeof(pyd_allocator_t), "
                           "which is %zu",
                           function, allocator->struct_size, sizeof(*allocator));
  }
  if (!allocator->allocate || !allocator->release) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: the allocator has no function to %s", function,
                           allocator->allocate ? "release" : "allocate");
  }
  *out_allocator =
      (pyd_allocator_t){sizeof(*out_allocator), allocator->allocate, allocator->release, allocator->context};
  return PYD_STATUS_OK;
}

// Allocates memory with |allocator|, or with the C library if it is NULL or zero. Returns NULL on failure.
void* pyd_allocate(const pyd_allocator_t* allocator, size_t size) {
  if (!pyd_allocator_is_given(allocator)) return malloc(size);
  if (!size) size = 1;  // for 0 bytes an allocator might return NULL, which means out of memory
  void* memory = allocator->allocate(allocator->context, size, PYD_ALLOCATOR_ALIGNMENT);
  if (!((uintptr_t)memory % PYD_ALLOCATOR_ALIGNMENT)) return memory;  // also NULL
  // An allocator that ignores the alignment counts as out of memory.
  allocator->release(allocator->context, memory, size);
  return NULL;
}

// Allocates memory as pyd_allocate() does, and sets all bytes to 0.
void* pyd_allocate_zeroed(const pyd_allocator_t* allocator, size_t size) {
  if (!pyd_allocator_is_given(allocator)) return calloc(1, size);
  void* memory = pyd_allocate(allocator, size);
  return memory ? memset(memory, 0, size) : NULL;
}

// Frees memory of pyd_allocate(), which had the same |allocator| and |size|.
void pyd_deallocate(const pyd_allocator_t* allocator, void* memory, size_t size) {
  if (!pyd_allocator_is_given(allocator)) {
    free(memory);
  } else if (memory) {
    allocator->release(allocator->context, memory, size ? size : 1);
  }
}
