// Small blocks come from the C library and are kept in one stack per size class; large ones are mapped, kept in the
// order of their release, and found by best fit. With an allocator all memory is its memory. Before each block is a
// header of one cache line, so that the block itself keeps its alignment and finds its way home.
//
// Each lock is held for a few instructions (a scan of the free large blocks at most) and never across a system call, so
// the locks spin. A mutex would cost the same uncontended; the spin saves its second atomic operation on release.
#include "pydispatch/pool.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "platform/back_off.h"
#include "platform/pages.h"

enum {
  kHeader = 64,
  kClassCount = 52,  // 64, 128, 192, 256, then four per power of two up to 1 MiB
  kLarge = kClassCount,
  kSpins = 64,
  kAround = kHeader + PYD_POOL_ALIGNMENT,  // bytes that an allocated block takes beside its own
};
#define LARGEST_SMALL ((size_t)1 << 20)

typedef struct header_s {
  struct header_s* next;  // while free
  struct header_s* prev;  // large and free
  void* memory;           // what was allocated; NULL: it was mapped
  size_t size;            // usable bytes
  uint32_t class;
} header_t;
_Static_assert(sizeof(header_t) <= kHeader && kHeader <= PYD_PAGES_FRONT, "the header lies in front of the block");

// Written under the lock; |kept| is read without it.
typedef struct class_stack_s {
  _Alignas(64) atomic_bool lock;
  header_t* top;
  uint64_t live;          // blocks
  _Atomic uint64_t kept;  // bytes of the free blocks
} class_stack_t;

struct pyd_pool_s {
  class_stack_t classes[kClassCount];
  // Large blocks; newest first.
  _Alignas(64) atomic_bool large_lock;
  header_t *newest, *oldest;
  uint64_t large_live;
  _Atomic uint64_t large_kept;                // as in a class
  _Alignas(64) _Atomic uint64_t total_bytes;  // live and free; changes only with system calls
  _Atomic uint64_t peak_bytes;
  uint64_t retain_bytes, limit_bytes;
  bool is_poisoned;
  pyd_allocator_t allocator;
  void* memory;
};

static void lock(atomic_bool* flag) {
  for (uint32_t attempt = 0; atomic_exchange_explicit(flag, true, memory_order_acquire);) {
    while (atomic_load_explicit(flag, memory_order_relaxed)) pyd_back_off(++attempt, kSpins);
  }
}
static void unlock(atomic_bool* flag) { atomic_store_explicit(flag, false, memory_order_release); }

static uint32_t class_of(size_t size) {
  if (size <= 256) return size ? (uint32_t)((size - 1) / 64) : 0;
  uint32_t power = 63u - (uint32_t)__builtin_clzll(size - 1);
  return (power - 7) * 4 + (uint32_t)((size - 1) >> (power - 2) & 3);
}
static size_t class_size(uint32_t class) {
  return class < 4 ? 64 * ((size_t) class + 1) : (size_t)(5 + class % 4) << (5 + class / 4);
}

static header_t* header_of(void* block) { return (header_t*)((uint8_t*)block - kHeader); }
static void* block_of(header_t* header) { return (uint8_t*)header + kHeader; }

static uint64_t free_bytes(pyd_pool_t* pool) {
  uint64_t sum = atomic_load_explicit(&pool->large_kept, memory_order_relaxed);
  for (uint32_t i = 0; i < kClassCount; ++i) sum += atomic_load_explicit(&pool->classes[i].kept, memory_order_relaxed);
  return sum;
}

