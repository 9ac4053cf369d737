// The embedded ELF loader: a freestanding shared object (no libc, no thread-local storage, no undefined symbols)
// becomes running code, on any operating system. parse → map → relocate → protect → initialise.
//
// Parsing accepts any bytes, reads nothing outside them, and works for each machine below on every host. Loading needs
// a file for this machine. Loaded code is trusted; memory is never writable and executable at once.
#ifndef PYDISPATCH_ELF_H_
#define PYDISPATCH_ELF_H_

#include "pydispatch/span.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Machines whose code can be loaded, by their numbers in ELF headers.
typedef enum pyd_elf_machine_e {
  PYD_ELF_MACHINE_X86_64 = 62,
  PYD_ELF_MACHINE_AARCH64 = 183,
  PYD_ELF_MACHINE_RISCV64 = 243,
} pyd_elf_machine_t;

// "x86_64", "aarch64", "riscv64", or NULL.
const char* pyd_elf_machine_name(uint32_t machine);
uint32_t pyd_elf_machine_host(void);

#define PYD_ELF_MAX_SEGMENTS 16  // linkers emit 2 to 6

// Bytes of a loaded segment, all readable.
typedef struct pyd_elf_memory_s {
  uint64_t address;
  uint64_t size;
  uint64_t stored;  // bytes from the file; the rest was zero
  bool is_code;     // executable, and not writable
} pyd_elf_memory_t;

// A range of virtual addresses.
typedef struct pyd_elf_range_s {
  uint64_t vaddr;  // in the file
  uint64_t size;   // bytes
} pyd_elf_range_t;

typedef struct pyd_elf_mapping_s pyd_elf_mapping_t;

// An ELF file that is mapped and relocated.
typedef struct pyd_elf_module_s {
  pyd_elf_mapping_t* mapping;  // of all modules that were mapped together
  uint8_t* memory;             // of this one in it, or NULL when nothing is loaded
  size_t memory_size;          // bytes
  uint64_t bias;               // address = bias + the file's virtual address
  uint64_t low_vaddr;          // of |memory|
  const uint8_t* symtab;
  uint64_t symbol_count;
  const char* strtab;
  uint64_t strtab_size;
  uint64_t init;  // DT_INIT, 0 when none: file virtual address
  uint64_t fini;  // DT_FINI, 0 when none: file virtual address
  pyd_elf_range_t init_array;
  pyd_elf_range_t fini_array;
  bool is_initialised;
  const uint8_t* hash;  // DT_GNU_HASH or DT_HASH
  uint64_t hash_size;   // bytes
  bool hash_is_gnu;
  uint32_t segment_count;
  pyd_elf_memory_t segments[PYD_ELF_MAX_SEGMENTS];  // ascending, disjoint
} pyd_elf_module_t;

// A symbol that a module defines.
typedef struct pyd_elf_symbol_s {
  const char* name;  // in the module's memory
  void* address;
  uint64_t size;  // bytes, 0 when unknown
  bool is_function;
} pyd_elf_symbol_t;

// Checks everything that loading checks, without loading, for any known machine.
pyd_status_t pyd_elf_validate(pyd_span_t file, uint32_t* out_machine);

// Checks what the system's loader follows unchecked: program headers, the dynamic section, and the tables that it
// names lie inside the file. The content of the tables is not checked. CORRUPT, UNSUPPORTED.
pyd_status_t pyd_elf_check_system(pyd_span_t file);

// Loads |file| (which may be freed afterwards) and runs its initialisers. On failure |out_module| is zero and no
// mapping remains.
pyd_status_t pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module);
// The first half of it for |count| files, in one mapping, which lives until the last module is unloaded. On failure
// |out_modules| are zero, no mapping remains, and |out_failed| is the number of the file that is at fault, or |count|.
pyd_status_t pyd_elf_modules_map(const pyd_span_t* files, uint32_t count, pyd_elf_module_t* out_modules,
                                 uint32_t* out_failed);
// The second half: runs the initialisers, once. On failure the caller unloads the module.
pyd_status_t pyd_elf_module_initialise(pyd_elf_module_t* module);
// The address of a defined global or weak symbol, or NULL.
void* pyd_elf_module_symbol(const pyd_elf_module_t* module, const char* name);
// For calls: whether |address| lies in bytes that the file stores in an executable segment.
bool pyd_elf_module_is_code(const pyd_elf_module_t* module, uint64_t address);
// For reads: whether |size| bytes at |address| lie in one segment. True for empty ranges.
bool pyd_elf_module_holds(const pyd_elf_module_t* module, const void* address, uint64_t size);
// Whether |text| is a string that ends inside its segment, |limit| bytes at most without its NUL.
bool pyd_elf_module_holds_text(const pyd_elf_module_t* module, const char* text, uint64_t limit);
// The symbol number |index| of 1 .. symbol_count - 1. False when it is not a defined global or weak symbol, or when its
// name has more than 1023 bytes.
bool pyd_elf_module_symbol_at(const pyd_elf_module_t* module, uint64_t index, pyd_elf_symbol_t* out_symbol);
// For debuggers: the functions and data, exported or not, that the section headers of |file|, from which
// |module| was loaded, name. Returns their number, 0 for a stripped file, and writes at most |capacity| of them. Their
// names point into |file|.
uint64_t pyd_elf_debug_symbols(pyd_span_t file, const pyd_elf_module_t* module, pyd_elf_symbol_t* out_symbols,
                               uint64_t capacity);
// Runs the finalisers of an initialised module and unmaps. Accepts a zero module.
void pyd_elf_module_unload(pyd_elf_module_t* module);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_ELF_H_
