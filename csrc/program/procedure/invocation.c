// Access to the slots of a running call, and to the results and observations of one that has ended.
#include "program/procedure/invocation.h"

#include <stdlib.h>

// Frees the results and observations of a run of a procedure.
void pyd_invocation_free(pyd_invocation_t* invocation) {
  if (!invocation) return;
  // Without |p| the call has failed before it had results.
  for (uint32_t i = 0; invocation->p && i < invocation->p->info.result_count; ++i)
    pyd_cell_clear(&invocation->results[i]);
  for (uint32_t i = 0; i < invocation->observation_count; ++i) {
    pyd_observation_t* observation = &invocation->observations[i];
    for (uint32_t k = 0; k < observation->count; ++k) pyd_cell_clear(&observation->cells[k]);
  }
  free(invocation->observations);
  free(invocation);
}

// Describes the value in |cell| to a caller, without passing ownership. A cell without a tensor holds a scalar.
static void describe_cell(const pyd_cell_t* cell, uint32_t dtype, pyd_value_t* out) {
  const pyd_tensor_t* tensor = cell->tensor;
  *out = (pyd_value_t){.kind = tensor ? PYD_KIND_TENSOR : PYD_KIND_SCALAR, .dtype = dtype, .word = cell->word};
  if (!tensor) return;
  out->rank = tensor->rank;
  out->dims = tensor->dims;
  out->data = tensor->data;
  out->bytes = tensor->bytes;
}

// Describes result |index| of a call that has ended. The invocation owns the sizes and the data to which |*out_value|
// points. Returns false, without a value, if the procedure has no such result.
bool pyd_invocation_result(const pyd_invocation_t* invocation, uint32_t index, pyd_value_t* out_value) {
  if (index >= invocation->p->info.result_count) return false;
  describe_cell(&invocation->results[index], invocation->p->info.results[index].dtype, out_value);
  return true;
}

// Passes the memory block of tensor result |index| to the caller, who releases it. If the result is a view of another
// tensor, its base, the block is that of the base. Clears the pointer in the tensor, so that freeing the invocation
// does not release the block. Returns NULL for a scalar, for a result that does not exist, and if the block was taken
// before.
void* pyd_invocation_take(pyd_invocation_t* invocation, uint32_t index) {
  if (index >= invocation->p->info.result_count) return NULL;
  pyd_tensor_t* tensor = invocation->results[index].tensor;
  if (!tensor) return NULL;
  if (tensor->base) tensor = tensor->base;
  void* block = tensor->block;
  tensor->block = NULL;
  return block;
}

uint32_t pyd_invocation_observation_count(const pyd_invocation_t* invocation) { return invocation->observation_count; }

bool pyd_invocation_observation(const pyd_invocation_t* invocation, uint32_t index, uint32_t* out_check,
                                uint32_t* out_count) {
  if (index >= invocation->observation_count) return false;
  *out_check = invocation->observations[index].check;
  *out_count = invocation->observations[index].count;
  return true;
}

bool pyd_invocation_observed(const pyd_invocation_t* invocation, uint32_t index, uint32_t value,
                             pyd_value_t* out_value) {
  if (index >= invocation->observation_count || value >= invocation->observations[index].count) return false;
  const pyd_observation_t* observation = &invocation->observations[index];
  describe_cell(&observation->cells[value], observation->types[value].dtype, out_value);
  return true;
}

// Returns the cell of |slot| for reading. INVALID_ARGUMENT if the slot is empty.
pyd_status_t pyd_frame_read(const pyd_frame_t* frame, uint32_t slot, pyd_cell_t** out_cell) {
  *out_cell = &frame->slots[slot];
  if ((*out_cell)->is_set) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "slot %u is read but holds nothing", slot);
}
