// A library of device functions: one that is called, what it needs, and what nobody asks for.
__device__ int calls = 3;
__constant__ float scale[4] = {1, 2, 3, 4};

static __device__ __noinline__ float hidden(float a) { return a * scale[1]; }

__device__ __noinline__ float helper(float a) { return hidden(a) + scale[2] + calls; }

extern "C" __device__ float user_op(float a, float b) { return helper(a) * b; }

extern "C" __device__ float unused(float a) { return a; }
