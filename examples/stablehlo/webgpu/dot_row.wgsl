// dot_row of cpu/functions.c for WebGPU.
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> product: array<f32>;
var<private> local_invocation_index: u32;
var<private> workgroup_size: vec3u;

fn dot_row(a: u32, a_offset: u32, b: u32, b_offset: u32, base: u32, out_offset: u32, depth: u32, columns: u32, row: u32) {
  for (var column = local_invocation_index; column < columns; column += workgroup_size.x) {
    var sum = 0.0;
    for (var k = 0u; k < depth; k++) {
      sum += left[a + a_offset + row * depth + k] * right[b + b_offset + k * columns + column];
    }
    product[base + out_offset + row * columns + column] = sum;
  }
}
