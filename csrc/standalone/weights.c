// Reader of safetensors files: a header in JSON, then the elements of all tensors.
#include "standalone/weights.h"

#include <stdlib.h>
#include <string.h>

#include "artifact/json.h"
#include "base/span.h"

// The state of reading a header.
typedef struct reader_s {
  pyd_json_t json;
  pyd_weights_t* weights;  // the result so far
  pyd_span_t elements;     // the file after its header: data_offsets count from its begin
} reader_t;

// Returns the element type for its name in safetensors: numerical type << 24 | bits, as in docs/program.md. 0: programs
// have no such type.
static uint32_t dtype_of(pyd_string_t name) {
  static const struct {
    const char* name;
    uint32_t dtype;
  } kTypes[] = {
      {"F64", 0x21000040},     {"F32", 0x21000020}, {"F16", 0x21000010}, {"BF16", 0x22000010}, {"F8_E5M2", 0x24000008},
      {"F8_E4M3", 0x25000008}, {"I64", 0x10000040}, {"I32", 0x10000020}, {"I16", 0x10000010},  {"I8", 0x10000008},
      {"U64", 0x12000040},     {"U32", 0x12000020}, {"U16", 0x12000010}, {"U8", 0x12000008},   {"BOOL", 0x13000008},
  };
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(*kTypes); ++i) {
    if (pyd_text_is(name, kTypes[i].name)) return kTypes[i].dtype;
  }
  return 0;
}

// Reads the shape of a tensor, and appends its sizes to the list of all tensors' sizes, from number |first_dim| on.
static void read_shape(reader_t* r, pyd_weight_t* tensor) {
  pyd_json_list_t list = {false};
  uint64_t size;
  tensor->first_dim = r->weights->dims_count;
  while (pyd_json_element(&r->json, &list) && pyd_json_number(&r->json, &size)) {
    int64_t* added = pyd_json_grow(&r->json, (void**)&r->weights->dims, &r->weights->dims_count, sizeof(*added));
    if (added) *added = (int64_t)size;
    if (added && ++tensor->rank > PYD_PROGRAM_MAX_RANK) pyd_json_refuse(&r->json, "a shape of up to 32 sizes");
  }
}

// Reads an array of two offsets in bytes, of a tensor's first element and of its end (exclusive), and finds the bytes
// between them.
static void read_offsets(reader_t* r, pyd_weight_t* tensor) {
  pyd_json_list_t list = {false};
  uint64_t ends[2] = {0, 0};
  uint32_t count = 0;
  while (pyd_json_element(&r->json, &list) && count < 2) pyd_json_number(&r->json, &ends[count++]);
  const void* data = count == 2 && ends[0] <= ends[1] ? pyd_span_get(r->elements, ends[0], ends[1] - ends[0]) : NULL;
  if (!data) pyd_json_refuse(&r->json, "two offsets within the file");
  tensor->data = (pyd_span_t){data, (size_t)(ends[1] - ends[0])};
}

// Returns whether a tensor has as many bytes as its type and shape say. The size is unknown, and true is returned,
// after a fault and for a type that programs do not have: dtype 0.
static bool fits_shape(const reader_t* r, const pyd_weight_t* tensor) {
  uint64_t bytes;
  if (r->json.fault || !tensor->dtype) return true;
  const int64_t* dims = tensor->rank && r->weights->dims ? r->weights->dims + tensor->first_dim : NULL;
  return pyd_tensor_bytes(tensor->dtype, tensor->rank, dims, &bytes) && bytes == tensor->data.size;
}

