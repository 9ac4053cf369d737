// Prefix sums and sums of segments. Each array is passed as its address and its sizes.
// Sizes that are fixed or repeat those of an earlier array, such as four, n2 and same, are not read.
#include <stdint.h>

// Inclusive prefix sums of each block of 128 elements.
void prefix_sums(const float* x, int64_t n, float* restrict y, int64_t same) {
#pragma omp parallel for
  for (int64_t block = 0; block < n; block += 128) {
    float total = 0.0f;
    int64_t end = block + 128 < n ? block + 128 : n;
    for (int64_t i = block; i < end; ++i) y[i] = total += x[i];
  }
}

// Inclusive prefix sums of all elements. blocks and ticket are scratch memory of our kernel, which C does not need.
void prefix_sum(const int32_t* x, int64_t n, int32_t* restrict y, int64_t n2, int32_t* blocks, int64_t count,
                int32_t* ticket, int64_t one) {
  int32_t total = 0;
#pragma omp parallel for simd reduction(inscan, + : total)
  for (int64_t i = 0; i < n; ++i) {
    total += x[i];
#pragma omp scan inclusive(total)
    y[i] = total;
  }
}

// Adds to sums[s] the elements of segment s; segments are sorted, so that a run of one ends with a single addition.
void segmented_sum(const float* x, int64_t n, const int32_t* segments, int64_t n2, float* restrict sums,
                   int64_t count) {
  const int64_t chunk = 1 << 14;  // elements of one iteration, at whose ends threads may add to the same segment
#pragma omp parallel for
  for (int64_t begin = 0; begin < n; begin += chunk) {
    int64_t end = begin + chunk < n ? begin + chunk : n;
    float total = 0.0f;
    for (int64_t i = begin; i < end; ++i) {
      total += x[i];
      if (i + 1 < end && segments[i + 1] == segments[i]) continue;
#pragma omp atomic
      sums[segments[i]] += total;
      total = 0.0f;
    }
  }
}
