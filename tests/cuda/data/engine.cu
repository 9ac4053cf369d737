// Kernels for the tests of the interpreter of PTX. Compiled by make.sh.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include <cstdint>
#include <cstdio>

#define TILE 16

extern "C" __global__ void multiply(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] * b[i];
}

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[TILE][TILE];
  __shared__ float b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < K; k += TILE) {
    a[threadIdx.y][threadIdx.x] = row < M && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0.f;
    b[threadIdx.y][threadIdx.x] = column < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + column] : 0.f;
    __syncthreads();
    for (int j = 0; j < TILE; j++) sum += a[threadIdx.y][j] * b[j][threadIdx.x];
    __syncthreads();
  }
  if (row < M && column < N) C[row * N + column] = sum;
}

extern "C" __global__ void reduce_shared(const float* x, float* y, int n) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];
  s[t] = v;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}

extern "C" __global__ void reduce_warp(const int* x, int* y, int n) {
  __shared__ int part[32];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, v = i < n ? x[i] : 0;
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if ((t & 31) == 0) part[t >> 5] = v;
  __syncthreads();
  if (t < 32) {
    v = t < (blockDim.x + 31) / 32 ? part[t] : 0;
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    if (t == 0) atomicAdd(y, v);
  }
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* h, int n) {
  __shared__ unsigned s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&h[i], s[i]);
}

extern "C" __global__ void scan(const int* x, int* y) {
  __shared__ int sums[32];
  int t = threadIdx.x, lane = t & 31, v = x[blockIdx.x * blockDim.x + t];
  for (int o = 1; o < 32; o <<= 1) {
    int u = __shfl_up_sync(0xffffffff, v, o);
    if (lane >= o) v += u;
  }
  if (lane == 31) sums[t >> 5] = v;
  __syncthreads();
  if (t < 32) {
    int w = t < blockDim.x / 32 ? sums[t] : 0;
    for (int o = 1; o < 32; o <<= 1) {
      int u = __shfl_up_sync(0xffffffff, w, o);
      if (t >= o) w += u;
    }
    sums[t] = w;
  }
  __syncthreads();
  if (t >= 32) v += sums[(t >> 5) - 1];
  y[blockIdx.x * blockDim.x + t] = v;
}

extern "C" __global__ void transpose(const float* x, float* y, int h, int w) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32;
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (r + k < h && c < w) tile[k][threadIdx.x] = x[(r + k) * w + c];
  __syncthreads();
  int c2 = r + threadIdx.x, r2 = blockIdx.x * 32;
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (r2 + k < w && c2 < h) y[(r2 + k) * h + c2] = tile[threadIdx.x][k];
}

extern "C" __global__ void collatz(const unsigned* x, unsigned* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i], k = 0;
  while (v != 1) {
    if (v & 1)
      v = 3 * v + 1;
    else
      v >>= 1;
    k++;
  }
  steps[i] = k;
}

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x / 3 % 4); }

// A function that keeps an array in local memory over a call of itself.
__device__ __noinline__ int sum_of_digits(int value, int depth) {
  int digits[8];
  for (int k = 0; k < 8; k++) digits[(k + depth) % 8] = (value >> 4 * k) & 15;
  int rest = depth > 0 ? sum_of_digits(value / 3, depth - 1) : 0;
  int sum = rest;
  for (int k = 0; k < 8; k++) sum += digits[(k * 3 + depth) % 8] * (k + 1);
  return sum;
}
extern "C" __global__ void frames(int* out) { out[threadIdx.x] = sum_of_digits(threadIdx.x * 1234567, threadIdx.x % 5); }

__device__ float twice(float x) { return 2 * x; }
__device__ float square(float x) { return x * x; }
typedef float (*function)(float);
__device__ function table[2] = {twice, square};
extern "C" __global__ void indirect(const float* x, float* y) { y[threadIdx.x] = table[threadIdx.x & 1](x[threadIdx.x]); }

