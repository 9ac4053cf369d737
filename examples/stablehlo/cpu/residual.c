// A whole kernel: out[i] = x[i] + y[i] / 2, 64 elements for each workgroup.
#include "pydispatch/library_author.h"

static int32_t residual(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                        const pyd_workgroup_state_t* workgroup) {
  (void)environment;
  const float *x = pyd_binding(dispatch, 0), *y = pyd_binding(dispatch, 1);
  float* out = pyd_binding(dispatch, 2);
  uint32_t count = pyd_constant(dispatch, 0), first = workgroup->workgroup_id_x * 64;
  for (uint32_t i = first; i < count && i < first + 64; ++i) out[i] = x[i] + 0.5f * y[i];
  return 0;
}

#define EXPORTS(X) X(residual, /* bindings */ 3, /* constants */ 1, /* bytes of local memory */ 0)
PYD_LIBRARY("residual", EXPORTS)
