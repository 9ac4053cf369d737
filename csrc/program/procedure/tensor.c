// Tensors of procedures: memory with sizes, reference-counted and immutable.
#include "program/procedure/tensor.h"

#include <stdlib.h>
#include <string.h>

// Acquires a block of at least |bytes| bytes, on the device if there is one.
pyd_status_t pyd_memory_acquire(pyd_memory_t memory, uint64_t bytes, void** out_block) {
  *out_block = NULL;
  return memory.device ? memory.device->acquire(memory.device->self, bytes, out_block)
                       : pyd_pool_acquire(memory.pool, bytes, out_block);
}

// Releases a block of pyd_memory_acquire().
void pyd_memory_release(pyd_memory_t memory, void* block) {
  if (!memory.device) {
    pyd_pool_release(memory.pool, block);
  } else if (block) {
    memory.device->release(memory.device->self, block);
  }
}

// Allocates a tensor without memory for its elements, with one reference. INVALID_ARGUMENT if a size is negative or the
// sizes overflow. |*out_tensor| is NULL after a failure.
static pyd_status_t allocate_header(pyd_shape_t shape, pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  uint64_t bytes;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    if (shape.dims[i] >= 0) continue;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "axis %u of a tensor has the negative size %lld", i,
                           (long long)shape.dims[i]);
  }
  if (!pyd_tensor_bytes(shape.dtype, shape.rank, shape.dims, &bytes)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "the sizes of a tensor multiply to more than 2^63 bytes");
  }
  pyd_tensor_t* tensor = malloc(sizeof(*tensor) + shape.rank * sizeof(*shape.dims));
  if (!tensor) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the sizes of a tensor");
  *tensor = (pyd_tensor_t){.bytes = bytes, .dtype = shape.dtype, .rank = shape.rank};
  atomic_init(&tensor->references, 1);
  if (shape.rank) memcpy(tensor->dims, shape.dims, shape.rank * sizeof(*shape.dims));
  *out_tensor = tensor;
  return PYD_STATUS_OK;
}

// Creates a tensor over memory of this process that it does not own: of a constant, or with |is_lent| of the caller,
// valid during the call only. |is_fixed| keeps results from being computed in this memory.
pyd_status_t pyd_tensor_wrap(pyd_shape_t shape, const void* data, bool is_lent, pyd_tensor_t** out_tensor) {
  pyd_status_t status = allocate_header(shape, out_tensor);
  if (!pyd_ok(status)) return status;
  (*out_tensor)->data = data;
  (*out_tensor)->is_fixed = true;
  (*out_tensor)->is_lent = is_lent;
  return status;
}

// Creates a tensor over a device block of a constant, or with |is_lent| of the caller. |data|: the same bytes in this
// process, or NULL. Takes ownership of the block, also on failure, unless |is_lent|.
pyd_status_t pyd_tensor_wrap_block(pyd_memory_t memory, pyd_shape_t shape, void* block, const void* data, bool is_lent,
                                   pyd_tensor_t** out_tensor) {
  pyd_status_t status = pyd_tensor_wrap(shape, data, is_lent, out_tensor);
  if (!pyd_ok(status)) {
    if (!is_lent) pyd_memory_release(memory, block);
    return status;
  }
  (*out_tensor)->memory = memory;
  (*out_tensor)->block = block;
  return status;
}

// Gives |tensor|, which has no memory yet, the block |block| of |memory|, which has |capacity| bytes of arbitrary
// content.
static void take_block(pyd_tensor_t* tensor, pyd_memory_t memory, void* block, uint64_t capacity) {
  tensor->memory = memory;
  tensor->block = block;
  tensor->capacity = capacity;
  if (!memory.device) tensor->data = block;
}

// Creates a tensor with a block of its own of |capacity| bytes, or of the size of its elements if that is more.
pyd_status_t pyd_tensor_make(pyd_memory_t memory, pyd_shape_t shape, uint64_t capacity, pyd_tensor_t** out_tensor) {
  pyd_tensor_t* tensor;
  void* block;
  pyd_status_t status = allocate_header(shape, &tensor);
  *out_tensor = NULL;
  if (!pyd_ok(status)) return status;
  if (capacity < tensor->bytes) capacity = tensor->bytes;
  status = pyd_memory_acquire(memory, capacity, &block);
  if (!pyd_ok(status)) {
    free(tensor);
    return status;
  }
  take_block(tensor, memory, block, capacity);
  *out_tensor = tensor;
  return status;
}

// Creates a tensor of |shape| with the memory block of |source|, and frees |source|. Nothing but |source|, which has
// one reference, may refer to the block.
pyd_status_t pyd_tensor_remake(pyd_tensor_t* source, pyd_shape_t shape, pyd_tensor_t** out_tensor) {
  pyd_status_t status = allocate_header(shape, out_tensor);
  if (!pyd_ok(status)) return status;
  take_block(*out_tensor, source->memory, source->block, source->capacity);
  free(source);  // without its block
  return status;
}

// Creates a view of |shape| over the bytes of |source| from |offset| on, in its memory. INVALID_ARGUMENT when the view
// ends past |source| or, with |is_whole|, before the end of |source|.
pyd_status_t pyd_tensor_view(pyd_tensor_t* source, uint64_t offset, bool is_whole, pyd_shape_t shape,
                             pyd_tensor_t** out_tensor) {
  pyd_status_t status = allocate_header(shape, out_tensor);
  if (!pyd_ok(status)) return status;
  pyd_tensor_t* tensor = *out_tensor;
  bool fits = offset <= source->bytes && tensor->bytes <= source->bytes - offset;
  if (!fits || (is_whole && tensor->bytes != source->bytes)) {
    *out_tensor = NULL;
    status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "a view of %llu bytes at offset %lld of a tensor that has %llu",
                             (unsigned long long)tensor->bytes, (long long)offset, (unsigned long long)source->bytes);
    free(tensor);
    return status;
  }
  tensor->base = pyd_tensor_retain(source->base ? source->base : source);  // the owner of the block, never a view
  tensor->memory = source->memory;
  tensor->offset = source->offset + offset;
  tensor->data = source->data ? source->data + offset : NULL;
  tensor->is_fixed = source->is_fixed;
  tensor->is_lent = source->is_lent;
  return status;
}

