// Turns a view into running code: maps it, relocates it while all pages are writable, protects the pages, and calls the
// initializers.
#include <inttypes.h>
#include <stdlib.h>

#include "base/embedded_call.h"
#include "base/span.h"
#include "elf/format.h"
#include "elf/mapping.h"
#include "elf/view.h"
#include "platform/mem.h"

// An initializer or finalizer.
typedef void(PYD_EMBEDDED_CALL* hook_fn_t)(void);

// Parses a file, which must be for the machine that runs this code.
static pyd_status_t parse_for_host(pyd_span_t file, pyd_elf_view_t* out_view) {
  uint32_t host = pyd_elf_machine_host();
  pyd_status_t st = pyd_elf_parse(file, pyd_mem_page_size(), out_view);
  if (!pyd_ok(st) || out_view->machine == host) return st;
  return PYD_ELF_UNSUPPORTED("is for %s, this machine is %s", pyd_elf_machine_name(out_view->machine),
                             host ? pyd_elf_machine_name(host) : "of another kind");
}

// Sets the members of |module| that the mapping has not set, from |view|, the parsed file, which is freed afterwards:
// addresses of the tables in the mapped image, initializers, finalizers and segments. |view->low| is the lowest virtual
// address in the file: it is mapped at the start of the image.
static void publish(const pyd_elf_view_t* view, pyd_elf_module_t* module) {
  const uint8_t* image = module->memory;
  module->symtab = image + (view->symtab.vaddr - view->low);
  module->symbol_count = view->symbol_count;
  module->strtab = (const char*)image + (view->strtab.vaddr - view->low);
  module->strtab_size = view->strtab.size;
  module->hash = image + (view->hash.vaddr - view->low);
  module->hash_size = view->hash.size;
  module->hash_is_gnu = view->hash_is_gnu;
  module->init = view->init;
  module->fini = view->fini;
  module->init_array = view->init_array;
  module->fini_array = view->fini_array;
  module->segment_count = view->segment_count;
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    module->segments[i] = (pyd_elf_memory_t){.address = module->bias + segment->vaddr,
                                             .size = segment->memory_size,
                                             .stored = segment->file_size,
                                             .is_code = (segment->flags & PF_X) != 0};
  }
}

// Returns address |index|, already relocated, of an array of initializers or finalizers.
static uint64_t read_hook(const pyd_elf_module_t* module, pyd_elf_range_t array, uint64_t index) {
  return pyd_load_u64((const uint8_t*)(uintptr_t)(module->bias + array.vaddr + 8 * index));
}

// Returns whether an entry of an array of initializers or finalizers is to be called: by convention 0 and -1 mark empty
// entries.
static bool is_hook(uint64_t address) { return address != 0 && address != UINT64_MAX; }

// Checks that |address|, entry |index| of the array |name|, is empty or in executable bytes of the file.
static pyd_status_t check_hook(const pyd_elf_module_t* module, const char* name, uint64_t index, uint64_t address) {
  if (!is_hook(address) || pyd_elf_module_is_code(module, address)) return PYD_STATUS_OK;
  return PYD_ELF_CORRUPT("entry %" PRIu64 " of %s is 0x%" PRIx64 ", which lies in no executable segment's bytes", index,
                         name, address - module->bias);  // the address in the file
}

// Checks all entries of an array of initializers or finalizers, which is relocated, before any code of the module runs.
// |name|: its tag, for messages.
static pyd_status_t check_hooks(const pyd_elf_module_t* module, const char* name, pyd_elf_range_t array) {
  pyd_status_t st = PYD_STATUS_OK;
  for (uint64_t i = 0; pyd_ok(st) && i < array.size / 8; ++i)
    st = check_hook(module, name, i, read_hook(module, array, i));
  return st;
}

static void call(uint64_t address) { ((hook_fn_t)(uintptr_t)address)(); }

// Calls DT_INIT, then the entries of DT_INIT_ARRAY. Each entry is checked again before its call: earlier initializers
// may have written to the array.
pyd_status_t pyd_elf_module_initialise(pyd_elf_module_t* module) {
  pyd_status_t st = PYD_STATUS_OK;
  if (module->init) call(module->bias + module->init);
  for (uint64_t i = 0; pyd_ok(st) && i < module->init_array.size / 8; ++i) {
    uint64_t address = read_hook(module, module->init_array, i);
    st = check_hook(module, "DT_INIT_ARRAY", i, address);
    if (pyd_ok(st) && is_hook(address)) call(address);
  }
  module->is_initialised = pyd_ok(st);
  return st;
}

