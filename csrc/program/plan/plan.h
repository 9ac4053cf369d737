// A plan: a function specialized for sizes. Immutable, apart from what the task system learns about costs.
//
// Order of the files. Each calls those above it alone:
//   describe.c   questions about a plan, and its commands in words
//   learned.c    costs of workgroups from earlier plans
//   arena.c      the layout of transients
//   stage.c      copies of bindings that are not aligned
//   contract.c   what generated kernels rely on, checked for each dispatch
//   written.c    what commands write of a result in place
//   chain.c      dispatches that run tile by tile
//   commands.c   instructions become commands
//   plan.c       sizes become a plan; owns pyd_plan_t
#ifndef PYD_PROGRAM_PLAN_H_
#define PYD_PROGRAM_PLAN_H_

#include "program/internal.h"

// A string for "%.*s".
#define STRING(s) (int)(s).length, (s).data ? (s).data : ""

// An arena up to this size is part of each call; a larger one is borrowed from the pool while the call runs.
#define PYD_ARENA_KEPT_BYTES (UINT64_C(256) << 10)

typedef struct pyd_plan_command_s {
  uint64_t start;  // first index inside its region
  uint64_t count;  // workgroups or pieces
  uint8_t kind;    // pyd_command_kind_t
  uint8_t pattern_bytes;
  bool overlaps;    // a copy within one buffer whose ranges meet: one piece, memmove
  uint32_t number;  // of the command in the function, for messages
  uint32_t region;
  uint32_t first_slot;
  uint32_t slot_count;
  uint32_t alignment;  // in bytes, that its slots need
  // Dispatch:
  uint32_t export;
  uint32_t grid[3];
  uint32_t local_bytes;
  uint32_t tile_groups;  // workgroups of a tile, in a chain
  // Dispatch and host command:
  uint32_t first_constant;
  uint32_t constant_count;
  // Host command:
  uint32_t command;           // of the program
  pyd_custom_counts_t first;  // in the function: its number, its operands, its sizes
  // Fill and copy:
  uint64_t pattern;
  uint64_t length;
} pyd_plan_command_t;

// A buffer as one command sees it.
typedef struct pyd_plan_slot_s {
  uint32_t buffer;
  uint64_t offset;
  uint64_t length;
} pyd_plan_slot_t;

// A slot as its buffer sees it: what to write when the buffer gets an address.
typedef struct pyd_plan_patch_s {
  uint64_t offset;
  uint32_t slot;
} pyd_plan_patch_t;

// A constant word or pattern that depends on a scalar which is not part of the key.
typedef struct pyd_plan_deferred_s {
  uint32_t reg;
  uint32_t target;  // constant word, or command for a pattern
  uint8_t is_pattern;
  uint8_t is_high;
} pyd_plan_deferred_t;

// What runs between two points where everything before is complete.
typedef struct pyd_plan_step_s {
  uint32_t first_command;
  uint32_t command_count;
  uint64_t total;  // indices; 1: not worth a job
  uint64_t chunk;  // not 0: a chain, whose indices are tiles; so many of them go through all its commands at a time
} pyd_plan_step_t;

struct pyd_plan_s {
  const pyd_program_t* program;
  pyd_allocator_t allocator;  // what |size| bytes of it came from; the program may be gone when it is freed
  size_t size;
  const pyd_function_t* fn;
  int64_t* dims;
  uint64_t* scalars;
  uint64_t* regs;
  int64_t* result_dims;
  uint64_t* buffer_bytes;
  uint64_t* buffer_offset;  // transients: in the arena
  uint32_t* buffer_alignment;
  uint32_t* buffer_tile;  // transients that only tiles are kept of: bytes of a tile, else 0. Then the offset is in
                          // |tile_area|
  uint32_t* patch_first;  // by buffer, and one more
  pyd_plan_patch_t* patches;
  pyd_plan_slot_t* slots;
  uint32_t* constants;
  pyd_plan_deferred_t* deferred;
  int64_t* sizes;                // of the tensors that host commands are given
  pyd_plan_command_t* commands;  // those that run nothing included
  pyd_plan_step_t* steps;
  pyd_sched_cost_t* costs;  // by step
  uint64_t arena_bytes;
  uint64_t tile_area;                  // bytes behind the arena for each worker, for the tiles of a chunk
  uint64_t stage_bytes, stage_offset;  // of one more transient, number |fn->buffer_count|: see stage.c
  uint32_t slot_count, constant_count, deferred_count, command_count, step_count;
  pyd_custom_counts_t custom;
  uint32_t local_bytes;  // the most that a command needs, per worker
};

