// hard_swish_workgroup of cpu/functions.c for WebGPU. All invocations of a workgroup call it together. The variable with
// binding k is the k-th memref of the call; of a memref its base, in elements, is passed.
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read_write> swished: array<f32>;
var<private> local_invocation_index: u32;  // those of the kernel
var<private> workgroup_size: vec3u;

fn hard_swish_workgroup(x: u32, x_offset: u32, base: u32, out_offset: u32, size: u32, first: u32) {
  let end = min(size, first + 64u);
  for (var i = first + local_invocation_index; i < end; i += workgroup_size.x) {
    let value = left[x + x_offset + i];
    swished[base + out_offset + i] = value * clamp(value + 3.0, 0.0, 6.0) / 6.0;
  }
}
