// Memory pool for buffers: 64-byte aligned blocks that are recycled and never cleared.
#ifndef PYDISPATCH_POOL_H_
#define PYDISPATCH_POOL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pydispatch/allocator.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Alignment of all blocks, in bytes. Also the largest alignment that a variant of an executable may require of its
// bindings (manifest.h), because bindings may be in any block.
#define PYD_POOL_ALIGNMENT 64u

typedef struct pyd_pool_s pyd_pool_t;

// |retain_bytes|: maximum size of the free blocks that are retained.
pyd_status_t pyd_pool_create(uint64_t retain_bytes, pyd_pool_t** out_pool);
// Creates a pool, also the structure itself, in memory of |allocator|, which is copied; NULL: the system's memory.
pyd_status_t pyd_pool_create_with(uint64_t retain_bytes, const pyd_allocator_t* allocator, pyd_pool_t** out_pool);
// Whether the environment requests that blocks are filled when they are acquired: PYDISPATCH_CHECK=poison. Its only
// reader; INVALID_ARGUMENT for another value. Pools query it when they are created.
pyd_status_t pyd_poison_requested(bool* out_requested);
// Whether the pool fills the blocks that it returns. A user that reuses a block fills it by itself.
bool pyd_pool_is_poisoned(const pyd_pool_t* pool);
// Byte of filled blocks: every float of any width in them is a NaN, every signed integer is -1.
#define PYD_POISON_BYTE 0xff
// Sets the maximum of used and free memory, before the pool is shared. Default: unlimited.
void pyd_pool_set_limit(pyd_pool_t* pool, uint64_t limit_bytes);
// Returns the allocator of the pool, for other memory of the pool's user; all zero for the system's memory. Valid while
// the pool is.
const pyd_allocator_t* pyd_pool_allocator(const pyd_pool_t* pool);
// Every block must have been released.
void pyd_pool_destroy(pyd_pool_t* pool);
// A block of at least |size| bytes. Size 0 returns a valid, unique address. Thread safe. OUT_OF_MEMORY names
// the size, and the limit where that is the reason.
pyd_status_t pyd_pool_acquire(pyd_pool_t* pool, size_t size, void** out_block);
// |block| may be NULL. Thread safe.
void pyd_pool_release(pyd_pool_t* pool, void* block);
// Returns all free blocks to the system.
void pyd_pool_trim(pyd_pool_t* pool);

// The memory of a pool: blocks that are in use (live), and blocks that were released and are kept (free).
typedef struct pyd_pool_stats_s {
  uint64_t live_bytes;
  uint64_t free_bytes;
  uint64_t peak_bytes;  // live and free together
  uint64_t live_blocks;
} pyd_pool_stats_t;
// Reads the counts, which other threads may change meanwhile.
void pyd_pool_stats(pyd_pool_t* pool, pyd_pool_stats_t* out_stats);

// Handlers of a fork (pthread_atfork): |prepare| in the parent, then |done| in both processes. Without them a child
// that was forked while another thread was inside the pool would deadlock.
void pyd_pool_fork_prepare(pyd_pool_t* pool);
void pyd_pool_fork_done(pyd_pool_t* pool);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_POOL_H_
