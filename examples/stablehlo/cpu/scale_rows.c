// A whole kernel: a workgroup is one row, and out[row][i] = x[row][i] * scale[row].
#include "pydispatch/library_author.h"

static int32_t scale_rows(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                          const pyd_workgroup_state_t* workgroup) {
  (void)environment;
  const float *x = pyd_binding(dispatch, 0), *scale = pyd_binding(dispatch, 1);
  float* out = pyd_binding(dispatch, 2);
  uint32_t columns = pyd_constant(dispatch, 0), row = workgroup->workgroup_id_x;
  for (uint32_t i = row * columns; i < (row + 1) * columns; ++i) out[i] = x[i] * scale[row];
  return 0;
}

#define EXPORTS(X) X(scale_rows, /* bindings */ 3, /* constants */ 1, /* bytes of local memory */ 0)
PYD_LIBRARY("scale_rows", EXPORTS)
