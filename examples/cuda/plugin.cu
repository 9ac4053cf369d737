// A function of a generated kernel that arrives when the program is loaded: device.add_plugin("plugin.ptx").
// nvcc -ptx -rdc=true -arch=compute_75 plugin.cu -o plugin.ptx
#include <stddef.h>

// 64 elements, those from `first` on, times their factors.
extern "C" __device__ void scale_workgroup(const float* factors, size_t factors_offset, float* out, size_t out_offset,
                                           size_t size, size_t first) {
  size_t end = first + 64 < size ? first + 64 : size;
  for (size_t i = first + threadIdx.x; i < end; i += blockDim.x) out[out_offset + i] *= factors[factors_offset + i];
}
