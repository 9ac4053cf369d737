// links: base platform elf
// Initialisers and finalisers: which run, in which order, and which no longer do when others have written over them.
// The pages of RELRO beside other segments. The symbol table for debuggers, whole and spoilt.
#include <stdlib.h>

#include "base/span.h"
#include "elf_builder.h"

enum { INIT = 12, FINI = 13, INIT_ARRAY = 25, FINI_ARRAY = 26, INIT_SIZE = 27, FINI_SIZE = 28 };
enum { COUNTERS = B_PLACE + 0x100 };  // a word per function

static int failures;
#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) failures += fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition) > 0; \
  } while (0)

// Writes function |index|, which adds 1 to the word at |to|; returns its address.
static uint64_t add_function(builder_t* b, uint32_t index, uint64_t to) {
  uint64_t at = B_CODE + 32 * index, vaddr = B_CODE_VADDR + 32 * index, distance = to - vaddr;
  switch (pyd_elf_machine_host()) {
    case PYD_ELF_MACHINE_X86_64:  // inc qword [rip + ...]; ret
      put(b, at, 3, 0x05ff48), put(b, at + 3, 4, distance - 7), put(b, at + 7, 1, 0xc3);
      break;
    case PYD_ELF_MACHINE_AARCH64:  // adr x0; ldr x1, [x0]; add x1, x1, 1; str x1, [x0]; ret
      put(b, at, 4, 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7ffff) << 5), put(b, at + 4, 4, 0xf9400001);
      put(b, at + 8, 4, 0x91000421), put(b, at + 12, 4, 0xf9000001), put(b, at + 16, 4, 0xd65f03c0);
      break;
    default:  // auipc a0; addi a0; ld a1, 0(a0); addi a1, a1, 1; sd a1, 0(a0); ret
      put(b, at, 4, 0x517 | ((distance + 0x800) & 0xfffff000)), put(b, at + 4, 4, 0x50513 | (distance & 0xfff) << 20);
      put(b, at + 8, 4, 0x53583), put(b, at + 12, 4, 0x158593), put(b, at + 16, 4, 0xb53023),
          put(b, at + 20, 4, 0x8067);
  }
  return vaddr;
}

static void add_pointer(builder_t* b, uint64_t at, uint64_t to) {
  uint32_t host = pyd_elf_machine_host();
  add_rela(b, at, host == PYD_ELF_MACHINE_X86_64 ? 8 : host == PYD_ELF_MACHINE_AARCH64 ? 1027 : 3, 0, to);
}

static uint64_t* word_at(const pyd_elf_module_t* module, uint64_t vaddr) {
  return (uint64_t*)(uintptr_t)(module->bias + vaddr);
}

static void test_order(void) {
  static builder_t b;
  pyd_elf_module_t module;
  const uint64_t init = B_PLACE, fini = B_PLACE + 0x20;
  build_begin(&b, pyd_elf_machine_host());
  uint64_t functions[4];
  for (uint32_t i = 0; i < 4; ++i) functions[i] = add_function(&b, i, COUNTERS + 8 * i);
  add_pointer(&b, init, functions[1]);  // behind it 0 and -1, which stand for nothing
  put(&b, init + 16 - B_DATA_FROM_FILE, 8, UINT64_MAX);
  add_pointer(&b, fini, functions[2]);
  build_end(&b);
  add_tag(&b, INIT, functions[0]), add_tag(&b, FINI, functions[3]);
  add_tag(&b, INIT_ARRAY, init), add_tag(&b, INIT_SIZE, 24), add_tag(&b, FINI_ARRAY, fini), add_tag(&b, FINI_SIZE, 8);
  if (!expect("order", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL)) exit(1);
  CHECK(*word_at(&module, COUNTERS) == 1 && *word_at(&module, COUNTERS + 8) == 1);
  CHECK(*word_at(&module, COUNTERS + 16) == 0 && *word_at(&module, COUNTERS + 24) == 0);
  CHECK(pyd_elf_module_holds(&module, NULL, 0) && !pyd_elf_module_holds(&module, NULL, 1));
  pyd_elf_module_unload(&module);
  CHECK(!module.memory);
}

