// Checks shared by all systems with ELF libraries before they open one. Included only by the dl_<os>.c files.
#ifndef PYD_PLATFORM_DL_ELF_H_
#define PYD_PLATFORM_DL_ELF_H_

#include <inttypes.h>

#include "base/span.h"
#include "platform/dl.h"
#include "platform/sanitizer.h"
#include "pydispatch/elf.h"

// Sizes of records in bytes, the file type of shared libraries, and the tags of the dynamic section (System V gABI,
// chapters 4 and 5).
enum { kElfHeader = 64, kElfShared = 3, kProgramHeader = 56, kDynamicEntry = 16, kRelocation = 24, kSymbol = 24 };
enum {
  kRelocationBytesOfPlt = 2,  // DT_PLTRELSZ
  kNames = 5,                 // DT_STRTAB
  kSymbols = 6,               // DT_SYMTAB
  kRela = 7,                  // DT_RELA
  kRelaBytes = 8,             // DT_RELASZ
  kNamesBytes = 10,           // DT_STRSZ
  kRel = 17,                  // DT_REL
  kRelocationsOfPlt = 23,     // DT_JMPREL
  kAndroidRel = 0x6000000f,   // DT_ANDROID_REL
  kAndroidRela = 0x60000011,  // DT_ANDROID_RELA
};

// Checks that |file| is a shared library for this machine. Messages have no subject: the caller puts the file's name
// before them.
static pyd_status_t check_elf_header(pyd_span_t file) {
  const uint8_t* header = pyd_span_get(file, 0, kElfHeader);
  if (file.size < 4 || memcmp(file.data, "\177ELF", 4) != 0) {
    return pyd_status_make(PYD_CODE_CORRUPT, "is not an ELF file: it does not start with 7F 45 4C 46");
  }
  if (!header) return pyd_status_make(PYD_CODE_CORRUPT, "is cut off after %zu bytes, an ELF header has 64", file.size);
  if (header[/* EI_CLASS */ 4] != 2 || header[/* EI_DATA */ 5] != 1) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "has ELF class %u and byte order %u, expected 2 and 1 (64-bit, little-endian)", header[4],
                           header[5]);
  }
  uint32_t type = pyd_load_u16(header + 16), machine = pyd_load_u16(header + 18);  // e_type, e_machine
  uint32_t host = pyd_elf_machine_host();
  if (machine != host) {
    const char* name = pyd_elf_machine_name(machine);
    const char* host_name = pyd_elf_machine_name(host);
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "is for %s (ELF machine %u), this machine is %s",
                           name ? name : "another machine", machine, host_name ? host_name : "of another kind");
  }
  if (type != kElfShared) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "has ELF type %u, expected 3: link it with -shared", type);
  }
  return PYD_STATUS_OK;
}

// Returns the bytes of the file that are loaded at |vaddr|, up to the end of their segment; empty if the file has none,
// or for 0, where no table can be. |headers|: its |count| program headers.
static pyd_span_t loaded_bytes(pyd_span_t file, const uint8_t* headers, uint32_t count, uint64_t vaddr) {
  for (uint32_t i = 0; vaddr && i < count; ++i) {
    const uint8_t* header = headers + (size_t)i * kProgramHeader;
    // p_offset, p_vaddr, p_filesz
    uint64_t offset = pyd_load_u64(header + 8), start = pyd_load_u64(header + 16), size = pyd_load_u64(header + 32);
    if (pyd_load_u32(header) != 1 /* PT_LOAD */ || vaddr < start || vaddr - start >= size) continue;
    const uint8_t* bytes = pyd_span_get(file, offset, size);
    if (bytes) return (pyd_span_t){bytes + (vaddr - start), (size_t)(size - (vaddr - start))};
  }
  return (pyd_span_t){0};
}

// Tables that the dynamic section of a library points at. An empty one is missing, or is not in the file.
typedef struct elf_tables_s {
  pyd_span_t names;              // string table of the symbols that it defines or imports
  pyd_span_t symbols;            // up to the end of their segment: ELF states no count
  pyd_span_t relocations[2];     // DT_RELA and DT_JMPREL, up to the end of their segment
  uint64_t relocation_bytes[2];  // as the library states them; may exceed the bytes in the file
  bool has_other_relocations;    // in the formats REL or Android's, which are not read
} elf_tables_t;

