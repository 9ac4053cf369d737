// Kernels over elements. Each array is passed as its address and its sizes.
// Sizes that repeat those of an earlier array, such as n2 and same, are not read.
#include <math.h>
#include <stdint.h>

void saxpy(float a, const float* x, int64_t n, float* restrict y, int64_t same) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

void swish(const float* x, int64_t n, float* restrict y, int64_t same, float beta) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1.0f + expf(-beta * x[i]));
}

// Adds to bins[b] how many elements are b; elements outside of 0 to count - 1 are ignored. count is at most 4096.
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

// One round of Philox 4x32, a counter-based random generator: changes the four words of the counter.
static void philox_round(const uint32_t key[2], uint32_t word[4]) {
  uint64_t first = (uint64_t)word[0] * 0xD2511F53u, second = (uint64_t)word[2] * 0xCD9E8D57u;
  uint32_t a = (uint32_t)(second >> 32) ^ word[1] ^ key[0], c = (uint32_t)(first >> 32) ^ word[3] ^ key[1];
  word[0] = a, word[1] = (uint32_t)second, word[2] = c, word[3] = (uint32_t)first;
}

// Four random words for each counter 0 to n - 1: ten rounds of Philox 4x32, whose key grows after each round.
void philox(uint32_t seed, uint32_t stream, uint32_t* restrict words, int64_t n, int64_t four) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) {
    uint32_t word[4] = {(uint32_t)i, 0, 0, 0}, key[2] = {seed, stream};
    for (int round = 0; round < 10; ++round) {
      philox_round(key, word);
      key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
    }
    for (int k = 0; k < 4; ++k) words[4 * i + k] = word[k];
  }
}

// Inverses of n matrices of 3x3, by Gauss-Jordan elimination with pivots in [x | identity].
void inverses(const float* x, int64_t n, int64_t rows, int64_t columns, float* restrict y, int64_t n2, int64_t rows2,
              int64_t columns2) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float a[3][6];
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column) {
        a[row][column] = x[9 * i + 3 * row + column];
        a[row][3 + column] = row == column ? 1.0f : 0.0f;
      }
    }
    for (int step = 0; step < 3; ++step) {
      for (int row = step + 1; row < 3; ++row) {  // the row with the largest element moves up
        if (fabsf(a[row][step]) <= fabsf(a[step][step])) continue;
        for (int column = 0; column < 6; ++column) {
          float other = a[row][column];
          a[row][column] = a[step][column], a[step][column] = other;
        }
      }
      float scale = 1.0f / a[step][step];
      for (int column = 0; column < 6; ++column) a[step][column] *= scale;
      for (int row = 0; row < 3; ++row) {
        if (row == step) continue;
        float factor = a[row][step];
        for (int column = 0; column < 6; ++column) a[row][column] -= factor * a[step][column];
      }
    }
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column) y[9 * i + 3 * row + column] = a[row][3 + column];
    }
  }
}

// Rotates each pair (i, i + size / 2) of a head by its token's position times 10000^(-i / (size / 2)).
void rotary_embedding(const float* x, int64_t tokens, int64_t heads, int64_t size, const int32_t* positions,
                      int64_t tokens2, float* restrict y, int64_t tokens3, int64_t heads2, int64_t size2) {
  int64_t half = size / 2;
#pragma omp parallel for
  for (int64_t token = 0; token < tokens; ++token) {
    float cosines[half], sines[half];
    for (int64_t pair = 0; pair < half; ++pair) {
      float angle = (float)positions[token] * exp2f(-13.287712f * (float)pair / (float)half);  // log2(10000)
      cosines[pair] = cosf(angle), sines[pair] = sinf(angle);
    }
    for (int64_t head = 0; head < heads; ++head) {
      const float* from = x + (token * heads + head) * size;
      float* to = y + (token * heads + head) * size;
      for (int64_t pair = 0; pair < half; ++pair) {
        to[pair] = from[pair] * cosines[pair] - from[pair + half] * sines[pair];
        to[pair + half] = from[pair + half] * cosines[pair] + from[pair] * sines[pair];
      }
    }
  }
}
