// A plugin in one file: one function that a program imports.
//
//   pydispatch plugin build simple_mul.c -o simple_mul.sos
//   pydispatch run program.mlir --plugin=simple_mul.sos --input=8xf32=2 --input=8xf32=4
#include "pydispatch/plugin.h"

// The arguments of @simple_mul_workgroup in program.mlir, in their order. Offsets count elements.
typedef struct params_s {
  const float* restrict lhs;
  size_t lhs_offset;
  const float* restrict rhs;
  size_t rhs_offset;
  float* restrict out;
  size_t out_offset;
  size_t size;   // of the whole problem
  size_t first;  // of this workgroup's 64 elements
} params_t;

static int simple_mul_workgroup(void* params_ptr, void* context, void* reserved) {
  (void)context, (void)reserved;
  const params_t* p = params_ptr;
  size_t end = p->size - p->first < 64 ? p->size : p->first + 64;
  for (size_t i = p->first; i < end; ++i) {
    p->out[p->out_offset + i] = p->lhs[p->lhs_offset + i] * p->rhs[p->rhs_offset + i];
  }
  return 0;
}

PYD_PLUGIN("simple_mul", "multiplies two arrays of floats", PYD_PLUGIN_FN("simple_mul_workgroup", simple_mul_workgroup))
