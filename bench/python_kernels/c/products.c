// Products of matrices in row-major order. Each array is passed as its address and its sizes.
// Sizes that repeat those of an earlier array, such as n2 and same, are not read.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
}

// y = w times x. A byte of w has two weights of 4 bits, offset by 8, the even column in its low half; each group of 32
// columns has a scale.
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
}

// y = a times b, one of several products; the threads of the caller's parallel region share the rows of y.
static void add_product(const float* a, int64_t m, int64_t k, const float* b, int64_t n, float* restrict y) {
#pragma omp for
  for (int64_t i = 0; i < m; ++i) {
    float* row = y + i * n;
    memset(row, 0, sizeof(float) * (size_t)n);
    for (int64_t p = 0; p < k; ++p) {
      float left = a[i * k + p];
      for (int64_t j = 0; j < n; ++j) row[j] += left * b[p * n + j];
    }
  }
}

// Three independent products, of sizes of their own, in one parallel region.
void grouped_product(const float* a, int64_t m, int64_t k, const float* a2, int64_t m2, int64_t k2, const float* a3,
                     int64_t m3, int64_t k3, const float* b, int64_t bk, int64_t n, const float* b2, int64_t bk2,
                     int64_t n2, const float* b3, int64_t bk3, int64_t n3, float* y, int64_t ym, int64_t yn, float* y2,
                     int64_t ym2, int64_t yn2, float* y3, int64_t ym3, int64_t yn3) {
#pragma omp parallel
  {
    add_product(a, m, k, b, n, y);
    add_product(a2, m2, k2, b2, n2, y2);
    add_product(a3, m3, k3, b3, n3, y3);
  }
}

// y = leaky ReLU of (a times b + bias), with a slope of 0.01 below 0.
void product_with_epilogue(const float* a, int64_t m, int64_t k, const float* b, int64_t k2, int64_t n,
                           const float* bias, int64_t n2, float* restrict y, int64_t m2, int64_t n3) {
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    float* row = y + i * n;
    memcpy(row, bias, sizeof(float) * (size_t)n);
    for (int64_t p = 0; p < k; ++p) {
      float left = a[i * k + p];
      for (int64_t j = 0; j < n; ++j) row[j] += left * b[p * n + j];
    }
    for (int64_t j = 0; j < n; ++j) row[j] = row[j] > 0.0f ? row[j] : 0.01f * row[j];
  }
}

// y = x times w. A byte of w has the 4-bit weights, offset by 8, of two rows in a column, the even one in its low half.
// A group of 32 rows, with a scale for each column, is unpacked for 256 columns at a time: they stay in the L1 cache.
void int4_matmul(const float* x, int64_t m, int64_t k, const uint8_t* w, int64_t bytes, int64_t n, const float* scales,
                 int64_t groups, int64_t n2, float* restrict y, int64_t m2, int64_t n3) {
#pragma omp parallel for
  for (int64_t begin = 0; begin < n; begin += 256) {
    int64_t width = begin + 256 < n ? 256 : n - begin;
    float weights[32][256];
    for (int64_t i = 0; i < m; ++i) memset(y + i * n + begin, 0, sizeof(float) * (size_t)width);
    for (int64_t group = 0; group < groups; ++group) {
      const float* scale = scales + group * n + begin;
      for (int64_t pair = 0; pair < 16; ++pair) {
        const uint8_t* packed = w + (16 * group + pair) * n + begin;
        for (int64_t j = 0; j < width; ++j) {
          weights[2 * pair][j] = (float)((packed[j] & 15) - 8) * scale[j];
          weights[2 * pair + 1][j] = (float)((packed[j] >> 4) - 8) * scale[j];
        }
      }
      for (int64_t i = 0; i < m; ++i) {
        float* row = y + i * n + begin;
        for (int64_t p = 0; p < 32; ++p) {
          float left = x[i * k + 32 * group + p];
          for (int64_t j = 0; j < width; ++j) row[j] += left * weights[p][j];
        }
      }
    }
  }
}

// The value of an 8-bit float (e4m3): a sign, 4 bits of exponent with a bias of 7, and 3 bits of mantissa.
static float of_e4m3(uint8_t bits) {
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  // (1 + mantissa / 8) * 2^(exponent - 7) = (8 + mantissa) * 2^(exponent - 10); subnormal numbers, of exponent 0, have
  // no leading one and the exponent of 1: mantissa * 2^-9.
  float size = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(mantissa + 8), exponent - 10);
  return bits & 128 ? -size : size;
}

// y = a times the transpose of b, with a scale for each 32 columns of a row. Of b, all is converted to floats first,
// and transposed, so that the inner loop is contiguous.
void scaled_product(const uint8_t* a, int64_t m, int64_t k, const float* a_scales, int64_t m2, int64_t groups,
                    const uint8_t* b, int64_t n, int64_t k2, const float* b_scales, int64_t n2, int64_t groups2,
                    float* restrict y, int64_t m3, int64_t n3) {
  float values[256], *right = malloc(sizeof(float) * (size_t)(n * k));
  for (int bits = 0; bits < 256; ++bits) values[bits] = of_e4m3((uint8_t)bits);
#pragma omp parallel
  {
#pragma omp for
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < n; ++j) right[p * n + j] = values[b[j * k + p]] * b_scales[j * groups + p / 32];
    }
#pragma omp for
    for (int64_t i = 0; i < m; ++i) {
      float* row = y + i * n;
      memset(row, 0, sizeof(float) * (size_t)n);
      for (int64_t p = 0; p < k; ++p) {
        float left = values[a[i * k + p]] * a_scales[i * groups + p / 32];
        for (int64_t j = 0; j < n; ++j) row[j] += left * right[p * n + j];
      }
    }
  }
  free(right);
}
