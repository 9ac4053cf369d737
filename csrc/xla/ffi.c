// A handler of XLA for all functions of programs: reads the call, checks it against the function, and runs it here.
#include "xla/ffi.h"

#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "pydispatch/process.h"
#include "target/target.h"

// Offsets and sizes in bytes of XLA's structures on machines of 64 bits, as XLA's header has them.
_Static_assert(sizeof(void*) != 8 ||
                   (offsetof(pyd_xla_frame_t, arguments) == 40 && offsetof(pyd_xla_frame_t, results) == 80 &&
                    offsetof(pyd_xla_frame_t, attributes) == 120 && sizeof(pyd_xla_frame_t) == 168 &&
                    offsetof(pyd_xla_api_t, error_create) == 48 && offsetof(pyd_xla_buffer_t, dims) == 40 &&
                    offsetof(pyd_xla_metadata_t, traits) == 32),
               "the layout of XLA's structures");

// Whether XLA passes |member| of a structure. Older versions of XLA have shorter structures, which begin with their
// size.
#define IS_PASSED(type, structure, member) \
  ((structure)->struct_size >= offsetof(type, member) + sizeof((structure)->member))

// ---- types and errors

// Returns the type of XLA for an element type of the program format; PYD_XLA_NONE if there is none.
pyd_xla_dtype_t pyd_xla_dtype(uint32_t dtype) {
  static const struct {
    uint32_t ours;           // numerical type << 24 | bits, as in docs/program.md
    pyd_xla_dtype_t theirs;  // PRED: one byte, 0 or 1
  } kTypes[] = {
      {0x10000001, PYD_XLA_PRED},       {0x12000001, PYD_XLA_PRED},       {0x13000001, PYD_XLA_PRED},
      {0x13000008, PYD_XLA_PRED},       {0x10000008, PYD_XLA_S8},         {0x10000010, PYD_XLA_S16},
      {0x10000020, PYD_XLA_S32},        {0x10000040, PYD_XLA_S64},        {0x11000008, PYD_XLA_S8},
      {0x11000010, PYD_XLA_S16},        {0x11000020, PYD_XLA_S32},        {0x11000040, PYD_XLA_S64},
      {0x12000008, PYD_XLA_U8},         {0x12000010, PYD_XLA_U16},        {0x12000020, PYD_XLA_U32},
      {0x12000040, PYD_XLA_U64},        {0x21000010, PYD_XLA_F16},        {0x21000020, PYD_XLA_F32},
      {0x21000040, PYD_XLA_F64},        {0x22000010, PYD_XLA_BF16},       {0x23000040, PYD_XLA_C64},
      {0x23000080, PYD_XLA_C128},       {0x24000008, PYD_XLA_F8E5M2},     {0x25000008, PYD_XLA_F8E4M3FN},
      {0x26000008, PYD_XLA_F8E5M2FNUZ}, {0x27000008, PYD_XLA_F8E4M3FNUZ}, {0x28000008, PYD_XLA_F8E8M0FNU},
      {0x29000008, PYD_XLA_F8E4M3},     {0x2A000008, PYD_XLA_F8E3M4},     {0x2B000008, PYD_XLA_F8E4M3B11FNUZ},
  };
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); ++i) {
    if (kTypes[i].ours == dtype) return kTypes[i].theirs;
  }
  return PYD_XLA_NONE;
}

// Returns XLA's code for the code of a failure.
static pyd_xla_code_t code_of(pyd_status_t status) {
  switch (pyd_status_code(status)) {
    case PYD_CODE_INVALID_ARGUMENT: return PYD_XLA_INVALID_ARGUMENT;
    case PYD_CODE_OUT_OF_MEMORY: return PYD_XLA_RESOURCE_EXHAUSTED;
    case PYD_CODE_INTERRUPTED: return PYD_XLA_CANCELLED;
    case PYD_CODE_UNAVAILABLE: return PYD_XLA_UNAVAILABLE;
    case PYD_CODE_UNSUPPORTED: return PYD_XLA_UNIMPLEMENTED;
    default: return PYD_XLA_INTERNAL;
  }
}

