// Two kernels for examples/mixed. Plain freestanding C: no libc, no threads, no globals.
#include <stddef.h>

// A pointer and an offset in elements stand for a buffer; |size| is the number of elements of all workgroups.

// out[i] = lhs[i] * rhs[i] for the 64 elements that start at |first|.
void mul_workgroup(const float* restrict lhs, size_t lhs_offset, const float* restrict rhs, size_t rhs_offset,
                   float* restrict out, size_t out_offset, size_t size, size_t first) {
  size_t end = size - first < 64 ? size : first + 64;
  for (size_t i = first; i < end; ++i) out[out_offset + i] = lhs[lhs_offset + i] * rhs[rhs_offset + i];
}

// rhs[i] *= lhs[i] in place, for the 64 elements that start at |first|.
void scale_workgroup(const float* restrict lhs, size_t lhs_offset, float* restrict rhs, size_t rhs_offset, size_t size,
                     size_t first) {
  size_t end = size - first < 64 ? size : first + 64;
  for (size_t i = first; i < end; ++i) rhs[rhs_offset + i] *= lhs[lhs_offset + i];
}
