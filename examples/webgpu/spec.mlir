// Puts the kernel of largest.wgsl in place of a reduction to the index of the largest element: a transform spec for program.mlir.
module attributes {transform.with_named_sequence} {
func.func private @largest_of_row(%row: tensor<1x?xf32>) -> tensor<1xi64> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %row, %c1 : tensor<1x?xf32>
  %count = arith.index_cast %n : index to i32
  %at = hal.dispatch.extern "largest"[%n](%count, %row) : (i32, tensor<1x?xf32>{%n}) -> tensor<1xi64>
    count(%device: !hal.device, %w: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }
    layout(#hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
    objects({ #hal.executable.target<"webgpu-wgsl", "webgpu-wgsl-fb"> ordinal(0) = [#hal.executable.object<{path = "largest.wgsl"}>] })
  return %at : tensor<1xi64>
}
transform.named_sequence @is_largest_of_row(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op) {
  transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
  %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> (!transform.any_op) {
  ^bb1(%loops: !transform.any_op):
    %two = transform.param.constant 2 : i64 -> !transform.param<i64>
    %rank = transform.match.structured.rank %loops : (!transform.any_op) -> !transform.param<i64>
    transform.match.param.cmpi eq %rank, %two : !transform.param<i64>
    transform.match.structured.dim %loops[0] {parallel} : !transform.any_op
    transform.match.structured.dim %loops[-1] {reduction} : !transform.any_op
    transform.match.structured.yield %loops : !transform.any_op
  }
  %row = transform.get_operand %found[0] : (!transform.any_op) -> !transform.any_value
  transform.iree.match.cast_compatible_type %row = tensor<1x32xf32, array<i1: false, true>> : !transform.any_value
  transform.iree.match.regions %found : !transform.any_op {
    ^bb0(%t: tensor<1x?xf32>, %v: tensor<1xf32>, %w: tensor<1xi64>):
      %r:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
          affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
          ins(%t : tensor<1x?xf32>) outs(%v, %w : tensor<1xf32>, tensor<1xi64>) {
        ^bb0(%in: f32, %largest: f32, %at: i64):
          %i = linalg.index 1 : index
          %n = arith.index_cast %i : index to i64
          %m = arith.maximumf %in, %largest : f32
          %c = arith.cmpf ogt, %in, %largest : f32
          %s = arith.select %c, %n, %at : i64
          linalg.yield %m, %s : f32, i64
        } -> (tensor<1xf32>, tensor<1xi64>)
  }
  transform.yield %op : !transform.any_op
}
transform.named_sequence @call_shader(%op: !transform.any_op {transform.readonly}) {
  %module = transform.iree.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
  %function = transform.iree.import_symbol @largest_of_row into %module : (!transform.any_op) -> !transform.any_op
  %row = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
  %at = transform.get_result %op[1] : (!transform.any_op) -> !transform.any_value
  transform.func.cast_and_call %function(%row) -> %at before %op {
    transform.type_conversion.tensor.cast_shape_dynamic_dims
  } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
  transform.yield
}
transform.named_sequence @__transform_main(%module: !transform.any_op) {
  %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
  transform.foreach %functions : !transform.any_op {
  ^bb1(%function: !transform.any_op):
    transform.foreach_match in %function @is_largest_of_row -> @call_shader : (!transform.any_op) -> (!transform.any_op)
  }
  transform.apply_dce to %module : !transform.any_op
  transform.yield
}
}
