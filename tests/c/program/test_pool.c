// links: base platform memory
// tsan: 3
// The pool: alignment, reuse, the retain limit, statistics, threads that release each other's blocks.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "platform/pages.h"
#include "platform/sanitizer.h"
#include "program/builder.h"

static pyd_pool_t* make_pool(uint64_t retain) {
  pyd_pool_t* pool = NULL;
  CHECK_OK(pyd_pool_create(retain, &pool));
  return pool;
}
static pyd_pool_stats_t stats_of(pyd_pool_t* pool) {
  pyd_pool_stats_t stats;
  pyd_pool_stats(pool, &stats);
  return stats;
}

static void test_sizes(void) {
  pyd_pool_t* pool = make_pool(UINT64_MAX);
  for (size_t size = 0; size < (5 << 20); size = size < 600 ? size + 1 : size + size / 37) {
    void *a, *b;
    CHECK_OK(pyd_pool_acquire(pool, size, &a));
    CHECK_OK(pyd_pool_acquire(pool, size, &b));
    CHECK((uintptr_t)a % PYD_POOL_ALIGNMENT == 0 && (uintptr_t)b % PYD_POOL_ALIGNMENT == 0 && a != b);
    memset(a, 1, size);
    memset(b, 2, size);
    for (size_t i = 0; i < size; i += 63) CHECK(((uint8_t*)a)[i] == 1);
    pyd_pool_stats_t stats = stats_of(pool);
    CHECK(stats.live_blocks == 2 && stats.live_bytes >= 2 * size);
    if (size > 256 && size <= (1 << 20)) CHECK(stats.live_bytes / 2 <= size + size / 4 + 1);  // a quarter of rounding
    pyd_pool_release(pool, b);
    void* c;
    CHECK_OK(pyd_pool_acquire(pool, size, &c));
    CHECK(c == b);
    pyd_pool_release(pool, a);
    pyd_pool_release(pool, c);
  }
  pyd_pool_release(pool, NULL);
  CHECK(stats_of(pool).live_blocks == 0 && stats_of(pool).live_bytes == 0 && stats_of(pool).free_bytes > 0);
  pyd_pool_trim(pool);
  CHECK(stats_of(pool).free_bytes == 0 && stats_of(pool).peak_bytes > 0);
  void* block;
  CHECK_REFUSED(pyd_pool_acquire(pool, SIZE_MAX, &block), OUT_OF_MEMORY, "18446744073709551615 bytes");
  CHECK_REFUSED(pyd_pool_acquire(pool, SIZE_MAX / 4, &block), OUT_OF_MEMORY, "no 46116860184");
  CHECK(stats_of(pool).live_blocks == 0);
  pyd_pool_destroy(pool);
}

static void test_large_reuse(void) {
  enum { MIB = 1 << 20 };
  pyd_pool_t* pool = make_pool((uint64_t)64 * MIB);
  void *a, *b, *c;
  CHECK_OK(pyd_pool_acquire(pool, 40 * MIB, &a));
  CHECK_OK(pyd_pool_acquire(pool, 20 * MIB, &b));
  pyd_pool_release(pool, a);
  pyd_pool_release(pool, b);
  CHECK(stats_of(pool).free_bytes == (uint64_t)60 * MIB);
  CHECK_OK(pyd_pool_acquire(pool, 34 * MIB, &c));  // 40 is within a quarter of 34
  CHECK(c == a);
  pyd_pool_release(pool, c);
  CHECK_OK(pyd_pool_acquire(pool, 30 * MIB, &c));  // and too much for 30
  CHECK(c != a && c != b);
  pyd_pool_release(pool, c);  // 90 MiB would be free: the oldest, 20, goes first, then 40
  CHECK(stats_of(pool).free_bytes == (uint64_t)30 * MIB && stats_of(pool).peak_bytes == (uint64_t)90 * MIB);
  CHECK_OK(pyd_pool_acquire(pool, 100 * MIB, &a));
  pyd_pool_release(pool, a);  // more than may be kept at all
  CHECK(stats_of(pool).free_bytes == 0);
  pyd_pool_destroy(pool);
  pool = make_pool(100000);
  void* blocks[10];
  for (int i = 0; i < 10; ++i) CHECK_OK(pyd_pool_acquire(pool, 40000, &blocks[i]));
  for (int i = 0; i < 10; ++i) pyd_pool_release(pool, blocks[i]);
  CHECK(stats_of(pool).free_bytes <= 100000 && stats_of(pool).free_bytes >= 80000 && stats_of(pool).live_blocks == 0);
  pyd_pool_destroy(pool);
}

