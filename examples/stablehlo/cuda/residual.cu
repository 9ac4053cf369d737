// cpu/residual.c for CUDA, with blocks of 64 threads.
// nvcc -ptx -arch=compute_75 residual.cu -o residual.ptx

extern "C" __global__ void residual(const float* x, const float* y, float* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] + 0.5f * y[i];
}
