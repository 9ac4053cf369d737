// links: base platform elf
// A valid file, then that file with one field changed: each change is refused with a text that names it, or is
// harmless. Then every truncation and every single-byte change, where only memory safety and termination are asked for.
#include <stdlib.h>

#include "elf/view.h"
#include "elf_builder.h"

static void build(builder_t* b) {
  build_begin(b, PYD_ELF_MACHINE_X86_64);
  add_symbol(b, "function", 1, 2, 1, B_CODE_VADDR);
  add_symbol(b, "maybe", 2, 0, 0, 0);
  add_rela(b, B_PLACE, 1, 1, 0);
  add_rela(b, B_PLACE + 8, 8, 0, 16);
  add_relr(b, B_PLACE + 16);
  build_end(b);
}

#define PH(index, field) (B_PHDRS + 56 * (index) + (field))
#define SYM(index, field) (B_SYMBOLS + 24 * (index) + (field))
#define OK PYD_CODE_OK
#define BAD PYD_CODE_CORRUPT
#define NO PYD_CODE_UNSUPPORTED

typedef struct row_s {
  const char* what;
  uint32_t offset, bytes;
  uint64_t value;
  pyd_code_t code;
  const char* part;
} row_t;

static const row_t kRows[] = {
    {"magic", 0, 1, 0, BAD, "ELF magic"},
    {"FatELF", 0, 4, 0x1f0e70fa, NO, "FatELF archive"},
    {"class 32", 4, 1, 1, NO, "32-bit file"},
    {"class 9", 4, 1, 9, BAD, "class 9"},
    {"big-endian", 5, 1, 2, NO, "big-endian"},
    {"ident version", 6, 1, 2, BAD, "version 2"},
    {"OS ABI is not looked at", 7, 1, 3, OK, NULL},
    {"type object", 16, 2, 1, NO, "type 1 (a relocatable object), expected 3 (shared object): link it with -shared"},
    {"type program", 16, 2, 2, NO, "a program at a fixed address"},
    {"type 77", 16, 2, 77, NO, "type 77 (unknown)"},
    {"machine i386", 18, 2, 3, NO, "machine 3 is unknown; known are x86_64 (62)"},
    {"version", 20, 4, 2, BAD, "object file version 2"},
    {"flags are not looked at", 48, 4, 5, OK, NULL},
    {"no program headers", 56, 2, 0, BAD, "no program headers"},
    {"program header size", 54, 2, 32, BAD, "program headers of 32 bytes, expected 56"},
    {"program headers outside", 32, 8, B_SIZE - 100, BAD, "lie outside the file"},
    {"program headers wrap", 32, 8, UINT64_MAX - 8, BAD, "lie outside the file"},
    {"section headers outside", 40, 8, B_SIZE + 1, BAD, "section headers at 0x1501 lie outside the file"},
    {"65535 program headers", 56, 2, 65535, BAD, "65535 program headers"},
    {"section headers wrap", 40, 8, UINT64_MAX, BAD, "section headers at 0xffffffffffffffff lie outside the file"},
    {"filesz > memsz", PH(P_CODE, 40), 8, 0x80, BAD, "256 bytes in the file but only 128 in memory"},
    {"segment outside", PH(P_CODE, 8), 8, B_SIZE - 10, BAD,
     "segment 1 needs bytes [0x14f6, +0x100) of a file of 0x1500"},
    {"segment wraps in file", PH(P_CODE, 8), 8, UINT64_MAX - 10, BAD, "segment 1 needs bytes"},
    {"memory too large", PH(P_DATA, 40), 8, UINT64_C(1) << 40, NO,
     "spans 0x10000000000 bytes of memory, limit 0x80000000"},
    {"memory is everything", PH(P_DATA, 40), 8, UINT64_MAX, NO, "bytes of memory, limit"},
    {"image too large", PH(P_DATA, 16), 8, UINT64_C(1) << 33, NO, "bytes of memory, limit 0x80000000"},
    {"address wraps", PH(P_DATA, 16), 8, UINT64_MAX - 0x100, BAD, "wraps around"},
    {"alignment 3", PH(P_CODE, 48), 8, 3, BAD, "alignment 0x3 is not a power of two"},
    {"alignment 2^40", PH(P_CODE, 48), 8, UINT64_C(1) << 40, NO,
     "alignment 0x10000000000 is above the limit 0x1000000"},
    {"alignment 0", PH(P_CODE, 48), 8, 0, OK, NULL},
    {"W+X", PH(P_CODE, 4), 4, 7, NO, "segment 1 is writable and executable"},
    {"overlap", PH(P_CODE, 16), 8, 0x800, BAD, "segment 1 starts at 0x800, before the previous one ends at 0x1000"},
    {"descending", PH(P_DATA, 16), 8, 0x8000, BAD, "before the previous one ends"},
    {"shared page", PH(P_CODE, 16), 8, 0x20400, BAD, "before the previous one ends"},
    {"segment gone", PH(P_CODE, 0), 4, 99, OK, NULL},
    {"no dynamic", PH(P_DYNAMIC, 0), 4, 99, BAD, "no dynamic section"},
    {"dynamic outside", PH(P_DYNAMIC, 16), 8, 0x20300, BAD, "the dynamic section [0x20300, +0x200) lies in no loaded"},
    {"dynamic huge", PH(P_DYNAMIC, 40), 8, UINT64_MAX, BAD, "lies in no loaded segment"},
    {"executable stack", PH(P_STACK, 4), 4, 7, NO, "executable stack: link with -z noexecstack"},
    {"thread-local storage", PH(P_SPARE, 0), 4, 7, NO, "thread-local storage (PT_TLS)"},
    {"RELRO nowhere", PH(P_RELRO, 40), 8, 16, OK, NULL},
    {"name outside", SYM(1, 0), 4, 5000, BAD, "symbol 1 has its name at byte 5000 of a string table"},
    {"thread-local symbol", SYM(1, 4), 1, 0x16, NO, "symbol 'function' is thread-local"},
    {"ifunc", SYM(1, 4), 1, 0x1a, NO, "symbol 'function' is an indirect function"},
    {"undefined", SYM(1, 6), 2, 0, NO, "1 undefined symbol: 'function'. Embedded code is freestanding"},
    {"both undefined", SYM(2, 4), 1, 0x10, NO, "1 undefined symbol: 'maybe'"},
    {"hash buckets", B_HASH, 4, UINT32_MAX, BAD, "DT_HASH has 4294967295 buckets"},
    {"hash chains", B_HASH + 4, 4, UINT32_MAX, BAD, "4294967295 chains"},
    {"more chains than symbols fit", B_HASH + 4, 4, 200, BAD, "200 symbols at 0x200 lie in no loaded segment's bytes"},
    {"string end", B_STRINGS + 15, 1, 'x', BAD, "does not end with a NUL"},
};

