// Multiplies the second vector by the first.
struct Constants { n: u32 }
@group(3) @binding(0) var<uniform> constants: Constants;

@group(0) @binding(0) var<storage, read> factor: array<f32>;
@group(0) @binding(1) var<storage, read_write> values: array<f32>;

@compute @workgroup_size(64)
fn mul_inplace(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < constants.n) { values[id.x] *= factor[id.x]; }
}
