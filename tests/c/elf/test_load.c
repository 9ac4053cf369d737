// links: base platform elf
// Loading on the host: calling code, lookup through a chain, failing system calls, equal numbers of mappings.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "elf_builder.h"

// Stands before the C library's. Counts, and fails the call number |fail_at|.
static int protect_calls, fail_at;
int mprotect(void* address, size_t size, int protection) {
  if (++protect_calls == fail_at) return errno = EACCES, -1;
  return (int)syscall(SYS_mprotect, address, size, protection);
}

// return 42
static const uint8_t kX86[] = {0xb8, 42, 0, 0, 0, 0xc3};
static const uint8_t kArm[] = {0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};
static const uint8_t kRiscv[] = {0x13, 0x05, 0xa0, 0x02, 0x67, 0x80, 0x00, 0x00};

static void build(builder_t* b) {
  uint32_t host = pyd_elf_machine_host();
  build_begin(b, host);
  add_symbol(b, "answer", 1, 2, 1, B_CODE_VADDR);
  add_symbol(b, "data", 2, 1, 1, B_PLACE);
  add_symbol(b, "absent", 2, 0, 0, 0);
  add_symbol(b, "absolute", 1, 0, 0xfff1, 16);
  add_symbol(b, "outside", 1, 1, 1, 0x7000000);
  add_symbol(b, "end", 1, 0, 1, 0x203ff);
  add_symbol(b, "local", 0, 2, 1, B_CODE_VADDR);
  add_symbol(b, "unique", 10, 2, 1, B_CODE_VADDR);
  const uint8_t* code = host == PYD_ELF_MACHINE_X86_64 ? kX86 : host == PYD_ELF_MACHINE_AARCH64 ? kArm : kRiscv;
  memcpy(b->bytes + B_CODE, code, host == PYD_ELF_MACHINE_X86_64 ? sizeof(kX86) : sizeof(kArm));
  uint32_t absolute64 = host == PYD_ELF_MACHINE_X86_64 ? 1 : host == PYD_ELF_MACHINE_AARCH64 ? 257 : 2;
  add_rela(b, B_PLACE, absolute64, 1, 0);
  put_phdr(b, P_RELRO, 0x6474e552, 4, B_DYNAMIC, B_DATA_VADDR, 0x200, 1);
  build_end(b);
}

// Without allocating. A sanitizer's allocator maps memory for itself whenever it likes, so there nothing is counted.
static int count_mappings(void) {
#if defined(__SANITIZE_ADDRESS__)
  return 0;
#else
  static char bytes[65536];
  int maps = open("/proc/self/maps", O_RDONLY), count = 0;
  for (ssize_t got; (got = read(maps, bytes, sizeof(bytes))) > 0;) {
    for (ssize_t i = 0; i < got; ++i) count += bytes[i] == '\n';
  }
  close(maps);
  return count;
#endif
}

static int check_symbols(const pyd_elf_module_t* module) {
  int (*answer)(void) = (int (*)(void))(uintptr_t)pyd_elf_module_symbol(module, "answer");
  uint64_t* data = pyd_elf_module_symbol(module, "data");
  if (!answer || answer() != 42) return fprintf(stderr, "answer\n");
  if (!data || data[0] != (uint64_t)(uintptr_t)answer) return fprintf(stderr, "data\n");
  data[1] = 1;  // writable
  if (!pyd_elf_module_symbol(module, "end")) return fprintf(stderr, "end\n");
  if (!pyd_elf_module_symbol(module, "unique")) return fprintf(stderr, "unique\n");
  pyd_elf_symbol_t symbol;
  if (!pyd_elf_module_symbol_at(module, 6, &symbol) || strcmp(symbol.name, "end") != 0 || symbol.size != 8)
    return fprintf(stderr, "the size of 'end'\n");
  static const char* const kMissing[] = {"local", "absent", "absolute", "outside", "", "answer2", "answe"};
  for (size_t i = 0; i < sizeof(kMissing) / sizeof(kMissing[0]); ++i) {
    if (pyd_elf_module_symbol(module, kMissing[i])) return fprintf(stderr, "found '%s'\n", kMissing[i]);
  }
  return 0;
}

