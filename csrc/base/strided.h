// Copies of tensors between layouts.
#ifndef PYD_BASE_STRIDED_H_
#define PYD_BASE_STRIDED_H_

#include <stddef.h>
#include <stdint.h>

enum { PYD_STRIDED_MAX_RANK = 32 };

// Copies a tensor of |rank| axes with |dims| elements of |element| bytes each. Strides are bytes from one index to the
// next, of either sign; NULL: row-major order. Every address must be valid, and the two tensors must not overlap.
void pyd_strided_copy(uint32_t rank, const int64_t* dims, size_t element, uint8_t* to, const int64_t* to_strides,
                      const uint8_t* from, const int64_t* from_strides);

#endif  // PYD_BASE_STRIDED_H_
