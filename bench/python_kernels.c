// The kernels of examples/python_kernels in C, as somebody would write them for OpenMP: bench/python_kernels.py.
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

void saxpy(float a, const float* x, int64_t n, float* restrict y, int64_t same) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
  (void)same;
}

void swish(const float* x, int64_t n, float* restrict y, int64_t same, float beta) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1.0f + expf(-beta * x[i]));
  (void)same;
}

void softmax(const float* x, int64_t m, int64_t n, float* restrict y, int64_t m2, int64_t n2) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    const float* from = x + row * n;
    float* to = y + row * n;
    float top = from[0], total = 0.0f;
    for (int64_t j = 1; j < n; ++j) top = from[j] > top ? from[j] : top;
    for (int64_t j = 0; j < n; ++j) total += to[j] = expf(from[j] - top);
    for (int64_t j = 0; j < n; ++j) to[j] /= total;
  }
  (void)m2, (void)n2;
}

void matmul(const float* a, int64_t m, int64_t k, const float* b, int64_t k2, int64_t n, float* restrict c, int64_t m2,
            int64_t n2) {
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    float* row = c + i * n;
    memset(row, 0, sizeof(float) * (size_t)n);
    for (int64_t p = 0; p < k; ++p) {
      float left = a[i * k + p];
      for (int64_t j = 0; j < n; ++j) row[j] += left * b[p * n + j];
    }
  }
  (void)k2, (void)m2, (void)n2;
}

void histogram(const int32_t* x, int64_t n, int32_t* bins, int64_t count) {
#pragma omp parallel
  {
    int32_t mine[4096] = {0};
#pragma omp for
    for (int64_t i = 0; i < n; ++i) {
      if (x[i] >= 0 && x[i] < count) ++mine[x[i]];
    }
    for (int64_t i = 0; i < count; ++i) {
#pragma omp atomic
      bins[i] += mine[i];
    }
  }
}

void blur(const float* x, int64_t m, int64_t n, float* restrict y, int64_t m2, int64_t n2) {
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    const float* here = x + i * n;
    for (int64_t j = 0; j < n; ++j) {
      float total = here[j];
      if (i > 0) total += here[j - n];
      if (i + 1 < m) total += here[j + n];
      if (j > 0) total += here[j - 1];
      if (j + 1 < n) total += here[j + 1];
      y[i * n + j] = total / 5.0f;
    }
  }
  (void)m2, (void)n2;
}

void prefix_sums(const float* x, int64_t n, float* restrict y, int64_t same) {
#pragma omp parallel for
  for (int64_t block = 0; block < n; block += 128) {
    float total = 0.0f;
    int64_t end = block + 128 < n ? block + 128 : n;
    for (int64_t i = block; i < end; ++i) y[i] = total += x[i];
  }
  (void)same;
}
