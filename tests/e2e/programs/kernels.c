// Functions that the programs in this folder call, one calling convention each.
#include <stddef.h>
#include <stdint.h>

// A memref of rank 1 or 2 as the expanded convention passes it.
#define VIEW1(T, n) T *n, T *n##_aligned, size_t n##_offset, size_t n##_size, size_t n##_stride
#define VIEW2(T, n) \
  T *n, T *n##_aligned, size_t n##_offset, size_t n##_size0, size_t n##_size1, size_t n##_stride0, size_t n##_stride1

// out = lhs * rhs over 64 elements from `first`.
void mul_expanded(VIEW1(const float, lhs), VIEW1(const float, rhs), VIEW1(float, out), size_t size, size_t first) {
  size_t end = first + 64 < size ? first + 64 : size;
  for (size_t i = first; i < end; ++i) {
    out_aligned[out_offset + i * out_stride] =
        lhs_aligned[lhs_offset + i * lhs_stride] * rhs_aligned[rhs_offset + i * rhs_stride];
  }
}

// The same through plain pointers, in place.
void scale_bare(const float *lhs, float *out, size_t size, size_t first) {
  size_t end = first + 64 < size ? first + 64 : size;
  for (size_t i = first; i < end; ++i) out[i] *= lhs[i];
}

// out = transpose of lhs, through sizes and strides of rank 2.
void transpose(VIEW2(const float, lhs), VIEW2(float, out)) {
  for (size_t i = 0; i < lhs_size0; ++i) {
    for (size_t j = 0; j < lhs_size1; ++j) {
      out_aligned[out_offset + j * out_stride0 + i * out_stride1] =
          lhs_aligned[lhs_offset + i * lhs_stride0 + j * lhs_stride1];
    }
  }
}

// Everything that was passed, one slot each.
void gather_scalars(double *out, int8_t a, int16_t b, int32_t c, int64_t d, float e, double f, size_t g) {
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = (double)d;
  out[4] = e;
  out[5] = f;
  out[6] = (double)g;
}

int32_t next_i32(int32_t x) { return x + 1; }
int64_t next_i64(int64_t x) { return x + ((int64_t)1 << 40); }
float half_f32(float x) { return x / 2; }
double half_f64(double x) { return x / 2; }
size_t twice(size_t x) { return 2 * x; }
