// A loaded executable: the environment that kernels see, the image that their code is in, and the copies and tables
// that the environment points to.
#include "pydispatch/executable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/aligned.h"
#include "base/embedded_library.h"
#include "executable/library.h"
#include "pydispatch/elf.h"

// A loaded library of kernels, with all that its kernels need.
struct pyd_executable_s {
  _Alignas(16) pyd_environment_t environment;  // compiled code may load it with aligned instructions
  pyd_library_view_t view;
  pyd_elf_module_t module;     // zero for a library that is not an embedded ELF
  pyd_import_fn_t* functions;  // by import, NULL for an optional one that is missing; one block with |contexts|
  void** contexts;             // by import: passed to its function
  uint32_t* constants;         // copied from the options; NULL: none
};

// Calls |import|, a function of the host that a kernel imports. Kernels with the host's calling convention call their
// imports through this function (the import thunk of the environment).
static int32_t call_import(pyd_import_fn_t import, void* params, void* context, void* reserved) {
  return import(params, context, reserved);
}

#if PYD_HAS_BRIDGES
// Calls |import| for a kernel with another calling convention than the host's. PYD_EMBEDDED_CALL gives this function
// the kernel's convention, and the C compiler translates to that of |import|.
static int32_t PYD_EMBEDDED_CALL call_import_across(pyd_import_fn_t import, void* params, void* context,
                                                    void* reserved) {
  return import(params, context, reserved);
}
#endif

// Returns the function through which the kernels of a library call their imports. |is_embedded|: the library is an
// embedded ELF, whose calling convention differs from the host's if PYD_HAS_BRIDGES is 1.
static pyd_import_thunk_fn_t import_thunk(bool is_embedded) {
#if PYD_HAS_BRIDGES
  // Through void (*)(void), as compilers warn of a direct cast between function types that are not compatible.
  if (is_embedded) return (pyd_import_thunk_fn_t)(void (*)(void))call_import_across;
#endif
  (void)is_embedded;
  return call_import;
}

static const char* name_of(const pyd_executable_options_t* options) { return options->name ? options->name : ""; }

// Creates an executable with copies of the constants and of the processor data (words that tell kernels the features of
// the CPU), but without code. |*out_executable| is set even if copying the constants fails.
static pyd_status_t create(const pyd_executable_options_t* options, pyd_executable_t** out_executable) {
  pyd_executable_t* executable = pyd_aligned_alloc(_Alignof(pyd_executable_t), sizeof(*executable));
  if (!executable) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "executable '%s': no memory for its state", name_of(options));
  }
  memset(executable, 0, sizeof(*executable));
  *out_executable = executable;  // from here on the caller frees it
  if (options->constant_count) {
    size_t bytes = options->constant_count * sizeof(uint32_t);
    executable->constants = malloc(bytes);
    if (!executable->constants) {
      return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "executable '%s': no memory for %u constants", name_of(options),
                             options->constant_count);
    }
    memcpy(executable->constants, options->constants, bytes);
    executable->environment.constants = executable->constants;
  }
  if (options->processor_data) {
    memcpy(executable->environment.processor.data, options->processor_data,
           sizeof(executable->environment.processor.data));
  }
  return PYD_STATUS_OK;
}

// Finds the functions that the library imports, and stores them in the environment, where kernels read them.
// |is_embedded|: the library is an embedded ELF.
static pyd_status_t resolve_imports(pyd_executable_t* executable, bool is_embedded,
                                    const pyd_executable_options_t* options) {
  const pyd_library_imports_t* imports = &executable->view.library->imports;
  if (imports->count == 0) return PYD_STATUS_OK;
  // One block holds two arrays: |functions|, then |contexts|, each with an element per import.
  executable->functions = calloc(imports->count, sizeof(pyd_import_fn_t) + sizeof(void*));
  if (!executable->functions) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "executable '%s': no memory for %u imports", name_of(options),
                           imports->count);
  }
  executable->contexts = (void**)(executable->functions + imports->count);
  pyd_status_t status = pyd_imports_resolve(name_of(options), imports->count, imports->symbols, options->resolver,
                                            executable->functions, executable->contexts);
  executable->environment.import_thunk = import_thunk(is_embedded);
  executable->environment.import_funcs = executable->functions;
  executable->environment.import_contexts = executable->contexts;
  return status;
}

// Calls |query|, the query function of code that is in memory, for the table of its kernels; checks the table, and
// resolves the imports. The caller frees |executable| if this fails. |is_embedded|: the code is in executable->module.
static pyd_status_t attach(pyd_executable_t* executable, pyd_library_query_fn_t query, bool is_embedded,
                           const pyd_executable_options_t* options) {
  const pyd_elf_module_t* module = is_embedded ? &executable->module : NULL;
  pyd_status_t status =
      pyd_library_view_query(query, module, &executable->environment, name_of(options), &executable->view);
  if (pyd_ok(status)) {
    status = pyd_library_check(executable->view.library, options->constant_count, name_of(options));
  }
  if (pyd_ok(status)) status = resolve_imports(executable, is_embedded, options);
  return status;
}

