// Kernels over points in space. Each array is passed as its address and its sizes.
// Sizes that are fixed or repeat those of an earlier array, such as four, n2 and same, are not read.
#include <math.h>
#include <stdint.h>

// bodies: (x, y, z, mass) each; result: the sum of all bodies' pull, with G = 1. The 1e-2 keeps a distance of 0 finite.
void accelerations(const float* bodies, int64_t n, int64_t four, float* restrict result, int64_t n2, int64_t three) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int64_t j = 0; j < n; ++j) {
      float dx = bodies[4 * j] - bodies[4 * i], dy = bodies[4 * j + 1] - bodies[4 * i + 1];
      float dz = bodies[4 * j + 2] - bodies[4 * i + 2];
      float inverse_distance = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
      float pull = bodies[4 * j + 3] * inverse_distance * inverse_distance * inverse_distance;
      ax += pull * dx, ay += pull * dy, az += pull * dz;
    }
    result[3 * i] = ax, result[3 * i + 1] = ay, result[3 * i + 2] = az;
  }
}

// numbers: of each point, the index of its nearest centre, the lowest of equally near ones. distances: to that centre.
// Points and centres have |size| coordinates each.
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
}
