// For other extension modules: loads a program, prepares it, runs it without the GIL, and shares the threads and the
// memory pool of pydispatch. Nothing is linked: this header declares one table of functions, obtained from a Python
// capsule. docs/embedding.md shows a complete extension.
//
//   #include "pydispatch/api.h"                 // after Python.h; include_dirs=[pydispatch.get_include()]
//   const pyd_api_t* pd = pyd_api_import();     // once, with the GIL; NULL: a Python exception is set
//
// Versions. The table only grows, at its end, and no slot ever changes its meaning. An extension that was built with
// an older header works with every newer pydispatch; one that was built with a newer header is refused by an older
// pydispatch, unless it requires less (pyd_api_accept) and checks PYD_API_HAS before it uses the rest. Structures
// that the table returns by pointer only grow at their ends, too, and so do structures of the caller that begin with
// their size: members that an older header lacks have their defaults. Other structures of the caller never change.
//
// Errors. Functions that can fail return a status: NULL for success, else owned by the caller, who reads it with
// status_code, status_text and status_values and frees it with status_free. (The functions of status.h are not
// linked into the extension: of that header only the types, the codes and pyd_ok are of use here.) A failed call has no
// effect, and an out-parameter is NULL after a failure. A NULL handle or pointer where one is required is an
// INVALID_ARGUMENT; a query without a status then returns 0 or NULL.
//
// Threads. Every function may be called from any thread, also one not created by Python, with the GIL or without.
// Devices, programs and functions are immutable; a call is used by one thread at a time, prepare one for each.
// Functions marked [GIL] take the GIL for their duration when the thread does not have it: do not call them while you
// hold a lock that another thread may want while it has the GIL. All others never touch Python and never wait for it;
// release the GIL around call_run and the loops, or other Python threads are blocked meanwhile.
// The table belongs to the main interpreter. Release your handles before it ends: the rest stays allocated.
//
// Lifetime. Handles are reference-counted: a program holds its device, a call its program, a block of memory its
// device, an event the device; a call that is in flight holds itself. Each handle is released once; NULL is allowed.
// Any handle may be released in any order, on any thread and at any time, also in kernels, bodies and callbacks, on
// threads of the device and on donated threads:
//
// - A device: the last release ends its threads. On one of those threads it returns at once, and the threads end when
//   that thread leaves the device; on_thread_stop may be called until then. Elsewhere they have ended when it returns.
// - A program, memory handle or block of pool_acquire: also while calls that use it are in flight. Such calls hold
//   programs and memory handles, but not blocks.
// - A call: while it runs or is in flight. It continues, and writes to the memory that is bound.
// - An event: before or after its call has ended, also in its own on_done.
//
// A function holds the call, event or device that it was passed until it returns, except that device_lend_thread does
// not hold the device: the last release of the device ends the donation. The caller passes no function a handle after
// its release, except that pool_release accepts the device that a block came from. The last release of anything that
// holds a program or a device is [GIL], because Python objects are destroyed.
#ifndef PYDISPATCH_API_H_
#define PYDISPATCH_API_H_

#include <stddef.h>
#include <stdint.h>

#include "pydispatch/api/inspect.h"
#include "pydispatch/api/load.h"
#include "pydispatch/api/memory.h"
#include "pydispatch/api/runs.h"
#include "pydispatch/api/values.h"
#include "pydispatch/host_command.h"
#include "pydispatch/plugin.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PYD_API_VERSION 1u
#define PYD_API_MODULE "pydispatch._core.capi"
#define PYD_API_CAPSULE "pydispatch._core.capi.table"

