// Calls of PyTorch's operators that are functions of programs: checks a call against the function, and runs it here.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "pydispatch/process.h"
#include "target/target.h"
#include "torch/interface.h"

// The state of one call of an operator.
typedef struct call_s {
  const pyd_torch_interface_t* torch;
  pyd_target_t* target;
  const pyd_api_function_t* fn;      // of |target|
  uint64_t* stack;                   // words of the arguments, later of the results: a tensor handle or a scalar each
  pyd_target_argument_t* arguments;  // by index of the argument, filled by read_arguments()
  pyd_torch_tensor_t** results;      // by index of the result; NULL until it is created
} call_t;

// Returns the tensor handle that argument |i| has on the stack.
static pyd_torch_tensor_t* tensor_at(const call_t* c, uint32_t i) {
  return (pyd_torch_tensor_t*)(uintptr_t)c->stack[i];
}

// Releases a handle of a tensor, which may be NULL.
static void drop(const call_t* c, pyd_torch_tensor_t* tensor) {
  if (tensor) c->torch->delete_tensor_object(tensor);
}

// Returns an INTERNAL status: PyTorch failed to do |what|, an infinitive phrase.
static pyd_status_t refused(const char* what) {
  return pyd_status_make(PYD_CODE_INTERNAL, "PyTorch could not %s; it has printed why", what);
}

// ---- arguments

// The name of an argument for messages, such as `@f: argument 1 'x'`.
typedef struct argument_name_s {
  char text[200];
} argument_name_t;

// Returns the name of argument |i| for messages, such as "@add: argument 1 'rhs'"; "@add: argument 1" for an argument
// without a name.
static argument_name_t name_argument(const call_t* c, uint32_t i) {
  argument_name_t label;
  const char* name = c->fn->arguments[i]->name;
  if (*name) {
    snprintf(label.text, sizeof(label.text), "@%s: argument %u '%s'", c->fn->name, i, name);
  } else {
    snprintf(label.text, sizeof(label.text), "@%s: argument %u", c->fn->name, i);
  }
  return label;
}

// Returns the name of the dtype that PyTorch numbers |number|.
static const char* dtype_name(const call_t* c, int32_t number) {
  for (uint32_t i = 0; i < PYD_TORCH_DTYPE_COUNT; ++i) {
    if (c->torch->dtypes[i] && c->torch->dtypes[i]() == number) return pyd_torch_dtype_name(i);
  }
  return pyd_torch_dtype_name(PYD_TORCH_DTYPE_COUNT);
}

// Looks up PyTorch's number for the element type of |value|. UNSUPPORTED if this PyTorch lacks the type.
static pyd_status_t torch_dtype(const call_t* c, const pyd_api_value_t* value, int32_t* out_number) {
  pyd_torch_dtype_t dtype = pyd_torch_dtype(value->dtype);
  if (dtype == PYD_TORCH_DTYPE_COUNT || !c->torch->dtypes[dtype]) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "@%s has elements of type 0x%08x, which this PyTorch does not have",
                           c->fn->name, value->dtype);
  }
  *out_number = c->torch->dtypes[dtype]();
  return PYD_STATUS_OK;
}

// Returns whether integer |value| is a value of a type of |bits| bits. A u64 is limited to 2^63 - 1, as PyTorch passes
// an int64.
static bool is_in_range(int64_t value, uint32_t bits, bool is_signed) {
  // 2^bits - 1, or 2^(bits - 1) - 1 if signed.
  int64_t max_value = (int64_t)(UINT64_MAX >> (bits == 64 ? 1 : 64 - bits + is_signed));
  int64_t min_value = is_signed ? -max_value - 1 : 0;
  return min_value <= value && value <= max_value;
}

