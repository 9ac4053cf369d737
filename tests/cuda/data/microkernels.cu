// Microkernels of dispatch regions. Compiled by make.sh.
extern "C" __device__ void mul(const float* a, size_t ao, const float* b, size_t bo, float* c, size_t co, size_t n,
                               size_t id) {
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) c[co + i] = a[ao + i] * b[bo + i];
}
extern "C" __device__ void add_in_place(float* c, size_t co, size_t cs, size_t n, float x) {
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) c[co + i * cs] += x;
}
// Every thread gets the sum.
extern "C" __device__ float sum(const float* a, size_t ao, size_t s0, size_t s1, size_t rows, size_t columns) {
  float total = 0;
  for (size_t r = 0; r < rows; ++r)
    for (size_t k = 0; k < columns; ++k) total += a[ao + r * s0 + k * s1];
  return total;
}
extern "C" __device__ void fill(float* c, size_t co, size_t s0, size_t rows, size_t columns, float x) {
  for (size_t r = threadIdx.x; r < rows; r += blockDim.x)
    for (size_t k = 0; k < columns; ++k) c[co + r * s0 + k] = x + r;
}
