// Tensors of procedures: memory with sizes, reference-counted and immutable.
#ifndef PYD_PROGRAM_TENSOR_H_
#define PYD_PROGRAM_TENSOR_H_

#include <stdatomic.h>

#include "program/internal.h"

// Memory in which tensors are allocated: of a device, or a pool of this process.
typedef struct pyd_memory_s {
  pyd_pool_t* pool;                   // used without |device|
  const pyd_device_memory_t* device;  // NULL: this process
} pyd_memory_t;

// Acquires a block of at least |bytes| bytes, and releases one. |*out_block| is NULL after a failure.
pyd_status_t pyd_memory_acquire(pyd_memory_t memory, uint64_t bytes, void** out_block);
void pyd_memory_release(pyd_memory_t memory, void* block);  // |block| may be NULL

// A tensor over a block of its own, over memory that it does not own, or over a part of another tensor (a view). Its
// elements are dense and in row-major order.
typedef struct pyd_tensor_s {
  atomic_uint references;
  struct pyd_tensor_s* base;  // of a view: the tensor whose memory it shares; else NULL
  pyd_memory_t memory;
  void* block;          // its block; NULL for a view, and for memory of this process that it does not own
  uint64_t capacity;    // of the block, in bytes
  bool is_fixed;        // memory of a constant or of the caller: no result may be computed in it
  bool is_lent;         // memory of the caller, valid during the call only
  uint64_t offset;      // of its first byte in the block of its owner (pyd_tensor_owner), in bytes
  const uint8_t* data;  // its first byte in this process; may be NULL on a device
  uint64_t bytes;       // of its elements
  uint32_t dtype;
  uint32_t rank;
  int64_t dims[];
} pyd_tensor_t;

// The value of a slot or a global of a procedure, or a value that an OBSERVE step has recorded for a check.
typedef struct pyd_cell_s {
  pyd_tensor_t* tensor;  // a reference that the cell owns; NULL for a scalar and in an empty cell
  uint64_t word;         // of a scalar: integers sign-extended, floats as their bits
  bool is_set;           // false: the cell is empty
} pyd_cell_t;

// Element type and sizes of a tensor.
typedef struct pyd_shape_s {
  uint32_t dtype, rank;
  const int64_t* dims;
} pyd_shape_t;

static inline pyd_shape_t pyd_tensor_shape(const pyd_tensor_t* tensor) {
  return (pyd_shape_t){tensor->dtype, tensor->rank, tensor->dims};
}

// Creates a tensor over memory of this process that it does not own: of a constant or, with |is_lent|, of the caller,
// valid during the call only.
pyd_status_t pyd_tensor_wrap(pyd_shape_t shape, const void* data, bool is_lent, pyd_tensor_t** out_tensor);
// Creates a tensor over a device block of a constant or, when |is_lent|, of the caller. |data|: the same bytes in this
// process, or NULL. Takes ownership of the block, also on failure, unless |is_lent|.
pyd_status_t pyd_tensor_wrap_block(pyd_memory_t memory, pyd_shape_t shape, void* block, const void* data, bool is_lent,
                                   pyd_tensor_t** out_tensor);
// Creates a tensor with a block of its own of |capacity| bytes, or of the size of its elements if that is more.
pyd_status_t pyd_tensor_make(pyd_memory_t memory, pyd_shape_t shape, uint64_t capacity, pyd_tensor_t** out_tensor);
// Creates a tensor of |shape| with the block of |source|, which must be pyd_tensor_is_alone() and is freed.
pyd_status_t pyd_tensor_remake(pyd_tensor_t* source, pyd_shape_t shape, pyd_tensor_t** out_tensor);
// Creates a view of |shape| over the bytes of |source| from |offset| on. INVALID_ARGUMENT when it ends past |source|,
// or, with |is_whole|, before the end of |source|.
pyd_status_t pyd_tensor_view(pyd_tensor_t* source, uint64_t offset, bool is_whole, pyd_shape_t shape,
                             pyd_tensor_t** out_tensor);
// Creates a copy of |source| in |memory|.
pyd_status_t pyd_tensor_copy(pyd_memory_t memory, const pyd_tensor_t* source, pyd_tensor_t** out_tensor);
// Copies |bytes| bytes from offset |source_offset| of |source| to offset |target_offset| of |target|; both tensors are
// in the same memory.
pyd_status_t pyd_tensor_move(const pyd_tensor_t* source, uint64_t source_offset, const pyd_tensor_t* target,
                             uint64_t target_offset, uint64_t bytes);
// Reads element |index|, in row-major order, as a register value. |index| is in range.
pyd_status_t pyd_tensor_element(const pyd_tensor_t* tensor, uint64_t index, uint64_t* out_word);

// Returns the tensor whose block |tensor| uses: of a view its base, else |tensor| itself.
static inline const pyd_tensor_t* pyd_tensor_owner(const pyd_tensor_t* tensor) {
  return tensor->base ? tensor->base : tensor;
}

static inline pyd_tensor_t* pyd_tensor_retain(pyd_tensor_t* tensor) {
  atomic_fetch_add_explicit(&tensor->references, 1, memory_order_relaxed);
  return tensor;
}
// Drops a reference to |tensor|, which may be NULL; the last one frees it.
void pyd_tensor_release(pyd_tensor_t* tensor);

// Returns whether the caller has the only reference to |tensor|. Acquires what other threads did before they dropped
// theirs, so that the caller may change the tensor.
static inline bool pyd_tensor_is_single(const pyd_tensor_t* tensor) {
  return atomic_load_explicit(&tensor->references, memory_order_acquire) == 1;
}
// Returns whether |tensor| has a block that the caller may reuse: the block is not of a constant or of another owner,
// and the caller has the only reference to |tensor|.
static inline bool pyd_tensor_is_alone(const pyd_tensor_t* tensor) {
  return tensor->block && !tensor->is_fixed && pyd_tensor_is_single(tensor);
}

// Empties a cell, and drops its reference to a tensor.
static inline void pyd_cell_clear(pyd_cell_t* cell) {
  if (cell->tensor) pyd_tensor_release(cell->tensor);
  *cell = (pyd_cell_t){NULL, 0, false};
}
// Replaces the value of |cell| by |tensor|, whose reference it takes over.
static inline void pyd_cell_set_tensor(pyd_cell_t* cell, pyd_tensor_t* tensor) {
  pyd_tensor_t* old = cell->tensor;
  *cell = (pyd_cell_t){tensor, 0, true};
  if (old) pyd_tensor_release(old);
}
// Stores the scalar |word| in the cell of a scalar, which never holds a tensor: no reference is released.
static inline void pyd_cell_set_word(pyd_cell_t* cell, uint64_t word) { *cell = (pyd_cell_t){NULL, word, true}; }
// Stores the value of |cell| in the empty cell |out|, with a reference of its own.
static inline void pyd_cell_share(const pyd_cell_t* cell, pyd_cell_t* out) {
  *out = *cell;
  if (out->tensor) pyd_tensor_retain(out->tensor);
}

#endif  // PYD_PROGRAM_TENSOR_H_