// Converts the stack word of scalar argument |i|, a C++ double, int64 or bool, in place to the element type of the
// function's argument, and stores the address of the word in c->arguments[i]. INVALID_ARGUMENT if an integer does not
// fit.
static pyd_status_t read_scalar(const call_t* c, uint32_t i) {
  const pyd_api_value_t* value = c->fn->arguments[i];
  pyd_torch_dtype_t dtype = pyd_torch_dtype(value->dtype);
  uint64_t* word = &c->stack[i];
  c->arguments[i].data = word;
  if (!pyd_torch_scalar_type(value->dtype)) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "%s is a number of a type that PyTorch's schemas do not have",
                           name_argument(c, i).text);
  }
  if (dtype == PYD_TORCH_float32) {
    double wide = pyd_api_to_f64(*word);
    *word = pyd_api_from_f32((float)wide);
  } else if (dtype == PYD_TORCH_bool) {
    *word = (*word & 0xFF) != 0;  // only the lowest byte is defined
  } else if (dtype != PYD_TORCH_float64) {
    bool is_signed = dtype <= PYD_TORCH_int64;  // after bool, PYD_TORCH_DTYPES lists the signed integers first
    if (!is_in_range((int64_t)*word, 8 * value->element_bytes, is_signed)) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s is %lld, which %s does not hold", name_argument(c, i).text,
                             (long long)*word, pyd_torch_dtype_name(dtype));
    }
  }
  return PYD_STATUS_OK;
}

// Creates an uninitialized row-major CPU tensor, and returns it with the address of its memory. |dtype|: PyTorch's
// number. |*out_tensor| is set even if PyTorch does not tell the address; the caller releases the tensor.
static pyd_status_t make_tensor(const call_t* c, int32_t dtype, uint32_t rank, const int64_t* dims,
                                pyd_torch_tensor_t** out_tensor, void** out_data) {
  const pyd_torch_interface_t* torch = c->torch;
  int64_t strides[PYD_PROGRAM_MAX_RANK], stride = 1;  // in elements
  // Sizes of 0 count as 1, as in PyTorch's own strides.
  for (uint32_t axis = rank; axis-- > 0; stride *= dims[axis] > 1 ? dims[axis] : 1) strides[axis] = stride;
  if (torch->empty_strided(rank, dims, strides, dtype, torch->device_type_cpu(), /* device_index */ 0, out_tensor)) {
    *out_tensor = NULL;
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "@%s: PyTorch could not make a tensor; it has printed why",
                           c->fn->name);
  }
  return torch->get_data_ptr(*out_tensor, out_data) ? refused("give the memory of a tensor") : PYD_STATUS_OK;
}

// Replaces the strided tensor argument |i| on the stack by a row-major copy. PyTorch's functions return nonzero on
// failure.
static pyd_status_t make_contiguous(const call_t* c, uint32_t i, int32_t dtype) {
  const pyd_api_value_t* value = c->fn->arguments[i];
  pyd_torch_tensor_t *original = tensor_at(c, i), *copy = NULL;
  void* data = NULL;
  pyd_status_t status = make_tensor(c, dtype, value->rank, c->arguments[i].dims, &copy, &data);
  if (pyd_ok(status) && c->torch->copy_(copy, original, /* non_blocking */ 0)) status = refused("copy a tensor");
  int64_t* dims = NULL;  // sizes in memory of the copy: the sizes of the original are released with it
  if (pyd_ok(status) && c->torch->get_sizes(copy, &dims)) status = refused("tell a size");
  if (!pyd_ok(status)) {
    drop(c, copy);
    return status;
  }
  c->arguments[i] = (pyd_target_argument_t){data, dims};
  c->stack[i] = (uintptr_t)copy;
  drop(c, original);
  return PYD_STATUS_OK;
}

// What PyTorch says about a tensor. |dtype| and |device| are PyTorch's numbers.
typedef struct tensor_info_s {
  int32_t dtype, device;
  int64_t rank;
  int64_t* dims;
  void* data;
  bool is_contiguous;
} tensor_info_t;

// Queries PyTorch about tensor argument |i|. INVALID_ARGUMENT for None. PyTorch's functions return nonzero on failure.
static pyd_status_t inspect_tensor(const call_t* c, uint32_t i, tensor_info_t* out_info) {
  const pyd_torch_interface_t* torch = c->torch;
  pyd_torch_tensor_t* tensor = tensor_at(c, i);
  bool is_defined = false;
  *out_info = (tensor_info_t){0};
  if (torch->is_defined(tensor, &is_defined)) return refused("tell what a tensor is");
  if (!is_defined) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: expected a tensor, got None", name_argument(c, i).text);
  }
  if (torch->get_dtype(tensor, &out_info->dtype) || torch->get_device_type(tensor, &out_info->device) ||
      torch->get_dim(tensor, &out_info->rank) || torch->get_sizes(tensor, &out_info->dims) ||
      torch->is_contiguous(tensor, &out_info->is_contiguous) || torch->get_data_ptr(tensor, &out_info->data)) {
    return refused("tell what a tensor is");
  }
  return PYD_STATUS_OK;
}

