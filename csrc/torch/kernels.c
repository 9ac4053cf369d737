// One kernel function for each slot: PyTorch passes kernels no context, so the function stands for the slot.
#include "torch/interface.h"

// clang-format off: X(00) to X(ff), ten calls in a line
#define ROW(X, high)                                                                                              \
  X(high##0) X(high##1) X(high##2) X(high##3) X(high##4) X(high##5) X(high##6) X(high##7) X(high##8) X(high##9)   \
  X(high##a) X(high##b) X(high##c) X(high##d) X(high##e) X(high##f)
#define SLOTS(X)                                                                                                  \
  ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7) ROW(X, 8) ROW(X, 9) ROW(X, a)   \
  ROW(X, b) ROW(X, c) ROW(X, d) ROW(X, e) ROW(X, f)
// clang-format on

#define X(slot)                                                                                \
  static void kernel_##slot(uint64_t* stack, uint64_t argument_count, uint64_t result_count) { \
    pyd_torch_call(0x##slot, stack, argument_count, result_count);                             \
  }
SLOTS(X)
#undef X

#define X(slot) kernel_##slot,
const pyd_torch_kernel_t pyd_torch_kernels[PYD_TORCH_KERNEL_COUNT] = {SLOTS(X)};
#undef X
