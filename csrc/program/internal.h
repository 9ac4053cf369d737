// The decoded program, as the folders of csrc/program share it. decode/ has verified everything here: indices are in
// range and registers are written before they are read, so the other folders do not check them again.
//
// Order of the folders and files; each uses only those before it: decode/, scalar/, plan/ and commands/; call/, which
// runs plans; derived.c, which runs calls to compute constants, and which calls reach through program->derived
// (derived.h); procedure/, which uses all of them.
#ifndef PYD_PROGRAM_INTERNAL_H_
#define PYD_PROGRAM_INTERNAL_H_

#include "program/opcodes.h"
#include "pydispatch/program_device.h"

#define PYD_NONE PYD_PROGRAM_NONE

// Counts the steps of decoding, for the test that proves it linear; compiles to nothing elsewhere.
#ifdef PYD_COUNTS_WORK
extern uint64_t pyd_work;
#define PYD_COUNT_WORK(steps) (pyd_work += (steps))
#else
#define PYD_COUNT_WORK(steps) ((void)0)
#endif

// Flags of a register.
enum {
  PYD_REG_WRITTEN = 1,     // an instruction before the current one writes it; used by the verifier
  PYD_REG_STRUCTURAL = 2,  // a size, grid, offset, length, export or check depends on it
  PYD_REG_LATE = 4,        // it depends on a scalar that is not part of a plan's key, so each call computes it
  PYD_REG_NEEDED = 8,      // a constant, a pattern or a scalar result depends on it
};

// A buffer of a function: the memory of an argument, result or constant, or transient memory of the call.
typedef struct pyd_buffer_s {
  uint32_t kind;         // PYD_BUFFER_ARGUMENT, RESULT, TRANSIENT or CONSTANT
  uint32_t index;        // of the argument, result or constant; meaningless for a transient
  uint32_t size_reg;     // result and transient: the register that holds its size in bytes; else unused
  uint32_t first, last;  // transient: the first and the last region that use it, both included
  uint32_t tile_bytes;   // transient: its bytes per tile of its chain; 0 if it is used outside of one chain
  // Used by the verifier: 1 + the last region with a command that may read it, and 1 + the first region with a command
  // that is known to write it; 0: none.
  uint32_t read_until, written_from;
} pyd_buffer_t;

// Location of the value of an argument of a function.
typedef struct pyd_arg_slot_s {
  uint32_t buffer;     // tensor: its buffer, or NONE if no command uses it; scalar: NONE
  uint32_t first_dim;  // tensor: index of its first size in the caller's array of the sizes of all tensors
  uint32_t scalar;     // scalar: index into the caller's array of scalars
  bool keyed;          // scalar: it is part of a plan's key, the values for which the plan is specialized
  bool is_read;        // scalar: an instruction reads it
} pyd_arg_slot_t;

// Location of the value of a result of a function, with the sizes of a tensor.
typedef struct pyd_result_slot_s {
  uint32_t target;       // tensor: its buffer; scalar: the register that holds its value
  const uint32_t* dims;  // tensor: one register per size
  uint32_t first_dim;    // tensor: index of its first size in |result_dims| of a plan
} pyd_result_slot_t;

// Counts of the host commands of a function, of their operands (tensors and scalars), and of the sizes of all tensor
// operands: one size per axis.
typedef struct pyd_custom_counts_s {
  uint32_t commands, operands, sizes;
} pyd_custom_counts_t;

// A function: straight-line code of scalar instructions on registers, some of which are commands on buffers.
typedef struct pyd_function_s {
  pyd_program_function_t info;
  pyd_arg_slot_t* args;
  pyd_result_slot_t* results;
  pyd_buffer_t* buffers;
  pyd_insn_t* insns;
  const uint32_t* pool;  // words that instructions refer to by index: records of commands, positions of messages
  uint8_t* reg_flags;    // by register: PYD_REG_*
  uint32_t* commands;    // instruction index of each command
  uint32_t* deferred;    // instruction index of each instruction that every call computes again
  uint32_t* keyed;       // of each scalar that is part of a plan's key: its index in the caller's array of scalars
  // |region_count|: the commands of one region are independent of each other; regions run one after another.
  uint32_t buffer_count, insn_count, pool_count, reg_count, region_count;
  uint32_t scalar_count, keyed_count, result_dims_count;
  uint32_t command_count, deferred_count;
  uint32_t slot_count;      // ranges of buffers that all commands together name
  uint32_t constant_count;  // constants of all commands together
  pyd_custom_counts_t custom;
  uint32_t deferred_value_count;  // constants and patterns in registers with PYD_REG_LATE
} pyd_function_t;

// Limits of dispatch chains (plan/chain.c): a workgroup of a chain, given by tile, command and number within the tile,
// fits 63 bits.
enum { PYD_CHAIN_MAX_COMMANDS = 1 << 8, PYD_CHAIN_MAX_GROUPS = (1 << 24) - 1, PYD_CHAIN_MAX_TILES = INT32_MAX };
// Bytes of a tile of a transient buffer are a multiple of this, so that each tile is aligned for any kernel.
enum { PYD_TILE_ALIGNMENT = 64 };