typedef struct tag_row_s {
  const char* what;
  uint64_t tag, value, tag2, value2;
  pyd_code_t code;
  const char* part;
} tag_row_t;

// Appended tags; a repeated tag overrides the first.
static const tag_row_t kTagRows[] = {
    {"needed", 1, 1, 0, 0, NO, "needs the shared library 'function' (the first of 1 DT_NEEDED)"},
    {"needed twice", 1, 9999, 1, 1, NO, "'?' (the first of 2 DT_NEEDED)"},
    {"textrel", 22, 0, 0, 0, NO, "DT_TEXTREL): compile every object with -fPIC"},
    {"textrel flag", 30, 4, 0, 0, NO, "DT_TEXTREL"},
    {"other flags", 30, 8, 0x6ffffffb, 1, OK, NULL},
    {"rel", 17, 0x400, 18, 16, NO, "relocations without addends (DT_REL)"},
    {"android", 0x60000011, 0x400, 0, 0, NO, "packed Android relocations"},
    {"plt without addends", 20, 17, 2, 24, NO, "DT_PLTREL is 17; expected 7"},
    {"plt outside", 20, 7, 2, 0x1200, BAD, "DT_JMPREL [0x0, +0x1200) lies in no loaded"},
    {"rela size", 8, 25, 0, 0, BAD, "DT_RELA has 25 bytes, not a multiple of its 24-byte records"},
    {"rela entry", 9, 16, 0, 0, BAD, "DT_RELA has records of 16 bytes, expected 24"},
    {"rela outside", 7, 0x18000, 0, 0, BAD, "DT_RELA [0x18000, +0x30) lies in no loaded segment's bytes"},
    {"rela wraps", 8, UINT64_MAX - 15, 0, 0, BAD, "DT_RELA [0xa00"},
    {"relr size", 35, 9, 0, 0, BAD, "DT_RELR has 9 bytes"},
    {"relr entry", 37, 4, 0, 0, BAD, "DT_RELR has records of 4 bytes"},
    {"symbol size", 11, 16, 0, 0, BAD, "symbols of 16 bytes"},
    {"strings outside", 5, 0x30000, 0, 0, BAD, "DT_STRTAB [0x30000"},
    {"strings huge", 10, UINT64_MAX, 0, 0, BAD, "DT_STRTAB"},
    {"no strings", 10, 0, 0, 0, BAD, "DT_STRTAB, DT_STRSZ or DT_SYMTAB is missing"},
    {"no hash", 4, 0, 0, 0, BAD, "no symbol hash table: link with --hash-style=both"},
    {"hash outside", 4, 0x30000, 0, 0, BAD, "DT_HASH lies in no loaded"},
    {"the hash that is used outside", 0x6ffffef5, UINT64_MAX, 0, 0, BAD,
     "hash table at 0xffffffffffffffff lies in no loaded"},
    {"GNU hash outside", 0x6ffffef5, 0x30000, 4, 0, BAD, "DT_GNU_HASH lies in no loaded"},
    {"symbols outside", 6, 0x30000, 0, 0, BAD, "3 symbols at 0x30000 lie in no loaded"},
    {"init outside", 12, 0x20200, 0, 0, BAD, "DT_INIT 0x20200 lies in no executable segment"},
    {"fini outside", 13, UINT64_MAX, 0, 0, BAD, "DT_FINI 0xffffffffffffffff lies in no executable"},
    {"init", 12, B_CODE_VADDR, 13, B_CODE_VADDR + 0xff, OK, NULL},
    {"init array odd", 25, B_PLACE, 27, 12, BAD, "DT_INIT_ARRAY has 12 bytes, not a multiple of 8"},
    {"init array outside", 25, 0x203f8, 27, 16, BAD, "DT_INIT_ARRAY [0x203f8, +0x10) lies in no loaded"},
    {"fini array outside", 26, 0x203f8, 28, UINT64_MAX - 7, BAD, "DT_FINI_ARRAY"},
    {"init array", 25, B_PLACE, 27, 16, OK, NULL},
};