// The chain of symbol 3 leads back to 1: a search must end. Then chains and buckets that leave the table.
static int check_hostile_hash(void) {
  static builder_t b;
  static const uint32_t kValues[] = {1, 3, 6, 1000000, UINT32_MAX};
  for (size_t i = 0; i < sizeof(kValues) / sizeof(kValues[0]); ++i) {
    build(&b);
    put(&b, B_HASH + 12 + 4 * 3, 4, kValues[i]);
    pyd_elf_module_t module;
    if (!expect("hostile hash", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL)) return 1;
    if (pyd_elf_module_symbol(&module, "nothing")) return fprintf(stderr, "found nothing\n");
    if (!pyd_elf_module_symbol(&module, "data")) return fprintf(stderr, "lost data\n");
    pyd_elf_module_unload(&module);
  }
  return 0;
}

static int check_other_machine(void) {
  static builder_t b;
  build(&b);
  bool is_x86 = pyd_elf_machine_host() == PYD_ELF_MACHINE_X86_64;
  put(&b, 18, 2, is_x86 ? PYD_ELF_MACHINE_AARCH64 : PYD_ELF_MACHINE_X86_64);
  pyd_elf_module_t module;
  char part[64];
  snprintf(part, sizeof(part), "is for %s, this machine is %s", is_x86 ? "aarch64" : "x86_64",
           pyd_elf_machine_name(pyd_elf_machine_host()));
  bool good = expect("other machine", pyd_elf_module_load(built(&b), &module), PYD_CODE_UNSUPPORTED, part);
  return !good || module.memory;
}

// Zeros behind what the file stores of an executable segment are no code: hooks there are refused, in arrays and by
// tag.
static int check_unstored_code(void) {
  static const uint64_t kArrays[] = {25, 26};  // DT_INIT_ARRAY, DT_FINI_ARRAY
  static const char* const kNames[] = {
      "entry 1 of DT_INIT_ARRAY is 0x10180, which lies in no executable segment's bytes",
      "entry 1 of DT_FINI_ARRAY is 0x10180, which lies in no executable segment's bytes",
      "DT_INIT 0x10180 lies in no executable segment's bytes", "DT_FINI 0x10180 lies in no executable segment's bytes"};
  int failed = 0;
  for (int i = 0; i < 4; ++i) {
    static builder_t b;
    pyd_elf_module_t module;
    uint32_t host = pyd_elf_machine_host();
    build_begin(&b, host);
    put(&b, B_PHDRS + 56 * P_CODE + 40, 8, 0x200);  // memory; 0x100 bytes are in the file
    uint32_t relative = host == PYD_ELF_MACHINE_X86_64 ? 8 : host == PYD_ELF_MACHINE_AARCH64 ? 1027 : 3;
    if (i < 2) add_rela(&b, B_PLACE + 8, relative, 0, B_CODE_VADDR + 0x180);
    build_end(&b);
    if (i < 2) {
      add_tag(&b, kArrays[i], B_PLACE), add_tag(&b, kArrays[i] + 2, 16);
    } else {
      add_tag(&b, i == 2 ? 12 : 13, B_CODE_VADDR + 0x180);
    }
    failed |= !expect(kNames[i], pyd_elf_module_load(built(&b), &module), PYD_CODE_CORRUPT, kNames[i]);
    if (module.memory) failed = fprintf(stderr, "a refused module is mapped\n");
  }
  return failed;
}

