// Stands in for csrc/memory where bytes are hostile: blocks of up to 64 KiB, each of its own, so that a sanitizer sees
// every access that is outside.
#ifndef PYD_TESTS_PROGRAM_SMALL_POOL_H_
#define PYD_TESTS_PROGRAM_SMALL_POOL_H_

#include <stdlib.h>

#include "pydispatch/pool.h"

struct pyd_pool_s {
  uint64_t live;
};

pyd_status_t pyd_pool_create(uint64_t retain_bytes, pyd_pool_t** out_pool) {
  (void)retain_bytes;
  *out_pool = calloc(1, sizeof(**out_pool));
  return *out_pool ? PYD_STATUS_OK : pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a pool");
}
void pyd_pool_destroy(pyd_pool_t* pool) { free(pool); }
const pyd_allocator_t* pyd_pool_allocator(const pyd_pool_t* pool) {
  static const pyd_allocator_t kNone = {0};
  (void)pool;
  return &kNone;
}
bool pyd_pool_is_poisoned(const pyd_pool_t* pool) {
  (void)pool;
  return false;
}
pyd_status_t pyd_pool_acquire(pyd_pool_t* pool, size_t size, void** out_block) {
  size_t rounded = (size + 64) / 64 * 64;
  *out_block = size > 1 << 16 ? NULL : aligned_alloc(64, rounded);
  if (!*out_block) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", size);
  ++pool->live;
  for (size_t i = 0; i < rounded; ++i) ((uint8_t*)*out_block)[i] = 1;
  return PYD_STATUS_OK;
}
void pyd_pool_release(pyd_pool_t* pool, void* block) {
  pool->live -= block != NULL;
  free(block);
}

#endif  // PYD_TESTS_PROGRAM_SMALL_POOL_H_