// Of the free blocks that fit, the smallest one is taken. A limit below what is in use refuses new blocks alone.
static void test_best_fit(void) {
  enum { MIB = 1 << 20 };
  static const size_t kSizes[] = {20 * MIB, 18 * MIB, 20 * MIB, 24 * MIB};
  pyd_pool_t* pool = make_pool(UINT64_MAX);
  void *blocks[4], *best, *other;
  for (int i = 0; i < 4; ++i) CHECK_OK(pyd_pool_acquire(pool, kSizes[i], &blocks[i]));
  for (int i = 0; i < 4; ++i) pyd_pool_release(pool, blocks[i]);
  CHECK_OK(pyd_pool_acquire(pool, 16 * MIB, &best));
  CHECK(best == blocks[1]);
  pyd_pool_set_limit(pool, 1);
  CHECK_OK(pyd_pool_acquire(pool, 24 * MIB, &other));
  CHECK(other == blocks[3]);
  CHECK_REFUSED(pyd_pool_acquire(pool, 64, &blocks[0]), OUT_OF_MEMORY, "of the device's limit of 1 are in use");
  pyd_pool_release(pool, best);
  pyd_pool_release(pool, other);
  pyd_pool_destroy(pool);
}

// What is free counts towards the limit until it is missing.
static void test_limit(void) {
  pyd_pool_t* pool = make_pool(1 << 30);
  pyd_pool_set_limit(pool, 8 << 20);
  void *small[100], *large = NULL, *more = NULL;
  for (int i = 0; i < 100; ++i) CHECK_OK(pyd_pool_acquire(pool, 40000, &small[i]));
  CHECK_REFUSED(pyd_pool_acquire(pool, 6 << 20, &large), OUT_OF_MEMORY, "6291456 bytes: ");
  CHECK_REFUSED(pyd_pool_acquire(pool, 6 << 20, &large), OUT_OF_MEMORY, "limit of 8388608 are in use");
  CHECK(stats_of(pool).live_blocks == 100);
  for (int i = 0; i < 100; ++i) pyd_pool_release(pool, small[i]);
  CHECK(stats_of(pool).free_bytes >= 4000000);
  CHECK_OK(pyd_pool_acquire(pool, 6 << 20, &large));
  CHECK(stats_of(pool).peak_bytes <= 8 << 20);
  for (int i = 0; i < 40; ++i) CHECK_OK(pyd_pool_acquire(pool, 40000, &small[i]));
  CHECK_REFUSED(pyd_pool_acquire(pool, 1 << 20, &more), OUT_OF_MEMORY, "limit");
  pyd_pool_release(pool, large);
  CHECK_OK(pyd_pool_acquire(pool, 1 << 20, &more));
  pyd_pool_release(pool, more);
  for (int i = 0; i < 40; ++i) pyd_pool_release(pool, small[i]);
  pyd_pool_destroy(pool);
}

static void test_pages(void) {
  const size_t size = 3 * PYD_PAGES_UNIT;
  for (size_t huge = 0; huge <= size; huge += PYD_PAGES_UNIT / 2) {
    void* memory;
    CHECK_OK(pyd_pages_map(size, huge, &memory));
    CHECK((uintptr_t)memory % PYD_PAGES_UNIT == 0);
    uint8_t* bytes = memory;
    for (size_t i = 0; i < size; i += 4095) CHECK(bytes[i] == 0);
    memset(bytes - PYD_PAGES_FRONT, 0xFF, size + PYD_PAGES_FRONT);
    pyd_pages_unmap(memory, size);
  }
  void* none = &none;
  CHECK_REFUSED(pyd_pages_map(SIZE_MAX - PYD_PAGES_UNIT, 0, &none), OUT_OF_MEMORY, "the system has no 184467440737");
  CHECK(!none);
}