// Counts memory before it is taken from the system; discount() releases the count where the system has none. What does
// not fit is never counted, so that attempts of other threads are not in the way of this one.
static pyd_status_t count(pyd_pool_t* pool, size_t size) {
  const uint64_t limit = pool->limit_bytes;
  uint64_t total = atomic_load_explicit(&pool->total_bytes, memory_order_relaxed);
  do {
    if (total <= limit && size <= limit - total) continue;
    const uint64_t kept = free_bytes(pool);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY,
                           "no memory for a buffer of %zu bytes: %" PRIu64 " of the device's limit of %" PRIu64
                           " are in use",
                           size, total > kept ? total - kept : 0, limit);
  } while (!atomic_compare_exchange_weak_explicit(&pool->total_bytes, &total, total + size, memory_order_relaxed,
                                                  memory_order_relaxed));
  total += size;
  uint64_t peak = atomic_load_explicit(&pool->peak_bytes, memory_order_relaxed);
  while (peak < total && !atomic_compare_exchange_weak_explicit(&pool->peak_bytes, &peak, total, memory_order_relaxed,
                                                                memory_order_relaxed)) {
  }
  return PYD_STATUS_OK;
}
static void discount(pyd_pool_t* pool, size_t size) {
  atomic_fetch_sub_explicit(&pool->total_bytes, size, memory_order_relaxed);
}

// Under the lock that guards it: no other thread writes, so this needs no locked instruction.
static void adjust(_Atomic uint64_t* kept, uint64_t change) {
  atomic_store_explicit(kept, atomic_load_explicit(kept, memory_order_relaxed) + change, memory_order_relaxed);
}

// Returns an unreachable block to the system. It is not counted any more: who took it out of its list has done that
// under the lock, so that no block is neither free nor released for another thread that finds too little memory.
static void discard(pyd_pool_t* pool, header_t* header) {
  if (header->memory) {
    pyd_deallocate(&pool->allocator, header->memory, header->size + kAround);
  } else {
    pyd_pages_unmap(block_of(header), header->size);
  }
}

static void unlink_large(pyd_pool_t* pool, header_t* header) {
  *(header->prev ? &header->prev->next : &pool->newest) = header->next;
  *(header->next ? &header->next->prev : &pool->oldest) = header->prev;
  adjust(&pool->large_kept, 0 - (uint64_t)header->size);
}

// Under the lock.
static header_t* unlink_small(class_stack_t* stack, size_t size) {
  header_t* header = stack->top;
  if (!header) return NULL;
  stack->top = header->next;
  adjust(&stack->kept, 0 - (uint64_t)size);
  return header;
}

// Discards the large block that has been free for the longest time. False when there is none.
static bool evict_oldest(pyd_pool_t* pool) {
  lock(&pool->large_lock);
  header_t* header = pool->oldest;
  if (header) {
    unlink_large(pool, header);
    discount(pool, header->size);
  }
  unlock(&pool->large_lock);
  if (header) discard(pool, header);
  return header != NULL;
}

// Discards a free block of a class. False when there is none.
static bool evict_small(pyd_pool_t* pool, uint32_t class) {
  class_stack_t* stack = &pool->classes[class];
  lock(&stack->lock);
  header_t* header = unlink_small(stack, class_size(class));
  if (header) discount(pool, header->size);
  unlock(&stack->lock);
  if (header) discard(pool, header);
  return header != NULL;
}

// Discards all free blocks. False when there was none.
static bool trim(pyd_pool_t* pool) {
  bool has_trimmed = false;
  while (evict_oldest(pool)) has_trimmed = true;
  for (uint32_t i = 0; i < kClassCount; ++i) {
    while (evict_small(pool, i)) has_trimmed = true;
  }
  return has_trimmed;
}

static pyd_status_t allocate(pyd_pool_t* pool, size_t size, uint32_t class, void** out_block) {
  pyd_status_t status = count(pool, size);
  if (!pyd_ok(status)) return status;
  void* memory = pyd_allocate(&pool->allocator, size + kAround);
  if (!memory) {
    discount(pool, size);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", size);
  }
  uintptr_t start = ((uintptr_t)memory + kAround - 1) & ~(uintptr_t)(PYD_POOL_ALIGNMENT - 1);
  *header_of((void*)start) = (header_t){.memory = memory, .size = size, .class = class};
  *out_block = (void*)start;
  return PYD_STATUS_OK;
}

