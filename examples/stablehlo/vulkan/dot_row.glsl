// dot_row of cpu/functions.c for Vulkan.
#version 450
layout(binding = 0) readonly buffer Left { float left[]; };
layout(binding = 1) readonly buffer Right { float right[]; };
layout(binding = 2) buffer Product { float product[]; };

void dot_row(uint a, uint a_offset, uint b, uint b_offset, uint base, uint out_offset, uint depth, uint columns,
             uint row) {
  for (uint column = gl_LocalInvocationIndex; column < columns; column += gl_WorkGroupSize.x) {
    float sum = 0.0;
    for (uint k = 0; k < depth; ++k)
      sum += left[a + a_offset + row * depth + k] * right[b + b_offset + k * columns + column];
    product[base + out_offset + row * columns + column] = sum;
  }
}
