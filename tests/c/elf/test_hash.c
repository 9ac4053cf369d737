// links: base platform elf
// Both kinds of symbol hash table, with hash values known from the format's literature rather than computed by the code
// under test, and tables that lie.
#include <stdlib.h>

#include "elf/view.h"
#include "elf_builder.h"

typedef struct name_s {
  const char* name;
  uint32_t gnu, sysv;
} name_t;

// gnu: published with the description of DT_GNU_HASH; sysv: worked through the gABI's algorithm by hand.
static const name_t kNames[] = {
    {"printf", 0x156b2bb8, 0x077905a6}, {"exit", 0x7c967e3f, 0x0006cf04}, {"syscall", 0xbac212a0, 0x0b09985c}};
enum { NAMES = 3, BUCKETS = 2, GNU_HASH = B_HASH + 0x100 };  // build_end writes at B_HASH

// Symbols must stand in the order of their buckets. Words: buckets, first, filter words, shift; filter; buckets; chain.
static void build_gnu(builder_t* b) {
  uint64_t hash_at = GNU_HASH;
  build_begin(b, pyd_elf_machine_host());
  add_symbol(b, "absent", 2, 0, 0, 0);  // undefined symbols are not hashed
  put(b, hash_at, 4, BUCKETS), put(b, hash_at + 4, 4, 2), put(b, hash_at + 8, 4, 1), put(b, hash_at + 12, 4, 6);
  put(b, hash_at + 16, 8, UINT64_MAX);
  uint64_t buckets = hash_at + 24, chain = buckets + 4 * BUCKETS;
  for (uint32_t bucket = 0; bucket < BUCKETS; ++bucket) {
    uint32_t last = 0;
    for (uint32_t i = 0; i < NAMES; ++i) {
      if (kNames[i].gnu % BUCKETS != bucket) continue;
      uint32_t index = add_symbol(b, kNames[i].name, 1, 1, 1, B_PLACE + 8 * i);
      if (!last) put(b, buckets + 4 * bucket, 4, index);
      put(b, chain + 4 * (index - 2), 4, kNames[i].gnu & ~1u);
      last = index;
    }
    if (last) b->bytes[chain + 4 * (last - 2)] |= 1;
  }
  build_end(b);
}

// Without DT_HASH, whose tag build_end has written fifth.
static void finish_gnu(builder_t* b, uint64_t hash_at) {
  put(b, B_DYNAMIC + 4 * 16, 8, 0x6ffffef5), put(b, B_DYNAMIC + 4 * 16 + 8, 8, hash_at);
}

static void build_sysv(builder_t* b) {
  build_begin(b, pyd_elf_machine_host());
  for (uint32_t i = 0; i < NAMES; ++i) add_symbol(b, kNames[i].name, 1, 1, 1, B_PLACE + 8 * i);
  build_end(b);
  memset(b->bytes + B_HASH, 0, 64);
  put(b, B_HASH, 4, BUCKETS), put(b, B_HASH + 4, 4, NAMES + 1);
  for (uint32_t i = 0; i < NAMES; ++i) {  // each goes to the front of its chain
    uint64_t bucket = B_HASH + 8 + 4 * (kNames[i].sysv % BUCKETS), chain = B_HASH + 8 + 4 * BUCKETS;
    put(b, chain + 4 * (i + 1), 4, b->bytes[bucket]);
    put(b, bucket, 4, i + 1);
  }
}

static int check_lookup(const char* what, const builder_t* b) {
  pyd_elf_module_t module;
  int failed = 0;
  if (!expect(what, pyd_elf_module_load(built(b), &module), PYD_CODE_OK, NULL)) return 1;
  for (uint32_t i = 0; i < NAMES; ++i) {
    uint64_t address = (uint64_t)(uintptr_t)pyd_elf_module_symbol(&module, kNames[i].name);
    if (address != module.bias + B_PLACE + 8 * i) failed = fprintf(stderr, "%s: '%s' is lost\n", what, kNames[i].name);
  }
  static const char* const kMissing[] = {"absent", "", "printg", "exi", "syscall2"};
  for (size_t i = 0; i < sizeof(kMissing) / sizeof(kMissing[0]); ++i) {
    if (pyd_elf_module_symbol(&module, kMissing[i])) failed = fprintf(stderr, "%s: found '%s'\n", what, kMissing[i]);
  }
  pyd_elf_module_unload(&module);
  return failed;
}

typedef struct lie_s {
  const char* what;
  uint32_t word;  // of the table
  uint32_t value;
  pyd_code_t code;
  const char* part;
} lie_t;

static const lie_t kLies[] = {
    {"buckets", 0, UINT32_MAX, PYD_CODE_CORRUPT, "DT_GNU_HASH has 1 filter words and 4294967295 buckets"},
    {"filter", 2, UINT32_MAX, PYD_CODE_CORRUPT, "DT_GNU_HASH has 4294967295 filter words and 2 buckets"},
    {"first symbol", 1, 400, PYD_CODE_CORRUPT, "400 symbols at 0x200 lie in no loaded segment's bytes"},
    {"chain outside", 6, 100000, PYD_CODE_CORRUPT, "the DT_GNU_HASH chain of symbol 100000 leaves its segment"},
    {"chain far", 6, UINT32_MAX, PYD_CODE_CORRUPT, "chain of symbol 4294967295 leaves"},
    {"no buckets", 0, 0, PYD_CODE_OK, NULL},
    {"empty buckets", 6, 0, PYD_CODE_OK, NULL},
    {"bucket below the first", 6, 1, PYD_CODE_OK, NULL},
};

static int check_lies(void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof(kLies) / sizeof(kLies[0]); ++i) {
    static builder_t b;
    build_gnu(&b);
    finish_gnu(&b, GNU_HASH);
    put(&b, GNU_HASH + 4 * kLies[i].word, 4, kLies[i].value);
    pyd_elf_module_t module;
    failed |= !expect(kLies[i].what, pyd_elf_module_load(built(&b), &module), kLies[i].code, kLies[i].part);
    for (uint32_t j = 0; j < NAMES; ++j) pyd_elf_module_symbol(&module, kNames[j].name);
    pyd_elf_module_unload(&module);
  }
  static builder_t b;  // the header is cut by the end of the segment
  build_gnu(&b);
  finish_gnu(&b, 0xff4);
  uint32_t machine;
  return failed |
         !expect("header", pyd_elf_validate(built(&b), &machine), PYD_CODE_CORRUPT, "DT_GNU_HASH lies in no loaded");
}

int main(void) {
  static builder_t b;
  build_gnu(&b);
  finish_gnu(&b, GNU_HASH);
  int failed = check_lookup("gnu", &b);
  build_sysv(&b);
  return (failed | check_lookup("sysv", &b) | check_lies()) ? 1 : 0;
}