// Checks device, dtype and rank of tensor argument |i|, and stores its memory and sizes in c->arguments[i].
static pyd_status_t read_tensor(const call_t* c, uint32_t i) {
  const pyd_api_value_t* value = c->fn->arguments[i];
  int32_t expected = 0;  // PyTorch's number of the element type of the function's argument
  tensor_info_t info;
  pyd_status_t status = torch_dtype(c, value, &expected);
  if (pyd_ok(status)) status = inspect_tensor(c, i, &info);
  if (!pyd_ok(status)) return status;
  if (info.device != c->torch->device_type_cpu()) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s is not on the CPU; give it as x.cpu()",
                           name_argument(c, i).text);
  }
  if (info.dtype != expected) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: expected elements of type %s, got %s",
                           name_argument(c, i).text, dtype_name(c, expected), dtype_name(c, info.dtype));
  }
  if (info.rank != (int64_t)value->rank) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: expected %u axes, got %lld", name_argument(c, i).text,
                           value->rank, (long long)info.rank);
  }
  c->arguments[i] = (pyd_target_argument_t){info.data, info.dims};
  return info.is_contiguous ? PYD_STATUS_OK : make_contiguous(c, i, info.dtype);
}

// Checks all arguments on the stack, and fills c->arguments.
static pyd_status_t read_arguments(const call_t* c) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < c->fn->argument_count && pyd_ok(status); ++i) {
    status = c->fn->arguments[i]->kind == PYD_API_SCALAR ? read_scalar(c, i) : read_tensor(c, i);
  }
  return status;
}

// ---- results

// Creates the tensor of result |i| with the dims that |call| reports: before the call of a function runs, but after
// that of a procedure. A scalar result becomes a tensor of rank 0.
static pyd_status_t make_result(const call_t* c, const pyd_api_call_t* call, uint32_t i, void** out_data,
                                uint64_t* out_bytes) {
  const pyd_api_value_t* value = c->fn->results[i];
  const int64_t* dims = pyd_api_call_result_dims(call, i);  // NULL for a number
  uint32_t rank = dims ? value->rank : 0;
  int32_t dtype = 0;
  pyd_status_t status = torch_dtype(c, value, &dtype);
  if (pyd_ok(status)) status = make_tensor(c, dtype, rank, dims, &c->results[i], out_data);
  if (pyd_ok(status) && !pyd_tensor_bytes(value->dtype, rank, dims, out_bytes)) status = refused("hold a result");
  return status;
}

// Creates all tensor results and binds their memory to |call|, so that the call writes into PyTorch's tensors.
static pyd_status_t bind_results(const call_t* c, pyd_api_call_t* call) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < c->fn->result_count && pyd_ok(status); ++i) {
    void* data = NULL;
    uint64_t bytes = 0;
    if (c->fn->results[i]->kind == PYD_API_SCALAR) continue;
    status = make_result(c, call, i, &data, &bytes);
    if (pyd_ok(status)) status = pyd_api_call_bind_result(call, i, data, bytes);
  }
  return status;
}

// Creates the results that do not exist yet, scalars and the results of procedures, and copies their values out of
// |call|, which has run.
static pyd_status_t copy_results(const call_t* c, const pyd_api_call_t* call) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < c->fn->result_count && pyd_ok(status); ++i) {
    void* data = NULL;
    uint64_t bytes = 0, word = 0;
    if (c->results[i]) continue;  // the call has written into its memory
    status = make_result(c, call, i, &data, &bytes);
    bool is_scalar = c->fn->results[i]->kind == PYD_API_SCALAR;
    if (pyd_ok(status) && is_scalar) status = pyd_api_call_scalar_result(call, i, &word);
    if (pyd_ok(status) && bytes) memcpy(data, is_scalar ? &word : pyd_api_call_result_data(call, i), bytes);
  }
  return status;
}

