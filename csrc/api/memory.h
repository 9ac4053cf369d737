// Handles of memory that the embedder owns, whose layout has been checked.
#ifndef PYD_API_MEMORY_H_
#define PYD_API_MEMORY_H_

#include "api/internal.h"

// Memory of the embedder with the shape and strides of a tensor, which calls bind.
struct pyd_api_memory_s {
  atomic_uint references;    // the embedder's, one per tensor of a call that it is bound to
  pyd_api_device_t* device;  // a reference
  size_t size;               // of the block that it begins
  uint8_t* first;            // the first element
  uint8_t* lowest;           // the lowest address of an element; NULL without elements
  uint64_t extent;           // bytes from |lowest| to the end of the highest element; 0 without elements
  uint64_t bytes;            // of the elements alone, without gaps between them
  uint32_t dtype, rank;
  bool is_dense;     // in row-major order
  bool is_distinct;  // no two elements have an address in common
  bool is_read_only;
  const int64_t* dims;
  const int64_t* strides;          // bytes
  void (*release)(void* context);  // called once, when the last reference is dropped; may be NULL
  void* context;
};

// Checks that the memory can be bound to a tensor with the type of |value| and the sizes |dims|, which are NULL while
// they are not known.
pyd_status_t pyd_api_memory_check(const pyd_api_memory_t* memory, const char* function, const char* what,
                                  uint32_t index, const pyd_api_value_t* value, const int64_t* dims);

// Copies the elements to, or from, a block in row-major order.
void pyd_api_memory_gather(const pyd_api_memory_t* memory, void* to);
void pyd_api_memory_scatter(const pyd_api_memory_t* memory, const void* from);

#endif  // PYD_API_MEMORY_H_
