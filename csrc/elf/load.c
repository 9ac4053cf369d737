// View to running code: one reservation, copy, relocate while everything is writable, protect, initialise.
//
// Few system calls: one mapping, then one protection per run of pages with the same rights (3 for the usual R, RX, RELRO,
// RW file), one unmapping. Pages between segments are made readable with their neighbours instead of on their own.
#include <inttypes.h>

#include "base/embedded_call.h"
#include "base/span.h"
#include "elf/format.h"
#include "elf/view.h"
#include "platform/mem.h"

typedef void(PYD_EMBEDDED_CALL* hook_fn_t)(void);

static pyd_status_t parse_for_host(pyd_span_t file, pyd_elf_view_t* out_view) {
  uint32_t host = pyd_elf_machine_host();
  pyd_status_t st = pyd_elf_parse(file, pyd_mem_page_size(), out_view);
  if (!pyd_ok(st) || out_view->machine == host) return st;
  return PYD_ELF_UNSUPPORTED("is for %s, this machine is %s", pyd_elf_machine_name(out_view->machine),
                             host ? pyd_elf_machine_name(host) : "of another kind");
}

static uint8_t* image_of(const pyd_elf_module_t* module) {
  return (uint8_t*)(uintptr_t)(module->bias + module->low_vaddr);
}

static pyd_status_t map_image(const pyd_elf_view_t* view, pyd_elf_module_t* module) {
  size_t page = pyd_mem_page_size();
  size_t size = (size_t)(view->high - view->low);
  size_t total = size + (size_t)view->alignment - page;  // mappings are page-aligned; find the rest inside
  uint64_t stored = 0;
  for (uint32_t i = 0; i < view->segment_count; ++i) stored += view->segments[i].file_size;
  pyd_status_t st = pyd_mem_reserve(total, stored > total / 2, &module->memory);
  if (!pyd_ok(st)) return st;
  module->memory_size = total;
  // As high as possible, so that the slack comes first, where it needs no separate call (protect_image).
  uintptr_t image = ((uintptr_t)module->memory + (total - size)) & ~(uintptr_t)(view->alignment - 1);
  module->bias = (uint64_t)image - view->low;
  module->low_vaddr = view->low;
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    if (segment->file_size == 0) continue;
    memcpy((uint8_t*)image + (segment->vaddr - view->low), view->file.data + segment->offset, (size_t)segment->file_size);
  }
  return PYD_STATUS_OK;
}

// Pages [begin, end), as offsets from the image, with one access.
typedef struct run_s {
  uint64_t begin, end;
  pyd_mem_access_t access;
} run_t;

typedef struct runs_s {
  uint32_t count;
  run_t items[3 * PYD_ELF_MAX_SEGMENTS + 2];
} runs_t;

// Appends pages in ascending order; what the last run already covers stays as it is.
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

// The whole pages of RELRO within |segment|. Its edges grow to page borders where nothing else lives in that page.
static void find_relro(const pyd_elf_view_t* view, uint32_t index, uint64_t page, uint64_t* out_begin, uint64_t* out_end) {
  const pyd_elf_segment_t* segment = &view->segments[index];
  uint64_t begin = view->relro.vaddr, end = begin + view->relro.size;
  uint64_t segment_end = segment->vaddr + segment->memory_size;
  *out_begin = *out_end = 0;
  if (view->relro.size == 0 || begin < segment->vaddr || begin >= segment_end) return;
  const pyd_elf_segment_t* before = index ? segment - 1 : NULL;
  const pyd_elf_segment_t* after = index + 1 < view->segment_count ? segment + 1 : NULL;
  bool alone_before = begin == segment->vaddr && !(before && before->vaddr + before->memory_size > (begin & ~(page - 1)));
  bool alone_after = end == segment_end && !(after && after->vaddr < ((end + page - 1) & ~(page - 1)));
  *out_begin = (alone_before ? begin & ~(page - 1) : (begin + page - 1) & ~(page - 1)) - view->low;
  *out_end = (alone_after ? (end + page - 1) & ~(page - 1) : end & ~(page - 1)) - view->low;
}

