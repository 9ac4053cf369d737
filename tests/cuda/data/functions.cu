// Functions for generated kernels. Every thread of a block calls them together. Compiled by make.sh.
#include <stddef.h>

extern "C" __device__ float user_op(float x, float y) { return x * y + 1.0f; }

extern "C" __device__ int user_add(int x, int y) { return x + y; }

// A whole workgroup's share of a product: memrefs as pointers, offsets, sizes and strides.
extern "C" __device__ void simple_mul_workgroup(
    const float* binding0, const float* binding0_aligned, size_t offset0, size_t size0, size_t stride0,
    const float* binding1, const float* binding1_aligned, size_t offset1, size_t size1, size_t stride1,
    float* binding2, float* binding2_aligned, size_t offset2, size_t size2, size_t stride2, size_t dim, size_t tid) {
  size_t end = tid + 64 < dim ? tid + 64 : dim;
  for (size_t i = tid + threadIdx.x; i < end; i += blockDim.x)
    binding2_aligned[offset2 + i] = binding0_aligned[offset0 + i] * binding1_aligned[offset1 + i];
}
