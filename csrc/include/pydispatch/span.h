// A borrowed range of bytes.
#ifndef PYDISPATCH_SPAN_H_
#define PYDISPATCH_SPAN_H_

#include <stddef.h>
#include <stdint.h>

// Bytes that belong to someone else.
typedef struct pyd_span_s {
  const uint8_t* data;
  size_t size;
} pyd_span_t;

#endif  // PYDISPATCH_SPAN_H_