// What is asked of files that the system's loader opens: fields, and appended tags.
static const row_t kSystemRows[] = {
    {"valid", 40, 8, 0, OK, NULL},
    {"dynamic section not writable", PH(P_DATA, 4), 4, 4, BAD,
     "the dynamic section at 0x20000 is to be written, its segment must not be"},
    {"dynamic section without an end", PH(P_DYNAMIC, 40), 8, 16 * 11, BAD,
     "the dynamic section of 176 bytes has no end (DT_NULL)"},
    {"symbols without strings", PH(P_DYNAMIC, 40), 8, 8, BAD, "is missing"},
};
static const tag_row_t kSystemTagRows[] = {
    {"needed", 1, 1, 0, 0, OK, NULL},
    {"needed outside", 1, 5000, 0, 0, BAD, "of the dynamic section has its name at byte 5000 of a string table of 16"},
    {"name outside", 14, 5000, 0, 0, BAD, "has its name at byte 5000"},
    {"path", 15, 1, 29, 1, OK, NULL},
    {"path outside", 15, 5000, 0, 0, BAD, "has its name at byte 5000"},
    {"run path outside", 29, 16, 0, 0, BAD, "has its name at byte 16 of a string table of 16"},
};

static int check_system_rows(void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof(kSystemRows) / sizeof(kSystemRows[0]); ++i) {
    static builder_t b;
    build(&b);
    put(&b, kSystemRows[i].offset, kSystemRows[i].bytes, kSystemRows[i].value);
    failed |= !expect(kSystemRows[i].what, pyd_elf_check_system(built(&b)), kSystemRows[i].code, kSystemRows[i].part);
  }
  for (size_t i = 0; i < sizeof(kSystemTagRows) / sizeof(kSystemTagRows[0]); ++i) {
    const tag_row_t* row = &kSystemTagRows[i];
    static builder_t b;
    build(&b);
    add_tag(&b, row->tag, row->value);
    if (row->tag2) add_tag(&b, row->tag2, row->value2);
    failed |= !expect(row->what, pyd_elf_check_system(built(&b)), row->code, row->part);
  }
  return failed;
}

