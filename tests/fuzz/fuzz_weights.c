// Any bytes as a safetensors file: what is accepted lies within them, and has as many bytes as its sizes say.
// links: base platform elf fatelf artifact imports executable memory plugin sched process program api standalone
#include <stdlib.h>

#include "standalone/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pyd_weights_t weights;
  pyd_status_t status = pyd_weights_read((pyd_span_t){data, size}, &weights);
  if (!pyd_ok(status) && (weights.text || weights.tensors || weights.dims || !pyd_status_text(status)[0])) abort();
  for (uint32_t i = 0; i < weights.count; ++i) {
    const pyd_weight_t* tensor = &weights.tensors[i];
    uint64_t bytes;
    if (tensor->data.data < data || tensor->data.size > size - (size_t)(tensor->data.data - data)) abort();
    if (tensor->first_dim + tensor->rank > weights.dims_count || !pyd_weights_find(&weights, tensor->name)) abort();
    if (!tensor->dtype) continue;
    if (!pyd_tensor_bytes(tensor->dtype, tensor->rank, weights.dims + tensor->first_dim, &bytes) || bytes != tensor->data.size) abort();
  }
  pyd_status_free(status);
  pyd_weights_free(&weights);
  return 0;
}
