// A small ELF file that describes loaded code to a debugger of this process.
#include "process/debug_image.h"

#include <stdlib.h>
#include <string.h>

// The file header of 64-bit ELF (System V gABI, chapter 4), as are section_t and symbol_t below. Native byte order and
// natural layout: the reader is a debugger of this very process.
typedef struct header_s {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_offset, section_offset;
  uint32_t flags;
  uint16_t size, program_size, program_count, section_size, section_count, names_index;
} header_t;

typedef struct section_s {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
} section_t;

typedef struct symbol_s {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
} symbol_t;

// Indices of the sections.
enum { SECTION_NULL, SECTION_TEXT, SECTION_SYMTAB, SECTION_STRTAB, SECTION_COUNT };
static const char kNames[] = "\0.text\0.symtab\0.strtab";  // at 0, 1, 7, 15; the symbols' names follow

// Builds an ELF file with the symbols of |info| at their absolute addresses, for a debugger. Its parts, in order: file
// header, section headers, symbols, names. The caller frees |*out_bytes|.
pyd_status_t pyd_process_debug_image_make(const pyd_process_code_info_t* info, uint8_t** out_bytes, size_t* out_size) {
  size_t count = info->symbol_count + 2;  // the null symbol, the file's name
  // Bytes of all names with their terminators.
  size_t names = sizeof(kNames) + strlen(info->name) + 1;
  for (size_t i = 0; i < info->symbol_count; ++i) names += strlen(info->symbols[i].name) + 1;
  size_t symbols_at = sizeof(header_t) + SECTION_COUNT * sizeof(section_t);
  size_t names_at = symbols_at + count * sizeof(symbol_t);
  *out_size = names_at + names;
  uint8_t* bytes = *out_bytes = calloc(1, *out_size);
  if (!bytes) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to announce code (%zu bytes)", *out_size);

  header_t* header = (header_t*)bytes;
  static const uint8_t kIdent[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};  // 64-bit, little-endian, version 1
  memcpy(header->ident, kIdent, sizeof(kIdent));
  header->type = 2;  // ET_EXEC: addresses are absolute
  header->machine = (uint16_t)info->machine;
  header->version = 1;
  header->section_offset = sizeof(header_t);
  header->size = sizeof(header_t);
  header->section_size = sizeof(section_t);
  header->section_count = SECTION_COUNT;
  header->names_index = SECTION_STRTAB;

  uint64_t address = (uint64_t)(uintptr_t)info->address;
  section_t* sections = (section_t*)(bytes + sizeof(header_t));
  // .text: SHT_NOBITS, as the code is in memory already; SHF_ALLOC | SHF_EXECINSTR. .symtab: |info| is the number of
  // local symbols, the first two.
  sections[SECTION_TEXT] = (section_t){
      .name = 1, .type = 8, .flags = 6, .address = address, .offset = symbols_at, .size = info->size, .alignment = 16};
  sections[SECTION_SYMTAB] = (section_t){.name = 7,
                                         .type = 2,
                                         .offset = symbols_at,
                                         .size = count * sizeof(symbol_t),
                                         .link = SECTION_STRTAB,
                                         .info = 2,
                                         .alignment = 8,
                                         .entry_size = sizeof(symbol_t)};
  sections[SECTION_STRTAB] = (section_t){.name = 15, .type = 3, .offset = names_at, .size = names, .alignment = 1};

  symbol_t* symbols = (symbol_t*)(bytes + symbols_at);
  char* text = (char*)bytes + names_at;
  memcpy(text, kNames, sizeof(kNames));
  // Bytes of |text| that are written; a symbol's name is the offset of its text.
  size_t used = sizeof(kNames);
  symbols[1] = (symbol_t){.name = (uint32_t)used, .info = 4, .section = 0xfff1};  // STB_LOCAL, STT_FILE, SHN_ABS
  memcpy(text + used, info->name, strlen(info->name) + 1);
  used += strlen(info->name) + 1;
  for (size_t i = 0; i < info->symbol_count; ++i) {
    const pyd_process_symbol_t* from = &info->symbols[i];
    symbols[i + 2] = (symbol_t){.name = (uint32_t)used,
                                // STB_GLOBAL; STT_FUNC or STT_OBJECT
                                .info = (uint8_t)(1 << 4 | (from->is_function ? 2 : 1)),
                                .section = SECTION_TEXT,
                                .value = (uint64_t)(uintptr_t)from->address,
                                .size = from->size};
    size_t length = strlen(from->name) + 1;
    memcpy(text + used, from->name, length);
    used += length;
  }
  return PYD_STATUS_OK;
}
