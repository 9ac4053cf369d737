// links: base platform elf
// Every relocation type of every machine against its formula, applied to memory that is never run, at an address chosen
// so that the edges of narrow fields can be reached: one value in range, the next one out of it.
#include <stdlib.h>

#include "elf/view.h"
#include "elf_builder.h"

#define X64 PYD_ELF_MACHINE_X86_64
#define A64 PYD_ELF_MACHINE_AARCH64
#define R64 PYD_ELF_MACHINE_RISCV64
#define MINUS(n) (UINT64_MAX - (n) + 1)

enum { NONE, DEFINED, WEAK, ABSOLUTE };  // which symbol: defined at 0x10010, undefined weak, absolute 0x1234

typedef struct row_s {
  uint32_t machine, type, symbol;
  uint64_t bias, addend;
  uint32_t bytes;    // written; 0: refused
  uint64_t value;    // expected
  const char* part;  // of the refusal
} row_t;

// S = bias + 0x10010, P = bias + 0x20200, so S - P = -0x101f0.
static const row_t kRows[] = {
    // S + A, S, B + A at full width; a bias with high bits, addends of both signs, sums that wrap.
    {X64, 1, DEFINED, 0x7f0012340000, 5, 8, 0x7f0012350015, 0},
    {X64, 1, WEAK, 0x7f0012340000, 0, 8, 0, 0},
    {X64, 1, WEAK, 0x7f0012340000, 7, 8, 7, 0},
    {X64, 1, ABSOLUTE, 0x7f0012340000, 1, 8, 0x1235, 0},
    {X64, 6, DEFINED, 0x7f0012340000, 99, 8, 0x7f0012350010, 0},
    {X64, 7, DEFINED, 0x7f0012340000, 99, 8, 0x7f0012350010, 0},
    {X64, 8, NONE, 0x7f0012340000, 0x10020, 8, 0x7f0012350020, 0},
    {X64, 8, NONE, 0x7f0012340000, MINUS(8), 8, 0x7f001233fff8, 0},
    {X64, 38, NONE, 0x7f0012340000, 8, 8, 0x7f0012340008, 0},
    {X64, 24, DEFINED, 0x7f0012340000, 0, 8, MINUS(0x101f0), 0},
    {X64, 0, NONE, 0x1000, 0, 8, 0, 0},
    {A64, 257, DEFINED, 0xffff12340000, 5, 8, 0xffff12350015, 0},
    {A64, 1025, DEFINED, 0xffff12340000, 5, 8, 0xffff12350015, 0},
    {A64, 1026, DEFINED, 0xffff12340000, 0, 8, 0xffff12350010, 0},
    {A64, 1026, WEAK, 0xffff12340000, 0, 8, 0, 0},
    {A64, 1027, NONE, 0xffff12340000, 0x10020, 8, 0xffff12350020, 0},
    {A64, 260, DEFINED, 0xffff12340000, 16, 8, MINUS(0x101e0), 0},
    {A64, 0, NONE, 0x1000, 0, 8, 0, 0},
    {A64, 256, NONE, 0x1000, 0, 8, 0, 0},
    {R64, 2, DEFINED, 0x3f12340000, MINUS(16), 8, 0x3f12350000, 0},
    {R64, 3, NONE, 0x3f12340000, 0x10020, 8, 0x3f12350020, 0},
    {R64, 5, DEFINED, 0x3f12340000, 99, 8, 0x3f12350010, 0},
    {R64, 5, WEAK, 0x3f12340000, 0, 8, 0, 0},
    {R64, 0, NONE, 0x1000, 0, 8, 0, 0},
    // 32 bits, unsigned: 0 .. 2^32 - 1.
    {X64, 10, ABSOLUTE, 0x1000, 0xffffffff - 0x1234u, 4, 0xffffffff, 0},
    {X64, 10, ABSOLUTE, 0x1000, 0x100000000 - 0x1234, 0, 0, "0x100000000) is out of range for a unsigned 32-bit"},
    {X64, 10, ABSOLUTE, 0x1000, MINUS(0x1234), 4, 0, 0},
    {X64, 10, ABSOLUTE, 0x1000, MINUS(0x1235), 0, 0, "value -1 "},
    {X64, 10, DEFINED, 0x7f0012340000, 0, 0, 0, "R_X86_64_32, symbol defined"},
    // 32 bits, signed: -2^31 .. 2^31 - 1.
    {X64, 11, ABSOLUTE, 0x1000, 0x7fffffff - 0x1234, 4, 0x7fffffff, 0},
    {X64, 11, ABSOLUTE, 0x1000, 0x80000000 - 0x1234u, 0, 0, "largest 0x7fffffff"},
    {X64, 11, ABSOLUTE, 0x1000, MINUS(0x80001234), 4, 0x80000000, 0},
    {X64, 11, ABSOLUTE, 0x1000, MINUS(0x80001235), 0, 0, "value -2147483649 "},
    // PC-relative, 32 bits.
    {X64, 2, DEFINED, 0x7f0012340000, MINUS(4), 4, 0xfffefe0c, 0},
    {X64, 2, DEFINED, 0x7f0012340000, 0x7fffffff + 0x101f0ul, 4, 0x7fffffff, 0},
    {X64, 2, DEFINED, 0x7f0012340000, 0x80000000 + 0x101f0ul, 0, 0, "R_X86_64_PC32"},
    {X64, 2, DEFINED, 0x7f0012340000, MINUS(0x80000000 - 0x101f0ul), 4, 0x80000000, 0},
    {X64, 2, DEFINED, 0x7f0012340000, MINUS(0x80000001 - 0x101f0ul), 0, 0, "out of range"},
    {X64, 2, WEAK, 0x7f0012340000, 0, 0, 0, "out of range"},
    {R64, 57, DEFINED, 0x3f12340000, 0, 4, 0xfffefe10, 0},
    {R64, 57, DEFINED, 0x3f12340000, 0x80000000 + 0x101f0ul, 0, 0, "R_RISCV_32_PCREL"},
    {A64, 261, DEFINED, 0xffff12340000, 0xffffffff + 0x101f0ul, 4, 0xffffffff, 0},
    {A64, 261, DEFINED, 0xffff12340000, 0x100000000 + 0x101f0ul, 0, 0, "R_AARCH64_PREL32"},
    {A64, 261, DEFINED, 0xffff12340000, MINUS(0x80000000 - 0x101f0ul), 4, 0x80000000, 0},
    {A64, 261, DEFINED, 0xffff12340000, MINUS(0x80000001 - 0x101f0ul), 0, 0, "signed or unsigned 32-bit"},
    // Either sign.
    {A64, 258, ABSOLUTE, 0x1000, 0xffffffff - 0x1234u, 4, 0xffffffff, 0},
    {A64, 258, ABSOLUTE, 0x1000, MINUS(0x80001234), 4, 0x80000000, 0},
    {A64, 258, ABSOLUTE, 0x1000, MINUS(0x80001235), 0, 0, "R_AARCH64_ABS32"},
    {R64, 1, ABSOLUTE, 0x1000, 0xffffffff - 0x1234u, 4, 0xffffffff, 0},
    {R64, 1, ABSOLUTE, 0x1000, 0x100000000 - 0x1234, 0, 0, "R_RISCV_32"},
    {A64, 259, ABSOLUTE, 0x1000, 0xffff - 0x1234, 2, 0xffff, 0},
    {A64, 259, ABSOLUTE, 0x1000, 0x10000 - 0x1234, 0, 0, "16-bit"},
    {A64, 262, DEFINED, 0x1000, 0x101f0, 2, 0, 0},
    {A64, 262, DEFINED, 0x1000, 0, 0, 0, "R_AARCH64_PREL16"},
    {X64, 12, ABSOLUTE, 0x1000, 0xffff - 0x1234, 2, 0xffff, 0},
    {X64, 12, ABSOLUTE, 0x1000, 0x10000 - 0x1234, 0, 0, "16-bit"},
    {X64, 13, DEFINED, 0x1000, 0x101f0 + 0x7fff, 2, 0x7fff, 0},
    {X64, 13, DEFINED, 0x1000, 0x101f0 + 0x8000, 0, 0, "R_X86_64_PC16"},
    {X64, 14, ABSOLUTE, 0x1000, MINUS(0x1234 - 0xff), 1, 0xff, 0},
    {X64, 14, ABSOLUTE, 0x1000, MINUS(0x1234 - 0x100), 0, 0, "8-bit"},
    {X64, 15, DEFINED, 0x1000, 0x101f0 - 0x80, 1, 0x80, 0},
    {X64, 15, DEFINED, 0x1000, 0x101f0 - 0x81, 0, 0, "R_X86_64_PC8"},
    // Refused by name.
    {X64, 5, DEFINED, 0x1000, 0, 0, 0, "R_X86_64_COPY, symbol defined) copies data out of another library"},
    {X64, 16, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {X64, 17, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {X64, 18, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {X64, 23, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {X64, 36, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {X64, 37, NONE, 0x1000, 0, 0, 0, "(R_X86_64_IRELATIVE) needs an indirect"},
    {X64, 99, NONE, 0x1000, 0, 0, 0, "relocation 0 of DT_RELA has type 99, which is not a known one of x86_64"},
    {A64, 1024, DEFINED, 0x1000, 0, 0, 0, "R_AARCH64_COPY"},
    {A64, 1028, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {A64, 1031, DEFINED, 0x1000, 0, 0, 0, "R_AARCH64_TLSDESC"},
    {A64, 1032, NONE, 0x1000, 0, 0, 0, "indirect"},
    {A64, 8, NONE, 0x1000, 0, 0, 0, "type 8, which is not a known one of aarch64"},
    {R64, 4, DEFINED, 0x1000, 0, 0, 0, "R_RISCV_COPY"},
    {R64, 7, DEFINED, 0x1000, 0, 0, 0, "thread-local"},
    {R64, 11, DEFINED, 0x1000, 0, 0, 0, "R_RISCV_TLS_TPREL64"},
    {R64, 58, NONE, 0x1000, 0, 0, 0, "indirect"},
    {R64, 8000, NONE, 0x1000, 0, 0, 0, "type 8000, which is not a known one of riscv64"},
};

static void begin(builder_t* b, uint32_t machine) {
  build_begin(b, machine);
  add_symbol(b, "defined", 1, 2, 1, 0x10010);
  add_symbol(b, "weak", 2, 0, 0, 0);
  add_symbol(b, "absolute", 1, 0, 0xfff1, 0x1234);
}

// Parses |b| and applies its relocations to |image|, which stands for the addresses from |bias| on.
static pyd_status_t relocate(const builder_t* b, uint8_t* image, uint64_t bias) {
  pyd_elf_view_t view;
  pyd_status_t st = pyd_elf_parse(built(b), 4096, &view);
  memcpy(image + 0x20000, b->bytes + B_DYNAMIC, 0x400);
  return pyd_ok(st) ? pyd_elf_relocate(&view, image, bias) : st;
}

static int check_row(const row_t* row, uint8_t* image, size_t index) {
  static builder_t b;
  begin(&b, row->machine);
  add_rela(&b, B_PLACE, row->type, row->symbol, row->addend);
  build_end(&b);
  char what[64];
  snprintf(what, sizeof(what), "row %zu (machine %u, type %u)", index, row->machine, row->type);
  bool refused = row->part != NULL;
  pyd_status_t st = relocate(&b, image, row->bias);
  if (!expect(what, st, refused ? PYD_CODE_UNSUPPORTED : PYD_CODE_OK, row->part)) return 1;
  uint64_t value = 0;
  memcpy(&value, image + B_PLACE, row->bytes);
  if (!refused && value != row->value) {
    fprintf(stderr, "%s: wrote 0x%lx, expected 0x%lx\n", what, (unsigned long)value, (unsigned long)row->value);
    return 1;
  }
  for (uint32_t i = row->bytes; i < 16; ++i) {
    if (image[B_PLACE + i]) return fprintf(stderr, "%s: wrote byte %u behind the field\n", what, i), 1;
  }
  return 0;
}

// An address, a bitmap over the 63 words behind it, a second bitmap directly behind that, a new address.
static int check_relr(uint8_t* image) {
  static builder_t b;
  begin(&b, X64);
  static const uint64_t kPlaces[] = {0x20000, 0x20008, 0x20018, 0x201f8, 0x20200, 0x203f8};
  // No dynamic section can stay there: the words are the test's own data.
  put_phdr(&b, P_DYNAMIC, 2, 4, 0xe00, 0xe00, 0x200, 8);
  add_relr(&b, 0x20000);
  add_relr(&b, 1 | UINT64_C(1) << 1 | UINT64_C(1) << 3 | UINT64_C(1) << 63);
  add_relr(&b, 1 | UINT64_C(1) << 1);
  add_relr(&b, 0x203f8);
  build_end(&b);
  memcpy(b.bytes + 0xe00, b.bytes + B_DYNAMIC, 0x200);
  memset(b.bytes + B_DYNAMIC, 0x11, 0x400);
  int failed = !expect("relr", relocate(&b, image, 0x1000000), PYD_CODE_OK, NULL);
  for (uint64_t at = 0x20000; at < 0x20400; at += 8) {
    uint64_t value, expected = UINT64_C(0x1111111111111111);
    for (size_t i = 0; i < sizeof(kPlaces) / sizeof(kPlaces[0]); ++i) expected += kPlaces[i] == at ? 0x1000000 : 0;
    memcpy(&value, image + at, 8);
    if (value != expected)
      failed = fprintf(stderr, "relr: word 0x%lx is 0x%lx\n", (unsigned long)at, (unsigned long)value);
  }
  add_relr(&b, 3);  // one word behind the segment
  put(&b, 0xe00 + 16 * (b.tags - 2) + 8, 8, 8 * b.relrs);
  failed |= !expect("relr outside", relocate(&b, image, 0), PYD_CODE_CORRUPT, "word 4 of DT_RELR writes to 0x20400");
  return failed;
}

// Places: the last that fits, one byte further, read-only and executable memory, between segments, wrapping around.
static int check_places(uint8_t* image) {
  static const struct {
    uint64_t vaddr;
    bool good;
  } kPlaces[] = {{0x203f8, true},  {0x203f9, false},        {0x10000, false}, {0x400, false},
                 {0x18000, false}, {UINT64_MAX - 3, false}, {0x1fffc, false}, {0x20001, true}};
  int failed = 0;
  for (size_t i = 0; i < sizeof(kPlaces) / sizeof(kPlaces[0]); ++i) {
    static builder_t b;
    begin(&b, X64);
    add_rela(&b, kPlaces[i].vaddr, 8, 0, 0);
    build_end(&b);
    pyd_code_t code = kPlaces[i].good ? PYD_CODE_OK : PYD_CODE_CORRUPT;
    failed |= !expect("place", relocate(&b, image, 0x1000), code, "lies in no writable segment");
    uint32_t machine;
    failed |= !expect("place, validated", pyd_elf_validate(built(&b), &machine), code, "lies in no writable segment");
  }
  static const uint32_t kTypes[] = {1, 5, 18, 37};  // one of each way that a text could name the symbol
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); ++i) {
    static builder_t b;
    begin(&b, X64);
    add_rela(&b, B_PLACE, kTypes[i], i ? UINT32_MAX : 4, 0);
    build_end(&b);
    const char* part = i ? "names symbol 4294967295; there are 4" : "names symbol 4; there are 4";
    failed |= !expect("symbol index", relocate(&b, image, 0x1000), PYD_CODE_CORRUPT, part);
  }
  return failed;
}

int main(void) {
  uint8_t* image = calloc(1, 0x21000);
  int failed = 0;
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) failed |= check_row(&kRows[i], image, i);
  failed |= check_places(image) | check_relr(image);
  free(image);
  return failed ? 1 : 0;
}
