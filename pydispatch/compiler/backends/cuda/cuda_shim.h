// What device functions in CUDA C++ need of CUDA's headers, for a clang that targets nvptx64 and has none of them.
// Every function of a translation unit is for the device here, so that the keywords mean nothing.
#ifndef PYDISPATCH_CUDA_SHIM_H_
#define PYDISPATCH_CUDA_SHIM_H_

#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __constant__ __attribute__((address_space(4)))
#define __shared__ static __attribute__((address_space(3)))
#define __launch_bounds__(...)

typedef __SIZE_TYPE__ size_t;

// Members without storage: an access to threadIdx.x converts it to unsigned, which reads the special register.
#define PYD_REGISTERS(type, name)                                                              \
  struct type {                                                                                \
    struct X { operator unsigned() const { return __nvvm_read_ptx_sreg_##name##_x(); } } x;    \
    struct Y { operator unsigned() const { return __nvvm_read_ptx_sreg_##name##_y(); } } y;    \
    struct Z { operator unsigned() const { return __nvvm_read_ptx_sreg_##name##_z(); } } z;    \
  }
PYD_REGISTERS(pyd_thread_index, tid);
PYD_REGISTERS(pyd_block_index, ctaid);
PYD_REGISTERS(pyd_block_size, ntid);
PYD_REGISTERS(pyd_grid_size, nctaid);
#undef PYD_REGISTERS
static constexpr pyd_thread_index threadIdx{};
static constexpr pyd_block_index blockIdx{};
static constexpr pyd_block_size blockDim{};
static constexpr pyd_grid_size gridDim{};
static constexpr int warpSize = 32;

static __forceinline__ void __syncwarp(unsigned mask = 0xFFFFFFFFu) { __nvvm_bar_warp_sync(mask); }
static __forceinline__ void __threadfence() { __nvvm_membar_gl(); }
static __forceinline__ void __threadfence_block() { __nvvm_membar_cta(); }

// clamp: the lane of a segment that a shuffle does not go beyond: the first one for up, else the last one. The operand
// of shfl.sync has it in bits 0 to 4, and from bit 8 on a mask that divides the warp into segments of `width` lanes.
#define PYD_SHUFFLE(name, builtin, clamp)                                                                    \
  static __forceinline__ int name(unsigned mask, int value, int lane, int width = 32) {                      \
    return __nvvm_shfl_sync_##builtin##_i32(mask, value, lane, ((32 - width) << 8) | clamp);                 \
  }                                                                                                          \
  static __forceinline__ unsigned name(unsigned mask, unsigned value, int lane, int width = 32) {            \
    return (unsigned)name(mask, (int)value, lane, width);                                                    \
  }                                                                                                          \
  static __forceinline__ float name(unsigned mask, float value, int lane, int width = 32) {                  \
    return __builtin_bit_cast(float, name(mask, __builtin_bit_cast(int, value), lane, width));               \
  }
PYD_SHUFFLE(__shfl_sync, idx, 31)
PYD_SHUFFLE(__shfl_up_sync, up, 0)
PYD_SHUFFLE(__shfl_down_sync, down, 31)
PYD_SHUFFLE(__shfl_xor_sync, bfly, 31)
#undef PYD_SHUFFLE

#define PYD_ATOMIC(name, type, builtin) \
  static __forceinline__ type name(type* p, type v) { return builtin(p, v, __ATOMIC_RELAXED); }
PYD_ATOMIC(atomicAdd, int, __atomic_fetch_add)
PYD_ATOMIC(atomicAdd, unsigned, __atomic_fetch_add)
PYD_ATOMIC(atomicAdd, unsigned long long, __atomic_fetch_add)
PYD_ATOMIC(atomicOr, unsigned, __atomic_fetch_or)
PYD_ATOMIC(atomicAnd, unsigned, __atomic_fetch_and)
PYD_ATOMIC(atomicXor, unsigned, __atomic_fetch_xor)
PYD_ATOMIC(atomicExch, int, __atomic_exchange_n)
PYD_ATOMIC(atomicExch, unsigned, __atomic_exchange_n)
#undef PYD_ATOMIC

extern "C" {
float sqrtf(float); float expf(float); float exp2f(float); float logf(float); float log2f(float); float log10f(float);
float powf(float, float); float sinf(float); float cosf(float); float tanf(float); float tanhf(float);
float fabsf(float); float floorf(float); float ceilf(float); float truncf(float); float roundf(float);
float fmaf(float, float, float); float fminf(float, float); float fmaxf(float, float); float copysignf(float, float);
double sqrt(double); double exp(double); double log(double); double pow(double, double); double sin(double);
double cos(double); double tanh(double); double fabs(double); double floor(double); double ceil(double);
double fma(double, double, double); double fmin(double, double); double fmax(double, double);
}
static __forceinline__ int min(int a, int b) { return a < b ? a : b; }
static __forceinline__ int max(int a, int b) { return a > b ? a : b; }
static __forceinline__ unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static __forceinline__ unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

#endif  // PYDISPATCH_CUDA_SHIM_H_
