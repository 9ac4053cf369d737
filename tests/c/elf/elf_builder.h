// Builds small ELF files field by field, so that a test can break exactly one of them. Independent of csrc/elf: numbers
// come from the format's documents.
//
//   address   file     content
//   0x0       0x0      file header, 7 program headers, 0x200 symbols, 0x400 strings, 0x600 hash table, 0x800 RELR,
//   0xa00 RELA 0x10000   0x1000   code, executable 0x20000   0x1100   dynamic section, then at 0x20200 512 bytes of
//   writable data
#ifndef PYD_TESTS_ELF_BUILDER_H_
#define PYD_TESTS_ELF_BUILDER_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pydispatch/elf.h"

enum {
  B_PHDRS = 64,
  B_SYMBOLS = 0x200,
  B_STRINGS = 0x400,
  B_HASH = 0x600,
  B_RELR = 0x800,
  B_RELA = 0xa00,
  B_CODE = 0x1000,
  B_DYNAMIC = 0x1100,
  B_SIZE = 0x1500,
  B_CODE_VADDR = 0x10000,
  B_DATA_VADDR = 0x20000,
  B_PLACE = 0x20200,  // the writable data
  B_DATA_FROM_FILE = B_DATA_VADDR - B_DYNAMIC,
};
enum { P_READ, P_CODE, P_DATA, P_DYNAMIC, P_STACK, P_RELRO, P_SPARE, P_COUNT };

typedef struct builder_s {
  uint8_t bytes[B_SIZE];
  uint32_t symbols, strings, relas, relrs, tags;
} builder_t;

static inline void put(builder_t* b, uint64_t offset, uint32_t bytes, uint64_t value) {
  for (uint32_t i = 0; i < bytes; ++i) b->bytes[offset + i] = (uint8_t)(value >> 8 * i);
}

static inline void put_phdr(builder_t* b, uint32_t index, uint32_t type, uint32_t flags, uint64_t offset,
                            uint64_t vaddr, uint64_t size, uint64_t align) {
  uint64_t at = B_PHDRS + 56 * index;
  put(b, at, 4, type), put(b, at + 4, 4, flags), put(b, at + 8, 8, offset), put(b, at + 16, 8, vaddr);
  put(b, at + 24, 8, vaddr), put(b, at + 32, 8, size), put(b, at + 40, 8, size), put(b, at + 48, 8, align);
}

static inline void add_tag(builder_t* b, uint64_t tag, uint64_t value) {
  put(b, B_DYNAMIC + 16 * b->tags, 8, tag), put(b, B_DYNAMIC + 16 * b->tags + 8, 8, value);
  b->tags++;
}

// Returns the symbol's index. binding: 1 global, 2 weak. type: 0 none, 1 object, 2 function. section: 0 undefined.
static inline uint32_t add_symbol(builder_t* b, const char* name, uint32_t binding, uint32_t type, uint32_t section,
                                  uint64_t value) {
  uint64_t at = B_SYMBOLS + 24 * b->symbols;
  put(b, at, 4, b->strings), put(b, at + 4, 1, binding << 4 | type), put(b, at + 6, 2, section),
      put(b, at + 8, 8, value);
  put(b, at + 16, 8, 8);
  memcpy(b->bytes + B_STRINGS + b->strings, name, strlen(name) + 1);
  b->strings += (uint32_t)strlen(name) + 1;
  return b->symbols++;
}

static inline void add_rela(builder_t* b, uint64_t vaddr, uint32_t type, uint32_t symbol, uint64_t addend) {
  uint64_t at = B_RELA + 24 * b->relas++;
  put(b, at, 8, vaddr), put(b, at + 8, 4, type), put(b, at + 12, 4, symbol), put(b, at + 16, 8, addend);
}

static inline void add_relr(builder_t* b, uint64_t word) { put(b, B_RELR + 8 * b->relrs++, 8, word); }

static inline void build_begin(builder_t* b, uint32_t machine) {
  memset(b, 0, sizeof(*b));
  memcpy(b->bytes,
         "\x7f"
         "ELF\x02\x01\x01",
         7);
  put(b, 16, 2, 3), put(b, 18, 2, machine), put(b, 20, 4, 1), put(b, 32, 8, B_PHDRS), put(b, 52, 2, 64);
  put(b, 54, 2, 56), put(b, 56, 2, P_COUNT);
  put_phdr(b, P_READ, 1, 4, 0, 0, 0x1000, 0x10000);
  put_phdr(b, P_CODE, 1, 5, B_CODE, B_CODE_VADDR, 0x100, 0x10000);
  put_phdr(b, P_DATA, 1, 6, B_DYNAMIC, B_DATA_VADDR, 0x400, 0x10000);
  put_phdr(b, P_DYNAMIC, 2, 6, B_DYNAMIC, B_DATA_VADDR, 0x200, 8);
  put_phdr(b, P_STACK, 0x6474e551, 6, 0, 0, 0, 0);
  b->strings = 1, b->symbols = 1;
}

// The hash table, with one bucket and a chain of all symbols, and the dynamic section. More tags may be added behind.
static inline void build_end(builder_t* b) {
  put(b, B_HASH, 4, 1), put(b, B_HASH + 4, 4, b->symbols), put(b, B_HASH + 8, 4, b->symbols > 1 ? 1 : 0);
  for (uint32_t i = 1; i < b->symbols; ++i) put(b, B_HASH + 12 + 4 * i, 4, i + 1 < b->symbols ? i + 1 : 0);
  add_tag(b, 5, B_STRINGS), add_tag(b, 10, b->strings), add_tag(b, 6, B_SYMBOLS), add_tag(b, 11, 24),
      add_tag(b, 4, B_HASH);
  if (b->relas) add_tag(b, 7, B_RELA), add_tag(b, 8, 24 * b->relas), add_tag(b, 9, 24);
  if (b->relrs) add_tag(b, 36, B_RELR), add_tag(b, 35, 8 * b->relrs), add_tag(b, 37, 8);
}

static inline pyd_span_t built(const builder_t* b) { return (pyd_span_t){b->bytes, B_SIZE}; }

// Frees |st|; false and a line on stderr unless its code is |code| and its text contains |part|.
static inline bool expect(const char* what, pyd_status_t st, pyd_code_t code, const char* part) {
  bool good = pyd_status_code(st) == code && (code == PYD_CODE_OK || strstr(pyd_status_text(st), part) != NULL);
  if (!good) {
    fprintf(stderr, "%s: code %d, expected %d; text \"%s\", expected in it \"%s\"\n", what, (int)pyd_status_code(st),
            (int)code, pyd_status_text(st), part ? part : "");
  }
  pyd_status_free(st);
  return good;
}

#endif  // PYD_TESTS_ELF_BUILDER_H_
