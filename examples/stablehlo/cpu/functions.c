// Functions of generated kernels, linked when the program is compiled. Plain freestanding C.
// A pointer and an offset in elements stand for a buffer.
#include <stddef.h>

// hard_swish(x) = x * min(max(x + 3, 0), 6) / 6, for the 64 elements from |first| on.
void hard_swish_workgroup(const float* x, size_t x_offset, float* out, size_t out_offset, size_t size, size_t first) {
  size_t end = size - first < 64 ? size : first + 64;
  for (size_t i = first; i < end; ++i) {
    float value = x[x_offset + i], gate = value + 3.0f;
    gate = gate < 0.0f ? 0.0f : gate > 6.0f ? 6.0f : gate;
    out[out_offset + i] = value * gate / 6.0f;
  }
}

// One row of a matrix product: a is ?x|depth|, b is |depth|x|columns|. spec.mlir replaces products by it.
void dot_row(const float* a, size_t a_offset, const float* b, size_t b_offset, float* out, size_t out_offset,
             size_t depth, size_t columns, size_t row) {
  for (size_t column = 0; column < columns; ++column) {
    float sum = 0.0f;
    for (size_t k = 0; k < depth; ++k) sum += a[a_offset + row * depth + k] * b[b_offset + k * columns + column];
    out[out_offset + row * columns + column] = sum;
  }
}