static void find_runs(const pyd_elf_view_t* view, uint64_t page, runs_t* runs) {
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    uint64_t begin = (segment->vaddr & ~(page - 1)) - view->low;
    uint64_t end = ((segment->vaddr + segment->memory_size + page - 1) & ~(page - 1)) - view->low;
    uint64_t gap = runs->count ? runs->items[runs->count - 1].end : 0;
    add_run(runs, gap, begin, PYD_MEM_READ);
    if (!(segment->flags & PF_W)) {
      add_run(runs, begin, end, segment->flags & PF_X ? PYD_MEM_READ_EXECUTE : PYD_MEM_READ);
      continue;
    }
    uint64_t relro_begin, relro_end;
    find_relro(view, i, page, &relro_begin, &relro_end);
    if (relro_begin < relro_end) {
      add_run(runs, begin, relro_begin, PYD_MEM_READ_WRITE);
      add_run(runs, relro_begin, relro_end, PYD_MEM_READ);
    }
    add_run(runs, begin, end, PYD_MEM_READ_WRITE);
  }
}

static pyd_status_t protect_image(const pyd_elf_view_t* view, pyd_elf_module_t* module) {
  runs_t runs = {0};
  find_runs(view, pyd_mem_page_size(), &runs);
  pyd_status_t st = PYD_STATUS_OK;
  for (uint32_t i = 0; pyd_ok(st) && i < runs.count; ++i) {
    const run_t* run = &runs.items[i];
    uint8_t* begin = image_of(module) + run->begin;
    uint8_t* end = image_of(module) + run->end;
    if (i == 0 && run->access == PYD_MEM_READ) begin = module->memory;
    if (run->access == PYD_MEM_READ_EXECUTE) pyd_mem_flush_code(begin, (size_t)(end - begin));
    if (run->access != PYD_MEM_READ_WRITE) st = pyd_mem_protect(begin, (size_t)(end - begin), run->access);
  }
  return st;
}

static void publish(const pyd_elf_view_t* view, pyd_elf_module_t* module) {
  const uint8_t* image = image_of(module);
  module->symtab = image + (view->symtab.vaddr - view->low);
  module->symbol_count = view->symbol_count;
  module->strtab = (const char*)image + (view->strtab.vaddr - view->low);
  module->strtab_size = view->strtab.size;
  module->hash = image + (view->hash.vaddr - view->low);
  module->hash_size = view->hash.size;
  module->hash_is_gnu = view->hash_is_gnu;
  module->segment_count = view->segment_count;
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    module->segments[i] = (pyd_elf_memory_t){.address = module->bias + segment->vaddr,
                                             .size = segment->memory_size,
                                             .stored = segment->file_size,
                                             .is_code = (segment->flags & PF_X) != 0};
  }
}

// The segment that holds |size| bytes at |address|, or NULL.
static const pyd_elf_memory_t* find_memory(const pyd_elf_module_t* module, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < module->segment_count; ++i) {
    const pyd_elf_memory_t* memory = &module->segments[i];
    if (address >= memory->address && size <= memory->size && address - memory->address <= memory->size - size) return memory;
  }
  return NULL;
}

bool pyd_elf_module_is_code(const pyd_elf_module_t* module, uint64_t address) {
  const pyd_elf_memory_t* memory = find_memory(module, address, 1);
  return memory && memory->is_code && address - memory->address < memory->stored;
}

bool pyd_elf_module_holds(const pyd_elf_module_t* module, const void* address, uint64_t size) {
  return size == 0 || find_memory(module, (uintptr_t)address, size) != NULL;
}

bool pyd_elf_module_holds_text(const pyd_elf_module_t* module, const char* text, uint64_t limit) {
  const pyd_elf_memory_t* memory = find_memory(module, (uintptr_t)text, 1);
  if (!memory) return false;
  uint64_t left = memory->size - ((uintptr_t)text - memory->address);
  return memchr(text, 0, (size_t)(left <= limit ? left : limit + 1)) != NULL;
}

