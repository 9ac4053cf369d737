// Small blocks come from the C library; free ones are kept in one stack per size class. Large blocks are mapped; free
// ones are kept in the order of their release, and found by best fit. A pool with an allocator takes all memory from
// that. Before each block is a header with its size class; it fills a cache line, so that the block is aligned.
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
  kHeader = 64,                              // bytes
  kClassCount = 52,                          // 64, 128, 192, 256 bytes, then four per power of two up to 1 MiB
  kLarge = kClassCount,                      // header_t.class of a large block
  kSpins = 64,                               // polls of a lock before the thread yields
  kOverhead = kHeader + PYD_POOL_ALIGNMENT,  // bytes of an allocation besides the block: header and alignment
};
#define LARGEST_SMALL ((size_t)1 << 20)  // bytes of the largest small block

typedef struct header_s {
  struct header_s* next;  // of a free block, in its list: the one released before it
  struct header_s* prev;  // of a large free block: the one released after it
  void* memory;           // start of the allocation; NULL: the block was mapped
  size_t size;            // usable bytes
  uint32_t class;         // size class, or kLarge
} header_t;
_Static_assert(sizeof(header_t) <= kHeader && kHeader <= PYD_PAGES_FRONT, "the header lies in front of the block");

// The free blocks of one size class, a stack. Written under the lock; |free_bytes| is read without it.
typedef struct class_stack_s {
  _Alignas(64) atomic_bool lock;
  header_t* top;
  uint64_t live;  // number of blocks in use
  _Atomic uint64_t free_bytes;
} class_stack_t;

struct pyd_pool_s {
  class_stack_t classes[kClassCount];  // free blocks of up to the largest size class
  // Free large blocks, from the newest to the oldest release.
  _Alignas(64) atomic_bool large_lock;
  header_t *newest, *oldest;
  uint64_t large_live;                        // number of large blocks in use
  _Atomic uint64_t large_free_bytes;          // written under the lock, read without it
  _Alignas(64) _Atomic uint64_t total_bytes;  // live and free; changes only with system calls
  _Atomic uint64_t peak_bytes;
  uint64_t retain_bytes;      // maximum of free bytes
  uint64_t limit_bytes;       // maximum of live and free bytes
  bool is_poisoned;           // blocks are filled with PYD_POISON_BYTE when they are acquired
  pyd_allocator_t allocator;  // all zero: the system's memory
  void* memory;               // the allocation that the pool itself is in
};

// Acquires a spin lock. While another thread holds it, polls it with reads only: they leave the cache line shared.
static void lock(atomic_bool* flag) {
  uint32_t attempt = 0;
  while (atomic_exchange_explicit(flag, true, memory_order_acquire)) {
    while (atomic_load_explicit(flag, memory_order_relaxed)) pyd_back_off(++attempt, kSpins);
  }
}
static void unlock(atomic_bool* flag) { atomic_store_explicit(flag, false, memory_order_release); }

// Returns the class of the smallest block of at least |size| bytes. Classes 0 to 3 have blocks of 64, 128, 192 and 256
// bytes. From there on, four classes in equal steps lead to twice the size: 320, 384, 448, 512, then 640, 768, 896,
// 1024.
static uint32_t class_of(size_t size) {
  if (size <= 256) return size ? (uint32_t)((size - 1) / 64) : 0;
  uint32_t power = 63u - (uint32_t)__builtin_clzll(size - 1);  // 2^power <= size - 1 < 2^(power + 1)
  // The two bits after the highest one select one of four classes. Example: size 400, power 8, class 4 + 2 (448 bytes).
  return (power - 7) * 4 + (uint32_t)((size - 1) >> (power - 2) & 3);
}
// Returns the bytes of a block of |class|: 64, 128, 192, 256, 320, 384, 448, 512, 640, 768 and so on.
static size_t class_size(uint32_t class) {
  return class < 4 ? 64 * ((size_t) class + 1) : (size_t)(5 + class % 4) << (5 + class / 4);
}

static header_t* header_of(void* block) { return (header_t*)((uint8_t*)block - kHeader); }
static void* block_of(header_t* header) { return (uint8_t*)header + kHeader; }

// Returns the bytes of all free blocks.
static uint64_t sum_free_bytes(pyd_pool_t* pool) {
  uint64_t sum = atomic_load_explicit(&pool->large_free_bytes, memory_order_relaxed);
  for (uint32_t i = 0; i < kClassCount; ++i)
    sum += atomic_load_explicit(&pool->classes[i].free_bytes, memory_order_relaxed);
  return sum;
}

