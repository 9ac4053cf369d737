// links: base platform elf
// Loading when the n-th request for memory is refused, for every n: a status that says what for, and nothing left
// behind.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int requests;
static int refused;

static void* refuse(void* memory) {
  if (++requests != refused) return memory;
  free(memory);
  return NULL;
}

#define malloc(size) refuse(malloc(size))
#define calloc(count, size) refuse(calloc(count, size))
#define aligned_alloc(alignment, size) refuse(aligned_alloc(alignment, size))
#include "executable/executable.c"
#include "executable/library.c"
#include "imports/resolve.c"
#undef malloc
#undef calloc
#undef aligned_alloc

enum { kImports = 40 };  // more than fit on the stack

static const char* symbols[kImports];
static const pyd_library_header_t header = {5, "old", 0, 0};
static const library_v5_t library = {.header = &header, .imports = {kImports, symbols}};

static const pyd_library_header_t* const* query(uint32_t max_version, const pyd_environment_t* environment) {
  (void)environment;
  return max_version == 5 ? &library.header : NULL;
}

static int32_t import(void* params, void* context, void* reserved) {
  (void)params, (void)context, (void)reserved;
  return 0;
}

static pyd_status_t provide(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts) {
  (void)names, (void)contexts;
  for (uint32_t i = 0; i < count && self; ++i) functions[i] = import;
  return PYD_STATUS_OK;
}

static pyd_status_t load(bool provides, pyd_executable_t** out_executable) {
  pyd_resolver_t resolver = {.self = provides ? &requests : NULL, .resolve = provide};
  uint32_t constants[2] = {1, 2};
  pyd_executable_options_t options = {
      .name = "exe", .resolver = &resolver, .constants = constants, .constant_count = 2};
  requests = 0;
  return pyd_executable_from_query(query, &options, out_executable);
}

int main(void) {
  static const char* const kTexts[] = {
      "executable 'exe': no memory for its state",  "executable 'exe': no memory for 2 constants",
      "executable 'exe': no memory for 0 exports",  "executable 'exe': no memory for 40 imports",
      "executable 'exe': no memory for 40 imports",  // and their names
  };
  const int count = sizeof(kTexts) / sizeof(kTexts[0]);
  int failures = 0;
  for (int i = 0; i < kImports; ++i) symbols[i] = "symbol";
  pyd_executable_t* executable = NULL;
  for (refused = 1; refused <= count; ++refused) {
    pyd_status_t status = load(true, &executable);
    if (executable || pyd_status_code(status) != PYD_CODE_OUT_OF_MEMORY ||
        strcmp(pyd_status_text(status), kTexts[refused - 1])) {
      fprintf(stderr, "request %d: %d '%s'\n", refused, (int)pyd_status_code(status), pyd_status_text(status));
      ++failures;
    }
    pyd_status_free(status);
  }
  pyd_status_t status = load(true, &executable);
  if (!pyd_ok(status) || requests != count)
    failures += fprintf(stderr, "%d requests, expected %d\n", requests, count) > 0;
  pyd_executable_free(executable);
  // Without memory for the list of names, the message is shorter and still right.
  status = load(false, &executable);
  const char* text = "executable 'exe' has 40 unresolved imports";
  if (pyd_status_code(status) != PYD_CODE_MISSING_IMPORT || strcmp(pyd_status_text(status), text) != 0) {
    failures += fprintf(stderr, "got '%s'\n", pyd_status_text(status)) > 0;
  }
  pyd_status_free(status);
  return failures != 0;
}
