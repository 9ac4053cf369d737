// cpu/plugin.c for Vulkan: device.add_plugin("plugin.spv").
//   glslangValidator -V -g --keep-uncalled -S comp plugin.glsl -o plugin.spv
#version 450
layout(local_size_x_id = 0) in;  // gl_WorkGroupSize is that of the kernel
layout(binding = 0) readonly buffer Left { float left[]; };
layout(binding = 1) buffer Clipped { float clipped[]; };
layout(binding = 1) readonly buffer Right { float right[]; };
layout(binding = 2) buffer Squares { float squares[]; };

void clip_workgroup(uint x, uint x_offset, uint base, uint out_offset, uint size, uint first) {
  uint end = min(size, first + 64);
  for (uint i = first + gl_LocalInvocationIndex; i < end; i += gl_WorkGroupSize.x)
    clipped[base + out_offset + i] = clamp(left[x + x_offset + i], -1.0, 1.0);
}

void squared_difference(uint a, uint a_offset, uint b, uint b_offset, uint base, uint out_offset, uint count) {
  for (uint i = gl_LocalInvocationIndex; i < count; i += gl_WorkGroupSize.x) {
    float difference = left[a + a_offset + i] - right[b + b_offset + i];
    squares[base + out_offset + i] = difference * difference;
  }
}

void main() {}
