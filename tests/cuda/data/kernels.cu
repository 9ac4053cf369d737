// The kernels of the CUDA document, and one of each kind of parameter. Compiled by make.sh.
extern "C" __global__ void simple_mul(const float* __restrict__ binding0, const float* __restrict__ binding1,
                                      float* __restrict__ binding2, int dim) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  if (tid < dim) binding2[tid] = binding0[tid] * binding1[tid];
}

extern "C" __global__ void simple_mul_inplace(const float* __restrict__ binding0, float* __restrict__ binding1,
                                              int dim) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  if (tid < dim) binding1[tid] *= binding0[tid];
}

// 64-bit scalars, and a narrow one.
extern "C" __global__ void scale(const long long* in, long long* out, long long k, double x, short s, int n) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  if (tid < n) out[tid] = in[tid] * k + (long long)x + s;
}

// Dynamic shared memory: every block is turned around.
extern "C" __global__ void reverse(const float* in, float* out) {
  extern __shared__ float tile[];
  int base = blockDim.x * blockIdx.x;
  tile[threadIdx.x] = in[base + threadIdx.x];
  __syncthreads();
  out[base + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// Executable constants.
__constant__ int offset;
__constant__ int factor;
extern "C" __global__ void affine(const int* in, int* out, int n) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  if (tid < n) out[tid] = in[tid] * factor + offset;
}

// A block size that the code is compiled for.
extern "C" __global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = threadIdx.x; }

// No extern "C".
__global__ void mangled(float* out) { out[threadIdx.x] = 1; }
