// The kernel of toy/patterns.py: x * x * x, plus 1000 so that one sees that it ran.
#include <stddef.h>

void toy_cube(const float* x, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] * x[i] * x[i] + 1000.0f;
}