static pyd_status_t acquire_small(pyd_pool_t* pool, uint32_t class, void** out_block) {
  class_stack_t* stack = &pool->classes[class];
  size_t size = class_size(class);
  lock(&stack->lock);
  header_t* header = unlink_small(stack, size);
  ++stack->live;
  unlock(&stack->lock);
  if (header) {
    *out_block = block_of(header);
    return PYD_STATUS_OK;
  }
  pyd_status_t status = allocate(pool, size, class, out_block);
  while (!pyd_ok(status)) {  // the free blocks of other sizes may be what is missing
    const bool has_trimmed = trim(pool);
    pyd_status_free(status);
    status = allocate(pool, size, class, out_block);
    if (!has_trimmed) break;
  }
  if (pyd_ok(status)) return status;
  lock(&stack->lock);
  --stack->live;
  unlock(&stack->lock);
  return status;
}

static pyd_status_t map_large(pyd_pool_t* pool, size_t size, size_t wanted, void** out_block) {
  if (pyd_allocator_is_given(&pool->allocator)) return allocate(pool, size, kLarge, out_block);
  pyd_status_t status = count(pool, size);
  if (!pyd_ok(status)) return status;
  status = pyd_pages_map(size, wanted, out_block);
  if (pyd_ok(status)) {
    *header_of(*out_block) = (header_t){.size = size, .class = kLarge};
  } else {
    discount(pool, size);
  }
  return status;
}

static pyd_status_t acquire_large(pyd_pool_t* pool, size_t size, void** out_block) {
  if (size > SIZE_MAX / 2) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", size);
  const size_t wanted = size;
  const size_t unit = pyd_allocator_is_given(&pool->allocator) ? PYD_POOL_ALIGNMENT : PYD_PAGES_UNIT;
  size = (size + unit - 1) & ~(unit - 1);
  lock(&pool->large_lock);
  header_t* best = NULL;
  for (header_t* header = pool->newest; header; header = header->next) {
    if (header->size < size || header->size - size > size / 4 || (best && best->size <= header->size)) continue;
    best = header;
    if (best->size == size) break;
  }
  if (best) unlink_large(pool, best);
  ++pool->large_live;
  unlock(&pool->large_lock);
  if (best) {
    *out_block = block_of(best);
    return PYD_STATUS_OK;
  }
  pyd_status_t status = map_large(pool, size, wanted, out_block);
  while (!pyd_ok(status)) {  // the free blocks that did not fit may be what is missing
    const bool has_trimmed = trim(pool);
    pyd_status_free(status);
    status = map_large(pool, size, wanted, out_block);
    if (!has_trimmed) break;
  }
  if (!pyd_ok(status)) {
    lock(&pool->large_lock);
    --pool->large_live;
    unlock(&pool->large_lock);
  }
  return status;
}

// Brings the free memory back below the limit: first the oldest large blocks, then those of |class|. What is in use
// counts towards the total, so that the exact sum is taken only when it may matter.
static void enforce_limit(pyd_pool_t* pool, uint32_t class) {
  if (atomic_load_explicit(&pool->total_bytes, memory_order_relaxed) <= pool->retain_bytes) return;
  while (free_bytes(pool) > pool->retain_bytes) {
    if (!evict_oldest(pool) && (class == kLarge || !evict_small(pool, class))) return;
  }
}

static void release_small(pyd_pool_t* pool, header_t* header) {
  uint32_t class = header->class;
  class_stack_t* stack = &pool->classes[class];
  lock(&stack->lock);
  --stack->live;
  header->next = stack->top;
  stack->top = header;
  adjust(&stack->kept, header->size);
  unlock(&stack->lock);
  enforce_limit(pool, class);
}

static void release_large(pyd_pool_t* pool, header_t* header) {
  lock(&pool->large_lock);
  --pool->large_live;
  header->prev = NULL;
  header->next = pool->newest;
  *(pool->newest ? &pool->newest->prev : &pool->oldest) = header;
  pool->newest = header;
  adjust(&pool->large_kept, header->size);
  unlock(&pool->large_lock);
  enforce_limit(pool, kLarge);
}

pyd_status_t pyd_pool_create(uint64_t retain_bytes, pyd_pool_t** out_pool) {
  return pyd_pool_create_with(retain_bytes, NULL, out_pool);
}

