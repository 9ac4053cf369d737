// Address ranges of a loaded module, against which its code, symbols and strings are checked.
#include <string.h>

#include "pydispatch/elf.h"

// Returns the segment that holds all |size| bytes at |address|, or NULL.
static const pyd_elf_memory_t* find_memory(const pyd_elf_module_t* module, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < module->segment_count; ++i) {
    const pyd_elf_memory_t* memory = &module->segments[i];
    if (address >= memory->address && size <= memory->size && address - memory->address <= memory->size - size)
      return memory;
  }
  return NULL;
}

// Returns whether |address| is in bytes that the file stores in an executable segment.
bool pyd_elf_module_is_code(const pyd_elf_module_t* module, uint64_t address) {
  const pyd_elf_memory_t* memory = find_memory(module, address, 1);
  return memory && memory->is_code && address - memory->address < memory->stored;
}

// Returns whether one segment holds all |size| bytes at |address|, so that they may be read; true for an empty range.
bool pyd_elf_module_holds(const pyd_elf_module_t* module, const void* address, uint64_t size) {
  return size == 0 || find_memory(module, (uintptr_t)address, size) != NULL;
}

// Returns whether |text| is a string that ends inside its segment, after |limit| bytes at most.
bool pyd_elf_module_holds_text(const pyd_elf_module_t* module, const char* text, uint64_t limit) {
  const pyd_elf_memory_t* memory = find_memory(module, (uintptr_t)text, 1);
  if (!memory) return false;
  uint64_t left = memory->size - ((uintptr_t)text - memory->address);
  return memchr(text, 0, (size_t)(left <= limit ? left : limit + 1)) != NULL;  // |limit| excludes the 0
}
