// Functions of generated kernels that a plugin supplies when the program is loaded.
//   pydispatch plugin build plugin.c -o plugin.sos
#include "pydispatch/plugin.h"

// The arguments of @clip_workgroup in program.mlir, in their order. Offsets count elements.
typedef struct clip_params_s {
  const float* x;
  size_t x_offset;
  float* out;
  size_t out_offset;
  size_t size, first;  // of all workgroups; of this one
} clip_params_t;

// min(max(x, -1), 1), for the 64 elements from |first| on.
static int clip_workgroup(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const clip_params_t* p = params;
  size_t end = p->size - p->first < 64 ? p->size : p->first + 64;
  for (size_t i = p->first; i < end; ++i) {
    float value = p->x[p->x_offset + i];
    p->out[p->out_offset + i] = value < -1.0f ? -1.0f : value > 1.0f ? 1.0f : value;
  }
  return 0;
}

// The arguments that rewriteAsFlowDispatch in spec.pdl.mlir passes: inputs, results, other operands.
typedef struct squared_difference_params_s {
  const float* a;
  size_t a_offset;
  const float* b;
  size_t b_offset;
  float* out;
  size_t out_offset;
  int32_t count;
} squared_difference_params_t;

// out[i] = (a[i] - b[i])^2
static int squared_difference(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const squared_difference_params_t* p = params;
  for (int32_t i = 0; i < p->count; ++i) {
    float difference = p->a[p->a_offset + i] - p->b[p->b_offset + i];
    p->out[p->out_offset + i] = difference * difference;
  }
  return 0;
}

PYD_PLUGIN("stablehlo", "functions of examples/stablehlo", PYD_PLUGIN_FN("clip_workgroup", clip_workgroup),
           PYD_PLUGIN_FN("squared_difference", squared_difference))
