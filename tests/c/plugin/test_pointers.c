// links: base platform elf fatelf imports plugin
// An embedded plugin whose pointers leave its file, one at a time: each is refused before it is followed or called.
#include "pydispatch/plugin_host.h"

#include "elf/elf_builder.h"

// The writable data, from B_PLACE on: the table, the header, texts.
enum { TABLE = 0, HEADER = 32, TEXT = 136, DATA_END = 512 };
enum { NOTHING = 0, OUTSIDE = 0x30000, NEARLY_OUT = B_PLACE + DATA_END - 8, NO_END = B_PLACE + DATA_END - 3 };
enum { P_HEADER, P_LOAD, P_UNLOAD, P_RESOLVE, P_NAME, P_DESCRIPTION, P_POINTERS, P_TABLE };
static const uint32_t kPlaces[P_POINTERS] = {TABLE, TABLE + 8, TABLE + 16, TABLE + 24, HEADER + 8, HEADER + 16};

// Returns |address|, which lies within a MiB; at B_CODE_VADDR + 16 a function that returns 0.
static void put_code(builder_t* b, uint64_t address) {
  uint64_t distance = address - B_CODE_VADDR;
  switch (pyd_elf_machine_host()) {
    case PYD_ELF_MACHINE_X86_64:  // lea rax, [rip + distance]; ret; xor eax, eax; ret
      memcpy(b->bytes + B_CODE, "\x48\x8d\x05", 3), put(b, B_CODE + 3, 4, distance - 7), put(b, B_CODE + 7, 1, 0xc3);
      memcpy(b->bytes + B_CODE + 16, "\x31\xc0\xc3", 3);
      break;
    case PYD_ELF_MACHINE_AARCH64:  // adr x0, distance; ret; mov x0, #0; ret
      put(b, B_CODE, 4, 0x10000000 | (distance & 3) << 29 | (distance >> 2) << 5), put(b, B_CODE + 4, 4, 0xd65f03c0);
      put(b, B_CODE + 16, 4, 0xd2800000), put(b, B_CODE + 20, 4, 0xd65f03c0);
      break;
    default:  // auipc a0, distance; addi a0, a0, distance; ret; li a0, 0; ret
      put(b, B_CODE, 4, 0x517 | (distance & ~0xfffu)), put(b, B_CODE + 4, 4, 0x50513 | (distance & 0xfff) << 20);
      put(b, B_CODE + 8, 4, 0x8067), put(b, B_CODE + 16, 4, 0x513), put(b, B_CODE + 20, 4, 0x8067);
  }
}

static int try_one(uint32_t changed, uint64_t to, uint64_t symbol, uint64_t returned, pyd_code_t code,
                   const char* part) {
  static builder_t b;
  uint32_t host = pyd_elf_machine_host();
  uint32_t relative = host == PYD_ELF_MACHINE_X86_64 ? 8 : host == PYD_ELF_MACHINE_AARCH64 ? 1027 : 3;
  const uint64_t targets[P_POINTERS] = {B_PLACE + HEADER,  B_CODE_VADDR + 16, B_CODE_VADDR + 16,
                                        B_CODE_VADDR + 16, B_PLACE + TEXT,    B_PLACE + TEXT + 4};
  build_begin(&b, host);
  add_symbol(&b, PYD_PLUGIN_QUERY_SYMBOL, 1, 2, 1, symbol);
  put_code(&b, returned);
  for (uint32_t i = 0; i < P_POINTERS; ++i) {
    if (i != changed || to != NOTHING) add_rela(&b, B_PLACE + kPlaces[i], relative, 0, i == changed ? to : targets[i]);
  }
  if (changed == P_TABLE) add_rela(&b, to, relative, 0, B_PLACE + HEADER);
  uint64_t data = B_PLACE - B_DATA_FROM_FILE;
  put(&b, data + HEADER, 4, PYD_PLUGIN_VERSION), put(&b, data + HEADER + 24, 4, PYD_PLUGIN_FEATURE_STANDALONE);
  memcpy(b.bytes + data + TEXT, "plug\0for tests", 15);
  put(&b, data + DATA_END - 3, 3, 0x787878);  // a string without an end
  build_end(&b);
  const pyd_plugin_options_t options = {.kind = PYD_PLUGIN_KIND_EMBEDDED, .name = "p"};
  pyd_plugin_t* plugin = NULL;
  bool good = expect(part, pyd_plugin_load_bytes(built(&b), &options, &plugin), code, part);
  if (good && code == PYD_CODE_OK) pyd_plugin_release(plugin);
  return !good;
}

