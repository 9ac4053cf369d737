// PyTorch's stable C interface, as far as a kernel of an operator on the CPU needs it. Nothing here is linked: the
// functions are those of the PyTorch in the process.
#ifndef PYD_TORCH_INTERFACE_H_
#define PYD_TORCH_INTERFACE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pyd_torch_tensor_s pyd_torch_tensor_t;  // PyTorch's: one reference to a tensor

// Result, name without "aoti_torch_", parameters. Those that return an int32_t have failed when it is not 0, but for
// the constant device_type_cpu. `check` throws an exception of C++ through its callers when |condition| is false.
#define PYD_TORCH_FUNCTIONS(X)                                                                              \
  X(void, check, (bool condition, const char* function, const char* file, uint32_t line, const char* text)) \
  X(int32_t, device_type_cpu, (void))                                                                       \
  X(int32_t, delete_tensor_object, (pyd_torch_tensor_t * tensor))                                           \
  X(int32_t, is_defined, (pyd_torch_tensor_t * tensor, bool* out_is_defined))                               \
  X(int32_t, get_data_ptr, (pyd_torch_tensor_t * tensor, void** out_data))                                  \
  X(int32_t, get_dim, (pyd_torch_tensor_t * tensor, int64_t * out_rank))                                    \
  X(int32_t, get_sizes, (pyd_torch_tensor_t * tensor, int64_t * *out_sizes))                                \
  X(int32_t, get_dtype, (pyd_torch_tensor_t * tensor, int32_t * out_dtype))                                 \
  X(int32_t, get_device_type, (pyd_torch_tensor_t * tensor, int32_t * out_type))                            \
  X(int32_t, is_contiguous, (pyd_torch_tensor_t * tensor, bool* out_is_contiguous))                         \
  X(int32_t, empty_strided,                                                                                 \
    (int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type,        \
     int32_t device_index, pyd_torch_tensor_t** out_tensor))                                                \
  X(int32_t, copy_, (pyd_torch_tensor_t * to, pyd_torch_tensor_t * from, int32_t non_blocking))

// The element types that both sides have: PyTorch's name, and the types of the program format that it stands for.
#define PYD_TORCH_DTYPES(X)                               \
  X(bool, 0x13000008, 0x13000001, 0x10000001, 0x12000001) \
  X(int8, 0x10000008, 0x11000008)                         \
  X(int16, 0x10000010, 0x11000010)                        \
  X(int32, 0x10000020, 0x11000020)                        \
  X(int64, 0x10000040, 0x11000040)                        \
  X(uint8, 0x12000008)                                    \
  X(uint16, 0x12000010)                                   \
  X(uint32, 0x12000020)                                   \
  X(uint64, 0x12000040)                                   \
  X(float16, 0x21000010)                                  \
  X(float32, 0x21000020)                                  \
  X(float64, 0x21000040)                                  \
  X(bfloat16, 0x22000010)                                 \
  X(complex64, 0x23000040)                                \
  X(complex128, 0x23000080)                               \
  X(float8_e5m2, 0x24000008)                              \
  X(float8_e4m3fn, 0x25000008)                            \
  X(float8_e5m2fnuz, 0x26000008)                          \
  X(float8_e4m3fnuz, 0x27000008)

// Element types of PyTorch, numbered here; |dtypes| below has PyTorch's own numbers.
typedef enum pyd_torch_dtype_e {
#define X(name, ...) PYD_TORCH_##name,
  PYD_TORCH_DTYPES(X)
#undef X
      PYD_TORCH_DTYPE_COUNT,  // also: a type that PyTorch does not have
} pyd_torch_dtype_t;

// The functions of PyTorch, found by their names in the process.
typedef struct pyd_torch_interface_s {
#define X(result, name, parameters) result(*name) parameters;
  PYD_TORCH_FUNCTIONS(X)
#undef X
  int32_t (*dtypes[PYD_TORCH_DTYPE_COUNT])(void);  // PyTorch's number of a type; NULL: this version does not have it
} pyd_torch_interface_t;

// Names of the functions of PyTorch whose addresses a pyd_torch_interface_t has, in the order of its members.
extern const char* const pyd_torch_symbols[];
enum { PYD_TORCH_SYMBOL_COUNT = sizeof(pyd_torch_interface_t) / sizeof(void (*)(void)) };

// The numbers (pyd_process_number_add) under which the process has its pyd_torch_interface_t, and the pyd_target_t of
// each kernel.
#define PYD_TORCH_INTERFACE_NUMBER UINT64_C(0x70795F746F726300)
#define PYD_TORCH_KERNEL_NUMBER(slot) (PYD_TORCH_INTERFACE_NUMBER + 1 + (slot))
void pyd_torch_interface_retain(void* self);

pyd_torch_dtype_t pyd_torch_dtype(uint32_t dtype);
const char* pyd_torch_dtype_name(pyd_torch_dtype_t dtype);
// The type that a schema has for a number of a program: "SymInt", "float", "bool"; NULL when there is none.
const char* pyd_torch_scalar_type(uint32_t dtype);

// A kernel of an operator. |stack| has the arguments, which the kernel owns, and receives the results. Errors are
// exceptions.
typedef void (*pyd_torch_kernel_t)(uint64_t* stack, uint64_t argument_count, uint64_t result_count);

// PyTorch does not tell a kernel which operator it is called for, so that each operator has one of its own.
enum { PYD_TORCH_KERNEL_COUNT = 256 };
extern const pyd_torch_kernel_t pyd_torch_kernels[PYD_TORCH_KERNEL_COUNT];

// Runs kernel |slot|, which PyTorch calls with its arguments on |stack|.
void pyd_torch_call(uint32_t slot, uint64_t* stack, uint64_t argument_count, uint64_t result_count);

#endif  // PYD_TORCH_INTERFACE_H_
