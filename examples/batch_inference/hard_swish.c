// x * min(max(x + 3, 0), 6) / 6 over rows of 64 elements.
#include <stddef.h>

void hard_swish(const float* x, float* out, size_t rows) {
  for (size_t i = 0; i < 64 * rows; ++i) {
    float gate = x[i] + 3.0f;
    gate = gate < 0.0f ? 0.0f : gate > 6.0f ? 6.0f : gate;
    out[i] = x[i] * gate / 6.0f;
  }
}
