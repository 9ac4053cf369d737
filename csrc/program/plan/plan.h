// A plan: a function specialized for sizes. Immutable, apart from cost estimates of the task system.
//
// Order of the files. Each calls only files above it:
//   describe.c   queries of a plan, and descriptions of its commands
//   learned.c    cost history of workgroups, from earlier plans
//   arena.c      layout of transient buffers
//   stage.c      aligned copies of bindings
//   contract.c   contracts of generated kernels, checked for each dispatch
//   written.c    ranges that commands write of a result in place
//   chain.c      tile-fused dispatch chains
//   commands.c   translation of instructions to commands
//   plan.c       creation of plans; owns pyd_plan_t
#ifndef PYD_PROGRAM_PLAN_H_
#define PYD_PROGRAM_PLAN_H_

#include "program/internal.h"

// The arguments of "%.*s" for a string.
#define STRING(s) (int)(s).length, (s).data ? (s).data : ""

// An arena up to this size is part of each call; a larger one is acquired from the pool for each run. A larger limit
// keeps more memory per idle call, a smaller one costs time in each run.
#define PYD_ARENA_KEPT_BYTES (UINT64_C(256) << 10)

// A command with the sizes of one plan.
typedef struct pyd_plan_command_s {
  uint64_t start;         // indices of all earlier commands of its step; in a chain: their workgroups
  uint64_t count;         // workgroups of a dispatch, pieces of a fill or copy (commands/pieces.h), 1 for a host
                          // command; 0: the command is empty and does nothing
  uint8_t kind;           // pyd_command_kind_t
  uint8_t pattern_bytes;  // of a fill: 1, 2, 4 or 8
  bool overlaps;          // a copy between overlapping ranges of one buffer: one piece, with memmove
  uint32_t number;        // of the command in the function; of a staging copy: of the command that it serves
  uint32_t region;        // regions run one after another; commands of one region may run at the same time
  uint32_t first_slot;    // index in the slots of the plan
  uint32_t slot_count;
  uint32_t alignment;  // bytes, required of its slots
  // Dispatch:
  uint32_t export;       // index in the exports of the program
  uint32_t grid[3];      // workgroups in x, y and z
  uint32_t local_bytes;  // local memory of a workgroup
  uint32_t tile_groups;  // workgroups of a tile, in a chain
  // Dispatch and host command:
  uint32_t first_constant;  // index in the constant words of the plan
  uint32_t constant_count;
  // Host command:
  uint32_t command;           // index in the host commands of the program
  pyd_custom_counts_t first;  // in the function: number of the command, and of its first operand and size
  // Fill and copy:
  uint64_t pattern;  // of a fill: its lower |pattern_bytes| bytes
  uint64_t length;   // bytes
} pyd_plan_command_t;

// A range of a buffer that one command uses.
typedef struct pyd_plan_slot_s {
  uint32_t buffer;  // index in the buffers of the function; |fn->buffer_count|: the staging buffer, see stage.c
  uint64_t offset;  // bytes
  uint64_t length;  // bytes
} pyd_plan_slot_t;

// A use of a buffer: slot |slot| gets the buffer's address plus |offset|.
typedef struct pyd_plan_patch_s {
  uint64_t offset;
  uint32_t slot;
} pyd_plan_patch_t;

// A constant word of a command, or the pattern of a fill, that depends on a scalar outside of the plan's key, so that
// each call computes it.
typedef struct pyd_plan_deferred_s {
  uint32_t reg;        // register with the value
  uint32_t target;     // index in the constant words of the plan, or of the fill in its commands
  uint8_t is_pattern;  // 1: the pattern of a fill; 0: a constant word
  uint8_t is_high;     // 1: the constant word is the upper half of the register; 0: the lower half
} pyd_plan_deferred_t;

// The commands between two barriers. They run as one job.
typedef struct pyd_plan_step_s {
  uint32_t first_command;
  uint32_t command_count;
  uint64_t total;  // indices of the job: the sum of |count| of its commands; of a chain: tiles. 1: it runs as a plain
                   // call
  uint64_t chunk;  // of a chain: tiles that go through all commands before the next ones begin; 0: not a chain
} pyd_plan_step_t;

