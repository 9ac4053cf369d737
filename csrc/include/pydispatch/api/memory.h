// Tensors in memory of the embedder (api.h), described as DLPack does.
#ifndef PYDISPATCH_API_MEMORY_H_
#define PYDISPATCH_API_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "pydispatch/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_api_memory_s pyd_api_memory_t;

// Description of memory of the embedder that is to be used as a tensor. Zero is right for |strides|, |offset|,
// |is_read_only|, |release| and |context|. The arrays are copied.
typedef struct pyd_api_memory_info_s {
  size_t struct_size;      // sizeof(pyd_api_memory_info_t): the structure grows at its end
  void* data;              // may be NULL for a tensor without elements
  uint64_t offset;         // bytes from |data| to the first element
  uint32_t dtype;          // element type, PYD_API_F32 and others
  uint32_t rank;           // up to 32
  const int64_t* dims;     // sizes; may be NULL for rank 0
  const int64_t* strides;  // elements from one index to the next, by axis, perhaps 0 or negative; NULL: row-major order
  uint32_t is_read_only;   // 1: it may be an argument only
  uint32_t reserved;
  void (*release)(void* context);  // called once when nothing uses the memory any more, see memory_import; may be NULL
  void* context;
} pyd_api_memory_info_t;

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_API_MEMORY_H_
