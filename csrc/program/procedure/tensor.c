#include "program/procedure/tensor.h"

#include <stdlib.h>
#include <string.h>

// A tensor without memory.
static pyd_status_t make(uint32_t dtype, uint32_t rank, const int64_t* dims, pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  uint64_t bytes;
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] >= 0) continue;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "axis %u of a tensor has the negative size %lld", i, (long long)dims[i]);
  }
  if (!pyd_tensor_bytes(dtype, rank, dims, &bytes)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "the sizes of a tensor multiply to more than 2^63 bytes");
  }
  pyd_tensor_t* tensor = malloc(sizeof(*tensor) + rank * sizeof(*dims));
  if (!tensor) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the sizes of a tensor");
  *tensor = (pyd_tensor_t){.bytes = bytes, .dtype = dtype, .rank = rank};
  atomic_init(&tensor->references, 1);
  if (rank) memcpy(tensor->dims, dims, rank * sizeof(*dims));
  *out_tensor = tensor;
  return PYD_STATUS_OK;
}

pyd_status_t pyd_tensor_wrap(uint32_t dtype, uint32_t rank, const int64_t* dims, const void* data, bool is_lent,
                             pyd_tensor_t** out_tensor) {
  pyd_status_t status = make(dtype, rank, dims, out_tensor);
  if (!pyd_ok(status)) return status;
  (*out_tensor)->data = data;
  (*out_tensor)->is_lent = is_lent;
  return status;
}

pyd_status_t pyd_tensor_make(pyd_pool_t* pool, uint32_t dtype, uint32_t rank, const int64_t* dims, uint64_t capacity,
                             pyd_tensor_t** out_tensor) {
  pyd_tensor_t* tensor;
  pyd_status_t status = make(dtype, rank, dims, &tensor);
  *out_tensor = NULL;
  if (!pyd_ok(status)) return status;
  if (capacity < tensor->bytes) capacity = tensor->bytes;
  status = pyd_pool_acquire(pool, capacity, &tensor->block);
  if (!pyd_ok(status)) {
    free(tensor);
    return status;
  }
  tensor->pool = pool;
  tensor->capacity = capacity;
  tensor->data = tensor->block;
  *out_tensor = tensor;
  return status;
}

pyd_status_t pyd_tensor_remake(pyd_tensor_t* source, uint32_t dtype, uint32_t rank, const int64_t* dims,
                               pyd_tensor_t** out_tensor) {
  pyd_status_t status = make(dtype, rank, dims, out_tensor);
  if (!pyd_ok(status)) return status;
  (*out_tensor)->pool = source->pool;
  (*out_tensor)->block = source->block;
  (*out_tensor)->capacity = source->capacity;
  (*out_tensor)->data = source->block;
  free(source);
  return status;
}

pyd_status_t pyd_tensor_view(pyd_tensor_t* source, uint64_t offset, bool is_whole, uint32_t dtype, uint32_t rank,
                             const int64_t* dims, pyd_tensor_t** out_tensor) {
  pyd_status_t status = make(dtype, rank, dims, out_tensor);
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
  tensor->base = pyd_tensor_retain(source->base ? source->base : source);
  tensor->data = source->data ? source->data + offset : NULL;
  tensor->is_lent = source->is_lent;
  return status;
}

pyd_status_t pyd_tensor_copy(pyd_pool_t* pool, const pyd_tensor_t* source, pyd_tensor_t** out_tensor) {
  pyd_status_t status = pyd_tensor_make(pool, source->dtype, source->rank, source->dims, source->bytes, out_tensor);
  if (pyd_ok(status) && source->bytes) memcpy((*out_tensor)->block, source->data, source->bytes);
  return status;
}

void pyd_tensor_release(pyd_tensor_t* tensor) {
  while (tensor && atomic_fetch_sub_explicit(&tensor->references, 1, memory_order_acq_rel) == 1) {
    pyd_tensor_t* base = tensor->base;
    if (tensor->block) pyd_pool_release(tensor->pool, tensor->block);
    free(tensor);
    tensor = base;
  }
}

static bool is_float(uint32_t dtype) { return dtype >> 24 >= 0x21; }

uint64_t pyd_tensor_element(const pyd_tensor_t* tensor, uint64_t index) {
  uint32_t bits = tensor->dtype & 0xFFFFFF;
  uint64_t word = 0;
  if (bits == 1 || tensor->dtype >> 24 == 0x13) {
    memcpy(&word, tensor->data + index, 1);
    return word & 1 ? UINT64_MAX : 0;
  }
  if (bits < 8) {  // packed, the first one lowest
    word = tensor->data[index * bits / 8] >> (index * bits % 8);
  } else {
    switch (bits / 8) {
      case 1: memcpy(&word, tensor->data + index, 1); break;
      case 2: memcpy(&word, tensor->data + 2 * index, 2); break;
      case 4: memcpy(&word, tensor->data + 4 * index, 4); break;
      default: memcpy(&word, tensor->data + 8 * index, 8); break;
    }
    // Every word above has its value in the low bytes only on a little-endian machine, the one kind this runs on.
  }
  if (bits == 64) return word;
  word &= (UINT64_C(1) << bits) - 1;
  return is_float(tensor->dtype) ? word : (uint64_t)((int64_t)(word << (64 - bits)) >> (64 - bits));
}