extern "C" __global__ void cases(const int* x, int* y) {
  int i = threadIdx.x, v = x[i];
  switch (v) {
    case 0: v = 11; break;
    case 1: v = v * 7 + i; break;
    case 2: v = i * i; break;
    case 3: v = -5; break;
    case 4: v = ~i; break;
    case 5: v = i ^ 99; break;
    case 6: v = i % 3; break;
    default: v = 1000 + v;
  }
  y[i] = v;
}

extern "C" __global__ void locked(int* lock, int* count) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)count = *(volatile int*)count + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

struct Pair {
  int first;
  double second;
};
__device__ __noinline__ Pair turned(Pair p) { return Pair{(int)p.second, (double)p.first}; }
extern "C" __global__ void structs(Pair by_value, Pair* out) {
  Pair p = by_value;
  p.first += threadIdx.x;
  out[threadIdx.x] = turned(p);
}

__constant__ int weights[4] = {3, 1, 4, 1};
extern "C" __global__ void constants(int* out) { out[threadIdx.x] = weights[threadIdx.x & 3]; }

extern "C" __global__ void votes(const int* x, unsigned* out) {
  int t = threadIdx.x, v = x[t];
  unsigned* o = out + 8 * t;
  o[0] = __ballot_sync(0xffffffff, v & 1);
  o[1] = __any_sync(0xffffffff, v > 100);
  o[2] = __all_sync(0xffffffff, v >= 0);
  o[3] = __match_any_sync(0xffffffff, v & 3);
  o[4] = __reduce_add_sync(0xffffffff, (unsigned)v);
  o[5] = __reduce_max_sync(0xffffffff, (unsigned)v);
  o[6] = __activemask();
  if (t % 32 < 8) o[7] = __shfl_sync(0xff, v, 7 - (t & 7), 8);
  else o[7] = __reduce_xor_sync(0xffffff00, (unsigned)v);
}

extern "C" __global__ void atomics(const int* x, int* out, int* old) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  old[i] = atomicAdd(out + 0, v);
  atomicMax(out + 1, v);
  atomicMin(out + 2, v);
  atomicAnd(out + 3, v);
  atomicOr(out + 4, v);
  atomicXor(out + 5, v);
  atomicInc((unsigned*)out + 6, 9);
  atomicDec((unsigned*)out + 7, 9);
  atomicAdd((float*)out + 8, 0.1f * v);
  atomicAdd((unsigned long long*)(out + 10), (unsigned long long)v);
  atomicAdd((double*)(out + 12), 0.1 * v);
  atomicAdd((__half2*)(out + 14), __half2(1.f, 2.f));
}

extern "C" __global__ void tensor(const __half* A, const __half* B, float* C) {
  int lane = threadIdx.x, g = lane >> 2, t = lane & 3;
  __shared__ __align__(16) __half a[16 * 16];
  for (int k = lane; k < 256; k += 32) a[k] = A[k];
  __syncwarp();
  uint32_t x[4], y[2];
  unsigned at = (unsigned)__cvta_generic_to_shared(a + (lane % 16) * 16 + (lane / 16) * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
  const uint32_t* b = (const uint32_t*)B;  // transposed: 8 columns of 16
  y[0] = b[g * 8 + t];
  y[1] = b[g * 8 + t + 4];
  float c[4] = {1, 2, 3, 4};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  C[g * 8 + t * 2] = c[0];
  C[g * 8 + t * 2 + 1] = c[1];
  C[(g + 8) * 8 + t * 2] = c[2];
  C[(g + 8) * 8 + t * 2 + 1] = c[3];
}

extern "C" __global__ void copies(const float4* x, float4* y, int n) {
  __shared__ float4 s[64];
  int t = threadIdx.x;
  __pipeline_memcpy_async(s + t, x + t, 16, t < n ? 0 : 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  y[t] = s[63 - t];
}

extern "C" __global__ void printing(int n) { printf("%d of %d: %s %5.2f%%\n", threadIdx.x, n, "x", 1.5 * threadIdx.x); }