// Reads the description of tensor |name|: element type, shape and offsets in the file. Appends the tensor to the list.
// Its size in bytes must fit its shape.
static void read_tensor(reader_t* r, pyd_string_t name) {
  enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
  pyd_weight_t tensor = {.name = name};
  pyd_json_list_t list = {false};
  pyd_string_t key, dtype;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    uint32_t bit = pyd_text_is(key, "dtype")          ? DTYPE
                   : pyd_text_is(key, "shape")        ? SHAPE
                   : pyd_text_is(key, "data_offsets") ? OFFSETS
                                                      : 0;
    if (seen & bit) pyd_json_refuse(&r->json, "no member twice");
    seen |= bit;
    switch (bit) {
      case DTYPE: pyd_json_text(&r->json, &dtype), tensor.dtype = dtype_of(dtype); break;
      case SHAPE: read_shape(r, &tensor); break;
      case OFFSETS: read_offsets(r, &tensor); break;
      default: pyd_json_skip(&r->json);
    }
  }
  if (seen != (DTYPE | SHAPE | OFFSETS)) pyd_json_refuse(&r->json, "a tensor with dtype, shape and data_offsets");
  if (!fits_shape(r, &tensor)) pyd_json_refuse(&r->json, "as many bytes as the tensor has");
  pyd_weight_t* added = pyd_json_grow(&r->json, (void**)&r->weights->tensors, &r->weights->count, sizeof(*added));
  if (added) *added = tensor;
}

// Reads the header of a safetensors file: its tensors by name; metadata is skipped.
static void read_all(reader_t* r) {
  pyd_json_list_t list = {false};
  pyd_string_t name;
  pyd_json_skip_space(&r->json);
  while (pyd_json_member(&r->json, &list, &name)) {
    if (pyd_text_is(name, "__metadata__")) {
      pyd_json_skip(&r->json);
    } else {
      read_tensor(r, name);
    }
  }
  pyd_json_finish(&r->json);
}

// Reads the header of a safetensors file: name, type, shape and bytes of each tensor. The bytes are borrowed from
// |file|; the caller frees the rest with pyd_weights_free().
pyd_status_t pyd_weights_read(pyd_span_t file, pyd_weights_t* out_weights) {
  *out_weights = (pyd_weights_t){0};
  // A file begins with the length of its header in bytes, 64 bits in little-endian order.
  const uint8_t* head = pyd_span_get(file, 0, 8);
  const uint64_t length = head ? pyd_load_u64(head) : 0;
  const char* header = head ? pyd_span_get(file, 8, length) : NULL;
  if (!header || length >= UINT32_MAX) {
    return pyd_status_make(PYD_CODE_CORRUPT, "not a safetensors file: a header of %llu bytes in a file of %zu",
                           (unsigned long long)length, file.size);
  }
  out_weights->text = malloc((size_t)length + 1);
  if (!out_weights->text)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a header of %llu bytes", (unsigned long long)length);
  memcpy(out_weights->text, header, (size_t)length);
  reader_t r = {.json = {.text = out_weights->text, .size = (size_t)length},
                .weights = out_weights,
                .elements = {file.data + 8 + length, file.size - 8 - (size_t)length}};
  read_all(&r);
  if (!r.json.fault) return PYD_STATUS_OK;
  pyd_status_t status = r.json.is_out_of_memory
                            ? pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the tables of a safetensors file")
                            : pyd_status_make(PYD_CODE_CORRUPT, "header of a safetensors file, byte %zu: expected %s",
                                              r.json.at, r.json.fault);
  pyd_weights_free(out_weights);
  return status;
}

// Frees the table of tensors, not the bytes of the file.
void pyd_weights_free(pyd_weights_t* weights) {
  free(weights->text);
  free(weights->tensors);
  free(weights->dims);
  *weights = (pyd_weights_t){0};
}

// Returns the tensor |name|; NULL if there is none.
const pyd_weight_t* pyd_weights_find(const pyd_weights_t* weights, pyd_string_t name) {
  for (uint32_t i = 0; i < weights->count; ++i) {
    const pyd_weight_t* tensor = &weights->tensors[i];
    if (tensor->name.length == name.length && (!name.length || !memcmp(tensor->name.data, name.data, name.length)))
      return tensor;
  }
  return NULL;
}