// Creates an error of XLA from the failure |status|, which it frees. XLA copies the message.
static pyd_xla_error_t* error_of(const pyd_xla_api_t* api, pyd_status_t status) {
  pyd_xla_error_args_t args = {
      .struct_size = offsetof(pyd_xla_error_args_t, code) + sizeof(args.code),
      .message = pyd_status_text(status),
      .code = code_of(status),
  };
  pyd_xla_error_t* error = api->error_create(&args);
  pyd_status_free(status);
  return error;
}

// Returns the UNSUPPORTED failure of a call frame that does not follow this version of the interface. |what|: the part
// that is different, a noun.
static pyd_status_t bad_frame(const char* what) {
  return pyd_status_make(PYD_CODE_UNSUPPORTED,
                         "a call from XLA has %s that version %d.%d of its interface does not have", what,
                         PYD_XLA_MAJOR, PYD_XLA_MINOR);
}

// ---- reading a frame

// Answers a frame that asks for the version of the interface that the handler was written for. Returns false when it is
// a call.
static bool answer_metadata(const pyd_xla_frame_t* frame) {
  for (pyd_xla_extension_t* e = frame->extensions; e && IS_PASSED(pyd_xla_extension_t, e, next); e = e->next) {
    if (e->kind != PYD_XLA_EXTENSION_METADATA) continue;
    pyd_xla_metadata_t* metadata = ((pyd_xla_metadata_extension_t*)e)->metadata;
    if (!metadata || !IS_PASSED(pyd_xla_metadata_t, metadata, traits))
      return true;  // no call, but no place to answer either
    metadata->version.major = PYD_XLA_MAJOR;
    metadata->version.minor = PYD_XLA_MINOR;
    metadata->traits = 0;
    return true;
  }
  return false;
}

// Reads the number of the target, which names the function to run in this process, from the attributes of a call.
static pyd_status_t read_number(const pyd_xla_attributes_t* attributes, uint64_t* out_number) {
  static const char kName[] = PYD_XLA_ATTRIBUTE;
  bool has_list = attributes->kinds && attributes->names && attributes->items;
  for (int64_t i = 0; has_list && i < attributes->count; ++i) {
    const pyd_xla_text_t* name = attributes->names[i];
    if (!name || name->length != sizeof(kName) - 1 || !name->data || memcmp(name->data, kName, name->length)) continue;
    const pyd_xla_scalar_t* scalar = attributes->items[i];
    // An attribute of another type is refused like a missing one.
    if (attributes->kinds[i] != PYD_XLA_SCALAR || !scalar || scalar->dtype != PYD_XLA_S64 || !scalar->value) break;
    memcpy(out_number, scalar->value, sizeof(*out_number));
    return PYD_STATUS_OK;
  }
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "a call of pydispatch needs the attribute '%s', a 64-bit integer; use "
                         "the callable that pydispatch.to_jax returns",
                         kName);
}

// The arguments or the results of a call: as the function declares them, and as XLA passes them.
typedef struct side_s {
  const char* what;                      // "argument" or "result", for messages
  const char* function;                  // its name, for messages
  const pyd_api_value_t* const* values;  // as declared: |count| of them
  uint32_t count;
  const pyd_xla_values_t* passed;  // as passed, perhaps another number of them until check_count() has succeeded
} side_t;

static const pyd_xla_buffer_t* buffer_of(const side_t* side, uint32_t i) { return side->passed->items[i]; }

// Checks that XLA passes as many values as the function declares.
static pyd_status_t check_count(const side_t* side) {
  if (side->passed->count != (int64_t)side->count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%s has %u %ss, got %lld", side->function, side->count,
                           side->what, (long long)side->passed->count);
  }
  if (side->count && (!side->passed->kinds || !side->passed->items))
    return bad_frame("a list of buffers without memory");
  return PYD_STATUS_OK;
}

