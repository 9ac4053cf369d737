// links: base platform elf imports executable
// Executables around libraries that are built here, one fault at a time: versions, tables, imports, constants.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/executable.h"

static int failures;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

static void expect(int line, pyd_status_t status, pyd_code_t code, const char* text) {
  if (pyd_status_code(status) != code || strcmp(pyd_status_text(status), text) != 0) {
    fprintf(stderr, "line %d: expected %d '%s'\n        got %d '%s'\n", line, (int)code, text,
            (int)pyd_status_code(status), pyd_status_text(status));
    ++failures;
  }
  pyd_status_free(status);
}

// ---- a library whose every field a test may change

static int32_t calls_import(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                            const pyd_workgroup_state_t* workgroup) {
  (void)dispatch, (void)workgroup;
  int32_t params[2] = {20, 0};
  int32_t code = environment->import_thunk(environment->import_funcs[0], params, environment->import_contexts[0], NULL);
  return code ? code : params[1];
}
static int32_t gives_constant(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                              const pyd_workgroup_state_t* workgroup) {
  (void)dispatch, (void)workgroup;
  return (int32_t)environment->constants[1];
}

static struct {
  pyd_library_header_t header;
  const char* symbols[3];
  pyd_dispatch_fn_t ptrs[2];
  pyd_library_export_attrs_t attrs[2];
  const char* names[2];
  pyd_library_t library;
  uint32_t answers_to;
  uint32_t asked[8];
  uint32_t asked_count;
  pyd_environment_t seen;  // by the query
} lib;

static void reset(void) {
  memset(&lib, 0, sizeof(lib));
  lib.answers_to = 6;
  lib.header = (pyd_library_header_t){.version = 6, .name = "test"};
  lib.symbols[0] = "add_one";
  lib.ptrs[0] = calls_import;
  lib.ptrs[1] = gives_constant;
  lib.attrs[0].binding_count = PYD_LIBRARY_MAX_BINDINGS;
  lib.attrs[1].constant_count = PYD_LIBRARY_MAX_CONSTANTS;
  lib.names[0] = "calls_import";
  lib.names[1] = "gives_constant";
  lib.library.header = &lib.header;
  lib.library.imports = (pyd_library_imports_t){1, lib.symbols};
  lib.library.exports.count = 2;
  lib.library.exports.ptrs = lib.ptrs;
  lib.library.exports.attrs = lib.attrs;
  lib.library.exports.names = lib.names;
}

static const pyd_library_header_t* const* query(uint32_t max_version, const pyd_environment_t* environment) {
  if (lib.asked_count < 8) lib.asked[lib.asked_count++] = max_version;
  lib.seen = *environment;
  return max_version == lib.answers_to ? &lib.library.header : NULL;
}

// ---- a resolver

static int32_t add_one(void* params, void* context, void* reserved) {
  int32_t* values = params;
  if (reserved) return -1;
  values[1] = values[0] + 1 + *(int32_t*)context;
  return 0;
}

typedef struct provider_s {
  const char* knows[2];
  bool fails;
  uint32_t asked;
  char names[64];
} provider_t;

static int32_t provider_context = 21;

static pyd_status_t provide(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts) {
  provider_t* provider = self;
  ++provider->asked;
  if (provider->fails) return pyd_status_make(PYD_CODE_SYSTEM, "the plugin is gone");
  for (uint32_t i = 0; i < count; ++i) {
    strcat(strcat(provider->names, names[i]), " ");
    for (int k = 0; k < 2; ++k) {
      if (!functions[i] && provider->knows[k] && strcmp(names[i], provider->knows[k]) == 0) {
        functions[i] = add_one;
        contexts[i] = &provider_context;
      }
    }
  }
  return PYD_STATUS_OK;
}

static pyd_executable_t* executable;

static pyd_status_t load(provider_t* provider) {
  pyd_resolver_t resolver = {.self = provider, .resolve = provide};
  pyd_executable_options_t options = {.name = "exe", .resolver = provider ? &resolver : NULL};
  return pyd_executable_from_query(query, &options, &executable);
}

