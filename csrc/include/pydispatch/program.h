// Host programs: what a compiled function does between its arguments and its results. docs/program.md has the format.
//
//   bytes ─ decode ─ program ─ link executables ─ specialize for shapes ─ plan ─ call: bind buffers ─ run
//
// A program and its plans are immutable once linked and may be used from any thread. A call is used by one thread at a
// time.
#ifndef PYDISPATCH_PROGRAM_H_
#define PYDISPATCH_PROGRAM_H_

#include "pydispatch/allocator.h"
#include "pydispatch/executable.h"
#include "pydispatch/host_command.h"
#include "pydispatch/pool.h"
#include "pydispatch/sched.h"
#include "pydispatch/span.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PYD_PROGRAM_MAGIC 0x50584450u  // "PDXP"
#define PYD_PROGRAM_VERSION 3u
#define PYD_PROGRAM_OLDEST_VERSION 2u  // that is read, too: it has no derived constants
#define PYD_PROGRAM_NONE 0xFFFFFFFFu
#define PYD_PROGRAM_MAX_RANK 32u

typedef struct pyd_program_s pyd_program_t;
typedef struct pyd_plan_s pyd_plan_t;
typedef struct pyd_call_s pyd_call_t;
typedef struct pyd_derived_s pyd_derived_t;

// A text in a program.
typedef struct pyd_string_s {
  const char* data;  // not terminated
  uint32_t length;
} pyd_string_t;

// Decodes and verifies: every index, offset, count and register is in range, every register is written before it is
// read, regions do not go backwards, lifetimes cover their uses. Specializing an accepted program never
// accesses memory outside its tables. |bytes| is copied. CORRUPT names the function, the instruction and the fault.
pyd_status_t pyd_program_decode(pyd_span_t bytes, pyd_program_t** out_program);
void pyd_program_free(pyd_program_t* program);

// A group of kernels that is compiled once for each target.
typedef struct pyd_program_executable_s {
  pyd_string_t name;
  // Its argument is the index of the chosen variant, its results are the executable constants. PYD_PROGRAM_NONE: none.
  uint32_t constants_function;
  uint32_t variant_count;              // in the order of the manifest
  const uint32_t* variant_conditions;  // per variant a function with one i1 result, or PYD_PROGRAM_NONE
} pyd_program_executable_t;

// A property of the device that the program asks for, such as a feature of the CPU.
typedef struct pyd_program_query_s {
  pyd_string_t category;
  pyd_string_t key;
} pyd_program_query_t;

// The source of a constant's bytes: a member of the artifact, a parameter, or a derivation.
typedef struct pyd_program_constant_s {
  pyd_string_t member;  // name inside the artifact; empty for a parameter and a derivation
  uint64_t offset;      // of the elements inside the member, bytes
  uint64_t length;      // bytes
  uint32_t parameter;   // index of the parameter whose bytes the user supplies; else PYD_PROGRAM_NONE
  uint32_t derivation;  // index of the derivation that computes the bytes; else PYD_PROGRAM_NONE
} pyd_program_constant_t;

// Constants that a function computes from other constants: |first_constant| and the following, one per result.
typedef struct pyd_program_derivation_s {
  uint32_t function;  // without arguments
  uint32_t first_constant;
} pyd_program_derivation_t;

// A tensor, such as a weight, that is not in the artifact: the user supplies its bytes when the program is loaded.
// Constants refer to it by its index.
typedef struct pyd_program_parameter_s {
  pyd_string_t scope;  // the set of tensors that |key| is looked up in; may be empty
  pyd_string_t key;    // name of the tensor in its scope
  uint32_t dtype;      // numerical type << 24 | bits, as in docs/program.md
  uint32_t rank;
  const int64_t* dims;  // sizes in elements, as many as the rank
} pyd_program_parameter_t;

// An assertion in a procedure. A run only records the values that it is about (pyd_invocation_observation); the caller
// compares them.
typedef struct pyd_program_check_s {
  uint32_t kind;  // of the comparison, such as 3 for expect_eq; the table in docs/program.md lists all
  pyd_string_t name;
  pyd_string_t location;  // in the source; may be empty
  double atol, rtol;      // absolute and relative tolerance; docs/program.md has their meaning for expect_close
} pyd_program_check_t;

// Kinds of values.
enum { PYD_KIND_TENSOR, PYD_KIND_SCALAR };

