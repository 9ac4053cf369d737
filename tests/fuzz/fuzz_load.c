// Any bytes as an embedded ELF of this machine, mapped, relocated and protected, but never entered: files with initialisers
// or finalisers get code that returns at once. Symbols of the loaded image are looked up, and unloading leaves nothing.
// links: base platform elf
// corpus: elf
#include "elf/format.h"
#include "elf/view.h"
#include "pydispatch/artifact.h"
#include "take.h"

// Fills executable segments with `ret`. False when a hook could still lie elsewhere: in bytes that the file does not store.
static bool disarm(uint8_t* bytes, const pyd_elf_view_t* view) {
#if defined(__x86_64__)
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* s = &view->segments[i];
    if (!(s->flags & PF_X)) continue;
    if (s->file_size != s->memory_size) return false;
    memset(bytes + s->offset, 0xC3, (size_t)s->file_size);
  }
  return true;
#else
  (void)bytes;
  return !view->init && !view->fini && !view->init_array.size && !view->fini_array.size;
#endif
}

static void find(const pyd_elf_module_t* module, const char* name) {
  uint8_t* found = pyd_elf_module_symbol(module, name);
  require(!found || (found >= module->memory && found <= module->memory + module->memory_size));
}

static void look_up(const pyd_elf_module_t* module) {
  pyd_elf_symbol_t symbol;
  find(module, "");
  find(module, "most often no such symbol");
  for (uint64_t i = 0; i < module->symbol_count && i < 64; ++i) {
    if (pyd_elf_module_symbol_at(module, i, &symbol)) find(module, symbol.name);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint8_t* bytes = malloc(size ? size : 1);
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  pyd_span_t file = {bytes, size};
  pyd_elf_view_t view;
  pyd_elf_module_t module;
  pyd_status_t status = pyd_elf_parse(file, 4096, &view);
  bool is_small = pyd_ok(status) && view.high - view.low < 1 << 22 && view.alignment <= 1 << 21 && disarm(bytes, &view);
  pyd_status_free(status);
  if (is_small) {
    // What was filled may have been tables, too: seen again as a file of its own.
    status = pyd_elf_parse(file, 4096, &view);
    bool is_same = pyd_ok(status) && view.high - view.low < 1 << 22 && view.alignment <= 1 << 21;
    for (uint32_t i = 0; is_same && i < view.segment_count; ++i) {
      const pyd_elf_segment_t* s = &view.segments[i];
      for (uint64_t k = 0; is_same && (s->flags & PF_X) && k < s->memory_size; ++k) is_same = k < s->file_size && bytes[s->offset + k] == 0xC3;
    }
    pyd_status_free(status);
    if (is_same) {
      status = pyd_elf_module_load(file, &module);
      require(pyd_ok(status) == (module.memory != NULL) && (pyd_ok(status) || pyd_status_text(status)[0]));
      if (pyd_ok(status)) look_up(&module);
      pyd_status_free(status);
      pyd_elf_module_unload(&module);
      require(module.memory == NULL);
    }
  }
  free(bytes);
  return 0;
}
