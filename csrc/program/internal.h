// The order of the files, each of which uses only those before it: decode/, scalar/, plan/ and commands/; call/, which
// runs plans; derived.c, which runs calls for constants, and which calls reach through program->derived (derived.h);
// procedure/, which runs all of them.
//
// A decoded program as the folders of csrc/program share it. Everything here was verified by decode/: indices
// are in range and registers are written before they are read, so that nothing below checks them again.
#ifndef PYD_PROGRAM_INTERNAL_H_
#define PYD_PROGRAM_INTERNAL_H_

#include "program/opcodes.h"
#include "pydispatch/program_device.h"

#define PYD_NONE PYD_PROGRAM_NONE

// Steps of reading a program, for the test that counts them; nothing elsewhere.
#ifdef PYD_COUNTS_WORK
extern uint64_t pyd_work;
#define PYD_COUNT_WORK(steps) (pyd_work += (steps))
#else
#define PYD_COUNT_WORK(steps) ((void)0)
#endif

// What a register is for.
enum {
  PYD_REG_WRITTEN = 1,     // while verifying
  PYD_REG_STRUCTURAL = 2,  // a size, grid, offset, length, export or check depends on it
  PYD_REG_LATE = 4,        // depends on a scalar that is not part of a plan's key
  PYD_REG_NEEDED = 8,      // late, and reaches a constant, a pattern or a scalar result
};

typedef struct pyd_buffer_s {
  uint32_t kind;
  uint32_t index;     // of the argument, result or constant
  uint32_t size_reg;  // or NONE
  uint32_t first, last;
  uint32_t tile_bytes;  // transient: what a tile of its chain has of it; 0: it is used otherwise, too
} pyd_buffer_t;

typedef struct pyd_arg_slot_s {
  uint32_t buffer;     // or NONE
  uint32_t first_dim;  // tensor: into the caller's sizes
  uint32_t scalar;     // scalar: into the caller's scalars
  bool keyed;          // scalar: part of a plan's key
  bool is_read;        // scalar: by an instruction
} pyd_arg_slot_t;

typedef struct pyd_result_slot_s {
  uint32_t target;       // buffer or register
  const uint32_t* dims;  // one register per size
  uint32_t first_dim;    // into the plan's result sizes
} pyd_result_slot_t;

// Numbers of what all calls of host commands in a function have together.
typedef struct pyd_custom_counts_s {
  uint32_t commands, operands, sizes;
} pyd_custom_counts_t;

typedef struct pyd_function_s {
  pyd_program_function_t info;
  pyd_arg_slot_t* args;
  pyd_result_slot_t* results;
  pyd_buffer_t* buffers;
  pyd_insn_t* insns;
  const uint32_t* pool;
  uint8_t* reg_flags;
  uint32_t* commands;  // instruction index of each
  uint32_t* deferred;  // instruction index of each that is computed again per call
  uint32_t* keyed;     // scalar number of each keyed scalar
  uint32_t buffer_count, insn_count, pool_count, reg_count, region_count;
  uint32_t scalar_count, keyed_count, result_dims_count;
  uint32_t command_count, deferred_count;
  uint32_t slot_count;      // buffers named by all commands together
  uint32_t constant_count;  // constants of all commands together
  pyd_custom_counts_t custom;
  uint32_t deferred_value_count;  // constants and patterns with a deferred register
} pyd_function_t;

// Chains, plan/chain.c. With these a workgroup of a chain is 63 bits: its tile, its command, its number in the tile.
enum { PYD_CHAIN_MAX_COMMANDS = 1 << 8, PYD_CHAIN_MAX_GROUPS = (1 << 24) - 1, PYD_CHAIN_MAX_TILES = INT32_MAX };
// What tiles of transients are a multiple of, so that each begins where any kernel may expect it.
enum { PYD_TILE_ALIGNMENT = 64 };

#define PYD_EXPORT_COST_CLASSES 16  // plan/learned.c

typedef struct pyd_export_s {
  uint32_t executable;
  uint32_t ordinal;
  pyd_string_t name;
  uint32_t constant_count, binding_count;
  uint32_t* costs;  // of a workgroup, by size class, in picoseconds; 0: not known. Learned; accessed atomically
  // Linked:
  uint32_t linked_ordinal;  // in the library
  pyd_dispatch_fn_t function;
  const pyd_library_export_attrs_t* attrs;
  const pyd_program_t* contracts;         // NULL: nothing is stated
  const struct pyd_function_s* contract;  // of |contracts|: what a dispatch must keep to
} pyd_export_t;

typedef struct pyd_command_link_s {
  pyd_import_fn_t function;  // NULL until linked
  void* context;
} pyd_command_link_t;

typedef struct pyd_executable_link_s {
  const pyd_executable_t* executable;  // NULL on a device that runs it by itself
  const pyd_environment_t* environment;
  uint32_t variant;
  uint32_t alignment;  // 0 until linked
  bool is_embedded;    // see base/embedded_library.h
} pyd_executable_link_t;

typedef struct pyd_query_link_s {
  uint64_t fallback;
  uint64_t value;
  bool found;
} pyd_query_link_t;

// The opcodes of procedures, one row each; pydispatch/formats/program/steps.py has them again, and a test compares the
// two.
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
  X(VIEW, 14)

typedef enum pyd_step_op_e {
#define X(name, number) PYD_STEP_##name = number,
  PYD_STEPS(X)
#undef X
} pyd_step_op_t;

#define PYD_LAST_USE 0x80000000u

