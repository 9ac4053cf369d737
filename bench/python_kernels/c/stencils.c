// Kernels over the points of a grid.
#include <stdint.h>

// A fifth of the sum of a point and its four neighbours; those outside of the grid count as 0.
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
}

// One step of the heat equation; points outside of the grid have the value 0.
void heat(const float* x, int64_t m, int64_t n, float* restrict y, int64_t m2, int64_t n2, float rate) {
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float around = (i > 0 ? x[(i - 1) * n + j] : 0.0f) + (i + 1 < m ? x[(i + 1) * n + j] : 0.0f);
      around += (j > 0 ? x[i * n + j - 1] : 0.0f) + (j + 1 < n ? x[i * n + j + 1] : 0.0f);
      y[i * n + j] = x[i * n + j] + rate * (around - 4.0f * x[i * n + j]);
    }
  }
}

// Iterations, at most 40, until a point leaves the circle of radius 2. step: distance of points; the first is (-2, -1).
void mandelbrot(int32_t* counts, int64_t m, int64_t n, float step) {
#pragma omp parallel for schedule(dynamic, 8)
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float x = (float)j * step - 2.0f, y = (float)i * step - 1.0f, a = 0.0f, b = 0.0f;
      int32_t count = 0;
      while (count < 40 && a * a + b * b <= 4.0f) {
        float next = a * a - b * b + x;
        b = 2.0f * a * b + y;
        a = next;
        ++count;
      }
      counts[i * n + j] = count;
    }
  }
}
