// Checks of the library that a query function returned. Its machine code is trusted to run. Still, tables that are
// missing, outside the limits or outside the module are errors and no crashes: hand-written libraries and damaged files
// have them.
#include "executable/library.h"

#include <inttypes.h>

#include <stdlib.h>

#include "base/embedded_library.h"

// Returns the name of the sanitizer that a library was built with, for messages.
static const char* sanitizer_name(uint32_t sanitizer) {
  switch (sanitizer) {
    case PYD_LIBRARY_SANITIZER_ADDRESS: return "the address sanitizer";
    case PYD_LIBRARY_SANITIZER_MEMORY: return "the memory sanitizer";
    case PYD_LIBRARY_SANITIZER_THREAD: return "the thread sanitizer";
    case PYD_LIBRARY_SANITIZER_UNDEFINED: return "the undefined behaviour sanitizer";
  }
  return "an unknown sanitizer";
}

// Attributes of an export in version 5. Unlike those of version 6 they have 72 bytes, no workgroup sizes and no number
// of parameters. Dispatch and workgroup states are the same in both versions.
typedef struct attrs_v5_s {
  uint16_t local_memory_pages;
  uint8_t constant_count;
  uint8_t binding_count;
  uint32_t reserved_0;
  uint64_t reserved_1[8];
} attrs_v5_t;

// A library of version 5. Its exports lack the columns |params|, |occupancy| and |parameter_names| of version 6.
typedef struct library_v5_s {
  const pyd_library_header_t* header;
  pyd_library_imports_t imports;
  struct {
    uint32_t count;
    const pyd_dispatch_fn_t* ptrs;
    const attrs_v5_t* attrs;
    const char* const* names;
    const char* const* tags;
    const pyd_library_source_location_t* source_locations;
    const void* stage_locations;
  } exports;
  struct {
    uint32_t count;
  } constants;
  struct {
    uint32_t count;
    const void* files;
  } sources;
} library_v5_t;

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(attrs_v5_t) == 72, "attributes of version 5");
_Static_assert(sizeof(library_v5_t) == 104, "library of version 5");
#endif

// Copies a library of version 5 to a new one with the current layout, which the caller frees. It shares all tables of
// |old| but the attributes; tables that version 5 lacks are NULL. |name|: of the executable, for messages.
static pyd_status_t translate_v5(const library_v5_t* old, const char* name, pyd_library_t** out_library) {
  size_t count = old->exports.attrs ? old->exports.count : 0;
  pyd_library_t* library = calloc(1, sizeof(*library) + count * sizeof(pyd_library_export_attrs_t));
  if (!library)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "executable '%s': no memory for %zu exports", name, count);
  pyd_library_export_attrs_t* attrs = (pyd_library_export_attrs_t*)(library + 1);
  for (size_t i = 0; i < count; ++i) {
    attrs[i].local_memory_pages = old->exports.attrs[i].local_memory_pages;
    attrs[i].constant_count = old->exports.attrs[i].constant_count;
    attrs[i].binding_count = old->exports.attrs[i].binding_count;
  }
  library->header = old->header;
  library->imports = old->imports;
  library->exports.count = old->exports.count;
  library->exports.ptrs = old->exports.ptrs;
  library->exports.attrs = old->exports.attrs ? attrs : NULL;
  library->exports.names = old->exports.names;
  library->exports.tags = old->exports.tags;
  library->exports.source_locations = old->exports.source_locations;
  library->exports.stage_locations = old->exports.stage_locations;
  library->constants.count = old->constants.count;
  library->sources.count = old->sources.count;
  library->sources.files = old->sources.files;
  *out_library = library;
  return PYD_STATUS_OK;
}

// Checks sanitizer and version of a library. |name|: of the executable, for messages.
static pyd_status_t check_header(const pyd_library_header_t* header, const char* name) {
  if (!header) return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': its library has no header", name);
  if (header->sanitizer != PYD_LIBRARY_SANITIZER_NONE) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "executable '%s' was built with %s (%u), whose runtime an embedded library cannot reach: "
                           "build it without",
                           name, sanitizer_name(header->sanitizer), header->sanitizer);
  }
  if (header->version < 5 || header->version > PYD_LIBRARY_VERSION) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "executable '%s' has library version 0.%u, whose tables are laid out differently; versions "
                           "0.5 to 0.%u can be loaded: compile it again",
                           name, header->version, PYD_LIBRARY_VERSION);
  }
  return PYD_STATUS_OK;
}

// ---- where pointers lie

// Names of exports and imports, without their NUL. Many may share one long name, which is read for each.
enum { kMaxName = 4095 };

// Data against which the tables of a library are checked: pointers must be in the module.
typedef struct checker_s {
  const pyd_elf_module_t* module;  // that every pointer must be in
  const char* name;                // of the executable, for messages
} checker_t;

// Returns the virtual address in the file of an address in the module, for messages.
static uint64_t file_address(const checker_t* c, const void* address) {
  return (uint64_t)(uintptr_t)address - c->module->bias;
}

