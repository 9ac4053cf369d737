// The memory of a call's tensors: bound by the caller, or from an allocator of theirs; used in place, or copied around
// a run.
#include <string.h>

#include "api/call.h"

static const char* name_of(const pyd_api_call_t* call) { return call->entry->info.name; }

// Returns the failure of |function| for a call that is running.
pyd_status_t pyd_api_call_refuse_busy(const pyd_api_call_t* call, const char* function) {
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "%s: this call of '%s' is running in another thread or in flight; "
                         "prepare one for each",
                         function, name_of(call));
}

static bool is_busy(const pyd_api_call_t* call) { return atomic_load_explicit(&call->is_busy, memory_order_relaxed); }

// ---- binding

// Finds the buffer of argument or result |index|; the indices count scalars, too. INVALID_ARGUMENT when it does not
// exist, is a scalar, or the call is busy. |function| begins the message.
static pyd_status_t find_buffer(pyd_api_call_t* call, const char* function, bool is_result, uint32_t index,
                                pyd_api_buffer_t** out_buffer) {
  const char* what = is_result ? "result" : "argument";
  if (!call) return pyd_api_null(function, "call");
  const pyd_api_function_t* fn = &call->entry->info;
  bool exists = index < (is_result ? fn->result_count : fn->argument_count);
  *out_buffer = exists ? (is_result ? call->results : call->arguments) + index : NULL;
  if (exists && (*out_buffer)->is_tensor)
    return is_busy(call) ? pyd_api_call_refuse_busy(call, function) : PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s %u of '%s' %s", function, what, index, name_of(call),
                         exists ? "is a scalar" : "does not exist");
}

// Frees the memory that a run allocated for a result.
static void release_own(const pyd_api_call_t* call, pyd_api_buffer_t* buffer) {
  if (!buffer->own) return;
  pyd_deallocate(&call->results_allocator, buffer->own, buffer->own_bytes);
  buffer->own = NULL;
  if (!buffer->is_bound) buffer->data = NULL;  // |data| was the freed memory
}

// Binds |room| bytes at |data| to |buffer|, and releases what was bound before. |memory|: the handle that |data|
// belongs to, of which the buffer takes over one reference; NULL for a plain address.
static void set_memory(pyd_api_call_t* call, pyd_api_buffer_t* buffer, pyd_api_memory_t* memory, void* data,
                       uint64_t room) {
  pyd_api_memory_t* before = buffer->memory;
  release_own(call, buffer);
  buffer->memory = memory;
  buffer->data = data;
  buffer->room = room;
  buffer->is_bound = true;
  call->is_stale = true;
  pyd_api_memory_release(before);
}

// Binds |bytes| bytes at |data|, at least as many as the tensor has, to an argument or a result.
static pyd_status_t bind(pyd_api_call_t* call, const char* function, bool is_result, uint32_t index, void* data,
                         size_t bytes) {
  pyd_api_buffer_t* buffer = NULL;
  pyd_status_t status = find_buffer(call, function, is_result, index, &buffer);
  if (!pyd_ok(status)) return status;
  if (bytes < buffer->bytes || (!data && buffer->bytes)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s %u of '%s' has %llu bytes; got %zu at %p", function,
                           is_result ? "result" : "argument", index, name_of(call), (unsigned long long)buffer->bytes,
                           bytes, data);
  }
  set_memory(call, buffer, NULL, data, data ? bytes : 0);
  return status;
}

pyd_status_t pyd_api_call_bind_argument(pyd_api_call_t* call, uint32_t index, const void* data, size_t bytes) {
  return bind(call, "call_bind_argument", /* is_result */ false, index, (void*)data, bytes);
}

pyd_status_t pyd_api_call_bind_result(pyd_api_call_t* call, uint32_t index, void* data, size_t bytes) {
  return bind(call, "call_bind_result", /* is_result */ true, index, data, bytes);
}

// Returns the sizes of argument |index|. call->dims holds those of all arguments one after another; scalars have none.
static const int64_t* argument_dims(const pyd_api_call_t* call, uint32_t index) {
  const int64_t* dims = call->dims;
  for (uint32_t i = 0; i < index; ++i) dims += call->entry->info.arguments[i]->rank;
  return dims;
}

