// Specs of the `transform` and `pdl` dialects, each operation at least once.
module attributes {transform.with_named_sequence} {
util.func private @kernel(tensor<4xf32>) -> tensor<4xf32>
transform.named_sequence @matcher(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_value) attributes {kept} {
  %n = transform.param.constant 2 : i64 -> !transform.param<i64>
  %text = transform.param.constant "x" {kept} -> !transform.any_param
  transform.match.operation_name %op ["linalg.generic", "linalg.fill"] {kept} : !transform.any_op
  transform.match.operation_empty %op : !transform.any_op
  transform.match.param.cmpi eq %n, %n : !transform.param<i64>
  transform.match.structured failures(propagate) %op : !transform.any_op {
  ^bb0(%g: !transform.any_op):
    %rank = transform.match.structured.rank %g : (!transform.any_op) -> !transform.param<i64>
    %ins = transform.match.structured.num_inputs %g : (!transform.any_op) -> !transform.param<i64>
    %outs = transform.match.structured.num_inits %g : (!transform.any_op) -> !transform.param<i64>
    %value = transform.match.structured.input %g[0] : (!transform.any_op) -> !transform.any_value
    %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
    transform.match.structured.dim %g[all] {parallel} : !transform.any_op
    %sizes = transform.match.structured.dim %g[except(0, -1)] {reduction} : (!transform.any_op) -> !transform.param<i64>
    %init = transform.match.structured.init %g[0] {permutation} : (!transform.any_op) -> !transform.affine_map
    %result = transform.match.structured.result %g[0] {single} : (!transform.any_op) -> !transform.any_op
    transform.match.structured.body %g {reduction_position = 0 : i64} : !transform.any_op
    transform.match.structured.yield %g : !transform.any_op
  }
  %in = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
  transform.iree.match.cast_compatible_type %in = tensor<?xf32> : !transform.any_value
  transform.iree.match.dim_is_multiple_of %in[0], 32 : !transform.any_value
  transform.iree.match.dim_bounds %in[0], umin = 1, none : !transform.any_value
  transform.iree.match.dim_bounds %in[0], none, umax = 4 : !transform.any_value
  transform.iree.match.has_no_lowering_config %op : !transform.any_op
  transform.iree.match.regions %op : !transform.any_op {
    ^bb0(%t: tensor<4xf32>):
      %0 = arith.addf %t, %t : tensor<4xf32>
  }
  %dag:2 = transform.iree.match.cast_compatible_dag_from_root %op {
    ^bb0(%t: tensor<4xf32>):
      %0 = arith.addf %t, %t : tensor<4xf32>
  } {kept} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
  transform.yield %op, %in : !transform.any_op, !transform.any_value
}
transform.named_sequence private @action(%op: !transform.any_op, %in: !transform.any_value) {
  %a = transform.get_result %op[all] : (!transform.any_op) -> !transform.any_value
  %def = transform.get_defining_op %a : (!transform.any_value) -> !transform.any_op
  %producer = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op
  %users = transform.get_consumers_of_result %op[0] : (!transform.any_op) -> !transform.any_op
  %parent = transform.get_parent_op %op {op_name = "util.func"} : (!transform.any_op) -> !transform.any_op
  %m = transform.util.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
  %old = transform.iree.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
  %merged = transform.merge_handles deduplicate %op, %def {kept} : !transform.any_op
  %first, %second = transform.split_handle %merged : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %count = transform.num_associations %op : (!transform.any_op) -> !transform.param<i64>
  %cast = transform.cast %op : !transform.any_op to !transform.op<"linalg.generic">
  %f = transform.util.import_symbol @kernel into %m if undefined {kept} : (!transform.any_op) -> !transform.any_op
  %g = transform.iree.import_symbol @kernel into %m force : (!transform.any_op) -> !transform.any_op
  %call = transform.util.cast_and_call %f(%in) -> %a after %op {
    transform.type_conversion.tensor.cast_shape_dynamic_dims ignore_dynamic_info {kept}
  } {kept} : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
  %call2 = transform.func.cast_and_call @kernel(%in) -> %a, %a before %op : (!transform.any_value, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
  transform.apply_dce to %m {kept} : !transform.any_op
  transform.apply_cse to %m : !transform.any_op
  transform.apply_patterns to %m {
    transform.apply_patterns.canonicalization {kept}
  } : !transform.any_op
  %p = transform.apply_registered_pass "cse" with options = "a=b" to %m {kept} : (!transform.any_op) -> !transform.any_op
  %q = transform.apply_registered_pass "cse" to %p : (!transform.any_op) -> !transform.any_op
  transform.annotate %op "mark" {kept} : !transform.any_op
  transform.annotate %op "mark" = %count : !transform.any_op, !transform.param<i64>
  transform.print %op {name = "here"} : !transform.any_op
  transform.print
  transform.yield
}
transform.named_sequence @__transform_main(%m: !transform.any_op) {
  %funcs = transform.structured.match ops{["util.func"]} interface{LinalgOp} attributes {kept} filter_result_type = f32 in %m : (!transform.any_op) -> !transform.any_op
  %all = transform.structured.match in %m : (!transform.any_op) -> !transform.any_op
  transform.foreach %funcs : !transform.any_op {
  ^bb0(%f: !transform.any_op):
    %r = transform.foreach_match restrict_root flatten_results in %f @matcher -> @action, @matcher -> @action {kept} : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  %i:2 = transform.include @matcher failures(propagate) (%m) {kept} : (!transform.any_op) -> (!transform.any_op, !transform.any_value)
  transform.include @action failures(suppress) (%i#0, %i#1) : (!transform.any_op, !transform.any_value) -> ()
  transform.yield
}
}
pdl.pattern @p : benefit(2) {
  %t = pdl.type : f32
  %t2 = pdl.type
  %ts = pdl.types : [f32, f32]
  %a = pdl.attribute = 1 : i32
  %a2 = pdl.attribute
  %x = pdl.operand : %t
  %xs = pdl.operands : %ts
  %op = pdl.operation "test.op" (%x, %xs : !pdl.value, !pdl.range<value>) {"a" = %a, "b" = %a2} -> (%t2 : !pdl.type)
  %r = pdl.result 0 of %op
  %rs = pdl.results of %op
  pdl.apply_native_constraint "check"(%r, %rs : !pdl.value, !pdl.range<value>)
  pdl.rewrite %op {
    %c = pdl.type : f64
    %new = pdl.operation "test.new" -> (%t2 : !pdl.type)
    %made = pdl.apply_native_rewrite "make"(%r : !pdl.value) : !pdl.value
    %range = pdl.range %r, %rs : !pdl.value, !pdl.range<value>
    pdl.replace %op with %new
    pdl.erase %new
  }
}
