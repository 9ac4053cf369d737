// A library with one export: out = (a * b) * what the import multiplies by. -DMISSING adds two imports that nobody has.
#include "pydispatch/library.h"

static int32_t mul(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)w;
  const float* a = d->binding_ptrs[0];
  const float* b = d->binding_ptrs[1];
  float* out = d->binding_ptrs[2];
  for (uint32_t i = 0; i < d->constants[0]; ++i) {
    out[i] = a[i] * b[i];
    float* params[1] = {&out[i]};
    int32_t code = e->import_thunk(e->import_funcs[0], params, e->import_contexts[0], 0);
    if (code) return code;
    if (e->import_funcs[1]) return 99;  // optional and absent
  }
  return 0;
}

#ifndef VERSION
#define VERSION 6
#endif

static const pyd_library_header_t kHeader = {VERSION, "import_library", 0, 0};
static const char* const kSymbols[] = {"known", "?absent", "missing_one", "missing_two"};
static const pyd_dispatch_fn_t kPtrs[] = {mul};
static const pyd_library_export_attrs_t kAttrs[] = {{.constant_count = 1, .binding_count = 3}};
static const char* const kNames[] = {"mul"};
static const pyd_library_t kLibrary = {
    .header = &kHeader,
#ifdef MISSING
    .imports = {4, kSymbols},
#else
    .imports = {2, kSymbols},
#endif
    .exports = {.count = 1, .ptrs = kPtrs, .attrs = kAttrs, .names = kNames},
};

#ifndef QUERY
#define QUERY iree_hal_executable_library_query
#endif

__attribute__((visibility("default"))) const pyd_library_header_t* const* QUERY(uint32_t max_version,
                                                                                const pyd_environment_t* environment) {
  (void)environment;
  return max_version == VERSION ? &kLibrary.header : 0;
}
