// Two kernels for dispatches: buffers in the order of the layout, then its constants.
// nvcc -ptx -arch=compute_75 kernels.cu -o kernels.ptx

extern "C" __global__ void simple_mul(const float* __restrict__ left, const float* __restrict__ right,
                                      float* __restrict__ product, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) product[i] = left[i] * right[i];
}

extern "C" __global__ void simple_mul_inplace(const float* __restrict__ left, float* __restrict__ product, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) product[i] *= left[i];
}
