// cpu/functions.c for CUDA. All threads of a block call a function together; blocks are as large as the compiler chose.
// nvcc -ptx -rdc=true -arch=compute_75 functions.cu -o functions.ptx
#include <stddef.h>

extern "C" __device__ void hard_swish_workgroup(const float* x, size_t x_offset, float* out, size_t out_offset,
                                                size_t size, size_t first) {
  size_t end = size - first < 64 ? size : first + 64;
  for (size_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    float value = x[x_offset + i];
    out[out_offset + i] = value * fminf(fmaxf(value + 3.0f, 0.0f), 6.0f) / 6.0f;
  }
}

extern "C" __device__ void dot_row(const float* a, size_t a_offset, const float* b, size_t b_offset, float* out,
                                   size_t out_offset, size_t depth, size_t columns, size_t row) {
  for (size_t column = threadIdx.x; column < columns; column += blockDim.x) {
    float sum = 0.0f;
    for (size_t k = 0; k < depth; ++k) sum += a[a_offset + row * depth + k] * b[b_offset + k * columns + column];
    out[out_offset + row * columns + column] = sum;
  }
}
