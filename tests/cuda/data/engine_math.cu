// Functions of CUDA's math library, whose code is not kept here: compiled by the test where nvcc is.
extern "C" __global__ void functions(const double* x, double* y, float* z) {
  int t = threadIdx.x;
  float f = x[t];
  y[t] = sin(x[t]) + exp(x[t]) * log(fabs(x[t]) + 1) + pow(fabs(x[t]), 1.3) + sqrt(fabs(x[t])) / (1 + x[t] * x[t]);
  z[t] = sinf(f * 1e5f) + expf(f) * logf(fabsf(f) + 1) + powf(fabsf(f), 1.3f) + erff(f);
}