// Binds a memory handle to a tensor, whose type, sizes and bytes it must have.
static pyd_status_t bind_memory(pyd_api_call_t* call, const char* function, bool is_result, uint32_t index,
                                pyd_api_memory_t* memory) {
  pyd_api_buffer_t* buffer = NULL;
  pyd_status_t status = find_buffer(call, function, is_result, index, &buffer);
  if (!pyd_ok(status)) return status;
  if (!memory) return pyd_api_null(function, "memory");
  const pyd_api_function_t* fn = &call->entry->info;
  // Sizes that the memory must have; NULL, any, for a result of a procedure: it has no plan, and a run decides its
  // sizes.
  const int64_t* dims =
      is_result ? (call->plan ? pyd_plan_result_dims(call->plan, index) : NULL) : argument_dims(call, index);
  status = pyd_api_memory_check(memory, function, is_result ? "result" : "argument", index,
                                is_result ? fn->results[index] : fn->arguments[index], dims);
  if (!pyd_ok(status)) return status;
  if (is_result && (memory->is_read_only || !memory->is_distinct)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: result %u of '%s' cannot be written to memory %s", function,
                           index, name_of(call),
                           memory->is_read_only ? "that is read-only" : "in which two elements may be at one address");
  }
  if (memory->is_dense && memory->bytes < buffer->bytes) {  // the function writes to more than the elements
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: result %u of '%s' takes %llu bytes, its elements only %llu; bind it with "
                           "call_bind_result",
                           function, index, name_of(call), (unsigned long long)buffer->bytes,
                           (unsigned long long)memory->bytes);
  }
  pyd_api_retain(&memory->references);
  set_memory(call, buffer, memory, memory->first, memory->bytes);
  return status;
}

pyd_status_t pyd_api_call_bind_argument_memory(pyd_api_call_t* call, uint32_t index, pyd_api_memory_t* memory) {
  return bind_memory(call, "call_bind_argument_memory", /* is_result */ false, index, memory);
}

pyd_status_t pyd_api_call_bind_result_memory(pyd_api_call_t* call, uint32_t index, pyd_api_memory_t* memory) {
  return bind_memory(call, "call_bind_result_memory", /* is_result */ true, index, memory);
}

// Frees the memory of the call's tensors (temporary blocks, results of its allocator), and releases the memory handles
// that are bound to them. Only right before the call itself is freed: the buffers keep the pointers.
void pyd_api_call_unbind(pyd_api_call_t* call) {
  const pyd_api_function_t* fn = &call->entry->info;
  // Scalars have none of these: releasing NULL does nothing.
  for (uint32_t i = 0; i < fn->argument_count + fn->result_count; ++i) {
    pyd_api_buffer_t* buffer = i < fn->argument_count ? &call->arguments[i] : &call->results[i - fn->argument_count];
    pyd_pool_release(call->entry->program->device->pool, buffer->detour);
    release_own(call, buffer);
    pyd_api_memory_release(buffer->memory);
  }
}

// ---- results from an allocator

// Sets the functions that allocate the memory of results which the caller does not bind.
pyd_status_t pyd_api_call_set_result_allocator(pyd_api_call_t* call, const pyd_allocator_t* allocator) {
  static const char kFunction[] = "call_set_result_allocator";
  pyd_allocator_t read;
  if (!call) return pyd_api_null(kFunction, "call");
  if (is_busy(call)) return pyd_api_call_refuse_busy(call, kFunction);
  pyd_status_t status = pyd_allocator_read(kFunction, allocator, &read);
  if (!pyd_ok(status)) return status;
  // Before the allocator is replaced: blocks are freed by the one that they came from.
  for (uint32_t i = 0; i < call->entry->info.result_count; ++i) release_own(call, &call->results[i]);
  call->results_allocator = read;
  call->is_stale = true;
  return status;
}

// Allocates |bytes| for a tensor result that nothing is bound to, if the call has an allocator; otherwise does nothing.
// A block of the right size from an earlier run is used again.
pyd_status_t pyd_api_call_make_result(pyd_api_call_t* call, uint32_t index, uint64_t bytes) {
  pyd_api_buffer_t* buffer = &call->results[index];
  if (buffer->is_bound || !buffer->is_tensor || !call->results_allocator.allocate) return PYD_STATUS_OK;
  size_t size = bytes ? (size_t)bytes : 1;  // an empty result needs an address, too
  if (buffer->own && buffer->own_bytes == size) return PYD_STATUS_OK;
  release_own(call, buffer);
  buffer->own = pyd_allocate(&call->results_allocator, size);
  if (!buffer->own) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the %llu bytes of result %u of '%s'",
                           (unsigned long long)bytes, index, name_of(call));
  }
  buffer->own_bytes = size;
  buffer->data = buffer->own;
  return PYD_STATUS_OK;
}