static uint64_t read_hook(const pyd_elf_module_t* module, pyd_elf_range_t array, uint64_t index) {
  return pyd_load_u64((const uint8_t*)(uintptr_t)(module->bias + array.vaddr + 8 * index));
}

// 0 and -1 are empty entries in these arrays.
static bool is_hook(uint64_t address) { return address != 0 && address != UINT64_MAX; }

// |address| is entry |index| of the array |name|.
static pyd_status_t check_hook(const pyd_elf_module_t* module, const char* name, uint64_t index, uint64_t address) {
  if (!is_hook(address) || pyd_elf_module_is_code(module, address)) return PYD_STATUS_OK;
  return PYD_ELF_CORRUPT("entry %" PRIu64 " of %s is 0x%" PRIx64 ", which lies in no executable segment's bytes", index, name,
                         address - module->bias);
}

static pyd_status_t check_hooks(const pyd_elf_module_t* module, const char* name, pyd_elf_range_t array) {
  pyd_status_t st = PYD_STATUS_OK;
  for (uint64_t i = 0; pyd_ok(st) && i < array.size / 8; ++i) st = check_hook(module, name, i, read_hook(module, array, i));
  return st;
}

static void call(uint64_t address) { ((hook_fn_t)(uintptr_t)address)(); }

// Entries are checked again before each call: earlier initialisers may have written to them.
static pyd_status_t initialise(const pyd_elf_view_t* view, pyd_elf_module_t* module) {
  pyd_status_t st = PYD_STATUS_OK;
  if (view->init) call(module->bias + view->init);
  for (uint64_t i = 0; pyd_ok(st) && i < view->init_array.size / 8; ++i) {
    uint64_t address = read_hook(module, view->init_array, i);
    st = check_hook(module, "DT_INIT_ARRAY", i, address);
    if (pyd_ok(st) && is_hook(address)) call(address);
  }
  if (!pyd_ok(st)) return st;
  // Only now: what was never initialised is not finalised.
  module->fini_array = view->fini_array.vaddr;
  module->fini_count = view->fini_array.size / 8;
  module->fini = view->fini;
  return st;
}

pyd_status_t pyd_elf_validate(pyd_span_t file, uint32_t* out_machine) {
  pyd_elf_view_t view;
  pyd_status_t st = pyd_elf_parse(file, pyd_mem_page_size(), &view);
  if (pyd_ok(st)) st = pyd_elf_relocate(&view, NULL, 0);
  *out_machine = pyd_ok(st) ? view.machine : 0;
  return st;
}

pyd_status_t pyd_elf_check_system(pyd_span_t file) {
  pyd_elf_view_t view;
  return pyd_elf_parse_system(file, pyd_mem_page_size(), &view);
}

pyd_status_t pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module) {
  pyd_elf_view_t view;
  *out_module = (pyd_elf_module_t){0};
  pyd_status_t st = parse_for_host(file, &view);
  if (pyd_ok(st)) st = map_image(&view, out_module);
  if (pyd_ok(st)) st = pyd_elf_relocate(&view, image_of(out_module), out_module->bias);
  if (pyd_ok(st)) publish(&view, out_module);
  if (pyd_ok(st)) st = check_hooks(out_module, "DT_INIT_ARRAY", view.init_array);
  if (pyd_ok(st)) st = check_hooks(out_module, "DT_FINI_ARRAY", view.fini_array);
  if (pyd_ok(st)) st = protect_image(&view, out_module);
  if (pyd_ok(st)) st = initialise(&view, out_module);
  if (!pyd_ok(st)) pyd_elf_module_unload(out_module);
  return st;
}

void pyd_elf_module_unload(pyd_elf_module_t* module) {
  pyd_elf_range_t array = {module->fini_array, 8 * module->fini_count};
  for (uint64_t i = module->fini_count; i-- > 0;) {
    uint64_t address = read_hook(module, array, i);
    if (pyd_elf_module_is_code(module, address)) call(address);  // it may have been written to since it was checked
  }
  if (module->fini) call(module->bias + module->fini);
  pyd_mem_release(module->memory, module->memory_size);
  *module = (pyd_elf_module_t){0};
}
