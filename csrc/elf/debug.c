// Reads the full symbol table of a file, for debuggers only. No other code reads section headers, and nothing depends
// on the result, so a malformed table is ignored.
#include "base/span.h"
#include "elf/format.h"
#include "elf/view.h"

// Returns the bytes of the section with this header; empty when they are not in the file.
static pyd_span_t section_bytes(pyd_span_t file, const uint8_t* header) {
  uint64_t size = pyd_load_u64(header + SH_SIZE);
  const uint8_t* bytes = pyd_span_get(file, pyd_load_u64(header + SH_OFFSET), size);
  return (pyd_span_t){bytes, bytes ? (size_t)size : 0};
}

// Reads a record of the symbol table. |names|: its string table, which ends with a 0. Returns false unless the symbol
// is a function or an object in the memory of |module| with a name that is not too long.
static bool read_symbol(const uint8_t* record, pyd_span_t names, const pyd_elf_module_t* module,
                        pyd_elf_symbol_t* out_symbol) {
  uint64_t low = module->bias + module->low_vaddr;  // first address of the module; |room|: bytes from there on
  uint64_t room = (uint64_t)(uintptr_t)(module->memory + module->memory_size) - low;
  uint64_t offset = pyd_load_u64(record + SYM_VALUE) - module->low_vaddr, size = pyd_load_u64(record + SYM_SIZE_OF);
  uint32_t type = record[SYM_INFO] & 15, section = pyd_load_u16(record + SYM_SHNDX),
           name = pyd_load_u32(record + SYM_NAME);
  if (type != STT_FUNC && type != STT_OBJECT) return false;
  if (section == SHN_UNDEF || section == SHN_ABS || offset >= room || name >= names.size || !names.data[name])
    return false;
  size_t left = names.size - name, limit = PYD_ELF_MAX_LISTED_NAME + 1;
  if (!memchr(names.data + name, 0, left < limit ? left : limit)) return false;
  *out_symbol = (pyd_elf_symbol_t){
      .name = (const char*)names.data + name,
      .address = (void*)(uintptr_t)(low + offset),
      .size = size < room - offset ? size : room - offset,
      .is_function = type == STT_FUNC,
  };
  return true;
}

// Returns the number of symbols, of which the first |capacity| are written.
uint64_t pyd_elf_debug_symbols(pyd_span_t file, const pyd_elf_module_t* module, pyd_elf_symbol_t* out_symbols,
                               uint64_t capacity) {
  const uint8_t* header = pyd_span_get(file, 0, PYD_ELF_HEADER_SIZE);
  if (!header || !module->memory || pyd_load_u16(header + EH_SHENTSIZE) != PYD_ELF_SHDR_SIZE) return 0;
  uint64_t sections = pyd_load_u16(header + EH_SHNUM), count = 0;
  const uint8_t* table = pyd_span_get(file, pyd_load_u64(header + EH_SHOFF), sections * PYD_ELF_SHDR_SIZE);
  for (uint64_t i = 0; table && i < sections; ++i) {
    const uint8_t* section = table + i * PYD_ELF_SHDR_SIZE;
    uint32_t link = pyd_load_u32(section + SH_LINK);
    if (pyd_load_u32(section + SH_TYPE) != SHT_SYMTAB || link >= sections) continue;
    pyd_span_t symbols = section_bytes(file, section), names = section_bytes(file, table + link * PYD_ELF_SHDR_SIZE);
    if (names.size == 0 || names.data[names.size - 1] != 0) return 0;
    for (size_t at = 0; symbols.size - at >= PYD_ELF_SYM_SIZE; at += PYD_ELF_SYM_SIZE) {
      pyd_elf_symbol_t symbol;
      if (!read_symbol(symbols.data + at, names, module, &symbol)) continue;
      if (count < capacity) out_symbols[count] = symbol;
      ++count;
    }
    return count;  // a file has at most one SHT_SYMTAB
  }
  return 0;
}
