// Layout of transient buffers in the arena: greedy by size. Each block, largest first, is put into the smallest gap
// between the blocks that are live at the same time. On layered programs that is within a few percent of the lower
// bound.
#include <stdlib.h>

#include "program/plan/plan.h"

// Alignment of transients in the arena, in bytes.
enum { kAlignment = 64 };
// Placement compares each block with all placed ones, which takes a third of a second for this many blocks. Further
// blocks are appended without comparison and share no memory.
enum { kMaxCompared = 1 << 14 };

// A placed block: its range of bytes, and the regions in which it is live.
typedef struct placed_s {
  uint64_t begin, end;
  uint32_t first, last;
} placed_t;

// The keys by which blocks are sorted before they are placed.
typedef struct order_s {
  uint64_t bytes;
  uint32_t first;  // region in which the block becomes live
  uint32_t index;  // of the block
} order_t;

// Compares blocks for qsort: larger ones are less; of equally large ones, those that become live earlier.
static int by_size(const void* left, const void* right) {
  const order_t *a = left, *b = right;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->index < b->index ? -1 : 1;  // so that the order does not depend on qsort
}

// Returns the offset of the smallest gap of at least |bytes| bytes between the placed blocks (sorted by begin) that
// live at the same time as |block|; if there is no such gap, the end of the last of these blocks.
static uint64_t find_gap(const placed_t* placed, uint32_t count, const pyd_arena_block_t* block, uint64_t bytes) {
  uint64_t end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
  for (uint32_t i = 0; i < count; ++i) {
    if (placed[i].last < block->first || placed[i].first > block->last) continue;  // not live at the same time
    if (placed[i].begin > end && placed[i].begin - end >= bytes && placed[i].begin - end < best_size) {
      best = end;
      best_size = placed[i].begin - end;
    }
    if (placed[i].end > end) end = placed[i].end;  // the next gap can begin here
  }
  return best == UINT64_MAX ? end : best;
}

// Inserts |block| into the placed blocks, sorted by begin. Returns their new count.
static uint32_t insert(placed_t* placed, uint32_t count, placed_t block) {
  uint32_t at = count;
  for (; at > 0 && placed[at - 1].begin > block.begin; --at) placed[at] = placed[at - 1];
  placed[at] = block;
  return count + 1;
}

// Returns whether the blocks together, each rounded up, are smaller than 2^63 bytes, so that no offset overflows.
static bool fit_address_space(const pyd_arena_block_t* blocks, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {  // rounding up a block adds less than kAlignment bytes
    bool fits = blocks[i].bytes <= INT64_MAX && !__builtin_add_overflow(sum, blocks[i].bytes + kAlignment, &sum);
    if (!fits || sum > INT64_MAX) return false;
  }
  return true;
}

// Sets the offsets of all blocks, largest first. |order| and |placed| are scratch memory: one entry per block, and per
// block that is compared. Returns the size of the arena in bytes.
static uint64_t place_all(pyd_arena_block_t* blocks, uint32_t count, order_t* order, placed_t* placed) {
  for (uint32_t i = 0; i < count; ++i) order[i] = (order_t){blocks[i].bytes, blocks[i].first, i};
  qsort(order, count, sizeof(*order), by_size);
  uint32_t placed_count = 0;
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    pyd_arena_block_t* block = &blocks[order[i].index];
    uint64_t bytes = (block->bytes + kAlignment - 1) & ~(uint64_t)(kAlignment - 1);
    block->offset = 0;
    if (bytes == 0) continue;
    if (placed_count < kMaxCompared) {
      block->offset = find_gap(placed, placed_count, block, bytes);
      placed_count =
          insert(placed, placed_count, (placed_t){block->offset, block->offset + bytes, block->first, block->last});
    } else {
      block->offset = total;  // append
    }
    if (block->offset + bytes > total) total = block->offset + bytes;
  }
  return total;
}

// Chooses the offset of each block so that blocks which are live in the same region do not overlap, and returns the
// size of the arena.
pyd_status_t pyd_arena_place(pyd_arena_block_t* blocks, uint32_t count, uint64_t* out_bytes) {
  *out_bytes = 0;
  if (count == 0) return PYD_STATUS_OK;
  if (!fit_address_space(blocks, count))
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "%u transient buffers need more than 2^63 bytes", count);
  order_t* order = malloc(count * sizeof(*order));
  placed_t* placed = malloc((count < kMaxCompared ? count : kMaxCompared) * sizeof(*placed));
  const bool has_memory = order && placed;
  if (has_memory) *out_bytes = place_all(blocks, count, order, placed);
  free(order);
  free(placed);
  if (has_memory) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to place %u buffers", count);
}
