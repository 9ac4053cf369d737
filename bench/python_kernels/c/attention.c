// Causal attention with grouped queries: heads of 16, a query or a key at a time. Each array is passed as its address
// and its sizes.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { HEAD = 16 };
static const float SCALE = 0.25f;  // 1 / sqrt(HEAD)

static float dot(const float* a, const float* b) {
  float total = 0.0f;
  for (int c = 0; c < HEAD; ++c) total += a[c] * b[c];
  return total;
}

// y of each query; log_sums: the logarithm of the sum of its exponentials, with which gradients compute weights again.
void attention(const float* q, int64_t heads, int64_t n, int64_t head_size, const float* k, int64_t groups, int64_t n2,
               int64_t head_size2, const float* v, int64_t groups2, int64_t n3, int64_t head_size3, float* restrict y,
               int64_t heads2, int64_t n4, int64_t head_size4, float* restrict log_sums, int64_t heads3, int64_t n5) {
#pragma omp parallel for collapse(2) schedule(dynamic, 64)
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t group = head / (heads / groups);
      const float *keys = k + group * n * HEAD, *values = v + group * n * HEAD, *query = q + (head * n + i) * HEAD;
      float powers[n], top = -INFINITY, total = 0.0f, result[HEAD] = {0};
      for (int64_t j = 0; j <= i; ++j) powers[j] = dot(query, keys + j * HEAD) * SCALE;
      for (int64_t j = 0; j <= i; ++j) top = powers[j] > top ? powers[j] : top;
      for (int64_t j = 0; j <= i; ++j) total += powers[j] = expf(powers[j] - top);
      for (int64_t j = 0; j <= i; ++j) {
        for (int c = 0; c < HEAD; ++c) result[c] += powers[j] * values[j * HEAD + c];
      }
      for (int c = 0; c < HEAD; ++c) y[(head * n + i) * HEAD + c] = result[c] / total;
      log_sums[head * n + i] = top + logf(total);
    }
  }
}

// dq, the gradient of queries, of y and its gradient dy.
void attention_of_queries(const float* q, int64_t heads, int64_t n, int64_t head_size, const float* k, int64_t groups,
                          int64_t n2, int64_t head_size2, const float* v, int64_t groups2, int64_t n3,
                          int64_t head_size3, const float* y, int64_t heads2, int64_t n4, int64_t head_size4,
                          const float* dy, int64_t heads3, int64_t n5, int64_t head_size5, const float* log_sums,
                          int64_t heads4, int64_t n6, float* restrict dq, int64_t heads5, int64_t n7,
                          int64_t head_size6) {
#pragma omp parallel for collapse(2) schedule(dynamic, 64)
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t group = head / (heads / groups), row = head * n + i;
      const float *keys = k + group * n * HEAD, *values = v + group * n * HEAD, *outer = dy + row * HEAD;
      // along: the term that the division by the sum of exponentials adds to the gradient of each score.
      float powers[n], along = dot(outer, y + row * HEAD), total[HEAD] = {0};
      for (int64_t j = 0; j <= i; ++j) powers[j] = dot(q + row * HEAD, keys + j * HEAD) * SCALE - log_sums[row];
      for (int64_t j = 0; j <= i; ++j) powers[j] = expf(powers[j]);
      for (int64_t j = 0; j <= i; ++j) {
        float score = powers[j] * (dot(outer, values + j * HEAD) - along) * SCALE;
        for (int c = 0; c < HEAD; ++c) total[c] += score * keys[j * HEAD + c];
      }
      for (int c = 0; c < HEAD; ++c) dq[row * HEAD + c] = total[c];
    }
  }
}

// dk and dv, the gradients of keys and values: sums over the queries at and after a position in all heads of its group.
void attention_of_keys(const float* q, int64_t heads, int64_t n, int64_t head_size, const float* k, int64_t groups,
                       int64_t n2, int64_t head_size2, const float* v, int64_t groups2, int64_t n3, int64_t head_size3,
                       const float* y, int64_t heads2, int64_t n4, int64_t head_size4, const float* dy, int64_t heads3,
                       int64_t n5, int64_t head_size5, const float* log_sums, int64_t heads4, int64_t n6,
                       float* restrict dk, int64_t groups3, int64_t n7, int64_t head_size6, float* restrict dv,
                       int64_t groups4, int64_t n8, int64_t head_size7) {
  float* along = malloc(sizeof(float) * (size_t)(heads * n));  // of each query, dot(dy, y)
  int64_t share = heads / groups;                              // heads of queries for each head of keys and values
#pragma omp parallel
  {
#pragma omp for
    for (int64_t row = 0; row < heads * n; ++row) along[row] = dot(dy + row * HEAD, y + row * HEAD);
#pragma omp for collapse(2) schedule(dynamic, 64)
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t j = 0; j < n; ++j) {
        const float *key = k + (group * n + j) * HEAD, *value = v + (group * n + j) * HEAD;
        float powers[n], keys[HEAD] = {0}, values[HEAD] = {0};
        for (int64_t head = group * share; head < (group + 1) * share; ++head) {
          const float *queries = q + head * n * HEAD, *outer = dy + head * n * HEAD;
          for (int64_t i = j; i < n; ++i) powers[i] = dot(queries + i * HEAD, key) * SCALE - log_sums[head * n + i];
          for (int64_t i = j; i < n; ++i) powers[i] = expf(powers[i]);
          for (int64_t i = j; i < n; ++i) {
            float score = powers[i] * (dot(outer + i * HEAD, value) - along[head * n + i]) * SCALE;
            for (int c = 0; c < HEAD; ++c) {
              values[c] += powers[i] * outer[i * HEAD + c];
              keys[c] += score * queries[i * HEAD + c];
            }
          }
        }
        for (int c = 0; c < HEAD; ++c)
          dk[(group * n + j) * HEAD + c] = keys[c], dv[(group * n + j) * HEAD + c] = values[c];
      }
    }
  }
  free(along);
}
