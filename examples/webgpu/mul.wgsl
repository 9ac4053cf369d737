// Two kernels for vectors of any length, of which constants.n elements are there.
struct Constants { n: u32 }
@group(3) @binding(0) var<uniform> constants: Constants;

@group(0) @binding(0) var<storage, read> lhs: array<f32>;
@group(0) @binding(1) var<storage, read> rhs: array<f32>;
@group(0) @binding(2) var<storage, read_write> product: array<f32>;

@compute @workgroup_size(64)
fn mul(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < constants.n) { product[id.x] = lhs[id.x] * rhs[id.x]; }
}