// The first initialiser moves the second one out of the code; it is looked at again, and what follows does not run.
static void test_overwritten(void) {
  static builder_t b;
  pyd_elf_module_t module;
  build_begin(&b, pyd_elf_machine_host());
  add_pointer(&b, B_PLACE, add_function(&b, 0, B_PLACE + 8));
  add_pointer(&b, B_PLACE + 8, B_CODE_VADDR + 0xff);  // the last byte of the code
  build_end(&b);
  add_tag(&b, INIT_ARRAY, B_PLACE), add_tag(&b, INIT_SIZE, 24);
  CHECK(expect("overwritten", pyd_elf_module_load(built(&b), &module), PYD_CODE_CORRUPT,
               "entry 1 of DT_INIT_ARRAY is 0x10100, which lies in no executable segment's bytes"));
  // A finaliser that is written over is left out.
  build_begin(&b, pyd_elf_machine_host());
  uint64_t spoiler = add_function(&b, 0, B_PLACE);
  add_pointer(&b, B_PLACE, B_CODE_VADDR + 0xff);
  add_pointer(&b, B_PLACE + 8, spoiler);  // runs first: from the last to the first
  build_end(&b);
  add_tag(&b, FINI_ARRAY, B_PLACE), add_tag(&b, FINI_SIZE, 16);
  CHECK(expect("finaliser", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL));
  pyd_elf_module_unload(&module);
  CHECK(!module.memory);
}

// Whether the byte at |at| may be written, by what the kernel says of its page.
static bool is_writable(uint64_t at, const pyd_elf_module_t* module) {
  char line[256];
  bool found = false;
  FILE* maps = fopen("/proc/self/maps", "r");
  uint64_t address = module->bias + at;
  while (maps && fgets(line, sizeof(line), maps)) {
    unsigned long long begin, end;
    char rights[5];
    if (sscanf(line, "%llx-%llx %4s", &begin, &end, rights) == 3 && begin <= address && address < end)
      found = rights[1] == 'w';
  }
  if (maps) fclose(maps);
  return found;
}

// RELRO as a whole segment: its edge pages are taken in where nothing else lives in them.
static void test_relro(void) {
  static builder_t b;
  pyd_elf_module_t module;
  for (int i = 0; i < 4; ++i) {
    bool is_first = i == 1, has_next = i == 2, has_near = i == 3;
    build_begin(&b, pyd_elf_machine_host());
    build_end(&b);
    put_phdr(&b, P_RELRO, 0x6474e552, 4, B_DYNAMIC, B_DATA_VADDR, 0x400, 1);
    put_phdr(&b, P_DATA, 1, 6, B_DYNAMIC, B_DATA_VADDR, 0x400, 0x1000);
    put_phdr(&b, P_READ, 1, 4, 0, 0, 0x1000, 0x1000), put_phdr(&b, P_CODE, 1, 5, B_CODE, B_CODE_VADDR, 0x100, 0x1000);
    if (has_next) put_phdr(&b, P_SPARE, 1, 6, 0, 0x30000, 0x10, 0x1000);  // in another page
    if (has_near) put_phdr(&b, P_SPARE, 1, 6, 0, 0x20800, 0x10, 0x1000);  // in the same page
    if (is_first) {  // the writable segment alone: everything lies in it
      put_phdr(&b, P_READ, 0, 0, 0, 0, 0, 0), put_phdr(&b, P_CODE, 0, 0, 0, 0, 0, 0);
      put_phdr(&b, P_DATA, 1, 6, 0, 0, B_SIZE, 0x1000);
      put_phdr(&b, P_DYNAMIC, 2, 6, B_DYNAMIC, B_DYNAMIC, 0x200, 8);
      put_phdr(&b, P_RELRO, 0x6474e552, 4, 0, 0, B_SIZE, 1);
    }
    CHECK(expect("relro", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL));
#if defined(__linux__) && !defined(PYD_PLATFORM_GENERIC)
    CHECK(is_writable(is_first ? 0 : B_DATA_VADDR, &module) == has_near);
#else
    (void)is_writable;
#endif
    pyd_elf_module_unload(&module);
  }
  // Another writable segment in the page in front of it: that page stays writable.
  build_begin(&b, pyd_elf_machine_host());
  build_end(&b);
  put_phdr(&b, P_READ, 1, 6, 0, 0, 0x1000, 0x1000);
  put_phdr(&b, P_CODE, 0, 0, 0, 0, 0, 0);
  put_phdr(&b, P_DATA, 1, 6, B_DYNAMIC, 0x1100, 0x400, 0x100);
  put_phdr(&b, P_SPARE, 1, 6, B_CODE, 0x1000, 0x80, 0x1000);
  put_phdr(&b, P_DYNAMIC, 2, 6, B_DYNAMIC, 0x1100, 0x200, 8),
      put_phdr(&b, P_RELRO, 0x6474e552, 4, B_DYNAMIC, 0x1100, 0x400, 1);
  // Program headers of segments ascend.
  uint8_t spare[56];
  memcpy(spare, b.bytes + B_PHDRS + 56 * P_SPARE, 56);
  memcpy(b.bytes + B_PHDRS + 56 * P_SPARE, b.bytes + B_PHDRS + 56 * P_CODE, 56);
  memcpy(b.bytes + B_PHDRS + 56 * P_CODE, spare, 56);
  CHECK(expect("neighbour", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL));
#if defined(__linux__) && !defined(PYD_PLATFORM_GENERIC)
  CHECK(is_writable(0x1100, &module));
#endif
  pyd_elf_module_unload(&module);
}

