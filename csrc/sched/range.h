// A range of indices [begin, end) of one window in one atomic 64-bit cell. Its owner claims indices at the front and
// thieves claim them at the back, with one compare-exchange each.
//
// The value of the cell alone defines which indices are unclaimed, and a claimed index never becomes unclaimed again.
// So a compare-exchange that succeeds on a value read earlier is correct even if the cell changed to another value and
// back (ABA). Cells publish no other data, as joining the job publishes what a body reads: accesses are relaxed, apart
// from those by which a thief learns of other thieves (work.c).
#ifndef PYD_SCHED_RANGE_H_
#define PYD_SCHED_RANGE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint64_t pyd_range_cell_t;

// Indices from |begin| to before |end|.
typedef struct pyd_range_s {
  uint32_t begin;
  uint32_t end;
} pyd_range_t;

// Returns the value of a cell: |begin| in the lower half, |end| in the upper half.
static inline uint64_t pyd_range_pack(uint32_t begin, uint32_t end) { return (uint64_t)end << 32 | begin; }

static inline pyd_range_t pyd_range_unpack(uint64_t bits) {
  return (pyd_range_t){.begin = (uint32_t)bits, .end = (uint32_t)(bits >> 32)};
}

static inline pyd_range_t pyd_range_load(const pyd_range_cell_t* cell) {
  return pyd_range_unpack(atomic_load_explicit(cell, memory_order_relaxed));
}

// Stores a range in the cell of its owner. Only the owner may store, and only while the cell is empty: no other thread
// changes an empty cell.
static inline void pyd_range_store(pyd_range_cell_t* cell, pyd_range_t range) {
  atomic_store_explicit(cell, pyd_range_pack(range.begin, range.end), memory_order_relaxed);
}

static inline uint32_t pyd_range_size(pyd_range_t range) { return range.end - range.begin; }

// Claims |count| indices (1 <= count <= size) at the front of |seen|, the value that the owner has read. Returns false
// if a thief has changed the cell meanwhile.
static inline bool pyd_range_take(pyd_range_cell_t* cell, pyd_range_t seen, uint32_t count) {
  uint64_t expected = pyd_range_pack(seen.begin, seen.end);
  return atomic_compare_exchange_strong_explicit(cell, &expected, pyd_range_pack(seen.begin + count, seen.end),
                                                 memory_order_relaxed, memory_order_relaxed);
}

// Returns whether all indices of the cell are claimed. The load pairs with the release in pyd_range_steal(): if thieves
// have emptied the cell, the caller sees what they wrote before, such as their theft counts.
static inline bool pyd_range_is_empty(const pyd_range_cell_t* cell) {
  return !pyd_range_size(pyd_range_unpack(atomic_load_explicit(cell, memory_order_acquire)));
}

// Claims the upper half of a range for another participant, rounded up, so that a single index can be stolen. Returns
// false if the range is empty.
static inline bool pyd_range_steal(pyd_range_cell_t* cell, pyd_range_t* out_stolen) {
  uint64_t bits = atomic_load_explicit(cell, memory_order_relaxed);
  for (;;) {  // a failed exchange has read the new value into |bits|
    pyd_range_t seen = pyd_range_unpack(bits);
    if (seen.begin == seen.end) return false;
    uint32_t middle = seen.begin + pyd_range_size(seen) / 2;
    if (atomic_compare_exchange_weak_explicit(cell, &bits, pyd_range_pack(seen.begin, middle), memory_order_release,
                                              memory_order_relaxed)) {
      *out_stolen = (pyd_range_t){.begin = middle, .end = seen.end};
      return true;
    }
  }
}

#endif  // PYD_SCHED_RANGE_H_
