// Causal attention with grouped queries and heads of 16 elements, and its gradients. A group is a head of keys and
// values that heads / groups heads of queries share. Each array is passed as its address and its sizes, as kernels of
// pydispatch take them; sizes that repeat those of an earlier array (n2, heads2, head_size) are not read.
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

// Writes y = softmax(q kT * SCALE) v, where a query sees the keys up to its own position. log_sums: of each query, the
// logarithm of the sum of the exponentials of its scores; with it gradients compute exp(score - log_sum), the weights.
void attention(const float* q, int64_t heads, int64_t n, int64_t head_size, const float* k, int64_t groups, int64_t n2,
               int64_t head_size2, const float* v, int64_t groups2, int64_t n3, int64_t head_size3, float* restrict y,
               int64_t heads2, int64_t n4, int64_t head_size4, float* restrict log_sums, int64_t heads3, int64_t n5) {
#pragma omp parallel for collapse(2) schedule(dynamic, 64)
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t group = head / (heads / groups);
      const float *keys = k + group * n * HEAD, *values = v + group * n * HEAD, *query = q + (head * n + i) * HEAD;
      // weights: scores at first, then their exponentials, relative to the largest so that none overflows.
      float weights[n], largest = -INFINITY, total = 0.0f, result[HEAD] = {0};
      for (int64_t j = 0; j <= i; ++j) weights[j] = dot(query, keys + j * HEAD) * SCALE;
      for (int64_t j = 0; j <= i; ++j) largest = weights[j] > largest ? weights[j] : largest;
      for (int64_t j = 0; j <= i; ++j) total += weights[j] = expf(weights[j] - largest);
      for (int64_t j = 0; j <= i; ++j) {
        for (int c = 0; c < HEAD; ++c) result[c] += weights[j] * values[j * HEAD + c];
      }
      for (int c = 0; c < HEAD; ++c) y[(head * n + i) * HEAD + c] = result[c] / total;
      log_sums[head * n + i] = largest + logf(total);
    }
  }
}

// Writes dq, the gradient of the queries, from y and its gradient dy.
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
      const float *keys = k + group * n * HEAD, *values = v + group * n * HEAD, *gradient = dy + row * HEAD;
      // The gradient of a score is weight * (dot(dy, value) - delta), as in FlashAttention.
      float weights[n], delta = dot(gradient, y + row * HEAD), total[HEAD] = {0};
      for (int64_t j = 0; j <= i; ++j) weights[j] = dot(q + row * HEAD, keys + j * HEAD) * SCALE - log_sums[row];
      for (int64_t j = 0; j <= i; ++j) weights[j] = expf(weights[j]);
      for (int64_t j = 0; j <= i; ++j) {
        float score_gradient = weights[j] * (dot(gradient, values + j * HEAD) - delta) * SCALE;
        for (int c = 0; c < HEAD; ++c) total[c] += score_gradient * keys[j * HEAD + c];
      }
      for (int c = 0; c < HEAD; ++c) dq[row * HEAD + c] = total[c];
    }
  }
}

// Writes dk and dv, the gradients of keys and values: sums over the queries at and after a key's position in all heads
// of its group. The gradient of a score is weight * (dot(dy, value) - delta), as in FlashAttention.
void attention_of_keys(const float* q, int64_t heads, int64_t n, int64_t head_size, const float* k, int64_t groups,
                       int64_t n2, int64_t head_size2, const float* v, int64_t groups2, int64_t n3, int64_t head_size3,
                       const float* y, int64_t heads2, int64_t n4, int64_t head_size4, const float* dy, int64_t heads3,
                       int64_t n5, int64_t head_size5, const float* log_sums, int64_t heads4, int64_t n6,
                       float* restrict dk, int64_t groups3, int64_t n7, int64_t head_size6, float* restrict dv,
                       int64_t groups4, int64_t n8, int64_t head_size7) {
  float* delta = malloc(sizeof(float) * (size_t)(heads * n));  // of each query, dot(dy, y)
  int64_t share = heads / groups;                              // heads of queries for each head of keys and values
#pragma omp parallel
  {
#pragma omp for
    for (int64_t row = 0; row < heads * n; ++row) delta[row] = dot(dy + row * HEAD, y + row * HEAD);
#pragma omp for collapse(2) schedule(dynamic, 64)
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t j = 0; j < n; ++j) {
        const float *key = k + (group * n + j) * HEAD, *value = v + (group * n + j) * HEAD;
        float weights[n], keys[HEAD] = {0}, values[HEAD] = {0};
        for (int64_t head = group * share; head < (group + 1) * share; ++head) {
          const float *queries = q + head * n * HEAD, *gradient = dy + head * n * HEAD;
          for (int64_t i = j; i < n; ++i) weights[i] = dot(queries + i * HEAD, key) * SCALE - log_sums[head * n + i];
          for (int64_t i = j; i < n; ++i) weights[i] = expf(weights[i]);
          for (int64_t i = j; i < n; ++i) {
            float score_gradient = weights[i] * (dot(gradient + i * HEAD, value) - delta[head * n + i]) * SCALE;
            for (int c = 0; c < HEAD; ++c) {
              values[c] += weights[i] * gradient[i * HEAD + c];
              keys[c] += score_gradient * queries[i * HEAD + c];
            }
          }
        }
        for (int c = 0; c < HEAD; ++c)
          dk[(group * n + j) * HEAD + c] = keys[c], dv[(group * n + j) * HEAD + c] = values[c];
      }
    }
  }
  free(delta);
}
