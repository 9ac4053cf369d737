// The foreign function interface of XLA, version 0.3, as far as a handler on the CPU needs it. The structures are those
// of XLA's public C interface; enumerations have the size of an int. Each begins with its size in the caller's version.
#ifndef PYD_XLA_FFI_H_
#define PYD_XLA_FFI_H_

#include <stddef.h>
#include <stdint.h>

// The version of the interface that this header declares, and those values of XLA's enumerations that the handler uses.
enum {
  PYD_XLA_MAJOR = 0,
  PYD_XLA_MINOR = 3,
  PYD_XLA_EXTENSION_METADATA = 1,  // kind of an extension
  PYD_XLA_BUFFER = 1,              // kind of an argument or result
  PYD_XLA_SCALAR = 3,              // kind of an attribute
  PYD_XLA_STAGE_EXECUTE = 3,       // stage of a frame: the arguments are ready, and the handler computes the results
};

// XLA's element types (XLA_FFI_DataType) that the program format has, too, with XLA's values. NONE: no type.
typedef enum pyd_xla_dtype_e {
  PYD_XLA_NONE = 0,
  PYD_XLA_PRED = 1,
  PYD_XLA_S8 = 2,
  PYD_XLA_S16 = 3,
  PYD_XLA_S32 = 4,
  PYD_XLA_S64 = 5,
  PYD_XLA_U8 = 6,
  PYD_XLA_U16 = 7,
  PYD_XLA_U32 = 8,
  PYD_XLA_U64 = 9,
  PYD_XLA_F16 = 10,
  PYD_XLA_F32 = 11,
  PYD_XLA_F64 = 12,
  PYD_XLA_C64 = 15,
  PYD_XLA_BF16 = 16,
  PYD_XLA_C128 = 18,
  PYD_XLA_F8E5M2 = 19,
  PYD_XLA_F8E4M3FN = 20,
  PYD_XLA_F8E4M3B11FNUZ = 23,
  PYD_XLA_F8E5M2FNUZ = 24,
  PYD_XLA_F8E4M3FNUZ = 25,
  PYD_XLA_F8E4M3 = 28,
  PYD_XLA_F8E3M4 = 29,
  PYD_XLA_F8E8M0FNU = 33,
} pyd_xla_dtype_t;

// The codes of XLA_FFI_Error_Code that failures are reported with, with XLA's values.
typedef enum pyd_xla_code_e {
  PYD_XLA_CANCELLED = 1,
  PYD_XLA_INVALID_ARGUMENT = 3,
  PYD_XLA_RESOURCE_EXHAUSTED = 8,
  PYD_XLA_UNIMPLEMENTED = 12,
  PYD_XLA_INTERNAL = 13,
  PYD_XLA_UNAVAILABLE = 14,
} pyd_xla_code_t;

// The head of an extension, an optional structure in the list |extensions| of another one. |kind|: its type.
typedef struct pyd_xla_extension_s {
  size_t struct_size;
  int kind;
  struct pyd_xla_extension_s* next;  // NULL at the end of the list
} pyd_xla_extension_t;

// A version of the interface.
typedef struct pyd_xla_version_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  int major, minor;
} pyd_xla_version_t;

// Properties of the handler, which it reports to XLA.
typedef struct pyd_xla_metadata_s {
  size_t struct_size;
  pyd_xla_version_t version;  // that the handler was written for
  uint32_t traits;            // XLA_FFI_Handler_TraitsBits; 0: calls are not safe to trace into a command buffer
} pyd_xla_metadata_t;

// The extension of kind PYD_XLA_EXTENSION_METADATA: a frame that has it is no call, but a query of the metadata.
typedef struct pyd_xla_metadata_extension_s {
  pyd_xla_extension_t base;
  pyd_xla_metadata_t* metadata;  // memory of XLA, which the handler fills
} pyd_xla_metadata_extension_t;

typedef struct pyd_xla_error_s pyd_xla_error_t;  // XLA's

// Arguments of error_create.
typedef struct pyd_xla_error_args_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  const char* message;  // copied
  int code;             // pyd_xla_code_t
} pyd_xla_error_args_t;

// XLA's table of functions, up to the only one that the handler calls.
typedef struct pyd_xla_api_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  pyd_xla_version_t version;
  const void* internal;                                          // XLA's own functions, not used here
  pyd_xla_error_t* (*error_create)(pyd_xla_error_args_t* args);  // the caller owns the error until it returns it to XLA
} pyd_xla_api_t;

// An argument or result of kind PYD_XLA_BUFFER: a tensor in memory of XLA.
typedef struct pyd_xla_buffer_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  int dtype;  // pyd_xla_dtype_t
  void* data;
  int64_t rank;
  const int64_t* dims;  // |rank| sizes
} pyd_xla_buffer_t;

// The arguments, or the results, of a call: |count| of them. An item of kind PYD_XLA_BUFFER is a pyd_xla_buffer_t*.
typedef struct pyd_xla_values_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  int64_t count;
  const int* kinds;
  void* const* items;
} pyd_xla_values_t;

// A string of |length| bytes, which need not be terminated by a zero.
typedef struct pyd_xla_text_s {
  const char* data;
  size_t length;
} pyd_xla_text_t;

// The value of an attribute of kind PYD_XLA_SCALAR.
typedef struct pyd_xla_scalar_s {
  int dtype;          // pyd_xla_dtype_t
  const void* value;  // one element of that type
} pyd_xla_scalar_t;

// Attributes of a call of XLA, by name.
typedef struct pyd_xla_attributes_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  int64_t count;
  const int* kinds;
  pyd_xla_text_t* const* names;
  void* const* items;
} pyd_xla_attributes_t;

// A call of a handler by XLA, which passes it as the only argument: stage, operands, results and attributes.
typedef struct pyd_xla_frame_s {
  size_t struct_size;
  pyd_xla_extension_t* extensions;
  const pyd_xla_api_t* api;
  void* context;
  int stage;
  pyd_xla_values_t arguments, results;
  pyd_xla_attributes_t attributes;
} pyd_xla_frame_t;

// The attribute of a call that names its function: an i64, the number of a pyd_target_t (pyd_process_number_add).
#define PYD_XLA_ATTRIBUTE "function"

// The handler. NULL: success, or the answer to a question for metadata. An error is made with the function that XLA
// passes; a frame that comes without one is not of XLA, and then there is no way to report: NULL.
pyd_xla_error_t* pyd_xla_call(const pyd_xla_frame_t* frame);

// The type that XLA has for an element type of the program format (NONE: there is none).
pyd_xla_dtype_t pyd_xla_dtype(uint32_t dtype);

#endif  // PYD_XLA_FFI_H_
