// A hand-written executable library: three elementwise kernels, as a compiler would lay them out. Each workgroup does
// four elements; the constant is the number of all.
#include "pydispatch/library.h"

typedef struct span_s {
  const float* a;
  const float* b;
  float* out;
  size_t begin, end;
} span_t;

static span_t span(const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w, int out) {
  size_t begin = (size_t)w->workgroup_id_x * 4, count = d->constants[0];
  return (span_t){d->binding_ptrs[0], d->binding_ptrs[1], d->binding_ptrs[out], begin,
                  begin + 4 < count ? begin + 4 : count};
}

static int initialised;
__attribute__((constructor)) static void initialise(void) { initialised = 1; }

static int32_t mul(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  span_t s = span(d, w, 2);
  for (size_t i = s.begin; i < s.end; ++i) s.out[i] = s.a[i] * s.b[i];
  return initialised ? 0 : 1;
}

static int32_t add(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  span_t s = span(d, w, 2);
  for (size_t i = s.begin; i < s.end; ++i) s.out[i] = s.a[i] + s.b[i];
  return 0;
}

static int32_t mul_inplace(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  span_t s = span(d, w, 1);
  for (size_t i = s.begin; i < s.end; ++i) s.out[i] *= s.a[i];
  return 0;
}

static const pyd_library_header_t kHeader = {.version = PYD_LIBRARY_VERSION, .name = "sample"};
static const pyd_dispatch_fn_t kFunctions[] = {mul, add, mul_inplace};
static const pyd_library_export_attrs_t kAttributes[] = {{.constant_count = 1, .binding_count = 3},
                                                         {.constant_count = 1, .binding_count = 3},
                                                         {.constant_count = 1, .binding_count = 2}};
static const char* const kNames[] = {"mul", "add", "mul_inplace"};
static const pyd_library_t kLibrary = {
    .header = &kHeader,
    .exports = {.count = 3, .ptrs = kFunctions, .attrs = kAttributes, .names = kNames},
};

__attribute__((visibility("default"))) const pyd_library_header_t* const* iree_hal_executable_library_query(
    uint32_t max_version, const pyd_environment_t* environment) {
  (void)environment;
  return max_version == PYD_LIBRARY_VERSION ? &kLibrary.header : NULL;
}
