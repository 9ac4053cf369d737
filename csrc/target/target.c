// Functions that another runtime calls from its own threads, with a bounded cache of prepared calls.
#include "target/target.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "pydispatch/process.h"

// Prepared calls that are cached for later use; those in use are not counted. Larger: more memory; smaller: callers
// with many sizes, or many at once, prepare calls anew.
enum { MAX_IDLE = 16 };

// A function of a program that a framework calls, with prepared calls for sizes that it had lately.
struct pyd_target_s {
  atomic_uint references;
  const pyd_api_entry_t* entry;
  pthread_mutex_t mutex;  // guards |idle|; never held while a call is prepared, run or released
  uint32_t idle_count;
  pyd_api_call_t* idle[MAX_IDLE];  // least recently used first
};

// Handlers of a fork: the list is held over it, so that the child does not inherit it locked by another thread.
static void fork_prepare(void* self) { pthread_mutex_lock(&((pyd_target_t*)self)->mutex); }
static void fork_done(void* self) { pthread_mutex_unlock(&((pyd_target_t*)self)->mutex); }

// Creates a target for a function, whose program it retains.
pyd_status_t pyd_target_create(const pyd_api_function_t* function, pyd_target_t** out_target) {
  *out_target = NULL;
  pyd_target_t* target = calloc(1, sizeof(*target));
  if (!target || pthread_mutex_init(&target->mutex, NULL)) {
    free(target);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a target of '%s'", function->name);
  }
  pyd_status_t status = pyd_process_atfork_add(target, fork_prepare, fork_done, fork_done);
  if (!pyd_ok(status)) {
    pthread_mutex_destroy(&target->mutex);
    free(target);
    return status;
  }
  atomic_init(&target->references, 1);
  target->entry = (const pyd_api_entry_t*)function;
  pyd_api_retain(&target->entry->program->references);  // the program owns |function|
  *out_target = target;
  return status;
}

void pyd_target_retain(void* self) { pyd_api_retain(&((pyd_target_t*)self)->references); }

// Drops a reference; the last one frees the prepared calls and releases the program.
void pyd_target_release(pyd_target_t* target) {
  if (!target || !pyd_api_drop(&target->references)) return;
  pyd_api_program_t* program = target->entry->program;
  pyd_process_atfork_remove(target);
  for (uint32_t i = 0; i < target->idle_count; ++i) pyd_api_call_release(target->idle[i]);
  pthread_mutex_destroy(&target->mutex);
  free(target);
  pyd_api_program_release(program);
}

const pyd_api_function_t* pyd_target_function(const pyd_target_t* target) { return &target->entry->info; }

bool pyd_target_is_procedure(const pyd_target_t* target) { return target->entry->is_procedure; }

// Returns whether a prepared call can be run with these sizes of its tensors and words of its scalars. The call of a
// function has a plan, which depends on the sizes and on scalars that a size, grid or check reads. The call of a
// procedure has no plan, and depends on the sizes only.
static bool fits(const pyd_api_call_t* call, const int64_t* dims, const uint64_t* scalars) {
  static const uint64_t kNoScalars = 0;  // an address for an empty list
  if (call->plan) return pyd_plan_matches(call->plan, dims, scalars ? scalars : &kNoScalars);
  uint32_t count = call->entry->info.dims_count;
  const bool are_equal = !count || memcmp(call->dims, dims, count * sizeof(*dims)) == 0;  // |dims| may be NULL for none
  return are_equal;
}

// Removes the most recently used idle call that can be run with these sizes and scalars from the list, and returns it;
// NULL when there is none.
static pyd_api_call_t* take_idle(pyd_target_t* target, const int64_t* dims, const uint64_t* scalars) {
  pyd_api_call_t* call = NULL;
  pthread_mutex_lock(&target->mutex);
  for (uint32_t i = target->idle_count; i-- > 0 && !call;) {  // the last call is the most recently used one
    if (!fits(target->idle[i], dims, scalars)) continue;
    call = target->idle[i];
    --target->idle_count;
    memmove(&target->idle[i], &target->idle[i + 1], (target->idle_count - i) * sizeof(target->idle[0]));
  }
  pthread_mutex_unlock(&target->mutex);
  return call;
}

// Takes an idle call for these sizes and scalars, or prepares a new one. |*out_call| is NULL after a failure.
pyd_status_t pyd_target_take(pyd_target_t* target, const int64_t* dims, const uint64_t* scalars,
                             pyd_api_call_t** out_call) {
  const pyd_api_function_t* fn = &target->entry->info;
  *out_call = take_idle(target, dims, scalars);
  if (!*out_call) return pyd_api_call_prepare(fn, dims, fn->dims_count, scalars, fn->scalar_count, out_call);
  pyd_status_t status = pyd_api_call_set_scalars(*out_call, scalars, fn->scalar_count);
  if (!pyd_ok(status)) {
    pyd_api_call_release(*out_call);
    *out_call = NULL;
  }
  return status;
}

