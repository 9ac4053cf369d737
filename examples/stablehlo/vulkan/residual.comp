// cpu/residual.c for Vulkan, with workgroups of 64 invocations.
//   glslangValidator -V residual.comp -o residual.spv
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Y { float y[]; };
layout(set = 0, binding = 2) buffer Out { float result[]; };
layout(push_constant) uniform Constants { uint count; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < count) result[i] = x[i] + 0.5 * y[i];
}
