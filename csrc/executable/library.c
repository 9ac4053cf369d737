// The pointers below come from machine code that is trusted to run, so they are followed; what is missing or outside the
// limits is still an error and not a crash, because hand-written libraries get it wrong.
#include "executable/library.h"

#include <stdlib.h>

#include "base/embedded_library.h"

static const char* sanitizer_name(uint32_t sanitizer) {
  switch (sanitizer) {
    case PYD_LIBRARY_SANITIZER_ADDRESS:
      return "the address sanitizer";
    case PYD_LIBRARY_SANITIZER_MEMORY:
      return "the memory sanitizer";
    case PYD_LIBRARY_SANITIZER_THREAD:
      return "the thread sanitizer";
    case PYD_LIBRARY_SANITIZER_UNDEFINED:
      return "the undefined behaviour sanitizer";
  }
  return "an unknown sanitizer";
}

// Version 5: attributes of another size without sizes of workgroups and parameters, and an exports table that lacks
// the three optional columns which version 6 added in its middle. Dispatch and workgroup states are the same.
typedef struct attrs_v5_s {
  uint16_t local_memory_pages;
  uint8_t constant_count;
  uint8_t binding_count;
  uint32_t reserved_0;
  uint64_t reserved_1[8];
} attrs_v5_t;

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

static pyd_status_t translate_v5(const library_v5_t* old, const char* name, pyd_library_t** out_library) {
  size_t count = old->exports.attrs ? old->exports.count : 0;
  pyd_library_t* library = calloc(1, sizeof(*library) + count * sizeof(pyd_library_export_attrs_t));
  if (!library) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "executable '%s': no memory for %zu exports", name, count);
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

pyd_status_t pyd_library_view_query(pyd_library_query_fn_t query, bool is_embedded, const pyd_environment_t* environment,
                                    const char* name, pyd_library_view_t* out_view) {
  *out_view = (pyd_library_view_t){0};
  // Compiled libraries answer to exactly one number, so every number is tried.
  const pyd_library_header_t* const* answer = NULL;
  for (uint32_t version = PYD_LIBRARY_VERSION; version >= 1 && !answer; --version) {
    answer = pyd_library_query_call(query, is_embedded, version, environment);
  }
  if (!answer) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "executable '%s': its library answers to no version from 0.%u down to 0.1: it was made for a "
                           "newer runtime",
                           name, PYD_LIBRARY_VERSION);
  }
  pyd_status_t status = check_header(*answer, name);
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

pyd_status_t pyd_library_check(const pyd_library_t* library, uint32_t constant_count, const char* name) {
  // A library that says 0 has often not been told: the compilers that write these tables forget the count.
  if (library->constants.count != 0 && library->constants.count != constant_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable '%s' needs %u constants, %u given", name,
                           library->constants.count, constant_count);
  }
  if (library->exports.count == 0) return PYD_STATUS_OK;
  const char* lacks = !library->exports.ptrs    ? "functions"
                      : !library->exports.attrs ? "attributes"
                      : !library->exports.names ? "names"
                                                : NULL;
  if (lacks) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': its %u exports have no table of %s", name,
                           library->exports.count, lacks);
  }
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < library->exports.count && pyd_ok(status); ++i) status = check_export(library, i, name);
  return status;
}