// Runs the function on the arguments that were read, and fills c->results.
static pyd_status_t run(const call_t* c) {
  pyd_api_call_t* call = NULL;
  pyd_status_t status = pyd_target_begin(c->target, c->arguments, &call);
  if (!pyd_ok(status)) return status;
  if (!pyd_target_is_procedure(c->target)) status = bind_results(c, call);
  if (pyd_ok(status)) status = pyd_api_call_run(call);
  if (pyd_ok(status)) status = copy_results(c, call);
  pyd_target_give_back(c->target, call);
  return status;
}

// ---- the call

// Releases the tensor arguments, and replaces them on the stack by the results, or releases the results if the call
// failed. The kernel owns its arguments in both cases.
static void finish(const call_t* c, bool is_ok) {
  for (uint32_t i = 0; i < c->fn->argument_count; ++i) {
    if (c->fn->arguments[i]->kind == PYD_API_TENSOR) drop(c, tensor_at(c, i));
  }
  if (!c->results) return;  // no memory for the array
  for (uint32_t i = 0; i < c->fn->result_count; ++i) {
    if (is_ok) {
      c->stack[i] = (uintptr_t)c->results[i];
    } else {
      drop(c, c->results[i]);
    }
  }
}

// Reads the arguments, runs the function, and puts its results on the stack.
static pyd_status_t call_target(call_t* c) {
  enum { kStackCount = 16 };  // arguments, and results, that need no heap allocation
  pyd_target_argument_t stack_arguments[kStackCount];
  pyd_torch_tensor_t* stack_results[kStackCount] = {NULL};
  uint32_t argument_count = c->fn->argument_count, result_count = c->fn->result_count;
  c->arguments = argument_count > kStackCount ? calloc(argument_count, sizeof(*c->arguments)) : stack_arguments;
  c->results = result_count > kStackCount ? calloc(result_count, sizeof(pyd_torch_tensor_t*)) : stack_results;
  pyd_status_t status = PYD_STATUS_OK;
  if (!c->arguments || !c->results) {
    status = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the arguments of @%s", c->fn->name);
  }
  if (pyd_ok(status)) status = read_arguments(c);
  if (pyd_ok(status)) status = run(c);
  finish(c, pyd_ok(status));
  if (c->arguments != stack_arguments) free(c->arguments);
  if (c->results != stack_results) free(c->results);
  return status;
}

// Runs the function that is registered for kernel |slot|.
static pyd_status_t call(const pyd_torch_interface_t* torch, uint32_t slot, uint64_t* stack, uint64_t argument_count,
                         uint64_t result_count) {
  pyd_target_t* target = pyd_process_number_find(PYD_TORCH_KERNEL_NUMBER(slot), pyd_target_retain);
  // Without the function's signature nothing says which stack slots hold tensors: they are not released.
  if (!target) {
    return pyd_status_make(PYD_CODE_UNAVAILABLE,
                           "the function of this operator was closed; register it again with "
                           "pydispatch.to_torch");
  }
  const pyd_api_function_t* fn = pyd_target_function(target);
  call_t c = {.torch = torch, .target = target, .fn = fn, .stack = stack};
  pyd_status_t status = PYD_STATUS_OK;
  if (argument_count == fn->argument_count && result_count == fn->result_count) {
    status = call_target(&c);
  } else {  // the signature is that of another operator: nothing says which stack slots hold tensors, and they leak
    status = pyd_status_make(
        PYD_CODE_INVALID_ARGUMENT, "@%s has %u arguments and %u results, its operator %llu and %llu", fn->name,
        fn->argument_count, fn->result_count, (unsigned long long)argument_count, (unsigned long long)result_count);
  }
  pyd_target_release(target);
  return status;
}

// Runs kernel |slot|, which PyTorch calls with its arguments on |stack|.
void pyd_torch_call(uint32_t slot, uint64_t* stack, uint64_t argument_count, uint64_t result_count) {
  const pyd_torch_interface_t* torch = pyd_process_number_find(PYD_TORCH_INTERFACE_NUMBER, pyd_torch_interface_retain);
  if (!torch) abort();  // registering a kernel requires the interface to be registered first
  pyd_status_t status = call(torch, slot, stack, argument_count, result_count);
  if (pyd_ok(status)) return;
  char text[2048];  // not on the heap: check() throws a C++ exception, and nothing after it runs
  snprintf(text, sizeof(text), "%s", pyd_status_text(status));
  pyd_status_free(status);
  torch->check(/* condition */ false, "pydispatch", /* file */ "", /* line */ 0, text);
}
