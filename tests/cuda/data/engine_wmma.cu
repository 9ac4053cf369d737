// Matrices in fragments. Compiled by make.sh.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void halves(const half* A, const half* B, const float* C, float* D, int lda, int ldb, int ldc) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::load_matrix_sync(a, A, lda);
  wmma::load_matrix_sync(b, B, ldb);
  wmma::load_matrix_sync(c, C, ldc, wmma::mem_row_major);
  for (int k = 0; k < c.num_elements; k++) c.x[k] *= 2;
  wmma::mma_sync(c, a, b, c);
  wmma::store_matrix_sync(D, c, ldc, wmma::mem_col_major);
}

extern "C" __global__ void bytes(const signed char* A, const signed char* B, int* D) {
  __shared__ __align__(32) signed char s[32 * 16];
  for (int k = threadIdx.x; k < 512; k += 32) s[k] = A[k];
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 32, 8, 16, int> c;
  wmma::fill_fragment(c, 5);
  wmma::load_matrix_sync(a, s, 16);
  wmma::load_matrix_sync(b, B, 8);
  wmma::mma_sync(c, a, b, c);
  wmma::store_matrix_sync(D, c, 8, wmma::mem_row_major);
}

extern "C" __global__ void doubles(const double* A, const double* B, double* D) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> c;
  wmma::fill_fragment(c, 0.0);
  wmma::load_matrix_sync(a, A, 4);
  wmma::load_matrix_sync(b, B, 8);
  wmma::mma_sync(c, a, b, c);
  wmma::store_matrix_sync(D, c, 8, wmma::mem_row_major);
}