typedef struct pyd_slot_type_s {
  uint32_t kind;  // 0 tensor, 1 scalar
  uint32_t dtype;
  uint32_t rank;
} pyd_slot_type_t;

typedef struct pyd_step_s {
  uint32_t op, a, b, c, d;
} pyd_step_t;

typedef struct pyd_procedure_s {
  pyd_program_function_t info;
  uint32_t* arg_slots;
  pyd_slot_type_t* slots;
  pyd_step_t* steps;
  const uint32_t* pool;
  uint32_t slot_count, step_count, pool_count;
  // What its steps need at most, for scratch memory.
  uint32_t max_moves, max_dims, max_scalars, max_regs, max_args, max_results;
  bool has_stores;
  bool loads_mutable;  // without stores: its calls see the globals as they were at their beginning
} pyd_procedure_t;

typedef struct pyd_global_s {
  pyd_string_t name;
  pyd_program_value_t type;  // dims: static sizes, or -1
  uint32_t constant;         // initial tensor or NONE
  uint64_t value;            // initial scalar
  bool is_mutable;
} pyd_global_t;

struct pyd_program_s {
  uint32_t* words;  // a copy of the file
  uint32_t word_count;
  pyd_span_t strings;
  uint32_t executable_count, export_count, query_count, constant_count, derivation_count, function_count;
  pyd_program_executable_t* executables;
  pyd_executable_link_t* links;
  pyd_export_t* exports;
  uint32_t* exports_first;  // by executable, and one more: into |exports_of|
  uint32_t* exports_of;     // numbers of exports, those of one executable together
  pyd_program_query_t* queries;
  pyd_query_link_t* query_links;
  pyd_program_constant_t* constants;
  pyd_span_t* constant_links;  // data is NULL until linked, and that of derived ones always
  pyd_program_derivation_t* derivations;
  pyd_derived_t* derived;  // may be NULL without derivations
  pyd_function_t* functions;
  uint32_t command_count;
  pyd_program_command_t* commands;  // host commands
  pyd_command_link_t* command_links;
  uint32_t procedure_count, global_count, initializer_count, check_count, parameter_count;
  pyd_procedure_t* procedures;
  pyd_global_t* globals;
  const uint32_t* initializers;  // procedures
  pyd_program_check_t* checks;
  pyd_program_parameter_t* parameters;
  bool has_contracts;
  pyd_chain_options_t chains;
  pyd_allocator_t allocator;          // of plans and calls
  pyd_runner_t runner;                // of calls; `run` is NULL: this process
  pyd_device_memory_t device_memory;  // of tensors in procedures; `run` is NULL: they lie in this process
  void* blocks;                       // everything above that was allocated, as a list
};

// derived.c: where the bytes of constant |index| are; derives them first where that is needed. INVALID_ARGUMENT when it
// is not linked, otherwise what running the function says.
pyd_status_t pyd_program_constant_data(const pyd_program_t* program, uint32_t index, const uint8_t** out_data);

// |count| * |size| zeroed bytes that live as long as the program, or NULL.
void* pyd_program_allocate(pyd_program_t* program, size_t count, size_t size);

// The fields of the pool record of a command.
typedef struct pyd_dispatch_view_s {
  uint32_t export_reg;
  const uint32_t* grid;  // 3 registers
  uint32_t constant_count;
  const uint32_t* constants;
  uint32_t binding_count;
  const uint32_t* bindings;  // 3 words each: buffer, offset register, length register
} pyd_dispatch_view_t;

static inline pyd_dispatch_view_t pyd_dispatch_view(const uint32_t* record) {
  pyd_dispatch_view_t view = {record[0], record + 1, record[4], record + 5, 0, NULL};
  view.binding_count = record[5 + view.constant_count];
  view.bindings = record + 6 + view.constant_count;
  return view;
}

#define PYD_CONSTANT_HIGH 0x80000000u

// decode/verify.c: checks the instructions of |fn| and fills everything that follows from them.
pyd_status_t pyd_function_verify(pyd_program_t* program, pyd_function_t* fn);
// decode/analyse.c: what each register of |fn| is for, from its instructions and the contracts of what it dispatches.
// May run again.
pyd_status_t pyd_function_analyse(pyd_program_t* program, pyd_function_t* fn);
// Which export each register of |fn| is the number of, PYD_NONE where that is computed.
void pyd_function_find_exports(const pyd_program_t* program, const pyd_function_t* fn, uint32_t* out_exports);

// plan/contract.c: the results of a contract.
enum { PYD_CONTRACT_GRID = 0, PYD_CONTRACT_WRITTEN = 3, PYD_CONTRACT_BYTES = 4 };
// Whether the contract of |export| reads constant |word|.
bool pyd_contract_reads(const pyd_export_t* export, uint32_t word);
// decode/verify_procedure.c: the same for the steps of |procedure|, when all functions and globals are there.
pyd_status_t pyd_procedure_verify(const pyd_program_t* program, pyd_procedure_t* procedure);

// scalar/interpret.c: runs the scalar part of |fn|; commands are passed over. |dims| may be NULL without DIM
// instructions.
pyd_status_t pyd_function_interpret(const pyd_program_t* program, const pyd_function_t* fn, const int64_t* dims,
                                    const uint64_t* scalars, uint64_t* regs);
// Only what depends on scalars that are not part of the key, over registers that pyd_function_interpret has filled.
pyd_status_t pyd_function_interpret_late(const pyd_program_t* program, const pyd_function_t* fn,
                                         const uint64_t* scalars, uint64_t* regs);

#endif  // PYD_PROGRAM_INTERNAL_H_
