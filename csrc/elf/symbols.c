// Checks the symbols of a view, and looks up symbols of a loaded module.
//
// Lookup reads memory that belongs to the loaded code, so it checks every index again instead of trusting the parse.
#include <inttypes.h>
#include <stdio.h>

#include "base/span.h"
#include "elf/format.h"
#include "elf/view.h"

#define MAX_LISTED 8  // names in a message

// Returns the name of a symbol; "" if it has none.
const char* pyd_elf_view_symbol_name(const pyd_elf_view_t* view, uint64_t index) {
  uint32_t name = pyd_load_u32(view->symtab.bytes + index * PYD_ELF_SYM_SIZE + SYM_NAME);
  return name < view->strtab.size ? (const char*)view->strtab.bytes + name : "";
}

// Checks that the name of symbol |index| is in the string table, and that the symbol is of no type that only the
// system's loader supports.
static pyd_status_t check_symbol(const pyd_elf_view_t* view, uint64_t index) {
  const uint8_t* symbol = view->symtab.bytes + index * PYD_ELF_SYM_SIZE;
  uint32_t name = pyd_load_u32(symbol + SYM_NAME);
  if (name >= view->strtab.size) {
    return PYD_ELF_CORRUPT("symbol %" PRIu64 " has its name at byte %u of a string table of %" PRIu64, index, name,
                           view->strtab.size);
  }
  switch (symbol[SYM_INFO] & 15) {  // the lower 4 bits are the type, the upper ones the binding
    case STT_TLS:
      return PYD_ELF_UNSUPPORTED(
          "symbol '%.64s' is thread-local, which embedded code has no place for: remove __thread / "
          "_Thread_local",
          pyd_elf_view_symbol_name(view, index));
    case STT_GNU_IFUNC:
      return PYD_ELF_UNSUPPORTED(
          "symbol '%.64s' is an indirect function (ifunc): choose the implementation without "
          "__attribute__((ifunc)) or target_clones",
          pyd_elf_view_symbol_name(view, index));
  }
  return PYD_STATUS_OK;
}

// Returns whether a symbol must be defined in another file. An undefined weak symbol need not be: its address is 0.
static bool is_undefined(const uint8_t* symbol) {
  uint32_t binding = symbol[SYM_INFO] >> 4;
  return pyd_load_u16(symbol + SYM_SHNDX) == SHN_UNDEF && binding != STB_LOCAL && binding != STB_WEAK;
}

// Returns the failure that names up to MAX_LISTED undefined symbols. |first|: the lowest index of an undefined one.
static pyd_status_t refuse_undefined(const pyd_elf_view_t* view, uint64_t first) {
  char names[MAX_LISTED * 68 + 8];  // per name 60 bytes, quotes and a comma; then ", ..." and a 0
  size_t used = 0;
  uint64_t count = 0;
  for (uint64_t i = first; i < view->symbol_count; ++i) {
    if (!is_undefined(view->symtab.bytes + i * PYD_ELF_SYM_SIZE)) continue;
    if (count < MAX_LISTED) {
      used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%.60s'", count ? ", " : "",
                               pyd_elf_view_symbol_name(view, i));
    }
    ++count;
  }
  if (count > MAX_LISTED) snprintf(names + used, sizeof(names) - used, ", ...");
  return PYD_ELF_UNSUPPORTED("%" PRIu64
                             " undefined symbol%s: %s. Embedded code is freestanding: link the objects that define "
                             "%s, or declare an optional one weak",
                             count, count == 1 ? "" : "s", names, count == 1 ? "it" : "them");
}

// Checks all symbols that loading resolves.
pyd_status_t pyd_elf_check_symbols(const pyd_elf_view_t* view) {
  uint64_t undefined = 0;
  for (uint64_t i = 1; i < view->symbol_count; ++i) {  // symbol 0 is the null symbol
    pyd_status_t st = check_symbol(view, i);
    if (!pyd_ok(st)) return st;
    if (!undefined && is_undefined(view->symtab.bytes + i * PYD_ELF_SYM_SIZE)) undefined = i;
  }
  return undefined ? refuse_undefined(view, undefined) : PYD_STATUS_OK;
}

