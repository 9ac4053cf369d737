// The kernels of examples/python_kernels in C, as somebody would write them for OpenMP: bench/python_kernels.py.
#include <math.h>
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

void heat(const float* x, int64_t m, int64_t n, float* restrict y, int64_t m2, int64_t n2, float rate) {
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float around = (i > 0 ? x[(i - 1) * n + j] : 0.0f) + (i + 1 < m ? x[(i + 1) * n + j] : 0.0f);
      around += (j > 0 ? x[i * n + j - 1] : 0.0f) + (j + 1 < n ? x[i * n + j + 1] : 0.0f);
      y[i * n + j] = x[i * n + j] + rate * (around - 4.0f * x[i * n + j]);
    }
  }
  (void)m2, (void)n2;
}

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

void accelerations(const float* bodies, int64_t n, int64_t four, float* restrict result, int64_t n2, int64_t three) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int64_t j = 0; j < n; ++j) {
      float dx = bodies[4 * j] - bodies[4 * i], dy = bodies[4 * j + 1] - bodies[4 * i + 1];
      float dz = bodies[4 * j + 2] - bodies[4 * i + 2];
      float near = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
      float pull = bodies[4 * j + 3] * near * near * near;
      ax += pull * dx, ay += pull * dy, az += pull * dz;
    }
    result[3 * i] = ax, result[3 * i + 1] = ay, result[3 * i + 2] = az;
  }
  (void)four, (void)n2, (void)three;
}

void nearest_centre(const float* points, int64_t n, int64_t size, const float* centres, int64_t count, int64_t size2,
                    int32_t* restrict numbers, int64_t n2, float* restrict distances, int64_t n3) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float least = INFINITY;
    int32_t best = 0;
    for (int64_t c = 0; c < count; ++c) {
      float distance = 0.0f;
      for (int64_t k = 0; k < size; ++k) {
        float apart = points[i * size + k] - centres[c * size + k];
        distance += apart * apart;
      }
      if (distance < least) least = distance, best = (int32_t)c;
    }
    numbers[i] = best;
    distances[i] = sqrtf(least);
  }
  (void)size2, (void)n2, (void)n3;
}

void int4_product(const uint8_t* w, int64_t m, int64_t bytes, const float* scales, int64_t m2, int64_t groups,
                  const float* x, int64_t n, float* restrict y, int64_t m3) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    float total = 0.0f;
    for (int64_t g = 0; g < groups; ++g) {
      float part = 0.0f;
      for (int64_t at = 16 * g; at < 16 * (g + 1); ++at) {
        int byte = w[row * bytes + at];
        part += (float)((byte & 15) - 8) * x[2 * at] + (float)((byte >> 4) - 8) * x[2 * at + 1];
      }
      total += scales[row * groups + g] * part;
    }
    y[row] = total;
  }
  (void)m2, (void)n, (void)m3;
}

void cross_entropy(const float* x, int64_t m, int64_t n, const int32_t* labels, int64_t m2, float* restrict losses,
                   int64_t m3, float* restrict dx, int64_t m4, int64_t n4) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    const float* from = x + row * n;
    float* to = dx + row * n;
    int32_t label = labels[row];
    float top = from[0], total = 0.0f;
    for (int64_t j = 1; j < n; ++j) top = from[j] > top ? from[j] : top;
    for (int64_t j = 0; j < n; ++j) total += to[j] = expf(from[j] - top);
    for (int64_t j = 0; j < n; ++j) to[j] = label < 0 ? 0.0f : to[j] / total - (float)(j == label);
    losses[row] = label < 0 ? 0.0f : top + logf(total) - from[label];
  }
  (void)m2, (void)m3, (void)m4, (void)n4;
}
