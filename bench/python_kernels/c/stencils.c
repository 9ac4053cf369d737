// Kernels over the points of a grid. Each array is passed as its address and its sizes.
// Sizes that are fixed or repeat those of an earlier array, such as four, n2 and same, are not read.
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

// One step of the heat equation: y = x + rate * (sum of the four neighbours - 4 x), with 0 outside of the grid.
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

// counts[i, j]: iterations of z = z^2 + c, at most 40, until z = a + ib leaves the circle of radius 2. c = x + iy is
// the point of the grid, which begins at (-2, -1). step: distance of neighbouring points.
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