static const struct {
  uint32_t pointer;
  uint64_t to;
  const char* text;
} kFaults[] = {
    {P_HEADER, OUTSIDE, "plugin 'p': its header, 96 bytes at 0x30000, lies in no segment of its file"},
    {P_HEADER, NEARLY_OUT, "its header, 96 bytes at 0x203f8, lies in no segment"},
    {P_HEADER, B_PLACE + HEADER + 4,
     "its header, 96 bytes at 0x20224, lies in no segment of its file or is not aligned to 8 bytes"},
    {P_LOAD, B_PLACE, "its load function is 0x20200, which lies in no executable segment's bytes"},
    {P_UNLOAD, OUTSIDE, "its unload function is 0x30000, which lies in no executable segment's bytes"},
    {P_RESOLVE, B_CODE_VADDR + 0x100, "its resolve function is 0x10100, which lies in no executable segment's bytes"},
    {P_NAME, NO_END, "its name at 0x203fd is no string of at most 4095 bytes in a segment of its file"},
    {P_DESCRIPTION, OUTSIDE, "its description at 0x30000 is no string"},
};

int main(void) {
  uint64_t table = B_PLACE + TABLE;
  int failed = try_one(P_POINTERS, 0, B_CODE_VADDR, table, PYD_CODE_OK, "");
  for (size_t i = 0; i < sizeof(kFaults) / sizeof(kFaults[0]); ++i) {
    failed |= try_one(kFaults[i].pointer, kFaults[i].to, B_CODE_VADDR, table, PYD_CODE_CORRUPT, kFaults[i].text);
  }
  failed |= try_one(P_POINTERS, 0, B_PLACE, table, PYD_CODE_CORRUPT,
                    "'" PYD_PLUGIN_QUERY_SYMBOL "' is 0x20200, which lies in no executable segment's bytes");
  failed |=
      try_one(P_POINTERS, 0, B_CODE_VADDR, OUTSIDE, PYD_CODE_CORRUPT, "what its query returned, 8 bytes at 0x30000");
  // What is missing is said; an unload function may be.
  failed |= try_one(P_POINTERS, 0, B_CODE_VADDR + 16, table, PYD_CODE_UNSUPPORTED, "does not speak plugin version 0.1");
  failed |= try_one(P_HEADER, NOTHING, B_CODE_VADDR, table, PYD_CODE_CORRUPT, "its table has no header");
  failed |= try_one(P_LOAD, NOTHING, B_CODE_VADDR, table, PYD_CODE_CORRUPT, "its table has no load function");
  failed |= try_one(P_RESOLVE, NOTHING, B_CODE_VADDR, table, PYD_CODE_CORRUPT, "its table has no resolve function");
  failed |= try_one(P_UNLOAD, NOTHING, B_CODE_VADDR, table, PYD_CODE_OK, "");
  failed |= try_one(P_TABLE, NEARLY_OUT, B_CODE_VADDR, NEARLY_OUT, PYD_CODE_CORRUPT,
                    "its table, 32 bytes at 0x203f8, lies in no segment");
  failed |= try_one(P_HEADER, B_PLACE + HEADER, B_CODE_VADDR, NEARLY_OUT, PYD_CODE_CORRUPT, "plugin 'p'");
  return failed;
}