// Passes the memory of a result to the caller, who frees it with the allocator that it came from.
pyd_status_t pyd_api_call_take_result(pyd_api_call_t* call, uint32_t index, void** out_data, size_t* out_bytes) {
  static const char kFunction[] = "call_take_result";
  pyd_api_buffer_t* buffer = NULL;
  if (!out_data || !out_bytes) return pyd_api_null(kFunction, "out_data or out_bytes");
  *out_data = NULL, *out_bytes = 0;
  pyd_status_t status = find_buffer(call, kFunction, true, index, &buffer);
  if (!pyd_ok(status)) return status;
  if (!buffer->own) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: result %u of '%s' has no memory of an allocator; set one and run the call first",
                           kFunction, index, name_of(call));
  }
  *out_data = buffer->own, *out_bytes = buffer->own_bytes;
  buffer->own = NULL;  // it is the caller's now; the next run allocates another block
  buffer->data = NULL;
  call->is_stale = true;
  return status;
}

// ---- where kernels find the memory

// Returns whether the tensor has memory: bound by the caller, or of the call's allocator.
static bool has_memory(const pyd_api_buffer_t* buffer) { return buffer->is_bound || buffer->own; }

// Returns whether the elements are not in row-major order. Without |memory|, for a bound address
// or a block of the allocator, they are.
static bool is_strided_memory(const pyd_api_buffer_t* buffer) { return buffer->memory && !buffer->memory->is_dense; }

// Returns the lowest address of an element.
static uintptr_t lowest_of(const pyd_api_buffer_t* buffer) {
  return (uintptr_t)(buffer->memory ? buffer->memory->lowest : buffer->data);
}

// Returns the bytes from the lowest to the end of the highest element. Results of a procedure, whose sizes a run
// decides, may take all that was bound.
static uint64_t extent_of(const pyd_api_buffer_t* buffer) {
  return buffer->memory ? buffer->memory->extent : buffer->has_dynamic_size ? buffer->room : buffer->bytes;
}

// Returns whether the address ranges of two tensors overlap.
static bool overlap(const pyd_api_buffer_t* a, const pyd_api_buffer_t* b) {
  uintptr_t a_begin = lowest_of(a), b_begin = lowest_of(b);
  uint64_t a_bytes = extent_of(a), b_bytes = extent_of(b);
  // Ranges without bytes overlap nothing.
  return has_memory(a) && has_memory(b) && a_bytes && b_bytes && a_begin < b_begin + b_bytes &&
         b_begin < a_begin + a_bytes;
}

// Returns whether kernels cannot use the memory itself: it is strided or misaligned. Alignments are powers of two.
static bool cannot_be_used_in_place(const pyd_api_buffer_t* buffer) {
  return buffer->bytes && (is_strided_memory(buffer) || ((uintptr_t)buffer->data & (buffer->alignment - 1)));
}

// Returns whether a result is computed in a temporary block: its memory cannot be used in place, or overlaps that of an
// argument.
static bool needs_detour(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_function_t* fn = &call->entry->info;
  const pyd_api_buffer_t* buffer = &call->results[index];
  bool needs = cannot_be_used_in_place(buffer);
  for (uint32_t i = 0; i < fn->argument_count && !needs; ++i) needs = overlap(buffer, &call->arguments[i]);
  return needs;
}

// Refuses two results whose byte ranges overlap. If one of them is strided, their elements may interleave, as two
// columns of a matrix do: then they are refused only if their lowest addresses are equal.
pyd_status_t pyd_api_call_check_apart(const pyd_api_call_t* call) {
  const pyd_api_buffer_t* results = call->results;
  for (uint32_t i = 0; i < call->entry->info.result_count; ++i) {
    for (uint32_t k = 0; k < i; ++k) {
      if (!overlap(&results[k], &results[i])) continue;
      bool is_strided = is_strided_memory(&results[k]) || is_strided_memory(&results[i]);
      if (is_strided && lowest_of(&results[k]) != lowest_of(&results[i])) continue;
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "@%s: results %u and %u were bound to memory that overlaps; bind separate memory",
                             name_of(call), k, i);
    }
  }
  return PYD_STATUS_OK;
}

