// Parses the bytes of a file into a view, first half: file header and program headers. Section headers are never read,
// so a file without them loads; a file that ends before the table its header states was cut off.
#include <inttypes.h>

#include "base/span.h"
#include "elf/format.h"
#include "elf/view.h"

// Checks the identification at the begin of the file: it is a 64-bit little-endian ELF file, with a whole file header.
static pyd_status_t check_identification(pyd_span_t file) {
  static const uint8_t kFatElfMagic[4] = {0xfa, 0x70, 0x0e, 0x1f}, kElfMagic[4] = {0x7f, 'E', 'L', 'F'};
  const uint8_t* header = pyd_span_get(file, 0, PYD_ELF_HEADER_SIZE);
  const uint8_t* magic = pyd_span_get(file, 0, 4);
  if (magic && memcmp(magic, kFatElfMagic, 4) == 0) {
    return PYD_ELF_UNSUPPORTED("this is a FatELF archive: select the file for one machine out of it first");
  }
  if (!magic || memcmp(magic, kElfMagic, 4) != 0) {
    return PYD_ELF_CORRUPT("the file (%zu bytes) does not start with the ELF magic 7f 45 4c 46", file.size);
  }
  if (!header) return PYD_ELF_CORRUPT("cut off after %zu bytes, inside the 64-byte file header", file.size);
  if (header[EH_CLASS] == /* ELFCLASS32 */ 1) return PYD_ELF_UNSUPPORTED("32-bit file: build it for a 64-bit machine");
  if (header[EH_DATA] == /* ELFDATA2MSB */ 2)
    return PYD_ELF_UNSUPPORTED("big-endian file: only little-endian machines are supported");
  if (header[EH_CLASS] != 2 || header[EH_DATA] != 1 || header[EH_IDENT_VERSION] != 1) {
    return PYD_ELF_CORRUPT("class %u, byte order %u, version %u in the header; expected 2, 1, 1", header[EH_CLASS],
                           header[EH_DATA], header[EH_IDENT_VERSION]);
  }
  return PYD_STATUS_OK;
}

// Checks the file header: a 64-bit little-endian shared object for a known machine. Sets |view->machine|.
static pyd_status_t read_header(pyd_span_t file, pyd_elf_view_t* view) {
  pyd_status_t status = check_identification(file);
  if (!pyd_ok(status)) return status;
  const uint8_t* header = file.data;
  uint32_t type = pyd_load_u16(header + EH_TYPE);
  if (type != ET_DYN) {
    static const char* const kTypes[] = {"no type", "a relocatable object", "a program at a fixed address", "",
                                         "a core dump"};
    return PYD_ELF_UNSUPPORTED("type %u (%s), expected 3 (shared object): link it with -shared", type,
                               type < 5 ? kTypes[type] : "unknown");
  }
  view->machine = pyd_load_u16(header + EH_MACHINE);
  if (!pyd_elf_machine_name(view->machine)) {
    return PYD_ELF_UNSUPPORTED("machine %u is unknown; known are x86_64 (62), aarch64 (183), riscv64 (243)",
                               view->machine);
  }
  uint32_t version = pyd_load_u32(header + EH_VERSION);
  if (version != 1) return PYD_ELF_CORRUPT("object file version %u, expected 1", version);
  return PYD_STATUS_OK;
}

// Checks the bytes in the file of segment |index|.
static pyd_status_t check_segment_file(const pyd_elf_view_t* view, const pyd_elf_segment_t* segment, uint32_t index) {
  if (segment->file_size > segment->memory_size) {
    return PYD_ELF_CORRUPT("segment %u has %" PRIu64 " bytes in the file but only %" PRIu64 " in memory", index,
                           segment->file_size, segment->memory_size);
  }
  if (!pyd_span_get(view->file, segment->offset, segment->file_size)) {
    return PYD_ELF_CORRUPT("segment %u needs bytes [0x%" PRIx64 ", +0x%" PRIx64
                           ") of a file of 0x%zx bytes: is it cut off?",
                           index, segment->offset, segment->file_size, view->file.size);
  }
  return PYD_STATUS_OK;
}

// Checks alignment, size, address and access in memory of segment |index|. |align|: its alignment in bytes.
static pyd_status_t check_segment_memory(const pyd_elf_view_t* view, const pyd_elf_segment_t* segment, uint64_t align,
                                         uint32_t index) {
  if (align & (align - 1))
    return PYD_ELF_CORRUPT("segment %u: alignment 0x%" PRIx64 " is not a power of two", index, align);
  if (align > PYD_ELF_MAX_ALIGNMENT) {
    return PYD_ELF_UNSUPPORTED("segment %u: alignment 0x%" PRIx64 " is above the limit 0x%" PRIx64, index, align,
                               PYD_ELF_MAX_ALIGNMENT);
  }
  if (segment->memory_size > PYD_ELF_MAX_IMAGE) {
    return PYD_ELF_UNSUPPORTED("segment %u spans 0x%" PRIx64 " bytes of memory, limit 0x%" PRIx64, index,
                               segment->memory_size, PYD_ELF_MAX_IMAGE);
  }
  // Below this limit, later sums of the address, a size and a rounding up to an alignment cannot wrap.
  if (segment->vaddr > UINT64_MAX - PYD_ELF_MAX_IMAGE - 2 * PYD_ELF_MAX_ALIGNMENT) {
    return PYD_ELF_CORRUPT("segment %u: address 0x%" PRIx64 " + 0x%" PRIx64 " bytes wraps around", index,
                           segment->vaddr, segment->memory_size);
  }
  if (!view->is_system && (segment->flags & (PF_X | PF_W)) == (PF_X | PF_W)) {
    return PYD_ELF_UNSUPPORTED(
        "segment %u is writable and executable: link without -N / --omagic and without sections marked \"awx\"", index);
  }
  return PYD_STATUS_OK;
}