pyd_status_t pyd_poison_requested(bool* out_requested) {
  const char* checks = getenv("PYDISPATCH_CHECK");
  *out_requested = checks && strcmp(checks, "poison") == 0;
  if (*out_requested || !checks || !*checks) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "PYDISPATCH_CHECK=%.64s: expected 'poison', or no value", checks);
}

bool pyd_pool_is_poisoned(const pyd_pool_t* pool) { return pool->is_poisoned; }

pyd_status_t pyd_pool_create_with(uint64_t retain_bytes, const pyd_allocator_t* allocator, pyd_pool_t** out_pool) {
  *out_pool = NULL;
  bool is_poisoned;
  pyd_status_t status = pyd_poison_requested(&is_poisoned);
  if (!pyd_ok(status)) return status;
  void* memory = pyd_allocate_zeroed(allocator, sizeof(pyd_pool_t) + 64);
  if (!memory) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a buffer pool");
  pyd_pool_t* pool = (pyd_pool_t*)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  pool->memory = memory;
  pool->retain_bytes = retain_bytes;
  pool->limit_bytes = UINT64_MAX;
  pool->is_poisoned = is_poisoned;
  if (allocator) pool->allocator = *allocator;
  *out_pool = pool;
  return PYD_STATUS_OK;
}

void pyd_pool_destroy(pyd_pool_t* pool) {
  if (!pool) return;
  pyd_pool_trim(pool);
  const pyd_allocator_t allocator = pool->allocator;
  pyd_deallocate(&allocator, pool->memory, sizeof(pyd_pool_t) + 64);
}

void pyd_pool_set_limit(pyd_pool_t* pool, uint64_t limit_bytes) { pool->limit_bytes = limit_bytes; }

const pyd_allocator_t* pyd_pool_allocator(const pyd_pool_t* pool) { return &pool->allocator; }

pyd_status_t pyd_pool_acquire(pyd_pool_t* pool, size_t size, void** out_block) {
  pyd_status_t status =
      size <= LARGEST_SMALL ? acquire_small(pool, class_of(size), out_block) : acquire_large(pool, size, out_block);
  if (pool->is_poisoned && pyd_ok(status)) memset(*out_block, PYD_POISON_BYTE, size);
  return status;
}

void pyd_pool_release(pyd_pool_t* pool, void* block) {
  if (!block) return;
  header_t* header = header_of(block);
  if (header->class == kLarge) {
    release_large(pool, header);
  } else {
    release_small(pool, header);
  }
}

void pyd_pool_trim(pyd_pool_t* pool) { trim(pool); }

void pyd_pool_stats(pyd_pool_t* pool, pyd_pool_stats_t* out_stats) {
  uint64_t blocks = 0;
  for (uint32_t i = 0; i < kClassCount; ++i) {
    lock(&pool->classes[i].lock);
    blocks += pool->classes[i].live;
    unlock(&pool->classes[i].lock);
  }
  lock(&pool->large_lock);
  blocks += pool->large_live;
  unlock(&pool->large_lock);
  // While others work, a block in flight may be counted on either side.
  uint64_t total = atomic_load_explicit(&pool->total_bytes, memory_order_relaxed);
  uint64_t kept = free_bytes(pool);
  *out_stats = (pyd_pool_stats_t){
      .live_bytes = total > kept ? total - kept : 0,
      .free_bytes = kept,
      .peak_bytes = atomic_load_explicit(&pool->peak_bytes, memory_order_relaxed),
      .live_blocks = blocks,
  };
}

// No code takes one lock while holding another, so any order is safe.
void pyd_pool_fork_prepare(pyd_pool_t* pool) {
  for (uint32_t i = 0; i < kClassCount; ++i) lock(&pool->classes[i].lock);
  lock(&pool->large_lock);
}

void pyd_pool_fork_done(pyd_pool_t* pool) {
  unlock(&pool->large_lock);
  for (uint32_t i = 0; i < kClassCount; ++i) unlock(&pool->classes[i].lock);
}
