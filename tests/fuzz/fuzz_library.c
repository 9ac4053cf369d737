// Tables of an executable library that say anything a hand-written one may say: missing tables and names, counts beyond the
// limits, every version, a resolver that fails or fills what it likes. Accepted or refused with a text, and nothing is left.
// links: base platform elf imports executable
#include <stdio.h>

#include "pydispatch/executable.h"
#include "take.h"

enum { MAX = 40 };

// Both layouts of library.h behind one query function; |version| of the header says which one the loader takes.
typedef struct tables_s {
  pyd_library_header_t header;
  pyd_library_t library;
  struct {
    const pyd_library_header_t* header;
    pyd_library_imports_t imports;
    struct {
      uint32_t count;
      const pyd_dispatch_fn_t* ptrs;
      const void* attrs;
      const char* const* names;
      const void *tags, *source_locations, *stage_locations;
    } exports;
    uint32_t constants;
    struct {
      uint32_t count;
      const void* files;
    } sources;
  } old;
  pyd_library_export_attrs_t attrs[MAX];
  uint8_t old_attrs[MAX * 72];
  pyd_dispatch_fn_t functions[MAX];
  char texts[2 * MAX][8];
  const char *names[MAX], *symbols[MAX];
  uint32_t answers;  // to which versions
} tables_t;

static tables_t tables;

static int32_t kernel(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  return (void)e, (void)d, (void)w, 0;
}
static int32_t import(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 0; }

static const pyd_library_header_t* const* query(uint32_t version, const pyd_environment_t* environment) {
  require(environment != NULL && (uintptr_t)environment % 16 == 0);
  if (version > 31 || !(tables.answers >> version & 1)) return NULL;
  return tables.header.version == 5 ? &tables.old.header : &tables.library.header;
}

static const char* text_of(take_t* t, char* text) {
  uint8_t kind = take_u8(t);
  if (kind < 6) return NULL;
  size_t length = kind % 7;
  for (size_t i = 0; i < length; ++i) text[i] = "?abcdef%"[take_u8(t) % 8];
  text[length] = 0;
  return text;
}

static void fill(take_t* t) {
  memset(&tables, 0, sizeof(tables));
  uint32_t imports = take_u8(t) % (MAX + 1), exports = take_u8(t) % (MAX + 1);
  uint8_t lacks = take_u8(t);
  tables.answers = take_u8(t);
  tables.header = (pyd_library_header_t){lacks & 1 ? 6 : take_u8(t) % 9, text_of(t, tables.texts[0]), take_u32(t), lacks & 2 ? 0 : take_u8(t) % 7};
  for (uint32_t i = 0; i < imports; ++i) tables.symbols[i] = text_of(t, tables.texts[i]);
  for (uint32_t i = 0; i < exports; ++i) {
    uint8_t kind = take_u8(t);
    tables.names[i] = text_of(t, tables.texts[MAX + i]);
    tables.functions[i] = kind < 8 ? NULL : kernel;
    tables.attrs[i] = (pyd_library_export_attrs_t){.constant_count = take_u8(t) % 80, .binding_count = take_u8(t) % 80, .local_memory_pages = take_u16(t)};
    for (size_t k = 0; k < 8; ++k) tables.old_attrs[72 * i + k] = take_u8(t);
  }
  const pyd_library_header_t* header = lacks & 4 && lacks & 8 ? NULL : &tables.header;
  pyd_library_imports_t table = {imports, lacks & 16 && lacks & 8 ? NULL : tables.symbols};
  const void* attrs = lacks & 32 && lacks & 8 ? NULL : tables.attrs;
  tables.library = (pyd_library_t){.header = header, .imports = table};
  tables.library.exports.count = tables.old.exports.count = exports;
  tables.library.exports.ptrs = tables.old.exports.ptrs = lacks & 64 && lacks & 8 ? NULL : tables.functions;
  tables.library.exports.attrs = attrs;
  tables.old.exports.attrs = attrs ? tables.old_attrs : NULL;
  tables.library.exports.names = tables.old.exports.names = lacks & 128 && lacks & 8 ? NULL : tables.names;
  tables.library.constants.count = tables.old.constants = take_u8(t) % 4;
  tables.old.header = header;
  tables.old.imports = table;
}

static pyd_status_t resolve(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions, void** contexts) {
  take_t* t = self;
  for (uint32_t i = 0; i < count; ++i) {
    require(names[i] && names[i][0]);
    if (take_u8(t) & 3) functions[i] = import, contexts[i] = t;
  }
  return take_u8(t) < 16 ? pyd_status_make(PYD_CODE_UNAVAILABLE, "the resolver failed") : PYD_STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  take_t t = {data, size};
  fill(&t);
  uint8_t how = take_u8(&t);
  uint32_t constants[4] = {1, 2, 3, 4};
  uint64_t processor[PYD_PROCESSOR_DATA_WORDS] = {take_u64(&t)};
  const pyd_resolver_t resolver = {&t, how & 1 ? resolve : NULL, how & 2};
  const pyd_executable_options_t options = {.name = how & 4 ? NULL : "exe", .resolver = how & 8 ? NULL : &resolver, .constants = constants,
                                            .constant_count = how >> 6, .processor_data = how & 16 ? processor : NULL};
  pyd_executable_t* executable = NULL;
  pyd_status_t status = pyd_executable_from_query(how & 32 && how & 2 ? NULL : query, &options, &executable);
  require(pyd_ok(status) == (executable != NULL));
  require(pyd_ok(status) || pyd_status_text(status)[0]);
  pyd_status_free(status);
  if (executable) {
    const pyd_library_t* library = pyd_executable_library(executable);
    const pyd_environment_t* environment = pyd_executable_environment(executable);
    for (uint32_t i = 0; i < library->exports.count; ++i) {
      require(library->exports.names[i][0] && library->exports.ptrs[i] == kernel);
      require(library->exports.attrs[i].constant_count <= PYD_LIBRARY_MAX_CONSTANTS && library->exports.attrs[i].binding_count <= PYD_LIBRARY_MAX_BINDINGS);
    }
    for (uint32_t i = 0; i < library->imports.count; ++i) require(environment->import_funcs[i] || library->imports.symbols[i][0] == '?');
    require(!environment->constants == !options.constant_count && pyd_executable_image(executable).size == 0);
  }
  pyd_executable_free(executable);
  return 0;
}
