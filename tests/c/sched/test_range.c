// The range cell: the arithmetic alone, then an owner and thieves on one cell.
//
// links: base platform sched
// tsan: 20
#include <pthread.h>

#include "check.h"
#include "sched/range.h"

static void test_halves(void) {
  for (uint32_t size = 0; size < 70; ++size) {
    for (uint32_t begin = 0; begin < 3; ++begin) {
      pyd_range_cell_t cell;
      atomic_init(&cell, pyd_range_pack(begin, begin + size));
      pyd_range_t stolen = {0, 0};
      bool got = pyd_range_steal(&cell, &stolen);
      pyd_range_t left = pyd_range_load(&cell);
      CHECK(got == (size != 0), "size %u", size);
      if (!got) continue;
      CHECK(pyd_range_size(stolen) == (size + 1) / 2, "stole %u of %u", pyd_range_size(stolen), size);
      CHECK(left.begin == begin && left.end == stolen.begin && stolen.end == begin + size, "size %u", size);
    }
  }
}

static void test_extremes(void) {
  pyd_range_cell_t cell;
  atomic_init(&cell, pyd_range_pack(0, UINT32_MAX));
  pyd_range_t stolen;
  CHECK(pyd_range_steal(&cell, &stolen), "full window");
  CHECK(stolen.begin == 0x7FFFFFFFu && stolen.end == UINT32_MAX, "[%u, %u)", stolen.begin, stolen.end);
  pyd_range_t seen = pyd_range_load(&cell);
  CHECK(pyd_range_take(&cell, seen, pyd_range_size(seen)), "take all");
  CHECK(!pyd_range_steal(&cell, &stolen), "empty");
  CHECK(!pyd_range_take(&cell, seen, 1), "a value that is gone must not be taken from");
}

enum { COUNT = 20000, THIEVES = 3 };

typedef struct board_s {
  pyd_range_cell_t cell;
  _Atomic uint8_t seen[COUNT];
  _Atomic int owner_done;
} board_t;

static void mark(board_t* board, pyd_range_t range) {
  for (uint32_t i = range.begin; i < range.end; ++i)
    atomic_fetch_add_explicit(&board->seen[i], 1, memory_order_relaxed);
}

static void* thief(void* pointer) {
  board_t* board = pointer;
  pyd_range_t stolen;
  while (!atomic_load(&board->owner_done)) {
    if (pyd_range_steal(&board->cell, &stolen)) mark(board, stolen);
  }
  return NULL;
}

static void test_exactly_once(void) {
  board_t* board = calloc(1, sizeof(*board));
  CHECK(board, "memory");
  pthread_t threads[THIEVES];
  for (int i = 0; i < THIEVES; ++i) pthread_create(&threads[i], NULL, thief, board);
  // The owner gives the range out in pieces, each stored into an empty cell, as a participant does after a theft.
  for (uint32_t base = 0; base < COUNT; base += 500) {
    pyd_range_store(&board->cell, (pyd_range_t){base, base + 500});
    for (;;) {
      pyd_range_t seen = pyd_range_load(&board->cell);
      if (seen.begin == seen.end) break;
      if (pyd_range_take(&board->cell, seen, 1)) mark(board, (pyd_range_t){seen.begin, seen.begin + 1});
    }
  }
  atomic_store(&board->owner_done, 1);
  for (int i = 0; i < THIEVES; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < COUNT; ++i) CHECK(board->seen[i] == 1, "index %d was taken %d times", i, board->seen[i]);
  free(board);
}

int main(int argc, char** argv) {
  test_halves();
  test_extremes();
  for (int i = rounds_of(argc, argv, 20); i > 0; --i) test_exactly_once();
  puts("range: ok");
  return 0;
}