// An argument or a result, or an operand of a host command.
typedef struct pyd_program_value_s {
  uint32_t kind;        // PYD_KIND_TENSOR or PYD_KIND_SCALAR
  uint32_t dtype;       // numerical type << 24 | bits, as in docs/program.md
  uint32_t rank;        // 0 for a scalar
  const int64_t* dims;  // of an argument: static size or -1; NULL for results
  pyd_string_t name;    // may be empty
  uint32_t tied;        // of a tensor result: the argument whose memory it may reuse in place; else UINT32_MAX
} pyd_program_value_t;

// A host command that the program calls, as it declares it.
typedef struct pyd_program_command_s {
  pyd_string_t name;
  uint32_t operand_count;
  const pyd_program_value_t* operands;  // dims: sizes, -1 where they are known in calls only
  const uint32_t* accesses;             // by operand: pyd_host_access_t
} pyd_program_command_t;

// A function of a program, with its signature.
typedef struct pyd_program_function_s {
  pyd_string_t name;
  pyd_string_t signature;  // MLIR function type, for people
  bool is_public;
  uint32_t arg_count;
  const pyd_program_value_t* args;
  uint32_t result_count;
  const pyd_program_value_t* results;
  uint32_t dims_count;  // sum of the ranks of the arguments: the length of |dims| of pyd_plan_create
} pyd_program_function_t;

