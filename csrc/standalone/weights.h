// Files in the format safetensors: a header in JSON, then the elements of all tensors.
#ifndef PYD_STANDALONE_WEIGHTS_H_
#define PYD_STANDALONE_WEIGHTS_H_

#include "pydispatch/program.h"

// A tensor of a safetensors file. |first_dim|: index of its first size in pyd_weights_t.dims.
typedef struct pyd_weight_s {
  pyd_string_t name;
  uint32_t dtype;  // 0: of a type that programs do not have
  uint32_t rank;
  uint32_t first_dim;
  pyd_span_t data;  // in the file: all elements in row-major order
} pyd_weight_t;

// The tensors of a safetensors file. |dims|: the sizes of all of them.
typedef struct pyd_weights_s {
  char* text;  // a copy of the header, which all names point into
  pyd_weight_t* tensors;
  int64_t* dims;
  uint32_t count, dims_count;
} pyd_weights_t;

// Accepts any bytes, which are borrowed. CORRUPT names the byte of the header, or the tensor. On failure |out_weights|
// is zero.
pyd_status_t pyd_weights_read(pyd_span_t file, pyd_weights_t* out_weights);
void pyd_weights_free(pyd_weights_t* weights);
// NULL when there is none of that name.
const pyd_weight_t* pyd_weights_find(const pyd_weights_t* weights, pyd_string_t name);

#endif  // PYD_STANDALONE_WEIGHTS_H_