// arena.c: places |count| blocks; block i is needed in regions first[i] to last[i]. Offsets are 64-byte aligned, blocks
// that are needed at the same time do not overlap. OUT_OF_MEMORY when the sizes do not fit into 63 bits.
typedef struct pyd_arena_block_s {
  uint64_t bytes;
  uint32_t first, last;
  uint64_t offset;  // filled in
} pyd_arena_block_t;
pyd_status_t pyd_arena_place(pyd_arena_block_t* blocks, uint32_t count, uint64_t* out_bytes);

// commands.c: one per command of the function, after all registers and buffer sizes are known.
pyd_status_t pyd_plan_add_commands(pyd_plan_t* plan);

// chain.c: whether the commands from |first| on are a chain. Then |*out_step| is its step, and they are part of it.
bool pyd_plan_form_chain(pyd_plan_t* plan, uint32_t first, pyd_plan_step_t* out_step);
// When all steps are there: which transients only tiles are kept of, and how long the others live.
pyd_status_t pyd_plan_place_tiles(pyd_plan_t* plan, pyd_arena_block_t* lifetimes);

// contract.c: CORRUPT when a dispatch, whose slots and constants are there, breaks the contract of its export.
// |constants|: the registers of its record.
pyd_status_t pyd_plan_check_contract(const pyd_plan_t* plan, const pyd_plan_command_t* command,
                                     const uint32_t* constants);

// Whether a tile of |groups| workgroups touches no more than |bytes| of binding |index|, those with the number of the
// tile. Without a contract the program is believed.
bool pyd_plan_keeps_tile(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, uint64_t bytes);
// Which bindings of a dispatch are written, one bit each: all that its contract does not say to be only read.
uint64_t pyd_plan_written_bindings(const pyd_plan_t* plan, const pyd_plan_command_t* command);

// learned.c: what steps of a new plan are expected to cost, as far as plans for other sizes have shown.
void pyd_plan_expect_costs(pyd_plan_t* plan);
// Keeps what the first run of |step| has shown for other plans.
void pyd_plan_note_cost(const pyd_plan_t* plan, uint32_t step);
// Picoseconds of one index of |step|, 0 when not known.
static inline uint32_t pyd_plan_known_cost(const pyd_plan_t* plan, uint32_t step) {
  return __atomic_load_n(&plan->costs[step].picoseconds, __ATOMIC_RELAXED);
}

// written.c: the bytes of a result that has the memory of the argument that it is tied to, as far as commands write
// them. False when these are more than |most| ranges.
typedef struct pyd_range_s {
  uint64_t offset, bytes;
} pyd_range_t;
bool pyd_plan_find_written(const pyd_plan_t* plan, uint32_t result, uint32_t most, pyd_range_t* out_ranges,
                           uint32_t* out_count);

// stage.c: puts copies around the dispatches with bindings that lie less aligned than their executable needs, after all
// commands are there. At most |pyd_plan_stage_count| bindings of a function are copied, each by two commands.
uint32_t pyd_plan_stage_count(const pyd_function_t* fn);
pyd_status_t pyd_plan_stage(pyd_plan_t* plan);

// describe.c: names for people: "argument 1 ('b')".
void pyd_plan_name_value(const char* kind, uint32_t index, pyd_string_t name, char* text, size_t size);
void pyd_plan_name_argument(const pyd_function_t* fn, uint32_t argument, char* text, size_t size);
void pyd_plan_name_buffer(const pyd_function_t* fn, uint32_t buffer, char* text, size_t size);

#endif  // PYD_PROGRAM_PLAN_H_