// Adds |size| bytes to |total_bytes|, and raises |peak_bytes|, before the bytes are allocated; unreserve() subtracts
// them if the allocation fails. OUT_OF_MEMORY beyond the limit: then adds nothing, not even for a moment, so that other
// threads with smaller sizes do not fail, too.
static pyd_status_t reserve(pyd_pool_t* pool, size_t size) {
  const uint64_t limit = pool->limit_bytes;
  uint64_t total = atomic_load_explicit(&pool->total_bytes, memory_order_relaxed);
  bool has_added = false;
  while (!has_added) {
    const bool fits = total <= limit && size <= limit - total;
    if (!fits) {
      const uint64_t free_bytes = sum_free_bytes(pool);
      return pyd_status_make(PYD_CODE_OUT_OF_MEMORY,
                             "no memory for a buffer of %zu bytes: %" PRIu64 " of the device's limit of %" PRIu64
                             " are in use",
                             size, total > free_bytes ? total - free_bytes : 0, limit);
    }
    // After a failure |total| is the current value.
    has_added = atomic_compare_exchange_weak_explicit(&pool->total_bytes, &total, total + size, memory_order_relaxed,
                                                      memory_order_relaxed);
  }
  total += size;
  uint64_t peak = atomic_load_explicit(&pool->peak_bytes, memory_order_relaxed);
  while (peak < total && !atomic_compare_exchange_weak_explicit(&pool->peak_bytes, &peak, total, memory_order_relaxed,
                                                                memory_order_relaxed)) {
  }
  return PYD_STATUS_OK;
}
static void unreserve(pyd_pool_t* pool, size_t size) {
  atomic_fetch_sub_explicit(&pool->total_bytes, size, memory_order_relaxed);
}

// Adds |change|, modulo 2^64, to a counter. The caller holds the lock that guards it: no other thread writes, so this
// needs no atomic read-modify-write.
static void adjust(_Atomic uint64_t* counter, uint64_t change) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + change, memory_order_relaxed);
}

// Returns a block to the system. The caller has removed the block from its list and its bytes from the counters, both
// under the lock of the list: a thread that runs out of memory never sees bytes that are counted, but not free.
static void discard(pyd_pool_t* pool, header_t* header) {
  const bool is_from_allocator = header->memory != NULL;
  if (is_from_allocator) {
    pyd_deallocate(&pool->allocator, header->memory, header->size + kOverhead);
  } else {
    pyd_pages_unmap(block_of(header), header->size);
  }
}

// Removes a block from the list of free large blocks, a doubly linked list. The caller holds the lock of the list.
static void unlink_large(pyd_pool_t* pool, header_t* header) {
  if (header->prev) {
    header->prev->next = header->next;
  } else {
    pool->newest = header->next;
  }
  if (header->next) {
    header->next->prev = header->prev;
  } else {
    pool->oldest = header->prev;
  }
  adjust(&pool->large_free_bytes, 0 - (uint64_t)header->size);
}

// Removes the top block of the stack of a size class, and returns it; NULL when the stack is empty. |size|: bytes of
// the blocks of the class. The caller holds the lock of the stack.
static header_t* unlink_small(class_stack_t* stack, size_t size) {
  header_t* header = stack->top;
  if (!header) return NULL;
  stack->top = header->next;
  adjust(&stack->free_bytes, 0 - (uint64_t)size);
  return header;
}

// Returns the large block that has been free for the longest time to the system. Returns false when there is none.
static bool evict_oldest(pyd_pool_t* pool) {
  lock(&pool->large_lock);
  header_t* header = pool->oldest;
  if (header) {
    unlink_large(pool, header);
    unreserve(pool, header->size);
  }
  unlock(&pool->large_lock);
  if (header) discard(pool, header);
  return header != NULL;
}

// Returns a free block of a class to the system. Returns false when there is none.
static bool evict_small(pyd_pool_t* pool, uint32_t class) {
  class_stack_t* stack = &pool->classes[class];
  lock(&stack->lock);
  header_t* header = unlink_small(stack, class_size(class));
  if (header) unreserve(pool, header->size);
  unlock(&stack->lock);
  if (header) discard(pool, header);
  return header != NULL;
}

// Returns all free blocks to the system. Returns false when there was none.
static bool trim(pyd_pool_t* pool) {
  bool has_trimmed = false;
  while (evict_oldest(pool)) has_trimmed = true;
  for (uint32_t i = 0; i < kClassCount; ++i) {
    while (evict_small(pool, i)) has_trimmed = true;
  }
  return has_trimmed;
}