// Finds the query function of |module|, an embedded ELF whose constructors have run. The function returns the table of
// the kernels. |name|: of the executable, for messages.
static pyd_status_t find_query(const pyd_elf_module_t* module, const char* name, pyd_library_query_fn_t* out_query) {
  void* symbol = pyd_elf_module_symbol(module, PYD_LIBRARY_QUERY_SYMBOL);
  memcpy(out_query, &symbol, sizeof(symbol));  // ISO C has no conversion from object to function pointers
  if (!symbol) {
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s' does not define '%s': it is not a kernel library", name,
                           PYD_LIBRARY_QUERY_SYMBOL);
  }
  if (pyd_elf_module_is_code(module, (uintptr_t)symbol)) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "executable '%s': '%s' is 0x%" PRIx64 ", which lies in no executable segment's bytes", name,
                         PYD_LIBRARY_QUERY_SYMBOL, (uint64_t)(uintptr_t)symbol - module->bias);  // address in the file
}

// Creates an executable from the mapped ELF |*module|, and takes ownership of the module: |*module| is zero afterwards,
// even if this fails.
pyd_status_t pyd_executable_from_module(pyd_elf_module_t* module, const pyd_executable_options_t* options,
                                        pyd_executable_t** out_executable) {
  pyd_executable_t* executable = NULL;
  pyd_library_query_fn_t query = NULL;
  *out_executable = NULL;
  pyd_status_t status = create(options, &executable);
  if (pyd_ok(status)) {
    executable->module = *module;  // from here on pyd_executable_free() unloads the module
    *module = (pyd_elf_module_t){0};
    status = pyd_elf_module_initialise(&executable->module);
    status = pyd_status_annotate(status, "executable '%s': %s", name_of(options), pyd_status_text(status));
  }
  if (pyd_ok(status)) status = find_query(&executable->module, name_of(options), &query);
  if (pyd_ok(status)) status = attach(executable, query, /* is_embedded */ true, options);
  if (pyd_ok(status)) {
    *out_executable = executable;
  } else {
    pyd_executable_free(executable);
    pyd_elf_module_unload(module);  // if create() failed; else |*module| is zero, and nothing is unloaded
  }
  return status;
}

// Creates an executable from the bytes of an embedded ELF.
pyd_status_t pyd_executable_load_elf(pyd_span_t file, const pyd_executable_options_t* options,
                                     pyd_executable_t** out_executable) {
  pyd_elf_module_t module;
  uint32_t failed_index;  // of the file that could not be mapped: there is only one
  *out_executable = NULL;
  pyd_status_t status = pyd_elf_modules_map(&file, /* count */ 1, &module, &failed_index);
  if (pyd_ok(status)) return pyd_executable_from_module(&module, options, out_executable);
  return pyd_status_annotate(status, "executable '%s': %s", name_of(options), pyd_status_text(status));
}

// Creates an executable from a library that is in memory already (linked into the process, or opened by the loader of
// the system) and must stay there as long as the executable.
pyd_status_t pyd_executable_from_query(pyd_library_query_fn_t query, const pyd_executable_options_t* options,
                                       pyd_executable_t** out_executable) {
  pyd_executable_t* executable = NULL;
  *out_executable = NULL;
  if (!query) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable '%s': no query function given", name_of(options));
  }
  pyd_status_t status = create(options, &executable);
  if (pyd_ok(status)) status = attach(executable, query, /* is_embedded */ false, options);
  if (pyd_ok(status)) {
    *out_executable = executable;
  } else {
    pyd_executable_free(executable);
  }
  return status;
}

// Unloads a library, whose kernels must not run any more.
void pyd_executable_free(pyd_executable_t* executable) {
  if (!executable) return;
  pyd_library_view_free(&executable->view);  // before the image that it points into
  pyd_elf_module_unload(&executable->module);
  free(executable->functions);
  free(executable->constants);
  pyd_aligned_free(executable);
}

const pyd_library_t* pyd_executable_library(const pyd_executable_t* executable) { return executable->view.library; }

const pyd_environment_t* pyd_executable_environment(const pyd_executable_t* executable) {
  return &executable->environment;
}

// Returns the memory of the loaded ELF image; empty for a library that is not an embedded ELF.
pyd_span_t pyd_executable_image(const pyd_executable_t* executable) {
  return (pyd_span_t){executable->module.memory, executable->module.memory_size};
}

const pyd_elf_module_t* pyd_executable_module(const pyd_executable_t* executable) { return &executable->module; }

uint64_t pyd_executable_bias(const pyd_executable_t* executable) { return executable->module.bias; }