// Checks that value |i| is a buffer of the declared element type and rank.
static pyd_status_t check_buffer(const side_t* side, uint32_t i) {
  const pyd_api_value_t* value = side->values[i];
  const pyd_xla_buffer_t* buffer = buffer_of(side, i);
  if (side->passed->kinds[i] != PYD_XLA_BUFFER || !buffer || !IS_PASSED(pyd_xla_buffer_t, buffer, dims)) {
    return bad_frame("a kind of value");
  }
  pyd_xla_dtype_t dtype = pyd_xla_dtype(value->dtype);
  if (dtype == PYD_XLA_NONE) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "@%s: %s %u has elements of type 0x%08x, which XLA does not have",
                           side->function, side->what, i, value->dtype);
  }
  if (buffer->dtype != (int)dtype) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%s: %s %u has XLA's element type %d, got %d", side->function,
                           side->what, i, (int)dtype, buffer->dtype);
  }
  if (buffer->rank != (int64_t)value->rank || (value->rank && !buffer->dims)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%s: %s %u has rank %u, got %lld", side->function, side->what, i,
                           value->rank, (long long)buffer->rank);
  }
  if (value->kind == PYD_API_SCALAR && (!buffer->data || value->element_bytes > sizeof(uint64_t))) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "@%s: %s %u is a number without memory, or one of more than 64 bits", side->function,
                           side->what, i);
  }
  return PYD_STATUS_OK;
}

// Checks the number, types and ranks of the arguments or results that XLA passes.
static pyd_status_t check_side(const side_t* side) {
  pyd_status_t status = check_count(side);
  for (uint32_t i = 0; i < side->count && pyd_ok(status); ++i) status = check_buffer(side, i);
  return status;
}

// ---- running

// Checks that the buffers that XLA provides for the results have the dimensions that |call| computes.
static pyd_status_t check_sizes(const side_t* results, const pyd_api_call_t* call) {
  for (uint32_t i = 0; i < results->count; ++i) {
    const int64_t* dims = pyd_api_call_result_dims(call, i);  // NULL for a scalar
    const int64_t* buffer_dims = buffer_of(results, i)->dims;
    for (uint32_t axis = 0; dims && axis < results->values[i]->rank; ++axis) {
      if (dims[axis] == buffer_dims[axis]) continue;
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "@%s: result %u has %lld elements along axis %u, its buffer %lld", results->function, i,
                             (long long)dims[axis], axis, (long long)buffer_dims[axis]);
    }
  }
  return PYD_STATUS_OK;
}

// Binds the buffers of tensor results, so that the call writes to them.
static pyd_status_t bind_results(const side_t* results, pyd_api_call_t* call) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < results->count && pyd_ok(status); ++i) {
    const pyd_api_value_t* value = results->values[i];
    const pyd_xla_buffer_t* buffer = buffer_of(results, i);
    uint64_t bytes = 0;
    if (value->kind != PYD_API_TENSOR) continue;  // store_scalars() writes scalars after the run
    if (!pyd_tensor_bytes(value->dtype, value->rank, buffer->dims, &bytes)) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%s: result %u has a negative size, or 2^63 bytes",
                             results->function, i);
    }
    status = pyd_api_call_bind_result(call, i, buffer->data, bytes);
  }
  return status;
}

// Writes scalar results to their buffers.
static pyd_status_t store_scalars(const side_t* results, const pyd_api_call_t* call) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < results->count && pyd_ok(status); ++i) {
    uint64_t word = 0;
    if (results->values[i]->kind != PYD_API_SCALAR) continue;
    status = pyd_api_call_scalar_result(call, i, &word);
    if (pyd_ok(status)) memcpy(buffer_of(results, i)->data, &word, results->values[i]->element_bytes);
  }
  return status;
}