static int check_rows(void) {
  int failed = 0;
  uint32_t machine;
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    static builder_t b;
    build(&b);
    put(&b, kRows[i].offset, kRows[i].bytes, kRows[i].value);
    failed |= !expect(kRows[i].what, pyd_elf_validate(built(&b), &machine), kRows[i].code, kRows[i].part);
  }
  for (size_t i = 0; i < sizeof(kTagRows) / sizeof(kTagRows[0]); ++i) {
    const tag_row_t* row = &kTagRows[i];
    static builder_t b;
    build(&b);
    add_tag(&b, row->tag, row->value);
    if (row->tag2) add_tag(&b, row->tag2, row->value2);
    failed |= !expect(row->what, pyd_elf_validate(built(&b), &machine), row->code, row->part);
  }
  return failed;
}

// A page of 64 KiB holds what pages of 4 KiB kept apart.
static int check_page_sizes(void) {
  static builder_t b;
  build(&b);
  put(&b, PH(P_CODE, 16), 8, 0x2000);
  pyd_elf_view_t view;
  int failed = !expect("4 KiB pages", pyd_elf_parse(built(&b), 4096, &view), OK, NULL);
  failed |= !expect("16 KiB pages", pyd_elf_parse(built(&b), 16384, &view), NO,
                    "share the 16384-byte page at 0x0: link with");
  build(&b);
  failed |= !expect("64 KiB pages", pyd_elf_parse(built(&b), 65536, &view), OK, NULL);
  if (view.low != 0 || view.high != 0x30000 || view.alignment != 65536)
    failed = fprintf(stderr, "64 KiB: wrong image\n");
  put_phdr(&b, P_RELRO, 0x6474e552, 4, 0, B_CODE_VADDR, 8, 1);
  failed |= !expect("RELRO", pyd_elf_parse(built(&b), 4096, &view), BAD, "PT_GNU_RELRO at 0x10000 lies in no writable");
  put_phdr(&b, P_RELRO, 0x6474e552, 4, 0, 0x7000000, 8, 1);
  failed |= !expect("RELRO outside", pyd_elf_parse(built(&b), 4096, &view), BAD,
                    "PT_GNU_RELRO at 0x7000000 lies in no writable");
  build(&b);
  failed |= !expect("128 KiB pages", pyd_elf_parse(built(&b), 131072, &view), NO,
                    "share the 131072-byte page at 0x0: link with");
  return failed;
}

