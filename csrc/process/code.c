// Announcing code: gdb's JIT compilation interface (gdb manual, "JIT Interface") and Linux perf's map file.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "process/debug_image.h"
#include "process/lock.h"

// The names __jit_debug_descriptor and __jit_debug_register_code and the layouts of these structures are the interface:
// the debugger finds them by name and puts a breakpoint on the function. Other JIT compilers in the process have copies
// of their own. An ELF loader would bind all to one copy, hence the protected visibility.
#if defined(__ELF__)
#define OWN __attribute__((visibility("protected"), used))
#else
#define OWN __attribute__((used))
#endif

// A module in the debugger's list: an ELF file in memory.
struct jit_code_entry {
  struct jit_code_entry* next_entry;
  struct jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};

// Action that the debugger is told of: it has been taken on |relevant_entry|.
enum { JIT_NOACTION, JIT_REGISTER, JIT_UNREGISTER };

// The head of the debugger's list, with the entry that was just added or is about to be removed.
struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;
  struct jit_code_entry* relevant_entry;
  struct jit_code_entry* first_entry;
};

void __jit_debug_register_code(void);
// The list of registered code, which debuggers read. Version 1 of GDB's JIT interface, with an empty list.
OWN struct jit_descriptor __jit_debug_descriptor = {1, JIT_NOACTION, NULL, NULL};
// Does nothing: the debugger stops the process here, and then reads the changed list in __jit_debug_descriptor. OWN:
// each JIT compiler of the process has its own copy.
OWN __attribute__((noinline)) void __jit_debug_register_code(void) {
  __asm__ volatile("" ::: "memory");  // keeps the compiler from removing calls of an empty function
}

// Loaded code that the debugger knows.
struct pyd_process_code_s {
  struct jit_code_entry entry;
  uint8_t* image;  // the ELF file with the symbols, which the entry refers to
};

// Reports an entry to the debugger, which has a breakpoint on __jit_debug_register_code(). |action|: JIT_REGISTER or
// JIT_UNREGISTER. The caller holds the lock of the process.
static void announce(uint32_t action, struct jit_code_entry* entry) {
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_register_code();
  __jit_debug_descriptor.action_flag = JIT_NOACTION;
  __jit_debug_descriptor.relevant_entry = NULL;
}

// Compares two symbols by their addresses, for qsort().
static int by_address(const void* a, const void* b) {
  const pyd_process_symbol_t* x = a;
  const pyd_process_symbol_t* y = b;
  return (x->address > y->address) - (x->address < y->address);
}

// Sorts |symbols|, a copy of the symbols of |info|, by address. Functions of unknown size (0) in the image get the
// bytes up to the next higher address of a symbol, or to the end of the image. Debuggers find no name for an address
// inside a function without a size.
static void find_sizes(const pyd_process_code_info_t* info, pyd_process_symbol_t* symbols) {
  size_t count = info->symbol_count;
  const uintptr_t begin = (uintptr_t)info->address, limit = begin + info->size;  // of the image
  qsort(symbols, count, sizeof(*symbols), by_address);
  uintptr_t later = limit, end = limit;  // address of the symbol after this one; the lowest address above this one
  for (size_t i = count; i-- > 0;) {
    const uintptr_t address = (uintptr_t)symbols[i].address;
    const bool is_in_image = begin <= address && address < limit;
    if (!is_in_image) continue;
    if (address < later) end = later;  // else both symbols have the same address, and the same end
    later = address;
    if (symbols[i].is_function && symbols[i].size == 0) symbols[i].size = end - address;
  }
}

#if defined(__linux__)

// Writes a name with '_' for spaces and control characters: perf splits a map at spaces and line ends, and a name from
// a file could hold either.
static void write_name(FILE* map, const char* name) {
  for (; *name; ++name) fputc((unsigned char)*name > ' ' ? *name : '_', map);
}