// Checks that |table|, which |what| names in messages, is in one segment and aligned: |count| records of |size| bytes
// each. An empty or absent table is accepted.
static pyd_status_t check_table(const checker_t* c, const char* what, const void* table, uint64_t count, uint64_t size,
                                uint64_t alignment) {
  if (count == 0 || !table) return PYD_STATUS_OK;
  // The product cannot wrap: |count| has 32 bits, |size| has 8.
  if (!pyd_elf_module_holds(c->module, table, count * size)) {
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "executable '%s': %s, %" PRIu64 " bytes at 0x%" PRIx64
                           ", lies in no segment of its "
                           "file",
                           c->name, what, count * size, file_address(c, table));
  }
  if ((uintptr_t)table % alignment == 0) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': %s at 0x%" PRIx64 " is not aligned to %" PRIu64 " bytes",
                         c->name, what, file_address(c, table), alignment);
}

// Checks that the string |text| ends in the segment of the file that it begins in. NULL is accepted. |what| and |index|
// name it in messages, such as "export" and 2.
static pyd_status_t check_text(const checker_t* c, const char* what, uint32_t index, const char* text) {
  if (!text || pyd_elf_module_holds_text(c->module, text, kMaxName)) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "executable '%s': %s %u at 0x%" PRIx64
                         " is no string of at most %d bytes in a segment "
                         "of its file",
                         c->name, what, index, file_address(c, text), (int)kMaxName);
}

// Checks a table of |count| strings, or NULL. |table| names it in messages, |what| a string of it.
static pyd_status_t check_texts(const checker_t* c, const char* table, const char* what, const char* const* texts,
                                uint32_t count) {
  pyd_status_t status = check_table(c, table, texts, count, sizeof(*texts), _Alignof(const char*));
  for (uint32_t i = 0; texts && i < count && pyd_ok(status); ++i) status = check_text(c, what, i, texts[i]);
  return status;
}

// Checks a table of kernels: each is NULL or in executable bytes of the file.
static pyd_status_t check_functions(const checker_t* c, const pyd_dispatch_fn_t* functions, uint32_t count) {
  pyd_status_t status = check_table(c, "its table of functions", functions, count, sizeof(*functions), _Alignof(void*));
  for (uint32_t i = 0; functions && i < count && pyd_ok(status); ++i) {
    uintptr_t address = (uintptr_t)functions[i];
    if (address == 0 || pyd_elf_module_is_code(c->module, address)) continue;
    status = pyd_status_make(PYD_CODE_CORRUPT,
                             "executable '%s': the function of export %u is 0x%" PRIx64
                             ", which lies in no "
                             "executable segment's bytes",
                             c->name, i, (uint64_t)address - c->module->bias);
  }
  return status;
}

// Checks a table of source locations, whose paths have a length and no terminator.
static pyd_status_t check_locations(const checker_t* c, const pyd_library_source_location_t* locations,
                                    uint32_t count) {
  pyd_status_t status =
      check_table(c, "its table of source locations", locations, count, sizeof(*locations), _Alignof(void*));
  for (uint32_t i = 0; locations && i < count && pyd_ok(status); ++i) {
    status = check_table(c, "the path of a source location", locations[i].path, locations[i].path_length,
                         /* size */ 1, /* alignment */ 1);
  }
  return status;
}

// Checks the tables that versions 5 and 6 have in common, |count| exports with attributes of |attrs_size| bytes. Tables
// that this project does not read are not checked.
static pyd_status_t check_pointers(const checker_t* c, const pyd_library_imports_t* imports, uint32_t count,
                                   const pyd_dispatch_fn_t* functions, const void* attrs, size_t attrs_size,
                                   const char* const* names, const char* const* tags,
                                   const pyd_library_source_location_t* locations) {
  pyd_status_t status = check_texts(c, "its table of imports", "import", imports->symbols, imports->count);
  if (pyd_ok(status)) status = check_functions(c, functions, count);
  if (pyd_ok(status)) status = check_table(c, "its table of attributes", attrs, count, attrs_size, _Alignof(uint64_t));
  if (pyd_ok(status)) status = check_texts(c, "its table of names", "the name of export", names, count);
  if (pyd_ok(status)) status = check_texts(c, "its table of tags", "the tag of export", tags, count);
  if (pyd_ok(status)) status = check_locations(c, locations, count);
  return status;
}

// Checks that |answer|, the address that a query returned, and the header that it points to are in the module, and that
// the name in the header is NULL or a string. A NULL pointer to the header is accepted; check_header() refuses it.
static pyd_status_t check_answer(const checker_t* c, const pyd_library_header_t* const* answer) {
  pyd_status_t status =
      check_table(c, "what its query returned", answer, /* count */ 1, sizeof(*answer), _Alignof(void*));
  if (!pyd_ok(status) || !*answer) return status;
  status = check_table(c, "its header", *answer, /* count */ 1, sizeof(**answer), _Alignof(pyd_library_header_t));
  // check_text() prints a number after the text; here it is the version.
  return pyd_ok(status) ? check_text(c, "the name of its header, version", (*answer)->version, (*answer)->name)
                        : status;
}