// Adds the segment of a PT_LOAD program header, number |index|, unless it has no memory. Segments ascend and do not
// overlap, as the gABI requires.
static pyd_status_t add_segment(const uint8_t* header, uint32_t index, pyd_elf_view_t* view) {
  pyd_elf_segment_t segment = {
      .vaddr = pyd_load_u64(header + PH_VADDR),
      .memory_size = pyd_load_u64(header + PH_MEMSZ),
      .offset = pyd_load_u64(header + PH_OFFSET),
      .file_size = pyd_load_u64(header + PH_FILESZ),
      .flags = pyd_load_u32(header + PH_FLAGS) & (PF_X | PF_W),  // all are readable
  };
  uint64_t align = pyd_load_u64(header + PH_ALIGN);
  pyd_status_t status = check_segment_file(view, &segment, index);
  if (!pyd_ok(status) || segment.memory_size == 0) return status;
  status = check_segment_memory(view, &segment, align, index);
  if (!pyd_ok(status)) return status;
  if (view->segment_count == PYD_ELF_MAX_SEGMENTS) {
    return PYD_ELF_UNSUPPORTED("more than %d loadable segments", PYD_ELF_MAX_SEGMENTS);
  }
  if (view->segment_count) {
    const pyd_elf_segment_t* last = &view->segments[view->segment_count - 1];
    if (segment.vaddr < last->vaddr + last->memory_size) {
      return PYD_ELF_CORRUPT("segment %u starts at 0x%" PRIx64 ", before the previous one ends at 0x%" PRIx64, index,
                             segment.vaddr, last->vaddr + last->memory_size);
    }
  }
  if (align > view->alignment) view->alignment = align;
  view->segments[view->segment_count++] = segment;
  return PYD_STATUS_OK;
}

// Reads program header |index|. Types without a case do not matter for loading.
static pyd_status_t read_program_header(const uint8_t* header, uint32_t index, pyd_elf_view_t* view) {
  pyd_elf_range_t range = {pyd_load_u64(header + PH_VADDR), pyd_load_u64(header + PH_MEMSZ)};
  switch (pyd_load_u32(header + PH_TYPE)) {
    case PT_LOAD: return add_segment(header, index, view);
    case PT_DYNAMIC:
      view->dynamic = range;
      view->writes_dynamic = (pyd_load_u32(header + PH_FLAGS) & PF_W) != 0;
      return PYD_STATUS_OK;
    case PT_GNU_RELRO: view->relro = range; return PYD_STATUS_OK;
    case PT_GNU_STACK:
      if (view->is_system || !(pyd_load_u32(header + PH_FLAGS) & PF_X)) return PYD_STATUS_OK;
      return PYD_ELF_UNSUPPORTED(
          "asks for an executable stack: link with -z noexecstack (assembly needs a .note.GNU-stack section)");
    case PT_TLS:
      if (view->is_system) return PYD_STATUS_OK;
      return PYD_ELF_UNSUPPORTED(
          "has thread-local storage (PT_TLS), which embedded code has no place for: remove __thread / _Thread_local "
          "variables and pass state as arguments");
  }
  return PYD_STATUS_OK;
}

// Reads the table of program headers, which must be inside the file.
static pyd_status_t read_program_headers(pyd_elf_view_t* view) {
  const uint8_t* header = view->file.data;
  uint64_t offset = pyd_load_u64(header + EH_PHOFF);
  uint32_t count = pyd_load_u16(header + EH_PHNUM);
  uint32_t entry = pyd_load_u16(header + EH_PHENTSIZE);
  if (count == 0) return PYD_ELF_CORRUPT("no program headers: is it linked?");
  if (entry != PYD_ELF_PHDR_SIZE) return PYD_ELF_CORRUPT("program headers of %u bytes, expected 56", entry);
  const uint8_t* table = pyd_span_get(view->file, offset, (uint64_t)count * PYD_ELF_PHDR_SIZE);
  if (!table) {
    return PYD_ELF_CORRUPT("%u program headers at 0x%" PRIx64 " lie outside the file of 0x%zx bytes: is it cut off?",
                           count, offset, view->file.size);
  }
  pyd_status_t st = PYD_STATUS_OK;
  for (uint32_t i = 0; pyd_ok(st) && i < count; ++i) st = read_program_header(table + i * PYD_ELF_PHDR_SIZE, i, view);
  return st;
}

