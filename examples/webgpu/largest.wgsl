// Where the largest element of a row is: one workgroup of 32 looks through it, each invocation at its own elements, then
// pairs of invocations compare. The result is an i64, two words.
struct Constants { count: u32 }
@group(3) @binding(0) var<uniform> constants: Constants;

@group(0) @binding(0) var<storage, read> row: array<f32>;
@group(0) @binding(1) var<storage, read_write> at: array<vec2u>;

var<workgroup> best: array<f32, 32>;
var<workgroup> places: array<u32, 32>;

@compute @workgroup_size(32)
fn largest(@builtin(local_invocation_index) me: u32) {
  var found = me;
  for (var i = me + 32u; i < constants.count; i += 32u) {
    if (row[i] > row[found]) { found = i; }
  }
  best[me] = row[found];
  places[me] = found;
  for (var half = 16u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (me < half) {
      let other = me + half;
      if (best[other] > best[me] || (best[other] == best[me] && places[other] < places[me])) {
        best[me] = best[other];
        places[me] = places[other];
      }
    }
  }
  if (me == 0u) { at[0] = vec2u(places[0], 0u); }
}