// The table of functions. Members are only added, at the end: |size| states which ones a library has.
typedef struct pyd_api_s {
  uint32_t version;  // PYD_API_VERSION
  uint32_t size;     // size of the library's table in bytes

  // A pyd_code_t, 0 for success.
  uint32_t (*status_code)(pyd_status_t status);
  // Valid until status_free; "" for success.
  const char* (*status_text)(pyd_status_t status);
  // Five numbers, zeros when there are none. KERNEL: {command, x, y, z, code}.
  const int64_t* (*status_values)(pyd_status_t status);
  void (*status_free)(pyd_status_t status);

  // [GIL] A device by name, as for pydispatch.device(): "cpu", "cpu?workers=4", "local-sync". Devices of one name share
  // threads and memory, also with Python. UNAVAILABLE, INVALID_ARGUMENT; UNSUPPORTED for
  // a device that does not run on the CPU.
  pyd_status_t (*device_open)(const char* name, pyd_api_device_t** out_device);
  // [GIL] Returns a handle of a pydispatch device object (a PyObject*, borrowed). INVALID_ARGUMENT for another object.
  pyd_status_t (*device_from_python)(void* object, pyd_api_device_t** out_device);
  // [GIL] when it is the last reference.
  void (*device_release)(pyd_api_device_t* device);
  // Threads that run one dispatch or loop, including the calling one.
  uint32_t (*device_workers)(const pyd_api_device_t* device);

  // Returns 64-byte aligned memory of the device's pool. It is recycled, not cleared. Size 0 returns a valid, unique
  // address. OUT_OF_MEMORY.
  pyd_status_t (*pool_acquire)(pyd_api_device_t* device, size_t bytes, void** out_block);
  // [GIL] when it is the last reference to a released device. |block| may be NULL.
  void (*pool_release)(pyd_api_device_t* device, void* block);

  // Runs |body| for every index of a grid of x * y * z, x fastest, on this thread and the device's others, and returns
  // when all are done, with their writes visible. A grid below the break-even size runs on this thread alone. Bodies
  // may start loops and run calls. When one returns a code the rest is not started: KERNEL, with {0, x, y, z, code} of
  // the first index that is known to have failed. |cost| may be NULL.
  pyd_status_t (*parallel_for)(pyd_api_device_t* device, uint32_t x, uint32_t y, uint32_t z, pyd_api_body_fn_t body,
                               void* context, pyd_api_cost_t* cost);
  // Runs |body| on ranges of [0, count), as parallel_for. KERNEL: {0, index, 0, 0, code}.
  pyd_status_t (*parallel_range)(pyd_api_device_t* device, uint64_t count, pyd_api_range_fn_t body, void* context,
                                 pyd_api_cost_t* cost);

  // [GIL] Loads an artifact. |path| is in the encoding of the file system; |data| is copied. CORRUPT, SYSTEM,
  // UNAVAILABLE (no variant runs here), MISSING_IMPORT.
  pyd_status_t (*program_load_file)(pyd_api_device_t* device, const char* path, pyd_api_program_t** out_program);
  pyd_status_t (*program_load_bytes)(pyd_api_device_t* device, const void* data, size_t size,
                                     pyd_api_program_t** out_program);
  // [GIL] Returns a handle of a pydispatch.Program (a PyObject*, borrowed). Closing that object afterwards does not end
  // the handle. INVALID_ARGUMENT for another object or a closed one.
  pyd_status_t (*program_from_python)(void* object, pyd_api_program_t** out_program);
  // [GIL] when it is the last reference.
  void (*program_release)(pyd_api_program_t* program);
  // Borrowed from the program.
  pyd_api_device_t* (*program_device)(const pyd_api_program_t* program);
  // The public functions. NULL when |index| is too large.
  uint32_t (*program_function_count)(const pyd_api_program_t* program);
  const pyd_api_function_t* (*program_function)(const pyd_api_program_t* program, uint32_t index);
  // INVALID_ARGUMENT names the existing functions.
  pyd_status_t (*program_find)(const pyd_api_program_t* program, const char* name,
                               const pyd_api_function_t** out_function);

  // Prepares a call for fixed sizes. |dims|: the sizes of all tensor arguments one after another; |scalars|: one word
  // per scalar argument, in order. The counts must be those of the function; an empty array may be NULL.
  // INVALID_ARGUMENT names the argument, the axis and both sizes.
  pyd_status_t (*call_prepare)(const pyd_api_function_t* function, const int64_t* dims, uint32_t dims_count,
                               const uint64_t* scalars, uint32_t scalar_count, pyd_api_call_t** out_call);
  // [GIL] when it is the last reference to a released program. A call that runs or was submitted runs on.
  void (*call_release)(pyd_api_call_t* call);
  // Bytes of a tensor; 0 for a scalar and for an invalid index. The sizes of results of a function with control flow or
  // state are only known after a run: until then 0 bytes, and NULL for their sizes; any memory may be bound.
  uint64_t (*call_argument_bytes)(const pyd_api_call_t* call, uint32_t index);
  uint64_t (*call_result_bytes)(const pyd_api_call_t* call, uint32_t index);
  // Sizes of a tensor result, as many as its rank; NULL for a scalar. Valid while the call is.
  const int64_t* (*call_result_dims)(const pyd_api_call_t* call, uint32_t index);
  // Alignment in bytes at which memory is used in place: less aligned memory costs a copy per run. 1: any.
  uint32_t (*call_argument_alignment)(const pyd_api_call_t* call, uint32_t index);
  uint32_t (*call_result_alignment)(const pyd_api_call_t* call, uint32_t index);
  // Binds |bytes| bytes of memory, at least as many as the tensor has, until other memory is bound or the call is
  // released. Arguments are only read. A result may overlap an argument: it is written after the run. Runs
  // refuse results that overlap each other; strided ones, see memory_import, may interleave. |data| may be NULL for a
  // tensor of no bytes.
  pyd_status_t (*call_bind_argument)(pyd_api_call_t* call, uint32_t index, const void* data, size_t bytes);
  pyd_status_t (*call_bind_result)(pyd_api_call_t* call, uint32_t index, void* data, size_t bytes);
  // Sets the values of all scalar arguments. INVALID_ARGUMENT when they would change a size, a grid or a check.
  pyd_status_t (*call_set_scalars)(pyd_api_call_t* call, const uint64_t* scalars, uint32_t scalar_count);
  // Runs on this thread and the device's others and returns when all commands are done. May be repeated, also after a
  // failure. KERNEL names executable, export, workgroup and code; results are unspecified then. INVALID_ARGUMENT when
  // a buffer was never bound, or when the call is already running in another thread. OUT_OF_MEMORY.
  // Output that kernels and plugins print through C stays in the buffers of stdio: unlike a call from Python, a run
  // flushes neither these nor sys.stdout. Call fflush(NULL) yourself where the order of the output matters.
  pyd_status_t (*call_run)(pyd_api_call_t* call);
  // A scalar result of the last successful run, as a 64-bit word.
  pyd_status_t (*call_scalar_result)(const pyd_api_call_t* call, uint32_t index, uint64_t* out_word);

  // [GIL] Provides a function for an imported symbol of programs that this device loads afterwards (plugin.h has the
  // type; `program.imports` prints the structure of its params). The provider with the highest |priority| is queried
  // first; among equals, the last added. When neither the device nor a program needs it any more, |release|(|owner|) is
  // called once, on any thread, with the GIL; it may be NULL, and is not called after a failure. |out_id|, which may be
  // NULL, receives an id for device_remove_provider, never 0. The device is one of device_open or device_from_python.
  pyd_status_t (*device_add_import)(pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function, void* context,
                                    int32_t priority, void (*release)(void* owner), void* owner, uint64_t* out_id);
  // [GIL] Registers a plugin that is linked into the process, by its query function, which must stay valid.
  // INVALID_ARGUMENT, UNSUPPORTED, CORRUPT name the broken rule.
  pyd_status_t (*device_add_plugin)(pyd_api_device_t* device, const char* name, pyd_plugin_query_fn_t query,
                                    int32_t priority, uint64_t* out_id);
  // [GIL] Removes a provider that this handle registered. Loaded programs keep the functions that they use.
  pyd_status_t (*device_remove_provider)(pyd_api_device_t* device, uint64_t id);

  // The memory of a tensor result after a run: the bound memory, or, for a function whose sizes are only known then,
  // memory of the call, valid until the next successful run. NULL before.
  const void* (*call_result_data)(const pyd_api_call_t* call, uint32_t index);

  // As call_run, and ends early with INTERRUPTED when |interrupt| requests it: results are unspecified then, globals
  // keep their values, and the call may be run again. NULL: as call_run, which nothing interrupts. A workgroup that has
  // begun always finishes. INVALID_ARGUMENT when the structure is incomplete.
  pyd_status_t (*call_run_until)(pyd_api_call_t* call, const pyd_api_interrupt_t* interrupt);
  // [GIL], every 50 milliseconds at most, and only on Python's main thread; elsewhere it is 0. For |is_wanted|: Ctrl-C
  // and other signals that Python has handlers for. |context| is a uint64_t that is 0 when the call begins. When a
  // handler has raised, its exception is set in the thread: propagate it, as after any failed function of Python's C
  // API.
  int32_t (*is_signalled)(void* context);

  // [GIL] Provides a host command (host_command.h) for programs that this device loads afterwards; otherwise as
  // device_add_import. |function| is passed a const pyd_host_command_t*, |context| and NULL.
  pyd_status_t (*device_add_command)(pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function,
                                     void* context, int32_t priority, void (*release)(void* owner), void* owner,
                                     uint64_t* out_id);

  // Runs |call| on the device's threads, asynchronously. Until it has ended, the call may be used for nothing else and
  // its memory must stay allocated; then its results are valid. |options| and |out_event| may be NULL. Refused as
  // call_run refuses; all later failures are in event_status. Calls of a function with mutable state keep the order in
  // which they were submitted. SYSTEM without a thread to run it.
  pyd_status_t (*call_submit)(pyd_api_call_t* call, const pyd_api_submit_t* options, pyd_api_event_t** out_event);
  // Runs parallel_range asynchronously. |cost|, which may be NULL, must stay allocated until the end.
  pyd_status_t (*parallel_range_submit)(pyd_api_device_t* device, uint64_t count, pyd_api_range_fn_t body,
                                        void* context, pyd_api_cost_t* cost, const pyd_api_submit_t* options,
                                        pyd_api_event_t** out_event);
  // Waits until the call has ended, for |nanoseconds| at most. A thread that waits PYD_API_FOREVER runs the call itself
  // when no other thread has begun it. A status only when |event| or |interrupt| is refused, and INTERRUPTED when
  // |interrupt| (NULL: never) ended the waiting; that the time has passed, or that the call has failed, is in
  // |*out_outcome|, a pyd_api_outcome_t that may be NULL.
  pyd_status_t (*event_wait)(pyd_api_event_t* event, uint64_t nanoseconds, const pyd_api_interrupt_t* interrupt,
                             uint32_t* out_outcome);
  // A pyd_api_outcome_t, without waiting; also for calls that were submitted before a fork: they are cancelled in the
  // child.
  uint32_t (*event_outcome)(pyd_api_event_t* event);
  // Returns the status of the call, which the event owns: do not free it. NULL for success and before the end.
  pyd_status_t (*event_status)(pyd_api_event_t* event);
  // Requests an early end: a call that waits for a thread ends at once, one that runs between two workgroups as
  // call_run_until does, one that waits for other calls after them. 1 when it had neither ended nor changed globals: it
  // will not succeed. Else 0, and nothing changes.
  uint32_t (*event_cancel)(pyd_api_event_t* event);
  // The call runs on. [GIL] when it is the last reference to a released device or program.
  void (*event_release)(pyd_api_event_t* event);
  // Returns name |index| of the kind |kind| (pyd_status_name_t) that a status refers to. Valid until status_free; NULL
  // if |index| is too large. KERNEL: executable and export; MISSING_IMPORT: executable and symbols; COMMAND: the host
  // command.
  const char* (*status_name)(pyd_status_t status, uint32_t kind, uint32_t index);
  // Ends the device's threads: cancels submitted calls, and returns when all of them have ended and every |on_done| has
  // returned. Callers of call_run finish their calls. Later calls start the threads again. Release the
  // GIL around it, since bodies and callbacks may want it. INVALID_ARGUMENT on a thread that works for the device.
  pyd_status_t (*device_close)(pyd_api_device_t* device);
  // [GIL] As device_open for "cpu", with threads and memory that it shares with no other device. |options| may be NULL.
  // INVALID_ARGUMENT; SYSTEM when a thread cannot be started.
  pyd_status_t (*device_create)(const pyd_api_device_options_t* options, pyd_api_device_t** out_device);
  // Donates this thread to a device that was created with |lends_threads|. Returns when |until| (NULL: never) requests
  // it or the device is closed. |until| is polled between two jobs, and every 50 milliseconds while there is none.
  // Submitted calls do not progress while no thread is donated and no thread waits for them; call_run and loops use the
  // donated threads. INVALID_ARGUMENT for a device that starts its own threads, for more threads than the device has
  // workers, while the device is being closed, and on a thread that works for a device. Closing returns the threads
  // that are donated at that time, not those that are donated later. Release the GIL around it.
  pyd_status_t (*device_lend_thread)(pyd_api_device_t* device, const pyd_api_interrupt_t* until);

  // The executables of a program: which variant runs here, and what it imports. INVALID_ARGUMENT.
  uint32_t (*program_executable_count)(const pyd_api_program_t* program);
  pyd_status_t (*program_executable)(const pyd_api_program_t* program, uint32_t index,
                                     pyd_api_executable_t* out_executable);
  // The host commands that a program calls, by name; no text when |index| is too large.
  uint32_t (*program_host_command_count)(const pyd_api_program_t* program);
  pyd_api_text_t (*program_host_command)(const pyd_api_program_t* program, uint32_t index);
  // The commands that a call runs for the sizes that it was prepared for. A function with control flow or state decides
  // that while it runs: 0. INVALID_ARGUMENT.
  uint32_t (*call_command_count)(const pyd_api_call_t* call);
  pyd_status_t (*call_command)(const pyd_api_call_t* call, uint32_t index, pyd_api_command_t* out_command);
  // Bytes of the temporary memory that a run needs; 0 for a function with control flow or state.
  uint64_t (*call_arena_bytes)(const pyd_api_call_t* call);
  // As call_run_until, and measures each command: |out_times| has |count| entries, call_command_count of them. Commands
  // run one after another, each on all threads, so that their times do not depend on one another; the whole takes
  // longer than call_run. UNSUPPORTED for a function with control flow or state. After a failure those that did not run
  // have zeros.
  pyd_status_t (*call_run_timed)(pyd_api_call_t* call, const pyd_api_interrupt_t* interrupt, pyd_api_time_t* out_times,
                                 uint32_t count);

  // Memory of the embedder (api/memory.h): after a success |info|->release is called exactly once, on any thread and
  // with no lock held, when the handle and every call that it is bound to have released it, calls in flight included.
  // INVALID_ARGUMENT, OUT_OF_MEMORY.
  pyd_status_t (*memory_import)(pyd_api_device_t* device, const pyd_api_memory_info_t* info,
                                pyd_api_memory_t** out_memory);
  // [GIL] when it is the last reference to a released device.
  void (*memory_release)(pyd_api_memory_t* memory);
  // As call_bind_argument and call_bind_result. Element type and sizes must be those of the tensor. The call holds
  // |memory| until other memory is bound or the call is released. Memory whose elements do not lie in row-major order,
  // or that is less aligned than the call needs, costs a copy per run. INVALID_ARGUMENT names what differs; for a
  // result also when the memory is read-only, when two of its elements may be at one address, or when the call writes
  // more bytes than the elements have.
  pyd_status_t (*call_bind_argument_memory)(pyd_api_call_t* call, uint32_t index, pyd_api_memory_t* memory);
  pyd_status_t (*call_bind_result_memory)(pyd_api_call_t* call, uint32_t index, pyd_api_memory_t* memory);
  // From now on each run puts tensor results that no memory is bound for into memory of |allocator|, which
  // call_result_data returns. The call owns this memory: it is used again by the next run and released with the call,
  // unless call_take_result takes it. NULL: no allocator from now on; memory of the allocator before is released.
  pyd_status_t (*call_set_result_allocator)(pyd_api_call_t* call, const pyd_allocator_t* allocator);
  // Hands over the memory of a result from that allocator after a run: the caller releases |*out_bytes| bytes to the
  // allocator, and the next run allocates new memory. |*out_bytes| is the size of the tensor, or 1 if that is 0.
  // INVALID_ARGUMENT when the result has no such memory.
  pyd_status_t (*call_take_result)(pyd_api_call_t* call, uint32_t index, void** out_data, size_t* out_bytes);
  // [GIL] As program_load_file and program_load_bytes, with values for the parameters of the program (api/load.h).
  // INVALID_ARGUMENT names the parameter that is missing, or whose type or sizes differ from those of the program.
  pyd_status_t (*program_load)(pyd_api_device_t* device, const pyd_api_load_t* options,
                               pyd_api_program_t** out_program);
} pyd_api_t;

