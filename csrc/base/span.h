// Checked access to the bytes of a span, for bytes that are not trusted, such as those of a file.
#ifndef PYD_BASE_SPAN_H_
#define PYD_BASE_SPAN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pydispatch/span.h"

// Returns the address of the |length| bytes at |offset| of |span|, or NULL when any of them is outside. The checks
// avoid offset + length, which could wrap around.
static inline const void* pyd_span_get(pyd_span_t span, uint64_t offset, uint64_t length) {
  return length <= span.size && offset <= span.size - length ? span.data + offset : NULL;
}

// Little-endian loads that need no alignment. The bytes must have been checked with pyd_span_get.
static inline uint16_t pyd_load_u16(const void* bytes) {
  const uint8_t* b = bytes;
  return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t pyd_load_u32(const void* bytes) {
  const uint8_t* b = bytes;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t pyd_load_u64(const void* bytes) {
  const uint8_t* b = bytes;
  return (uint64_t)pyd_load_u32(b) | (uint64_t)pyd_load_u32(b + 4) << 32;
}

#endif  // PYD_BASE_SPAN_H_
