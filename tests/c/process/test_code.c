// links: base platform sched process
// flags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
// What debuggers and perf see of announced code: each function with a size, and what happens when memory is short.
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pydispatch/process.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: failed: %s\n", __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static int64_t g_allowed = INT64_MAX;  // allocations that succeed
void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* block, size_t size);
void* __wrap_malloc(size_t size) { return g_allowed-- > 0 ? __real_malloc(size) : NULL; }
void* __wrap_calloc(size_t count, size_t size) { return g_allowed-- > 0 ? __real_calloc(count, size) : NULL; }
void* __wrap_realloc(void* block, size_t size) { return g_allowed-- > 0 ? __real_realloc(block, size) : NULL; }

// The interface of gdb.
struct entry {
  struct entry *next, *prev;
  const char* image;
  uint64_t size;
};
extern struct {
  uint32_t version, action;
  struct entry *relevant, *first;
} __jit_debug_descriptor;

enum { IMAGE = 256 };            // bytes of the image
static char g_code[IMAGE + 64];  // the image, and other memory after it
static const struct {
  pyd_process_symbol_t symbol;
  uint64_t size;  // that it is announced with
} kSymbols[] = {
    {{"second", g_code + 64, 0, true}, 32},           // up to the data
    {{"data", g_code + 96, 0, false}, 0},             // no function
    {{"first", g_code, 0, true}, 64},                 // an alias has the same address
    {{"alias", g_code, 16, true}, 16},                // as stated
    {{"the last\none", g_code + 128, 0, true}, 128},  // up to the end of the image, though a symbol is after it
    {{"outside", g_code + IMAGE + 16, 0, true}, 0},   // not in the image
};
enum { COUNT = sizeof(kSymbols) / sizeof(*kSymbols) };

static pyd_process_code_info_t all_symbols(pyd_process_symbol_t* symbols) {
  for (size_t i = 0; i < COUNT; ++i) symbols[i] = kSymbols[i].symbol;
  return (pyd_process_code_info_t){"module", g_code, IMAGE, EM_X86_64, symbols, COUNT};
}

// The number of symbols in the newest image, each of which is checked. |is_system|: of a library of the system's
// loader, whose functions have the sizes that were stated.
static size_t check_image(bool is_system) {
  const char* image = __jit_debug_descriptor.first->image;
  const Elf64_Ehdr* header = (const Elf64_Ehdr*)image;
  const Elf64_Shdr* sections = (const Elf64_Shdr*)(image + header->e_shoff);
  size_t count = 0;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym* symbols = (const Elf64_Sym*)(image + sections[i].sh_offset);
    const char* names = image + sections[sections[i].sh_link].sh_offset;
    for (size_t s = 2; s < sections[i].sh_size / sizeof(*symbols); ++s, ++count) {
      size_t k = 0;
      while (k < COUNT && strcmp(names + symbols[s].st_name, kSymbols[k].symbol.name) != 0) ++k;
      CHECK(k < COUNT && symbols[s].st_size == (is_system ? kSymbols[k].symbol.size : kSymbols[k].size));
      CHECK(symbols[s].st_value == (uintptr_t)kSymbols[k].symbol.address);
      CHECK(ELF64_ST_TYPE(symbols[s].st_info) == (kSymbols[k].symbol.is_function ? STT_FUNC : STT_OBJECT));
    }
  }
  return count;
}

static char g_perf_map[64];  // the path of the file that perf reads

static void test_sizes(void) {
  pyd_process_symbol_t symbols[COUNT];
  pyd_process_code_info_t info = all_symbols(symbols);
  pyd_process_code_t *code, *bare, *of_system;
  snprintf(g_perf_map, sizeof(g_perf_map), "/tmp/perf-%ld.map", (long)getpid());
  unlink(g_perf_map);  // of an earlier process with this number
  CHECK(pyd_ok(pyd_process_code_register(&info, true, &code)) && check_image(false) == COUNT);
  info.address = NULL, info.size = 0;
  CHECK(pyd_ok(pyd_process_code_register(&info, false, &of_system)) && check_image(true) == COUNT);
  pyd_process_code_unregister(of_system);
  info.symbol_count = 0;
  CHECK(pyd_ok(pyd_process_code_register(&info, false, &bare)) && check_image(false) == 0);
  pyd_process_code_unregister(code);
  pyd_process_code_unregister(bare);
  CHECK(!__jit_debug_descriptor.first);
}

// perf reads lines of address, size and name.
static void test_perf_map(void) {
  char line[128];
  FILE* map = fopen(g_perf_map, "r");
  CHECK(map && unlink(g_perf_map) == 0);
  size_t count = 0;
  unsigned long long address, size;
  char name[64];
  for (; fgets(line, sizeof(line), map); ++count) {
    CHECK(sscanf(line, "%llx %llx %63s", &address, &size, name) == 3 && size > 0);
    if (strcmp(name, "the_last_one") == 0) CHECK(address == (uintptr_t)(g_code + 128) && size == 128);
  }
  CHECK(count == 4);
  fclose(map);
}

// A named pipe in the place of the file is neither waited for nor written to.
static void test_perf_pipe(void) {
  pyd_process_symbol_t symbols[COUNT];
  pyd_process_code_info_t info = all_symbols(symbols);
  pyd_process_code_t* code;
  char byte;
  CHECK(mkfifo(g_perf_map, 0600) == 0);
  alarm(60);  // ends a test that waits
  CHECK(pyd_ok(pyd_process_code_register(&info, true, &code)));
  pyd_process_code_unregister(code);
  int reader = open(g_perf_map, O_RDONLY | O_NONBLOCK);
  CHECK(reader >= 0 && pyd_ok(pyd_process_code_register(&info, true, &code)));
  pyd_process_code_unregister(code);
  alarm(0);
  CHECK(read(reader, &byte, 1) == 0 && close(reader) == 0 && unlink(g_perf_map) == 0);
}

static void retain(void* self) { ++*(int*)self; }

// Each allocation fails in turn.
static void test_no_memory(void) {
  pyd_process_symbol_t symbols[COUNT];
  pyd_process_code_info_t info = all_symbols(symbols);
  bool is_done = false;
  for (int64_t allowed = 0; !is_done; ++allowed) {
    pyd_process_code_t* code;
    g_allowed = allowed;
    pyd_status_t status = pyd_process_code_register(&info, false, &code);
    g_allowed = INT64_MAX;
    is_done = pyd_ok(status);
    CHECK(is_done || (!code && pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY && !__jit_debug_descriptor.first));
    pyd_status_free(status);
    pyd_process_code_unregister(code);
  }
  int retained = 0;
  g_allowed = 0;
  pyd_status_t status = pyd_process_number_add(7, &retained, retain);
  g_allowed = INT64_MAX;
  CHECK(pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY && !pyd_process_number_find(7, retain) && !retained);
  pyd_status_free(status);
}

// The permits are created once; a process without memory for them has none.
static void test_permits(void) {
  pid_t child = fork();
  if (child == 0) {
    g_allowed = 0;
    bool has_any = pyd_process_permits() != NULL;
    g_allowed = INT64_MAX;
    _exit(has_any || pyd_process_permits());
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(pyd_process_permits() && pyd_process_permits() == pyd_process_permits());
}

int main(void) {
  test_sizes();
  test_perf_map();
  test_perf_pipe();
  test_no_memory();
  test_permits();
  return 0;
}
