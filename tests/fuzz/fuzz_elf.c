// Any bytes: pyd_elf_validate says yes or no, reads nothing outside them, and tells the machine exactly when it says yes.
// Then the relocations of an accepted file are written into memory as large as its image, at an odd bias.
// links: base platform elf
#include <stdlib.h>
#include <string.h>

#include "elf/view.h"

// Every name that a debugger would be told is read to its end.
static void list_symbols(const pyd_elf_view_t* view, uint8_t* image) {
  size_t size = (size_t)(view->high - view->low);
  const uint64_t bias = (uint64_t)(uintptr_t)image - view->low;
  pyd_elf_module_t module = {.memory = image, .memory_size = size, .bias = bias, .low_vaddr = view->low};
  pyd_elf_symbol_t symbols[32];
  uint64_t count = pyd_elf_debug_symbols(view->file, &module, symbols, 32);
  for (uint64_t i = 0; i < count && i < 32; ++i) {
    size_t at = (size_t)((uint8_t*)symbols[i].address - image);
    if (at >= size || symbols[i].size > size - at || strlen(symbols[i].name) == 0) abort();
  }
}

static void relocate_for_real(pyd_span_t file) {
  pyd_elf_view_t view;
  pyd_status_t st = pyd_elf_parse(file, 4096, &view);
  if (pyd_ok(st) && view.high - view.low < 1 << 24) {
    uint8_t* image = calloc(1, (size_t)(view.high - view.low));
    if (image) {
      pyd_status_free(st);
      st = pyd_elf_relocate(&view, image, UINT64_C(0x7f1234560000));
      list_symbols(&view, image);
    }
    free(image);
  }
  pyd_status_free(st);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that the sanitizer sees one byte too far.
  uint8_t* bytes = malloc(size ? size : 1);
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  pyd_span_t file = {bytes, size};
  uint32_t machine = 1;
  pyd_status_t st = pyd_elf_validate(file, &machine);
  if (pyd_ok(st) != (pyd_elf_machine_name(machine) != NULL)) abort();
  if (!pyd_ok(st) && pyd_status_text(st)[0] == 0) abort();
  pyd_status_free(st);
  relocate_for_real(file);
  free(bytes);
  return 0;
}
