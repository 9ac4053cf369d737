// cpu/scale_rows.c for WebGPU: a workgroup is one row.
struct Constants { columns: u32 }
@group(3) @binding(0) var<uniform> constants: Constants;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> scale: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn scale_rows(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) invocation: u32) {
  for (var i = invocation; i < constants.columns; i += 64u) {
    let at = id.x * constants.columns + i;
    result[at] = x[at] * scale[id.x];
  }
}
