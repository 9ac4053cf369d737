// The FatELF reader on any bytes: it never reads outside them, and what it hands out lies inside them, behind the records.
// links: base fatelf
#include <stdlib.h>
#include <string.h>

#include "pydispatch/fatelf.h"

static void require(bool condition) {
  if (!condition) abort();
}

static void check_range(pyd_span_t file, pyd_span_t elf, size_t table_end) {
  require(elf.size > 0 && elf.data >= file.data + table_end && elf.size <= (size_t)(file.data + file.size - elf.data));
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint8_t* bytes = malloc(size ? size : 1);  // of exactly this size, so that the sanitizer sees one byte too far
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  pyd_span_t file = {bytes, size}, elf;
  uint32_t count = 0;
  pyd_status_t opened = pyd_fatelf_open(file, &count);
  size_t table_end = PYD_FATELF_HEADER_SIZE + (size_t)count * PYD_FATELF_RECORD_SIZE;
  for (uint32_t i = 0; i <= count; ++i) {
    pyd_fatelf_record_t record;
    pyd_status_t status = pyd_fatelf_record(file, i, &record, &elf);
    require(pyd_ok(status) || pyd_status_text(status)[0] != 0);
    if (pyd_ok(status)) check_range(file, elf, table_end);
    pyd_status_free(status);
  }
  const uint32_t machines[] = {62, 183, 243};
  for (size_t i = 0; i < 3; ++i) {
    pyd_status_t status = pyd_fatelf_select(file, machines[i], "it", &elf);
    if (!pyd_fatelf_is(file)) {
      require(pyd_ok(status) && elf.data == bytes && elf.size == size);
    } else if (pyd_ok(status)) {
      require(pyd_ok(opened));
      check_range(file, elf, table_end);
    } else {
      require(elf.data == NULL);
    }
    pyd_status_free(status);
  }
  pyd_status_free(opened);
  free(bytes);
  return 0;
}