#define EXPECT_FAILURE(provider, code, text)                 \
  do {                                                       \
    executable = (pyd_executable_t*)&lib;                    \
    expect(__LINE__, load(provider), PYD_CODE_##code, text); \
    CHECK(executable == NULL);                               \
    reset();                                                 \
  } while (0)

// ---- tests

static void test_loads_and_calls(void) {
  reset();
  provider_t provider = {.knows = {"add_one"}};
  pyd_resolver_t resolver = {.self = &provider, .resolve = provide};
  uint32_t constants[2] = {5, 77};
  uint64_t processor[PYD_PROCESSOR_DATA_WORDS] = {0xFFF, 1, 2, 3, 4, 5, 6, 7};
  pyd_executable_options_t options = {"exe", &resolver, constants, 2, processor};
  expect(__LINE__, pyd_executable_from_query(query, &options, &executable), PYD_CODE_OK, "");
  constants[1] = 0;  // they were copied
  const pyd_environment_t* environment = pyd_executable_environment(executable);
  const pyd_library_t* library = pyd_executable_library(executable);
  CHECK((uintptr_t)environment % 16 == 0);
  CHECK(library == &lib.library);
  CHECK(library->exports.ptrs[0](environment, NULL, NULL) == 20 + 1 + 21);
  CHECK(library->exports.ptrs[1](environment, NULL, NULL) == 77);
  CHECK(memcmp(environment->processor.data, processor, sizeof(processor)) == 0);
  CHECK(lib.seen.constants[1] == 77 && lib.seen.processor.data[0] == 0xFFF && lib.seen.import_funcs == NULL);
  CHECK(lib.asked_count == 1 && lib.asked[0] == 6);
  CHECK(pyd_executable_image(executable).size == 0 && pyd_executable_bias(executable) == 0);
  pyd_executable_free(executable);
  pyd_executable_free(NULL);
}

static void test_without_imports(void) {
  reset();
  lib.library.imports.count = 0;
  lib.library.exports.count = 0;
  provider_t provider = {0};
  expect(__LINE__, load(&provider), PYD_CODE_OK, "");
  const pyd_environment_t* environment = pyd_executable_environment(executable);
  CHECK(provider.asked == 0);
  CHECK(!environment->import_thunk && !environment->import_funcs && !environment->import_contexts &&
        !environment->constants);
  pyd_executable_free(executable);
}

static void test_imports(void) {
  reset();
  provider_t provider = {.knows = {"other"}};
  lib.library.imports.count = 3;
  lib.symbols[1] = "?maybe";
  lib.symbols[2] = "zeta";
  EXPECT_FAILURE(&provider, MISSING_IMPORT, "executable 'exe' has 2 unresolved imports: 'add_one', 'zeta'");
  CHECK(strcmp(provider.names, "add_one maybe zeta ") == 0);  // without the '?'
  EXPECT_FAILURE(NULL, MISSING_IMPORT, "executable 'exe' has 1 unresolved import: 'add_one'");
  provider_t broken = {.fails = true};
  EXPECT_FAILURE(&broken, SYSTEM, "executable 'exe': its imports cannot be resolved: the plugin is gone");
  lib.symbols[0] = NULL;
  EXPECT_FAILURE(&provider, CORRUPT, "executable 'exe': import 0 of 1 has no name");
  lib.symbols[0] = "?";
  EXPECT_FAILURE(&provider, CORRUPT, "executable 'exe': import 0 of 1 has no name");
  lib.library.imports.symbols = NULL;
  EXPECT_FAILURE(&provider, CORRUPT, "executable 'exe' has 1 imports without names");

  lib.symbols[0] = "?maybe";  // all optional, nobody asked or nobody knows: still fine
  provider_t* providers[2] = {NULL, &provider};
  for (int i = 0; i < 2; ++i) {
    expect(__LINE__, load(providers[i]), PYD_CODE_OK, "");
    const pyd_environment_t* environment = pyd_executable_environment(executable);
    CHECK(environment->import_thunk && environment->import_funcs[0] == NULL && environment->import_contexts[0] == NULL);
    pyd_executable_free(executable);
  }
}

static void test_many_missing_imports(void) {
  enum { kCount = 100 };
  static char names[kCount][24];
  const char* symbols[kCount];
  pyd_import_fn_t functions[kCount] = {0};
  void* contexts[kCount] = {0};
  for (int i = 0; i < kCount; ++i) {
    snprintf(names[i], sizeof(names[i]), "symbol_%d", i);
    symbols[i] = names[i];
  }
  functions[50] = add_one;  // already there
  pyd_status_t status = pyd_imports_resolve("many", kCount, symbols, NULL, functions, contexts);
  const char* text = pyd_status_text(status);
  CHECK(pyd_status_code(status) == PYD_CODE_MISSING_IMPORT && pyd_status_values(status)[0] == 99);
  CHECK(strstr(text, "has 99 unresolved imports: 'symbol_0', 'symbol_1',") && !strstr(text, "'symbol_50'"));
  CHECK(strcmp(text + strlen(text) - 11, "'symbol_99'") == 0);
  pyd_status_free(status);
  expect(__LINE__, pyd_imports_resolve("none", 0, NULL, NULL, NULL, NULL), PYD_CODE_OK, "");
}

static void test_versions(void) {
  reset();
  lib.answers_to = 0;
  pyd_status_t refused = load(NULL);
  CHECK(pyd_status_code(refused) == PYD_CODE_UNSUPPORTED);
  pyd_status_free(refused);
  CHECK(lib.asked_count == 6 && lib.asked[0] == 6 && lib.asked[5] == 1);
  reset();
  lib.answers_to = 0;
  EXPECT_FAILURE(
      NULL, UNSUPPORTED,
      "executable 'exe': its library answers to no version from 0.6 down to 0.1: it was made for a newer runtime");
  lib.answers_to = lib.header.version = 4;
  EXPECT_FAILURE(NULL, UNSUPPORTED,
                 "executable 'exe' has library version 0.4, whose tables are laid out differently; versions 0.5 to 0.6 "
                 "can be loaded: compile it again");
  lib.header.version = 7;  // answers to 6 all the same
  EXPECT_FAILURE(NULL, UNSUPPORTED,
                 "executable 'exe' has library version 0.7, whose tables are laid out differently; versions 0.5 to 0.6 "
                 "can be loaded: compile it again");
  for (uint32_t sanitizer = 1; sanitizer < 6; ++sanitizer) {
    static const char* const kNames[] = {"",
                                         "the address sanitizer",
                                         "the memory sanitizer",
                                         "the thread sanitizer",
                                         "the undefined behaviour sanitizer",
                                         "an unknown sanitizer"};
    char text[256];
    snprintf(
        text, sizeof(text),
        "executable 'exe' was built with %s (%u), whose runtime an embedded library cannot reach: build it without",
        kNames[sanitizer], sanitizer);
    lib.header.sanitizer = sanitizer;
    EXPECT_FAILURE(NULL, UNSUPPORTED, text);
  }
  lib.library.header = NULL;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': its library has no header");
  pyd_executable_options_t options = {.name = NULL};
  expect(__LINE__, pyd_executable_from_query(NULL, &options, &executable), PYD_CODE_INVALID_ARGUMENT,
         "executable '': no query function given");
}

static void test_tables(void) {
  reset();
  lib.library.exports.ptrs = NULL;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': its 2 exports have no table of functions");
  lib.library.exports.attrs = NULL;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': its 2 exports have no table of attributes");
  lib.library.exports.names = NULL;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': its 2 exports have no table of names");
  lib.names[1] = NULL;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': export 1 of 2 has no name");
  lib.names[1] = "";
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': export 1 of 2 has no name");
  lib.ptrs[1] = NULL;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': export 'gives_constant' has no function");
  lib.attrs[1].constant_count = 65;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': export 'gives_constant' has 65 constants, the limit is 64");
  lib.attrs[0].binding_count = 65;
  EXPECT_FAILURE(NULL, CORRUPT, "executable 'exe': export 'calls_import' has 65 bindings, the limit is 64");
  lib.library.constants.count = 2;
  EXPECT_FAILURE(NULL, INVALID_ARGUMENT, "executable 'exe' needs 2 constants, 0 given");
}

// Version 5, as its compilers wrote it: 72-byte attributes, no parameters, occupancy or parameter names.
typedef struct attrs_v5_s {
  uint16_t local_memory_pages;
  uint8_t constant_count, binding_count;
  uint32_t reserved_0;
  uint64_t reserved_1[8];
} attrs_v5_t;
static struct {
  const pyd_library_header_t* header;
  uint32_t import_count;
  const char* const* symbols;
  uint32_t export_count;
  const pyd_dispatch_fn_t* ptrs;
  const attrs_v5_t* attrs;
  const char* const* names;
  const char* const* tags;
  const pyd_library_source_location_t* source_locations;
  const void* stage_locations;
  uint32_t constant_count;
  uint32_t filler;  // the sources start at a multiple of eight
  uint32_t source_count;
  const void* source_files;
} old;

static const pyd_library_header_t* const* query_old(uint32_t max_version, const pyd_environment_t* environment) {
  (void)environment;
  return max_version == 5 ? &old.header : NULL;
}

static void test_version_5(void) {
  reset();
  static const attrs_v5_t attrs[2] = {{.local_memory_pages = 3, .constant_count = 1, .binding_count = 2},
                                      {.local_memory_pages = 0, .constant_count = 64, .binding_count = 64}};
  static const char* const tags[2] = {"tag", NULL};
  static const pyd_library_source_location_t locations[2] = {{7, 1, "f"}, {8, 1, "g"}};
  lib.header.version = 5;
  old.header = &lib.header;
  old.export_count = 2;
  old.ptrs = lib.ptrs;
  old.attrs = attrs;
  old.names = lib.names;
  old.tags = tags;
  old.source_locations = locations;
  old.constant_count = 1;
  old.source_count = 3;
  old.source_files = tags;
  uint32_t constants[1] = {9};
  pyd_executable_options_t options = {.name = "old", .constants = constants, .constant_count = 1};
  expect(__LINE__, pyd_executable_from_query(query_old, &options, &executable), PYD_CODE_OK, "");
  const pyd_library_t* library = pyd_executable_library(executable);
  CHECK(library->exports.count == 2 && library->exports.ptrs == lib.ptrs && library->exports.names == lib.names);
  CHECK(library->exports.attrs[0].local_memory_pages == 3 && library->exports.attrs[0].constant_count == 1);
  CHECK(library->exports.attrs[1].constant_count == 64 && library->exports.attrs[1].binding_count == 64);
  CHECK(library->exports.attrs[0].workgroup_size_x == 0 && library->exports.params == NULL);
  CHECK(library->exports.tags == tags && library->exports.source_locations[1].line == 8);
  CHECK(library->constants.count == 1 && library->exports.parameter_names == NULL);
  CHECK(library->sources.count == 3 && library->sources.files == tags);
  pyd_executable_free(executable);
  old.attrs = NULL;
  expect(__LINE__, pyd_executable_from_query(query_old, &options, &executable), PYD_CODE_CORRUPT,
         "executable 'old': its 2 exports have no table of attributes");
}

static void test_bytes_that_are_no_library(void) {
  pyd_executable_options_t options = {.name = "exe"};
  uint8_t bytes[64] = "not an ELF file";
  executable = (pyd_executable_t*)&lib;
  pyd_status_t status = pyd_executable_load_elf((pyd_span_t){bytes, sizeof(bytes)}, &options, &executable);
  CHECK(pyd_status_code(status) == PYD_CODE_CORRUPT && strncmp(pyd_status_text(status), "executable 'exe': ", 18) == 0);
  CHECK(executable == NULL);
  pyd_status_free(status);
}

int main(void) {
  test_loads_and_calls();
  test_without_imports();
  test_imports();
  test_many_missing_imports();
  test_versions();
  test_tables();
  test_version_5();
  test_bytes_that_are_no_library();
  return failures != 0;
}
