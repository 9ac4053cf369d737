// A kernel that calls a function of a library, and has a variable whose name the library uses for another.
extern "C" __device__ float user_op(float, float);
__device__ int calls = 9;

extern "C" __global__ void apply(const float *in, float *out, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = user_op(in[threadIdx.x], 2.0f) + calls;
}