// Allocates a new block of |class| with |size| bytes from the allocator or the C library.
static pyd_status_t allocate(pyd_pool_t* pool, size_t size, uint32_t class, void** out_block) {
  pyd_status_t status = reserve(pool, size);
  if (!pyd_ok(status)) return status;
  void* memory = pyd_allocate(&pool->allocator, size + kOverhead);
  if (!memory) {
    unreserve(pool, size);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", size);
  }
  uintptr_t start = ((uintptr_t)memory + kOverhead - 1) & ~(uintptr_t)(PYD_POOL_ALIGNMENT - 1);
  *header_of((void*)start) = (header_t){.memory = memory, .size = size, .class = class};
  *out_block = (void*)start;
  return PYD_STATUS_OK;
}

// Creates a block of |class| with |size| bytes, of which the first |wanted| are going to be used: a small block, or any
// block of a pool with an allocator, by allocate(); other large blocks from the system's pages.
static pyd_status_t create_block(pyd_pool_t* pool, size_t size, size_t wanted, uint32_t class, void** out_block) {
  if (class != kLarge || pyd_allocator_is_given(&pool->allocator)) return allocate(pool, size, class, out_block);
  pyd_status_t status = reserve(pool, size);
  if (!pyd_ok(status)) return status;
  status = pyd_pages_map(size, wanted, out_block);
  if (pyd_ok(status)) {
    *header_of(*out_block) = (header_t){.size = size, .class = kLarge};
  } else {
    unreserve(pool, size);
  }
  return status;
}

// Creates a block as create_block() does. While there is no memory for it, returns all free blocks, of any size, to the
// system, and tries again. The last attempt is one after which no block was left to return: other threads may have
// returned blocks since the attempt before.
static pyd_status_t create_or_trim(pyd_pool_t* pool, size_t size, size_t wanted, uint32_t class, void** out_block) {
  pyd_status_t status = create_block(pool, size, wanted, class, out_block);
  for (bool has_trimmed = true; has_trimmed && !pyd_ok(status);) {
    has_trimmed = trim(pool);
    pyd_status_free(status);
    status = create_block(pool, size, wanted, class, out_block);
  }
  return status;
}

// Acquires a block of a size class: a free block, or a new one.
static pyd_status_t acquire_small(pyd_pool_t* pool, uint32_t class, void** out_block) {
  class_stack_t* stack = &pool->classes[class];
  size_t size = class_size(class);
  lock(&stack->lock);
  header_t* header = unlink_small(stack, size);
  ++stack->live;  // also of a new block, which is allocated without the lock
  unlock(&stack->lock);
  if (header) {
    *out_block = block_of(header);
    return PYD_STATUS_OK;
  }
  pyd_status_t status = create_or_trim(pool, size, size, class, out_block);
  if (pyd_ok(status)) return status;
  lock(&stack->lock);
  --stack->live;
  unlock(&stack->lock);
  return status;
}

// Returns the smallest free block of at least |size| bytes, but at most 25 % more, which bounds the waste; NULL without
// one. The caller holds the lock of the list.
static header_t* find_large(const pyd_pool_t* pool, size_t size) {
  header_t* best = NULL;
  for (header_t* header = pool->newest; header; header = header->next) {
    const bool fits = header->size >= size && header->size - size <= size / 4;
    if (!fits || (best && best->size <= header->size)) continue;
    best = header;
    if (best->size == size) break;
  }
  return best;
}

// Acquires a large block: a free block that fits, or a new one. |wanted|: bytes.
static pyd_status_t acquire_large(pyd_pool_t* pool, size_t wanted, void** out_block) {
  if (wanted > SIZE_MAX / 2) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", wanted);
  }
  const size_t unit = pyd_allocator_is_given(&pool->allocator) ? PYD_POOL_ALIGNMENT : PYD_PAGES_UNIT;
  const size_t size = (wanted + unit - 1) & ~(unit - 1);
  lock(&pool->large_lock);
  header_t* best = find_large(pool, size);
  if (best) unlink_large(pool, best);
  ++pool->large_live;
  unlock(&pool->large_lock);
  if (best) {
    *out_block = block_of(best);
    return PYD_STATUS_OK;
  }
  pyd_status_t status = create_or_trim(pool, size, wanted, kLarge, out_block);
  if (pyd_ok(status)) return status;
  lock(&pool->large_lock);
  --pool->large_live;
  unlock(&pool->large_lock);
  return status;
}

// Returns free blocks to the system until the free bytes are at most |pool->retain_bytes|: first the large blocks that
// have been free longest, then small blocks of |class|, the class of the block that was just released.
static void enforce_limit(pyd_pool_t* pool, uint32_t class) {
  // All bytes of the pool are within the limit, and so are the free ones: saves their sum.
  if (atomic_load_explicit(&pool->total_bytes, memory_order_relaxed) <= pool->retain_bytes) return;
  while (sum_free_bytes(pool) > pool->retain_bytes) {
    if (evict_oldest(pool)) continue;
    const bool has_evicted = class != kLarge && evict_small(pool, class);
    if (!has_evicted) return;
  }
}