// ---- on the extension's side

// Whether |table|, a const pyd_api_t*, has the slot |member|.
#define PYD_API_HAS(table, member) \
  ((table)->size >= offsetof(pyd_api_t, member) + sizeof(((const pyd_api_t*)0)->member))

// Returns |table|, which the capsule points to, if it has |version| and at least |size| bytes; else NULL.
static inline const pyd_api_t* pyd_api_accept(const void* table, uint32_t version, size_t size) {
  const pyd_api_t* api = (const pyd_api_t*)table;
  return api && api->version == version && api->size >= size ? api : NULL;
}

#ifdef Py_PYTHON_H  // only after Python.h; the rest of the header does not need it

// Returns the table, valid until the process ends, or NULL with an ImportError that names both versions. Call it with
// the GIL.
static inline const pyd_api_t* pyd_api_import(void) {
  // PyCapsule_Import does not import modules inside a package.
  PyObject* module = PyImport_ImportModule(PYD_API_MODULE);
  if (!module) return NULL;
  const pyd_api_t* found = (const pyd_api_t*)PyCapsule_Import(PYD_API_CAPSULE, 0);
  Py_DECREF(module);
  if (!found) return NULL;
  const pyd_api_t* api = pyd_api_accept(found, PYD_API_VERSION, sizeof(pyd_api_t));
  if (!api) {
    PyErr_Format(PyExc_ImportError,
                 "this extension needs version %u of pydispatch's C table with %zu bytes; the installed pydispatch has "
                 "version %u with %zu: install a newer pydispatch, or build the extension against this one",
                 PYD_API_VERSION, sizeof(pyd_api_t), (unsigned)found->version, (size_t)found->size);
  }
  return api;
}

#endif  // Py_PYTHON_H

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_API_H_
