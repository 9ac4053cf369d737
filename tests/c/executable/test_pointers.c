// links: base platform elf imports executable
// An embedded library whose pointers leave its file, one at a time: each is refused before it is followed, by name and
// place.
#include <stdlib.h>

#include "elf/elf_builder.h"
#include "pydispatch/executable.h"

// The writable data, from B_PLACE on.
enum {
  LIBRARY = 0,
  HEADER = 128,
  SYMBOLS = 152,
  FUNCTIONS = 160,
  ATTRS = 168,
  NAMES = 232,
  TAGS = 240,
  LOCATIONS = 248,
  TEXT = 264,
  DATA_END = 512
};
enum { OUTSIDE = 0x30000, NEARLY_OUT = B_PLACE + DATA_END - 4, NO_END = B_PLACE + DATA_END - 3 };

// Every pointer of the library: where it stands and where it leads.
enum {
  P_HEADER,
  P_HEADER_NAME,
  P_SYMBOLS,
  P_SYMBOL,
  P_FUNCTIONS,
  P_FUNCTION,
  P_ATTRS,
  P_NAMES,
  P_NAME,
  P_TAGS,
  P_TAG,
  P_LOCATIONS,
  P_PATH,
  P_POINTERS
};
static const struct {
  uint32_t at, to;
} kPointers[P_POINTERS] = {
    {LIBRARY, HEADER},          {HEADER + 8, TEXT},   {LIBRARY + 16, SYMBOLS}, {SYMBOLS, TEXT + 4},
    {LIBRARY + 32, FUNCTIONS},  {FUNCTIONS, 0},       {LIBRARY + 40, ATTRS},   {LIBRARY + 64, NAMES},
    {NAMES, TEXT + 8},          {LIBRARY + 72, TAGS}, {TAGS, TEXT + 12},       {LIBRARY + 88, LOCATIONS},
    {LOCATIONS + 8, TEXT + 16},
};

// Returns |address|, which lies within a MiB.
static void put_query(builder_t* b, uint64_t address) {
  uint64_t distance = address - B_CODE_VADDR;
  switch (pyd_elf_machine_host()) {
    case PYD_ELF_MACHINE_X86_64:  // lea rax, [rip + distance]; ret
      memcpy(b->bytes + B_CODE, "\x48\x8d\x05", 3), put(b, B_CODE + 3, 4, distance - 7), put(b, B_CODE + 7, 1, 0xc3);
      break;
    case PYD_ELF_MACHINE_AARCH64:  // adr x0, distance; ret
      put(b, B_CODE, 4, 0x10000000 | (distance & 3) << 29 | (distance >> 2) << 5), put(b, B_CODE + 4, 4, 0xd65f03c0);
      break;
    default:  // auipc a0, distance; addi a0, a0, distance; ret
      put(b, B_CODE, 4, 0x517 | (distance & ~0xfffu)), put(b, B_CODE + 4, 4, 0x50513 | (distance & 0xfff) << 20);
      put(b, B_CODE + 8, 4, 0x8067);
  }
}

// |changed|: a pointer that leads to |address| instead; P_POINTERS: none.
static void build(builder_t* b, uint32_t changed, uint64_t address, uint64_t symbol, uint64_t returned,
                  uint32_t exports) {
  uint32_t host = pyd_elf_machine_host();
  uint32_t relative = host == PYD_ELF_MACHINE_X86_64 ? 8 : host == PYD_ELF_MACHINE_AARCH64 ? 1027 : 3;
  build_begin(b, host);
  add_symbol(b, PYD_LIBRARY_QUERY_SYMBOL, 1, 2, 1, symbol);
  put_query(b, returned);
  for (uint32_t i = 0; i < P_POINTERS; ++i) {
    uint64_t to = i == changed ? address : i == P_FUNCTION ? B_CODE_VADDR : B_PLACE + kPointers[i].to;
    add_rela(b, B_PLACE + kPointers[i].at, relative, 0, to);
  }
  uint64_t data = B_PLACE - B_DATA_FROM_FILE;
  put(b, data + LIBRARY + 8, 4, 1), put(b, data + LIBRARY + 24, 4, exports), put(b, data + HEADER, 4, 6);
  put(b, data + LOCATIONS + 4, 4, 4);
  memcpy(b->bytes + data + TEXT, "lib\0?no\0exp\0tag\0path", 20);
  put(b, data + DATA_END - 3, 3, 0x787878);  // a string without an end
  build_end(b);
}

