// links: base platform
// skip-generic: it has no loader of the system's own
// Which shared libraries may print: those that ask for a function that is not known to be silent, and those that cannot
// be read.
#include "platform/dl.h"

#include "elf/elf_builder.h"

static int failures;

static void check_at(int line, bool condition) {
  if (!condition) failures += fprintf(stderr, "line %d\n", line) > 0;
}
#define SILENT(b) check_at(__LINE__, !pyd_dl_may_print(built(b)))
#define LOUD(b) check_at(__LINE__, pyd_dl_may_print(built(b)))

static uint64_t tag_at(builder_t* b, uint64_t tag) {  // of its value, in the file
  for (uint64_t at = B_DYNAMIC;; at += 16) {
    if (b->bytes[at] == (uint8_t)tag && b->bytes[at + 1] == (uint8_t)(tag >> 8)) return at + 8;
  }
}

// Asks for |name| by a relocation of the data or, with |by_plt|, of a call.
static builder_t* asking(const char* name, bool by_plt) {
  static builder_t b;
  build_begin(&b, pyd_elf_machine_host());
  add_symbol(&b, "printf", 1, 2, 1, B_CODE_VADDR);  // its own
  uint32_t symbol = add_symbol(&b, name, 1, 0, 0, 0);
  add_rela(&b, B_PLACE, 1, 1, 0), add_rela(&b, B_PLACE, 1, 0, 0), add_rela(&b, B_PLACE, 1, symbol, 0);
  build_end(&b);
  if (by_plt) put(&b, tag_at(&b, 7) - 8, 8, 23), put(&b, tag_at(&b, 8) - 8, 8, 2);
  return &b;
}

int main(void) {
  static const char* const kSilent[] = {"memcpy", "memset", "strcmp", "free", "__stack_chk_fail", "sin", "sinf",
                                        "sinl",   "atan2f", "trunc",  "acosl"};
  static const char* const kLoud[] = {"puts",  "fprintf", "stdout", "write", "memcpyf", "sing", "si",
                                      "sinff", "",        " ",      "acos~", "cos sin", "other"};
  for (size_t i = 0; i < sizeof(kSilent) / sizeof(kSilent[0]); ++i)
    SILENT(asking(kSilent[i], false)), SILENT(asking(kSilent[i], true));
  for (size_t i = 0; i < sizeof(kLoud) / sizeof(kLoud[0]); ++i)
    LOUD(asking(kLoud[i], false)), LOUD(asking(kLoud[i], true));
  static builder_t b;
  build_begin(&b, pyd_elf_machine_host());
  build_end(&b);
  SILENT(&b);  // it asks for nothing
  b = *asking("cos", false);
  put(&b, tag_at(&b, 8), 8, 24 * 1000);  // more relocations than there is room for
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, tag_at(&b, 7), 8, 0x900000);  // nowhere
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, B_RELA + 2 * 24 + 12, 4, 100000);  // a symbol that is not there
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, B_SYMBOLS + 2 * 24, 4, 100000);  // a name that is not there
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, tag_at(&b, 10), 8, b.strings - 1);  // a name without an end
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, tag_at(&b, 6), 8, 0x900000);  // no symbols
  LOUD(&b);
  const uint64_t others[] = {17, 0x6000000f, 0x60000011};  // relocations of other formats
  for (int i = 0; i < 3; ++i) {
    b = *asking("cos", false);
    add_tag(&b, others[i], B_RELA);
    LOUD(&b);
  }
  b = *asking("cos", false);
  put(&b, 54, 2, 40);  // headers of another size
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, 32, 8, B_SIZE);  // no headers
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, B_PHDRS + 56 * P_DYNAMIC, 4, 0);  // no dynamic section
  LOUD(&b);
  b = *asking("cos", false);
  put(&b, B_PHDRS + 56 * P_DYNAMIC + 8, 8, B_SIZE);  // one outside the file
  LOUD(&b);
  for (uint32_t size = 64; size < B_SIZE; ++size) {  // cut anywhere: never a byte behind the end, for ASAN to see
    uint8_t* copy = __builtin_memcpy(__builtin_malloc(size), asking("cos", false)->bytes, size);
    pyd_dl_may_print((pyd_span_t){copy, size});
    __builtin_free(copy);
  }
  return failures != 0;
}
