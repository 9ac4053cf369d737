// Maps views into protected memory: one mapping for all modules that are loaded together.
//
// Few system calls: one mapping, one protection for everything between writable pages, one more for each run of code in
// it, one unmapping. Pages between segments and between images become readable with their neighbours.
#include "elf/mapping.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "platform/mem.h"

// Memory in which modules are mapped together; the last one that is released unmaps it.
struct pyd_elf_mapping_s {
  atomic_uint users;  // modules that have not been released
  uint8_t* memory;
  size_t size;
};

// Computes where each image starts, as offsets that are multiples of the image's alignment, and the largest alignment.
// Returns the size of all images together; 0 if that is too large.
static uint64_t place_images(const pyd_elf_view_t* views, uint32_t count, uint64_t* offsets, uint64_t* out_alignment) {
  uint64_t size = 0;
  *out_alignment = pyd_mem_page_size();
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t alignment = views[i].alignment;
    if (alignment > *out_alignment) *out_alignment = alignment;
    offsets[i] = (size + alignment - 1) & ~(alignment - 1);
    size = views[i].high - views[i].low;
    // Neither aligning the next offset nor the slack of pyd_elf_mapping_make() may overflow: each adds less than
    // PYD_ELF_MAX_ALIGNMENT.
    if (offsets[i] > SIZE_MAX - 2 * PYD_ELF_MAX_ALIGNMENT - size) return 0;
    size += offsets[i];
  }
  return size;
}

// Copies the bytes that the file stores to |image|, which represents the addresses from view->low on. The rest is zero.
static void copy_image(const pyd_elf_view_t* view, uint8_t* image) {
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    if (segment->file_size == 0) continue;
    memcpy(image + (segment->vaddr - view->low), view->file.data + segment->offset, (size_t)segment->file_size);
  }
}

// Returns the total size, in bytes, of the pages into which bytes of the files are copied; zero-filled pages do not
// count.
static uint64_t copied_pages(const pyd_elf_view_t* views, uint32_t count) {
  uint64_t page = pyd_mem_page_size(), bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t end = 0;  // of the last counted page: two segments may share it
    for (uint32_t k = 0; k < views[i].segment_count; ++k) {
      const pyd_elf_segment_t* segment = &views[i].segments[k];
      if (segment->file_size == 0) continue;
      uint64_t first = segment->vaddr & ~(page - 1);
      uint64_t last = (segment->vaddr + segment->file_size + page - 1) & ~(page - 1);
      if (first < end) first = end;  // pages that were counted for the segment before
      if (last > first) bytes += last - first;
      if (last > end) end = last;
    }
  }
  return bytes;
}

// Copies the images into |mapping|, at |offsets| from a multiple of |alignment|, and sets the address of each in
// |modules|. |size|: bytes from the first image to the end of the last.
static void copy_images(const pyd_elf_view_t* views, uint32_t count, const uint64_t* offsets, uint64_t alignment,
                        uint64_t size, pyd_elf_mapping_t* mapping, pyd_elf_module_t* modules) {
  // As high as possible, so that the slack comes first, where it needs no separate call (protect_runs).
  uintptr_t start = ((uintptr_t)mapping->memory + (mapping->size - (size_t)size)) & ~(uintptr_t)(alignment - 1);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* image = (uint8_t*)start + offsets[i];
    modules[i].mapping = mapping;
    modules[i].memory = image;
    modules[i].memory_size = (size_t)(views[i].high - views[i].low);
    modules[i].low_vaddr = views[i].low;
    modules[i].bias = (uint64_t)(uintptr_t)image - views[i].low;
    copy_image(&views[i], image);
  }
  atomic_init(&mapping->users, count);
}

// Maps |count| images in one reservation and copies into them the bytes that their files store.
pyd_status_t pyd_elf_mapping_make(const pyd_elf_view_t* views, uint32_t count, pyd_elf_module_t* modules) {
  uint64_t alignment = 0;
  uint64_t* offsets = calloc(count, sizeof(*offsets));
  pyd_elf_mapping_t* mapping = calloc(1, sizeof(*mapping));
  uint64_t size = offsets && mapping ? place_images(views, count, offsets, &alignment) : 0;
  pyd_status_t st = PYD_STATUS_OK;
  if (size == 0) {
    st = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to map the code of %" PRIu32 " files", count);
  } else {
    // Memory is reserved at a page boundary: the slack, alignment - page bytes, lets the first image start at a
    // multiple of a larger alignment.
    mapping->size = (size_t)(size + alignment - pyd_mem_page_size());
    // Bringing in all pages at once pays if most of them are copied to.
    bool populate = copied_pages(views, count) > size / 2;
    st = pyd_mem_reserve(mapping->size, populate, &mapping->memory);
  }
  if (pyd_ok(st)) {
    copy_images(views, count, offsets, alignment, size, mapping, modules);
  } else {
    free(mapping);
  }
  free(offsets);
  return st;
}

// Drops the reference of one module; the last one releases the memory.
void pyd_elf_mapping_release(pyd_elf_mapping_t* mapping) {
  if (!mapping || atomic_fetch_sub_explicit(&mapping->users, 1, memory_order_acq_rel) != 1) return;
  pyd_mem_release(mapping->memory, mapping->size);
  free(mapping);
}

// Pages [begin, end), as offsets in the mapping, with one access.
typedef struct run_s {
  uint64_t begin, end;
  pyd_mem_access_t access;
} run_t;

// Per segment: the gap before it, the pages before RELRO, RELRO, and the pages after it.
enum { kRunsPerSegment = 4 };

// The runs of all images of a mapping.
typedef struct runs_s {
  uint32_t count;
  run_t* items;  // ascending, disjoint, without gaps; room for kRunsPerSegment per segment
} runs_t;

