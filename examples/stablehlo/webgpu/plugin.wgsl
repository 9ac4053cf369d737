// cpu/plugin.c for WebGPU: device.add_plugin("plugin.wgsl").
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read_write> clipped: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> squares: array<f32>;
var<private> local_invocation_index: u32;
var<private> workgroup_size: vec3u;

fn clip_workgroup(x: u32, x_offset: u32, base: u32, out_offset: u32, size: u32, first: u32) {
  let end = min(size, first + 64u);
  for (var i = first + local_invocation_index; i < end; i += workgroup_size.x) {
    clipped[base + out_offset + i] = clamp(left[x + x_offset + i], -1.0, 1.0);
  }
}

fn squared_difference(a: u32, a_offset: u32, b: u32, b_offset: u32, base: u32, out_offset: u32, count: u32) {
  for (var i = local_invocation_index; i < count; i += workgroup_size.x) {
    let difference = left[a + a_offset + i] - right[b + b_offset + i];
    squares[base + out_offset + i] = difference * difference;
  }
}