// Copies |bytes| bytes from offset |source_offset| of |source| to offset |target_offset| of |target|. Both tensors are
// in the same memory, of a device or of this process.
pyd_status_t pyd_tensor_move(const pyd_tensor_t* source, uint64_t source_offset, const pyd_tensor_t* target,
                             uint64_t target_offset, uint64_t bytes) {
  const pyd_device_memory_t* device = target->memory.device;
  void *from = pyd_tensor_owner(source)->block, *into = pyd_tensor_owner(target)->block;
  if (!bytes) return PYD_STATUS_OK;
  if (device)
    return device->copy(device->self, from, source->offset + source_offset, into, target->offset + target_offset,
                        bytes);
  memcpy((uint8_t*)into + target->offset + target_offset, source->data + source_offset, bytes);
  return PYD_STATUS_OK;
}

// Copies the bytes of |source| to |target|, a tensor of the same size with a block of its own. Each of them is in
// memory of a device or of this process.
static pyd_status_t copy_bytes(const pyd_tensor_t* target, const pyd_tensor_t* source) {
  const pyd_device_memory_t *to = target->memory.device, *from = source->memory.device;
  if (!source->bytes) return PYD_STATUS_OK;
  if (from && !to && !source->data) {  // with |data|, this process has the same bytes
    return from->read(from->self, pyd_tensor_owner(source)->block, source->offset, target->block, source->bytes);
  }
  if (to && !from) return to->write(to->self, target->block, source->data, source->bytes);
  if (to) return pyd_tensor_move(source, /* source_offset */ 0, target, /* target_offset */ 0, source->bytes);
  memcpy(target->block, source->data, source->bytes);
  return PYD_STATUS_OK;
}

// Creates a copy of |source| in |memory|.
pyd_status_t pyd_tensor_copy(pyd_memory_t memory, const pyd_tensor_t* source, pyd_tensor_t** out_tensor) {
  pyd_status_t status = pyd_tensor_make(memory, pyd_tensor_shape(source), source->bytes, out_tensor);
  if (pyd_ok(status)) status = copy_bytes(*out_tensor, source);
  if (pyd_ok(status) || !*out_tensor) return status;
  pyd_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

// Drops a reference to a tensor. The last reference frees it, and with it the reference to the tensor's base, if it is
// a view.
void pyd_tensor_release(pyd_tensor_t* tensor) {
  while (tensor && atomic_fetch_sub_explicit(&tensor->references, 1, memory_order_acq_rel) == 1) {
    pyd_tensor_t* base = tensor->base;
    if (tensor->block && !tensor->is_lent) pyd_memory_release(tensor->memory, tensor->block);
    free(tensor);
    tensor = base;
  }
}

// Returns whether the elements are floats: numerical types from 0x21 on are, those below are integers and booleans.
static bool is_float(uint32_t dtype) { return dtype >> 24 >= 0x21; }

// Reads |size| bytes of a tensor, at most 8, from offset |at| on into the low bytes of |*out_word|. Machines are
// little-endian.
static pyd_status_t read_word(const pyd_tensor_t* tensor, uint64_t at, uint64_t size, uint64_t* out_word) {
  *out_word = 0;
  if (tensor->data) {
    memcpy(out_word, tensor->data + at, size);
    return PYD_STATUS_OK;
  }
  const pyd_device_memory_t* device = tensor->memory.device;
  return device->read(device->self, pyd_tensor_owner(tensor)->block, tensor->offset + at, out_word, size);
}

// Reads element |index|, in row-major order, as a register value of 64 bits: the bits of a float, zero-extended; an
// integer, also an unsigned one, sign-extended. The width of an element is a power of two up to 64 bits, as
// decode/verify_procedure.c ensures.
pyd_status_t pyd_tensor_element(const pyd_tensor_t* tensor, uint64_t index, uint64_t* out_word) {
  uint32_t bits = tensor->dtype & 0xFFFFFF;  // a dtype is numerical type << 24 | bits; type 0x13: booleans
  bool is_boolean = bits == 1 || tensor->dtype >> 24 == 0x13;
  bool is_packed = bits < 8 && !is_boolean;  // the first element in the lowest bits; booleans take a byte each
  uint64_t size = bits < 8 || is_boolean ? 1 : bits / 8;      // bytes to read: an element never crosses a byte
  uint64_t at = is_packed ? index * bits / 8 : index * size;  // the byte in which the element begins
  uint64_t word;
  pyd_status_t status = read_word(tensor, at, size, &word);
  if (!pyd_ok(status)) return status;
  if (is_boolean) {
    *out_word = word & 1 ? UINT64_MAX : 0;  // an integer of 1 bit, sign-extended
    return PYD_STATUS_OK;
  }
  if (is_packed) word >>= index * bits % 8;
  if (bits < 64) {
    word &= (UINT64_C(1) << bits) - 1;
    if (!is_float(tensor->dtype)) word = (uint64_t)((int64_t)(word << (64 - bits)) >> (64 - bits));  // sign-extended
  }
  *out_word = word;
  return PYD_STATUS_OK;
}