// Appends pages in ascending order; pages that the last run already covers are ignored.
static void add_run(runs_t* runs, uint64_t begin, uint64_t end, pyd_mem_access_t access) {
  run_t* last = runs->count ? &runs->items[runs->count - 1] : NULL;
  if (last && begin < last->end) begin = last->end;
  if (begin >= end) return;
  if (last && last->access == access) {
    last->end = end;
  } else {
    runs->items[runs->count++] = (run_t){begin, end, access};
  }
}

// Computes the pages of RELRO (data that is read-only after relocation) within segment |index|, as offsets from
// view->low; both are 0 if there are none. A page that is only partly RELRO is included if nothing else is in it.
static void find_relro(const pyd_elf_view_t* view, uint32_t index, uint64_t page, uint64_t* out_begin,
                       uint64_t* out_end) {
  const pyd_elf_segment_t* segment = &view->segments[index];
  uint64_t begin = view->relro.vaddr, end = begin + view->relro.size;
  uint64_t segment_end = segment->vaddr + segment->memory_size;
  *out_begin = *out_end = 0;
  if (view->relro.size == 0 || begin < segment->vaddr || begin >= segment_end) return;
  const pyd_elf_segment_t* before = index ? segment - 1 : NULL;
  const pyd_elf_segment_t* after = index + 1 < view->segment_count ? segment + 1 : NULL;
  // RELRO begins (ends) with the segment, and no neighbour reaches into its first (last) page.
  bool alone_before =
      begin == segment->vaddr && !(before && before->vaddr + before->memory_size > (begin & ~(page - 1)));
  bool alone_after = end == segment_end && !(after && after->vaddr < ((end + page - 1) & ~(page - 1)));
  *out_begin = (alone_before ? begin & ~(page - 1) : (begin + page - 1) & ~(page - 1)) - view->low;
  *out_end = (alone_after ? (end + page - 1) & ~(page - 1) : end & ~(page - 1)) - view->low;
}

// Appends the pages of an image with the access of its segments. RELRO pages of a writable segment become read-only,
// and so do the pages between segments and before the first one. |base|: the offset of the image in the mapping.
// |page|: bytes of a page.
static void find_runs(const pyd_elf_view_t* view, uint64_t base, uint64_t page, runs_t* runs) {
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    uint64_t begin = base + (segment->vaddr & ~(page - 1)) - view->low;
    uint64_t end = base + ((segment->vaddr + segment->memory_size + page - 1) & ~(page - 1)) - view->low;
    // The gap since the last run, or since the beginning of the image in the mapping.
    add_run(runs, runs->count ? runs->items[runs->count - 1].end : base, begin, PYD_MEM_READ);
    if (!(segment->flags & PF_W)) {
      add_run(runs, begin, end, segment->flags & PF_X ? PYD_MEM_READ_EXECUTE : PYD_MEM_READ);
      continue;
    }
    uint64_t relro_begin, relro_end;
    find_relro(view, i, page, &relro_begin, &relro_end);
    if (relro_begin < relro_end) {
      add_run(runs, begin, base + relro_begin, PYD_MEM_READ_WRITE);
      add_run(runs, base + relro_begin, base + relro_end, PYD_MEM_READ);
    }
    add_run(runs, begin, end, PYD_MEM_READ_WRITE);  // only what is after RELRO, if the segment has any
  }
}

// Makes a run of code executable, after the instruction cache has been made to see what was copied.
static pyd_status_t protect_code(uint8_t* memory, const run_t* run) {
  size_t size = (size_t)(run->end - run->begin);
  pyd_mem_flush_code(memory + run->begin, size);
  return pyd_mem_protect(memory + run->begin, size, PYD_MEM_READ_EXECUTE);
}

// Gives all runs their access, with as few calls of the system as possible. Memory starts writable, so writable runs
// need no call. All runs between two of them are made readable by one call, then the code among them executable.
static pyd_status_t protect_runs(uint8_t* memory, const runs_t* runs) {
  pyd_status_t st = PYD_STATUS_OK;
  for (uint32_t i = 0, end; pyd_ok(st) && i < runs->count; i = end + 1) {
    bool is_readable = false;
    for (end = i; end < runs->count && runs->items[end].access != PYD_MEM_READ_WRITE; ++end) {
      is_readable |= runs->items[end].access == PYD_MEM_READ;
    }
    // Runs [i, end) are between two writable ones. The first of all begins with the slack before the first image.
    uint64_t begin = i ? runs->items[i].begin : 0;
    if (is_readable) st = pyd_mem_protect(memory + begin, (size_t)(runs->items[end - 1].end - begin), PYD_MEM_READ);
    for (uint32_t k = i; pyd_ok(st) && k < end; ++k) {
      if (runs->items[k].access == PYD_MEM_READ_EXECUTE) st = protect_code(memory, &runs->items[k]);
    }
  }
  return st;
}

// Gives all |count| images of one mapping, which are relocated, their final protection.
pyd_status_t pyd_elf_mapping_protect(const pyd_elf_view_t* views, uint32_t count, const pyd_elf_module_t* modules) {
  const pyd_elf_mapping_t* mapping = modules[0].mapping;
  size_t segments = 0;
  for (uint32_t i = 0; i < count; ++i) segments += views[i].segment_count;
  runs_t runs = {.items = calloc(segments * kRunsPerSegment, sizeof(run_t))};
  if (!runs.items) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to protect the code of %" PRIu32 " files", count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    find_runs(&views[i], (uint64_t)(modules[i].memory - mapping->memory), pyd_mem_page_size(), &runs);
  }
  pyd_status_t st = protect_runs(mapping->memory, &runs);
  free(runs.items);
  return st;
}
