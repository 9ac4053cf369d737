// Kernels over rows of a matrix. Each array is passed as its address and its sizes.
// Sizes that repeat those of an earlier array, such as n2 and same, are not read.
#include <math.h>
#include <stdint.h>

// y: softmax of each row of x.
void softmax(const float* x, int64_t m, int64_t n, float* restrict y, int64_t m2, int64_t n2) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    const float* from = x + row * n;
    float* to = y + row * n;
    float largest_score = from[0], total = 0.0f;
    for (int64_t j = 1; j < n; ++j) largest_score = from[j] > largest_score ? from[j] : largest_score;
    for (int64_t j = 0; j < n; ++j) total += to[j] = expf(from[j] - largest_score);
    for (int64_t j = 0; j < n; ++j) to[j] /= total;
  }
}

// Loss of each row and its gradient in dx; a row whose label is negative is ignored: both are 0.
void cross_entropy(const float* x, int64_t m, int64_t n, const int32_t* labels, int64_t m2, float* restrict losses,
                   int64_t m3, float* restrict dx, int64_t m4, int64_t n4) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    const float* from = x + row * n;
    float* to = dx + row * n;
    int32_t label = labels[row];
    float largest_score = from[0], total = 0.0f;
    for (int64_t j = 1; j < n; ++j) largest_score = from[j] > largest_score ? from[j] : largest_score;
    for (int64_t j = 0; j < n; ++j) total += to[j] = expf(from[j] - largest_score);
    for (int64_t j = 0; j < n; ++j) to[j] = label < 0 ? 0.0f : to[j] / total - (float)(j == label);
    losses[row] = label < 0 ? 0.0f : largest_score + logf(total) - from[label];
  }
}

// y: each row of x, normalized to mean 0 and variance 1, times the weights w plus the biases b.
void layer_norm(const float* x, int64_t m, int64_t n, const float* w, int64_t n2, const float* b, int64_t n3,
                float* restrict y, int64_t m2, int64_t n4) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    const float* from = x + row * n;
    float total = 0.0f, squares = 0.0f;
    for (int64_t j = 0; j < n; ++j) total += from[j];
    float mean = total / (float)n;
    for (int64_t j = 0; j < n; ++j) squares += (from[j] - mean) * (from[j] - mean);
    float scale = 1.0f / sqrtf(squares / (float)n + 1e-5f);
    for (int64_t j = 0; j < n; ++j) y[row * n + j] = (from[j] - mean) * scale * w[j] + b[j];
  }
}

// Gradients of layer_norm() for the gradient dy of its result: that of x in dx; those of w and b are added to dw and
// db.
void layer_norm_backward(const float* x, int64_t m, int64_t n, const float* w, int64_t n2, const float* dy, int64_t m2,
                         int64_t n3, float* restrict dx, int64_t m3, int64_t n4, float* restrict dw, int64_t n5,
                         float* restrict db, int64_t n6) {
#pragma omp parallel
  {
    float dw_part[n], db_part[n];
    for (int64_t j = 0; j < n; ++j) dw_part[j] = db_part[j] = 0.0f;
#pragma omp for
    for (int64_t row = 0; row < m; ++row) {
      const float *from = x + row * n, *gradient = dy + row * n;
      // With g = dy * w and the normalized row: dx = (g - mean(g) - normal * mean(g * normal)) * scale.
      float total = 0.0f, squares = 0.0f, g_dot_normal = 0.0f, g_sum = 0.0f;
      for (int64_t j = 0; j < n; ++j) total += from[j];
      float mean = total / (float)n;
      for (int64_t j = 0; j < n; ++j) squares += (from[j] - mean) * (from[j] - mean);
      float scale = 1.0f / sqrtf(squares / (float)n + 1e-5f);
      for (int64_t j = 0; j < n; ++j) {
        g_dot_normal += gradient[j] * w[j] * (from[j] - mean) * scale;
        g_sum += gradient[j] * w[j];
      }
      for (int64_t j = 0; j < n; ++j) {
        float normal = (from[j] - mean) * scale;
        dx[row * n + j] = (gradient[j] * w[j] - (g_sum + normal * g_dot_normal) / (float)n) * scale;
        dw_part[j] += gradient[j] * normal;
        db_part[j] += gradient[j];
      }
    }
#pragma omp critical
    for (int64_t j = 0; j < n; ++j) dw[j] += dw_part[j], db[j] += db_part[j];
  }
}

// The k largest elements of each row, in descending order, and their columns: insertion into a sorted list.
void top_k(const float* x, int64_t m, int64_t n, float* restrict values, int64_t m2, int64_t k,
           int32_t* restrict indices, int64_t m3, int64_t k2) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    float* largest = values + row * k;
    int32_t* numbers = indices + row * k;
    for (int64_t rank = 0; rank < k; ++rank) largest[rank] = -INFINITY, numbers[rank] = 0;
    for (int64_t j = 0; j < n; ++j) {
      float value = x[row * n + j];
      if (value <= largest[k - 1]) continue;
      int64_t rank = k - 1;
      for (; rank > 0 && value > largest[rank - 1]; --rank) {
        largest[rank] = largest[rank - 1], numbers[rank] = numbers[rank - 1];
      }
      largest[rank] = value, numbers[rank] = (int32_t)j;
    }
  }
}

enum { SIZE = 128 };  // elements of a row that the network sorts; shorter rows are filled with -INFINITY

// Whether element a precedes b in the result: larger ones first, then lower columns.
static int comes_before(float a, int32_t column_a, float b, int32_t column_b) {
  return a > b || (a == b && column_a < column_b);
}

// Rows of at most 128 elements in descending order, and their columns, by a bitonic network: each step compares two
// contiguous blocks of `distance` elements, element by element.
void bitonic_sort(const float* x, int64_t m, int64_t n, float* restrict values, int64_t m2, int64_t n2,
                  int32_t* restrict indices, int64_t m3, int64_t n3) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    float keys[SIZE];
    int32_t numbers[SIZE];
    for (int32_t j = 0; j < SIZE; ++j) keys[j] = j < n ? x[row * n + j] : -INFINITY, numbers[j] = j;
    for (int run = 2; run <= SIZE; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        for (int begin = 0; begin < SIZE; begin += 2 * distance) {
          int is_descending = (begin & run) == 0;  // runs are sorted down and up in turns, pairs of which are bitonic
          float *low = keys + begin, *high = low + distance;
          int32_t *low_number = numbers + begin, *high_number = low_number + distance;
#pragma omp simd
          for (int j = 0; j < distance; ++j) {
            float a = low[j], b = high[j];
            int32_t p = low_number[j], q = high_number[j];
            int stays = comes_before(a, p, b, q) == is_descending;
            low[j] = stays ? a : b, high[j] = stays ? b : a;
            low_number[j] = stays ? p : q, high_number[j] = stays ? q : p;
          }
        }
      }
    }
    for (int64_t j = 0; j < n; ++j) values[row * n + j] = keys[j], indices[row * n + j] = numbers[j];
  }
}
