// links: base platform elf fatelf artifact imports executable memory plugin sched process program api standalone
// Tables of programs that were built with an older or a newer header: no byte beyond them is written.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/standalone.h"

#define CHECK(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), exit(1)))

enum { kHead = 8, kSlot = sizeof(void*), kRoom = sizeof(pyd_api_t) + 4 * kSlot };

static union {
  pyd_api_t table;
  unsigned char bytes[kRoom];
} filled;

// Whether the table has |size| bytes and nothing after them was written.
static int ends_at(size_t size) {
  for (size_t i = size; i < kRoom; ++i) {
    if (filled.bytes[i] != 0xA5) return 0;
  }
  return size < kHead || (filled.table.version == PYD_API_VERSION && filled.table.size == size);
}

static void clear(void) { memset(&filled, 0xA5, sizeof(filled)); }

int main(void) {
  for (size_t size = 0; size <= kRoom; ++size) {
    clear();
    pyd_standalone_fill_sized(&filled.table, size);
    const size_t known = size < sizeof(pyd_api_t) ? size : sizeof(pyd_api_t);
    CHECK(ends_at(known < kHead ? 0 : kHead + (known - kHead) / kSlot * kSlot));
  }
  clear();
  pyd_standalone_fill(&filled.table);
  CHECK(ends_at(sizeof(pyd_api_t)) && PYD_API_HAS(&filled.table, program_load));
  clear();
#undef pyd_standalone_fill
  void pyd_standalone_fill(pyd_api_t * out_table);  // as before, of programs that state no size
  pyd_standalone_fill(&filled.table);
  CHECK(ends_at(offsetof(pyd_api_t, memory_import)) && !PYD_API_HAS(&filled.table, memory_import));
  CHECK(filled.table.call_run_timed && filled.table.device_open);
  return 0;
}