// Checks the library that |answer| points at: its first member is the pointer to the header, which has been checked.
static pyd_status_t check_library(const checker_t* c, const pyd_library_header_t* const* answer) {
  bool is_old = (*answer)->version == 5;
  size_t size = is_old ? sizeof(library_v5_t) : sizeof(pyd_library_t);
  pyd_status_t status = check_table(c, "its library", answer, /* count */ 1, size, _Alignof(pyd_library_t));
  if (!pyd_ok(status)) return status;
  if (is_old) {
    const library_v5_t* old = (const library_v5_t*)answer;
    return check_pointers(c, &old->imports, old->exports.count, old->exports.ptrs, old->exports.attrs,
                          sizeof(*old->exports.attrs), old->exports.names, old->exports.tags,
                          old->exports.source_locations);
  }
  const pyd_library_t* library = (const pyd_library_t*)answer;
  const pyd_library_exports_t* exports = &library->exports;
  return check_pointers(c, &library->imports, exports->count, exports->ptrs, exports->attrs, sizeof(*exports->attrs),
                        exports->names, exports->tags, exports->source_locations);
}

// Queries a library for the newest version that it supports. Returns NULL if it supports none: a compiled library
// answers to its own version only, so all versions are tried.
static const pyd_library_header_t* const* query_newest(pyd_library_query_fn_t query, bool is_embedded,
                                                       const pyd_environment_t* environment) {
  const pyd_library_header_t* const* answer = NULL;
  for (uint32_t version = PYD_LIBRARY_VERSION; version >= 1 && !answer; --version) {
    answer = pyd_library_query_call(query, is_embedded, version, environment);
  }
  return answer;
}

// Queries a library, checks what it returned, and translates version 5 to the current layout. |module|: the ELF file
// that the library is in, which all its pointers must stay in. NULL for a library that the system has loaded or that is
// part of the process: its extent is unknown, so its pointers are not checked. |name|: of the executable, for messages.
pyd_status_t pyd_library_view_query(pyd_library_query_fn_t query, const pyd_elf_module_t* module,
                                    const pyd_environment_t* environment, const char* name,
                                    pyd_library_view_t* out_view) {
  const checker_t checker = {module, name};
  *out_view = (pyd_library_view_t){0};
  const pyd_library_header_t* const* answer = query_newest(query, module != NULL, environment);
  if (!answer) {
    return pyd_status_make(
        PYD_CODE_UNSUPPORTED,
        "executable '%s': its library answers to no version from 0.%u down to 0.1: it was made for a "
        "newer runtime",
        name, PYD_LIBRARY_VERSION);
  }
  pyd_status_t status = module ? check_answer(&checker, answer) : PYD_STATUS_OK;
  if (pyd_ok(status)) status = check_header(*answer, name);
  if (pyd_ok(status) && module) status = check_library(&checker, answer);
  if (!pyd_ok(status)) return status;
  // The header pointer is the first member of the library.
  if ((*answer)->version == 5) {
    status = translate_v5((const library_v5_t*)answer, name, &out_view->translated);
    out_view->library = out_view->translated;
  } else {
    out_view->library = (const pyd_library_t*)answer;
  }
  return status;
}

void pyd_library_view_free(pyd_library_view_t* view) {
  free(view->translated);
  *view = (pyd_library_view_t){0};
}

// Checks what a dispatch of export |i| relies on: a function, a name, and counts within the limits.
static pyd_status_t check_export(const pyd_library_t* library, uint32_t i, const char* name) {
  const pyd_library_export_attrs_t* attrs = &library->exports.attrs[i];
  const char* export_name = library->exports.names[i];
  if (!export_name || !export_name[0]) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': export %u of %u has no name", name, i,
                           library->exports.count);
  }
  if (!library->exports.ptrs[i]) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': export '%s' has no function", name, export_name);
  }
  if (attrs->constant_count > PYD_LIBRARY_MAX_CONSTANTS) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': export '%s' has %u constants, the limit is %u", name,
                           export_name, attrs->constant_count, PYD_LIBRARY_MAX_CONSTANTS);
  }
  if (attrs->binding_count > PYD_LIBRARY_MAX_BINDINGS) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': export '%s' has %u bindings, the limit is %u", name,
                           export_name, attrs->binding_count, PYD_LIBRARY_MAX_BINDINGS);
  }
  return PYD_STATUS_OK;
}

// Checks what dispatches of |library| rely on: functions, names, attributes, and the number of its constants.
pyd_status_t pyd_library_check(const pyd_library_t* library, uint32_t constant_count, const char* name) {
  // 0 is accepted for any number: compilers that write these tables often leave the count out.
  if (library->constants.count != 0 && library->constants.count != constant_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable '%s' needs %u constants, %u given", name,
                           library->constants.count, constant_count);
  }
  if (library->exports.count == 0) return PYD_STATUS_OK;
  const char* missing = !library->exports.ptrs    ? "functions"
                        : !library->exports.attrs ? "attributes"
                        : !library->exports.names ? "names"
                                                  : NULL;
  if (missing) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': its %u exports have no table of %s", name,
                           library->exports.count, missing);
  }
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < library->exports.count && pyd_ok(status); ++i) status = check_export(library, i, name);
  return status;
}
