// cpu/residual.c for WebGPU, with workgroups of 64 invocations.
struct Constants { count: u32 }
@group(3) @binding(0) var<uniform> constants: Constants;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn residual(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < constants.count) { result[id.x] = x[id.x] + 0.5 * y[id.x]; }
}
