// Validated view of the bytes of an ELF file. Its pointers and ranges may be used without further checks: tables are
// inside the file, ranges inside loaded segments, sizes are multiples of their records.
//
// Order of the files. Each calls only files above it:
//   view.c      segments and stored bytes of a view
//   module.c    addresses that a loaded module holds
//   mapping.c   views become protected memory; owns pyd_elf_mapping_t
//   symbols.c   symbols that a view must not have, and lookup in a module
//   hash.c      the number of symbols
//   reloc.c     relocations, by meaning
//   dynamic.c   what the dynamic section points at
//   parse.c     bytes become a view; owns pyd_elf_view_t
//   debug.c     the full symbol table, for debuggers
//   load.c      a view becomes running code; owns pyd_elf_module_t
#ifndef PYD_ELF_VIEW_H_
#define PYD_ELF_VIEW_H_

#include "pydispatch/elf.h"

// Code in one image reaches its own data by 32-bit displacement, so nothing larger is linkable without a large model.
#define PYD_ELF_MAX_IMAGE ((uint64_t)1 << 31)
// Symbols with longer names can be looked up, but are not listed: many may share one long name, which would be copied
// for each.
#define PYD_ELF_MAX_LISTED_NAME 1023
#define PYD_ELF_MAX_ALIGNMENT ((uint64_t)1 << 24)

// A loaded segment (PT_LOAD).
typedef struct pyd_elf_segment_s {
  uint64_t vaddr;
  uint64_t memory_size;  // bytes, not 0
  uint64_t offset;       // in the file
  uint64_t file_size;    // bytes, <= memory_size
  uint32_t flags;        // PF_X, PF_W; never both
} pyd_elf_segment_t;

// A table that the dynamic section points to.
typedef struct pyd_elf_table_s {
  const uint8_t* bytes;  // in the file; NULL when there is no such table
  uint64_t vaddr;
  uint64_t size;  // bytes
} pyd_elf_table_t;

// Headers and tables of an ELF file, which have been checked.
typedef struct pyd_elf_view_s {
  pyd_span_t file;
  bool is_system;       // for the system's loader: what embedded code must not contain is not refused
  bool writes_dynamic;  // PT_DYNAMIC is marked writable
  uint32_t machine;
  uint32_t segment_count;
  pyd_elf_segment_t segments[PYD_ELF_MAX_SEGMENTS];  // ascending, disjoint
  uint64_t low;                                      // the image is [low, high); low is a multiple of |alignment|
  uint64_t high;                                     // a multiple of the page size
  uint64_t alignment;                                // of the load bias: at least a page
  pyd_elf_range_t relro;                             // starts in a writable segment, or empty
  pyd_elf_range_t dynamic;                           // of PT_DYNAMIC
  pyd_elf_table_t symtab;                            // symbol_count records
  uint64_t symbol_count;
  pyd_elf_table_t strtab;  // the last byte is NUL
  pyd_elf_table_t hash;    // up to the end of its segment's bytes
  bool hash_is_gnu;
  pyd_elf_table_t rela;  // DT_RELA
  pyd_elf_table_t plt;   // DT_JMPREL
  pyd_elf_table_t relr;
  uint64_t init;  // 0: none
  uint64_t fini;
  pyd_elf_range_t init_array;
  pyd_elf_range_t fini_array;
} pyd_elf_view_t;

// Reads |file| into |out_view|, which borrows its bytes. |page_size|: bytes of a page of the machine that would load
// it. CORRUPT for bytes that contradict themselves, UNSUPPORTED for what an embedded ELF must not contain.
pyd_status_t pyd_elf_parse(pyd_span_t file, size_t page_size, pyd_elf_view_t* out_view);

// Like pyd_elf_parse, for a library that the system's loader opens: that loader checks none of this.
pyd_status_t pyd_elf_parse_system(pyd_span_t file, size_t page_size, pyd_elf_view_t* out_view);

// The second half of pyd_elf_parse: everything that the dynamic section points at. (dynamic.c, hash.c, symbols.c)
pyd_status_t pyd_elf_parse_dynamic(pyd_elf_view_t* view);
pyd_status_t pyd_elf_parse_hash(pyd_elf_view_t* view, uint64_t sysv, uint64_t gnu);
pyd_status_t pyd_elf_check_symbols(const pyd_elf_view_t* view);

// The segment whose memory holds all of [vaddr, vaddr + size), or NULL.
const pyd_elf_segment_t* pyd_elf_view_segment(const pyd_elf_view_t* view, uint64_t vaddr, uint64_t size);
// The file's bytes for [vaddr, vaddr + size), or NULL when any of them is not stored in the file.
const uint8_t* pyd_elf_view_bytes(const pyd_elf_view_t* view, uint64_t vaddr, uint64_t size);
// Whether |vaddr| is in bytes that the file stores in an executable segment.
bool pyd_elf_view_is_code(const pyd_elf_view_t* view, uint64_t vaddr);
// How many bytes from |vaddr| on are stored in the file, up to the end of the segment.
uint64_t pyd_elf_view_bytes_left(const pyd_elf_view_t* view, uint64_t vaddr);
// The name of a symbol, "" when it has none. |index| < symbol_count.
const char* pyd_elf_view_symbol_name(const pyd_elf_view_t* view, uint64_t index);

// Applies every relocation to |image|, which holds view->high - view->low bytes and represents the addresses from
// bias + view->low on; it may be elsewhere. With |image| NULL nothing is written and only what does not depend on
// the bias is checked.
pyd_status_t pyd_elf_relocate(const pyd_elf_view_t* view, uint8_t* image, uint64_t bias);

// Return a failure with a formatted message: of a broken file, and of one that is valid but not supported.
#define PYD_ELF_CORRUPT(...) pyd_status_make(PYD_CODE_CORRUPT, "ELF: " __VA_ARGS__)
#define PYD_ELF_UNSUPPORTED(...) pyd_status_make(PYD_CODE_UNSUPPORTED, "ELF: " __VA_ARGS__)

#endif  // PYD_ELF_VIEW_H_
