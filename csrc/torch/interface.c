// Names of the functions and element types of PyTorch's stable C interface.
#include "torch/interface.h"

const char* const pyd_torch_symbols[] = {
#define X(result, name, parameters) "aoti_torch_" #name,
    PYD_TORCH_FUNCTIONS(X)
#undef X
#define X(name, ...) "aoti_torch_dtype_" #name,
        PYD_TORCH_DTYPES(X)
#undef X
};
_Static_assert(sizeof(pyd_torch_symbols) / sizeof(*pyd_torch_symbols) == PYD_TORCH_SYMBOL_COUNT, "a name per member");

void pyd_torch_interface_retain(void* self) { (void)self; }  // it lives as long as the process

// Returns PyTorch's type for an element type of the program format; PYD_TORCH_DTYPE_COUNT when it has none.
pyd_torch_dtype_t pyd_torch_dtype(uint32_t dtype) {
  // By type of PyTorch: the types of the program format that it stands for, then zeros. For int8 these are the signless
  // and the signed integer of 8 bits.
  enum { kMaxTypes = 4 };
  static const uint32_t kTypes[PYD_TORCH_DTYPE_COUNT][kMaxTypes] = {
#define X(name, ...) {__VA_ARGS__},
      PYD_TORCH_DTYPES(X)
#undef X
  };
  for (uint32_t type = 0; type < PYD_TORCH_DTYPE_COUNT; ++type) {
    for (uint32_t i = 0; i < kMaxTypes && kTypes[type][i]; ++i) {
      if (kTypes[type][i] == dtype) return (pyd_torch_dtype_t)type;
    }
  }
  return PYD_TORCH_DTYPE_COUNT;
}

// Returns PyTorch's name of |dtype|, for messages; "another type" for PYD_TORCH_DTYPE_COUNT.
const char* pyd_torch_dtype_name(pyd_torch_dtype_t dtype) {
  static const char* const kNames[] = {
#define X(name, ...) #name,
      PYD_TORCH_DTYPES(X)
#undef X
          "another type"};
  return kNames[dtype];
}

// Returns the type that a schema of PyTorch has for a number of a program; NULL if there is none.
const char* pyd_torch_scalar_type(uint32_t dtype) {
  pyd_torch_dtype_t found = pyd_torch_dtype(dtype);
  if (found == PYD_TORCH_bool) return "bool";
  if (found <= PYD_TORCH_uint64) return "SymInt";  // bool comes first, then all integers
  return found == PYD_TORCH_float32 || found == PYD_TORCH_float64 ? "float" : NULL;
}
