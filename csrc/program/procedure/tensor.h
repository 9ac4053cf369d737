// Tensors of procedures: memory with sizes, shared by count, never changed once they are made.
#ifndef PYD_PROGRAM_TENSOR_H_
#define PYD_PROGRAM_TENSOR_H_

#include <stdatomic.h>

#include "program/internal.h"

typedef struct pyd_tensor_s {
  atomic_uint references;
  struct pyd_tensor_s* base;  // whose memory it uses; NULL: its own, a constant's or the caller's
  pyd_pool_t* pool;
  void* block;        // of the pool, or NULL
  uint64_t capacity;  // of the block
  bool is_lent;       // the caller's memory, for the time of the call
  const uint8_t* data;
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

// With the sizes |dims| and memory that is somebody else's: a constant's, or the caller's when it |is_lent|.
pyd_status_t pyd_tensor_wrap(uint32_t dtype, uint32_t rank, const int64_t* dims, const void* data, bool is_lent,
                             pyd_tensor_t** out_tensor);
// With |capacity| bytes of the pool, at least as many as its elements take.
pyd_status_t pyd_tensor_make(pyd_pool_t* pool, uint32_t dtype, uint32_t rank, const int64_t* dims, uint64_t capacity,
                             pyd_tensor_t** out_tensor);
// Takes over the block of |source|, which pyd_tensor_is_alone and is released.
pyd_status_t pyd_tensor_remake(pyd_tensor_t* source, uint32_t dtype, uint32_t rank, const int64_t* dims,
                               pyd_tensor_t** out_tensor);
// Other sizes over the bytes of |source| from |offset| on. INVALID_ARGUMENT when they end past it, or, with
// |is_whole|, before its end.
pyd_status_t pyd_tensor_view(pyd_tensor_t* source, uint64_t offset, bool is_whole, uint32_t dtype, uint32_t rank,
                             const int64_t* dims, pyd_tensor_t** out_tensor);
pyd_status_t pyd_tensor_copy(pyd_pool_t* pool, const pyd_tensor_t* source, pyd_tensor_t** out_tensor);
// One element as a register value; |index| is inside.
uint64_t pyd_tensor_element(const pyd_tensor_t* tensor, uint64_t index);

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
  return tensor->block && pyd_tensor_is_single(tensor);
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