// Sets |*out_data| to where kernels find |buffer|: its memory, or, when |is_detoured|, a temporary block of the pool,
// which is allocated once.
static pyd_status_t route_one(pyd_api_call_t* call, pyd_api_buffer_t* buffer, bool is_detoured, void** out_data) {
  pyd_status_t status = PYD_STATUS_OK;
  if (is_detoured && !buffer->detour) {
    status = pyd_pool_acquire(call->entry->program->device->pool, buffer->bytes, &buffer->detour);
    if (!pyd_ok(status)) return status;
  }
  buffer->is_detoured = is_detoured;
  call->has_detours |= is_detoured;
  *out_data = is_detoured ? buffer->detour : buffer->data;
  return status;
}

// Chooses where kernels find argument |index|: its memory, or a temporary block. Returns the address.
pyd_status_t pyd_api_call_route_argument(pyd_api_call_t* call, uint32_t index, void** out_data) {
  pyd_api_buffer_t* buffer = &call->arguments[index];
  return route_one(call, buffer, cannot_be_used_in_place(buffer), out_data);
}

// Decides for each tensor of a function's call which address kernels use, that of its memory or of a temporary block,
// and binds these addresses to call->call. Allocates the results that need memory of the call's allocator; those that
// have lost it are unbound. Only at the beginning of a run, when the call is busy. After a failure |is_stale| stays
// set: the next run does this again.
pyd_status_t pyd_api_call_route(pyd_api_call_t* call) {
  const pyd_api_function_t* fn = &call->entry->info;
  pyd_status_t status = pyd_api_call_check_apart(call);
  void* data = NULL;
  call->has_detours = false;
  for (uint32_t i = 0; i < fn->argument_count && pyd_ok(status); ++i) {
    if (!call->arguments[i].is_bound) continue;  // a scalar, or a tensor without memory, which the run refuses
    status = pyd_api_call_route_argument(call, i, &data);
    if (pyd_ok(status)) pyd_call_bind_arg(call->call, i, data);
  }
  for (uint32_t i = 0; i < fn->result_count && pyd_ok(status); ++i) {
    status = pyd_api_call_make_result(call, i, call->results[i].bytes);
    if (!pyd_ok(status)) continue;
    if (!has_memory(&call->results[i])) {
      pyd_call_unbind_result(call->call, i);
      continue;
    }
    status = route_one(call, &call->results[i], needs_detour(call, i), &data);
    if (pyd_ok(status)) pyd_call_bind_result(call->call, i, data);
  }
  call->is_stale = !pyd_ok(status);
  return status;
}

// Copies arguments that kernels cannot use in place to their temporary blocks, in row-major order, before a run.
void pyd_api_call_copy_in(const pyd_api_call_t* call) {
  if (!call->has_detours) return;
  for (uint32_t i = 0; i < call->entry->info.argument_count; ++i) {
    const pyd_api_buffer_t* buffer = &call->arguments[i];
    if (!buffer->is_detoured) continue;
    if (is_strided_memory(buffer)) {
      pyd_api_memory_gather(buffer->memory, buffer->detour);
    } else {
      memcpy(buffer->detour, buffer->data, buffer->bytes);
    }
  }
}

// Writes the |bytes| at |data|, elements in row-major order, to the memory of a result.
void pyd_api_call_put(const pyd_api_buffer_t* buffer, const void* data, uint64_t bytes) {
  if (is_strided_memory(buffer)) {
    pyd_api_memory_scatter(buffer->memory, data);
  } else if (bytes) {
    memcpy(buffer->data, data, bytes);
  }
}

// Copies results from their temporary blocks to their memory, after a run.
void pyd_api_call_copy_out(const pyd_api_call_t* call) {
  if (!call->has_detours) return;
  for (uint32_t i = 0; i < call->entry->info.result_count; ++i) {
    const pyd_api_buffer_t* buffer = &call->results[i];
    if (buffer->is_detoured) pyd_api_call_put(buffer, buffer->detour, buffer->bytes);
  }
}
