// Handles of api.h, descriptions of functions, and the words of scalars.
#ifndef PYDISPATCH_API_VALUES_H_
#define PYDISPATCH_API_VALUES_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_api_device_s pyd_api_device_t;
typedef struct pyd_api_program_s pyd_api_program_t;
typedef struct pyd_api_call_s pyd_api_call_t;
typedef struct pyd_task_s pyd_api_event_t;  // of a call or a loop that was submitted

typedef enum pyd_api_kind_e {
  PYD_API_TENSOR = 0,  // dense elements in row-major order
  PYD_API_SCALAR = 1,  // one 64-bit word: an integer is sign-extended, a float is its bits (pyd_api_from_f32)
} pyd_api_kind_t;

// Element types: numerical type << 24 | bits. These are the common ones; docs/program.md has the rest.
#define PYD_API_I8 0x10000008u
#define PYD_API_I16 0x10000010u
#define PYD_API_I32 0x10000020u
#define PYD_API_I64 0x10000040u  // also index
#define PYD_API_BOOL 0x13000008u
#define PYD_API_F16 0x21000010u
#define PYD_API_F32 0x21000020u
#define PYD_API_F64 0x21000040u
#define PYD_API_BF16 0x22000010u

// An argument or a result of a public function.
typedef struct pyd_api_value_s {
  uint32_t kind;           // pyd_api_kind_t
  uint32_t dtype;          // element type, PYD_API_F32 and others
  uint32_t element_bytes;  // bytes of an element; 1 for types of 2 and 4 bits, of which a tensor packs several per byte
  uint32_t rank;           // 0 for a scalar
  const int64_t* dims;     // of a tensor argument: static sizes, -1 where dynamic; NULL otherwise
  const char* name;        // "" when it has none
} pyd_api_value_t;

// A public function of a program, with its arguments and results. Valid while its program is.
typedef struct pyd_api_function_s {
  const char* name;
  const char* signature;  // MLIR function type, for people
  uint32_t argument_count;
  uint32_t result_count;
  uint32_t dims_count;    // number of sizes of all tensor arguments: a parameter of call_prepare
  uint32_t scalar_count;  // scalar arguments: a parameter of call_prepare and call_set_scalars
  const pyd_api_value_t* const* arguments;
  const pyd_api_value_t* const* results;
} pyd_api_function_t;

// Conversions between floats and the 64-bit words of scalar arguments and results, which hold the bits of a float.
// Integers are sign-extended: (uint64_t)(int64_t)value.
static inline uint64_t pyd_api_from_f32(float value) {
  union {
    float value;
    uint32_t bits;
  } word = {value};
  return word.bits;
}
static inline uint64_t pyd_api_from_f64(double value) {
  union {
    double value;
    uint64_t bits;
  } word = {value};
  return word.bits;
}
static inline float pyd_api_to_f32(uint64_t word) {
  union {
    uint32_t bits;
    float value;
  } bits = {(uint32_t)word};
  return bits.value;
}
static inline double pyd_api_to_f64(uint64_t word) {
  union {
    uint64_t bits;
    double value;
  } bits = {word};
  return bits.value;
}

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_API_VALUES_H_
