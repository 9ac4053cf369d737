// hard_swish_workgroup of cpu/functions.c for Vulkan. All invocations of a workgroup call a function together. The buffer with binding k is the
// k-th memref of the call; of a memref its base, in elements, is passed.
#version 450
layout(binding = 0) readonly buffer Left { float left[]; };
layout(binding = 1) buffer Swished { float swished[]; };

void hard_swish_workgroup(uint x, uint x_offset, uint base, uint out_offset, uint size, uint first) {
  uint end = min(size, first + 64);
  for (uint i = first + gl_LocalInvocationIndex; i < end; i += gl_WorkGroupSize.x) {
    float value = left[x + x_offset + i];
    swished[base + out_offset + i] = value * clamp(value + 3.0, 0.0, 6.0) / 6.0;
  }
}
