// links: base program platform sched memory
// with: double.c
// Placing transients: blocks that live at the same time never overlap, whatever their sizes and lifetimes.
#include "program/builder.h"
#include "program/plan/plan.h"

static uint64_t state = 1;
static uint64_t next(uint64_t limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % limit;
}
static uint64_t align(uint64_t bytes) { return (bytes + 63) & ~(uint64_t)63; }

// Returns arena / lower bound, the most that is alive in one region.
static double check(pyd_arena_block_t* blocks, uint32_t count, uint32_t regions) {
  uint64_t total = 0, sum = 0, bound = 0;
  CHECK_OK(pyd_arena_place(blocks, count, &total));
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t end = blocks[i].offset + align(blocks[i].bytes);
    CHECK(blocks[i].offset % 64 == 0 && end <= total);
    sum += align(blocks[i].bytes);
    for (uint32_t k = 0; k < i; ++k) {
      if (blocks[k].last < blocks[i].first || blocks[k].first > blocks[i].last) continue;
      if (blocks[i].bytes == 0 || blocks[k].bytes == 0) continue;
      CHECK(blocks[k].offset >= end || blocks[k].offset + align(blocks[k].bytes) <= blocks[i].offset);
    }
  }
  for (uint32_t region = 0; region < regions; ++region) {
    uint64_t alive = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (blocks[i].first <= region && region <= blocks[i].last) alive += align(blocks[i].bytes);
    }
    bound = alive > bound ? alive : bound;
  }
  CHECK(total <= sum && total >= bound);
  return bound ? (double)total / (double)bound : 1;
}

int main(void) {
  enum { MOST = 200 };
  pyd_arena_block_t blocks[MOST];
  double worst[3] = {1, 1, 1}, sum[3] = {0};
  for (uint32_t round = 0; round < 3000; ++round) {
    uint32_t kind = round % 3, count = (uint32_t)next(MOST) + 1, regions = (uint32_t)next(100) + 1;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t first = (uint32_t)next(regions), length = (uint32_t)next(kind == 0 ? regions : 4);
      uint64_t bytes = kind == 2 ? (next(4) + 1) << 16 : next(next(2) ? 1 << 20 : 200);
      blocks[i] = (pyd_arena_block_t){bytes, first, first + length < regions ? first + length : regions - 1, 99};
    }
    double ratio = check(blocks, count, regions);
    worst[kind] = ratio > worst[kind] ? ratio : worst[kind];
    sum[kind] += ratio / 1000;
  }
  printf(
      "arena / lower bound, mean and worst: any lifetime %.3f %.3f, short %.3f %.3f, short and equal sizes %.3f %.3f\n",
      sum[0], worst[0], sum[1], worst[1], sum[2], worst[2]);
  CHECK(worst[0] < 1.5 && worst[1] < 1.5 && worst[2] < 1.5);
  // A chain of n layers needs two buffers.
  for (uint32_t i = 0; i < MOST; ++i) blocks[i] = (pyd_arena_block_t){1000, i, i + 1, 0};
  uint64_t total;
  CHECK_OK(pyd_arena_place(blocks, MOST, &total));
  CHECK(total == 2048);
  blocks[0].bytes = INT64_MAX - 64;
  CHECK_REFUSED(pyd_arena_place(blocks, 2, &total), OUT_OF_MEMORY, "2 transient buffers need more than 2^63 bytes");
  CHECK_OK(pyd_arena_place(blocks, 0, &total));
  CHECK(total == 0);
  return 0;
}
