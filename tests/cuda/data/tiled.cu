// A product of matrices by tiles of 16 x 16 in shared memory. Compiled by make.sh.
#define TILE 16
extern "C" __global__ void tiled(const float* __restrict__ left, const float* __restrict__ right, float* out, int n) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    a[threadIdx.y][threadIdx.x] = left[row * n + k + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = right[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum = __fmaf_rn(a[threadIdx.y][i], b[i][threadIdx.x], sum);
    __syncthreads();
  }
  out[row * n + column] = sum;
}
