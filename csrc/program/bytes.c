// Sizes of tensors in bytes. Only this file multiplies sizes.
#include "program/internal.h"

// Returns the bytes of one element. The lower 24 bits of an element type are its size in bits.
uint32_t pyd_element_bytes(uint32_t dtype) { return ((dtype & 0xFFFFFF) + 7) / 8; }

// Computes the bytes of |elements| elements of type |dtype|, whose lower 24 bits are its size in bits. Elements of 4
// and 2 bits are packed; elements of other sizes below 8, such as f6, take a byte each. Returns false if the bytes
// exceed 63 bits.
static bool bytes_of(uint32_t dtype, uint64_t elements, uint64_t* out_bytes) {
  uint64_t bits = dtype & 0xFFFFFF;
  if (bits < 8) {
    uint64_t per_byte = bits == 4 ? 2 : bits == 2 ? 4 : 1;
    *out_bytes = elements / per_byte + (elements % per_byte != 0);  // rounded up
    return *out_bytes <= INT64_MAX;
  }
  return !__builtin_mul_overflow(elements, (bits + 7) / 8, out_bytes) && *out_bytes <= INT64_MAX;
}

// Sets |*out_bytes| to the bytes of a tensor. Returns false, with 0 bytes, if a size is negative or the bytes exceed
// 63 bits.
bool pyd_tensor_bytes(uint32_t dtype, uint32_t rank, const int64_t* dims, uint64_t* out_bytes) {
  uint64_t count = 1;
  bool fits = true, is_empty = false;
  *out_bytes = 0;
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) return false;
    is_empty |= dims[i] == 0;
  }
  if (is_empty) return true;  // 0 bytes; the product of the sizes could overflow before the loop reaches the 0
  for (uint32_t i = 0; i < rank && fits; ++i) fits = !__builtin_mul_overflow(count, (uint64_t)dims[i], &count);
  fits = fits && bytes_of(dtype, count, out_bytes);
  if (!fits) *out_bytes = 0;
  return fits;
}
