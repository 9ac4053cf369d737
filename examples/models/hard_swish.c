// x * min(max(x + 3, 0), 6) / 6, times a scale, over `count` elements.
#include <stddef.h>

void hard_swish(const float *x, float scale, float *out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float gate = x[i] + 3.0f;
    gate = gate < 0.0f ? 0.0f : gate > 6.0f ? 6.0f : gate;
    out[i] = x[i] * gate * (scale / 6.0f);
  }
}