// ---- symbols for debuggers: a table of 3 sections, their symbols and names, in the segment that is only read

enum { SECTIONS = 0xc00, TABLE = 0xe00, NAMES = 0xf00 };

static void add_debug_symbol(builder_t* b, uint32_t index, uint32_t name, uint32_t info, uint32_t section,
                             uint64_t value, uint64_t size) {
  uint64_t at = TABLE + 24 * index;
  put(b, at, 4, name), put(b, at + 4, 1, info), put(b, at + 6, 2, section), put(b, at + 8, 8, value),
      put(b, at + 16, 8, size);
}

static void build_debug(builder_t* b) {
  build_begin(b, pyd_elf_machine_host());
  build_end(b);
  put(b, 40, 8, SECTIONS), put(b, 58, 2, 64), put(b, 60, 2, 3);
  put(b, SECTIONS + 64 + 4, 4, 2), put(b, SECTIONS + 64 + 24, 8, TABLE), put(b, SECTIONS + 64 + 32, 8, 24 * 8),
      put(b, SECTIONS + 64 + 40, 4, 2);
  put(b, SECTIONS + 128 + 4, 4, 3), put(b, SECTIONS + 128 + 24, 8, NAMES), put(b, SECTIONS + 128 + 32, 8, 16);
  memcpy(b->bytes + NAMES, "\0f\0data\0last", 13);
  add_debug_symbol(b, 0, 1, 2, 1, B_CODE_VADDR, 8);       // a function
  add_debug_symbol(b, 1, 3, 1, 1, B_PLACE, UINT64_MAX);   // data, as long as there is room
  add_debug_symbol(b, 2, 1, 2, 0, B_CODE_VADDR, 8);       // undefined
  add_debug_symbol(b, 3, 1, 2, 0xfff1, B_CODE_VADDR, 8);  // absolute
  add_debug_symbol(b, 4, 1, 0, 1, B_CODE_VADDR, 8);       // of no type
  add_debug_symbol(b, 5, 1, 2, 1, 0x7000000, 8);          // outside
  add_debug_symbol(b, 6, 16, 2, 1, B_CODE_VADDR, 8);      // its name outside
  add_debug_symbol(b, 7, 0, 2, 1, B_CODE_VADDR, 8);       // without a name
}

