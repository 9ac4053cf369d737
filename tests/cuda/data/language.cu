// Much of what nvcc writes in PTX: tables, strings, structs by value, function pointers, inline assembly, switches,
// shared memory of both kinds, shuffles, votes, atomics, tensor cores, calls of what is defined elsewhere.
#include <cstdio>
#include <mma.h>

struct Pair {
  float a;
  int b[3];
  double c;
};

__constant__ float table[4] = {1, 2, 3, 4};
__constant__ Pair start = {1.5f, {1, 2, 3}, 2.25};
__device__ int counter = 7;
__device__ float (*chosen)(float);
__device__ const char *greeting = "hello\n";

extern "C" __device__ float user_op(float, float);

__device__ __noinline__ float helper(Pair s, float x) { return s.a * x + s.b[1] + s.c; }

extern "C" __global__ void __launch_bounds__(256, 2) tile(const float *in, float *out, Pair s, int n) {
  __shared__ float rows[16][17];
  extern __shared__ float4 dynamic[];
  rows[threadIdx.y][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float v = rows[threadIdx.x][threadIdx.y];
  for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
  if (__any_sync(~0u, v > 3)) atomicAdd(&counter, 1);
  dynamic[threadIdx.x] = make_float4(v, v, v, v);
  __syncthreads();
  out[threadIdx.x] = helper(s, dynamic[n].x) + table[n & 3] + expf(v) + start.b[n];
  if (n == 77) printf("%d %s\n", n, greeting);
}

extern "C" __global__ void calls(float *a, int n) {
  a[n] = user_op(a[0], a[1]);
  if (chosen) a[2] = chosen(a[3]);
}

extern "C" __global__ void switches(int *a, int n) {
  switch (n) {
    case 0: a[1] = a[7] * 2; break;
    case 1: a[2] = a[6] + 3; break;
    case 2: a[3] = a[5] ^ 4; break;
    case 3: a[4] = a[4] - 5; break;
    case 4: a[5] = a[3] & 6; break;
    case 5: a[6] = a[2] | 7; break;
    case 6: a[7] = a[1] << 8; break;
  }
}

extern "C" __global__ void assembly(int *a) {
  int i = threadIdx.x;
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, 4; @p bra done; mov.u32 %0, 3; done: }" : "+r"(i));
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, 5; @!p bra done; mov.u32 %0, 2; done: }" : "+r"(i));
  a[threadIdx.x] = i;
}

extern "C" __global__ void tensor(half *a, half *b, float *c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
