// Tensors of procedures: memory with sizes, shared by count, never changed once they are made.
#ifndef PYD_PROGRAM_TENSOR_H_
#define PYD_PROGRAM_TENSOR_H_

#include <stdatomic.h>

#include "program/internal.h"

// Where tensors are made: in the memory of a device, or in a pool of this process.
typedef struct pyd_memory_s {
  pyd_pool_t* pool;
  const pyd_device_memory_t* device;  // NULL: this process
} pyd_memory_t;

pyd_status_t pyd_memory_acquire(pyd_memory_t memory, uint64_t bytes, void** out_block);
void pyd_memory_release(pyd_memory_t memory, void* block);  // |block| may be NULL

typedef struct pyd_tensor_s {
  atomic_uint references;
  struct pyd_tensor_s* base;  // whose memory it uses; NULL: its own, a constant's or the caller's
  pyd_memory_t memory;
  void* block;          // its own; of a device also a constant's or the caller's; or NULL
  uint64_t capacity;    // of the block
  bool is_fixed;        // a constant's memory, or the caller's
  bool is_lent;         // the caller's memory, for the time of the call
  uint64_t offset;      // into the block
  const uint8_t* data;  // its bytes in this process; may be NULL on a device
  uint64_t bytes;
  uint32_t dtype;
  uint32_t rank;
  int64_t dims[];
} pyd_tensor_t;

// What a slot, a global or an observation holds.
typedef struct pyd_cell_s {
  pyd_tensor_t* tensor;  // held; NULL for a scalar
  uint64_t word;
  bool is_set;
} pyd_cell_t;

// What a tensor is.
typedef struct pyd_shape_s {
  uint32_t dtype, rank;
  const int64_t* dims;
} pyd_shape_t;

static inline pyd_shape_t pyd_tensor_shape(const pyd_tensor_t* tensor) {
  return (pyd_shape_t){tensor->dtype, tensor->rank, tensor->dims};
}

// Over memory of this process that is somebody else's: a constant's, or the caller's when it |is_lent|.
pyd_status_t pyd_tensor_wrap(pyd_shape_t shape, const void* data, bool is_lent, pyd_tensor_t** out_tensor);
// Over a block of a device, a constant's or the caller's, which has the bytes |data| in this process (or NULL). It
// takes the block over, on failure too, unless it |is_lent|.
pyd_status_t pyd_tensor_wrap_block(pyd_memory_t memory, pyd_shape_t shape, void* block, const void* data, bool is_lent,
                                   pyd_tensor_t** out_tensor);
// With |capacity| bytes, at least as many as its elements take.
pyd_status_t pyd_tensor_make(pyd_memory_t memory, pyd_shape_t shape, uint64_t capacity, pyd_tensor_t** out_tensor);
// Takes over the block of |source|, which pyd_tensor_is_alone and is released.
pyd_status_t pyd_tensor_remake(pyd_tensor_t* source, pyd_shape_t shape, pyd_tensor_t** out_tensor);
// Other sizes over the bytes of |source| from |offset| on. INVALID_ARGUMENT when they end past it, or, with
// |is_whole|, before its end.
pyd_status_t pyd_tensor_view(pyd_tensor_t* source, uint64_t offset, bool is_whole, pyd_shape_t shape,
                             pyd_tensor_t** out_tensor);
// The same bytes in |memory|.
pyd_status_t pyd_tensor_copy(pyd_memory_t memory, const pyd_tensor_t* source, pyd_tensor_t** out_tensor);
// |bytes| bytes from |at| on of |source| to |to| in |target|, which are in the same memory.
pyd_status_t pyd_tensor_move(const pyd_tensor_t* source, uint64_t at, const pyd_tensor_t* target, uint64_t to,
                             uint64_t bytes);
// One element as a register value; |index| is inside.
pyd_status_t pyd_tensor_element(const pyd_tensor_t* tensor, uint64_t index, uint64_t* out_word);

// The tensor whose block |tensor| uses.
static inline const pyd_tensor_t* pyd_tensor_owner(const pyd_tensor_t* tensor) {
  return tensor->base ? tensor->base : tensor;
}

static inline pyd_tensor_t* pyd_tensor_retain(pyd_tensor_t* tensor) {
  atomic_fetch_add_explicit(&tensor->references, 1, memory_order_relaxed);
  return tensor;
}
// |tensor| may be NULL.
void pyd_tensor_release(pyd_tensor_t* tensor);

static inline bool pyd_tensor_is_single(const pyd_tensor_t* tensor) {
  return atomic_load_explicit(&tensor->references, memory_order_acquire) == 1;
}
// Whether its memory is a block of its own that no other reference shares.
static inline bool pyd_tensor_is_alone(const pyd_tensor_t* tensor) {
  return tensor->block && !tensor->is_fixed && pyd_tensor_is_single(tensor);
}

static inline void pyd_cell_clear(pyd_cell_t* cell) {
  if (cell->tensor) pyd_tensor_release(cell->tensor);
  *cell = (pyd_cell_t){NULL, 0, false};
}
// Takes |tensor| over.
static inline void pyd_cell_set_tensor(pyd_cell_t* cell, pyd_tensor_t* tensor) {
  pyd_tensor_t* old = cell->tensor;
  *cell = (pyd_cell_t){tensor, 0, true};
  if (old) pyd_tensor_release(old);
}
static inline void pyd_cell_set_word(pyd_cell_t* cell, uint64_t word) { *cell = (pyd_cell_t){NULL, word, true}; }
// |out| holds nothing.
static inline void pyd_cell_share(const pyd_cell_t* cell, pyd_cell_t* out) {
  *out = *cell;
  if (out->tensor) pyd_tensor_retain(out->tensor);
}

#endif  // PYD_PROGRAM_TENSOR_H_