// Runs a prepared call of the target with these buffers.
static pyd_status_t run(pyd_target_t* target, const pyd_target_argument_t* arguments, const side_t* results) {
  pyd_api_call_t* call = NULL;
  pyd_status_t status = pyd_target_begin(target, arguments, &call);
  if (!pyd_ok(status)) return status;
  // The sizes of a procedure's results are known only after it has run; before, |call| has the sizes of an earlier run.
  bool is_procedure = pyd_target_is_procedure(target);
  if (!is_procedure) status = check_sizes(results, call);
  if (pyd_ok(status)) status = bind_results(results, call);
  if (pyd_ok(status)) status = pyd_api_call_run(call);
  if (pyd_ok(status) && is_procedure) status = check_sizes(results, call);
  if (pyd_ok(status)) status = store_scalars(results, call);
  pyd_target_give_back(target, call);
  return status;
}

// Checks the buffers of a frame against the target's function, and runs it.
static pyd_status_t call_target(pyd_target_t* target, const pyd_xla_frame_t* frame) {
  enum { kInline = 32 };  // arguments on the stack; more are allocated
  const pyd_api_function_t* fn = pyd_target_function(target);
  const side_t arguments = {"argument", fn->name, fn->arguments, fn->argument_count, &frame->arguments};
  const side_t results = {"result", fn->name, fn->results, fn->result_count, &frame->results};
  pyd_status_t status = check_side(&arguments);
  if (pyd_ok(status)) status = check_side(&results);
  if (!pyd_ok(status)) return status;
  pyd_target_argument_t inline_arguments[kInline], *passed = inline_arguments;
  if (fn->argument_count > kInline && !(passed = malloc(fn->argument_count * sizeof(*passed)))) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u arguments of @%s", fn->argument_count, fn->name);
  }
  for (uint32_t i = 0; i < fn->argument_count; ++i) {
    passed[i] = (pyd_target_argument_t){buffer_of(&arguments, i)->data, buffer_of(&arguments, i)->dims};
  }
  status = run(target, passed, &results);
  if (passed != inline_arguments) free(passed);
  return status;
}

// Runs the target whose number is an attribute of the call frame.
static pyd_status_t call(const pyd_xla_frame_t* frame) {
  // The frame contains the structures |arguments|, |results| and |attributes| in this order. Another size of the first
  // two would move those after them, so that both must have the sizes of this version; |attributes| may be longer.
  if (!IS_PASSED(pyd_xla_frame_t, frame, attributes) || frame->arguments.struct_size != sizeof(frame->arguments) ||
      frame->results.struct_size != sizeof(frame->results) ||
      !IS_PASSED(pyd_xla_attributes_t, &frame->attributes, items)) {
    return bad_frame("structures of sizes");  // the message continues: "that version ... does not have"
  }
  uint64_t number = 0;
  pyd_status_t status = read_number(&frame->attributes, &number);
  if (!pyd_ok(status)) return status;
  pyd_target_t* target = pyd_process_number_find(number, pyd_target_retain);
  if (!target) {
    return pyd_status_make(PYD_CODE_UNAVAILABLE,
                           "no function of pydispatch has the number %lld in this process: it was "
                           "closed, or the caller was compiled in another process; compile it again with "
                           "pydispatch.to_jax",
                           (long long)number);
  }
  status = call_target(target, frame);
  pyd_target_release(target);
  return status;
}

// Handles a call of XLA to this custom call. Returns NULL on success, or an error that XLA owns. A query of metadata is
// answered. A frame without error_create also returns NULL and runs nothing: its failures could not be reported.
pyd_xla_error_t* pyd_xla_call(const pyd_xla_frame_t* frame) {
  if (!frame || !IS_PASSED(pyd_xla_frame_t, frame, extensions) || answer_metadata(frame)) return NULL;
  if (!IS_PASSED(pyd_xla_frame_t, frame, stage)) return NULL;
  const pyd_xla_api_t* api = frame->api;
  if (!api || !IS_PASSED(pyd_xla_api_t, api, error_create) || !api->error_create) return NULL;
  if (frame->stage != PYD_XLA_STAGE_EXECUTE) return NULL;  // nothing to do in the others
  pyd_status_t status = call(frame);
  return pyd_ok(status) ? NULL : error_of(api, status);
}
