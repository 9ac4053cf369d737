// A loaded executable: the functions of a library (library.h) and the environment passed to them.
#ifndef PYDISPATCH_EXECUTABLE_H_
#define PYDISPATCH_EXECUTABLE_H_

#include "pydispatch/library.h"
#include "pydispatch/span.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// A provider of imports. |resolve| fills those of |count| slots that it can and whose function is still NULL, and
// leaves the others NULL. Names have no '?', unless |keeps_marks| is set: then a leading '?' marks an optional import.
// A failure means that resolving itself failed, not that a symbol is missing. Not called for an executable without
// imports. Borrowed: must outlive the call that it is passed to, not the executable.
typedef struct pyd_resolver_s {
  void* self;
  pyd_status_t (*resolve)(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                          void** contexts);
  bool keeps_marks;
} pyd_resolver_t;

// Resolves the |count| symbols of an import table into |functions| and |contexts| (both of |count| entries). A symbol
// with a leading '?' is optional and may stay NULL; every other one that is still NULL afterwards is listed in one
// MISSING_IMPORT status: "executable 'NAME' has 2 unresolved imports: 'a', 'b'". |resolver| may be NULL.
pyd_status_t pyd_imports_resolve(const char* executable, uint32_t count, const char* const* symbols,
                                 const pyd_resolver_t* resolver, pyd_import_fn_t* functions, void** contexts);

typedef struct pyd_executable_s pyd_executable_t;
struct pyd_elf_module_s;  // elf.h

// What a library of kernels is loaded with.
typedef struct pyd_executable_options_s {
  const char* name;                // for messages
  const pyd_resolver_t* resolver;  // may be NULL
  const uint32_t* constants;       // executable constants, copied
  uint32_t constant_count;
  const uint64_t* processor_data;  // PYD_PROCESSOR_DATA_WORDS words, or NULL for zeros
} pyd_executable_options_t;

// Loads an embedded ELF library: maps it, queries its symbol for version 6 or an older one, resolves imports, and
// checks the tables (attributes and non-empty names present, counts within limits, no sanitizer, constants agree unless
// the library says 0). On failure nothing stays allocated.
pyd_status_t pyd_executable_load_elf(pyd_span_t file, const pyd_executable_options_t* options,
                                     pyd_executable_t** out_executable);

// Loads a library from a module that pyd_elf_modules_map has mapped. Takes |module|, which is zero afterwards, also on
// failure.
pyd_status_t pyd_executable_from_module(struct pyd_elf_module_s* module, const pyd_executable_options_t* options,
                                        pyd_executable_t** out_executable);

// Loads a library that is already in memory (statically linked, or opened by the system's loader) and stays there for
// the life of the executable.
pyd_status_t pyd_executable_from_query(pyd_library_query_fn_t query, const pyd_executable_options_t* options,
                                       pyd_executable_t** out_executable);

// Unloads a library, whose kernels must not run any more. NULL is allowed.
void pyd_executable_free(pyd_executable_t* executable);

// The tables of the library, and the environment that its kernels are called with; valid until it is unloaded.
const pyd_library_t* pyd_executable_library(const pyd_executable_t* executable);
const pyd_environment_t* pyd_executable_environment(const pyd_executable_t* executable);
// The range of the loaded image, for profilers and debuggers; zero when the library was not loaded by us.
pyd_span_t pyd_executable_image(const pyd_executable_t* executable);
// The loaded module, for debuggers; one without memory when the library was not loaded by us.
const struct pyd_elf_module_s* pyd_executable_module(const pyd_executable_t* executable);
// The difference between an address in memory and the file's virtual address.
uint64_t pyd_executable_bias(const pyd_executable_t* executable);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_EXECUTABLE_H_