enum { THREADS = 4, SLOTS = 64, ROUNDS = PYD_HAS_TSAN ? 4000 : 20000 };  // TSAN runs them several times
static pyd_pool_t* shared_pool;
static _Atomic(uint8_t*) slots[SLOTS];
static void* exchange(void* argument) {
  uint64_t random = (uintptr_t)argument * 0x9E3779B97F4A7C15u + 1;
  for (int i = 0; i < ROUNDS; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t size = (size_t)(random >> 33) % (i % 500 == 0 ? 3u << 20 : 5000) + 8;
    void* block;
    CHECK_OK(pyd_pool_acquire(shared_pool, size, &block));
    uint8_t* bytes = block;
    bytes[0] = bytes[7] = (uint8_t)random;
    uint8_t* other = atomic_exchange(&slots[(random >> 20) % SLOTS], bytes);
    if (other) CHECK(other[0] == other[7]);  // whole, whoever wrote it
    pyd_pool_release(shared_pool, other);
    if (i % (ROUNDS / 4) == 0) pyd_pool_trim(shared_pool);
  }
  return NULL;
}
static void test_threads(void) {
  shared_pool = make_pool(4 << 20);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, exchange, (void*)(i + 1)) == 0);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < SLOTS; ++i) pyd_pool_release(shared_pool, slots[i]);
  CHECK(stats_of(shared_pool).live_blocks == 0 && stats_of(shared_pool).live_bytes == 0);
  CHECK(stats_of(shared_pool).free_bytes <= 4 << 20);
  pyd_pool_destroy(shared_pool);
}

// Blocks that come from the system and blocks that were released are filled, small and large ones.
static void test_poison(void) {
  setenv("PYDISPATCH_CHECK", "poison", 1);
  pyd_pool_t* pool = make_pool(UINT64_MAX);
  CHECK(pyd_pool_is_poisoned(pool));
  for (size_t size = 1; size < (4 << 20); size *= 5) {
    for (int use = 0; use < 2; ++use) {
      void* block;
      CHECK_OK(pyd_pool_acquire(pool, size, &block));
      for (size_t i = 0; i < size; i += 1 + i / 9) CHECK(((uint8_t*)block)[i] == PYD_POISON_BYTE);
      memset(block, 0, size);
      pyd_pool_release(pool, block);
    }
  }
  void* none;
  CHECK_REFUSED(pyd_pool_acquire(pool, SIZE_MAX, &none), OUT_OF_MEMORY, "no memory for a buffer");
  pyd_pool_destroy(pool);
  setenv("PYDISPATCH_CHECK", "poisson", 1);
  pyd_status_t status = pyd_pool_create(0, &pool);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT && !pool);
  pyd_status_free(status);
  for (int is_set = 1; is_set >= 0; --is_set) {
    CHECK((is_set ? setenv("PYDISPATCH_CHECK", "", 1) : unsetenv("PYDISPATCH_CHECK")) == 0);
    pool = make_pool(0);
    CHECK(!pyd_pool_is_poisoned(pool));
    pyd_pool_destroy(pool);
  }
}

// A block that fits the limit is there for one thread, whatever others attempt that does not fit, and while they
// release.
static atomic_int is_over;
static void* ask_too_much(void* pool) {
  while (!atomic_load(&is_over)) {
    void* block;
    CHECK_REFUSED(pyd_pool_acquire(pool, 60 << 20, &block), OUT_OF_MEMORY,
                  "of the device's limit of 104857600 are in use");
  }
  return NULL;
}
static void test_limit_of_threads(void) {
  pyd_pool_t* pool = make_pool(0);
  pthread_t thread;
  void *held, *block;
  pyd_pool_set_limit(pool, 100 << 20);
  CHECK_OK(pyd_pool_acquire(pool, 50 << 20, &held));
  CHECK(!pthread_create(&thread, NULL, ask_too_much, pool));
  for (int i = 0; i < ROUNDS; ++i) {
    CHECK_OK(pyd_pool_acquire(pool, i % 2 ? 40 << 20 : 1 << 20, &block));
    pyd_pool_release(pool, block);
  }
  atomic_store(&is_over, 1);
  CHECK(!pthread_join(thread, NULL));
  pyd_pool_release(pool, held);
  CHECK(stats_of(pool).live_bytes == 0 && stats_of(pool).free_bytes == 0);
  pyd_pool_destroy(pool);
}

int main(void) {
  unsetenv("PYDISPATCH_CHECK");
  if (!PYD_HAS_TSAN) {  // which finds nothing in one thread
    test_poison();
    test_sizes();
    test_large_reuse();
    test_best_fit();
    test_limit();
    test_pages();
  }
  test_limit_of_threads();
  test_threads();
  return 0;
}