// Returns the 64-bit word of the scalar that is stored at |data|, as call_prepare takes it: any integer, even an
// unsigned one, is sign-extended; a float or a truth value is its bits.
static uint64_t read_word(const pyd_api_value_t* value, const void* data) {
  // The upper byte of an element type is its numerical type: up to 0x12 integers. The lower three bytes are its number
  // of bits; an integer of one bit is a truth value.
  bool is_integer = value->dtype >> 24 <= 0x12 && (value->dtype & 0xFFFFFF) > 1;
  uint64_t word = 0;
  memcpy(&word, data, value->element_bytes);
  uint32_t unused_bits = 64 - 8 * value->element_bytes;
  return is_integer ? (uint64_t)((int64_t)(word << unused_bits) >> unused_bits) : word;  // copies the sign bit
}

// Copies the dimensions of all tensors to |dims| and the words of all scalars to |scalars|, each in the order of the
// arguments, as call_prepare takes them.
static void gather_sizes_and_scalars(const pyd_api_function_t* fn, const pyd_target_argument_t* arguments,
                                     int64_t* dims, uint64_t* scalars) {
  for (uint32_t i = 0; i < fn->argument_count; ++i) {
    const pyd_api_value_t* value = fn->arguments[i];
    if (value->kind == PYD_API_SCALAR) {
      *scalars++ = read_word(value, arguments[i].data);
    } else {
      for (uint32_t axis = 0; axis < value->rank; ++axis) *dims++ = arguments[i].dims[axis];
    }
  }
}

// Binds the tensors among the arguments to |call|. Scalars were set when the call was taken.
static pyd_status_t bind(const pyd_api_function_t* fn, const pyd_target_argument_t* arguments, pyd_api_call_t* call) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < fn->argument_count && pyd_ok(status); ++i) {
    const pyd_api_value_t* value = fn->arguments[i];
    uint64_t bytes = 0;
    if (value->kind != PYD_API_TENSOR) continue;
    if (!pyd_tensor_bytes(value->dtype, value->rank, arguments[i].dims, &bytes)) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%s: argument %u has a negative size, or 2^63 bytes", fn->name,
                             i);
    }
    status = pyd_api_call_bind_argument(call, i, arguments[i].data, bytes);
  }
  return status;
}

// Takes an idle call of the function for the sizes of |arguments|, or creates one, and binds |arguments| to it. Their
// memory must stay valid until the call has run. Then the caller passes the call to pyd_target_give_back().
pyd_status_t pyd_target_begin(pyd_target_t* target, const pyd_target_argument_t* arguments, pyd_api_call_t** out_call) {
  enum { kInline = 64 };  // dimensions and scalars on the stack; more are allocated
  const pyd_api_function_t* fn = &target->entry->info;
  uint64_t inline_words[kInline] = {0}, *words = inline_words;
  size_t count = (size_t)fn->dims_count + fn->scalar_count;
  *out_call = NULL;
  if (count > kInline) words = calloc(count, sizeof(*words));
  if (!words) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %zu sizes of @%s", count, fn->name);
  }
  int64_t* dims = (int64_t*)words;
  uint64_t* scalars = words + fn->dims_count;
  gather_sizes_and_scalars(fn, arguments, dims, scalars);
  pyd_status_t status = pyd_target_take(target, dims, scalars, out_call);
  if (words != inline_words) free(words);
  if (!pyd_ok(status)) return status;
  status = bind(fn, arguments, *out_call);
  if (!pyd_ok(status)) {
    pyd_target_give_back(target, *out_call);
    *out_call = NULL;
  }
  return status;
}

// Adds |call| to the list of idle calls. If the list is full, releases the call that has been idle for the longest
// time.
void pyd_target_give_back(pyd_target_t* target, pyd_api_call_t* call) {
  pyd_api_call_t* oldest = NULL;
  pthread_mutex_lock(&target->mutex);
  if (target->idle_count == MAX_IDLE) {
    oldest = target->idle[0];
    --target->idle_count;
    memmove(&target->idle[0], &target->idle[1], target->idle_count * sizeof(target->idle[0]));
  }
  target->idle[target->idle_count++] = call;
  pthread_mutex_unlock(&target->mutex);
  pyd_api_call_release(oldest);
}
