// cpu/scale_rows.c for CUDA: a block is one row.
// nvcc -ptx -arch=compute_75 scale_rows.cu -o scale_rows.ptx

extern "C" __global__ void scale_rows(const float* x, const float* scale, float* out, int columns) {
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[blockIdx.x * columns + i] = x[blockIdx.x * columns + i] * scale[blockIdx.x];
}