// The addresses and sizes of an ELF file's tables that its dynamic section states, by the tags of its entries.
typedef struct elf_dynamic_s {
  uint64_t names, name_bytes;  // DT_STRTAB, DT_STRSZ
  uint64_t symbols;            // DT_SYMTAB
  uint64_t rela, plt;          // DT_RELA, DT_JMPREL
} elf_dynamic_t;

// Reads the entries of a dynamic section of |size| bytes. Stores sizes and formats of relocations in |out_tables|.
static elf_dynamic_t read_elf_dynamic(const uint8_t* entries, uint64_t size, elf_tables_t* out_tables) {
  elf_dynamic_t dynamic = {0};
  for (uint64_t at = 0; entries && size >= kDynamicEntry && at <= size - kDynamicEntry; at += kDynamicEntry) {
    uint64_t tag = pyd_load_u64(entries + at), value = pyd_load_u64(entries + at + 8);
    if (tag == 0) break;  // DT_NULL ends the section
    switch (tag) {
      case kNames: dynamic.names = value; break;
      case kNamesBytes: dynamic.name_bytes = value; break;
      case kSymbols: dynamic.symbols = value; break;
      case kRela: dynamic.rela = value; break;
      case kRelaBytes: out_tables->relocation_bytes[0] = value; break;
      case kRelocationsOfPlt: dynamic.plt = value; break;
      case kRelocationBytesOfPlt: out_tables->relocation_bytes[1] = value; break;
      case kRel:
      case kAndroidRel:
      case kAndroidRela: out_tables->has_other_relocations = true; break;
    }
  }
  return dynamic;
}

// Finds the tables of an ELF file whose header check_elf_header() accepted. Without a dynamic section, all are empty.
static void read_elf_tables(pyd_span_t file, elf_tables_t* out_tables) {
  uint32_t count = pyd_load_u16(file.data + 56);  // e_phnum; at 32: e_phoff, at 54: e_phentsize
  const uint8_t* headers = pyd_span_get(file, pyd_load_u64(file.data + 32), (uint64_t)count * kProgramHeader);
  *out_tables = (elf_tables_t){0};
  if (!headers || pyd_load_u16(file.data + 54) != kProgramHeader) return;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* header = headers + (size_t)i * kProgramHeader;
    if (pyd_load_u32(header) != 2 /* PT_DYNAMIC */) continue;
    uint64_t size = pyd_load_u64(header + 32);  // p_filesz; at 8: p_offset
    const uint8_t* entries = pyd_span_get(file, pyd_load_u64(header + 8), size);
    elf_dynamic_t dynamic = read_elf_dynamic(entries, size, out_tables);
    out_tables->names = loaded_bytes(file, headers, count, dynamic.names);
    if (dynamic.name_bytes < out_tables->names.size) out_tables->names.size = (size_t)dynamic.name_bytes;
    out_tables->symbols = loaded_bytes(file, headers, count, dynamic.symbols);
    out_tables->relocations[0] = loaded_bytes(file, headers, count, dynamic.rela);
    out_tables->relocations[1] = loaded_bytes(file, headers, count, dynamic.plt);
    return;
  }
}

// Returns whether a string table contains |name|, also as the end of a longer string: linkers store a string that is
// the end of another one only once.
static bool has_name(pyd_span_t names, const char* name) {
  size_t length = strlen(name) + 1;
  for (size_t i = 0; i + length <= names.size; ++i) {
    if (names.data[i] == (uint8_t)name[0] && memcmp(names.data + i, name, length) == 0) return true;
  }
  return false;
}