// The tables of a program. |index| is less than the count; results are valid until the program is freed.
uint32_t pyd_program_executable_count(const pyd_program_t* program);
const pyd_program_executable_t* pyd_program_executable(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_query_count(const pyd_program_t* program);
const pyd_program_query_t* pyd_program_query(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_constant_count(const pyd_program_t* program);
const pyd_program_constant_t* pyd_program_constant(const pyd_program_t* program, uint32_t index);
// A derivation reads stored constants, parameters, and the constants of derivations with lower indices.
uint32_t pyd_program_derivation_count(const pyd_program_t* program);
const pyd_program_derivation_t* pyd_program_derivation(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_function_count(const pyd_program_t* program);
const pyd_program_function_t* pyd_program_function(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_procedure_count(const pyd_program_t* program);
const pyd_program_function_t* pyd_program_procedure(const pyd_program_t* program, uint32_t index);
// Whether calls of a procedure read or write globals that change, so that their order matters. |index| must exist.
bool pyd_program_procedure_uses_globals(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_parameter_count(const pyd_program_t* program);
const pyd_program_parameter_t* pyd_program_parameter(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_command_count(const pyd_program_t* program);
const pyd_program_command_t* pyd_program_command(const pyd_program_t* program, uint32_t index);
uint32_t pyd_program_check_count(const pyd_program_t* program);
const pyd_program_check_t* pyd_program_check(const pyd_program_t* program, uint32_t index);

// Linking, in this order, before any plan: results of queries, constants, executables. None is thread safe.
void pyd_program_set_query(pyd_program_t* program, uint32_t index, bool found, uint64_t value);
// |bytes|: all bytes of the constant; borrowed.
pyd_status_t pyd_program_set_constant(pyd_program_t* program, uint32_t index, pyd_span_t bytes);
// Declares that the bytes of constant |index| are in a mapping of a file that is never written. A derivation that has
// read them drops their pages (pyd_file_drop_pages), since calls rarely read what derived constants replace.
void pyd_program_set_constant_mapped(pyd_program_t* program, uint32_t index);
// |variant| is the index of the chosen variant, which host code may read. |alignment|: bytes that the executable needs
// its bindings aligned to, a power of two up to PYD_POOL_ALIGNMENT. Checks that each export exists (by name, see
// docs/program.md) and agrees in its constants and bindings. Borrowed. A refusal changes nothing.
pyd_status_t pyd_program_set_executable(pyd_program_t* program, uint32_t index, const pyd_executable_t* executable,
                                        uint32_t variant, uint32_t alignment);
// The executable that was linked and its chosen variant; NULL before, and on a device that runs executables by itself.
const pyd_executable_t* pyd_program_linked_executable(const pyd_program_t* program, uint32_t index,
                                                      uint32_t* out_variant);

// The code of host command |index|, which outlives the program. Without it, plans that call the command are refused,
// unless a runner (program_device.h) runs them.
pyd_status_t pyd_program_set_command(pyd_program_t* program, uint32_t index, pyd_import_fn_t function, void* context);
// For a command that is code of another runtime, before it returns nonzero: what it raised, which is attached to the
// COMMAND status; see pyd_status_attach. Takes ownership of |object|; of several in one call, the first is attached.
// |release| is the same function for all calls of a command.
void pyd_host_command_raised(const pyd_host_command_t* command, void* object, void (*release)(void* object));

// Sets the contracts of a linked executable's exports: |functions| has for each ordinal of its library a function of
// |contracts| (docs/artifact.md), or PYD_PROGRAM_NONE. Plans that break one are refused. |contracts| must outlive
// |program|. CORRUPT for a function that does not fit its export.
pyd_status_t pyd_program_set_contracts(pyd_program_t* program, uint32_t executable, pyd_program_t* contracts,
                                       const uint32_t* functions, uint32_t count);
// Adds the scalars that contracts read to the keys of plans. Call after all contracts are set, before the first plan.
pyd_status_t pyd_program_apply_contracts(pyd_program_t* program);

// The memory of derived constants: blocks of |pool|, each computed by the first run that needs it, whose interrupt
// cancels the computation; other runs wait for it meanwhile. Programs may share one when their bytes, executables and
// parameters are equal. |sched| may be NULL.
pyd_status_t pyd_derived_create(const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool,
                                pyd_derived_t** out_derived);
void pyd_derived_free(pyd_derived_t* derived);
// Handlers of a fork.
void pyd_derived_fork_prepare(pyd_derived_t* derived);
void pyd_derived_fork_done(pyd_derived_t* derived);
void pyd_derived_fork_child(pyd_derived_t* derived);
// Before the first call of a program that has derivations. |derived| must outlive |program| and its calls.
// INVALID_ARGUMENT when it was created for another number of constants.
pyd_status_t pyd_program_set_derived(pyd_program_t* program, pyd_derived_t* derived);

// How dispatches that depend on each other tile by tile are run (docs/program.md, "Chains"). All zero: one after
// another.
typedef struct pyd_chain_options_s {
  uint64_t cache_bytes;  // that tiles may fill on each worker
  uint64_t least_tiles;  // fewer tiles than this are no chain: they would keep too few workers busy
} pyd_chain_options_t;
// Before any plan; not thread safe. Only for kernels of this process.
void pyd_program_set_chains(pyd_program_t* program, pyd_chain_options_t options);
// Where plans and calls of the program come from; all zero: the C library. Copied. Before any plan; not thread safe.
void pyd_program_set_allocator(pyd_program_t* program, const pyd_allocator_t* allocator);
// Required alignment of each constant in bytes; the caller must copy less aligned ones. Derived ones are aligned.
pyd_status_t pyd_program_constant_alignments(const pyd_program_t* program, uint32_t* out_alignments);

// Runs a function that only computes scalars (a condition, executable constants). |out_results|: 64-bit register
// values.
pyd_status_t pyd_program_evaluate(const pyd_program_t* program, uint32_t function, const uint64_t* scalars,
                                  uint64_t* out_results);

// Checks the sizes of one tensor argument, as many as its rank, and computes its size in bytes. INVALID_ARGUMENT with
// the message of a call of |function|: "@f: argument 0 'x': axis 1: expected 4 elements, got 5".
pyd_status_t pyd_program_check_argument(const pyd_program_function_t* function, uint32_t index, const int64_t* dims,
                                        uint64_t* out_bytes);

// Specializes |function|: |dims| holds the sizes of all tensor arguments one after another, |scalars| one 64-bit word
// per scalar argument in order (sign-extended integers; float bits). The caller checks ranks; sizes are
// checked here: INVALID_ARGUMENT names the argument, the axis, both sizes. Grids: x, y < 2^32, z <= 65535, products and
// byte counts are checked 64-bit arithmetic.
pyd_status_t pyd_plan_create(const pyd_program_t* program, uint32_t function, const int64_t* dims,
                             const uint64_t* scalars, pyd_plan_t** out_plan);
void pyd_plan_free(pyd_plan_t* plan);

// True when the plan was created for these sizes and for the same values of the scalars that reach a size, a grid or a
// check; other scalars are patched into each call.
bool pyd_plan_matches(const pyd_plan_t* plan, const int64_t* dims, const uint64_t* scalars);
uint64_t pyd_plan_hash(const pyd_program_t* program, uint32_t function, const int64_t* dims, const uint64_t* scalars);

// Bytes of a single element, rounded up.
uint32_t pyd_element_bytes(uint32_t dtype);
// Bytes of a tensor: elements of whole bytes, or packed when they have 2 or 4 bits. A zero among |dims| makes it empty,
// however large the others are. False, and 0 bytes, when a size is negative or the bytes do not fit into 63 bits.
bool pyd_tensor_bytes(uint32_t dtype, uint32_t rank, const int64_t* dims, uint64_t* out_bytes);

// Bytes of a tensor argument; 0 for a scalar.
uint64_t pyd_plan_arg_bytes(const pyd_plan_t* plan, uint32_t arg);
const int64_t* pyd_plan_result_dims(const pyd_plan_t* plan, uint32_t result);
uint64_t pyd_plan_result_bytes(const pyd_plan_t* plan, uint32_t result);
// Required alignment of argument |arg| in bytes (1 when nothing reads it).
uint32_t pyd_plan_arg_alignment(const pyd_plan_t* plan, uint32_t arg);
uint32_t pyd_plan_result_alignment(const pyd_plan_t* plan, uint32_t result);
uint64_t pyd_plan_arena_bytes(const pyd_plan_t* plan);
uint32_t pyd_plan_command_count(const pyd_plan_t* plan);
// One line for people: "region 0: dispatch @executable::@simple_mul 16x1x1", for index < pyd_plan_command_count.
pyd_status_t pyd_plan_describe(const pyd_plan_t* plan, uint32_t index, char* buffer, size_t size);

// A call holds the state of one execution: filled dispatch states, binding tables, scratch memory, the arena. The plan,
// the scheduler and the pool must outlive it. Without a scheduler (NULL) the caller runs everything; without a pool
// (NULL) the call keeps its arena, however large.
pyd_status_t pyd_call_create(const pyd_plan_t* plan, pyd_sched_t* sched, pyd_pool_t* pool, pyd_call_t** out_call);
void pyd_call_free(pyd_call_t* call);
// Buffers: |data| has the size and alignment that the plan states. Bindings stay until they are replaced or undone.
void pyd_call_bind_arg(pyd_call_t* call, uint32_t arg, const void* data);
void pyd_call_bind_result(pyd_call_t* call, uint32_t result, void* data);
void pyd_call_unbind_result(pyd_call_t* call, uint32_t result);
// The scalar arguments of this call, one word each in order; only those that are patched may differ from the plan's.
void pyd_call_set_scalars(pyd_call_t* call, const uint64_t* scalars);
// Runs every command in order; a COMMAND status names the host command that failed; a KERNEL status names executable,
// export, workgroup and code, and carries the number of the command, the workgroup's x, y and z, and the code.
// INVALID_ARGUMENT when a buffer is not bound or the scalars make a division impossible; nothing has run then.
// Allocates nothing, except an arena that is too large to be retained between calls. Afterwards, failed or not, the
// call may be run again.
pyd_status_t pyd_call_run(pyd_call_t* call);
// Runs as pyd_call_run, and ends early with INTERRUPTED when |interrupt| (may be NULL) requests it: results are
// unspecified then, and the call may be run again. The interrupt is polled between two workgroups, after 1024 of them
// or a millisecond at the latest; a workgroup that has begun always finishes. Ignored with a runner (program_device.h).
pyd_status_t pyd_call_run_until(pyd_call_t* call, const pyd_interrupt_t* interrupt);
// Times of a command, in nanoseconds since the run began; both 0 for a command that ran nothing.
typedef struct pyd_command_time_s {
  uint64_t begin, end;
} pyd_command_time_t;
// Runs as pyd_call_run_until, but one command after another, each with all threads, and measures each command:
// |out_times| has room for pyd_plan_command_count. Commands of a chain run together and have
// one time. After a failure, commands that did not run have zeros. UNSUPPORTED with a runner.
pyd_status_t pyd_call_run_timed(pyd_call_t* call, const pyd_interrupt_t* interrupt, pyd_command_time_t* out_times);
// A scalar result of the last run, as a 64-bit register value.
uint64_t pyd_call_scalar_result(const pyd_call_t* call, uint32_t result);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PROGRAM_H_