static int try_one(const builder_t* b, pyd_code_t code, const char* part) {
  const pyd_executable_options_t options = {.name = "exe"};
  pyd_executable_t* executable = (pyd_executable_t*)&options;
  bool good = expect(part, pyd_executable_load_elf(built(b), &options, &executable), code, part);
  if (good && (executable != NULL) != (code == PYD_CODE_OK))
    good = !fprintf(stderr, "%s: what was refused is there\n", part);
  if (good) pyd_executable_free(executable);
  return !good;
}

static const struct {
  uint32_t pointer;
  uint64_t to;
  const char* text;
} kFaults[] = {
    {P_HEADER, OUTSIDE, "executable 'exe': its header, 24 bytes at 0x30000, lies in no segment of its file"},
    {P_HEADER, NEARLY_OUT, "its header, 24 bytes at 0x203fc, lies in no segment of its file"},
    {P_HEADER, B_PLACE + HEADER + 1, "its header at 0x20281 is not aligned to 8 bytes"},
    {P_HEADER_NAME, OUTSIDE, "the name of its header, version 6 at 0x30000 is no string of at most 4095 bytes"},
    {P_SYMBOLS, OUTSIDE, "its table of imports, 8 bytes at 0x30000, lies in no segment"},
    {P_SYMBOL, NO_END, "import 0 at 0x203fd is no string of at most 4095 bytes in a segment of its file"},
    {P_FUNCTIONS, NEARLY_OUT, "its table of functions, 8 bytes at 0x203fc, lies in no segment"},
    {P_FUNCTION, B_PLACE, "the function of export 0 is 0x20200, which lies in no executable segment's bytes"},
    {P_FUNCTION, OUTSIDE, "the function of export 0 is 0x30000, which lies in no executable segment's bytes"},
    {P_ATTRS, B_PLACE + DATA_END - 56, "its table of attributes, 64 bytes at 0x203c8, lies in no segment"},
    {P_ATTRS, B_PLACE + ATTRS + 4, "its table of attributes at 0x202ac is not aligned to 8 bytes"},
    {P_NAMES, OUTSIDE, "its table of names, 8 bytes at 0x30000, lies in no segment"},
    {P_NAME, NO_END, "the name of export 0 at 0x203fd is no string"},
    {P_TAGS, OUTSIDE, "its table of tags, 8 bytes at 0x30000, lies in no segment"},
    {P_TAG, OUTSIDE, "the tag of export 0 at 0x30000 is no string"},
    {P_LOCATIONS, NEARLY_OUT, "its table of source locations, 16 bytes at 0x203fc, lies in no segment"},
    {P_PATH, NEARLY_OUT + 1, "the path of a source location, 4 bytes at 0x203fd, lies in no segment"},
};

int main(void) {
  static builder_t b;
  uint64_t library = B_PLACE + LIBRARY;
  int failed = 0;
  build(&b, P_POINTERS, 0, B_CODE_VADDR, library, 1);
  failed |= try_one(&b, PYD_CODE_OK, "");
  for (size_t i = 0; i < sizeof(kFaults) / sizeof(kFaults[0]); ++i) {
    build(&b, kFaults[i].pointer, kFaults[i].to, B_CODE_VADDR, library, 1);
    failed |= try_one(&b, PYD_CODE_CORRUPT, kFaults[i].text);
  }
  build(&b, P_POINTERS, 0, B_PLACE, library, 1);
  failed |= try_one(&b, PYD_CODE_CORRUPT,
                    "'iree_hal_executable_library_query' is 0x20200, which lies in no executable segment's bytes");
  build(&b, P_POINTERS, 0, B_CODE_VADDR, OUTSIDE, 1);
  failed |=
      try_one(&b, PYD_CODE_CORRUPT, "what its query returned, 8 bytes at 0x30000, lies in no segment of its file");
  build(&b, P_POINTERS, 0, B_CODE_VADDR, B_PLACE + HEADER + 4, 1);
  failed |= try_one(&b, PYD_CODE_CORRUPT, "what its query returned at 0x20284 is not aligned to 8 bytes");
  build(&b, P_POINTERS, 0, B_CODE_VADDR, library, UINT32_MAX);  // no product of a count and a size wraps
  failed |= try_one(&b, PYD_CODE_CORRUPT, "its table of functions, 34359738360 bytes at 0x202a0, lies in no segment");
  return failed;
}
