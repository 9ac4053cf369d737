// The functions of functions.cu in C: the same text serves a CPU and CUDA.
#include <math.h>
#include <stddef.h>

#include "pydispatch/workgroup.h"

float user_op(float x, float y) { return x * y + 1.0f; }

int user_add(int x, int y) { return x + y; }

double user_math(double x) { return exp(x) + sqrt(x) * tanh(x); }

// Every thread takes its share; on a CPU there is one.
void simple_mul_workgroup(
    const float* restrict binding0, const float* restrict binding0_aligned, size_t offset0, size_t size0, size_t stride0,
    const float* restrict binding1, const float* restrict binding1_aligned, size_t offset1, size_t size1, size_t stride1,
    float* restrict binding2, float* restrict binding2_aligned, size_t offset2, size_t size2, size_t stride2, size_t dim,
    size_t tid) {
  size_t end = tid + 64 < dim ? tid + 64 : dim;
  for (size_t i = tid + pyd_thread(); i < end; i += pyd_threads())
    binding2_aligned[offset2 + i] = binding0_aligned[offset0 + i] * binding1_aligned[offset1 + i];
}

// Written for a CPU: whoever calls it does all of the work, in place.
void serial_scale(float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) values[i] = values[i] * factor + 1.0f;
}
