// links: base fatelf
// The FatELF reader: selection, every refusal with its text, and each possible cut.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/fatelf.h"

static int failures;

static void expect(int line, pyd_status_t status, pyd_code_t code, const char* text) {
  if (pyd_status_code(status) != code || strcmp(pyd_status_text(status), text) != 0) {
    fprintf(stderr, "line %d: code %d '%s'\n  expected %d '%s'\n", line, (int)pyd_status_code(status),
            pyd_status_text(status), (int)code, text);
    ++failures;
  }
  pyd_status_free(status);
}
#define EXPECT(status, code, text) expect(__LINE__, status, PYD_CODE_##code, text)
#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) failures += fprintf(stderr, "line %d: %s\n", __LINE__, #condition) > 0; \
  } while (0)

enum { SIZE = 0x400 };
static uint8_t file[SIZE];

static void put(size_t offset, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) file[offset + (size_t)i] = (uint8_t)(value >> 8 * i);
}

static void record(uint32_t index, uint16_t machine, uint8_t osabi, uint8_t word, uint8_t order, uint64_t offset,
                   uint64_t size) {
  size_t at = 8 + 24 * (size_t)index;
  put(at, machine, 2);
  put(at + 2, osabi, 1);
  put(at + 4, word, 1);
  put(at + 5, order, 1);
  put(at + 8, offset, 8);
  put(at + 16, size, 8);
}

static void begin(uint8_t count) {
  memset(file, 0, sizeof(file));
  memcpy(file, "\xFA\x70\x0E\x1F\1\0", 6);
  file[6] = count;
}

static pyd_span_t all(void) { return (pyd_span_t){file, SIZE}; }

static pyd_status_t choose(pyd_span_t* out) { return pyd_fatelf_select(all(), 62, "x86_64", out); }

static void test_select(void) {
  pyd_span_t elf;
  begin(6);
  record(0, 183, 0, 2, 1, 0x100, 0x10);
  record(1, 62, 9, 2, 1, 0x110, 0x10);  // made for FreeBSD
  record(2, 62, 0, 1, 1, 0x120, 0x10);  // x32
  record(3, 62, 0, 2, 0, 0x130, 0x10);  // big-endian
  record(4, 62, 255, 2, 1, 0x140, 0x18);
  record(5, 62, 0, 2, 1, 0x180, 0x10);
  EXPECT(choose(&elf), OK, "");
  CHECK(elf.data == file + 0x140 && elf.size == 0x18);
  record(4, 62, 3, 2, 1, 0x140, 0x18);
  EXPECT(choose(&elf), OK, "");
  CHECK(elf.data == file + 0x140);
  EXPECT(pyd_fatelf_select(all(), 183, "aarch64", &elf), OK, "");
  CHECK(elf.data == file + 0x100 && elf.size == 0x10);
  EXPECT(pyd_fatelf_select(all(), 243, "riscv64", &elf), UNSUPPORTED,
         "FatELF: has no record for riscv64; it has aarch64, x86_64, x86_64, x86_64, x86_64, x86_64");
  CHECK(elf.data == NULL);
  begin(2);
  record(0, 8, 0, 2, 1, 0x100, 0x10);
  record(1, 243, 0, 2, 1, 0x100, 0x10);
  EXPECT(choose(&elf), UNSUPPORTED, "FatELF: has no record for x86_64; it has machine 8, riscv64");
  // A plain file is what it is.
  pyd_span_t plain = {(const uint8_t*)"\177ELF", 4};
  EXPECT(pyd_fatelf_select(plain, 62, "x86_64", &elf), OK, "");
  CHECK(elf.data == plain.data && elf.size == 4 && !pyd_fatelf_is(plain) && !pyd_fatelf_is((pyd_span_t){NULL, 0}));
}

static void test_refusals(void) {
  pyd_span_t elf;
  pyd_fatelf_record_t r;
  uint32_t count;
  begin(1);
  record(0, 62, 0, 2, 1, 0x20, SIZE - 0x20);
  EXPECT(choose(&elf), OK, "");
  EXPECT(pyd_fatelf_record(all(), 0, &r, &elf), OK, "");
  CHECK(r.machine == 62 && r.osabi == 0 && r.word_size == 2 && r.byte_order == 1 && r.offset == 0x20 &&
        r.size == SIZE - 0x20);
  EXPECT(pyd_fatelf_record(all(), 0, &r, NULL), OK, "");
  CHECK(r.offset == 0x20);
  EXPECT(pyd_fatelf_record(all(), 1, &r, NULL), INVALID_ARGUMENT, "FatELF: record 1 of 1");
  const struct {
    uint64_t offset, size;
    const char* text;
  } bad[] = {
      {0x20, SIZE - 0x1F, "record 0 covers 993 bytes at 32"},
      {0x1F, 1, "record 0 covers 1 bytes at 31"},
      {UINT64_MAX, 2, "record 0 covers 2 bytes at 18446744073709551615"},
      {0x20, UINT64_MAX, "record 0 covers 18446744073709551615 bytes at 32"},
      {0x20, 0, "record 0 covers 0 bytes at 32"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    char text[200];
    record(0, 62, 0, 2, 1, bad[i].offset, bad[i].size);
    snprintf(text, sizeof(text), "FatELF: %s; a file of 1024 bytes has room from 32 on: is it cut off?", bad[i].text);
    EXPECT(choose(&elf), CORRUPT, text);
    CHECK(elf.data == NULL);
  }
  begin(43);
  EXPECT(choose(&elf), CORRUPT, "FatELF: 43 records need 1040 bytes, the file has 1024: is it cut off?");
  begin(1);
  file[4] = 2;
  EXPECT(choose(&elf), UNSUPPORTED, "FatELF: has version 2, version 1 can be read");
  begin(0);
  EXPECT(choose(&elf), UNSUPPORTED, "FatELF: has no record for x86_64; it has none at all");
  EXPECT(pyd_fatelf_open((pyd_span_t){file, 5}, &count), CORRUPT, "FatELF: cut off after 5 bytes, the header has 8");
  EXPECT(pyd_fatelf_open((pyd_span_t){file, 3}, &count), CORRUPT, "FatELF: the file does not start with FA 70 0E 1F");
  // 255 records of unknown machines: the message stays short.
  static uint8_t large[8 + 255 * 24];
  memcpy(large, "\xFA\x70\x0E\x1F\1\0\xFF", 7);
  pyd_status_t status = pyd_fatelf_select((pyd_span_t){large, sizeof(large)}, 62, "x86_64", &elf);
  CHECK(pyd_status_code(status) == PYD_CODE_UNSUPPORTED && strlen(pyd_status_text(status)) < 400);
  pyd_status_free(status);
}

static void test_cuts(void) {
  begin(2);
  record(0, 183, 0, 2, 1, 0x200, 0x100);
  record(1, 62, 0, 2, 1, 0x300, 0x100);
  for (size_t size = 0; size < SIZE; ++size) {
    uint8_t* copy = malloc(size + 1);
    memcpy(copy, file, size);
    uint8_t* exact = realloc(copy, size ? size : 1);
    pyd_span_t elf;
    pyd_status_t status = pyd_fatelf_select((pyd_span_t){exact, size}, 62, "x86_64", &elf);
    CHECK(size < 4 ? pyd_ok(status) : pyd_status_code(status) == PYD_CODE_CORRUPT);
    pyd_status_free(status);
    free(exact);
  }
}

int main(void) {
  test_select();
  test_refusals();
  test_cuts();
  return failures != 0;
}