// Reads symbol |index|. Returns false unless it is defined in the module and global or weak. Only the first byte of its
// name is known to be in the string table: the loaded code may have overwritten the 0 at its end.
static bool read_symbol(const pyd_elf_module_t* module, uint64_t index, pyd_elf_symbol_t* out_symbol) {
  *out_symbol = (pyd_elf_symbol_t){0};
  if (index == 0 || index >= module->symbol_count) return false;
  const uint8_t* symbol = module->symtab + index * PYD_ELF_SYM_SIZE;
  uint32_t name = pyd_load_u32(symbol + SYM_NAME), section = pyd_load_u16(symbol + SYM_SHNDX);
  uint32_t binding = symbol[SYM_INFO] >> 4;
  uint64_t offset = pyd_load_u64(symbol + SYM_VALUE) - module->low_vaddr;
  // Bytes from the module's lowest address to the end of its memory: |offset| must be below.
  uint64_t room = (uint64_t)(uintptr_t)(module->memory + module->memory_size) - (module->bias + module->low_vaddr);
  if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE) return false;
  if (name >= module->strtab_size) return false;
  if (section == SHN_UNDEF || section == SHN_ABS || offset >= room) return false;
  out_symbol->name = module->strtab + name;
  out_symbol->address = (void*)(uintptr_t)(module->bias + module->low_vaddr + offset);
  out_symbol->size = pyd_load_u64(symbol + SYM_SIZE_OF);
  if (out_symbol->size > room - offset) out_symbol->size = room - offset;
  out_symbol->is_function = (symbol[SYM_INFO] & 15) == STT_FUNC;
  return true;
}

// Reads symbol |index|. Returns false unless it is a defined global or weak symbol, and its name ends in its segment
// after at most PYD_ELF_MAX_LISTED_NAME bytes.
bool pyd_elf_module_symbol_at(const pyd_elf_module_t* module, uint64_t index, pyd_elf_symbol_t* out_symbol) {
  bool is_valid = read_symbol(module, index, out_symbol) &&
                  pyd_elf_module_holds_text(module, out_symbol->name, PYD_ELF_MAX_LISTED_NAME);
  if (!is_valid) *out_symbol = (pyd_elf_symbol_t){0};
  return is_valid;
}

// Returns the address of symbol |index| if it is called |name|, else NULL. Compares no more bytes than |name| has, so
// that long names in the file cannot make a lookup slow.
static void* match(const pyd_elf_module_t* module, uint64_t index, const char* name) {
  pyd_elf_symbol_t symbol;
  if (!read_symbol(module, index, &symbol)) return NULL;
  size_t left = (size_t)(module->strtab_size - (uint64_t)(symbol.name - module->strtab));  // bytes in the string table
  size_t length = strlen(name) + 1;
  return length <= left && memcmp(symbol.name, name, length) == 0 ? symbol.address : NULL;
}

// Returns 32-bit word |index| of the hash table; 0 outside of it.
static uint32_t word(const pyd_elf_module_t* module, uint64_t index) {
  pyd_span_t table = {module->hash, (size_t)module->hash_size};
  const void* bytes = pyd_span_get(table, 4 * index, 4);
  return bytes ? pyd_load_u32(bytes) : 0;  // 0 ends both kinds of walk or names the null symbol
}

// Looks up |name| in DT_GNU_HASH, and returns its address or NULL. 32-bit words of the table: number of buckets, first
// hashed symbol, number of 64-bit filter words, shift; the filter; the buckets; one hash per hashed symbol, whose
// lowest bit ends a chain. The filter only saves time for names that are absent, and is not used.
static void* find_gnu(const pyd_elf_module_t* module, const char* name) {
  uint32_t hash = 5381;  // the hash function of DT_GNU_HASH, by D. J. Bernstein
  for (const uint8_t* c = (const uint8_t*)name; *c; ++c) hash = hash * 33 + *c;
  uint64_t buckets = word(module, 0), first = word(module, 1);
  uint64_t start = 4 + 2 * (uint64_t)word(module, 2);  // word of the first bucket
  if (buckets == 0) return NULL;
  uint64_t index = word(module, start + hash % buckets);
  if (index < first) return NULL;
  for (; index < module->symbol_count; ++index) {
    uint32_t entry = word(module, start + buckets + (index - first));
    if ((entry | 1) == (hash | 1)) {  // the lowest bit is no bit of the hash: it marks the end of the chain
      void* address = match(module, index, name);
      if (address) return address;
    }
    if (entry & 1) break;
  }
  return NULL;
}

// Looks up |name| in DT_HASH, and returns its address or NULL. 32-bit words of the table: number of buckets, number of
// symbols; the buckets; for each symbol the next one of its chain, or 0.
static void* find_sysv(const pyd_elf_module_t* module, const char* name) {
  uint32_t hash = 0;
  for (const uint8_t* c = (const uint8_t*)name; *c; ++c) {
    hash = (hash << 4) + *c;  // the hash function of the System V gABI
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  uint64_t buckets = word(module, 0);
  if (buckets == 0) return NULL;
  uint64_t index = word(module, 2 + hash % buckets);
  // A chain of a broken table may be a ring: it is left after as many steps as there are symbols.
  for (uint64_t steps = 0; index != 0 && steps < module->symbol_count; ++steps) {
    void* address = match(module, index, name);
    if (address) return address;
    index = word(module, 2 + buckets + index);
  }
  return NULL;
}

// Returns the address of a defined global or weak symbol; NULL if there is none.
void* pyd_elf_module_symbol(const pyd_elf_module_t* module, const char* name) {
  if (!module->memory) return NULL;
  return module->hash_is_gnu ? find_gnu(module, name) : find_sysv(module, name);
}
