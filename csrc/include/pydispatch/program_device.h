// For devices that execute plans themselves, such as GPUs: executables that are not in this process, the commands of a
// plan as data, and a hook that receives calls. The CPU only needs program.h.
//
// Functions, prepared calls and procedures then work on the device: the runner receives buffers in host memory and
// copies them as needed. With pyd_device_memory_t the tensors of procedures are in device memory.
#ifndef PYDISPATCH_PROGRAM_DEVICE_H_
#define PYDISPATCH_PROGRAM_DEVICE_H_

#include "pydispatch/program.h"

#ifdef __cplusplus
extern "C" {
#endif

// Links an executable of the device, which has checked exports and layouts itself. Otherwise as
// pyd_program_set_executable.
pyd_status_t pyd_program_set_device_executable(pyd_program_t* program, uint32_t index, uint32_t variant,
                                               uint32_t alignment);

// A kernel of a program: |ordinal| is its number in the executable.
typedef struct pyd_export_info_s {
  uint32_t executable;
  uint32_t ordinal;
  pyd_string_t name;  // may be empty
  uint32_t constant_count, binding_count;
} pyd_export_info_t;

// The kernels of all executables. |index| is less than their count.
uint32_t pyd_program_export_count(const pyd_program_t* program);
void pyd_program_export(const pyd_program_t* program, uint32_t index, pyd_export_info_t* out_info);

// The hook with which a device runs whole calls.
typedef struct pyd_runner_s {
  // Runs |call| to its end and returns its status. pyd_call_run, and a task of the call, use it in place of kernels of
  // this process. All arguments and results are bound; pyd_call_constants and pyd_call_pattern have the values for the
  // scalars of this call. Called from any thread, concurrently.
  pyd_status_t (*run)(void* self, pyd_call_t* call);
  void* self;
} pyd_runner_t;

// Sets the runner, before any call. Not thread safe. |runner.self| outlives the program.
void pyd_program_set_runner(pyd_program_t* program, pyd_runner_t runner);

// Memory of a device. It holds the tensors of procedures while they run, and globals between calls. A block is an
// opaque handle of device memory. Called from any thread, concurrently.
typedef struct pyd_device_memory_s {
  void* self;
  // Runs |call| like |run| of pyd_runner_t, but pyd_call_buffer returns blocks, not host addresses. A result may have
  // the block of the argument that it is tied to.
  pyd_status_t (*run)(void* self, pyd_call_t* call);
  // Acquires a block of at least |bytes| bytes, with any content.
  pyd_status_t (*acquire)(void* self, uint64_t bytes, void** out_block);
  // Acquires the block of constant |index| of the program, which is only read.
  pyd_status_t (*constant)(void* self, uint32_t index, void** out_block);
  // Releases a block of |acquire| or |constant|, once for each of their calls.
  void (*release)(void* self, void* block);
  // Copies |bytes| bytes from offset |at| of block |source| to offset |to| of block |target|. Offsets are in bytes.
  pyd_status_t (*copy)(void* self, void* source, uint64_t at, void* target, uint64_t to, uint64_t bytes);
  // Copies |bytes| bytes from offset |at| of a block to |target|, memory of this process.
  pyd_status_t (*read)(void* self, void* block, uint64_t at, void* target, uint64_t bytes);
  // Copies |bytes| bytes from |source|, memory of this process, to the beginning of a block.
  pyd_status_t (*write)(void* self, void* block, const void* source, uint64_t bytes);
} pyd_device_memory_t;

// Sets the memory, before the first state of the program. The program also needs a runner (pyd_program_set_runner):
// without one its calls are prepared for kernels and memory of this process. Not thread safe. |memory.self| outlives
// the program.
void pyd_program_set_device_memory(pyd_program_t* program, pyd_device_memory_t memory);

#ifndef PYD_MORE_COMMANDS
#define PYD_MORE_COMMANDS(X)  // a test has one more
#endif

// The kinds of commands, in order: X(NAME, opcode in docs/program.md).
#define PYD_COMMANDS(X) \
  X(DISPATCH, 80)       \
  X(FILL, 81)           \
  X(COPY, 82)           \
  X(CUSTOM, 83)         \
  PYD_MORE_COMMANDS(X)

// Kind of a command: PYD_COMMAND_DISPATCH, FILL, COPY, or CUSTOM for a host command.
typedef enum pyd_command_kind_e {
#define X(name, opcode) PYD_COMMAND_##name,
  PYD_COMMANDS(X)
#undef X
} pyd_command_kind_t;

// A range of a buffer that a command reads or writes.
typedef struct pyd_command_slot_s {
  uint32_t buffer;  // index of the buffer in the plan, see pyd_plan_buffer
  uint64_t offset;  // bytes
  uint64_t length;  // bytes
} pyd_command_slot_t;

// A command of a plan, as devices run it.
typedef struct pyd_command_info_s {
  uint32_t kind;        // pyd_command_kind_t
  uint32_t region;      // commands of one region are independent
  bool is_empty;        // it runs nothing; its slots are undefined
  uint32_t slot_count;  // bindings in order; the target of a fill; source and target of a copy
  // Of a dispatch:
  uint32_t executable, export, ordinal;  // |export| counts all exports of the program
  pyd_string_t name;                     // of the export, may be empty
  uint32_t grid[3];
  // Of a dispatch and of a host command:
  uint32_t constant_count;
  uint32_t first_constant;  // in the constants of the plan
  // Of a host command:
  uint32_t command;  // its number in the program
  // Of a fill:
  uint64_t pattern;
  uint32_t pattern_bytes;
} pyd_command_info_t;

// |index| < pyd_plan_command_count.
void pyd_plan_command(const pyd_plan_t* plan, uint32_t index, pyd_command_info_t* out_info);
void pyd_plan_command_slot(const pyd_plan_t* plan, uint32_t index, uint32_t slot, pyd_command_slot_t* out_slot);
// The sizes of the tensor operands of a host command, one after another.
const int64_t* pyd_plan_command_sizes(const pyd_plan_t* plan, uint32_t index);

enum { PYD_BUFFER_ARGUMENT = 0, PYD_BUFFER_RESULT, PYD_BUFFER_TRANSIENT, PYD_BUFFER_CONSTANT };

// A buffer of a plan.
typedef struct pyd_buffer_info_s {
  uint32_t kind;    // PYD_BUFFER_*
  uint32_t index;   // of the argument or result in the function, or of the constant in the program
  uint64_t bytes;   // its size
  uint64_t offset;  // of a transient: bytes from the beginning of the arena
} pyd_buffer_info_t;

// The buffers of a plan, which slots refer to. |index| is less than their count.
uint32_t pyd_plan_buffer_count(const pyd_plan_t* plan);
void pyd_plan_buffer(const pyd_plan_t* plan, uint32_t index, pyd_buffer_info_t* out_info);

// The 32-bit constants of all dispatches, one after another. Constants that depend on scalars outside the plan's key
// have values for the scalars that the plan was created with.
uint32_t pyd_plan_constant_count(const pyd_plan_t* plan);
const uint32_t* pyd_plan_constants(const pyd_plan_t* plan);
// Whether constants, patterns or scalar results change with scalars that are not part of the key.
bool pyd_plan_has_deferred(const pyd_plan_t* plan);
// The bytes of a linked constant of the program.
pyd_span_t pyd_program_constant_bytes(const pyd_program_t* program, uint32_t index);

// Values that depend on the scalars of one call: |out_constants| all constants of the plan, |out_patterns| one per
// command (0 for commands other than fills), |out_scalars| one per result (0 for tensors). INVALID_ARGUMENT where a
// division is impossible.
pyd_status_t pyd_plan_compute(const pyd_plan_t* plan, const uint64_t* scalars, uint32_t* out_constants,
                              uint64_t* out_patterns, uint64_t* out_scalars);

// For a runner and a device's memory. |buffer| is the index of a buffer of the plan: the memory of an argument or
// result, NULL when no command uses it.
const pyd_plan_t* pyd_call_plan(const pyd_call_t* call);
void* pyd_call_buffer(const pyd_call_t* call, uint32_t buffer);
const uint32_t* pyd_call_constants(const pyd_call_t* call);
uint64_t pyd_call_pattern(const pyd_call_t* call, uint32_t command);
// The function, sizes and scalars that the plan was created for, which identify it among the plans of the program.
const pyd_program_t* pyd_plan_program(const pyd_plan_t* plan);
uint32_t pyd_plan_function(const pyd_plan_t* plan);
const pyd_program_function_t* pyd_plan_function_info(const pyd_plan_t* plan);
const int64_t* pyd_plan_dims(const pyd_plan_t* plan);
const uint64_t* pyd_plan_scalars(const pyd_plan_t* plan, uint32_t* out_count);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PROGRAM_DEVICE_H_