// A function for given sizes of its arguments: everything that does not depend on addresses.
struct pyd_plan_s {
  const pyd_program_t* program;
  pyd_allocator_t allocator;  // of its |size| bytes; a copy, as the program may be freed before the plan
  size_t size;
  const pyd_function_t* fn;
  int64_t* dims;         // sizes of all tensor arguments, one after another
  uint64_t* scalars;     // by scalar argument: its value when the plan was created
  uint64_t* regs;        // by register: its value for |dims| and |scalars|
  int64_t* result_dims;  // sizes of all tensor results, one after another
  // By buffer of the function:
  uint64_t* buffer_bytes;
  uint64_t* buffer_offset;      // transients: in the arena
  uint32_t* buffer_alignment;   // bytes: what the commands that bind it in place require of its address
  uint32_t* buffer_tile_bytes;  // transients of which only tiles are stored: bytes of a tile, else 0. Their offset is
                                // in |tile_area|
  uint32_t* patch_first;        // by buffer, plus an end: index of its first patch
  pyd_plan_patch_t* patches;
  pyd_plan_slot_t* slots;
  uint32_t* constants;  // words of all dispatches and host commands, in the order of commands
  pyd_plan_deferred_t* deferred;
  int64_t* sizes;                // of the tensor operands of host commands
  pyd_plan_command_t* commands;  // including empty ones
  pyd_plan_step_t* steps;
  pyd_sched_cost_t* costs;  // by step
  uint64_t arena_bytes;
  uint64_t tile_area;                  // bytes per worker after the arena, for the tiles of a chunk
  uint64_t stage_bytes, stage_offset;  // of the staging buffer, transient number |fn->buffer_count|: see stage.c
  uint32_t slot_count, constant_count, deferred_count, command_count, step_count;
  pyd_custom_counts_t custom;
  uint32_t local_bytes;  // maximum local memory of a command, per worker
};

// A block of the arena, the memory of a call for transient buffers: size, lifetime and offset of one buffer.
typedef struct pyd_arena_block_s {
  uint64_t bytes;
  uint32_t first, last;  // regions of the function in which it is live, both included
  uint64_t offset;       // bytes from the beginning of the arena; set by pyd_arena_place()
} pyd_arena_block_t;

// arena.c: assigns offsets to |count| blocks, so that blocks that are live in the same region do not overlap. Offsets
// are 64-byte aligned. |*out_bytes|: size of the arena. OUT_OF_MEMORY when the sizes do not fit into 63 bits.
pyd_status_t pyd_arena_place(pyd_arena_block_t* blocks, uint32_t count, uint64_t* out_bytes);

// commands.c: creates one command of the plan per command of the function, after registers and buffer sizes are known.
pyd_status_t pyd_plan_add_commands(pyd_plan_t* plan);

// chain.c: returns whether the commands from |first| on form a chain that pays; then |*out_step| is its step.
bool pyd_plan_form_chain(pyd_plan_t* plan, uint32_t first, pyd_plan_step_t* out_step);
// Decides, after all steps are formed, of which transients only tiles are stored, and extends the |lifetimes| (by
// buffer) of the buffers that chains use. OUT_OF_MEMORY.
pyd_status_t pyd_plan_place_tiles(pyd_plan_t* plan, pyd_arena_block_t* lifetimes);

// contract.c: checks a dispatch with its slots and constants against the contract of its export; CORRUPT if it breaks
// it. |constants|: the registers of its constants.
pyd_status_t pyd_plan_check_contract(const pyd_plan_t* plan, const pyd_plan_command_t* command,
                                     const uint32_t* constants);

// Returns whether the workgroups of a tile access only the |bytes| bytes of binding |index| that belong to their tile.
// Without a contract the program is trusted.
bool pyd_plan_keeps_tile(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, uint64_t bytes);
// Returns the bit set of the bindings that a dispatch may write: all but those that its contract states as read-only.
uint64_t pyd_plan_written_bindings(const pyd_plan_t* plan, const pyd_plan_command_t* command);

// learned.c: initializes the cost estimates of a new plan from the cost history of plans for other sizes.
void pyd_plan_expect_costs(pyd_plan_t* plan);
// Adds the measured cost of |step| to the cost history, after its first run.
void pyd_plan_note_cost(const pyd_plan_t* plan, uint32_t step);
// Returns the estimated or measured cost of one index of the job of step |step|, in picoseconds; 0 if unknown.
static inline uint32_t pyd_plan_known_cost(const pyd_plan_t* plan, uint32_t step) {
  return __atomic_load_n(&plan->costs[step].picoseconds, __ATOMIC_RELAXED);
}

// A range of a buffer or block: its first byte, and its number of bytes.
typedef struct pyd_range_s {
  uint64_t offset, bytes;
} pyd_range_t;

// written.c: finds the ranges that commands write of a result which is stored in the memory of its tied argument.
// Returns false if there are more than |max_ranges|.
bool pyd_plan_find_written(const pyd_plan_t* plan, uint32_t result, uint32_t max_ranges, pyd_range_t* out_ranges,
                           uint32_t* out_count);

// stage.c: adds copies before and after dispatches with bindings that are less aligned than their executable requires,
// after all commands are created. At most pyd_plan_stage_count() bindings of a function are copied, by two commands
// each.
uint32_t pyd_plan_stage_count(const pyd_function_t* fn);
pyd_status_t pyd_plan_stage(pyd_plan_t* plan);

// describe.c: names of values for messages, such as "argument 1 'b'".
void pyd_plan_name_value(const char* kind, uint32_t index, pyd_string_t name, char* text, size_t size);
void pyd_plan_name_buffer(const pyd_function_t* fn, uint32_t buffer, char* text, size_t size);

#endif  // PYD_PROGRAM_PLAN_H_