// An initialiser outside the code is found before any runs; every refused protection leaves nothing behind.
static int check_failures(const builder_t* good) {
  static builder_t b;
  pyd_elf_module_t module;
  build(&b);
  put(&b, B_DYNAMIC + 0x108, 8, 0x1234);
  add_tag(&b, 25, B_DATA_VADDR + 0x108), add_tag(&b, 27, 8);
  int before = count_mappings(), failed = 0;
  failed |= check_unstored_code();
  failed |= !expect("initialiser", pyd_elf_module_load(built(&b), &module), PYD_CODE_CORRUPT,
                    "entry 0 of DT_INIT_ARRAY is 0x");
  protect_calls = 0;
  failed |= !expect("count", pyd_elf_module_load(built(good), &module), PYD_CODE_OK, NULL);
  int calls = protect_calls;
  pyd_elf_module_unload(&module);
#if defined(PYD_PLATFORM_GENERIC)
  if (calls != 0) failed = fprintf(stderr, "%d protections of the heap\n", calls);
#else
  if (calls < 2 || calls > 3) failed = fprintf(stderr, "%d protections, expected 2 or 3\n", calls);
#endif
  for (fail_at = 1; fail_at <= calls; ++fail_at) {
    protect_calls = 0;
    failed |= !expect("protection", pyd_elf_module_load(built(good), &module), PYD_CODE_SYSTEM, "Permission denied");
    if (module.memory || module.bias) failed = fprintf(stderr, "module is not zero\n");
  }
  fail_at = 0;
  if (count_mappings() != before) failed = fprintf(stderr, "%d mappings, before %d\n", count_mappings(), before);
  return failed;
}

// Three files in one mapping, unloaded in another order than loaded; a bad one leaves nothing behind and is named.
static int check_together(const builder_t* good) {
  static builder_t bad;
  bad = *good;
  bad.bytes[0] = 0;
  int failed = 0, before = count_mappings();
  pyd_elf_module_t modules[3];
  uint32_t number = 7;
  const pyd_span_t files[] = {built(good), built(good), built(good)};
  protect_calls = 0;
  failed |= !expect("together", pyd_elf_modules_map(files, 3, modules, &number), PYD_CODE_OK, NULL);
#if !defined(PYD_PLATFORM_GENERIC)
  if (protect_calls > 3 * 2) failed = fprintf(stderr, "%d protections of three images\n", protect_calls);
#endif
  static const int kOrder[] = {1, 0, 2};
  for (int i = 0; i < 3; ++i) {
    pyd_elf_module_t* module = &modules[kOrder[i]];
    if (module->mapping != modules[2].mapping) failed = fprintf(stderr, "several mappings\n");
    failed |= !expect("initialise", pyd_elf_module_initialise(module), PYD_CODE_OK, NULL);
    failed |= check_symbols(module);
    pyd_elf_module_unload(module);
  }
  const pyd_span_t mixed[] = {built(good), built(&bad), built(good)};
  failed |=
      !expect("one is bad", pyd_elf_modules_map(mixed, 3, modules, &number), PYD_CODE_CORRUPT, "does not start with");
  if (number != 1 || modules[0].memory) failed = fprintf(stderr, "file %u, or a module is left\n", number);
  if (count_mappings() != before) failed = fprintf(stderr, "%d mappings, before %d\n", count_mappings(), before);
  return failed;
}

int main(void) {
  static builder_t b;
  build(&b);
  pyd_elf_module_t module = {0};
  int failed = 0;
  pyd_elf_module_unload(&module);  // a zero module
  if (pyd_elf_module_symbol(&module, "answer")) failed = fprintf(stderr, "symbol in a zero module\n");
  for (int i = 0; i < 20; ++i) {  // the allocator settles
    pyd_status_free(pyd_elf_module_load(built(&b), &module));
    pyd_elf_module_unload(&module);
  }
  int before = count_mappings();
  for (int i = 0; i < 1000; ++i) {
    failed |= !expect("load", pyd_elf_module_load(built(&b), &module), PYD_CODE_OK, NULL);
    if (i == 0) failed |= check_symbols(&module);
    if (module.bias % 65536)
      failed = fprintf(stderr, "bias 0x%lx is not aligned to 64 KiB\n", (unsigned long)module.bias);
    pyd_elf_module_unload(&module);
    if (module.memory) failed = fprintf(stderr, "unload left memory\n");
  }
  if (count_mappings() != before) failed = fprintf(stderr, "%d mappings, before %d\n", count_mappings(), before);
  return (failed | check_hostile_hash() | check_other_machine() | check_failures(&b) | check_together(&b)) ? 1 : 0;
}
