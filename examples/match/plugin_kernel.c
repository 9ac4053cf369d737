// The same kernel as an external function: it is found when the program is loaded, and gets one struct.
#include "pydispatch/plugin.h"

// The arguments of the call in the program, in their order. Offsets count elements.
typedef struct {
  const float* a;
  size_t a_offset;
  const float* b;
  size_t b_offset;
  float* out;
  size_t out_offset;
  int32_t n;
} arguments_t;

// (a - b)^2 + 100: the 100 shows in results that this function has computed them.
static int square_diff_external(void* params, void* context, void* reserved) {
  const arguments_t* p = params;
  for (int32_t i = 0; i < p->n; ++i) {
    float d = p->a[p->a_offset + i] - p->b[p->b_offset + i];
    p->out[p->out_offset + i] = d * d + 100.0f;
  }
  return 0;
}

PYD_PLUGIN("square", "squares of differences", PYD_PLUGIN_FN("square_diff_external", square_diff_external))