static int check_segments(void) {
  static builder_t b;
  uint32_t machine;
  build(&b);
  for (int i = 0; i < P_COUNT; ++i) put(&b, PH(i, 0), 4, 99);
  int failed = !expect("none", pyd_elf_validate(built(&b), &machine), BAD, "no loadable segment");
  build(&b);
  put_phdr(&b, P_SPARE, 1, 6, 0, 0, 0, 3);  // of no bytes: ignored, wherever it is
  failed |= !expect("empty", pyd_elf_validate(built(&b), &machine), OK, NULL);
  build(&b);  // headers anywhere in the file
  put(&b, 32, 8, B_SIZE - 56 * 12), put(&b, 56, 2, 12);
  for (int i = 0; i < 12; ++i) memcpy(b.bytes + B_SIZE - 56 * (12 - i), b.bytes + PH(i < 4 ? i : 4, 0), 56);
  failed |= !expect("moved", pyd_elf_validate(built(&b), &machine), OK, NULL);
  static uint8_t many[64 + 56 * 17];
  memcpy(many, b.bytes, 64);
  memset(many + 64, 0, sizeof(many) - 64);
  many[32] = 64, many[33] = 0, many[56] = 17;
  for (int i = 0; i < 17; ++i)
    many[64 + 56 * i] = 1, many[64 + 56 * i + 17] = (uint8_t)(i + 1), many[64 + 56 * i + 40] = 1;
  failed |= !expect("many", pyd_elf_validate((pyd_span_t){many, sizeof(many)}, &machine), NO,
                    "more than 16 loadable segments");
  build(&b);  // the dynamic section ends without DT_NULL, in the middle of what would be DT_TEXTREL
  put(&b, PH(P_DYNAMIC, 40), 8, 16 * b.tags + 8);
  add_tag(&b, 22, 0);
  failed |= !expect("half a tag", pyd_elf_validate(built(&b), &machine), OK, NULL);
  pyd_elf_view_t view;  // RELRO that a linker rounded up past its segment
  build(&b);
  put_phdr(&b, P_RELRO, 0x6474e552, 4, 0, B_DATA_VADDR, 0x1000, 1);
  failed |= !expect("RELRO rounded up", pyd_elf_parse(built(&b), 4096, &view), OK, NULL);
  if (view.relro.size != 0x400) failed = fprintf(stderr, "RELRO of 0x%lx bytes\n", (unsigned long)view.relro.size);
  return failed;
}

static int check_many_undefined(void) {
  static builder_t b;
  build(&b);
  for (int i = 0; i < 10; ++i) add_symbol(&b, (char[]){'u', (char)('a' + i), 0}, 1, 0, 0, 0);
  b.tags = 0;
  build_end(&b);
  uint32_t machine = 7;
  bool good = expect("ten undefined", pyd_elf_validate(built(&b), &machine), NO,
                     "10 undefined symbols: 'ua', 'ub', 'uc', 'ud', 'ue', 'uf', 'ug', 'uh', .... Embedded");
  return !good || machine != 0;
}

// Exact-size heap copies, so that a sanitizer sees one byte too far.
static void validate_copy(const uint8_t* bytes, size_t size) {
  uint8_t* copy = malloc(size ? size : 1);
  uint32_t machine;
  memcpy(copy, bytes, size);
  pyd_status_free(pyd_elf_validate((pyd_span_t){copy, size}, &machine));
  free(copy);
}

static int check_damage(void) {
  static builder_t b;
  build(&b);
  uint32_t machine;
  for (size_t size = 0; size < B_SIZE; ++size) {
    validate_copy(b.bytes, size);
    pyd_status_t st = pyd_elf_validate((pyd_span_t){b.bytes, size}, &machine);
    if (pyd_ok(st)) return fprintf(stderr, "accepted with only %zu bytes\n", size);
    pyd_status_free(st);
  }
  for (size_t at = 0; at < B_SIZE; ++at) {
    static const uint8_t kFlips[] = {0xff, 0x80, 0x01, 0x10};
    for (size_t i = 0; i < sizeof(kFlips); ++i) {
      b.bytes[at] ^= kFlips[i];
      validate_copy(b.bytes, B_SIZE);
      b.bytes[at] ^= kFlips[i];
    }
  }
  return 0;
}

int main(void) {
  static builder_t b;
  build(&b);
  uint32_t machine = 0;
  int failed = !expect("the valid file", pyd_elf_validate(built(&b), &machine), OK, NULL);
  if (machine != PYD_ELF_MACHINE_X86_64) failed = fprintf(stderr, "machine %u\n", machine);
  return (failed | check_rows() | check_system_rows() | check_page_sizes() | check_segments() | check_many_undefined() |
          check_damage())
             ? 1
             : 0;
}
