// cpu/plugin.c for CUDA: device.add_plugin("plugin.ptx").
// nvcc -ptx -rdc=true -arch=compute_75 plugin.cu -o plugin.ptx
#include <stddef.h>

extern "C" __device__ void clip_workgroup(const float* x, size_t x_offset, float* out, size_t out_offset, size_t size,
                                          size_t first) {
  size_t end = size - first < 64 ? size : first + 64;
  for (size_t i = first + threadIdx.x; i < end; i += blockDim.x)
    out[out_offset + i] = fminf(fmaxf(x[x_offset + i], -1.0f), 1.0f);
}

extern "C" __device__ void squared_difference(const float* a, size_t a_offset, const float* b, size_t b_offset,
                                              float* out, size_t out_offset, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    float difference = a[a_offset + i] - b[b_offset + i];
    out[out_offset + i] = difference * difference;
  }
}
