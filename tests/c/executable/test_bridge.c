// links: base platform elf imports
// An embedded executable whose convention is not the host's: here "embedded" code follows that of Windows, whose
// registers for arguments and saved values differ. Query, thunk of the imports and dispatches cross over; other
// executables do not.
#if defined(__x86_64__) && !defined(_WIN32)
#define PYD_EMBEDDED_CALL __attribute__((ms_abi))
#include "executable/executable.c"
#include "executable/library.c"

#include <stdio.h>

static int failures;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

#define ACROSS __attribute__((ms_abi))

static int32_t import(void* params, void* context, void* reserved) {
  CHECK(reserved == (void*)0x77);
  *(int*)params += *(int*)context;
  return 5;
}
static pyd_status_t provide(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts) {
  CHECK(count == 1 && strcmp(names[0], "add") == 0);
  functions[0] = import;
  contexts[0] = self;
  return PYD_STATUS_OK;
}

// Kernel and query, once by either convention.
#define LIBRARY(name, convention)                                                                                   \
  static int32_t convention name##_kernel(const pyd_environment_t* e, const pyd_dispatch_state_t* d,                \
                                          const pyd_workgroup_state_t* w) {                                         \
    typedef int32_t(convention* thunk_t)(pyd_import_fn_t, void*, void*, void*);                                     \
    int value = (int)w->workgroup_id_x + d->constant_count;                                                         \
    int32_t code =                                                                                                  \
        ((thunk_t)(void (*)(void))e->import_thunk)(e->import_funcs[0], &value, e->import_contexts[0], (void*)0x77); \
    return code == 5 ? value : -1;                                                                                  \
  }                                                                                                                 \
  static convention const pyd_library_header_t* const* name##_query(uint32_t version, const pyd_environment_t* e) { \
    return version == 6 && e->constants[0] == 9 ? &name##_library.header : NULL;                                    \
  }

static const pyd_library_header_t header = {.version = 6, .name = "x"};
static const char* const symbols[] = {"add"};
static const char* const names[] = {"kernel"};
static const pyd_library_export_attrs_t attrs[1];
static pyd_library_t across_library, plain_library;
LIBRARY(across, ACROSS)
LIBRARY(plain, )

static void fill(pyd_library_t* library, const pyd_dispatch_fn_t* kernel) {
  *library = (pyd_library_t){.header = &header,
                             .imports = {1, symbols},
                             .exports = {.count = 1, .ptrs = kernel, .attrs = attrs, .names = names}};
}

static void run(pyd_library_query_fn_t query, bool is_embedded) {
  int context = 30;
  const uint32_t constants[] = {9};
  pyd_resolver_t resolver = {.self = &context, .resolve = provide};
  pyd_executable_options_t options = {
      .name = "exe", .resolver = &resolver, .constants = constants, .constant_count = 1};
  pyd_executable_t* executable = NULL;
  CHECK(pyd_ok(create(&options, &executable)));
  // Its "file" is this process.
  executable->module.segment_count = 1;
  executable->module.segments[0] = (pyd_elf_memory_t){.size = UINT64_MAX, .stored = UINT64_MAX, .is_code = true};
  pyd_status_t status = attach(executable, query, is_embedded, &options);
  if (!pyd_ok(status)) fprintf(stderr, "%s\n", pyd_status_text(status));
  CHECK(pyd_ok(status));
  if (pyd_ok(status)) {
    pyd_dispatch_state_t dispatch = {.constant_count = 2};
    pyd_workgroup_state_t workgroup = {.workgroup_id_x = 10};
    pyd_dispatch_fn_t kernel = pyd_executable_library(executable)->exports.ptrs[0];
    CHECK(pyd_dispatch_call(kernel, is_embedded, pyd_executable_environment(executable), &dispatch, &workgroup) == 42);
  }
  pyd_status_free(status);
  pyd_executable_free(executable);
}

int main(void) {
  static pyd_dispatch_fn_t across, plain = plain_kernel;
  across = (pyd_dispatch_fn_t)(void (*)(void))across_kernel;
  fill(&across_library, &across);
  fill(&plain_library, &plain);
  run((pyd_library_query_fn_t)(void (*)(void))across_query, true);
  run(plain_query, false);
  return failures ? 1 : 0;
}
#else
int main(void) { return 0; }
#endif