#define PYD_EXPORT_COST_CLASSES 16  // size classes of the cost history, see plan/learned.c

// A kernel of an executable. The fields after "Linked" are set with the executable.
typedef struct pyd_export_s {
  uint32_t executable;
  uint32_t ordinal;   // in the library for which the program was compiled
  pyd_string_t name;  // by which it is found in the linked library; empty: it is found by |ordinal|
  uint32_t constant_count, binding_count;
  uint32_t* costs;  // cost history: picoseconds of a workgroup by size class, 0 if unknown; accessed atomically
  // Linked:
  uint32_t linked_ordinal;  // in the library
  pyd_dispatch_fn_t function;
  const pyd_library_export_attrs_t* attrs;
  const pyd_program_t* contracts;         // the program with its contract; NULL: it has none
  const struct pyd_function_s* contract;  // of |contracts|: what the kernel requires of a dispatch
} pyd_export_t;

// The code of a host command.
typedef struct pyd_command_link_s {
  pyd_import_fn_t function;  // NULL until linked
  void* context;
} pyd_command_link_t;

// Code that is linked as an executable of the program.
typedef struct pyd_executable_link_s {
  const pyd_executable_t* executable;    // NULL on a device that loads it by itself
  const pyd_environment_t* environment;  // of |executable|, passed to its kernels; NULL without an executable
  uint32_t variant;                      // index of the chosen variant
  uint32_t alignment;                    // bytes, required of its bindings; 0 until linked
  bool is_embedded;                      // its kernels have the calling convention of embedded code
} pyd_executable_link_t;

// The result of a query, a property of the device that the program asks for.
typedef struct pyd_query_link_s {
  uint64_t fallback;  // the result of the query if not |found|
  uint64_t value;     // its result if |found|
  bool found;         // the device has a result
} pyd_query_link_t;

// The opcodes of procedures, one row each; a test compares them with pydispatch/formats/program/steps.py.
#define PYD_STEPS(X) \
  X(RUN, 1)          \
  X(MOVE, 2)         \
  X(JUMP, 3)         \
  X(BRANCH, 4)       \
  X(READ, 5)         \
  X(LOAD, 6)         \
  X(STORE, 7)        \
  X(OBSERVE, 8)      \
  X(DROP, 9)         \
  X(RETURN, 10)      \
  X(CONSTANT, 11)    \
  X(SCALAR, 12)      \
  X(DIM, 13)         \
  X(VIEW, 14)        \
  X(SAVE, 15)

// Operations of steps.
typedef enum pyd_step_op_e {
#define X(name, number) PYD_STEP_##name = number,
  PYD_STEPS(X)
#undef X
} pyd_step_op_t;

// Flag of a slot operand: the step is the last to read the slot, and empties it.
#define PYD_LAST_USE 0x80000000u

// The type of a slot of a procedure.
typedef struct pyd_slot_type_s {
  uint32_t kind;   // 0 tensor, 1 scalar
  uint32_t dtype;  // as in pyd_program_value_t
  uint32_t rank;   // 0 for a scalar
} pyd_slot_type_t;

// An instruction of a procedure.
typedef struct pyd_step_s {
  uint32_t op;          // pyd_step_op_t
  uint32_t a, b, c, d;  // operands, whose meaning depends on |op|: docs/program.md, "Procedures"
} pyd_step_t;

// A procedure: steps with jumps over slots, each of which holds a tensor, a scalar or nothing.
typedef struct pyd_procedure_s {
  pyd_program_function_t info;
  uint32_t* arg_slots;     // by argument: the slot that holds it when the first step begins
  pyd_slot_type_t* slots;  // types of the slots
  pyd_step_t* steps;
  const uint32_t* pool;  // words that steps refer to by index: lists of slots, sizes
  uint32_t slot_count, step_count, pool_count;
  // Maxima over all steps, which size the scratch arrays of a frame.
  uint32_t max_moves, max_dims, max_scalars, max_regs, max_args, max_results;
  bool has_stores;     // it stores to globals
  bool loads_mutable;  // it loads mutable globals; without stores, its calls take a snapshot at their beginning
} pyd_procedure_t;

// A variable of a loaded program, which procedures load and store.
typedef struct pyd_global_s {
  pyd_string_t name;
  pyd_program_value_t type;  // dims: static sizes, or -1
  uint32_t constant;         // tensor: the constant that is its initial value, or NONE: it has none
  uint64_t value;            // scalar: its initial value, as a register holds it
  bool is_mutable;           // procedures may store to it
} pyd_global_t;