// Refuses a library built with a sanitizer that this process was not built with. The sanitizer's runtime ends the
// process when it is not the first code that runs in it, so such a library must not even be opened.
static pyd_status_t check_elf_sanitizer(pyd_span_t file) {
  static const struct {
    const char* symbol;
    const char* name;
    bool is_ours;
  } kRuntimes[] = {
      {"__asan_init", "address", PYD_HAS_ASAN},
      {"__tsan_init", "thread", PYD_HAS_TSAN},
      {"__msan_init", "memory", false},
  };
  elf_tables_t tables;
  read_elf_tables(file, &tables);
  for (size_t i = 0; i < sizeof(kRuntimes) / sizeof(kRuntimes[0]); ++i) {
    if (!kRuntimes[i].is_ours && has_name(tables.names, kRuntimes[i].symbol)) {
      return pyd_status_make(PYD_CODE_UNSUPPORTED,
                             "was built with the %s sanitizer, which this process was not: build it without",
                             kRuntimes[i].name);
    }
  }
  return PYD_STATUS_OK;
}

// Returns whether a function named by the first |size| bytes of |name| is known to write nothing to a stdio stream:
// arithmetic, memory, texts, and what compilers call.
static bool is_silent(const char* name, size_t size) {
  // '~' after a name: also with the suffix f or l, as math.h names the functions for float and long double.
  static const char kNames[] =
      " memcpy memmove memset memcmp memchr bcmp strlen strnlen strcmp strncmp strchr strrchr malloc calloc realloc free "
      "aligned_alloc posix_memalign __memcpy_chk __memmove_chk __memset_chk __stack_chk_fail __tls_get_addr __cxa_finalize "
      "__cxa_atexit __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable "
      "acos~ acosh~ asin~ asinh~ atan~ atan2~ atanh~ cbrt~ ceil~ copysign~ cos~ cosh~ erf~ erfc~ exp~ exp10~ exp2~ expm1~ "
      "fabs~ fdim~ floor~ fma~ fmax~ fmin~ fmod~ frexp~ hypot~ ilogb~ ldexp~ lgamma~ llrint~ llround~ log~ log10~ log1p~ "
      "log2~ logb~ lrint~ lround~ modf~ nearbyint~ nextafter~ pow~ remainder~ remquo~ rint~ round~ roundeven~ scalbln~ "
      "scalbn~ sin~ sincos~ sinh~ sqrt~ tan~ tanh~ tgamma~ trunc~ ";
  for (const char* at = kNames + 1; *at;) {
    size_t length = strcspn(at, " ~");
    bool has_types = at[length] == '~';
    bool begins = size >= length && memcmp(name, at, length) == 0;
    if (begins && size == length) return true;
    if (begins && has_types && size == length + 1 && (name[length] == 'f' || name[length] == 'l')) return true;
    at += length + has_types + 1;
  }
  return false;
}

// Returns whether |relocations|, a table of |size| bytes, refers to an imported function that may print. A library
// reaches its imports only through relocations. A table or a symbol that cannot be read counts as a function that
// prints.
static bool has_loud_import(const elf_tables_t* tables, pyd_span_t relocations, uint64_t size) {
  if (size == 0) return false;
  if (size > relocations.size) return true;
  for (uint64_t at = 0; at + kRelocation <= size; at += kRelocation) {
    uint32_t index = pyd_load_u32(relocations.data + at + 12);  // of the symbol: the upper half of r_info
    if (index == 0) continue;                                   // it has no symbol
    const uint8_t* symbol = pyd_span_get(tables->symbols, (uint64_t)index * kSymbol, kSymbol);
    if (!symbol) return true;
    if (pyd_load_u16(symbol + 6) != 0) continue;  // st_shndx: defined in the library itself
    const char* name = pyd_span_get(tables->names, pyd_load_u32(symbol), 1);
    const char* end =
        name ? memchr(name, 0, tables->names.size - (size_t)((const uint8_t*)name - tables->names.data)) : NULL;
    if (!end || !is_silent(name, (size_t)(end - name))) return true;
  }
  return false;
}

// Returns whether a library may write to a stdio stream: it imports a function that is not known to be silent, or its
// imports cannot be read.
static bool may_elf_print(pyd_span_t file) {
  elf_tables_t tables;
  read_elf_tables(file, &tables);
  return !tables.symbols.size || tables.has_other_relocations ||
         has_loud_import(&tables, tables.relocations[0], tables.relocation_bytes[0]) ||
         has_loud_import(&tables, tables.relocations[1], tables.relocation_bytes[1]);
}

#endif  // PYD_PLATFORM_DL_ELF_H_
