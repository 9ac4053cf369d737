// A function of a generated kernel, linked when the program is compiled. All threads of a block call it together; blocks
// are as large as the compiler chose. A pointer and an offset in elements stand for a buffer.
// nvcc -ptx -rdc=true -arch=compute_75 functions.cu -o functions.ptx
#include <stddef.h>

// 64 elements of a product, those from `first` on.
extern "C" __device__ void mul_workgroup(const float* left, size_t left_offset, const float* right, size_t right_offset,
                                         float* out, size_t out_offset, size_t size, size_t first) {
  size_t end = first + 64 < size ? first + 64 : size;
  for (size_t i = first + threadIdx.x; i < end; i += blockDim.x)
    out[out_offset + i] = left[left_offset + i] * right[right_offset + i];
}