static void test_debug(void) {
  static builder_t b;
  static const pyd_elf_module_t none;
  pyd_elf_module_t module;
  pyd_elf_symbol_t symbols[8];
  build_debug(&b);
  CHECK(expect("debug", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL));
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 2);
  CHECK(strcmp(symbols[0].name, "f") == 0 && symbols[0].is_function && symbols[0].size == 8);
  CHECK(strcmp(symbols[1].name, "data") == 0 && !symbols[1].is_function &&
        symbols[1].address == word_at(&module, B_PLACE));
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 1) == 2);  // there are more than asked for
  CHECK(pyd_elf_debug_symbols((pyd_span_t){b.bytes, 63}, &module, symbols, 8) == 0);
  CHECK(pyd_elf_debug_symbols(built(&b), &none, symbols, 8) == 0);
  put(&b, 58, 2, 63);
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 0);
  build_debug(&b);
  put(&b, NAMES + 15, 1, 'x');  // names that do not end
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 0);
  build_debug(&b);
  put(&b, SECTIONS + 64 + 40, 4, 3);  // names in a section that does not exist
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 0);
  build_debug(&b);
  put(&b, SECTIONS + 128 + 32, 8, 0);  // no names
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 0);
  build_debug(&b);
  put(&b, SECTIONS + 64 + 32, 8, B_SIZE);  // symbols outside of the file
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 0);
  build_debug(&b);
  put(&b, 40, 8, B_SIZE - 64);  // sections outside of the file
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 0);
  // A name longer than is listed; the table of names lies over the code and the data.
  build_debug(&b);
  put(&b, SECTIONS + 128 + 24, 8, 0), put(&b, SECTIONS + 128 + 32, 8, B_SIZE);
  memset(b.bytes + B_CODE, 'x', 0x500);
  b.bytes[B_SIZE - 1] = 0;
  add_debug_symbol(&b, 0, B_CODE, 2, 1, B_CODE_VADDR, 8);
  add_debug_symbol(&b, 1, B_SIZE - 3, 1, 1, B_PLACE, 1);
  for (uint32_t i = 2; i < 8; ++i) add_debug_symbol(&b, i, 0, 0, 0, 0, 0);
  CHECK(pyd_elf_debug_symbols(built(&b), &module, symbols, 8) == 1 && strcmp(symbols[0].name, "xx") == 0);
  pyd_elf_module_unload(&module);
}

// A symbol whose name is longer than is listed is still found by it; names that the loaded code moved are not followed.
static void test_names(void) {
  static builder_t b;
  pyd_elf_module_t module;
  pyd_elf_symbol_t symbol;
  static char name[1100];
  memset(name, 'n', sizeof(name) - 1);
  build_begin(&b, pyd_elf_machine_host());
  add_symbol(&b, "f", 1, 2, 1, B_CODE_VADDR);
  build_end(&b);
  // The strings move into the writable segment, where there is room for a long one.
  put_phdr(&b, P_DATA, 1, 6, B_DYNAMIC, B_DATA_VADDR, 0x400, 0x10000);
  put(&b, B_PHDRS + 56 * P_READ + 8, 8, 0);
  CHECK(expect("names", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL));
  CHECK(pyd_elf_module_symbol_at(&module, 1, &symbol) && strcmp(symbol.name, "f") == 0);
  pyd_elf_module_t changed = module;
  static uint8_t table[2 * 24];
  memcpy(table, module.symtab, sizeof(table));
  changed.symtab = table;
  table[24] = 0xff, table[25] = 0xff;  // behind the strings
  CHECK(!pyd_elf_module_symbol_at(&changed, 1, &symbol) && !pyd_elf_module_symbol(&changed, "f"));
  table[24] = 1, table[25] = 0;
  changed.strtab = name;  // not in the module's memory
  changed.strtab_size = sizeof(name);
  CHECK(!pyd_elf_module_symbol_at(&changed, 1, &symbol) && !symbol.name);
  CHECK(pyd_elf_module_symbol(&changed, name + 1) != NULL);
  pyd_elf_module_unload(&module);
}

static void test_packed_relocations(void) {
  static const uint64_t kTags[] = {0x6000000f, 0x60000011};
  static builder_t b;
  pyd_elf_module_t module;
  for (int i = 0; i < 2; ++i) {
    build_begin(&b, pyd_elf_machine_host());
    build_end(&b);
    add_tag(&b, kTags[i], B_RELA);
    CHECK(expect("packed", pyd_elf_module_load(built(&b), &module), PYD_CODE_UNSUPPORTED,
                 "has packed Android relocations"));
  }
}

int main(void) {
  test_packed_relocations();
  test_order();
  test_overwritten();
  test_relro();
  test_debug();
  test_names();
  return failures != 0;
}