// Puts a block on the stack of its class.
static void release_small(pyd_pool_t* pool, header_t* header) {
  uint32_t class = header->class;
  class_stack_t* stack = &pool->classes[class];
  lock(&stack->lock);
  --stack->live;
  header->next = stack->top;
  stack->top = header;
  adjust(&stack->free_bytes, header->size);
  unlock(&stack->lock);
  enforce_limit(pool, class);
}

// Adds a large block to the front of the list of free large blocks.
static void release_large(pyd_pool_t* pool, header_t* header) {
  lock(&pool->large_lock);
  --pool->large_live;
  header->prev = NULL;
  header->next = pool->newest;
  if (pool->newest) {
    pool->newest->prev = header;
  } else {
    pool->oldest = header;
  }
  pool->newest = header;
  adjust(&pool->large_free_bytes, header->size);
  unlock(&pool->large_lock);
  enforce_limit(pool, kLarge);
}

pyd_status_t pyd_pool_create(uint64_t retain_bytes, pyd_pool_t** out_pool) {
  return pyd_pool_create_with(retain_bytes, NULL, out_pool);
}

// Returns whether the environment variable PYDISPATCH_CHECK requests that new buffers are filled with a pattern.
pyd_status_t pyd_poison_requested(bool* out_requested) {
  const char* checks = getenv("PYDISPATCH_CHECK");
  *out_requested = checks && strcmp(checks, "poison") == 0;
  if (*out_requested || !checks || !*checks) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "PYDISPATCH_CHECK=%.64s: expected 'poison', or no value", checks);
}

bool pyd_pool_is_poisoned(const pyd_pool_t* pool) { return pool->is_poisoned; }

// Creates a pool that caches at most |retain_bytes| of free blocks. |allocator|: supplies its memory; NULL: the C
// library and the system.
pyd_status_t pyd_pool_create_with(uint64_t retain_bytes, const pyd_allocator_t* allocator, pyd_pool_t** out_pool) {
  *out_pool = NULL;
  bool is_poisoned;
  pyd_status_t status = pyd_poison_requested(&is_poisoned);
  if (!pyd_ok(status)) return status;
  void* memory = pyd_allocate_zeroed(allocator, sizeof(pyd_pool_t) + 64);  // room to align the pool to a cache line
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

// Destroys a pool, of which no block is live any more.
void pyd_pool_destroy(pyd_pool_t* pool) {
  if (!pool) return;
  pyd_pool_trim(pool);
  const pyd_allocator_t allocator = pool->allocator;  // a copy: the pool is in the memory that it releases
  pyd_deallocate(&allocator, pool->memory, sizeof(pyd_pool_t) + 64);  // as allocated, with room to align the pool
}

void pyd_pool_set_limit(pyd_pool_t* pool, uint64_t limit_bytes) { pool->limit_bytes = limit_bytes; }

const pyd_allocator_t* pyd_pool_allocator(const pyd_pool_t* pool) { return &pool->allocator; }

// Acquires a block of at least |size| bytes. In the debugging mode |is_poisoned|, fills it with a pattern.
pyd_status_t pyd_pool_acquire(pyd_pool_t* pool, size_t size, void** out_block) {
  pyd_status_t status =
      size <= LARGEST_SMALL ? acquire_small(pool, class_of(size), out_block) : acquire_large(pool, size, out_block);
  if (pool->is_poisoned && pyd_ok(status)) memset(*out_block, PYD_POISON_BYTE, size);
  return status;
}

// Releases a block of pyd_pool_acquire(), which the pool caches or returns to the system. |block| may be NULL.
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

// Returns how many blocks and bytes are live (acquired) and free (cached), and the peak of both together.
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
  // Approximate while other threads acquire and release blocks.
  uint64_t total = atomic_load_explicit(&pool->total_bytes, memory_order_relaxed);
  uint64_t free_bytes = sum_free_bytes(pool);
  *out_stats = (pyd_pool_stats_t){
      .live_bytes = total > free_bytes ? total - free_bytes : 0,
      .free_bytes = free_bytes,
      .peak_bytes = atomic_load_explicit(&pool->peak_bytes, memory_order_relaxed),
      .live_blocks = blocks,
  };
}

// Takes all locks for a fork. No other code takes one lock while it holds another, so any order is safe.
void pyd_pool_fork_prepare(pyd_pool_t* pool) {
  for (uint32_t i = 0; i < kClassCount; ++i) lock(&pool->classes[i].lock);
  lock(&pool->large_lock);
}

void pyd_pool_fork_done(pyd_pool_t* pool) {
  unlock(&pool->large_lock);
  for (uint32_t i = 0; i < kClassCount; ++i) unlock(&pool->classes[i].lock);
}
