// cpu/scale_rows.c for Vulkan: a workgroup is one row.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(set = 0, binding = 2) buffer Out { float result[]; };
layout(push_constant) uniform Constants { uint columns; };

void main() {
  uint row = gl_WorkGroupID.x;
  for (uint i = gl_LocalInvocationIndex; i < columns; i += 64)
    result[row * columns + i] = x[row * columns + i] * scale[row];
}
