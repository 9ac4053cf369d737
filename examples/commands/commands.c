// The host commands of program.mlir in C: gcc -shared -fPIC commands.c -o commands.so -lz, with the folder of
// pydispatch.get_include(). The plugin at the end gives all of them to a CPU device: device.add_plugin("commands.so").
#include <string.h>
#include <zlib.h>

#define PYD_PLUGIN_SYSTEM
#include "pydispatch/host_command.h"
#include "pydispatch/plugin.h"

// The elements that center() updates, and the mean that it subtracts.
typedef struct centering_s {
  float* elements;
  float mean;
} centering_t;

// Updates the elements [begin, end). |self|: a centering_t.
static int32_t subtract(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const centering_t* c = self;
  (void)worker, (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) c->elements[i] -= c->mean;
  return 0;
}

// Subtracts the mean of all elements, f32. Registered as synchronous, so that operands are memory of the process on
// every device.
PYD_PLUGIN_EXPORT int center(void* params, void* context, void* reserved) {
  const pyd_host_command_t* command = params;
  const pyd_host_operand_t* x = pyd_host_operand(command, 0);
  (void)context, (void)reserved;
  if (!(x->access & PYD_HOST_WRITE)) return pyd_host_fail(command, "center updates its operand in place");
  const uint64_t count = x->bytes / sizeof(float);
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += ((const float*)x->data)[i];
  centering_t c = {x->data, count ? (float)(sum / (double)count) : 0};
  return command->parallel_for(command, count, subtract, &c);
}

// Compresses the bytes of operand 0 to operand 1, fills the rest of it with zeros, and stores the length in bytes in
// operand 2.
PYD_PLUGIN_EXPORT int pack(void* params, void* context, void* reserved) {
  const pyd_host_command_t* command = params;
  const pyd_host_operand_t *x = pyd_host_operand(command, 0), *packed = pyd_host_operand(command, 1);
  const pyd_host_operand_t* length = pyd_host_operand(command, 2);
  uLongf size = (uLongf)packed->bytes;
  (void)context, (void)reserved;
  if (compress2(packed->data, &size, x->data, (uLong)x->bytes, /* level */ 1) != Z_OK)
    return pyd_host_fail(command, "no room for zlib");
  memset((char*)packed->data + size, 0, packed->bytes - size);
  const int64_t compressed_bytes = (int64_t)size;
  memcpy(length->data, &compressed_bytes, sizeof(compressed_bytes));
  return 0;
}

typedef void (*fill_fn_t)(void* command_buffer, uint64_t buffer, uint64_t offset, uint64_t bytes, uint32_t word);
typedef int (*memset_fn_t)(uint64_t address, uint32_t word, size_t count, void* stream);

// Fills the operand, f32, with 1. |context|: vkCmdFillBuffer of Vulkan, cuMemsetD32Async of CUDA; unused on the CPU.
PYD_PLUGIN_EXPORT int ones(void* params, void* context, void* reserved) {
  const pyd_host_command_t* command = params;
  const pyd_host_operand_t* out = pyd_host_operand(command, 0);
  const uint32_t one = 0x3F800000u;  // 1.0 as the bits of an f32
  (void)reserved;
  if (command->device == PYD_HOST_VULKAN) {
    ((fill_fn_t)context)(command->command_buffer, (uint64_t)(uintptr_t)out->data, out->offset, out->bytes, one);
    return 0;
  }
  if (command->device == PYD_HOST_CUDA) {
    return ((memset_fn_t)context)((uint64_t)(uintptr_t)out->data, one, out->bytes / 4, command->stream);
  }
  for (uint64_t i = 0; i < out->bytes / 4; ++i) memcpy((char*)out->data + 4 * i, &one, 4);
  return 0;
}

PYD_PLUGIN("commands", "the host commands of examples/commands", PYD_PLUGIN_COMMAND("center", center),
           PYD_PLUGIN_COMMAND("ones", ones), PYD_PLUGIN_COMMAND("pack", pack))