// Checks that no two segments of different protection share a page, of |page| bytes.
static pyd_status_t check_protection(const pyd_elf_view_t* view, uint64_t page) {
  for (uint32_t i = 1; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* a = &view->segments[i - 1];
    const pyd_elf_segment_t* b = &view->segments[i];
    const bool share_page = (a->vaddr + a->memory_size - 1) / page == b->vaddr / page;  // last byte of a, first of b
    if (a->flags != b->flags && share_page) {
      return PYD_ELF_UNSUPPORTED("segments of different protection share the %" PRIu64 "-byte page at 0x%" PRIx64
                                 ": link with -z max-page-size=65536 (or a multiple of the page size)",
                                 page, b->vaddr & ~(page - 1));
    }
  }
  return PYD_STATUS_OK;
}

// Checks that RELRO (data that is read-only after relocation) begins in a writable segment, and cuts it at the end of
// that segment: some linkers round its size up to a page.
static pyd_status_t cut_relro(pyd_elf_view_t* view) {
  if (!view->relro.size) return PYD_STATUS_OK;
  const pyd_elf_segment_t* holder = pyd_elf_view_segment(view, view->relro.vaddr, /* size */ 1);
  if (!holder || !(holder->flags & PF_W)) {
    return PYD_ELF_CORRUPT("PT_GNU_RELRO at 0x%" PRIx64 " lies in no writable segment", view->relro.vaddr);
  }
  uint64_t room = holder->vaddr + holder->memory_size - view->relro.vaddr;
  if (view->relro.size > room) view->relro.size = room;
  return PYD_STATUS_OK;
}

// Computes the address range of the image for pages of |page| bytes, and checks its size, the protection of its pages,
// and RELRO.
static pyd_status_t lay_out(pyd_elf_view_t* view, uint64_t page) {
  if (view->segment_count == 0) return PYD_ELF_CORRUPT("no loadable segment");
  const pyd_elf_segment_t* first = &view->segments[0];
  const pyd_elf_segment_t* last = &view->segments[view->segment_count - 1];
  if (view->alignment < page) view->alignment = page;
  // The image begins at a multiple of the largest alignment, and ends with a page. Segments are in ascending order.
  view->low = first->vaddr & ~(view->alignment - 1);
  view->high = (last->vaddr + last->memory_size + page - 1) & ~(page - 1);
  if (view->high - view->low > PYD_ELF_MAX_IMAGE) {
    return PYD_ELF_UNSUPPORTED("spans 0x%" PRIx64 " bytes of memory, limit 0x%" PRIx64, view->high - view->low,
                               PYD_ELF_MAX_IMAGE);
  }
  // The system's loader accepts segments of different protection in one page.
  pyd_status_t status = view->is_system ? PYD_STATUS_OK : check_protection(view, page);
  return pyd_ok(status) ? cut_relro(view) : status;
}

// Checks that the section headers, which are not read, are in the file. Linkers put them last: a file without them was
// cut off.
static pyd_status_t check_section_headers(pyd_span_t file) {
  const uint8_t* header = file.data;
  uint64_t offset = pyd_load_u64(header + EH_SHOFF), entry = pyd_load_u16(header + EH_SHENTSIZE);
  uint32_t count = pyd_load_u16(header + EH_SHNUM);
  if (offset == 0 || pyd_span_get(file, offset, count * entry)) return PYD_STATUS_OK;
  return PYD_ELF_CORRUPT("%u section headers at 0x%" PRIx64 " lie outside the file of 0x%zx bytes: is it cut off?",
                         count, offset, file.size);
}

// Parses and checks a file. |is_system|: the file is for the system's loader, not for this library's own: features that
// only the system's loader supports are accepted.
static pyd_status_t parse(pyd_span_t file, size_t page_size, bool is_system, pyd_elf_view_t* out_view) {
  *out_view = (pyd_elf_view_t){.file = file, .is_system = is_system};
  pyd_status_t st = read_header(file, out_view);
  if (pyd_ok(st)) st = read_program_headers(out_view);
  if (pyd_ok(st)) st = check_section_headers(file);
  if (pyd_ok(st)) st = lay_out(out_view, page_size);
  if (pyd_ok(st)) st = pyd_elf_parse_dynamic(out_view);
  if (pyd_ok(st) && !is_system) st = pyd_elf_check_symbols(out_view);
  return st;
}

// Parses and checks a file that pydispatch loads by itself.
pyd_status_t pyd_elf_parse(pyd_span_t file, size_t page_size, pyd_elf_view_t* out_view) {
  return parse(file, page_size, /* is_system */ false, out_view);
}

// Parses and checks a shared library that the operating system's loader is going to open.
pyd_status_t pyd_elf_parse_system(pyd_span_t file, size_t page_size, pyd_elf_view_t* out_view) {
  return parse(file, page_size, /* is_system */ true, out_view);
}