// Appends the functions to the map file of perf for this process; does nothing when that cannot be opened or
// is no regular file.
static void append_to_perf_map(const pyd_process_code_info_t* info) {
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)getpid());
  // Every user can write to /tmp: never follow a symbolic link there, nor wait for the reader of a named pipe.
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  struct stat info_of_file;
  bool is_file = file >= 0 && fstat(file, &info_of_file) == 0 && S_ISREG(info_of_file.st_mode);
  FILE* map = is_file ? fdopen(file, "a") : NULL;
  if (!map) {
    if (file >= 0) close(file);
    return;
  }
  for (size_t i = 0; i < info->symbol_count; ++i) {
    const pyd_process_symbol_t* symbol = &info->symbols[i];
    // Skip data, and functions without a size: those outside the image. The image of a library that the system's loader
    // has loaded is empty: perf reads the symbols of such a library from its file.
    if (!symbol->is_function || !symbol->size) continue;
    fprintf(map, "%" PRIxPTR " %" PRIx64 " ", (uintptr_t)symbol->address, symbol->size);
    write_name(map, symbol->name);
    fputc('\n', map);
  }
  fclose(map);
}

#else  // perf is Linux's

static void append_to_perf_map(const pyd_process_code_info_t* info) { (void)info; }

#endif

// Builds the ELF image of |info|, whose functions all have sizes, into |code|, adds it to the debugger's list and, with
// |perf_map|, to the map file of perf. The caller frees the image after a failure.
static pyd_status_t announce_sized(const pyd_process_code_info_t* info, bool perf_map, pyd_process_code_t* code) {
  size_t size = 0;
  pyd_status_t st = pyd_process_debug_image_make(info, &code->image, &size);
  if (pyd_ok(st)) st = pyd_process_lock();
  if (!pyd_ok(st)) return st;
  code->entry.symfile_addr = (const char*)code->image;
  code->entry.symfile_size = size;
  code->entry.next_entry = __jit_debug_descriptor.first_entry;
  if (code->entry.next_entry) code->entry.next_entry->prev_entry = &code->entry;
  __jit_debug_descriptor.first_entry = &code->entry;
  announce(JIT_REGISTER, &code->entry);
  if (perf_map) append_to_perf_map(info);
  pyd_process_unlock();
  return st;
}

// Registers code with debuggers and, with |perf_map|, with perf. Copies what it needs of |info|. |*out_code|: for
// pyd_process_code_unregister(); NULL after a failure.
pyd_status_t pyd_process_code_register(const pyd_process_code_info_t* info, bool perf_map,
                                       pyd_process_code_t** out_code) {
  *out_code = NULL;
  pyd_process_code_t* code = calloc(1, sizeof(*code));
  pyd_process_symbol_t* symbols = calloc(info->symbol_count + 1, sizeof(*symbols));
  pyd_status_t st = PYD_STATUS_OK;
  if (!code || !symbols) {
    st = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to announce code (%zu symbols)", info->symbol_count);
  } else {
    pyd_process_code_info_t sized = *info;
    sized.symbols = symbols;
    if (info->symbol_count) memcpy(symbols, info->symbols, info->symbol_count * sizeof(*symbols));
    find_sizes(info, symbols);
    st = announce_sized(&sized, perf_map, code);
  }
  free(symbols);
  if (pyd_ok(st)) {
    *out_code = code;
    return st;
  }
  if (code) free(code->image);
  free(code);
  return st;
}

// Removes |code| from the debugger's list and frees it; call it before the machine code is unmapped. Entries in the map
// file of perf remain. |code| may be NULL.
void pyd_process_code_unregister(pyd_process_code_t* code) {
  if (!code) return;
  // pyd_process_code_register() has installed the fork handlers, so locking cannot fail any more.
  pyd_status_free(pyd_process_lock());
  struct jit_code_entry* entry = &code->entry;
  if (entry->prev_entry) {
    entry->prev_entry->next_entry = entry->next_entry;
  } else {
    __jit_debug_descriptor.first_entry = entry->next_entry;
  }
  if (entry->next_entry) entry->next_entry->prev_entry = entry->prev_entry;
  announce(JIT_UNREGISTER, entry);
  pyd_process_unlock();
  free(code->image);
  free(code);
}
