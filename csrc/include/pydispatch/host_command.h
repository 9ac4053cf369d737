// For authors of host commands: code of the host that programs call between their dispatches, in the order of the
// device.
//
//   static int checksum(void* params, void* context, void* reserved) {
//     const pyd_host_command_t* command = params;
//     const pyd_host_operand_t* in = pyd_host_operand(command, 0);
//     if (in->kind != PYD_HOST_TENSOR) return pyd_host_fail(command, "operand 0 is no tensor");
//     ...
//     return 0;
//   }
//
// The function has the type of pydispatch/plugin.h. A device gets it by device.add_command("checksum", address),
// by device_add_command of api.h, or by a plugin that lists it as PYD_PLUGIN_COMMAND("checksum", checksum).
//
// Threads. A command is called on any thread, one command of a call at a time; calls that run at once call it at once.
// The structure and what it refers to are valid until the function returns. A command may load and run other programs,
// not the one that calls it.
#ifndef PYDISPATCH_HOST_COMMAND_H_
#define PYDISPATCH_HOST_COMMAND_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Kind of the device that runs the program, and what a host command does with its operands there. A C command that was
// registered as synchronous is called on every device when all earlier commands are complete, with process memory.
typedef enum pyd_host_device_e {
  PYD_HOST_CPU = 0,          // reads and writes their memory; all earlier commands are complete
  PYD_HOST_CUDA = 1,         // enqueues work on |stream|; earlier commands may still be running
  PYD_HOST_VULKAN = 2,       // records into |command_buffer|; runs with the same memory and scalars reuse it
  PYD_HOST_INTERPRETER = 3,  // interpreter of PTX: as on the CPU
  PYD_HOST_WEBGPU = 4,       // records into the encoder |command_buffer|, outside of a pass; called in each run
} pyd_host_device_t;

typedef enum pyd_host_kind_e { PYD_HOST_TENSOR = 0, PYD_HOST_SCALAR = 1 } pyd_host_kind_t;

// What a command does with the memory of an operand.
typedef enum pyd_host_access_e {
  PYD_HOST_READ = 1,
  PYD_HOST_WRITE = 2,       // its content is undefined before
  PYD_HOST_READ_WRITE = 3,  // updated in place
} pyd_host_access_t;

// An operand of one call of a command.
typedef struct pyd_host_operand_s {
  uint32_t kind;         // pyd_host_kind_t
  uint32_t access;       // pyd_host_access_t; scalars are read
  uint32_t dtype;        // element type: numerical type << 24 | bits, as in api.h
  uint32_t rank;         // of a tensor
  const int64_t* sizes;  // |rank| of them; elements are dense, in row-major order
  uint64_t bytes;        // of a tensor
  // Memory of a tensor. CPU, interpreter, and synchronous commands of other devices: address in the process. CUDA:
  // CUdeviceptr. Vulkan: VkBuffer. WebGPU: WGPUBuffer.
  void* data;
  uint64_t offset;  // bytes into the VkBuffer or WGPUBuffer; 0 elsewhere
  uint64_t word;    // of a scalar: an integer is sign-extended, a float is its bits
} pyd_host_operand_t;

typedef struct pyd_host_command_s pyd_host_command_t;

// Runs indices [begin, end) of a loop in order. Returns 0, or a code that ends the loop, with the index in
// |*out_failed|. |worker|: bodies that run at the same time have different ones.
typedef int32_t (*pyd_host_body_fn_t)(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);

// One call of a host command, a function of the user, as the function receives it: the operands, and what it may call.
// This structure and pyd_host_operand_t grow at their ends only.
struct pyd_host_command_s {
  size_t struct_size;   // of this structure, in bytes
  size_t operand_size;  // of one operand, in bytes: see pyd_host_operand
  const char* name;     // as the program names it
  uint32_t device;      // pyd_host_device_t
  uint32_t operand_count;
  const pyd_host_operand_t* operands;
  // Sets the text of the error for a command that then returns nonzero; copied. The first of several texts is used.
  void (*fail)(const pyd_host_command_t* command, const char* text);
  // Runs |body| over [0, count) on the workers of the device; 0, or the code of a body. On a GPU: on this thread.
  int32_t (*parallel_for)(const pyd_host_command_t* command, uint64_t count, pyd_host_body_fn_t body, void* self);
  void* stream;          // CUDA: CUstream, whose context is current
  void* command_buffer;  // Vulkan: VkCommandBuffer in the recording state; WebGPU: WGPUCommandEncoder
  void* handle;          // CUDA: CUcontext. Vulkan: VkDevice. WebGPU: WGPUDevice
};

// Returns operand |index|, below operand_count. The host's operands may be larger than the type that this header
// declares.
static inline const pyd_host_operand_t* pyd_host_operand(const pyd_host_command_t* command, uint32_t index) {
  return (const pyd_host_operand_t*)((const char*)command->operands + index * command->operand_size);
}

// Sets the text of the error and returns the code of a failure, for `return pyd_host_fail(command, "...")`.
static inline int pyd_host_fail(const pyd_host_command_t* command, const char* text) {
  command->fail(command, text);
  return 1;
}

// Prefix of the symbol by which providers of imports are queried for a host command: "command:NAME".
#define PYD_HOST_COMMAND_PREFIX "command:"
#define PYD_PLUGIN_COMMAND(name, function) {PYD_HOST_COMMAND_PREFIX name, function, 0}

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_HOST_COMMAND_H_