// A decoded and verified program. Arrays are indexed by the number of their entry, unless stated otherwise.
struct pyd_program_s {
  uint32_t* words;  // a copy of the file
  uint32_t word_count;
  pyd_span_t strings;
  uint32_t executable_count, export_count, query_count, constant_count, derivation_count, function_count;
  pyd_program_executable_t* executables;
  pyd_executable_link_t* links;
  pyd_export_t* exports;
  uint32_t* exports_first;  // by executable, plus an end: index of its first entry in |exports_of|
  uint32_t* exports_of;     // numbers of exports, grouped by executable
  pyd_program_query_t* queries;
  pyd_query_link_t* query_links;
  pyd_program_constant_t* constants;
  pyd_span_t* constant_links;  // data is NULL until linked, and always for derived constants
  bool* constant_is_mapped;    // by constant: its bytes are in a read-only mapping of a file
  pyd_program_derivation_t* derivations;
  pyd_derived_t* derived;  // may be NULL without derivations
  pyd_function_t* functions;
  uint32_t command_count;
  pyd_program_command_t* commands;  // host commands
  pyd_command_link_t* command_links;
  uint32_t procedure_count, global_count, initializer_count, check_count, parameter_count;
  pyd_procedure_t* procedures;
  pyd_global_t* globals;
  const uint32_t* initializers;  // numbers of procedures that run in this order when the program is loaded
  pyd_program_check_t* checks;
  pyd_program_parameter_t* parameters;
  bool has_contracts;  // an export has a contract
  uint64_t fp_mode;    // floating-point mode in which scalar instructions are computed, whatever the caller's mode is
  pyd_chain_options_t chains;
  pyd_allocator_t allocator;          // of plans and calls
  pyd_runner_t runner;                // runs calls; `run` is NULL: this process runs them
  pyd_device_memory_t device_memory;  // of tensors in procedures; `run` is NULL: memory of this process
  void* blocks;                       // list of all allocations above
};

// derived.c: returns the bytes of constant |index|, after computing it if it is derived. INVALID_ARGUMENT if it is not
// linked; otherwise the status of the function that computes it.
pyd_status_t pyd_program_constant_data(const pyd_program_t* program, uint32_t index, const uint8_t** out_data);

// Allocates |count| * |size| zeroed bytes that are freed with the program; NULL when out of memory. Empty arrays share
// one address.
void* pyd_program_allocate(pyd_program_t* program, size_t count, size_t size);

// The fields of a DISPATCH record in the pool, which is a sequence of words in this order.
typedef struct pyd_dispatch_view_s {
  uint32_t export_reg;
  const uint32_t* grid;  // 3 registers
  uint32_t constant_count;
  const uint32_t* constants;
  uint32_t binding_count;
  const uint32_t* bindings;  // 3 words each: buffer, offset register, length register
} pyd_dispatch_view_t;

// Reads the DISPATCH record that begins at |record|. Words: 0 the export, 1 to 3 the grid, 4 the number C of constants,
// from 5 the constants, 5 + C the number of bindings, from 6 + C the bindings. All these words must be in the pool.
static inline pyd_dispatch_view_t pyd_dispatch_view(const uint32_t* record) {
  pyd_dispatch_view_t view = {
      .export_reg = record[0], .grid = record + 1, .constant_count = record[4], .constants = record + 5};
  view.binding_count = record[5 + view.constant_count];
  view.bindings = record + 6 + view.constant_count;
  return view;
}

// Flag of a register operand that is a 32-bit constant: the upper half of the register instead of the lower.
#define PYD_CONSTANT_HIGH 0x80000000u

// decode/verify.c: verifies the instructions of |fn| and computes the fields that are derived from them.
pyd_status_t pyd_function_verify(pyd_program_t* program, pyd_function_t* fn);
// decode/analyse.c: computes the flags of the registers of |fn| from its instructions and the contracts of the exports
// that it dispatches. May run again.
pyd_status_t pyd_function_analyse(pyd_program_t* program, pyd_function_t* fn);
// Finds for each register of |fn| the export whose number it holds; PYD_NONE if it is not a constant.
void pyd_function_find_exports(const pyd_program_t* program, const pyd_function_t* fn, uint32_t* out_exports);

// plan/contract.c: indices of the results of a contract, the function that states which grid and bindings a kernel
// requires: the largest grid (x, y, z), the bit set of written bindings, and from BYTES on a size per binding.
enum { PYD_CONTRACT_GRID = 0, PYD_CONTRACT_WRITTEN = 3, PYD_CONTRACT_BYTES = 4 };
// Returns whether |export| has a contract that reads constant |word|, a number among the export's 32-bit constants.
bool pyd_contract_reads(const pyd_export_t* export, uint32_t word);
// decode/verify_procedure.c: verifies the steps of |procedure|, after all functions and globals are decoded.
pyd_status_t pyd_procedure_verify(const pyd_program_t* program, pyd_procedure_t* procedure);

// scalar/interpret.c: runs the scalar instructions of |fn| and skips its commands. |dims| may be NULL without DIM
// instructions.
pyd_status_t pyd_function_interpret(const pyd_program_t* program, const pyd_function_t* fn, const int64_t* dims,
                                    const uint64_t* scalars, uint64_t* regs);
// Runs the instructions again that depend on scalars outside of the plan's key, on registers that
// pyd_function_interpret() has filled.
pyd_status_t pyd_function_interpret_late(const pyd_program_t* program, const pyd_function_t* fn,
                                         const uint64_t* scalars, uint64_t* regs);

#endif  // PYD_PROGRAM_INTERNAL_H_