// Checks everything that loading checks, without loading: the file may be for any known machine. |*out_machine|: its
// number, 0 after a failure.
pyd_status_t pyd_elf_validate(pyd_span_t file, uint32_t* out_machine) {
  pyd_elf_view_t view;
  pyd_status_t st = pyd_elf_parse(file, pyd_mem_page_size(), &view);
  if (pyd_ok(st)) st = pyd_elf_relocate(&view, /* image: only check */ NULL, /* bias */ 0);
  *out_machine = pyd_ok(st) ? view.machine : 0;
  return st;
}

// Checks the headers, the dynamic section and the ranges of the tables of a library that the system's loader will open:
// that loader checks none of them.
pyd_status_t pyd_elf_check_system(pyd_span_t file) {
  pyd_elf_view_t view;
  return pyd_elf_parse_system(file, pyd_mem_page_size(), &view);
}

// Relocates a mapped |module|, sets its remaining members, and checks its arrays of initializers and finalizers. All
// its pages are writable, as relocation needs; the caller protects them afterwards.
static pyd_status_t finish_image(const pyd_elf_view_t* view, pyd_elf_module_t* module) {
  pyd_status_t st = pyd_elf_relocate(view, module->memory, module->bias);
  if (!pyd_ok(st)) return st;
  publish(view, module);
  st = check_hooks(module, "DT_INIT_ARRAY", view->init_array);
  if (pyd_ok(st)) st = check_hooks(module, "DT_FINI_ARRAY", view->fini_array);
  return st;
}

// Maps and relocates |count| files, without running any code. |*out_failed|: after a failure, the number of the file at
// fault, or |count|. Modules are zero after a failure.
pyd_status_t pyd_elf_modules_map(const pyd_span_t* files, uint32_t count, pyd_elf_module_t* out_modules,
                                 uint32_t* out_failed) {
  if (count == 0) return PYD_STATUS_OK;
  memset(out_modules, 0, count * sizeof(*out_modules));
  *out_failed = count;  // no single file is at fault
  pyd_elf_view_t* views = calloc(count, sizeof(*views));
  if (!views) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to read %" PRIu32 " ELF files", count);
  pyd_status_t st = PYD_STATUS_OK;
  for (uint32_t i = 0; pyd_ok(st) && i < count; ++i) {
    st = parse_for_host(files[i], &views[i]);
    if (!pyd_ok(st)) *out_failed = i;
  }
  if (pyd_ok(st)) st = pyd_elf_mapping_make(views, count, out_modules);
  for (uint32_t i = 0; pyd_ok(st) && i < count; ++i) {
    st = finish_image(&views[i], &out_modules[i]);
    if (!pyd_ok(st)) *out_failed = i;
  }
  if (pyd_ok(st)) st = pyd_elf_mapping_protect(views, count, out_modules);
  for (uint32_t i = 0; !pyd_ok(st) && i < count; ++i) pyd_elf_module_unload(&out_modules[i]);
  free(views);
  return st;
}

// Loads |file| (which may be freed afterwards) and runs its initialisers.
pyd_status_t pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module) {
  uint32_t failed_index;  // of the file that could not be mapped: there is only one
  pyd_status_t st = pyd_elf_modules_map(&file, /* count */ 1, out_module, &failed_index);
  if (pyd_ok(st)) st = pyd_elf_module_initialise(out_module);
  if (!pyd_ok(st)) pyd_elf_module_unload(out_module);
  return st;
}

// Calls the entries of DT_FINI_ARRAY from the last to the first, then DT_FINI, as the gABI requires. Entries are
// checked again, because the module may have written to them.
static void finalise(const pyd_elf_module_t* module) {
  for (uint64_t i = module->fini_array.size / 8; i-- > 0;) {
    uint64_t address = read_hook(module, module->fini_array, i);
    if (pyd_elf_module_is_code(module, address)) call(address);
  }
  if (module->fini) call(module->bias + module->fini);
}

// Runs the finalisers of an initialised module and unmaps it. If initialisation has failed, no finaliser runs: it may
// rely on initialisers that have not run.
void pyd_elf_module_unload(pyd_elf_module_t* module) {
  if (module->is_initialised) finalise(module);
  pyd_elf_mapping_release(module->mapping);
  *module = (pyd_elf_module_t){0};
}
