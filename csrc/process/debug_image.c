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

// A section header, Elf64_Shdr. |name|: offset in the name table. |offset| and |size|: in the file, bytes.
typedef struct section_s {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
} section_t;

// A symbol, Elf64_Sym. |name|: offset in the name table. |section|: SECTION_TEXT or SHN_ABS. |size|: bytes.
typedef struct symbol_s {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
} symbol_t;

// Indices of the sections.
enum { SECTION_NULL, SECTION_TEXT, SECTION_SYMTAB, SECTION_STRTAB, SECTION_COUNT };
// Begin of the name table, with the names of the sections at the offsets below. The names of symbols follow.
static const char kNames[] = "\0.text\0.symtab\0.strtab";
enum { NAME_TEXT = 1, NAME_SYMTAB = 7, NAME_STRTAB = 15 };

// Values of fields, as in the gABI.
enum {
  ET_EXEC = 2,  // addresses are absolute
  SHT_SYMTAB = 2,
  SHT_STRTAB = 3,
  SHT_NOBITS = 8,  // the section has no bytes in the file
  SHF_ALLOC = 2,
  SHF_EXECINSTR = 4,
  SHN_ABS = 0xfff1,
  STT_OBJECT = 1,
  STT_FUNC = 2,
  STT_FILE = 4,  // of binding STB_LOCAL, which is 0
  STB_GLOBAL = 1 << 4,
};

// Offsets in the file, in bytes, and sizes. The parts in order: file header, section headers, symbols, names.
typedef struct layout_s {
  size_t symbol_count;  // with the null symbol and the file's name
  size_t symbols_at;
  size_t names_at;
  size_t names_size;  // bytes of all names with their terminators
} layout_t;

// Computes where the parts of the file are.
static layout_t lay_out(const pyd_process_code_info_t* info) {
  layout_t layout = {.symbol_count = info->symbol_count + 2};
  layout.symbols_at = sizeof(header_t) + SECTION_COUNT * sizeof(section_t);
  layout.names_at = layout.symbols_at + layout.symbol_count * sizeof(symbol_t);
  layout.names_size = sizeof(kNames) + strlen(info->name) + 1;
  for (size_t i = 0; i < info->symbol_count; ++i) layout.names_size += strlen(info->symbols[i].name) + 1;
  return layout;
}

// Writes the file header.
static void write_header(const pyd_process_code_info_t* info, header_t* out) {
  static const uint8_t kIdent[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};  // 64-bit, little-endian, version 1
  memcpy(out->ident, kIdent, sizeof(kIdent));
  out->type = ET_EXEC;
  out->machine = (uint16_t)info->machine;
  out->version = 1;
  out->section_offset = sizeof(header_t);
  out->size = sizeof(header_t);
  out->section_size = sizeof(section_t);
  out->section_count = SECTION_COUNT;
  out->names_index = SECTION_STRTAB;
}

// Writes the section headers: the code, the symbols and their names.
static void write_sections(const pyd_process_code_info_t* info, const layout_t* layout, section_t* out) {
  out[SECTION_TEXT] = (section_t){.name = NAME_TEXT,
                                  .type = SHT_NOBITS,  // the code is in memory already
                                  .flags = SHF_ALLOC | SHF_EXECINSTR,
                                  .address = (uint64_t)(uintptr_t)info->address,
                                  .offset = layout->symbols_at,
                                  .size = info->size,
                                  .alignment = 16};
  out[SECTION_SYMTAB] = (section_t){.name = NAME_SYMTAB,
                                    .type = SHT_SYMTAB,
                                    .offset = layout->symbols_at,
                                    .size = layout->symbol_count * sizeof(symbol_t),
                                    .link = SECTION_STRTAB,
                                    .info = 2,  // number of local symbols: the null symbol and the file's name
                                    .alignment = 8,
                                    .entry_size = sizeof(symbol_t)};
  out[SECTION_STRTAB] = (section_t){
      .name = NAME_STRTAB, .type = SHT_STRTAB, .offset = layout->names_at, .size = layout->names_size, .alignment = 1};
}

// Appends |name| with its terminator to |names|, of which |*used| bytes are written. Returns its offset.
static uint32_t append_name(char* names, size_t* used, const char* name) {
  const size_t offset = *used, length = strlen(name) + 1;
  memcpy(names + offset, name, length);
  *used += length;
  return (uint32_t)offset;
}

// Writes the symbols of |info| at their absolute addresses, and all names.
static void write_symbols(const pyd_process_code_info_t* info, symbol_t* out_symbols, char* out_names) {
  size_t used = sizeof(kNames);
  memcpy(out_names, kNames, sizeof(kNames));
  uint32_t file_name = append_name(out_names, &used, info->name);
  out_symbols[1] = (symbol_t){.name = file_name, .info = STT_FILE, .section = SHN_ABS};
  for (size_t i = 0; i < info->symbol_count; ++i) {
    const pyd_process_symbol_t* from = &info->symbols[i];
    out_symbols[i + 2] = (symbol_t){.name = append_name(out_names, &used, from->name),
                                    .info = (uint8_t)(STB_GLOBAL | (from->is_function ? STT_FUNC : STT_OBJECT)),
                                    .section = SECTION_TEXT,
                                    .value = (uint64_t)(uintptr_t)from->address,
                                    .size = from->size};
  }
}

// Builds an ELF file with the symbols of |info| at their absolute addresses, for a debugger. The caller frees
// |*out_bytes|.
pyd_status_t pyd_process_debug_image_make(const pyd_process_code_info_t* info, uint8_t** out_bytes, size_t* out_size) {
  const layout_t layout = lay_out(info);
  *out_size = layout.names_at + layout.names_size;
  uint8_t* bytes = *out_bytes = calloc(1, *out_size);
  if (!bytes) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to announce code (%zu bytes)", *out_size);
  write_header(info, (header_t*)bytes);
  write_sections(info, &layout, (section_t*)(bytes + sizeof(header_t)));
  write_symbols(info, (symbol_t*)(bytes + layout.symbols_at), (char*)bytes + layout.names_at);
  return PYD_STATUS_OK;
}
